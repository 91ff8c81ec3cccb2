"""pi-agent-loop on `Loop`: scripted replies, made-up tools, hooks and queues; our events told in the recorded words."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib.agent.belt import Belts
from toolcrib.agent.hooks import bind_guards, bind_observers
from toolcrib.agent.loop import Loop, TurnSetup
from toolcrib.agent.mailbox import Inbox
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.session_log import Journal
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.config.load import load
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import (
    CallDelta,
    Event,
    Received,
    Replied,
    ReplyEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from toolcrib.define.message import Call, Finish, Message, Part, Thinking
from toolcrib.define.model import History, ModelCard, Request
from toolcrib.define.plugin import Block, Hook, Word
from toolcrib.define.result import Result, Text
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool, tool_named
from toolcrib.define.turn import Limits
from toolcrib.registry.catalog import Catalog

from .jump import run
from .load import Case
from .outcome import Refused, Same, Theirs, check_keys, compare, is_same, mentions

Json = dict[str, Any]

_QUIET = logging.NullHandler()  # what fails here fails on purpose
_TAKES: Json = {"type": "object", "properties": {"v": {"type": "string"}}, "required": ["v"]}
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "toolUse": "calls",
    "length": "length",
    "error": "error",
    "aborted": "aborted",
}
_STOPS = {finish: stop for stop, finish in _FINISH.items()}


@dataclass(slots=True)
class _Play:
    """One case on its way: what is scripted, and what has happened."""

    args: Json
    inbox: Inbox = field(default_factory=Inbox)
    roles: list[list[str]] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)  # theirs by ours
    polls: int = 0
    task: "asyncio.Task[Any] | None" = None

    @property
    def turns(self) -> list[Json]:
        turns: list[Json] = self.args["turns"]
        return turns

    def poll(self) -> None:
        """Say what is said at this look into the queue."""
        self.polls += 1
        for each in self.args.get("steering", ()):
            if each["poll"] == self.polls:
                self.inbox.steer(_said(each["text"]))

    def their_id(self, call: Call) -> str:
        return self.ids.get(call.id, call.id)


class _Script:
    """The model: one scripted reply a request, streamed where the script says so."""

    card = ModelCard(provider="test", model="script")

    def __init__(self, play: _Play) -> None:
        self._play = play

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        play = self._play
        play.roles.append([_role(message) for message in request.history])
        if len(play.roles) > len(play.turns):
            raise ToolError("the script is at its end")
        turn = play.turns[len(play.roles) - 1]
        message = _reply(turn)
        for event in _streamed(turn) if turn.get("stream") else ():
            yield event
        yield Replied(message, error=str(turn.get("errorMessage") or ""))

    async def close(self) -> None:
        """Nothing is held."""


def _reply(turn: Json) -> Message:
    parts: list[Part] = []
    for block in turn["content"]:
        if block["type"] == "text":
            parts.append(Text(block["text"]))
        elif block["type"] == "thinking":
            parts.append(Thinking(block["thinking"]))
    calls = tuple(
        Call(block["id"], block["name"], block["arguments"]) for block in turn["content"] if block["type"] == "toolCall"
    )
    stop = turn.get("stopReason") or ("toolUse" if calls else "stop")
    return Message(role="assistant", content=tuple(parts), calls=calls, finish=_FINISH[stop])


def _streamed(turn: Json) -> Iterator[ReplyEvent]:
    calls = 0
    for block in turn["content"]:
        match block["type"]:
            case "text":
                yield TextDelta(block["text"])
            case "thinking":
                yield ThinkingDelta(block["thinking"])
            case "toolCall":
                yield CallDelta(calls, block["name"], json.dumps(block["arguments"]))
                calls += 1


class _Words:
    """Our events in the recorded words, as they come."""

    def __init__(self, play: _Play) -> None:
        self._play, self._answers = play, list[str]()
        self._streams, self._heard = "", 0
        self._is_talking = self._is_over = False
        self.said = ["agent_start", "turn_start", "message_start:user", "message_end:user"]

    def hear(self, event: Event) -> None:
        id = self._play.their_id(event.call) if isinstance(event, ToolStarted | ToolProgress | ToolFinished) else ""
        match event:
            case TextDelta():
                self._stream("text")
            case ThinkingDelta():
                self._stream("thinking")
            case CallDelta(at=at):
                self._stream("toolcall", str(at))
            case Replied(message=message):
                self._reply(message)
            case Received():
                self._heard += 1  # one that no reply comes to was not heard in this turn
            case ToolStarted():
                self.said.append(f"tool_execution_start:{id}")
            case ToolProgress():
                self.said.append(f"tool_execution_update:{id}")
            case ToolFinished(result=result):
                self.said.append(f"tool_execution_end:{id}:{'err' if result.status == 'error' else 'ok'}")
            case TurnFinished():
                self._end()
                self.said.append("agent_end")

    def _reply(self, message: Message) -> None:
        self._talk()
        self._stream("")
        self.said.append("message_end:assistant")
        theirs = [call.id for call in _reply(self._play.turns[len(self._play.roles) - 1]).calls]
        self._play.ids.update(zip([call.id for call in message.calls], theirs, strict=True))
        self._answers, self._is_talking, self._is_over = theirs, False, True

    def _stream(self, kind: str, at: str = "") -> None:
        if kind:
            self._talk()
        if self._streams and self._streams != f"{kind}{at}":
            self.said.append(f"message_update:{self._streams.rstrip('0123456789')}_end")
            self._streams = ""
        if kind:
            if not self._streams:
                self.said.append(f"message_update:{kind}_start")
            self.said.append(f"message_update:{kind}_delta")
            self._streams = f"{kind}{at}"

    def _talk(self) -> None:
        if not self._is_talking:
            if self._is_over:
                self._end()
                self.said.append("turn_start")
            self.said += ["message_start:user", "message_end:user"] * self._heard
            self.said.append("message_start:assistant")
            self._heard = 0
            self._is_talking = True

    def _end(self) -> None:
        for id in self._answers:
            self.said += [f"message_start:toolResult:{id}", f"message_end:toolResult:{id}"]
        self._answers, self._is_over = [], False
        self.said.append("turn_end")


def _tool(name: str, how: Json, play: _Play, *, alone: bool) -> Tool:
    async def run(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        id = play.their_id(ctx.call)
        play.executed.append(f"run:{id}:{json.dumps(dict(args), separators=(',', ':'))}")
        for words in how.get("updates", ()):
            ctx.progress(Result.text(words))
        if how.get("abortDuring") and play.task is not None:
            play.task.cancel()
            await asyncio.sleep(0)  # where it is heard
        if delay := how.get("delay"):
            await asyncio.sleep(delay / 1000)
        if "throws" in how:
            raise ToolError(how["throws"])
        play.executed.append(f"done:{id}")
        await asyncio.sleep(0)  # the others get their turn, as after any real work
        return Result.text(how.get("result", "ok"))

    shape = Shape(lambda: _TAKES, check_of_schema)
    return tool_named(name, "A tool.", shape, run, exclusive=alone or how.get("executionMode") == "sequential")


def _around(play: _Play) -> CallPipeline:
    before, after = play.args.get("before", {}), play.args.get("after", {})

    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        said = before.get(play.their_id(ctx.call)) or {}
        if "throws" in said:
            raise RuntimeError(said["throws"])
        return Block(str(said.get("reason") or "")) if said.get("block") else None

    async def observer(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result | None:
        said = after.get(play.their_id(ctx.call)) or {}
        if "throws" in said:
            raise RuntimeError(said["throws"])
        content = said.get("content")
        if content is not None:
            texts = [content] if isinstance(content, str) else [block["text"] for block in content]
            result = result._replace(content=tuple(map(Text, texts)))
        if "isError" in said:
            result = result._replace(status="error" if said["isError"] else "ok")
        return result if said else None

    return CallPipeline(
        record=MemoryRecord(),
        guards=bind_guards([Hook(run=guard, name="the hook")]) if before else (),
        observers=bind_observers([observer]) if after else (),
    )


class _Looks(Inbox):
    """An inbox into which somebody says something at the n-th look; there is one before each reply, and one at last."""

    def __init__(self, play: _Play) -> None:
        super().__init__()
        self._play, self._has_looked = play, False

    @property
    def is_empty(self) -> bool:
        self._look()
        return super().is_empty

    def next_steering(self) -> Message | None:
        self._look()
        self._has_looked = False
        return super().next_steering()

    def _look(self) -> None:
        if not self._has_looked:
            self._has_looked = True
            self._play.poll()


def _looped(args: Json) -> Json:
    """Run the loop over the script."""
    if any(how and how.get("terminate") for how in args.get("tools", {}).values()):
        raise ToolError("no tool ends a turn: the model hears every result")
    logging.getLogger("toolcrib").addHandler(_QUIET)
    check_keys(args, "after before followUp steering stopAfterTurn toolExecution tools turns", "a case")
    for turn in args["turns"]:
        check_keys(turn, "content errorMessage stopReason stream", "a turn")
    for how in args.get("tools", {}).values():
        check_keys(how, "delay executionMode result terminate throws updates", "a tool")
    return run(_run(args))


async def _run(args: Json) -> Json:
    play = _Play(args)
    play.inbox = _Looks(play)
    for text in args.get("followUp", ()):
        play.inbox.follow_up(_said(text))
    alone = args.get("toolExecution") == "sequential"
    tools = [_tool(name, how or {}, play, alone=alone) for name, how in args.get("tools", {}).items()]
    caller = Caller(owner=True)
    setup = TurnSetup(
        model=_Script(play),
        belt=Belts(Catalog({tool.name: tool for tool in tools}, ()), load({}, {}).policy).belt_for(caller),
        caller=caller,
        pipeline=_around(play),
        limits=Limits(turns=args.get("stopAfterTurn", Limits().turns)),
        inbox=play.inbox,
    )
    words = _Words(play)
    loop = Loop(setup, History([_said("go")]), Journal(MemoryRecord()), words.hear)
    play.task = asyncio.ensure_future(loop.run())
    await asyncio.wait([play.task])
    replies = [message for message in loop.history if message.role == "assistant"]
    return {
        "llmCalls": len(play.roles),
        "events": _side_by_side(words.said),
        "executed": play.executed,
        "toolResults": [_answer(message, play) for message in loop.history if message.role == "tool"],
        "lastStopReason": _STOPS[replies[-1].finish] if replies else None,
        "contextRoles": play.roles,
        "thrown": None if play.task.cancelled() else play.task.exception(),
    }


def _answer(message: Message, play: _Play) -> Json:
    text = "".join(part.text for part in message.content if isinstance(part, Text))
    id = message.call_id or ""
    return {"id": play.ids.get(id, id), "isError": message.status == "error", "text": text}


def _said(text: str) -> Message:
    return Message(role="user", content=(Text(text),))


def _role(message: Message) -> str:
    return "toolResult" if message.role == "tool" else message.role


def _newest(case: Case) -> Json:
    """Return what was recorded of the newest version, its events in the order in which ours are told."""
    run = next(case.expected[version] for version in ("0.73", "0.58", "0.51", "all") if version in case.expected)
    return {**run, "events": _side_by_side(run["events"])}


def _side_by_side(events: Sequence[str]) -> list[str]:
    """Return the events with the calls of a reply taken up first, told in the order of their ends, answered last."""
    batch, ordered = list[str](), list[str]()
    for event in [*events, ""]:
        if "tool_execution" in event or ":toolResult:" in event:
            batch.append(event)
            continue
        for part in ("tool_execution_start", "tool_execution_update", "tool_execution_end", ":toolResult:"):
            ordered += [each for each in batch if part in each]
        batch.clear()
        ordered.append(event)
    return ordered[:-1]


def _same(case: Case, ours: Any) -> str:
    """Compare with the newest version that was recorded; words of failures are ours, how calls interleave is not."""
    if isinstance(ours, Refused):
        return compare(case, ours)
    theirs = _newest(case)
    results = list[Json]()
    for at, mine in enumerate(ours["toolResults"]):
        recorded = theirs["toolResults"][at] if at < len(theirs["toolResults"]) else {}
        if mine["isError"] and recorded.get("isError") and recorded["text"] not in _own_words(case.args):
            missing = [word for word in mentions(recorded["text"], _names(case.args)) if word not in mine["text"]]
            if missing:
                return f"our error does not mention {', '.join(map(repr, missing))}"
            mine = {**mine, "text": recorded["text"]}
        results.append(mine)
    ours = {**ours, "toolResults": results}
    differ = [key for key in theirs if not is_same(ours.get(key), theirs[key])]
    return f"{', '.join(differ)} differ" if differ else ""


def _names(args: Json) -> list[str]:
    """Return what an error may be about: tools, and what they are given."""
    calls = [call for turn in args["turns"] for call in _reply(turn).calls]
    return [*_TAKES["properties"], *args.get("tools", {}), *(call.name for call in calls)]


def _own_words(args: Json) -> set[str]:
    """Return what tools and hooks say themselves when they refuse or fail."""
    said = [*args.get("tools", {}).values(), *args.get("before", {}).values()]
    return {str(each[key]) for each in said for key in ("throws", "reason") if key in (each or {})} - {
        each["throws"] for each in args.get("before", {}).values() if "throws" in each
    }


ADAPTERS: dict[str, Callable[[Json], Any]] = {"pi.agentLoop": _looped}
SAME: dict[str, Same] = {"pi.agentLoop": _same}
THEIRS: dict[str, Theirs] = {"pi.agentLoop": _newest}
