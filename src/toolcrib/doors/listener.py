"""A socket that listens, and a server on it that is patient with nobody it does not know.

The head and the body of a request have to be there in time. Of the connections on which nobody has been introduced, the
upgraded ones included, only so many are kept: who has a credential shows it at once, so the oldest goes. Whoever is
introduced has so many and no more, the owner as many as they like.
"""

import asyncio
import logging
import resource
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from toolcrib.define.errors import CribError

Headers = Iterable[tuple[bytes, bytes]]

_QUEUE = 1024  # connections that the kernel holds until they are accepted
_LAST = (b"connection", b"close")
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def listen_on(port: int, host: str = "127.0.0.1", option: str = "--http", *, later: bool = False) -> socket.socket:
    """Return a socket that listens, or will `later`, on this machine alone unless `host` says otherwise.

    Port 0 is one that is free.
    """
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
    except OSError as error:
        server.close()
        raise CribError(
            f"port {port} on {host} cannot be used ({error.strerror}); name another with {option}"
        ) from None
    if not later:
        server.listen(_QUEUE)
    server.setblocking(False)
    return server


async def serve_app(  # noqa: PLR0913  each by name, and nearly all have a default
    app: ASGIApp,
    at: socket.socket,
    *,
    head_seconds: float = 10.0,
    body_seconds: float = 60.0,
    max_strangers: int = 128,
    max_each: int = 32,
    quiet: Iterable[str] = (),
    **options: Any,
) -> None:
    """Serve until this is cancelled; then what is still open is cut off.

    `quiet` names the logs that have nothing more to say from then on; `options` are uvicorn's.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors != resource.RLIM_INFINITY:  # most are for our own work: commands, files, who showed a credential
        max_strangers = max(min(max_strangers, descriptors // 4), 1)
        max_each = max(min(max_each, descriptors // 16), 1)
    bounds = Bounds(max_strangers, max_each, max(descriptors // 2, 1))
    config = uvicorn.Config(
        _Strict(app),
        http=_Connection,
        backlog=max(max_strangers // 4, 1),  # as many are accepted at once, before the first of them is looked at
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # it would believe whoever is on this machine
        timeout_graceful_shutdown=0,
        **{"ws": "none", **options},
    )
    http = _Http(config, _Clients({h11.IDLE: head_seconds, h11.SEND_BODY: body_seconds}, bounds))
    serving = asyncio.ensure_future(http.serve(sockets=[at]))
    try:
        await asyncio.shield(serving)
    finally:
        # what they say about connections that are cut off is no news to whoever ends them
        for name in ("uvicorn.error", *quiet):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        http.should_exit = True
        http.leaving.set_result(None)
        await asyncio.wait([serving])
        for connection in list(http.server_state.connections):  # one whose client reads nothing would never close
            connection.transport.abort()
        await asyncio.sleep(0)  # a socket is closed a turn of the loop after its transport


def introduce(scope: Scope, who: str = "") -> bool:
    """Say who is on the connection of a request, "" for the owner; False where they have too many already."""
    return "introduce" not in scope.get("state", ()) or bool(scope["state"]["introduce"](who))


async def refuse(status: int, words: str, send: Send, *headers_too: tuple[bytes, bytes]) -> None:
    """Answer a request with a sentence."""
    body = f"{words}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += headers_too
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Strict:
    """Refuses what two readers may take for two different requests, and ends the connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())} if scope["type"] == "http" else set[bytes]()
        if {b"content-length", b"transfer-encoding"} <= names:
            await refuse(400, "a body has a length or comes in pieces, not both", send, _LAST)
        elif scope["type"] == "http" and scope["http_version"] not in ("1.0", "1.1"):
            await refuse(505, "this speaks HTTP/1.1", send, _LAST)
        else:
            await self._app(scope, receive, send)


class Bounds(NamedTuple):
    """How many connections are kept: of strangers, of each who is known, and of all of those but the owner."""

    strangers: int
    each: int
    known: int


class _Clients(ServerState):
    """The connections: `strangers`, the oldest first, and those who are `known`. `seconds` by what is waited for."""

    def __init__(self, seconds: Mapping[Any, float], bounds: Bounds) -> None:
        super().__init__()
        self.seconds, self.bounds = seconds, bounds
        self.strangers: dict[asyncio.Transport, None] = {}
        self.known: dict[asyncio.Transport, str] = {}

    def take(self, transport: asyncio.Transport) -> None:
        """Take a stranger; of too many the oldest goes."""
        self.strangers[transport] = None
        if len(self.strangers) > self.bounds.strangers:
            self.strangers = {each: None for each in self.strangers if not each.is_closing()}
        if len(self.strangers) > self.bounds.strangers:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.abort()

    def introduce(self, transport: asyncio.Transport, who: str) -> bool:
        """Take note of who is there, "" for the owner; tell whether they may be, on one connection more."""
        if who and self.known.get(transport) != who:
            self.known.pop(transport, None)
            self.known = {each: whose for each, whose in self.known.items() if not each.is_closing()}
            if len(self.known) >= self.bounds.known or Counter(self.known.values())[who] >= self.bounds.each:
                self.strangers[transport] = None
                return False
            self.known[transport] = who
        self.strangers.pop(transport, None)
        return True


class _Connection(H11Protocol):
    """One connection; the head and the body of each request have to be there in time."""

    server_state: _Clients
    _deadline: asyncio.TimerHandle | None = None
    _awaited: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self.app_state = {**self.app_state, "introduce": partial(self.server_state.introduce, transport)}
        self.server_state.take(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.server_state.strangers.pop(self.transport, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Let go of it: whoever accepts the socket waits for what it says first."""
        super().handle_websocket_upgrade(event)
        if self._deadline is not None:
            self._deadline.cancel()
        self._awaited = self.conn.their_state  # of which no body follows

    def handle_events(self) -> None:
        super().handle_events()
        self._expect()

    def _expect(self) -> None:
        """Set the time for what has to come next: a head, a body, or nothing while a request is answered."""
        if (state := self.conn.their_state) is self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        seconds = self.server_state.seconds.get(state)
        self._awaited = state
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        """Close it; a client that began a request and has no answer yet gets an error first."""
        if self._awaited is h11.SEND_BODY:
            is_owed = not self.cycle.response_started
        else:
            is_owed = bool(self.conn.trailing_data[0])
        if is_owed:
            self.transport.write(_TOO_SLOW)
            self.transport.close()
        else:
            self.transport.abort()


class _Http(uvicorn.Server):
    """Leaves signals to the command line, counts its clients, and ends at once when asked, not at the next look."""

    def __init__(self, config: uvicorn.Config, clients: _Clients) -> None:
        super().__init__(config)
        self.server_state, self.leaving = clients, asyncio.get_running_loop().create_future()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # which also keeps the date of answers
            await asyncio.wait([self.leaving], timeout=1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for each in (*self.servers, *(sockets or ())):  # nobody is there who would have to be waited for
            each.close()
        await self.lifespan.shutdown()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for at in sockets or ():
            at.listen(_QUEUE)  # the backlog of the configuration says only how many are accepted at once

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
