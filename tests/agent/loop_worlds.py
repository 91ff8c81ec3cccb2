"""A turn in a world of its own: a model, tools, a store and a record, and everything that was seen of it."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.agent.loop import Loop, TurnSetup
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.session_log import Journal, recall
from toolcrib.backends.stores.memory import MemoryRecord, MemorySessions
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.event import (
    CallDelta,
    Event,
    Received,
    Replied,
    Retrying,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from toolcrib.define.log import Line, Said, SessionHead, SessionStore
from toolcrib.define.message import Call, Message, join_text
from toolcrib.define.model import History, Model
from toolcrib.define.record import Finished, Record, Started
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool, tool
from toolcrib.define.verdict import Selection, Verdict

KEY = "agent:main:run:test"


def belt_of(tools: Iterable[Tool]) -> Selection:
    """Return a belt that permits all of them."""
    own = {each.name: each for each in tools}
    verdicts = {name: Verdict(name, "allow", None, name, "tools", "passes all layers", "") for name in own}
    return Selection(tools=own, verdicts=verdicts, steps=lambda name: ())


def user(text: str = "go") -> Message:
    return Message(role="user", content=(Text(text),))


def call(id: str, name: str = "echo", **args: Any) -> Call:
    return Call(id, name, args or {"word": id})


@tool(effects=set())
async def echo(word: str) -> str:
    """Say it back."""
    return word


@dataclass(slots=True)
class World:
    """One turn. `run` it, or start it with `begin` and wait for its `end`."""

    model: Model
    tools: Sequence[Tool] = (echo,)
    options: dict[str, Any] = field(default_factory=dict)
    store: SessionStore = field(default_factory=MemorySessions)
    record: Record = field(default_factory=MemoryRecord)
    window: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    on_event: Callable[[Event], object] = lambda event: None
    loop: Loop = field(init=False)
    task: "asyncio.Task[TurnFinished]" = field(init=False)

    async def begin(self) -> None:
        """Start the turn as a task."""
        await self.store.make(SessionHead(key=KEY, made_at=1.0, changed_at=1.0))
        pipeline = CallPipeline(record=self.record, **self.window)
        setup = TurnSetup(
            model=self.model, belt=belt_of(self.tools), caller=Caller(), pipeline=pipeline, **self.options
        )
        journal = Journal(self.record, self.store, KEY, now=lambda: 5.0)
        history = History([user()])
        journal.add(Said(history[0]))
        self.loop = Loop(setup, history, journal, self._hear)
        self.task = asyncio.ensure_future(self.loop.run())

    async def run(self) -> TurnFinished:
        await self.begin()
        async with asyncio.timeout(60):
            return await self.task

    async def stopped(self) -> TurnFinished:
        """Wait until the turn has left as cancelled; return what it said last."""
        async with asyncio.timeout(60):
            await asyncio.wait([self.task])
        assert self.task.cancelled()
        end = self.events[-1]
        assert isinstance(end, TurnFinished)
        return end

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self.on_event(event)

    @property
    def history(self) -> list[Message]:
        return list(self.loop.history)

    def told(self) -> list[str]:
        return [told for event in self.events if (told := words(event))]

    def answers(self) -> dict[str, str]:
        """Return the text of every answer by the id of its call."""
        return {message.call_id or "": join_text(message) for message in self.history if message.role == "tool"}

    async def lines(self) -> Sequence[Line]:
        return await self.store.lines(KEY)

    async def check_whole(self) -> None:
        """Every call has one answer, in order, behind its reply; the lines say the same; what started has finished."""
        check_pairs(self.history)
        assert list(recall(await self.lines()).history) == self.history
        assert not recall(await self.lines()).mended
        if isinstance(self.record, MemoryRecord):
            started = [entry.call.key for entry in self.record.entries if isinstance(entry, Started)]
            finished = [entry.call.key for entry in self.record.entries if isinstance(entry, Finished)]
            assert len(set(started)) == len(started)
            assert len(set(finished)) == len(finished)
            assert set(started) <= set(finished)


def check_pairs(history: Sequence[Message]) -> None:
    """Fail unless every reply is followed by one answer for each of its calls, in order, and there are no others."""
    wanted: list[str] = []
    for message in history:
        if message.role == "tool":
            assert wanted
            assert message.call_id == wanted.pop(0)
        else:
            assert not wanted
            wanted = [each.id for each in message.calls]
    assert not wanted


def words(event: Event) -> str:
    """Return an event in a few words."""
    match event:
        case TextDelta(text=text):
            return f"text {text}"
        case CallDelta():
            return ""
        case Replied(message=message):
            return f"replied {message.finish}"
        case ToolStarted(call=made):
            return f"started {made.id}"
        case ToolProgress(call=made, partial=partial):
            return f"progress {made.id} " + "".join(each.text for each in partial.content if isinstance(each, Text))
        case ToolFinished(call=made, result=result):
            return f"finished {made.id} {result.status}"
        case Retrying(attempt=attempt):
            return f"retrying {attempt}"
        case Received(message=message):
            return f"received {join_text(message)}"
        case TurnFinished(reason=reason):
            return f"end {reason}"
    return type(event).__name__


class Cues:
    """Bodies that wait for their cue, and who has come in and gone out, in order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self._cues: dict[str, asyncio.Event] = {}
        self._came: dict[str, asyncio.Event] = {}

    def give(self, who: str) -> None:
        self._cue(self._cues, who).set()

    async def came(self, who: str) -> None:
        async with asyncio.timeout(60):
            await self._cue(self._came, who).wait()

    def tool(self) -> Tool:
        @tool(effects=set())
        async def wait(ctx: Ctx, word: str) -> str:
            """Wait for the cue."""
            self.happened.append(f"{word} in")
            self._cue(self._came, word).set()
            await self._cue(self._cues, word).wait()
            self.happened.append(f"{word} out")
            return word

        return wait

    def _cue(self, cues: dict[str, asyncio.Event], who: str) -> asyncio.Event:
        return cues.setdefault(who, asyncio.Event())
