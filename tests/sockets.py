"""Servers spoken by hand, for tests: no connection of one outlives its block."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http.server import ThreadingHTTPServer
from typing import Any

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def listening(serve: Serve, port: int = 0, limit: int = 2**16) -> AsyncIterator[int]:
    """Let `serve` talk to whoever connects, and hang up when it has; yields the port on loopback."""
    talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        talks[task] = writer
        # Python 3.11 complains of a connection whose task was cancelled; the rest is a client that has seen enough
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):  # one that broke says it again
            await writer.wait_closed()
        del talks[task]

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=limit)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for _ in range(5):  # one that was accepted just now has no task yet
            await asyncio.sleep(0)
        for task, writer in talks.items():
            writer.transport.abort()
            task.cancel()
        if talks:
            await asyncio.wait(list(talks))
        await asyncio.sleep(0)  # a socket is closed a turn of the loop after its transport


@contextlib.contextmanager
def serving(handler: Callable[..., Any]) -> Iterator[str]:
    """Answer HTTP on loopback, in threads; yields the origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))  # seconds between two looks for its end
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def relay(near: Streams, port: int, head: bytes = b"", cut: asyncio.Event | None = None) -> None:
    """Carry what each side says to the other, until one hangs up or the wire is cut; then nothing of it is left."""
    there, back = await asyncio.open_connection("127.0.0.1", port)
    back.write(head)
    ways: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(_copy(near[0], back)),
        asyncio.ensure_future(_copy(there, near[1])),
    ]
    if cut:
        ways.append(asyncio.ensure_future(cut.wait()))
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        is_cut = cut is not None and cut.is_set()
        for end in (near[1], back):
            (end.transport.abort if is_cut else end.close)()
        with contextlib.suppress(ConnectionError):
            await back.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
