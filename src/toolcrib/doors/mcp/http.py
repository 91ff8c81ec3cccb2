"""The protocol over streamable HTTP, on this machine alone, and nothing without the token."""

import asyncio
import hmac
import logging
import re
import resource
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import h11
import uvicorn
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from toolcrib.define.errors import CribError

from .server import BeltServer

PATH = "/mcp"

_REQUEST_BYTES = 32 * 1024 * 1024  # bytes of one request
_RETRY_MS = 1_000  # after which a client comes back for the rest
_MAX_EVENTS, _MAX_BYTES = 1_000, 2 * 1024 * 1024  # of one client; the newest is kept however long it is
_QUEUE = 1024  # connections that the kernel holds until they are accepted
_HERE = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d{1,5})?", re.ASCII | re.IGNORECASE)


def listen_on(port: int) -> socket.socket:
    """Return a socket that listens on this machine alone; port 0 is one that is free."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", port))
    except OSError as error:
        server.close()
        raise CribError(
            f"port {port} on 127.0.0.1 cannot be used ({error.strerror}); name another with --http"
        ) from None
    server.listen(_QUEUE)
    server.setblocking(False)
    return server


async def serve_http(
    server: BeltServer,
    at: socket.socket,
    token: str,
    *,
    head_seconds: float = 10.0,
    body_seconds: float = 60.0,
    max_strangers: int = 128,
) -> None:
    """Serve every client that knows the token, until this is cancelled; then every call is stopped.

    The head and the body of a request have to be there in time, and of the connections that have not shown the token
    no more than `max_strangers` are kept.
    """
    sessions = _Sessions(server, _REQUEST_BYTES)
    app = Starlette(routes=[Route(PATH, StreamableHTTPASGIApp(sessions))], lifespan=lambda _: sessions.run())
    guard, descriptors = _Guard(app, token, server.versions), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors != resource.RLIM_INFINITY:  # most are for our own work: commands, files, who showed the token
        max_strangers = max(min(max_strangers, descriptors // 4), 1)
    config = uvicorn.Config(
        guard,
        http=_Connection,
        backlog=max(max_strangers // 4, 1),  # as many are accepted at once, before the first of them is looked at
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=0,
    )
    http = _Http(config, _Clients(guard, {h11.IDLE: head_seconds, h11.SEND_BODY: body_seconds}, max_strangers))
    serving = asyncio.ensure_future(http.serve(sockets=[at]))
    try:
        await asyncio.shield(serving)
    finally:
        # what they say about connections that are cut off is no news to whoever ends them
        for name in ("uvicorn.error", "mcp"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        http.should_exit = True
        await asyncio.wait([serving])


class _Event(NamedTuple):
    id: str
    stream: str
    message: JSONRPCMessage | None
    size: int


class _ReplayStore(EventStore):
    """The last events of one client."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque()
        self._next, self._size = 0, 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._next += 1
        size = 0 if message is None else len(message.model_dump_json())
        self._events.append(_Event(str(self._next), stream_id, message, size))
        self._size += size
        while len(self._events) > 1 and (self._size > _MAX_BYTES or len(self._events) > _MAX_EVENTS):
            self._size -= self._events.popleft().size
        return str(self._next)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        seen = next((each for each in self._events if each.id == last_event_id), None)
        if seen is None:
            return None
        for each in tuple(self._events):
            if each.stream == seen.stream and int(each.id) > int(seen.id) and each.message is not None:
                await send_callback(EventMessage(each.message, each.id))
        return seen.stream


class _Sessions(StreamableHTTPSessionManager):
    """The sessions of a server. Each has a store of its own: the SDK calls streams by the numbers of their requests."""

    def __init__(self, server: Any, max_bytes: int) -> None:
        super().__init__(server, retry_interval=_RETRY_MS, max_request_body_size=max_bytes)

    @property  # it is asked for once by every session
    def event_store(self) -> EventStore:
        return _ReplayStore()

    @event_store.setter
    def event_store(self, store: EventStore | None) -> None:
        """Take no other."""


class _Clients(ServerState):
    """The connections; `strangers` have not shown the token, the oldest first. `seconds` by what is waited for."""

    def __init__(self, guard: "_Guard", seconds: Mapping[Any, float], max_strangers: int) -> None:
        super().__init__()
        self.guard, self.seconds, self.max_strangers = guard, seconds, max_strangers
        self.strangers: dict[_Connection, None] = {}


class _Connection(H11Protocol):
    """One connection; the head and the body of each request have to be there in time."""

    server_state: _Clients
    _deadline: asyncio.TimerHandle | None = None
    _awaited: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        strangers = self.server_state.strangers
        strangers[self] = None
        if len(strangers) > self.server_state.max_strangers:  # who has the token shows it at once: the oldest goes
            oldest = next(iter(strangers))
            del strangers[oldest]
            oldest.transport.abort()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.server_state.strangers.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def handle_events(self) -> None:
        super().handle_events()
        if self.headers and self.server_state.guard.is_shown_token(self.headers):
            self.server_state.strangers.pop(self, None)
        self._expect()

    def _expect(self) -> None:
        """Set the time for what has to come next: a head, a body, or nothing while a request is answered."""
        if (state := self.conn.their_state) is self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        seconds = self.server_state.seconds.get(state)
        self._awaited = state
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class _Http(uvicorn.Server):
    """Leaves signals to the command line, and counts its clients."""

    def __init__(self, config: uvicorn.Config, clients: _Clients) -> None:
        super().__init__(config)
        self.server_state = clients

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for at in sockets or ():
            at.listen(_QUEUE)  # the backlog of the configuration says only how many are accepted at once

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Guard:
    """Lets through what comes from this machine with the token; all else is refused before anything is read of it.

    `versions` has the protocol that each session agreed on when it began: that holds, whatever a request says later.
    """

    def __init__(self, app: ASGIApp, token: str, versions: Mapping[str, str]) -> None:
        self._app, self._wanted, self._versions = app, f"Bearer {token}".encode(), versions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if scope["type"] == "lifespan" or (scope["type"] == "http" and refusal is None):
            await self._app(self._agree(scope), receive, send)
        elif refusal is not None:
            await _refuse(*refusal, send)

    def is_shown_token(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Tell whether a request shows the token, once."""
        given = [value for name, value in headers if name.lower() == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)

    def _agree(self, scope: Scope) -> Scope:
        headers = scope.get("headers", [])
        session = next((value.decode("latin-1") for name, value in headers if name == b"mcp-session-id"), "")
        if session not in self._versions:
            return scope
        kept = [(name, value) for name, value in headers if name != b"mcp-protocol-version"]
        return {**scope, "headers": [*kept, (b"mcp-protocol-version", self._versions[session].encode())]}

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        named: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            named.setdefault(name.lower(), []).append(value)
        hosts, origins = named.get(b"host", []), named.get(b"origin", [])
        # a page in a browser can send requests here under a name of its own, and then says so
        if len(hosts) != 1 or not _is_here(hosts[0]):
            return 403, "this server is asked as 127.0.0.1 or localhost only"
        if len(origins) > 1 or not all(_is_here(origin.removeprefix(b"http://")) for origin in origins):
            return 403, "this server answers no page of another origin"
        if not self.is_shown_token(scope["headers"]):
            return 401, "this server needs its token: Authorization: Bearer TOKEN"
        return None


def _is_here(host: bytes) -> bool:
    return _HERE.fullmatch(host.decode("latin-1")) is not None


async def _refuse(status: int, words: str, send: Send) -> None:
    body = f"{words}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
