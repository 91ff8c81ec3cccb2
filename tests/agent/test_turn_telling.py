"""Messages for a session from elsewhere, and who stands in line for it."""

import asyncio
from typing import Any

import pytest
from tests.agent.loop_worlds import belt_of, user

from toolcrib.agent.hooks import Moments
from toolcrib.agent.loop import TurnSetup
from toolcrib.agent.mailbox import Inbox
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.session_log import recall
from toolcrib.agent.turn import Turns
from toolcrib.backends.stores.memory import MemoryRecord, MemorySessions
from toolcrib.define.caller import Caller
from toolcrib.define.event import TurnFinished
from toolcrib.define.message import join_text
from toolcrib.define.model import Model, Request
from toolcrib.define.plugin import Moment
from toolcrib.define.turn import TurnRequest
from toolcrib.testing.models import FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio

KEY = "agent:main:main"


class World:
    def __init__(self, moments: Moments | None = None) -> None:
        self.store, self.record = MemorySessions(), MemoryRecord()
        self.turns = Turns(self.store, self.record, self, moments)

    def turn(self, model: Model, text: str = "go") -> "asyncio.Task[TurnFinished]":
        request = TurnRequest(session=KEY, message=user(text), caller=Caller(session=KEY), model=model)
        return asyncio.ensure_future(self.turns.run(request, lambda event: None, Inbox()))

    def resolve(self, request: TurnRequest, switched: str, /) -> TurnSetup:
        assert request.model is not None
        assert not isinstance(request.model, str)
        return TurnSetup(
            model=request.model, belt=belt_of(()), caller=Caller(), pipeline=CallPipeline(record=self.record)
        )

    async def said(self) -> list[str]:
        return [join_text(message) for message in recall(await self.store.lines(KEY)).history]


async def test_what_is_told_between_two_turns_stands_before_the_next_message() -> None:
    world = World()
    await world.turn(ScriptedModel(["one"]))
    await world.turns.tell(KEY, user("by the way"))
    await world.turn(ScriptedModel(["two"]), "next")
    assert await world.said() == ["go", "one", "by the way", "next", "two"]


async def test_what_is_told_to_a_session_that_does_not_exist_yet_begins_it() -> None:
    world = World()
    await world.turns.tell(KEY, user("hello"))
    assert await world.said() == ["hello"]


async def test_what_is_told_while_a_turn_runs_is_answered_in_it() -> None:
    world, came, may_end = World(), asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Any:
        came.set()
        await may_end.wait()
        return f"reply {len(request.history)}"

    turn = world.turn(FunctionModel(answer))
    await asyncio.wait_for(came.wait(), 60)
    await world.turns.tell(KEY, user("by the way"))
    may_end.set()
    await asyncio.wait_for(turn, 60)
    assert await world.said() == ["go", "reply 1", "by the way", "reply 3"]


async def test_what_is_told_to_a_turn_that_is_stopped_before_it_begins_is_kept_for_the_next() -> None:
    came = asyncio.Event()

    async def wait(moment: Moment) -> None:
        came.set()
        await asyncio.Event().wait()

    world = World(Moments([("message_received", wait)]))
    turn = world.turn(ScriptedModel(["never"]))
    await asyncio.wait_for(came.wait(), 60)
    await world.turns.tell(KEY, user("by the way"))
    turn.cancel()
    await asyncio.wait([turn], timeout=60)
    assert turn.cancelled()
    assert await world.said() == ["by the way"]


async def test_whoever_comes_when_one_goes_stands_behind_those_who_waited() -> None:
    world, at_work = World(), 0

    async def answer(request: Request) -> Any:
        nonlocal at_work
        at_work += 1
        assert at_work == 1, "two turns at once in one session"
        for _ in range(5):
            await asyncio.sleep(0)
        at_work -= 1
        return "done"

    model = FunctionModel(answer)
    first, second = world.turn(model, "1"), world.turn(model, "2")
    late: list[asyncio.Task[TurnFinished]] = []
    first.add_done_callback(lambda _: late.append(world.turn(model, "3")))
    await asyncio.wait_for(asyncio.gather(first, second), 60)
    await asyncio.wait_for(asyncio.gather(*late), 60)
    assert await world.said() == ["1", "done", "2", "done", "3", "done"]
