"""A turn and those who follow it: each sees all of it in order, none of them holds it up."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import toolcrib
from toolcrib import Call, CribError, Ctx, DeclarationError, Result, Text, tool
from toolcrib.app import Crib, Running
from toolcrib.define.event import (
    Event,
    Replied,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from toolcrib.define.model import Request
from toolcrib.testing.models import FunctionModel, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio


class Steps:
    """A model that says one word whenever it is let go on, with a tool call between any two of them."""

    def __init__(self, *words: str) -> None:
        self._words, self._gates = words, [asyncio.Event() for _ in words]
        self.asked = [asyncio.Event() for _ in words]
        self._at = 0

    def go_on(self, at: int) -> None:
        self._gates[at].set()

    def go_on_to_the_end(self) -> None:
        for gate in self._gates:
            gate.set()

    async def answer(self, request: Request) -> Any:
        at, self._at = self._at, self._at + 1
        self.asked[at].set()
        await self._gates[at].wait()
        if at + 1 < len(self._words):
            return call_reply(Call(id=f"c{at}", name="tick", args={}), text=self._words[at])
        return text_reply(self._words[at])

    def turn(self, crib: Crib) -> Running:
        return crib.turn("go", caller=toolcrib.OWNER, model=FunctionModel(self.answer), extra=[tick])


@tool(effects=set())
async def tick() -> str:
    """Tick."""
    return "tock"


async def until(subscription: AsyncIterator[Event], kind: type[Event], count: int = 1) -> list[Event]:
    """Read until so many events of a kind have come."""
    seen: list[Event] = []
    while sum(isinstance(event, kind) for event in seen) < count:
        seen.append(await asyncio.wait_for(anext(subscription), 60))
    return seen


async def rest(subscription: AsyncIterator[Event]) -> list[Event]:
    """Read to the end."""
    async with asyncio.timeout(60):
        return [event async for event in subscription]


async def test_two_who_follow_from_the_start_see_the_same() -> None:
    steps = Steps("one", "two")
    async with toolcrib.open({}) as crib:
        turn = steps.turn(crib)
        first, second = turn.subscribe(), turn.subscribe()
        steps.go_on(0)
        seen = await until(first, ToolFinished)
        also = await until(second, ToolFinished)
        steps.go_on(1)
        seen, also = [*seen, *await rest(first)], [*also, *await rest(second)]
    assert seen == also
    assert isinstance(seen[0], TurnStarted)
    assert isinstance(seen[-1], TurnFinished)


async def test_one_who_comes_late_gets_what_it_missed_and_then_goes_along() -> None:
    steps = Steps("one", "two")
    async with toolcrib.open({}) as crib:
        turn = steps.turn(crib)
        first = turn.subscribe()
        steps.go_on(0)
        seen = await until(first, ToolFinished)
        await asyncio.wait_for(steps.asked[1].wait(), 60)
        late = turn.subscribe()
        missed = [await asyncio.wait_for(anext(late), 60) for _ in seen]
        assert missed == seen
        waits = asyncio.ensure_future(anext(late))
        await asyncio.sleep(0)  # it has begun to wait
        assert not waits.done()
        steps.go_on(1)
        assert [*missed, await asyncio.wait_for(waits, 60), *await rest(late)] == [*seen, *await rest(first)]


async def test_one_who_comes_after_the_end_gets_all_of_it() -> None:
    async with toolcrib.open({}) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, model=ScriptedModel(["done"]))
        seen = [event async for event in turn]
        assert await rest(turn.subscribe()) == seen
    assert isinstance(seen[-1], TurnFinished)


async def test_waiting_for_the_end_takes_no_event_from_anybody() -> None:
    async with toolcrib.open({}) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, model=ScriptedModel(["done"]))
        end = await turn.end()
        assert [type(event).__name__ for event in await rest(turn)] == [
            "TurnStarted", "TextDelta", "Replied", "TurnFinished",
        ]  # fmt: skip
    assert end.text == "done"


async def test_one_who_stops_early_stops_neither_the_turn_nor_the_others() -> None:
    steps = Steps("one", "two")
    async with toolcrib.open({}) as crib:
        turn = steps.turn(crib)
        leaver, stayer = asyncio.ensure_future(rest(turn.subscribe())), turn.subscribe()
        await asyncio.wait_for(steps.asked[0].wait(), 60)
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        steps.go_on_to_the_end()
        assert isinstance((await rest(stayer))[-1], TurnFinished)
        assert (await turn.end()).reason == "done"


async def test_one_who_reads_nothing_until_the_end_holds_up_nobody_and_misses_nothing() -> None:
    steps = Steps("one", "two", "three")
    async with toolcrib.open({}) as crib:
        turn = steps.turn(crib)
        slow, quick = turn.subscribe(), turn.subscribe()
        opening = await until(slow, TurnStarted)
        steps.go_on_to_the_end()
        seen = await rest(quick)
        assert (await turn.end()).text == "three"
        assert [*opening, *await rest(slow)] == seen


async def test_the_turn_itself_is_one_reader_and_goes_on_where_it_was_left() -> None:
    async with toolcrib.open({}) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, model=ScriptedModel(["done"]))
        opening = await until(turn, TurnStarted)
        assert [*opening, *await rest(turn)] == await rest(turn.subscribe())


async def test_everybody_sees_how_a_turn_failed() -> None:
    steps = Steps("one")

    async def fails(request: Request) -> str:
        await steps.answer(request)
        raise ValueError("the model broke")

    async with toolcrib.open({}) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, model=FunctionModel(fails))
        first, second = turn.subscribe(), turn.subscribe()
        await until(first, TurnStarted)
        steps.go_on(0)
        ends = [(await rest(each))[-1] for each in (first, second, turn.subscribe())]
        assert ends == [await turn.end()] * 3
    assert isinstance(ends[0], TurnFinished)
    assert ends[0].reason == "error"


async def test_everybody_is_told_why_a_turn_never_began() -> None:
    async with toolcrib.open({}) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, model=ScriptedModel([]), extra=[tick, tick])
        first, second = turn.subscribe(), turn.subscribe()
        for each in (first, second, turn, turn.subscribe()):
            with pytest.raises(DeclarationError, match="there is a tool 'tick'"):
                await rest(each)
        with pytest.raises(DeclarationError, match="there is a tool 'tick'"):
            await turn.end()


async def test_everybody_sees_the_end_of_a_turn_that_is_stopped() -> None:
    steps = Steps("one")
    async with toolcrib.open({}) as crib:
        turn = steps.turn(crib)
        first, second = turn.subscribe(), turn.subscribe()
        await asyncio.wait_for(steps.asked[0].wait(), 60)
        turn.stop()
        ends = [(await rest(each))[-1] for each in (first, second)]
        assert ends[0] == ends[1] == await turn.end()
        assert isinstance(ends[0], TurnFinished)
        assert ends[0].reason == "stopped"


async def test_a_long_turn_is_remembered_without_the_pieces_of_what_has_come_whole() -> None:
    may_end = asyncio.Event()

    @tool(effects=set())
    async def chatter(ctx: Ctx) -> str:
        """Show very much progress."""
        for number in range(25_000):
            ctx.progress(Result.text(str(number)))
        await may_end.wait()
        return "quiet"

    model = ScriptedModel([call_reply(Call("c", "chatter", {}), text="on my way"), text_reply("done")])
    async with toolcrib.open({}) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, model=model, extra=[chatter])
        quick, slow = turn.subscribe(), turn.subscribe()
        seen = [*await until(slow, ToolStarted), *await until(slow, ToolProgress)]
        await until(quick, ToolProgress)
        late = await asyncio.wait_for(anext(turn.subscribe()), 60)
        may_end.set()
        await turn.end()
        for events in (await rest(turn.subscribe()), [*seen, *await rest(slow)]):
            kinds = [type(event) for event in events]
            assert [kind for kind in kinds if kind not in (ToolProgress, TextDelta)][-4:] == [
                ToolStarted, ToolFinished, Replied, TurnFinished,
            ]  # fmt: skip
            assert kinds.count(ToolProgress) < 21_000
    assert isinstance(late, TurnStarted)
    last = [event for event in events if isinstance(event, ToolProgress)][-1]
    assert last.partial.content == (Text("24999"),)


def test_a_turn_outside_of_a_loop_says_what_it_needs() -> None:
    crib = toolcrib.open({})
    with pytest.raises(CribError, match=r"^a turn needs a running event loop: start it inside an `async def` that "):
        crib.turn("go", caller=toolcrib.OWNER, model=ScriptedModel([]))
