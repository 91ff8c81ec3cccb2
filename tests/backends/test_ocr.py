"""What is written in pictures, read by a real tesseract; and programs in its place that hang, fail and go on."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.backends.exec.shells import until
from tests.tools.media.pictures import claim_png, draw, save

from toolcrib.backends.exec import tree
from toolcrib.backends.ocr import Tesseract
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="impossible here: no tesseract is installed")


@asynccontextmanager
async def reading(folder: Path | None = None, program: str = "", **named: Any) -> AsyncIterator[Tesseract]:
    """Give a reader; with a `program`, that script is what it finds."""
    if folder is not None and program:
        (folder / "tesseract").write_text(f"#!/bin/sh\n{program}\n")
        (folder / "tesseract").chmod(0o755)
    reader = Tesseract(partial(shutil.which, path=folder and str(folder)), **named)
    try:
        yield reader
    finally:
        await reader.close()


@needs_tesseract
async def test_the_words_in_a_picture_are_read() -> None:
    async with reading() as reader:
        assert await reader.read(save(draw("Nuts in drawer 3"))) == "Nuts in drawer 3"
        assert await reader.read(save(draw("Nuts in drawer 3"), "WEBP")) == "Nuts in drawer 3"
        assert await reader.read(save(draw())) == ""


@needs_tesseract
@pytest.mark.parametrize(
    "picture",
    [b"", b"/etc/passwd", save(draw("Nuts"))[:300], claim_png(60_000, 60_000), claim_png(30_000, 30_000, rows=50)],
    ids=["empty", "a path", "cut off", "gigapixels", "a bomb"],
)  # fmt: skip
async def test_a_picture_made_to_hurt_is_a_failure_of_one_sentence(picture: bytes) -> None:
    async with reading() as reader:
        with pytest.raises(ToolError, match="tesseract read no text in it: "):
            await reader.read(picture)


async def test_where_it_is_not_installed_nobody_reads(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        assert await reader.read(b"") is None


async def test_it_gets_the_picture_and_no_name_a_small_environment_and_its_text_is_bounded(tmp_path: Path) -> None:
    async with reading(tmp_path, 'echo "$@"; /bin/cat; /usr/bin/env') as reader:
        told = str(await reader.read(b"PICTURE\n"))
    assert told.startswith("stdin stdout --psm 3\nPICTURE\n")
    assert {line.partition("=")[0] for line in told.splitlines() if "=" in line} <= {
        "LC_ALL", "OMP_THREAD_LIMIT", "PATH", "PWD", "OLDPWD", "SHLVL", "_",
    }  # fmt: skip
    async with reading(tmp_path, "/usr/bin/yes | /usr/bin/head -c 1000000") as reader:
        assert len(str(await reader.read(b""))) < 200_001


async def test_one_that_hangs_is_ended_and_says_so(tmp_path: Path) -> None:
    async with reading(tmp_path, "exec /bin/sleep 1000", seconds=0.2) as reader:
        with pytest.raises(ToolError, match=r"it took longer than 0\.2 s"):
            await reader.read(b"")


async def test_one_that_fails_says_so(tmp_path: Path) -> None:
    async with reading(tmp_path, "exit 1") as reader:
        with pytest.raises(ToolError, match="it cannot be read"):
            await reader.read(b"")


async def test_a_call_that_is_stopped_leaves_no_process(tmp_path: Path) -> None:
    async with reading(tmp_path, f"echo $$ > {tmp_path}/pid; exec /bin/sleep 1000") as reader:
        task = asyncio.ensure_future(reader.read(b""))
        noted = tmp_path / "pid"
        await until(lambda: noted.exists() and bool(noted.read_text().strip()))
        pid = int(noted.read_text())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: tree.birth(pid) is None)
