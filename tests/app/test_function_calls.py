"""One warm call makes no more function calls than it may: what is not configured costs nothing (G40)."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import OWNER, Caller, Sender, tool
from toolcrib import open as open_crib

pytestmark = pytest.mark.anyio

GUEST = Caller(channel="telegram", sender=Sender(id="7"))


@tool(effects=set())
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def count_calls(work: Callable[[], Awaitable[Any]], where: str = "") -> int:
    """Return how many functions of Python are called once everything is warm.

    The fewest of some times: what is called meanwhile for garbage or in another thread is not ours. With `where` those
    alone whose files have it in their path: how often a loop looks for a thread's end is chance.
    """
    counts = list[int]()

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and where in frame.f_code.co_filename:
            counts[-1] += 1

    for _ in range(4):
        await work()
    for _ in range(5):
        counts.append(0)
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await work()
        finally:
            sys.setprofile(before)
    assert counts.count(min(counts)) > 1
    return min(counts)


@pytest.mark.parametrize("caller", [OWNER, Caller(), GUEST], ids=["owner", "program", "guest"])
async def test_a_call_over_a_belt_that_one_holds_makes_few_function_calls(caller: Caller) -> None:
    belt = open_crib({}, tools=[add]).belt(caller)
    assert await count_calls(lambda: belt.call("add", {"a": 1, "b": 2})) <= 43


@pytest.mark.parametrize(("caller", "most"), [(OWNER, 195), (Caller(), 198)], ids=["owner", "program"])
@pytest.mark.parametrize("has_folder", [False, True])
async def test_a_belt_and_a_call_over_it_make_few_function_calls(
    caller: Caller, most: int, has_folder: bool, tmp_path: Path
) -> None:
    crib = open_crib({"workspace": {"root": str(tmp_path)}} if has_folder else {}, tools=[add])
    assert await count_calls(lambda: crib.belt(caller).call("add", {"a": 1, "b": 2})) <= most + 19 * has_folder


@pytest.mark.parametrize(("name", "args", "most"), [("read", {"path": "a.txt"}, 100), ("ls", {"path": "."}, 73)])
async def test_a_call_that_reads_files_makes_few_function_calls(
    name: str, args: dict[str, str], most: int, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("hello\n" * 5)
    belt = open_crib({"workspace": {"root": str(tmp_path)}}).belt(OWNER)
    assert await count_calls(lambda: belt.call(name, args), "/toolcrib/") <= most
