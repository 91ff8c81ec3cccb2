"""The protocol over streamable HTTP, on this machine alone, and nothing without the token."""

import asyncio
import hmac
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from mcp.server import Server
from starlette.types import ASGIApp, Receive, Scope, Send

from toolcrib.define.errors import CribError

PATH = "/mcp"

_REQUEST_BYTES = 32 * 1024 * 1024  # bytes of one request
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
    server.listen(128)
    server.setblocking(False)
    return server


async def serve_http(server: Server, at: socket.socket, token: str) -> None:
    """Serve every client that knows the token, until this is cancelled; then every call is stopped."""
    app = server.streamable_http_app(streamable_http_path=PATH, max_request_body_size=_REQUEST_BYTES)
    config = uvicorn.Config(
        _Guard(app, token),
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=0,
    )
    http = _Http(config)
    serving = asyncio.ensure_future(http.serve(sockets=[at]))
    try:
        await asyncio.shield(serving)
    finally:
        # what they say about connections that are cut off is no news to whoever ends them
        for name in ("uvicorn.error", "mcp"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        http.should_exit = True
        await asyncio.wait([serving])


class _Http(uvicorn.Server):
    """Leaves signals to the command line."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Guard:
    """Lets through what comes from this machine with the token; all else is refused before anything is read of it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._wanted = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if scope["type"] == "lifespan" or (scope["type"] == "http" and refusal is None):
            await self._app(scope, receive, send)
        elif refusal is not None:
            await _refuse(*refusal, send)

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
        given = named.get(b"authorization", [])
        if len(given) != 1 or not hmac.compare_digest(given[0], self._wanted):
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
