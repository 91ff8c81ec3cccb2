"""One call that is finished later, without a store: its time, and where it waits."""

import asyncio
from dataclasses import dataclass, field

import pytest

from toolcrib.agent.deadline import Clock, UnhurriedWaiter
from toolcrib.agent.invoke import invoke
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.caller import OWNER
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.message import Call
from toolcrib.define.record import Finished, Started
from toolcrib.define.result import Result
from toolcrib.define.tool import tool
from toolcrib.define.verdict import Selection, Verdict

pytestmark = pytest.mark.anyio

CALL = Call("1", "slow", {}, "key-1")


@tool(effects=set(), timeout=3.0)
async def slow(ctx: Ctx) -> Result:
    """Have it done."""
    return await ctx.later("x")


@dataclass
class Waiter:
    """Completes a call after so many seconds."""

    seconds: float
    asked: list[str] = field(default_factory=list)

    async def wait(self, call: Call, /) -> Result:
        self.asked.append("wait")
        await asyncio.sleep(self.seconds)
        return Result.text("done")

    async def withdraw(self, call: Call, /) -> bool:
        self.asked.append("withdraw")
        return True

    async def take(self, call: Call, /) -> None:
        self.asked.append("take")


async def keep(ctx: Ctx, handle: str, seconds: float) -> str:
    return handle


def belt(decision: str = "allow") -> Selection:
    verdict = Verdict("slow", decision, None, None, None, "a rule says so", "")  # type: ignore[arg-type]  # a word of three
    tools = {} if decision == "deny" else {"slow": slow}
    return Selection(tools=tools, verdicts={"slow": verdict}, steps=lambda name: ())


async def test_the_time_of_the_turn_stands_still_while_somebody_else_does_the_work() -> None:
    clock = Clock(3.0)
    async with clock.running():
        assert (await UnhurriedWaiter(Waiter(3.2), clock).wait(CALL)).plain_text == "done"
    assert not clock.is_over


async def test_so_does_the_time_of_the_tool() -> None:
    waiter, course = Waiter(3.2), CallState()
    course.in_turn = True
    pipeline = CallPipeline(record=MemoryRecord(), later=waiter)
    result = await invoke(belt(), Ctx(CALL, OWNER, course, Ports(later=keep)), pipeline)
    assert (result.plain_text, waiter.asked) == ("done", ["wait"])


async def test_a_call_that_goes_on_in_another_process_does_not_run_its_body_again() -> None:
    record, waiter = MemoryRecord(), Waiter(0)
    course = CallState.of_pending("x", None, in_turn=True)
    result = await invoke(belt(), Ctx(CALL, OWNER, course), CallPipeline(record=record, later=waiter))
    assert result.plain_text == "done"
    assert not any(isinstance(entry, Started) for entry in record.entries)
    assert [entry.status for entry in record.entries if isinstance(entry, Finished)] == ["ok"]


async def test_what_came_of_it_is_for_nobody_who_may_not_use_the_tool_any_more() -> None:
    waiter, course = Waiter(0), CallState.of_pending("x", None, in_turn=True)
    result = await invoke(belt("deny"), Ctx(CALL, OWNER, course), CallPipeline(record=MemoryRecord(), later=waiter))
    assert (result.status, result.details["code"], waiter.asked) == ("error", "denied", ["withdraw"])


async def test_nor_for_one_who_was_denied_it_while_the_call_was_pending() -> None:
    course, belts = CallState(), iter((belt(), belt("deny")))
    course.in_turn = True
    pipeline = CallPipeline(record=MemoryRecord(), later=Waiter(0), rejudge=lambda *_: next(belts))
    result = await invoke(belt(), Ctx(CALL, OWNER, course, Ports(later=keep)), pipeline)
    assert (result.status, result.details["code"]) == ("error", "denied")
