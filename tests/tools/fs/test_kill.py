"""Killed at any moment, edit and apply_patch leave what was there or what was to be: never a third."""

from pathlib import Path

import pytest
from tests.backends.files.kill import STRACE, State, states

pytestmark = [pytest.mark.skipif(STRACE is None, reason="needs strace"), pytest.mark.timeout(300)]

FILES = {"a": b"one\r\ntwo\r\n", "d/b": b"x\ny\n", "c": b"gone\n"}
OLD: State = {"a": b"one\r\ntwo\r\n", "d": None, "d/b": b"x\ny\n", "c": b"gone\n"}

PROGRAM = """
import asyncio
from toolcrib.tools.fs.{tool} import {tool}

ARGS = {args!r}

async def prepare(workspace, ctx):
    {tool}.check(ARGS)
    await asyncio.to_thread(len, "")

async def body(workspace, ctx):
    await {tool}.run(ctx, {tool}.check(ARGS))
"""

PATCH = """*** Begin Patch
*** Update File: a
@@
-two
+2
*** Update File: d/b
*** Move to: n/m/b
@@
 x
-y
+z
*** Delete File: c
*** Add File: e
+new
*** End Patch"""

CASES: dict[str, tuple[dict[str, object], State]] = {
    "edit": ({"path": "a", "oldText": "one\ntwo", "newText": "one\nTWO"}, {**OLD, "a": b"one\r\nTWO\r\n"}),
    "apply_patch": (
        {"input": PATCH},
        {"a": b"one\r\n2\r\n", "d": None, "n": None, "n/m": None, "n/m/b": b"x\nz\n", "e": b"new\n"},
    ),
}


@pytest.mark.parametrize("tool", ["edit", pytest.param("apply_patch", marks=pytest.mark.full)])
def test_a_tool_that_is_killed_leaves_the_old_or_the_new(tmp_path: Path, tool: str) -> None:
    args, new = CASES[tool]
    seen = dict(states(tmp_path, FILES, PROGRAM.format(tool=tool, args=args)))
    assert {at: state for at, state in seen.items() if state not in (OLD, new)} == {}
    assert OLD in seen.values()
