"""What the tests of the proxy share: far hosts that stand for public ones, and a dial that knows no others."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from tests.sockets import listening

from toolcrib.backends.web.proxy import GuardedProxy
from toolcrib.define.egress import read_url
from toolcrib.define.errors import ToolError

__all__ = ["REFUSAL", "SayHttp", "World", "say_nothing", "serving", "world"]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REFUSAL = "is not an address that may be asked"


class SayHttp:
    """A host that answers every request with one text, and keeps what it was asked."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello") -> None:
        self.asked: list[bytes] = []
        self._answer = answer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                head += await reader.readexactly(int(line.partition(b":")[2]))
        self.asked.append(head)
        writer.write(self._answer)
        await writer.drain()


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a connection, and wait for its end."""
    while await reader.read(65_536):
        pass


class World:
    """Hosts by name and port. `dialled` is what was asked for, `open` counts the connections that are there."""

    def __init__(self, places: Mapping[tuple[str, int], int]) -> None:
        self.places, self.dialled, self.open = {**places}, list[tuple[str, int]](), 0

    async def dial(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a host of this world; every other is refused, as the guard would."""
        self._check(host, port)
        return await asyncio.open_connection("127.0.0.1", self.places[host, port])

    async def explain(self, url: str) -> str:
        """Return a URL whose host is in this world; refuse every other."""
        there = read_url(url)
        self._check(there.host, there.port)
        return there.url

    def _check(self, host: str, port: int) -> None:
        self.dialled.append((host, port))
        if (host, port) not in self.places:
            raise ToolError(f"{host!r} {REFUSAL}", code="denied")


@asynccontextmanager
async def world(hosts: Mapping[tuple[str, int], Serve]) -> AsyncIterator[World]:
    """Give a world in which these hosts are."""
    found = World({})

    def counted(serve: Serve) -> Serve:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.open += 1
            try:
                await serve(reader, writer)
            except (OSError, EOFError):
                return  # who asked is gone
            finally:
                found.open -= 1

        return handle

    async with AsyncExitStack() as stack:
        for place, serve in hosts.items():
            found.places[place] = await stack.enter_async_context(listening(counted(serve)))
        yield found


@asynccontextmanager
async def serving(proxy: GuardedProxy) -> AsyncIterator[int]:
    """Give the port on which a proxy listens; all its connections end with the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        task = asyncio.create_task(proxy.serve(listener))
        try:
            yield listener.getsockname()[1]
        finally:
            task.cancel()
            await asyncio.wait((task,))
