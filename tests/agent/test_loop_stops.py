"""Stopping anywhere: whatever a turn is doing when it is stopped, its history is whole and nothing runs behind it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.agent.mailbox import Inbox
from toolcrib.backends.stores.memory import MemoryRecord, MemorySessions
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Event, Replied, ToolFinished, ToolStarted, TurnFinished
from toolcrib.define.log import Line
from toolcrib.define.message import Call, Finish, Message
from toolcrib.define.model import Request
from toolcrib.define.record import RecordEntry
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool, tool
from toolcrib.define.turn import Limits
from toolcrib.testing.models import FunctionModel, text_reply

from .loop_worlds import World, user

Kind = Literal["quick", "slow", "alone", "fails", "unknown", "bad"]
KINDS: tuple[Kind, ...] = ("quick", "slow", "alone", "fails", "unknown", "bad")


class LateSessions(MemorySessions):
    """A store that takes a while for every line."""

    def append(self, key: str, lines: Sequence[Line], /, *, at: int) -> Awaitable[None]:  # type: ignore[override]  # the port's own promise
        super().append(key, lines, at=at)
        return _turns(2)


class LateRecord(MemoryRecord):
    """A record that takes a while for every entry."""

    def write(self, entry: RecordEntry, /) -> Awaitable[None]:  # type: ignore[override]  # the port's own promise
        super().write(entry)
        return _turns(1)


def _turns(count: int) -> Awaitable[None]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def later(left: int) -> None:
        if left:
            loop.call_soon(later, left - 1)
        elif not future.done():
            future.set_result(None)

    later(count)
    return future


@dataclass(frozen=True, slots=True)
class Script:
    """Replies with the kinds of their calls and how they end, who speaks in between, and when the turn is stopped."""

    replies: tuple[tuple[tuple[Kind, ...], Finish], ...]
    steered: bool
    late: bool
    keeps: bool
    stop_after: int
    by: Literal["turns", "events"]
    again_after: int | None


SCRIPTS = st.builds(
    Script,
    replies=st.lists(
        st.tuples(
            st.lists(st.sampled_from(KINDS), max_size=4).map(tuple),
            st.sampled_from(["calls", "calls", "calls", "calls", "length", "error"]),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    steered=st.booleans(),
    late=st.booleans(),
    keeps=st.booleans(),
    stop_after=st.integers(0, 60),
    by=st.sampled_from(["turns", "events"]),
    again_after=st.none() | st.integers(0, 8),
)


@dataclass(slots=True)
class Bodies:
    """Tools of every kind, and which calls of them ran."""

    ran: Counter[str] = field(default_factory=Counter)
    is_stopped: bool = False
    late: list[str] = field(default_factory=list)

    def enter(self, ctx: Ctx) -> None:
        self.ran[ctx.call.key] += 1
        if self.is_stopped:
            self.late.append(ctx.call.id)

    def tools(self) -> tuple[Tool, ...]:
        @tool(effects=set())
        async def quick(ctx: Ctx) -> str:
            """Be done at once."""
            self.enter(ctx)
            return "quick"

        @tool(effects=set())
        async def slow(ctx: Ctx) -> str:
            """Take some turns of the event loop."""
            self.enter(ctx)
            for number in range(4):
                ctx.progress(Result.text(f"{number}"))
                await asyncio.sleep(0)
            return "slow"

        @tool(effects=set(), exclusive=True)
        async def alone(ctx: Ctx) -> str:
            """Run alone."""
            self.enter(ctx)
            await asyncio.sleep(0)
            return "alone"

        @tool(effects=set())
        async def fails(ctx: Ctx) -> str:
            """Fail."""
            self.enter(ctx)
            await asyncio.sleep(0)
            raise ToolError("it failed")

        @tool(effects=set())
        async def bad(ctx: Ctx, needed: str) -> str:
            """Never get what it needs."""
            raise AssertionError("ran without its argument")

        return quick, slow, alone, fails, bad


def model_of(script: Script) -> FunctionModel:
    asked: list[int] = []

    async def answer(request: Request) -> Replied:
        asked.append(1)
        await asyncio.sleep(0)
        if len(asked) > len(script.replies):
            return text_reply("done")
        kinds, finish = script.replies[len(asked) - 1]
        # ids come again in every reply, and twice in some
        calls = tuple(Call(f"c{at % 3}", kind) for at, kind in enumerate(kinds))
        return Replied(Message(role="assistant", content=(Text("so"),), calls=calls, finish=finish), error="broke")

    return FunctionModel(answer)


async def _keep(call: Call, message: Message) -> Message:
    await asyncio.sleep(0)
    return message


async def play(script: Script) -> tuple[World, Bodies]:
    bodies, inbox, heard = Bodies(), Inbox(), list[Event]()
    options: dict[str, Any] = {"inbox": inbox, "limits": Limits(turns=8)}
    if script.keeps:
        options["keep"] = _keep
    stores = (LateSessions(), LateRecord()) if script.late else (MemorySessions(), MemoryRecord())
    world = World(model_of(script), bodies.tools(), options, *stores)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        bodies.is_stopped = world.task.cancel() or bodies.is_stopped

    def hear(event: Event) -> None:
        heard.append(event)
        if script.steered and isinstance(event, ToolStarted) and len(heard) < 12:
            inbox.steer(user("hm"))
        if script.by == "events" and len(heard) == script.stop_after:
            loop.call_soon(stop)

    world.on_event = hear
    await world.begin()
    turns = 0
    while not world.task.done():
        if script.by == "turns" and turns == script.stop_after:
            stop()
        if bodies.is_stopped and script.again_after is not None and turns == script.stop_after + script.again_after:
            stop()
        turns += 1
        assert turns < 10_000
        await asyncio.sleep(0)
    return world, bodies


@settings(max_examples=400)
@given(SCRIPTS)
def test_stopped_anywhere_a_turn_leaves_a_whole_history_and_nothing_running(script: Script) -> None:
    async def check() -> None:
        world, bodies = await play(script)
        if not world.events:  # stopped before it began
            assert world.task.cancelled()
            return
        await world.check_whole()
        assert set(bodies.ran.values()) <= {1}
        assert bodies.late == []
        assert [event for event in world.events if isinstance(event, TurnFinished)] == world.events[-1:]
        if world.task.cancelled():
            end = world.events[-1]
            assert isinstance(end, TurnFinished)
            assert bodies.is_stopped
        started = [event.call.key for event in world.events if isinstance(event, ToolStarted)]
        finished = [event.call.key for event in world.events if isinstance(event, ToolFinished)]
        assert sorted(started) == sorted(finished)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(check())


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("by", ["turns", "events"])
def test_every_single_place_to_stop_is_tried_in_one_long_turn(by: Literal["turns", "events"], late: bool) -> None:
    replies: tuple[tuple[tuple[Kind, ...], Finish], ...] = (
        (("slow", "quick", "alone", "slow"), "calls"),
        (("slow",), "calls"),
        (("quick", "unknown"), "length"),
        (("alone", "alone", "bad"), "calls"),
    )
    stopped = 0
    for place in range(200):
        script = Script(replies, True, late, late, place, by, None)

        async def check(script: Script = script) -> bool:
            world, bodies = await play(script)
            if world.events:
                await world.check_whole()
            assert bodies.late == []
            return world.task.cancelled()

        was_stopped = asyncio.run(check())
        stopped += was_stopped
        if not was_stopped and place > 5:
            break
    assert stopped > 20
