"""A service on loopback, over HTTP and WebSocket on one port, in the loop of the test."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.applications import Starlette

PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 20


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are the test's


@contextlib.asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    """Serve an app; yields host and port."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="websockets-sansio")
    config.timeout_graceful_shutdown = 1
    server = _Quiet(config)
    task = asyncio.create_task(server.serve([bound]))
    try:
        yield f"127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        await asyncio.wait((task,))
        bound.close()
