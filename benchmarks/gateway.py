"""The gateway's socket against a bare echo on the same stack and three libraries, each in a process of its own.

32 connections with four requests in flight each; a request of ours is `health`: framed, known, within its scope and
its parameters, routed and answered. Processor time is the server's own. A call is one of a tool, with verdict and
record as any other. Memory is what a connected client adds to the server while it says nothing.
"""

import asyncio
import contextlib
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson

import toolcrib

from . import Row
from .call import forecast
from .gateway_servers import TOKEN

__all__ = ["connected", "measure"]

CONNECTIONS, IN_FLIGHT, REQUESTS, IDLE = 32, 4, 12_800, 1_000
RATE_BAR, PROCESSOR_BAR, CALL_BAR, MEMORY_BAR = 1 / 0.7, 1.4, 1.0, 1.5
_CALL = {"tool": "forecast", "args": {"city": "Oslo", "days": 3}}
_TICKS = os.sysconf("SC_CLK_TCK")


class Client:
    """A socket that sends frames it was given and counts those that come back: it costs less than any server here."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int, token: str = "") -> "Client":
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        client = cls(reader, writer)
        if token:
            who = {"id": "bench", "version": "1", "platform": "linux", "mode": "cli"}
            params = {"minProtocol": 3, "maxProtocol": 3, "client": who, "auth": {"token": token}}
            await client.ask(masked("connect", params, "connect"))
        return client

    def send(self, frame: bytes) -> None:
        self._writer.write(frame)

    async def ask(self, frame: bytes) -> bytes:
        """Send one request; return its answer."""
        self.send(frame)
        return await self.answer()

    async def answer(self) -> bytes:
        """Return the next frame that is an answer."""
        while True:
            head = await self._reader.readexactly(2)
            size = head[1]
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
            payload = await self._reader.readexactly(size)
            if payload.startswith(b'{"type":"res"'):
                return payload

    def close(self) -> None:
        self._writer.close()


def masked(method: str, params: object, id: str = "1") -> bytes:
    """Return the frame of a request, masked with zeros."""
    text = orjson.dumps({"type": "req", "id": id, "method": method, "params": params})
    size = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + size + b"\0\0\0\0" + text


@contextlib.contextmanager
def started(kind: str) -> Iterator[tuple[int, int]]:
    """Give the port and the process of a server."""
    command = [sys.executable, "-m", "benchmarks.gateway_servers", kind]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).parents[1]
    ) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline()), server.pid
        finally:
            server.kill()


@contextlib.asynccontextmanager
async def connected(kind: str, port: int, count: int, token: str = TOKEN) -> AsyncIterator[list[Client]]:
    """Give so many clients that are known."""
    clients = list[Client]()
    while len(clients) < count:
        try:
            clients.append(await Client.connect(port, token if kind == "ours" else ""))
        except (ConnectionError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.05)  # it is starting
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


async def ask_many(clients: list[Client], frame: bytes) -> float:
    """Return the seconds that a request takes while all ask at once."""

    async def go_on(client: Client, count: int) -> None:
        for _ in range(IN_FLIGHT):
            client.send(frame)
        for at in range(count):
            await client.answer()
            if at < count - IN_FLIGHT:
                client.send(frame)

    each, began = REQUESTS // len(clients), time.perf_counter()
    await asyncio.gather(*(go_on(client, each) for client in clients))
    return (time.perf_counter() - began) / (each * len(clients))


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def loaded(kind: str) -> tuple[float, float]:
    """Return the seconds on the wall and of the processor that a request takes."""
    frame = masked("health", {})
    with started(kind) as (port, pid):
        async with connected(kind, port, CONNECTIONS) as clients:
            await ask_many(clients, frame)  # warm
            before = processor_seconds(pid)
            wall = await ask_many(clients, frame)
            return wall, (processor_seconds(pid) - before) / REQUESTS


async def alone(kind: str, frame: bytes, count: int = 500) -> float:
    """Return the least seconds of one request that nobody else disturbs."""
    with started(kind) as (port, _):
        async with connected(kind, port, 1) as (client,):
            best = float("inf")
            for _ in range(count):
                began = time.perf_counter()
                assert b'"ok":true' in await client.ask(frame)
                best = min(best, time.perf_counter() - began)
            return best


async def in_process(count: int = 500) -> float:
    """Return the least seconds of the same call with no socket in between."""
    async with toolcrib.open({}, tools=[forecast], env={}) as crib:
        best = float("inf")
        for _ in range(count):
            began = time.perf_counter()
            await crib.ask("tools.call", _CALL, caller=toolcrib.OWNER)
            best = min(best, time.perf_counter() - began)
        return best


async def idle_bytes(kind: str) -> float:
    """Return what a silent client adds to a server."""
    with started(kind) as (port, pid):
        async with connected(kind, port, 50):
            before = resident_bytes(pid)
            async with connected(kind, port, IDLE):
                await asyncio.sleep(0.5)
                return (resident_bytes(pid) - before) / IDLE


def measure(rounds: int) -> list[Row]:
    """Return the rows, measured here and now."""
    peers = [name for name in ("aiohttp", "picows") if importlib.util.find_spec(name)]
    kinds = ["ours", "bare", "websockets", *peers]
    wall, processor = ({kind: list[float]() for kind in kinds} for _ in range(2))
    calls, echoes, memory = list[float](), list[float](), {kind: list[float]() for kind in ("ours", "bare")}
    for at in range(rounds):
        for kind in random.Random(at).sample(kinds, len(kinds)):
            one, other = asyncio.run(loaded(kind))
            wall[kind].append(one)
            processor[kind].append(other)
        echo, inside = asyncio.run(alone("bare", masked("health", {}))), asyncio.run(in_process())
        calls.append(asyncio.run(alone("ours", masked("tools.call", _CALL))))
        echoes.append(echo + 1.3 * inside)
        for kind in memory:
            memory[kind].append(asyncio.run(idle_bytes(kind)) / 1e9)  # shown as a time: a kB is a microsecond
    rows = [
        Row(what="a routed read", ours=wall["ours"], against="bare echo", floor=wall["bare"], bar=RATE_BAR),
        Row(what="its processor time", ours=processor["ours"], against="bare echo", floor=processor["bare"],
            bar=PROCESSOR_BAR),
        Row(what="a recorded call", ours=calls, against="echo, 1.3 in process", floor=echoes, bar=CALL_BAR),
        Row(what="bytes a silent client", ours=memory["ours"], against="bare echo", floor=memory["bare"],
            bar=MEMORY_BAR),
    ]  # fmt: skip
    for kind in ("websockets", *peers):  # for comparison: they do nothing but echo
        rows.append(Row(what="a routed read", ours=wall["ours"], against=kind, floor=wall[kind], bar=float("inf")))
    return rows
