"""An edit and a five-hunk patch of a 50,000-line file, against the same splices with nothing around them.

Ours is the tool over the workspace on disk: arguments checked, the path resolved beneath the root, the version seen
compared, the passage looked for, its uniqueness proven, the diff made. The floor reads the file, finds the bytes and
splices them. Both write a temporary file, sync it, rename it and sync the folder, on the same disk.
"""

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib import Caller, Ctx, Tool
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import LocalWorkspace, Workspaces
from toolcrib.define.context import CallState, Ports
from toolcrib.define.message import Call
from toolcrib.tools.fs.apply_patch import apply_patch
from toolcrib.tools.fs.edit import edit

from . import Row, Work, interleaved

__all__ = ["LINES", "PLACES", "bare", "edit_of", "measure", "patch_of", "text_of", "works"]

LINES = 50_000
PLACES = (2_505, 12_345, 25_005, 37_775, 49_995)  # the lines that the patch changes; the edit changes the third
EDIT_BAR, PATCH_BAR = 2.5, 2.5

Pairs = list[tuple[bytes, bytes]]


def text_of(lines: int) -> str:
    """Return a source file of so many lines, none of them like another."""
    return "".join(f"    value_{at} = compute({at}, scale={at % 7})\n" for at in range(lines))


def edit_of(text: str, word: str) -> tuple[str, str]:
    """Return three lines of the file, and what takes their place."""
    old = "".join(text.splitlines(keepends=True)[PLACES[2] : PLACES[2] + 3])
    return old, old.replace("value", word)


def patch_of(text: str, before: str, after: str) -> str:
    """Return a patch with a hunk for each place: a line of context to look for, three lines around, one changed."""
    lines = text.splitlines()
    hunks = []
    for at in PLACES:
        line = lines[at].replace("value", before)
        around = [f" {each}" for each in lines[at - 3 : at]], [f" {each}" for each in lines[at + 1 : at + 4]]
        hunks += [f"@@ {lines[at - 5]}", *around[0], f"-{line}", f"+{line.replace(before, after)}", *around[1]]
    return "\n".join(["*** Begin Patch", "*** Update File: patched.py", *hunks, "*** End Patch"])


def bare(path: Path, pairs: Pairs) -> None:
    """Replace each passage, which must be there once, and put the file back at once."""
    data = path.read_bytes()
    for old, new in pairs:
        at = data.find(old)
        if at < 0 or data.find(old, at + 1) >= 0:
            raise AssertionError(f"{old!r} is not there once")
        data = data[:at] + new + data[at + len(old) :]
    temporary = path.with_suffix(".new")
    with temporary.open("wb") as target:
        target.write(data)
        target.flush()
        os.fsync(target.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def works(root: Path) -> Iterator[Mapping[str, Work]]:
    """Give the four works: each does and undoes its change in turn, on a file of its own in the folder."""
    text = text_of(LINES)
    old, new = edit_of(text, "other")
    lines = [line + "\n" for line in text.splitlines()]
    places = [(f"\n{lines[at]}".encode(), f"\n{lines[at].replace('value', 'other')}".encode()) for at in PLACES]
    workspaces, loop = Workspaces(), asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as state:
        for file in ("edited.py", "patched.py", "bare.py", "bare_five.py"):
            (root / file).write_text(text)
        workspace = workspaces.open(Terms(root=root, state=Path(state)), "main")

        def call(tool: Tool, args: Mapping[str, Any]) -> None:
            loop.run_until_complete(_called(workspace, tool, args))

        swaps = [{"path": "edited.py", "oldText": one, "newText": two} for one, two in ((old, new), (new, old))]
        patches = [{"input": patch_of(text, *each)} for each in (("value", "other"), ("other", "value"))]
        once: Pairs = [(old.encode(), new.encode())]
        yield {
            "edit": _turns(*(_bound(call, edit, each) for each in swaps)),
            "patch": _turns(*(_bound(call, apply_patch, each) for each in patches)),
            "bare": _turns(*(_bound(bare, root / "bare.py", each) for each in (once, _back(once)))),
            "bare five": _turns(*(_bound(bare, root / "bare_five.py", each) for each in (places, _back(places)))),
        }
        workspaces.close()
        loop.close()


def measure(rounds: int) -> list[Row]:
    """Return both rows, measured here and now."""
    with tempfile.TemporaryDirectory() as root, works(Path(root)) as listed:
        taken = interleaved(listed, rounds, time.perf_counter)
    rows = (("edit, 50,000 lines", "edit", "bare", EDIT_BAR), ("patch, five hunks", "patch", "bare five", PATCH_BAR))
    return [
        Row(what=what, ours=taken[ours], against="bare splices, synced", floor=taken[floor], bar=bar)
        for what, ours, floor, bar in rows
    ]


async def _called(workspace: LocalWorkspace, tool: Tool, args: Mapping[str, Any]) -> None:
    call = Call(id="1", name=tool.name, args=args, key="1")
    await tool.run(Ctx(call, Caller(), CallState(), Ports(workspace=workspace)), tool.check(args))


def _back(pairs: Pairs) -> Pairs:
    return [(new, old) for old, new in pairs]


def _bound(work: Callable[..., None], *args: Any) -> Work:
    return lambda: work(*args)


def _turns(*each: Work) -> Work:
    """Return a work that does one, then the other, and so on."""
    ahead = itertools.cycle(each)
    return lambda: next(ahead)()
