"""Many calls of one reply: checked in their order, run side by side, answered in their order."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.agent.hooks import bind_guards
from toolcrib.agent.invoke import invoke_all
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.message import Call
from toolcrib.define.plugin import Block, Word
from toolcrib.define.record import Finished
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool, tool

from .test_invoke import belt_of

pytestmark = pytest.mark.anyio


class Stage:
    """Bodies that wait for their cue, and a list of what happened, in order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self._cues: dict[str, asyncio.Event] = {}

    def cue(self, who: str) -> asyncio.Event:
        return self._cues.setdefault(who, asyncio.Event())

    async def play(self, who: str) -> str:
        self.happened.append(f"{who} in")
        await self.cue(who).wait()
        self.happened.append(f"{who} out")
        return who

    def tools(self) -> tuple[Tool, Tool]:
        """Return one tool that may overlap with others and one that may not."""

        @tool
        async def share(who: str) -> str:
            """Run beside others."""
            return await self.play(who)

        @tool(exclusive=True)
        async def alone(who: str) -> str:
            """Run alone."""
            return await self.play(who)

        return share, alone


def ctxs(*calls: tuple[str, str]) -> list[Ctx]:
    return [Ctx(Call(id="same", name=name, args={"who": who}), Caller(), CallState()) for name, who in calls]


async def until(stage: Stage, *happened: str) -> None:
    """Give the others their turns until just this has happened."""
    for _ in range(200):
        await asyncio.sleep(0)
    assert stage.happened == list(happened)


def texts(results: list[Result]) -> list[str]:
    return [part.text for result in results for part in result.content]  # type: ignore[union-attr]  # all words here


async def test_bodies_run_side_by_side_and_answers_come_in_the_order_of_the_calls() -> None:
    stage, record = Stage(), MemoryRecord()
    task = asyncio.ensure_future(
        invoke_all(belt_of(*stage.tools()), ctxs(("share", "a"), ("share", "b")), CallPipeline(record=record))
    )
    await until(stage, "a in", "b in")
    stage.cue("b").set()
    await until(stage, "a in", "b in", "b out")
    stage.cue("a").set()
    assert texts(await task) == ["a", "b"], "two calls with one id are both run and both answered"
    assert sum(isinstance(entry, Finished) for entry in record.entries) == 2


@pytest.mark.parametrize("second", ["share", "alone"])
async def test_an_exclusive_body_lets_nobody_in_before_it_is_out(second: str) -> None:
    stage = Stage()
    pipeline = CallPipeline(record=MemoryRecord())
    task = asyncio.ensure_future(
        invoke_all(belt_of(*stage.tools()), ctxs(("share", "a"), ("alone", "b"), (second, "c")), pipeline)
    )
    await until(stage, "a in")
    stage.cue("a").set()
    await until(stage, "a in", "a out", "b in")
    stage.cue("b").set()
    await until(stage, "a in", "a out", "b in", "b out", "c in")
    stage.cue("c").set()
    assert texts(await task) == ["a", "b", "c"]


async def test_checks_are_made_one_after_another_also_when_the_first_takes_its_time() -> None:
    stage = Stage()

    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        await stage.play(f"check {args['who']}")
        return Block("not this one") if args["who"] == "a" else None

    pipeline = CallPipeline(record=MemoryRecord(), guards=bind_guards([guard]))
    stage.cue("b").set()
    task = asyncio.ensure_future(invoke_all(belt_of(*stage.tools()), ctxs(("alone", "a"), ("share", "b")), pipeline))
    await until(stage, "check a in")
    stage.cue("check a").set()
    await until(stage, "check a in", "check a out", "check b in")
    stage.cue("check b").set()
    assert [result.status for result in await task] == ["error", "ok"], "a call that is blocked holds nobody up"


async def test_stop_ends_what_runs_and_what_has_not_started_never_starts() -> None:
    stage, record = Stage(), MemoryRecord()
    task = asyncio.ensure_future(
        invoke_all(belt_of(*stage.tools()), ctxs(("alone", "a"), ("alone", "b")), CallPipeline(record=record))
    )
    await until(stage, "a in")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stage.happened == ["a in"]
    finished = [entry for entry in record.entries if isinstance(entry, Finished)]
    assert [(entry.status, entry.ran) for entry in finished] == [("cancelled", True), ("cancelled", False)]
