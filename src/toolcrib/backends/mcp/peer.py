"""The other end of a connection: requests and their answers, notifications, and unrequested messages.

Everything that comes in is outside: a message that is none, an answer to nothing, a flood. None of it reaches anybody
but as one sentence, and only the connection it came through pays for it. A server that is connected (`Linked`) is asked
through its peer: the handshake, what it offers, and calls; every list, text and wait is bounded.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Container, Coroutine, Mapping
from typing import Any, Protocol

import orjson

from toolcrib.adapter.trim import error_text
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Definition, LinkTerms, Offered, Progressed
from toolcrib.lazy import regex

log = logging.getLogger("toolcrib")

MESSAGE_BYTES = 16 * 1024 * 1024  # bytes of one message
_MAX_WAITING = 256  # requests of ours at once
# unrequested messages and their bytes in one window of time
_MAX_UNASKED, _MAX_UNASKED_BYTES = 5_000, 32 * 1024 * 1024
_MAX_VALUES, _VALUE_BYTES = 250_000, 16  # values in one message, and how many bytes more each of them counts as
# so many commas and brackets outside of texts
_MANY_VALUES = regex(rb'(?:[^",\[{]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^",\[{]*+)*+[,\[{]){%d}' % _MAX_VALUES, re.DOTALL)
_LONG = 1024 * 1024  # bytes; no unrequested message of such a length is of use
_PROGRESS_EVERY = 0.05  # seconds; what comes faster is not passed on
_WORDS_CHARS = 400
_MAX_NUMBER = 2**53
_NO_SUCH_METHOD = -32601
_OUR_VERSION = "2025-11-25"
_SPOKEN_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", _OUR_VERSION)
_MAX_PAGES = 200
_CURSOR_CHARS = 4_096

_Message = Mapping[str, Any]
SendMessage = Callable[[_Message], Coroutine[Any, Any, None]]


class ServerPeer:
    """One server. `send` hands a message to its transport; what comes back is given to `heard`.

    `changed` is called when the server says that what it offers has changed, with the address of a resource.
    `redact` takes secrets out of its words; `window` is the time over which unrequested messages are counted.
    """

    def __init__(
        self,
        name: str,
        send: SendMessage,
        *,
        changed: Callable[..., None],
        redact: Callable[[str], str] = str,
        window: float = 10.0,
    ) -> None:
        self.name, self._send, self._changed, self.redact, self._window = name, send, changed, redact, window
        self._next = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._progress: dict[int, tuple[Progressed, float]] = {}
        self._unasked, self._unasked_bytes, self._since = 0, 0, 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def request(
        self, method: str, params: Mapping[str, Any], seconds: float, progress: Progressed | None = None
    ) -> Any:
        """Return the result of a request; raise ToolError with what the server, or its silence, says instead."""
        if self.lost.done():
            raise self._gone()
        if len(self._waiting) >= _MAX_WAITING:
            raise self.error(f"has {_MAX_WAITING} requests to answer already", "busy")
        self._next += 1
        id, answer = self._next, asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        if progress is not None:
            self._progress[id] = progress, 0.0
            params = {**params, "_meta": {"progressToken": id}}
        sending = self._start_sending({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait((sending, answer), return_when=asyncio.FIRST_COMPLETED)
                if not answer.done() and (failed := sending.exception()):
                    raise self._name_server(failed)
                return await answer
        except TimeoutError:
            self._call_off(id, method)
            raise self.error(f"did not answer {method} within {seconds:g} seconds", "timeout") from None
        except asyncio.CancelledError:
            self._call_off(id, method)
            raise
        finally:
            sending.cancel()  # an answer over HTTP may be there before its stream ends
            del self._waiting[id]
            self._progress.pop(id, None)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        await self._send({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))

    def admit(self, line: bytes) -> int:
        """Return what a message weighs, 0 when it is not to be read.

        Reading holds up everybody, in a thread as well: the parser does not let go of the interpreter. Many small
        values take it longer than as many bytes of text.
        """
        values = line.count(b",") + line.count(b"[") + line.count(b"{")
        if values > _MAX_VALUES and _MANY_VALUES.match(line):
            self.lose(f"was cut off: it sent a message of more than {_MAX_VALUES:,} values")
        weight = len(line) + values * _VALUE_BYTES
        self._note(0, weight)
        return weight if not self.lost.done() and (len(line) <= _LONG or self._waiting) else 0

    def receive(self, message: Any, weight: int = 0) -> None:
        """Take a message of an admitted weight; that of an awaited answer does not count."""
        if isinstance(message, dict) and type(id := message.get("id")) is int and id in self._waiting:
            self._unasked_bytes -= weight
        if isinstance(message, list):  # a batch, as an older protocol has them
            self._note()
            for each in message[:_MAX_WAITING]:
                self._dispatch(each)
        else:
            self._dispatch(message)

    def _dispatch(self, message: Any) -> None:
        match message:
            case {"method": str(method), "id": int() | str() as id}:
                self._answer_request(method, id)
            case {"method": str(method)}:
                self._handle_notification(method, message.get("params"))
            case {"id": int(id)} if id in self._waiting and type(id) is int:
                self._settle_answer(self._waiting[id], message)
            case _:
                self._note()

    def lose(self, why: str) -> None:
        """End every wait: the connection is no more, for the reason that this clause gives."""
        if self.lost.done() or self.lost.get_loop().is_closed():
            return
        self.lost.set_result(why)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._gone())
                answer.exception()  # the waiting call gets it; there may be none
        for task in self._tasks:
            task.cancel()

    def words(self, text: Any) -> str:
        """Return words of the server as a person or a model may be shown them: one line, harmless, no secrets."""
        return error_text(self._cut(text) if isinstance(text, str) else "", self.redact)

    def _cut(self, text: str) -> str:
        """Return the beginning of a text; half of a secret is none of it."""
        return self.redact(text[: 4 * _WORDS_CHARS])[:_WORDS_CHARS]

    def _name_server(self, error: BaseException) -> BaseException:
        """Return what a transport raised, with the server it is about."""
        return self.error(f"cannot be used: {error}", error.code) if isinstance(error, ToolError) else error

    def error(self, clause: str, code: str = "failed") -> ToolError:
        """Return an error whose sentence is about this server."""
        return ToolError(f"the MCP server {self.name!r} {clause}", code=code, source=f"mcp:{self.name}")

    def _gone(self) -> ToolError:
        return self.error(self.lost.result(), "unavailable")

    def _settle_answer(self, answer: "asyncio.Future[Any]", rest: _Message) -> None:
        if answer.done():
            return
        match rest:
            case {"error": {"message": str(words)}}:
                answer.set_exception(self.error(f"refused: {self.words(words)}"))
            case {"result": result}:
                answer.set_result(result)
            case _:
                answer.set_exception(self.error("answered with neither a result nor an error"))

    def _answer_request(self, method: str, id: int | str) -> None:
        """Answer a request of the server's: only a ping; sampling and elicitation are not offered."""
        self._note()
        if len(self._tasks) < _MAX_WAITING and not self.lost.done():
            refusal = {"error": {"code": _NO_SUCH_METHOD, "message": "not offered by this client"}}
            reply: _Message = {"result": {}} if method == "ping" else refusal
            self._start_sending({"jsonrpc": "2.0", "id": id, **reply})

    def _start_sending(self, message: _Message) -> "asyncio.Task[None]":
        """Send a message in the background; its outcome is not reported."""
        task = asyncio.get_running_loop().create_task(self._send(message))
        self._tasks.add(task)
        task.add_done_callback(self._finish_sending)
        return task

    def _finish_sending(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.debug("a message to the MCP server %s was not sent: %s", self.name, type(error).__name__)

    def _handle_notification(self, method: str, params: Any) -> None:
        match method, params:
            case "notifications/progress", {"progressToken": int(token)} if token in self._progress:
                self._report_progress(token, params)
            case "notifications/tools/list_changed", _:
                self._note()
                self._changed()
            case "notifications/resources/updated", {"uri": str(uri)} if uri:
                self._note()
                self._changed(self._cut(uri))
            case _:
                self._note()

    def _report_progress(self, token: int, params: _Message) -> None:
        """Report how far a call is, not more often than a person can read it."""
        report, before = self._progress[token]
        now, done, words = asyncio.get_running_loop().time(), _number(params.get("progress")), params.get("message")
        if done is None or now - before < _PROGRESS_EVERY:
            return
        self._progress[token] = report, now
        shown = strip_to_line(self._cut(words)) if isinstance(words, str) else ""
        try:
            report(done, _number(params.get("total")), shown)
        except Exception:  # what else came with this message, an answer perhaps, is not lost with it
            log.exception("who watches a call of the MCP server %s failed; the call goes on", self.name)

    def _note(self, messages: int = 1, size: int = 0) -> None:
        """Count unrequested messages; too many end the connection."""
        now = asyncio.get_running_loop().time()
        if now - self._since > self._window:
            self._unasked, self._unasked_bytes, self._since = 0, 0, now
        self._unasked += messages
        self._unasked_bytes += size
        if self._unasked > _MAX_UNASKED:
            self._cut_off(f"{_MAX_UNASKED:,} messages")
        elif self._unasked_bytes - size > _MAX_UNASKED_BYTES:  # the last one may be an answer
            self._cut_off(f"more than {_MAX_UNASKED_BYTES:,} bytes")

    def _cut_off(self, what: str) -> None:
        self.lose(f"was cut off: it sent {what} in {self._window:g} seconds that nobody asked for")

    def _call_off(self, id: int, method: str) -> None:
        """Cancel a request at the server. The first request must not be cancelled."""
        if not self.lost.done() and method != "initialize":
            params = {"requestId": id, "reason": "nobody waits for it any more"}
            self._start_sending({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


MakePeer = Callable[[SendMessage], ServerPeer]


def _number(value: Any) -> float | None:
    """Return a finite number: JSON also holds others."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER
    return float(value) if is_number else None


def encode(message: _Message) -> bytes:
    """Return a message as it crosses the wire; raise ToolError when it holds what no JSON can, or too much of it."""
    try:
        line = orjson.dumps(message)
    except TypeError:
        try:
            line = json.dumps(message, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ToolError(f"the arguments cannot be written as JSON: {error}", code="bad_arguments") from None
    if len(line) > MESSAGE_BYTES:
        raise ToolError(
            f"{len(line):,} bytes are too many for one message; {MESSAGE_BYTES:,} is the most", code="too_large"
        )
    return line


def decode(line: bytes) -> Any:
    """Return the message that the bytes spell; raise ValueError when they spell none."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        # numbers that JSON does not have, or half of a character, are no reason to give up a server
        try:
            return json.loads(line.decode(), parse_constant=lambda _: None)
        except RecursionError:
            raise ValueError("nested too deep") from None


class Transport(Protocol):
    """What carries messages to one server; what comes back goes to its peer."""

    async def send(self, message: Mapping[str, Any]) -> None: ...
    def agree(self, version: str) -> None: ...
    def diagnostics(self) -> str: ...
    async def close(self) -> None: ...


class Linked:
    """A connected server."""

    def __init__(self, peer: ServerPeer, transport: Transport, terms: LinkTerms) -> None:
        self._peer, self._transport, self._terms = peer, transport, terms
        self._can: Mapping[str, Any] = {}
        self.about = ""

    async def open(self) -> None:
        """Shake hands; when the server is none, or speaks another language, raise ToolError with nothing left open."""
        try:
            await self._shake_hands()
        except BaseException:
            await self.close()
            raise

    async def _shake_hands(self) -> None:
        answer = await self._peer.request(
            "initialize",
            {
                "protocolVersion": _OUR_VERSION,
                "capabilities": {},  # nothing of ours is for servers: no sampling, no files, no questions
                "clientInfo": {"name": "toolcrib", "version": "1"},  # the release is not disclosed
            },
            self._terms.handshake,
        )
        match answer:
            case {"protocolVersion": str(spoken), "capabilities": dict(can)}:
                self._can = can
            case _:
                raise self._peer.error("shook hands with nonsense")
        if spoken not in _SPOKEN_VERSIONS:
            theirs, ours = self._peer.words(spoken), f"{_SPOKEN_VERSIONS[0]} to {_SPOKEN_VERSIONS[-1]}"
            raise self._peer.error(f"speaks {theirs!r} of the protocol, and we speak {ours}")
        info = answer.get("serverInfo")
        name = self._peer.words(info.get("name")) if isinstance(info, dict) else ""
        self.about = f"{name}, protocol {spoken}"
        self._transport.agree(spoken)
        await self._peer.notify("notifications/initialized")

    async def fetch_offer(self) -> Offered:
        tools: dict[str, Definition] = {}
        faults: list[str] = []
        found, is_whole = await self._list_tools() if "tools" in self._can else ([], True)
        if not is_whole:
            faults.append(f"its list of tools has no end; what stands behind {_MAX_PAGES} pages was left out")
        for each in found:
            fault = self._fault(each, tools)
            if fault:
                faults.append(fault)
            elif len(tools) == self._terms.most_tools:
                more = len(found) - found.index(each)
                faults.append(f"it offers {len(found):,} tools or more; {more:,} behind the first ones were left out")
                break
            else:
                tools[each["name"]] = each
        notes = tuple(dict.fromkeys(faults))[:20]
        return Offered(tuple(tools.values()), "resources" in self._can, "prompts" in self._can, notes)

    def _fault(self, each: Any, seen: Container[str]) -> str:
        """Say why a definition cannot be taken, in a clause; "" when it can."""
        if not isinstance(each, dict) or not isinstance(each.get("name"), str) or not each["name"]:
            return "it offers a tool without a name; it was left out"
        name = repr(self._peer.redact(each["name"])[:64])
        try:
            size = len(orjson.dumps(each))
        except TypeError:
            return f"its tool {name} is declared with what no JSON can hold; it was left out"
        if size > self._terms.largest_tool:
            return f"its tool {name} takes {size:,} bytes to declare; it was left out"
        if each["name"] in seen:
            return f"it offers two tools called {name}; the second was left out"
        return ""

    async def call(self, tool: str, args: Mapping[str, Any], progress: Progressed | None = None, /) -> Any:
        return await self._peer.request("tools/call", {"name": tool, "arguments": args}, self._terms.call, progress)

    async def ask(self, method: str, params: Mapping[str, Any], /) -> Mapping[str, Any]:
        answer = await self._peer.request(method, params, self._terms.listing)
        if not isinstance(answer, dict):
            raise self._peer.error(f"answered {method} with no object")
        return answer

    @property
    def is_gone(self) -> bool:
        return self._peer.lost.done()

    async def wait_closed(self) -> str:
        return await asyncio.shield(self._peer.lost)

    def diagnostics(self) -> str:
        return self._peer.redact(self._transport.diagnostics())

    async def close(self) -> None:
        self._peer.lose("was let go")
        await self._transport.close()

    async def _list_tools(self) -> tuple[list[Any], bool]:
        """Return a list of many pages, as far as it goes or may go, and whether it came to its end or to enough."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.ask("tools/list", {"cursor": cursor} if cursor else {})
            tools = page.get("tools")
            if not isinstance(tools, list):
                raise self._peer.error("answered tools/list without a list")
            found += tools
            cursor = page.get("nextCursor")
            has_more = isinstance(cursor, str) and 0 < len(cursor) <= _CURSOR_CHARS
            if not has_more or len(found) > self._terms.most_tools:
                return found, True
        return found, False
