"""Races: what a rule judged by path is what the body opens, whatever takes its place meanwhile."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted

import toolcrib
from toolcrib import Belt, Caller, Ctx, Result, tool
from toolcrib.backends.files.local import LocalWorkspace

pytestmark = pytest.mark.anyio

CALLER = Caller(owner=True, provider="openai", model="gpt-5")
PATCH = "*** Begin Patch\n*** Update File: notes/plan.md\n@@\n-open\n+mine\n*** End Patch\n"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "notes/plan.md"}),
    ("write", {"path": "notes/plan.md", "content": "mine\n"}),
    ("write", {"path": "notes/new.md", "content": "mine\n"}),
    ("edit", {"path": "notes/plan.md", "oldText": "open", "newText": "mine"}),
    ("apply_patch", {"input": PATCH}),
    ("ls", {"path": "notes"}),
    ("grep", {"pattern": "SECRET", "path": "notes"}),
    ("find", {"pattern": "*", "path": "notes"}),
    ("image", {"image": "notes/plan.md"}),
    ("remove", {"path": "notes/plan.md"}),
    ("rename", {"path": "notes/plan.md"}),
]
RULES: list[dict[str, Any]] = [
    {"deny": [{"tool": "*", "when": {"path": "docs/**"}}]},
    {"allow": [{"tool": "*", "when": {"path": "notes/**"}}]},
]


@tool(effects={"write"}, paths=("path",))
async def remove(ctx: Ctx, path: str) -> Result:
    """Delete a file."""
    await ctx.workspace.delete(path)
    return Result.text("done")


@tool(effects={"write"}, paths=("path",))
async def rename(ctx: Ctx, path: str) -> Result:
    """Give a file another name."""
    await ctx.workspace.move(path, f"{path}.old")
    return Result.text("done")


class Swapped(LocalWorkspace):
    """A workspace where somebody puts a link in the place of a folder right after a path was resolved."""

    swap: Callable[[], None]

    async def resolve(self, path: str, /) -> str:
        real = await super().resolve(path)
        self.swap()
        return real


def filled(folder: Path) -> Path:
    root = folder / "work"
    for name, text in {"docs/plan.md": "SECRET open\n", "docs/deep.md": "SECRET\n", "notes/plan.md": "open\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def belt_of(root: Path, rules: dict[str, Any]) -> Belt:
    config = {"workspace": {"root": str(root)}, "tools": rules}
    return toolcrib.open(config, tools=[remove, rename], env={}).belt(CALLER)


def held(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (root / "docs").iterdir()}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("name", "args"), CALLS)
async def test_a_link_that_takes_the_place_of_a_judged_folder_is_not_followed(
    tmp_path: Path, name: str, args: dict[str, Any], rules: dict[str, Any]
) -> None:
    root = filled(tmp_path)
    belt, before = belt_of(root, rules), held(root)
    assert isinstance(belt.ports.workspace, LocalWorkspace)
    raced = Swapped(belt.ports.workspace._disk)

    def swap() -> None:
        if not (root / "notes").is_symlink():
            (root / "notes").rename(root / "gone")
            (root / "notes").symlink_to("docs")

    raced.swap = swap
    belt = replace(belt, ports=replace(belt.ports, workspace=raced))
    result = await belt.call(name, args)
    assert "SECRET" not in result.plain_text
    assert "deep.md" not in result.plain_text
    assert held(root) == before


RACER = """
import ctypes, os, sys
root = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
os.symlink("docs", f"{root}/other")
print("ready", flush=True)
a, b = os.fsencode(f"{root}/notes"), os.fsencode(f"{root}/other")
while True:  # RENAME_EXCHANGE: each is there at every moment
    libc.renameat2(-100, a, -100, b, 2)
"""


@contextmanager
def racing(root: Path) -> Iterator[None]:
    racer = prestarted.Popen([sys.executable, "-c", RACER, str(root)], stdout=subprocess.PIPE, text=True)
    try:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
        yield
    finally:
        racer.kill()
        racer.wait()
        assert racer.stdout is not None
        racer.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="impossible here: names are not exchanged in one step")
async def test_a_program_that_swaps_a_folder_for_a_link_gets_nothing_past_a_rule(tmp_path: Path) -> None:
    root = filled(tmp_path)
    belt, before, served = belt_of(root, RULES[0]), held(root), 0
    with racing(root):
        for at in range(150):
            told = await belt.call("read", {"path": "notes/plan.md"})
            assert "SECRET" not in told.plain_text
            served += told.status == "ok"
            await belt.call("write", {"path": f"notes/new{at}.md", "content": "mine"})
            assert "SECRET" not in (await belt.call("grep", {"pattern": "SECRET", "path": "notes"})).plain_text
    assert held(root) == before
    assert served  # where it was not swapped, it is read
