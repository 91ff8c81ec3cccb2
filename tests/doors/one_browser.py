"""One Chromium for the tests of a file: half of what a test of a page takes is its start."""

from collections.abc import AsyncIterator

import pytest

__all__ = ["anyio_backend", "browser_of_the_file"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The tests of a file run on one loop, which the browser that they share stands on."""
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
async def browser_of_the_file(anyio_backend: str) -> AsyncIterator[None]:
    from tests.doors.gateway.canvas_world import keeping_browser  # noqa: PLC0415  needs the extra gateway

    async with keeping_browser():
        yield
