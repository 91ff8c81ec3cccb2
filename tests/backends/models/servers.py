"""Servers of the four APIs on loopback that say what a script tells them, over real sockets.

`said` makes the events of a reply as each API streams them, `sent_whole` the same in one piece. The providers' own
packages read both in test_servers_are_honest.py.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from tests.sockets import listening

from toolcrib.adapter.cards import Api

from .spoken import Say, said, sent_whole

__all__ = ["APIS", "Asked", "Say", "Server", "Talk", "answering", "said", "sent_whole", "serving"]

APIS: tuple[Api, ...] = ("openai", "responses", "anthropic", "gemini")
Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: Json


class Talk:
    """One request that is being answered, and the means to answer it, well or badly."""

    def __init__(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = asked
        self._reader, self._writer = reader, writer
        self._is_chunked = False
        self.is_over = False

    async def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """Begin to answer: in chunks, unless a length is told."""
        told = {"content_type": kind, **headers}
        self._is_chunked = "content_length" not in told and "connection" not in told
        if self._is_chunked:
            told["transfer_encoding"] = "chunked"
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name.replace('_', '-')}: {told[name]}" for name in told)]
        await self.raw("\r\n".join([*lines, "", ""]).encode())
        self.is_over = "connection" in told

    async def send(self, data: bytes) -> None:
        """Send a piece of the body."""
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data) if self._is_chunked and data else data)

    async def end(self) -> None:
        """End the body."""
        if self._is_chunked:
            await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def whole(self, status: int, value: Any, kind: str = "application/json", **headers: str) -> None:
        """Answer in one piece."""
        data = value if isinstance(value, bytes) else orjson.dumps(value)
        await self.head(status, kind, content_length=str(len(data)), **headers)
        await self.raw(data)

    async def stream(self, events: Sequence[bytes]) -> None:
        """Answer with these events."""
        await self.head()
        for event in events:
            await self.send(event)
        await self.end()

    async def hold(self) -> None:
        """Say nothing until the other side gives up."""
        await self._reader.read()
        self.is_over = True

    def cut(self) -> None:
        """Close the connection, in the middle of whatever it is."""
        self.is_over = True

    def reset(self) -> None:
        """Tear the connection down, so that the other side is told of an error."""
        own: socket.socket = self._writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        self.is_over = True


Act = Callable[[Talk], Awaitable[None]]


@dataclass
class Server:
    """A server that runs: where it is and what it was asked."""

    port: int
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"


@asynccontextmanager
async def serving(act: Act, port: int = 0) -> AsyncIterator[Server]:
    """Answer every request with `act`, until the block ends."""
    here = Server(port)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here.connections += 1
        while asked := await _asked(reader):
            here.asked.append(asked)
            talk = Talk(asked, reader, writer)
            await act(talk)
            if talk.is_over:
                break

    async with listening(connected, port, limit=2**20) as here.port:
        yield here


def answering(api: Api, *replies: Say) -> Act:
    """Return what answers with these replies one after the other, the last again and again."""
    left = list(replies)

    async def act(talk: Talk) -> None:
        say = left.pop(0) if len(left) > 1 else left[0]
        if _is_streamed(api, talk.asked):
            await talk.stream(said(api, say))
        else:
            await talk.whole(200, sent_whole(api, say))

    return act


def _is_streamed(api: Api, asked: Asked) -> bool:
    return ":streamGenerateContent" in asked.path if api == "gemini" else asked.body.get("stream") is True


async def _asked(reader: asyncio.StreamReader) -> Asked | None:
    """Return the next request, None when there is none."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(first.split()[1], headers, orjson.loads(body) if body else {})
