"""attacks/resources, the rows about whole turns: a model that calls without end, and a disk that is full."""

import asyncio
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import toolcrib
from tests.journeys.test_full_disk import crowded
from toolcrib import Call, tool
from toolcrib.define.model import Request
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

_MOMENTS = {"exec": "before the body", "tool": "before the body", "tool_call": "before the body"}


def judge_loop(case: Json) -> Outcome:
    """Let a model make a call in each of its replies, and count the replies that it was asked for."""
    asked, must = case["input"], case["must"]
    before = resources.measure_held(begins=True)
    watch = Stopwatch()
    turns, late = asyncio.run(_looped(asked["turns"], same=bool(asked.get("same_call"))))
    complaints = resources.measure({**must, "alive_during": False}, watch.took, before, resources.measure_held())
    if must.get("alive_during") and late:
        complaints.append(late)
    least, most = must.get("turns_min", must.get("turns", 0)), must.get("turns_max", must.get("turns", turns))
    if not least <= turns <= most:
        complaints.append(f"the model was asked {turns} times")
    if must["verdict"] == "allow" and turns < asked["turns"]:
        complaints.append(f"it was stopped after {turns} turns")
    if must["verdict"] == "reject" and turns >= asked["turns"]:
        complaints.append("it was let through")
    seen = {"turns": turns}
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


async def _looped(most: int, *, same: bool) -> tuple[int, str]:
    turns = 0

    @tool(effects=set())
    async def note(text: str) -> str:
        """Note a text."""
        return text

    def answer(request: Request) -> Any:
        nonlocal turns
        turns += 1
        if turns >= most:
            return text_reply("done")
        return call_reply(Call(f"c{turns}", "note", {"text": "again" if same else f"the {turns}th"}))

    late = Lateness()
    async with toolcrib.open({}, env={}) as crib, late:
        model = FunctionModel(answer, keep=False)
        await crib.turn("go", caller=toolcrib.OWNER, session="agent:main:main", model=model, extra=[note]).end()
    return turns, late.complaint


def judge_full_disk(case: Json) -> Outcome:
    """Take a turn on a disk without room, and one when there is room again: what was said before must be there."""
    must = case["must"]
    with tempfile.TemporaryDirectory() as folder:
        told = crowded(Path(folder), _MOMENTS.get(case["input"].get("during", ""), "before the message"))
    kept_words = [line.removeprefix("kept: ").partition(";")[0].split() for line in told if line.startswith("kept: ")]
    complaints = []
    if not any(line.startswith(("refused: the disk is full", "tool error: it was not run: the disk")) for line in told):
        complaints.append("nobody was told that the disk is full")
    lost = sum(after[: len(before)] != before for before, after in pairwise(kept_words))
    if lost > must.get("acknowledged_lost", 0) or "record: 0 findings, 0 uncertain" not in told:
        complaints.append(f"what was kept before is not there: {told}")
    if "turn done: fine 3" not in told:  # must.verdict allow_after_free, and there is room in the end
        complaints.append("it does not go on when there is room")
    return broken("; ".join(complaints), told) if complaints else kept(told)
