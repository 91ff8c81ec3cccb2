"""Whatever a provider does, the turn ends in time and says why, nothing runs twice, and the session goes on.

The table of misbehaviours is that of tests/backends/models; here each goes all the way: a real server, a real model
over HTTP, the loop, the tools, the store and the record.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.backends.models.asking import KEY as SECRET
from tests.backends.models.misbehaviours import BUSY, GOOD, MISBEHAVIOURS, Misbehaviour, Trouble, misbehaving
from tests.backends.models.servers import answering, serving
from tests.backends.models.test_misbehaviours import bounded

import toolcrib
from toolcrib.adapter.cards import Api
from toolcrib.agent.loop import TurnSetup
from toolcrib.agent.mailbox import Inbox
from toolcrib.agent.retry import Retries
from toolcrib.agent.session_log import Conversation, recall
from toolcrib.agent.turn import Turns
from toolcrib.app import Crib
from toolcrib.app.stores import STATE_FILE, StateFolder, audit_in, state_in
from toolcrib.backends.stores.record import SqliteRecord
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.event import Event, Retrying, ToolFinished, ToolStarted, TurnFinished, TurnStarted
from toolcrib.define.message import Call, Message
from toolcrib.define.model import Model
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool, tool
from toolcrib.define.turn import Limits, TurnRequest

from .ledger import unanswered

pytestmark = pytest.mark.anyio

KEY = "agent:main:run:trouble"
TRIES = 2

ROWS = list(MISBEHAVIOURS.values())
# one API each, every one of them in its turn; the long campaign has all
EVERYDAY = {(row.name, row.apis[at % len(row.apis)]) for at, row in enumerate(ROWS)}


def times_of(row: Misbehaviour, api: Api) -> tuple[int, ...]:
    """Return how often a server is bad: once, and as often as it is asked before the turn gives up."""
    if not row.recovers:
        return (TRIES,)
    return (1, TRIES) if row.retry and api not in row.fine else (1,)


CASES = [
    pytest.param(
        row,
        api,
        times,
        id=f"{api}: {row.name}, {'once' if times == 1 else 'again and again'}",
        marks=() if (row.name, api) in EVERYDAY else (pytest.mark.full,),
    )
    for row in ROWS
    for api in row.apis
    for times in times_of(row, api)
]


@asynccontextmanager
async def asking(trouble: Trouble) -> AsyncIterator[Model]:
    model = trouble.model()
    try:
        yield model
    finally:
        await model.close()


class World:
    """A session on disk, a tool whose runs are counted, and a patience that does not wait."""

    def __init__(self, crib: Crib, state: StateFolder) -> None:
        assert state.commits is not None
        self.crib, self.state = crib, state
        self.turns = Turns(state.sessions, SqliteRecord(state.commits), self)
        self.runs: Counter[str] = Counter()
        self.waited: list[float] = []

    def tools(self) -> tuple[Tool, ...]:
        @tool(effects=set())
        async def note(ctx: Ctx, text: str) -> str:
            """Note a text."""
            self.runs[ctx.call.key] += 1
            return text

        return (note,)

    def resolve(self, request: TurnRequest, switched: str, /) -> TurnSetup:
        """Say who answers."""

        async def sleep(seconds: float) -> None:
            self.waited.append(seconds)

        held = self.crib.belt(request.caller, self.tools())
        assert request.model is not None
        assert not isinstance(request.model, str)
        return TurnSetup(
            model=request.model,
            belt=held.selection,
            caller=request.caller,
            pipeline=held.pipeline,
            ports=held.ports,
            limits=Limits(turns=5),
            retries=Retries(tries=TRIES, first=0.0, sleep=sleep),
        )

    async def turn(self, text: str, model: Model) -> list[Event]:
        """Return all that is told of a turn."""
        message = Message(role="user", content=(Text(text),))
        request = TurnRequest(session=KEY, message=message, caller=Caller(session=KEY), model=model)
        events: list[Event] = []
        end = await self.turns.run(request, events.append, Inbox())
        assert events[-1] == end
        return events

    async def recalled(self) -> Conversation:
        return recall(await self.state.sessions.lines(KEY))


def wrong_with(events: list[Event]) -> Iterator[str]:
    """Give what is wrong with how a turn was told."""
    kinds = [type(event) for event in events]
    if kinds[0] is not TurnStarted or kinds.count(TurnStarted) != 1:
        yield "it does not start once"
    if kinds[-1] is not TurnFinished or kinds.count(TurnFinished) != 1:
        yield "it does not end once"
    taken_up = [event.call.key for event in events if isinstance(event, ToolStarted)]
    finished = [event.call.key for event in events if isinstance(event, ToolFinished)]
    if sorted(taken_up) != sorted(finished) or len(set(finished)) != len(finished):
        yield f"{taken_up} were taken up, and {finished} finished"
    if SECRET in str(events):
        yield "the key is shown"


def ended(events: list[Event]) -> TurnFinished:
    end = events[-1]
    assert isinstance(end, TurnFinished)
    return end


def check_end(row: Misbehaviour, api: Api, world: World, events: list[Event], times: int) -> None:
    """Fail unless the turn ended as it must, having asked a server that misbehaved so many times."""
    end = ended(events)
    retries = [event for event in events if isinstance(event, Retrying)]
    assert all(row.says in event.error for event in retries)
    assert all(abs(seconds - row.waits) <= 2 for seconds in world.waited)
    assert max(world.runs.values(), default=0) <= 1, "a call ran twice"
    if api in row.fine:
        assert (end.reason, end.text, len(retries)) == ("done", GOOD.text, 0)
        assert len(world.runs) == row.runs * min(times, end.steps - 1)
        return
    assert not world.runs, "a call of a reply that does not count ran"
    if row.retry is None:
        assert end.reason in ("done", "error", "length")
        return
    assert len(retries) == (min(times, TRIES - 1) if row.retry else 0)
    if row.retry and times < TRIES:
        assert (end.reason, end.text) == ("done", GOOD.text)
    else:
        assert (end.reason, row.says in end.sentence) == ("error", True), end.sentence


async def check_session(world: World, folder: Path) -> None:
    """Fail unless the session is whole: every call answered, on lines of its own, and the record says the same."""
    found = await world.recalled()
    assert (found.mended, found.uncertain) == ((), ())
    assert list(unanswered(found.history)) == []
    assert SECRET not in str(found.path)
    report = await audit_in(folder / STATE_FILE, world.crib.loaded).verify()
    assert (report.findings, report.uncertain) == ((), ())


async def went_on(world: World, trouble: Trouble, model: Model) -> None:
    """Fail unless a good turn follows in the same session."""
    world.runs.clear()
    if trouble.row.recovers:
        events = await world.turn("And now?", model)
    else:  # nobody is there at that address, so another one answers
        async with (
            serving(answering(trouble.api, GOOD)) as server,
            asking(replace(trouble, server=server, base_url=server.base_url)) as other,
        ):
            events = await world.turn("And now?", other)
    assert (ended(events).reason, ended(events).text) == ("done", GOOD.text)
    assert list(wrong_with(events)) == []
    assert not world.runs


@pytest.mark.parametrize(("row", "api", "times"), CASES)
async def test_the_turn_ends_in_time_says_why_and_the_session_goes_on(
    row: Misbehaviour, api: Api, times: int, tmp_path: Path
) -> None:
    state = state_in(tmp_path)
    async with (
        toolcrib.open({}, env={}) as crib,
        misbehaving(row, api, times) as trouble,
        asking(trouble) as model,
    ):
        world = World(crib, state)
        with bounded(row.megabytes):
            async with asyncio.timeout(BUSY * row.within * times):
                events = await world.turn("Note it.", model)
        assert list(wrong_with(events)) == []
        check_end(row, api, world, events, times)
        await check_session(world, tmp_path)
        assert trouble.elsewhere == []
        await went_on(world, trouble, model)
        await check_session(world, tmp_path)
    await state.close()


@pytest.mark.parametrize(
    ("name", "reason"), [("reset after a call was announced", "done"), ("json for a stream", "done"), ("401", "error")]
)
async def test_a_crib_ends_such_a_turn_and_the_next_one_goes_on(name: str, reason: str, tmp_path: Path) -> None:
    runs: Counter[str] = Counter()

    @tool(effects=set())
    async def note(ctx: Ctx, text: str) -> str:
        """Note a text."""
        runs[ctx.call.key] += 1
        return text

    row = MISBEHAVIOURS[name]
    async with (
        toolcrib.open({}, state=tmp_path, env={}) as crib,
        misbehaving(row, "anthropic") as trouble,
        asking(trouble) as model,
    ):
        for wanted in (reason, "done"):
            async with asyncio.timeout(60):
                events = [
                    event
                    async for event in crib.turn(
                        "Note it.", caller=toolcrib.OWNER, session=KEY, model=model, extra=[note]
                    )
                ]
            assert list(wrong_with(events)) == []
            assert ended(events).reason == wanted
        assert runs.total() == (row.runs if "anthropic" in row.fine else 0)
        found = recall(await crib.sessions.lines(KEY))
        assert (found.mended, list(unanswered(found.history))) == ((), [])


def test_a_conversation_that_is_not_whole_is_found() -> None:
    asks = Message(role="assistant", calls=(Call("a", "note"), Call("b", "note")), finish="calls")
    answers = [Message(role="tool", call_id=id) for id in "ab"]
    assert list(unanswered([asks, *answers])) == []
    for broken in ([asks], [asks, answers[0]], [asks, *answers[::-1]], [*answers, asks], [asks, asks, *answers]):
        assert list(unanswered(broken))


def test_every_misbehaviour_and_every_api_is_tried_every_day() -> None:
    assert {name for name, _ in EVERYDAY} == set(MISBEHAVIOURS)
    assert {api for _, api in EVERYDAY} == {"openai", "responses", "anthropic", "gemini"}
