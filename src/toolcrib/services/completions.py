"""Turns for programs that bring tools of their own: the model calls them, the program runs them, the turn goes on.

A call of such a tool is judged and recorded like any other, and then waits in its turn. The program gets a list of all
calls that wait; it asks again with their results, and the same turn goes on. What comes back is from outside, and is
fenced. Results that nobody waits for any more reach the model in a turn of their own.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from secrets import token_hex
from typing import Annotated, Any

import orjson
from pydantic import Field

from toolcrib.adapter.cut import shorten
from toolcrib.adapter.fence import NOTICE
from toolcrib.define import event as events
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import CribError, DeclarationError, ToolError
from toolcrib.define.message import Call, Message
from toolcrib.define.names import canonical
from toolcrib.define.ports import Progress, rpc
from toolcrib.define.result import Content, Result, Text
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.tool import Tool
from toolcrib.define.turn import TurnRequest
from toolcrib.lazy import dataclass

from .calls import read_blocks, source_of_client
from .chat import Chats
from .chat_run import ChatRun, FinishedRun, Outside, add_source, owner_of_runs
from .feature import Feature, TurnCore
from .peers import MAX_CLIENT_TOOLS, PendingClientCalls, fence_outside, make_client_tool

_MAX_RESULTS = 256
_ANSWER_SECONDS = 600.0  # for a program to answer a call
_HOOK_CHARS, _HOOK_SECONDS = 64_000, 8.0  # of what a hook brings; and until that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionQuery:
    """A message in blocks of content, and the conversation `before` it where the session is a new one.

    `tools` are the program's own, `{function: {name, description, parameters}}` or without the outer object;
    `results` are `{id, text}` of calls that it was asked for.
    """

    content: tuple[JsonObject, ...] = ()
    before: tuple[JsonObject, ...] = ()
    tools: Annotated[tuple[JsonObject, ...], Field(max_length=MAX_CLIENT_TOOLS)] = ()
    results: Annotated[tuple[JsonObject, ...], Field(max_length=_MAX_RESULTS)] = ()
    sessionKey: str = ""  # noqa: N815  as the protocol spells it
    model: str = ""
    idempotencyKey: Annotated[str, Field(max_length=256)] = ""  # noqa: N815
    outside: Outside = ""


_asking: "ContextVar[ClientTurn | None]" = ContextVar("toolcrib_client_turn", default=None)


class ClientTurn:
    """A turn some of whose calls a program answers, and how far the one that follows it has come."""

    def __init__(self, caller: Caller, is_exclusive: Callable[[str], bool]) -> None:
        self.whose, self._is_exclusive = owner_of_runs(caller), is_exclusive
        self.is_followed = False
        self._news = asyncio.Event()
        self.board = PendingClientCalls(source_of_client(caller), lambda _: self._news.set())
        self.waiting = self.board.waiting
        self._open: dict[str, Call] = {}
        self._coming: asyncio.Task[events.Event | None] | None = None
        self._text, self._usage, self._has_gap = "", events.Usage(), False

    def take(self, run: ChatRun) -> None:
        """Follow this run."""
        self.followed, self._events = run, run.turn.subscribe()

    async def follow(self, progress: Progress) -> dict[str, Any]:
        """Return how it ended, or which calls wait; `progress` hears its words. Who leaves meanwhile stops it."""
        self.is_followed = True
        progress({"runId": self.followed.id, "sessionKey": self.followed.session})
        try:
            while not self._waits_for_answers():
                if self._coming is None:
                    self._coming = asyncio.ensure_future(self._next())
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait([self._coming, news], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                self._news.clear()
                if self._coming.done():
                    event, self._coming = self._coming.result(), None
                    if event is None:
                        return self._tell_end(await self.followed.turn.end())
                    self._hear(event, progress)
        except asyncio.CancelledError:
            self.followed.turn.stop()
            raise
        except CribError as error:
            raise ToolError(str(error), code=getattr(error, "code", "bad_arguments")) from error
        finally:
            self.is_followed = False
        calls = [{"id": key, "name": each.name, "args": dict(each.call.args)} for key, each in self.waiting.items()]
        return self._tell({"status": "pending", "text": self._text, "calls": calls})

    async def _next(self) -> events.Event | None:
        try:
            return await anext(self._events)
        except (StopAsyncIteration, CribError):
            return None  # its end says why

    def _hear(self, event: events.Event, progress: Progress) -> None:
        match event:
            case events.TextDelta(text=text):
                progress({"delta": f"\n\n{text}" if self._has_gap else text})
                self._has_gap = False
            case events.Retrying():
                self._has_gap = True
            case events.Replied(message=message, usage=usage):
                self._text, self._usage = message.plain_text, self._usage + usage
                self._open = {call.key: call for call in message.calls}
                self._has_gap = bool(self._text)
            case events.ToolFinished(call=call):
                self._open.pop(call.key, None)

    def _waits_for_answers(self) -> bool:
        """Tell whether nothing moves until the program answers: an exclusive call waits for those before it."""
        if not self.waiting or not self.waiting.keys() <= self._open.keys():
            return False
        for key, call in self._open.items():
            if key not in self.waiting:
                return self._is_exclusive(call.name) and key != next(iter(self._open))
        return True

    def _tell_end(self, end: events.TurnFinished) -> dict[str, Any]:
        status = "error" if end.reason in ("error", "stopped") else "ok"
        return self._tell({"status": status, "reason": end.reason, "text": end.text, "error": end.sentence})

    def _tell(self, report: dict[str, Any]) -> dict[str, Any]:
        used, self._usage = self._usage, events.Usage()
        usage = {"input": used.input, "output": used.output, "cached": used.cached}
        return {"runId": self.followed.id, "sessionKey": self.followed.session, "calls": [], **report, "usage": usage}


def mount(core: TurnCore) -> Feature:
    """Mount what answers programs that bring tools."""
    return Feature(services=(Completions(core.find(Chats), core.belt_of),))


class Completions:
    """The turns that programs ask for."""

    def __init__(self, chat: Chats, belt_of: Callable[[Caller, Iterable[Tool]], Any]) -> None:
        self._chat, self._belt_of = chat, belt_of
        self._turns: list[ClientTurn] = []
        # a program sends the same tools with every request: the belts that were made for them are found again
        self._make_tool = lru_cache(maxsize=1024)(make_client_tool)

    @rpc("chat.complete", clients="write", starts_turn=True, shared=True, why="turn")
    async def complete(self, caller: Caller, progress: Progress, query: CompletionQuery) -> dict[str, Any]:
        """Answer a message, with tools of the caller's own; returns when it is done, or when calls of those wait."""
        answers = [_read_answer(each) for each in query.results]
        content = add_source(_read_content(query.content), query.outside)
        turn = self._find_waiting(owner_of_runs(caller), [key for key, _ in answers])
        if turn is None:
            late = [Text(f"The result of the call {key}:\n{text}", "client:late") for key, text in answers]
            turn = await self._begin(caller, query, (*fence_outside(late), *content))
        else:
            if content:
                turn.followed.turn.steer(Message(role="user", content=content))
            for key, text in answers:
                turn.waiting.pop(key).answer.set_result(Result.text(text))
        report = await turn.follow(progress)
        return report | await self._chat.describe_sources(turn.followed)

    @rpc("hooks.run", clients="write", starts_turn=True, why="turn")
    async def run_hook(
        self,
        caller: Caller,
        name: Annotated[str, Field(min_length=1, max_length=64)],
        text: str,
        idempotencyKey: Annotated[str, Field(max_length=256)] = "",  # noqa: N803  as the protocol spells it
    ) -> dict[str, Any]:
        """Let an agent look at content from outside; returns the id of the run at once."""
        placed = self._chat.place(caller, "main" if caller.session else f"hook:{name}")
        content = fence_outside([Text(shorten(text, _HOOK_CHARS), f"hook:{name}")], NOTICE)
        key = idempotencyKey or token_hex(12)
        request = TurnRequest(message=Message(role="user", content=content), caller=placed)
        found = await self._chat.begin(caller, request, key)
        if isinstance(found, FinishedRun):
            return found.to_json(key)
        run, is_new = found
        try:  # whoever posts does not wait long, and what is acknowledged is kept
            async with asyncio.timeout(_HOOK_SECONDS):
                await run.wait_until_kept()
        except TimeoutError:
            run.turn.stop()
            raise ToolError(f"the hook {name} is busy; post it again later", code="unavailable") from None
        return {"runId": run.id, "sessionKey": run.session, "status": "started" if is_new else run.status()}

    async def _begin(self, caller: Caller, query: CompletionQuery, content: tuple[Content, ...]) -> ClientTurn:
        placed = self._chat.place(caller, query.sessionKey or f"run:{token_hex(6)}")
        content = (*add_source(_read_content(query.before), query.outside), *content)
        if not any(not isinstance(part, Text) or part.text.strip() for part in content):
            raise ToolError("the message is empty; it needs text, or results of calls", code="bad_arguments")
        try:
            given, source = map(orjson.dumps, query.tools), source_of_client(caller)
            tools = tuple(self._make_tool(each, source, _delegate, _ANSWER_SECONDS) for each in given)
            belt = self._belt_of(placed, tools)
        except (DeclarationError, TypeError) as error:  # the latter for what JSON cannot hold
            raise ToolError(str(error), code="bad_arguments") from error
        exclusive = {name for name, tool in belt.tools.items() if tool.exclusive}
        turn = ClientTurn(caller, lambda name: (canonical(name) or name) in exclusive)
        message = Message(role="user", content=content)
        asked = _asking.set(turn)
        try:
            request = TurnRequest(message=message, caller=placed, extra=tools, asked_model=query.model)
            key = query.idempotencyKey or f"run-{token_hex(12)}"
            found = await self._chat.begin(caller, request, key)
        finally:
            _asking.reset(asked)
        if isinstance(found, FinishedRun) or not found[1]:
            raise ToolError(f"the run {key!r} was asked for already; agent.wait tells how it is", code="busy")
        run, _ = found
        self._turns = [each for each in self._turns if each.followed.ended is None]
        for each in self._turns:
            if each.followed.session == run.session and each.waiting and not each.is_followed:
                each.followed.turn.stop()  # its program says something else instead of the answers
        turn.take(run)
        self._turns.append(turn)
        return turn

    def _find_waiting(self, whose: str, keys: Sequence[str]) -> ClientTurn | None:
        """Return the turn of this asker in which calls wait for these answers; it has to be all of them."""
        for turn in self._turns if keys else ():
            if turn.whose != whose or turn.is_followed or turn.waiting.keys().isdisjoint(keys):
                continue
            if sorted(keys) != sorted(turn.waiting):
                wanted = ", ".join(turn.waiting)
                raise ToolError(f"give one result for each call that waits: {wanted}", code="bad_arguments")
            return turn
        return None


async def _delegate(ctx: Ctx, own_name: str) -> Result:
    turn = _asking.get()
    if turn is None or ctx.caller.parents:
        raise ToolError(f"{own_name} is a tool of the program that asked; no subagent can call it", code="unavailable")
    return await turn.board.delegate(ctx, own_name)


def _read_content(blocks: Iterable[Mapping[str, Any]]) -> tuple[Content, ...]:
    return fence_outside(read_blocks(blocks))


def _read_answer(given: Mapping[str, Any]) -> tuple[str, str]:
    match given:
        case {"id": str(key), "text": str(text)}:
            return key, text
    raise ToolError("a result is {id, text}", code="bad_arguments")
