"""Pictures for the documentation: `pytest tests/doors/web --pictures docs/images` takes them anew."""

import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.one_browser import anyio_backend, browser_of_the_file  # noqa: F401  fixtures

TakePicture = Callable[[Any, str], Awaitable[None]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the folder that pictures of the page are put into."""
    parser.addoption("--pictures", metavar="FOLDER", help="take pictures of the page into this folder")


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> TakePicture:
    """Take a picture of a page, with few colours: nothing without the option."""
    folder = request.config.getoption("--pictures", default=None)
    root = request.config.rootpath

    async def take(page: Any, name: str) -> None:
        if folder:
            from PIL import Image  # noqa: PLC0415  an extra

            shot = Image.open(io.BytesIO(await page.screenshot()))
            shot.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(Path(root, folder, f"page-{name}.png"))

    return take
