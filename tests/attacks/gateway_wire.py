"""A client for attacks/gateway: it writes whatever bytes a row asks for, and keeps all that comes back."""

import asyncio
import contextlib
import json
import os
import struct
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import UnknownWordError

Json = Mapping[str, Any]

SECONDS = 60.0  # to wait for what must come, on a machine that has other work as well
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_PIECE = 65_536


@dataclass
class Peer:
    """One TCP connection, and what was heard on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    heard: bytearray = field(default_factory=bytearray)
    frames: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0
    asked: dict[str, str] = field(default_factory=dict)  # the methods of its requests, by id
    requests: int = 0
    is_closed: bool = False  # whether the other end has ended it
    said_goodbye: bool = False
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    closed_after: float | None = None
    _reading: "asyncio.Task[None] | None" = None

    @property
    def answers(self) -> dict[str, dict[str, Any]]:
        """The answers by id; of several under one id the last."""
        return {str(each["id"]): each for each in self.frames if each.get("type") == "res"}

    @property
    def told(self) -> dict[str, Any]:
        """What it was told last by each event."""
        return {each["event"]: each.get("payload") for each in self.frames if each.get("type") == "event"}

    @property
    def is_answered(self) -> bool:
        """Whether every request has its answer."""
        return len([each for each in self.frames if each.get("type") == "res"]) >= self.requests

    @property
    def is_refused(self) -> bool:
        """Whether it was told of an error, or is ended."""
        return self.is_closed or any(each.get("ok") is False for each in self.frames)

    @property
    def hello(self) -> dict[str, Any] | None:
        """What it was greeted with, where it was let in."""
        payloads = (each.get("payload") for each in self.frames if each.get("ok") is True)
        return next((each for each in payloads if isinstance(each, dict) and each.get("type") == "hello-ok"), None)

    @property
    def refusal(self) -> str:
        """Why it was not let in."""
        return next((str(each["error"]["message"]) for each in self.frames if each.get("ok") is False), "")

    async def send(self, data: bytes) -> bool:
        """Write these bytes; False when nobody takes them any more."""
        try:
            self.writer.write(data)
            await asyncio.wait_for(self.writer.drain(), SECONDS)
        except (ConnectionError, TimeoutError):
            return False
        return not self.is_closed

    async def wait_for(self, seconds: float, is_so: Any) -> bool:
        """Wait until something is so, or the other end has gone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self.news:
                await self.news.wait_for(lambda: is_so() or self.is_closed)
        return bool(is_so())

    async def end(self) -> None:
        """Go away."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        self.writer.close()
        with contextlib.suppress(ConnectionError, TimeoutError):
            await asyncio.wait_for(self.writer.wait_closed(), 1)

    async def note(self) -> None:
        async with self.news:
            self.news.notify_all()

    def listen(self, *, framed: bool) -> None:
        """Read from now on."""
        self._reading = asyncio.ensure_future(self._read(framed=framed))

    async def _read(self, *, framed: bool) -> None:
        began = asyncio.get_running_loop().time()
        try:
            while await (self._read_frame() if framed else self._read_some()):
                await self.note()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        self.is_closed = True
        self.closed_after = asyncio.get_running_loop().time() - began
        await self.note()

    async def _read_some(self) -> bool:
        piece = await self.reader.read(_PIECE)
        self.heard += piece
        return bool(piece)

    async def _read_frame(self) -> bool:
        head = await self.reader.readexactly(2)
        size = head[1] & 0x7F
        if size >= 126:
            more = await self.reader.readexactly(2 if size == 126 else 8)
            size = int.from_bytes(more)
        body = await self.reader.readexactly(size)
        self.heard += body
        if head[0] & 0xF == _TEXT:
            self.frames.append(json.loads(body))
        elif head[0] & 0xF == _CLOSE:
            self.said_goodbye = True
            return False
        return True


@contextlib.asynccontextmanager
async def reach(port: int, remotes: dict[int, str], remote: str | None = None) -> AsyncIterator[Peer]:
    """Open a connection that the server takes for one from `remote`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if remote is not None:
        remotes[writer.get_extra_info("sockname")[1]] = remote
    peer = Peer(reader, writer)
    try:
        yield peer
    finally:
        await peer.end()


def head_of(method: str, path: str, headers: Mapping[str, Any], port: int) -> bytes:
    """Return the head of a request; a Host is there always, as every client sends one."""
    named = dict(headers)
    if not any(key.lower() == "host" for key in named):
        named = {"Host": f"127.0.0.1:{port}", **named}
    lines = [f"{key}: {one}" for key, value in named.items() for one in (value if isinstance(value, list) else [value])]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("utf-8", "surrogateescape")


def upgrade(path: str, headers: Mapping[str, Any], port: int) -> bytes:
    """Return a request for a WebSocket."""
    asked = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": _KEY, "Sec-WebSocket-Version": "13"}
    given = {key.lower() for key in headers}
    return head_of("GET", path, {**{key: asked[key] for key in asked if key.lower() not in given}, **headers}, port)


async def shake_hands(peer: Peer) -> bool:
    """Read the answer to a request for a WebSocket; frames are read from then on, where there is one."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
        head = await asyncio.wait_for(peer.reader.readuntil(b"\r\n\r\n"), SECONDS)
        peer.heard += head
        peer.status = int(head.split()[1])
    peer.listen(framed=peer.status == 101)
    return peer.status == 101


def frame_of(op: int, body: bytes, *, fin: bool = True, first: int | None = None) -> bytes:
    """Return a frame, masked as a client's is."""
    head = first if first is not None else (0x80 if fin else 0) | op
    size = len(body)
    lengths = (
        struct.pack("!BB", head, 0x80 | size)
        if size < 126
        else struct.pack("!BBH", head, 0xFE, size)
        if size < 65_536
        else struct.pack("!BBQ", head, 0xFF, size)
    )
    mask = os.urandom(4)
    pad = mask * (size // 4 + 1)
    masked = (int.from_bytes(body) ^ int.from_bytes(pad[:size])).to_bytes(size) if size else b""
    return lengths + mask + masked


def text_frame(text: str) -> bytes:
    return frame_of(_TEXT, text.encode("utf-8", "surrogatepass"))


def bytes_of(step: Json) -> Iterator[bytes]:
    """Yield what a step writes; raise where it is not known."""
    match step:
        case {"send": str() as text}:
            yield text_frame(text)
        case {"send_json": value}:
            yield text_frame(json.dumps(value))
        case {"send_hex": digits}:
            yield frame_of(_TEXT if step.get("as_text") else _BINARY, bytes.fromhex(digits))
        case {"send_gen": how}:
            yield text_frame(_made(how))
        case {"fragments": list() as parts}:
            yield from _fragments([str(each).encode() for each in parts])
        case {"fragments": {"count": count, "bytes_each": size}}:
            yield from _fragments([b"a" * size] * int(count))
        case {"raw_hex": digits}:
            yield bytes.fromhex(digits)
        case {"raw": text}:
            yield str(text).encode()
        case {"declare_bytes": size}:
            yield struct.pack("!BBQ", 0x81, 0xFF, size) + os.urandom(4) + b"a" * 1024
        case {"ping": body}:
            yield from (
                [frame_of(_PING, b"x")] * body if isinstance(body, int) else [frame_of(_PING, str(body).encode())]
            )
        case {"pong": body}:
            yield frame_of(_PONG, str(body).encode())
        case {"close": code}:
            yield frame_of(_CLOSE, struct.pack("!H", int(code)))
        case _:
            raise UnknownWordError(f"the step {sorted(step)}")


def _fragments(parts: Sequence[bytes]) -> Iterator[bytes]:
    for at, part in enumerate(parts):
        yield frame_of(0 if at else _TEXT, part, fin=at == len(parts) - 1)


def _made(how: Json) -> str:
    match how:
        case {"char": char, "bytes": size}:
            return str(char) * int(size)
        case {"wrap": method, "message_bytes": size}:
            params = {"message": "m" * int(size), "idempotencyKey": "gen"}
            return json.dumps({"type": "req", "id": how.get("id", "gen"), "method": method, "params": params})
        case {"depth": depth}:
            inner = "[" * int(depth) + "]" * int(depth)
            return f'{{"type":"req","id":"{how.get("id", "gen")}","method":"status","params":{{"a":{inner}}}}}'
        case {"keys": count}:
            keys = ",".join(f'"k{at}":{at}' for at in range(int(count)))
            return f'{{"type":"req","id":"{how.get("id", "gen")}","method":"status","params":{{{keys}}}}}'
        case {"bytes": size}:
            return "a" * int(size)
    raise UnknownWordError(f"what is made by {sorted(how)}")


def statuses_in(heard: bytes) -> list[int]:
    """Return the status of every answer over HTTP, with its body passed over."""
    found, left = list[int](), bytes(heard)
    while left.startswith(b"HTTP/"):
        head, _, left = left.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        found.append(int(lines[0].split()[1]))
        sizes = [int(line.partition(b":")[2]) for line in lines if line.lower().startswith(b"content-length:")]
        left = left[sizes[0] if sizes and not left.startswith(b"HTTP/") else 0 :]
    return found
