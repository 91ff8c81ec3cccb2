"""The protocol over streamable HTTP, on this machine alone, and nothing without the token."""

import hmac
import re
import socket
from collections import deque
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolcrib.define.egress import fold_origin
from toolcrib.doors import listener
from toolcrib.lazy import regex

from .server import BeltServer

PATH = "/mcp"

_REQUEST_BYTES = 32 * 1024 * 1024  # bytes of one request
_RETRY_MS = 1_000  # after which a client comes back for the rest
_MAX_EVENTS, _MAX_BYTES = 1_000, 2 * 1024 * 1024  # of one client; the newest is kept however long it is
_HERE = regex(r"http://(?:127\.0\.0\.1|localhost)(?::\d{1,5})?", re.ASCII)


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
    belt = BeltApp(server)
    app = Starlette(routes=[Route(PATH, belt)], lifespan=lambda _: belt.keep_sessions())
    guard = _Guard(app, token)
    await listener.serve_app(
        guard, at, head_seconds=head_seconds, body_seconds=body_seconds, max_strangers=max_strangers, quiet=("mcp",)
    )


class BeltApp:
    """Answers the requests of one server's clients, whoever lets them in, while it is run.

    Each session agreed on a version of the protocol when it began: that holds, whatever a request says later.
    """

    def __init__(self, server: BeltServer) -> None:
        self._sessions, self._versions = _Sessions(server, _REQUEST_BYTES), server.versions
        self._app = StreamableHTTPASGIApp(self._sessions)

    def keep_sessions(self) -> AbstractAsyncContextManager[None]:
        """Keep sessions, until the block ends."""
        return self._sessions.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        session = next((value.decode("latin-1") for name, value in headers if name == b"mcp-session-id"), "")
        if session in self._versions:
            kept = [(name, value) for name, value in headers if name != b"mcp-protocol-version"]
            scope = {**scope, "headers": [*kept, (b"mcp-protocol-version", self._versions[session].encode())]}
        await self._app(scope, receive, send)


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


class _Guard:
    """Lets through what comes from this machine with the token; all else is refused before anything is read of it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._wanted = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if scope["type"] == "lifespan" or (scope["type"] == "http" and refusal is None):
            listener.introduce(scope)
            await self._app(scope, receive, send)
        elif refusal is not None:
            await listener.refuse(*refusal, send)

    def is_shown_token(self, headers: listener.Headers) -> bool:
        """Tell whether a request shows the token, once."""
        given = [value for name, value in headers if name.lower() == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        named: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            named.setdefault(name.lower(), []).append(value)
        hosts, origins = named.get(b"host", []), named.get(b"origin", [])
        # a page in a browser can send requests here under a name of its own, and then says so
        if len(hosts) != 1 or not _is_from_here(b"http://" + hosts[0]):
            return 403, "this server is asked as 127.0.0.1 or localhost only"
        if len(origins) > 1 or not all(map(_is_from_here, origins)):
            return 403, "this server answers no page of another origin"
        if not self.is_shown_token(scope["headers"]):
            return 401, "this server needs its token: Authorization: Bearer TOKEN"
        return None


def _is_from_here(origin: bytes) -> bool:
    text = origin.decode("latin-1").lower()
    return _HERE.fullmatch(text) is not None and fold_origin(text) != ""
