"""Tools of programs that connect: the program offers them for a session, the model calls them, the program answers.

An offer is a request that stays open: it holds as long as the connection that made it. Gate, hooks, record and fence
are those of any tool; what a program answers is from outside. An answer that comes too late reaches the model in a
turn of its own.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import Field

from toolcrib.adapter.cut import shorten
from toolcrib.adapter.fence import fence, new_token
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.display import strip
from toolcrib.define.errors import DeclarationError, ToolError
from toolcrib.define.gateway import GatewayEvent
from toolcrib.define.later import LATER_SECONDS
from toolcrib.define.marks import defuse
from toolcrib.define.message import Call, Message
from toolcrib.define.names import canonical
from toolcrib.define.ports import Progress, rpc
from toolcrib.define.result import Content, Result, Text
from toolcrib.define.schema.annotations import JsonObject, JsonValue
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.sourced import attribute
from toolcrib.define.tool import Tool
from toolcrib.define.turn import TurnRequest
from toolcrib.lazy import dataclass, field

from .calls import read_completion, source_of_client
from .chat import Chats
from .chat_run import FinishedRun, Key, owner_of_runs
from .feature import Feature, TurnCore

MAX_CLIENT_TOOLS = 128
_DESCRIPTION_CHARS, _DEFINITION_BYTES = 4_000, 65_536
_MAX_OFFERS, _MAX_WAITING = 16, 256  # of one principal; of one offer
_MAX_LATE, _LATE_CHARS = 256, 64_000
_GRACE_SECONDS = 30.0  # the limit of the call itself stands behind ours
_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}
_DELEGATED = "Tool execution delegated to client"

Delegate = Callable[[Ctx, str], Awaitable[Result]]


class WaitingCall(NamedTuple):
    """A call that its program has not answered yet; `name` is what the program calls the tool."""

    call: Call
    name: str
    answer: "asyncio.Future[Result]"
    ctx: Ctx


@dataclass(slots=True)
class PendingClientCalls:
    """The calls of one program's tools that wait for it; `tell` sends them to it, `source` is the program."""

    source: str
    tell: Callable[[GatewayEvent], None]
    waiting: dict[str, WaitingCall] = field(default_factory=dict)

    async def delegate(self, ctx: Ctx, own_name: str) -> Result:
        """Wait for the program's answer to a call."""
        if len(self.waiting) >= _MAX_WAITING:
            raise ToolError(f"{_MAX_WAITING} calls wait for this program already; try again later", code="unavailable")
        key, answer = ctx.call.key, asyncio.get_running_loop().create_future()
        self.waiting[key] = WaitingCall(ctx.call, own_name, answer, ctx)
        ctx.progress(Result.pending(_DELEGATED, details={"tool": own_name, "message": _DELEGATED}))
        try:
            payload = {"callId": key, "tool": own_name, "args": dict(ctx.call.args), "sessionKey": ctx.caller.session}
            self.tell(GatewayEvent("tool.call", payload))
            result: Result = await answer
        finally:
            self.waiting.pop(key, None)
        ctx.course.add_sources((self.source,))  # also where an observer says it in other words
        return result


def make_client_tool(definition: bytes, source: str, delegate: Delegate, seconds: float) -> Tool:
    """Return what a program declares, `{function: {name, description, parameters}}` or flat, as a tool."""
    given: Any = orjson.loads(definition)
    kind, spec = given.get("type", "function"), given.get("function", given)
    if kind != "function" or not isinstance(spec, dict):
        raise DeclarationError(f"a tool of a client is a function {{name, ...}}, not {str(given)[:64]!r}")
    given_name, about, schema = spec.get("name"), spec.get("description") or "", spec.get("parameters") or _NOTHING
    name = canonical(given_name) if isinstance(given_name, str) else None
    if name is None:
        raise DeclarationError(f"a tool needs a name of 1 to 64 letters, digits, _ and -, not {str(given_name)[:64]!r}")
    if not isinstance(about, str) or not isinstance(schema, dict) or len(definition) > _DEFINITION_BYTES:
        what = f"a description is text, and parameters are a JSON Schema, in at most {_DEFINITION_BYTES:,} bytes"
        raise DeclarationError(f"tool {name}: {what}")
    try:
        check = check_of_schema(schema)
    except DeclarationError as error:
        raise DeclarationError(f"tool {name}: {error}") from None

    async def run(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        return await delegate(ctx, str(given_name))

    return Tool(
        name=name,
        own_name=str(given_name),
        description=defuse(strip(shorten(about, _DESCRIPTION_CHARS))) or name,
        shape=Shape(lambda: schema, lambda _: check),
        run=run,
        source=source,
        timeout=seconds,
    )


def fence_outside(content: Iterable[Content], notice: str = "") -> tuple[Content, ...]:
    """Return the content with what has a source between marks: it is from outside."""
    token = new_token()
    return tuple(
        part._replace(text=fence(part.text, part.source, token, notice=notice))
        if isinstance(part, Text) and part.source is not None
        else part
        for part in content
    )


class _Offer(NamedTuple):
    """Tools that a program has for a session, and the caller in whose name it offers them."""

    placed: Caller
    tools: tuple[Tool, ...]
    board: PendingClientCalls
    ended: asyncio.Event


class _Late(NamedTuple):
    whose: str
    offer: _Offer
    name: str


def mount(core: TurnCore) -> Feature:
    """Mount what lets programs offer tools."""
    return Feature(services=(Peers(core.find(Chats), core.belt_of, lambda: float(core.config.tools.timeout_sec)),))


class Peers:
    """The programs that offer tools now."""

    def __init__(
        self, chat: Chats, belt_of: Callable[[Caller, Iterable[Tool]], Any], seconds: Callable[[], float]
    ) -> None:
        self._chat, self._belt_of, self._seconds = chat, belt_of, seconds
        self._offers: dict[tuple[str, str], _Offer] = {}
        self._late: OrderedDict[str, _Late] = OrderedDict()

    def tools_for(self, caller: Caller) -> tuple[Tool, ...]:
        """Return what a caller's own programs offer for its session. A subagent has what its parent hands on."""
        if not self._offers or caller.parents:
            return ()
        whose = owner_of_runs(caller)
        found = (each for (own, _), each in self._offers.items() if own == whose)
        return tuple(tool for each in found if each.placed.session == caller.session for tool in each.tools)

    @rpc("tools.offer", clients="write", two_answers=True, why="own")
    async def offer(
        self,
        caller: Caller,
        progress: Progress,
        tools: Annotated[tuple[JsonObject, ...], Field(max_length=MAX_CLIENT_TOOLS)],
        idempotencyKey: Key,  # noqa: N803  as the protocol spells it
        sessionKey: str = "main",  # noqa: N803
    ) -> dict[str, Any]:
        """Offer tools for the next turns of a session: the gate's verdicts come at once, calls come by `tool.call`.

        The request stays open, and the offer holds as long as it does. The same key again replaces it, no tools end it.
        """
        placed, id = self._chat.place(caller, sessionKey), (owner_of_runs(caller), idempotencyKey)
        before = self._offers.get(id)
        made = self._make(placed, id, tools)
        answer = {"status": "accepted", "offerId": idempotencyKey, "sessionKey": placed.session, "tools": made[1]}
        if before is not None:
            before.ended.set()
        if not made[0]:
            self._end(id, before)
            return {**answer, "status": "ok"}
        board = before.board if before else PendingClientCalls(source_of_client(caller), progress)
        board.tell = lambda event: progress(event._replace(payload={"offerId": idempotencyKey, **event.payload}))
        offer = self._offers[id] = _Offer(placed, made[0], board, asyncio.Event())
        progress(answer)
        try:
            await offer.ended.wait()
        finally:
            self._end(id, offer)
        return {**answer, "status": "ok", "tools": []}

    @rpc("tools.answer", clients="write", why="own")
    async def answer(
        self,
        caller: Caller,
        callId: Key,  # noqa: N803
        result: Annotated[JsonValue | None, "text, blocks {content: [...]}, or any other JSON"] = None,
        error: str = "",
        later: Annotated[str | None, "it is finished later: by `calls.complete`, with this handle"] = None,
        seconds: Annotated[float, "how long it waits for that"] = LATER_SECONDS,
    ) -> dict[str, Any]:
        """Answer a call of `tool.call`; an answer that comes too late reaches the model in a turn of its own."""
        whose, made = owner_of_runs(caller), read_completion(result, error)
        for (owner, _), offer in self._offers.items():
            waiting = offer.board.waiting.get(callId) if owner == whose else None
            if waiting is not None and not waiting.answer.done():
                if later is not None:
                    waiting.ctx.course.add_sources((offer.board.source,))
                    made = await waiting.ctx.later(later, seconds=seconds)
                if not waiting.answer.done():  # it may have been stopped meanwhile
                    waiting.answer.set_result(made)
                return {"status": made.status, **({} if later is None else {"handle": made.details["handle"]})}
        late = self._late.get(callId)
        if late is None or late.whose != whose:
            raise ToolError(f"no call {callId[:64]!r} waits for an answer of yours", code="not_found")
        words = attribute(made._replace(content=tuple(map(_shorten, made.content))), (late.offer.board.source,)).content
        lead = Text(f"What came of {late.name} after all (the call {callId} had been given up by then):\n")
        message = Message(role="user", content=(lead, *fence_outside(words)))
        found = await self._chat.begin(caller, TurnRequest(message=message, caller=late.offer.placed), f"late-{callId}")
        return found.to_json(callId) if isinstance(found, FinishedRun) else {"status": "late", "runId": found[0].id}

    def _make(
        self, placed: Caller, id: tuple[str, str], definitions: Iterable[Mapping[str, Any]]
    ) -> tuple[tuple[Tool, ...], list[dict[str, str]]]:
        """Return the tools of an offer, and what the gate says of each; ToolError when they cannot be offered."""
        if id not in self._offers and sum(own == id[0] for own, _ in self._offers) >= _MAX_OFFERS:
            raise ToolError(f"{_MAX_OFFERS} offers stand already; end one of them first", code="unavailable")
        source, delegate = source_of_client(placed), partial(self._delegate, id)
        seconds = self._seconds() + _GRACE_SECONDS
        theirs = {tool.name for tool in self.tools_for(placed)}
        theirs -= {tool.name for tool in (self._offers[id].tools if id in self._offers else ())}
        try:
            made = tuple(make_client_tool(orjson.dumps(each), source, delegate, seconds) for each in definitions)
            verdicts = self._belt_of(placed, made).verdicts
        except (DeclarationError, TypeError) as error:  # the latter for what JSON cannot hold
            raise ToolError(str(error), code="bad_arguments") from error
        if taken := next((tool.name for tool in made if tool.name in theirs), None):
            raise ToolError(f"another program offers {taken!r} in this session already", code="bad_arguments")
        gate = ((tool, verdicts[tool.name]) for tool in made)
        return made, [{"name": tool.own_name, "decision": each.decision, "reason": each.reason} for tool, each in gate]

    async def _delegate(self, id: tuple[str, str], ctx: Ctx, own_name: str) -> Result:
        """Have the program answer a call that was permitted: the one that holds the offer now."""
        offer, key, seconds = self._offers.get(id), ctx.call.key, self._seconds()
        if offer is None or all(tool.own_name != own_name for tool in offer.tools):
            raise ToolError(f"the program that offered {own_name} has gone", code="unavailable")
        try:
            async with asyncio.timeout(seconds):
                return await offer.board.delegate(ctx, own_name)
        except TimeoutError:
            self._expect_late(id, offer, key, own_name)
            what = f"{own_name} was not answered within {seconds:g} seconds; if an answer comes, you will be told"
            raise ToolError(what, code="timeout") from None
        except asyncio.CancelledError:  # nobody wants the answer any more
            offer.board.tell(GatewayEvent("tool.cancel", {"callId": key}))
            raise

    def _end(self, id: tuple[str, str], offer: _Offer | None) -> None:
        """Drop an offer, unless another has taken its place; calls that wait for its program fail at once."""
        if offer is None or self._offers.get(id) is not offer:
            return
        del self._offers[id]
        for key, (_, name, answer, _) in offer.board.waiting.items():
            self._expect_late(id, offer, key, name)
            if not answer.done():
                gone = f"the program that offered {name} has gone before it answered"
                answer.set_exception(ToolError(gone, code="unavailable"))

    def _expect_late(self, id: tuple[str, str], offer: _Offer, key: str, name: str) -> None:
        self._late[key] = _Late(id[0], offer, name)
        while len(self._late) > _MAX_LATE:
            self._late.popitem(last=False)


def _shorten(part: Content) -> Content:
    return part._replace(text=shorten(part.text, _LATE_CHARS)) if isinstance(part, Text) else part
