"""A folder swapped for a link that leads out, by another process: nothing outside is ever touched."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Change, outside
from toolcrib.define.ports import Workspace

from .race import swapping

EVERY_DAY, IN_FULL = 400, 100_000


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for folder in ("ws/race/sub", "out/sub"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ws/race/f").write_text("inner")
    (tmp_path / "ws/race/sub/g").write_text("inner")
    (tmp_path / "out/f").write_text("CANARY")
    (tmp_path / "out/sub/g").write_text("CANARY")
    (tmp_path / "out/only-outside").write_text("CANARY")
    return tmp_path


Try = Callable[[Workspace], Awaitable[object]]


async def _write_and_delete(workspace: Workspace) -> None:
    await workspace.write("race/new", b"x")
    await workspace.delete("race/new")


async def _make_and_delete(workspace: Workspace) -> None:
    await workspace.mkdir("race/made/deep")
    await workspace.delete("race/made", recursive=True)


async def _move_there_and_back(workspace: Workspace) -> None:
    await workspace.move("race/f", "race/sub/f")
    await workspace.move("race/sub/f", "race/f")


async def _change(workspace: Workspace) -> None:
    await workspace.change([Change(path="race/one", data=b"1"), Change(path="race/two/three", data=b"2")])
    await workspace.delete("race/two", recursive=True)


TRIES: dict[str, Try] = {
    "read": lambda workspace: workspace.read("race/f"),
    "read deeper": lambda workspace: workspace.read("race/sub/../sub/g"),
    "lines": lambda workspace: workspace.lines("race/f", 1, 9, 99),
    "list": lambda workspace: workspace.list("race"),
    "stat": lambda workspace: workspace.stat("race/only-outside"),
    "write": _write_and_delete,
    "mkdir": _make_and_delete,
    "move": _move_there_and_back,
    "change": _change,
    "delete": lambda workspace: workspace.delete("race/only-outside"),
}


def _escapes(world: Path, kernel: bool, attempt: Try, tries: int) -> list[str]:
    """Return what was told of the outside."""
    disk = Disk(Terms(root=world / "ws", state=world / "state"), kernel=kernel)
    workspace = LocalWorkspace(disk, run=_here)
    told: set[str] = set()

    async def run() -> None:
        for _ in range(tries):
            with suppress(ToolError):
                told.add(repr(await attempt(workspace)))

    with swapping(world / "ws" / "race", "../out"):
        asyncio.run(run())
    disk.close()
    return [each for each in told if "CANARY" in each or "only-outside" in each]


async def _here(function: Callable[..., object], /, *args: object, **named: object) -> Any:
    return function(*args, **named)


@pytest.mark.parametrize("kernel", [True, False], ids=["kernel", "walk"])
@pytest.mark.parametrize("name", TRIES)
@pytest.mark.parametrize(
    "tries", [EVERY_DAY, pytest.param(IN_FULL, marks=[pytest.mark.full, pytest.mark.timeout(1_800)])]
)
def test_no_race_leads_out(world: Path, name: str, kernel: bool, tries: int) -> None:
    if name in ("write", "change", "mkdir", "move"):
        tries //= 4  # each of these waits for the disk
    assert _escapes(world, kernel, TRIES[name], tries) == []
    outer = {
        str(path.relative_to(world / "out")): path.read_text() for path in (world / "out").rglob("*") if path.is_file()
    }
    assert outer == dict.fromkeys(("f", "sub/g", "only-outside"), "CANARY")
    assert sorted(path.name for path in (world / "out").rglob("*")) == ["f", "g", "only-outside", "sub"]


class CheckThenOpen(Beneath):
    """What must not be: the path is looked at, then opened."""

    def open(self, path: str, flags: int) -> int:
        whole = os.path.join(self.path, path)  # noqa: PTH118
        if not os.path.realpath(whole).startswith(f"{self.path}/"):
            raise outside(path)
        return os.open(whole, flags)


def _first_escape(beneath: Beneath, tries: int) -> int | None:
    """Return at which try something outside was read."""
    for number in range(tries):
        with suppress(ToolError, OSError):
            fd = beneath.open("race/f", os.O_RDONLY)
            try:
                if os.read(fd, 6) == b"CANARY":
                    return number
            finally:
                os.close(fd)
    return None


@contextmanager
def _rooted(kind: type[Beneath], root: Path) -> Iterator[Beneath]:
    beneath = kind(str(root))
    try:
        yield beneath
    finally:
        beneath.close()


def test_this_race_is_one_that_a_check_before_opening_loses(world: Path) -> None:
    with swapping(world / "ws" / "race", "../out"), _rooted(CheckThenOpen, world / "ws") as careless:
        assert _first_escape(careless, 1_000_000) is not None
