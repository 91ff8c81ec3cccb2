"""The way out for commands and the browser: an HTTP proxy, which dials nothing but what the guard lets it dial.

It takes `CONNECT host:port` and requests that name a whole `http://` address, one of them for each connection. What it
cannot read in exactly one way is refused: a name that two programs read differently leads to two addresses.
"""

import asyncio
import base64
import hmac
import logging
import math
import re
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from toolcrib.define.egress import judge_port, read_place, read_url
from toolcrib.define.errors import ToolError
from toolcrib.lazy import dataclass, regex

log = logging.getLogger("toolcrib")

Dial = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to a host and a port; ToolError `denied`, `unavailable` or `timeout` where that may not or cannot be."""

_HEAD_BYTES, _CHUNK_BYTES = 65_536, 65_536
_REASON_CHARS = 300
_LINGER_SECONDS = 1.0
_RETRY_SECONDS = 0.2  # when the system has no descriptor left to accept with
_END = b"\r\n\r\n"

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST = regex(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) (HTTP/1\.[01])")
_FIELD = regex(rb"(" + _TOKEN + rb"):([\t\x20-\x7e\x80-\xff]*)")
_ANSWER = regex(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r\n)")
# what is between two neighbours only; `transfer-encoding` too, but bodies are passed on as they are
_HOP = frozenset((b"connection", b"proxy-connection", b"keep-alive", b"te", b"upgrade", b"proxy-authorization"))
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
_STATUS = {"bad_address": 400, "denied": 403, "too_large": 431, "unknown": 407, "busy": 503, "timeout": 504}

_Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class _ProxyRequest:
    """What is asked for: `head` is to be sent there, empty for a tunnel, and then so many bytes of a body."""

    host: str
    port: int
    head: bytes
    body_bytes: float


class GuardedProxy:
    """Serves listening sockets, each with at most `most` connections at once, and `most_of_all` together.

    A connection has `head_seconds` to say what it wants, and ends when nothing came or went for `idle_seconds`. With
    `credentials` (`user:password`) it serves only who shows them: a port of this machine is open to all its programs.
    """

    def __init__(
        self, dial: Dial, *, most: int = 64, most_of_all: int = 256, head_seconds: float = 30.0,
        idle_seconds: float = 300.0, credentials: str = "",
    ) -> None:  # fmt: skip
        self._dial, self._most, self._most_of_all = dial, most, most_of_all
        self._shown = b"Basic " + base64.b64encode(credentials.encode()) if credentials else b""
        self._head_seconds, self._idle_seconds = head_seconds, idle_seconds
        self._open = 0

    async def serve(self, listener: socket.socket) -> None:
        """Serve until this is cancelled, and all its connections with it. Who comes too many waits in the kernel."""
        loop, slots = asyncio.get_running_loop(), asyncio.Semaphore(self._most)
        listener.setblocking(False)
        async with asyncio.TaskGroup() as connections:
            while True:
                await slots.acquire()
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError as error:
                    log.warning("a connection to the proxy could not be accepted (%s)", error.strerror)
                    slots.release()
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                self._open += 1
                handling = connections.create_task(self._handle(connection))
                handling.add_done_callback(partial(self._forget, connection, slots))

    def _forget(self, connection: socket.socket, slots: asyncio.Semaphore, _: "asyncio.Task[None]") -> None:
        self._open -= 1
        connection.close()
        slots.release()

    async def _handle(self, connection: socket.socket) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=_HEAD_BYTES)
            _hold_nothing(writer)
            await self._answer(reader, writer)
        except (OSError, EOFError) as error:  # it went away, or had its time
            log.debug("a connection to the proxy ended early (%r)", error)
        except Exception:  # one connection must not end the others
            log.exception("a connection to the proxy failed")
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._read_request(reader)
            if refused := judge_port(request.host, request.port):
                raise refused
            far_reader, far_writer = await self._dial(request.host, request.port)
            _hold_nothing(far_writer)
            try:
                await self._pass_on(request, (reader, writer), (far_reader, far_writer))
            finally:
                far_writer.transport.abort()
        except ToolError as error:
            async with asyncio.timeout(_LINGER_SECONDS):
                writer.write(_refuse(error))
                await writer.drain()
                writer.write_eof()
                while await reader.read(_CHUNK_BYTES):  # closed at once, what is still sent would reset the answer
                    pass

    async def _read_request(self, reader: asyncio.StreamReader) -> _ProxyRequest:
        if self._open > self._most_of_all:
            raise ToolError("too many connections are open; try again when some ended", code="busy")
        async with asyncio.timeout(self._head_seconds):
            try:
                return _parse_request(await reader.readuntil(_END), self._shown)
            except asyncio.LimitOverrunError:
                raise ToolError(f"a head of more than {_HEAD_BYTES:,} bytes is too long", code="too_large") from None

    async def _pass_on(
        self, request: _ProxyRequest, near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:  # fmt: skip
        """Copy both directions until each is at its end; one may end before the other."""
        is_tunnel = not request.head
        async with asyncio.timeout(self._idle_seconds) as limit:

            def note_life() -> None:
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)

            (near[1] if is_tunnel else far[1]).write(request.head or b"HTTP/1.1 200 Connection established\r\n\r\n")
            asking = asyncio.create_task(_copy(near[0], far[1], note_life, request.body_bytes, ends=is_tunnel))
            try:
                if not is_tunnel:
                    near[1].write(await _read_answer(far[0], near[1], request.host))
                await _copy(far[0], near[1], note_life, math.inf, ends=True)
                if is_tunnel:
                    await asking
            finally:
                asking.cancel()
                await asyncio.wait((asking,))


def _parse_request(head: bytes, shown: bytes = b"") -> _ProxyRequest:
    """Read the head of a request; ToolError `bad_address` where it is not plain what is asked for.

    One that does not show what has to be shown is `unknown`.
    """
    first, *lines = head.removesuffix(_END).split(b"\r\n")
    found = _REQUEST.fullmatch(first)
    if found is None:
        raise _bad("the first line of a request is a method, an address and HTTP/1.1, one space between them")
    method, target, version = found[1], found[2].decode("ascii"), found[3]
    fields = _parse_fields(lines)
    if shown and not any(
        name == b"proxy-authorization" and hmac.compare_digest(value, shown) for name, value in fields
    ):
        raise ToolError("this proxy serves those who show its password", code="unknown")
    body_bytes = _measure_body(fields, version)
    if method == b"CONNECT":
        return _ProxyRequest(*read_place(target), b"", math.inf)
    if not target.lower().startswith("http://"):
        raise _bad(f"this is a proxy: it takes CONNECT and whole http:// addresses, not {target[:200]!r}")
    there = read_url(target)
    if there.credentials:
        raise _bad("no user and no password stand in an address; programs send them as a header")
    named = {name.strip().lower() for key, value in fields if key == b"connection" for name in value.split(b",")}
    dropped = _HOP | {b"host"} | named - _FRAMING
    kept = [(name, value) for name, value in fields if name not in dropped]
    kept += [(b"host", there.url.removeprefix("http://").partition("/")[0].encode()), (b"connection", b"close")]
    line = b"%b %b %b\r\n" % (method, there.target.encode(), version)
    return _ProxyRequest(there.host, there.port, line + _render_fields(kept), body_bytes)


def _parse_fields(lines: list[bytes]) -> _Fields:
    fields: _Fields = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise _bad(f"a header is a name, a colon and a value in one line, not {line[:100]!r}")
        fields.append((found[1].lower(), found[2].strip()))
    return fields


def _measure_body(fields: _Fields, version: bytes) -> float:
    """Return how long a body is, without end when it says itself where it ends; refuse what says both."""
    framing = [(name, value) for name, value in fields if name in _FRAMING]
    match framing:
        case []:
            return 0
        case [(b"content-length", value)] if value.isdigit() and len(value) <= 15:  # up to a petabyte
            return int(value)
        case [(b"transfer-encoding", value)] if value.lower() == b"chunked" and version == b"HTTP/1.1":
            return math.inf
    raise _bad("a request says once how long its body is: by one Content-Length, or by Transfer-Encoding: chunked")


def _bad(sentence: str) -> ToolError:
    return ToolError(sentence, code="bad_address")


def _refuse(error: ToolError) -> bytes:
    """Render a refusal; the sentence stands in the first line, too, which is all that many programs show."""
    sentence = error.for_model or str(error)
    status, body = _STATUS.get(error.code, 502), f"{sentence}\n".encode()
    reason = re.sub(r"[^\x20-\x7e]+", "?", sentence)[:_REASON_CHARS].encode()
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    if error.code == "unknown":
        fields.append((b"proxy-authenticate", b'Basic realm="toolcrib"'))
    return b"HTTP/1.1 %d %b\r\n" % (status, reason) + _render_fields([*fields, (b"connection", b"close")]) + body


def _render_fields(fields: _Fields) -> bytes:
    return b"".join(b"%b: %b\r\n" % field for field in fields) + b"\r\n"


def _hold_nothing(writer: asyncio.StreamWriter) -> None:
    """Let `drain` wait until the kernel has everything: then a connection can be dropped at any time."""
    writer.transport.set_write_buffer_limits(0)


async def _read_answer(reader: asyncio.StreamReader, near: asyncio.StreamWriter, host: str) -> bytes:
    """Return the head of an answer, which says that no other follows; what comes before it is passed on as it is."""
    while True:
        try:
            head = await reader.readuntil(_END)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            head = b""
        found = _ANSWER.match(head)
        if found is None:
            raise ToolError(f"{host} gave no answer that is HTTP", code="unavailable")
        if not found[1].startswith(b"1"):
            break
        near.write(head)
        await near.drain()
    first, *lines = head.removesuffix(_END).split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _HOP]
    return b"\r\n".join((first, *kept, b"connection: close")) + _END


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note_life: Callable[[], None], left: float, *,
    ends: bool,
) -> None:  # fmt: skip
    """Copy so many bytes, or all; with `ends` say then that no more come."""
    try:
        while left > 0 and (data := await reader.read(int(min(_CHUNK_BYTES, left)))):
            left -= len(data)
            writer.write(data)
            await writer.drain()
            note_life()
        if ends:
            writer.write_eof()
    except OSError as error:  # one side closed, so that the rest of the other has no reader
        log.debug("a connection of the proxy broke (%r)", error)
        writer.transport.abort()
