"""Killed at any moment, a workspace is as it was or as it was to be: never a third."""

from pathlib import Path

import pytest

from .kill import STRACE, State, failures, states

pytestmark = [pytest.mark.skipif(STRACE is None, reason="needs strace"), pytest.mark.timeout(300)]

FILES = {"a": b"old a", "d/b": b"old b", "c": b"old c"}
OLD: State = {"a": b"old a", "d": None, "d/b": b"old b", "c": b"old c"}

WRITES: dict[str, tuple[str, State]] = {
    "overwrite": ("a", {"a": b"new"}),
    "create": ("d/new", {"d/new": b"new"}),
    "create with folders": ("x/y/new", {"x": None, "x/y": None, "x/y/new": b"new"}),
}


EVERY = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])


@EVERY
@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_killed_leaves_the_old_or_the_new(tmp_path: Path, name: str, every: int) -> None:
    path, more = WRITES[name]
    body = f"async def body(workspace, ctx):\n    await workspace.write({path!r}, b'new')\n"
    seen = dict(states(tmp_path, FILES, body, every))
    assert seen
    assert {at: state for at, state in seen.items() if state not in (OLD, OLD | more)} == {}


CHANGE = """
from toolcrib.define.files import Change

async def body(workspace, ctx):
    await workspace.change([
        Change(path="a", data=b"new a"),
        Change(path="d/b", data=None),
        Change(path="n/m/e", data=b"new e", like="d/b"),
        Change(path="c", data=b"new c"),
    ])
"""
NEW: State = {"a": b"new a", "d": None, "c": b"new c", "n": None, "n/m": None, "n/m/e": b"new e"}


@EVERY
def test_a_change_of_several_files_that_is_killed_happened_whole_or_not_at_all(tmp_path: Path, every: int) -> None:
    seen = dict(states(tmp_path, FILES, CHANGE, every))
    assert {at: state for at, state in seen.items() if state not in (OLD, NEW)} == {}
    assert OLD in seen.values()
    assert NEW in seen.values()


def test_a_write_in_place_would_have_been_seen(tmp_path: Path) -> None:
    body = "async def body(workspace, ctx):\n    (Path(sys.argv[1]) / 'a').write_bytes(b'new')\n"
    assert b"" in [state["a"] for _, state in states(tmp_path, FILES, body)]


@EVERY
def test_on_a_full_disk_a_change_happens_whole_or_says_so_and_does_not_happen(tmp_path: Path, every: int) -> None:
    for call, said, state in failures(tmp_path, FILES, CHANGE, "ENOSPC", every):
        assert state == (OLD if said else NEW), call
        assert not said or "the disk is full" in said or "No space left" in said, call


@EVERY
def test_on_a_full_disk_a_write_happens_or_says_so_and_does_not_happen(tmp_path: Path, every: int) -> None:
    body = "async def body(workspace, ctx):\n    await workspace.write('a', b'new')\n"
    for call, said, state in failures(tmp_path, FILES, body, "ENOSPC", every):
        if "did not confirm" in said:
            continue
        assert state == (OLD if said else OLD | {"a": b"new"}), call
        assert not said or "the disk is full" in said, call
