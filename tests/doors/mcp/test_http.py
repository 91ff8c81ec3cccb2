"""The HTTP door as whoever has no token meets it: half requests, slow ones, and more of them than there is room for."""

import asyncio
import contextlib
import os
import re
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from tests.doors.mcp.world import HELLO, crib_in, serving, surroundings

import toolcrib
from toolcrib import tool
from toolcrib.doors.listener import serve_app
from toolcrib.doors.mcp import PATH, BeltServer, listen_on, serve_http

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

TOKEN = "a-token-of-the-tests-0123456789"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
ACCEPTS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
SECONDS = 120
HALF = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
WITH_TOKEN = HALF + f"Authorization: Bearer {TOKEN}\r\n".encode()


@contextlib.asynccontextmanager
async def served(server: BeltServer, **limits: Any) -> AsyncIterator[int]:
    """The door in this process, and its port."""
    with contextlib.closing(listen_on(0)) as at:
        serving = asyncio.create_task(serve_http(server, at, TOKEN, **limits))
        try:
            async with asyncio.timeout(SECONDS):
                yield at.getsockname()[1]
        finally:
            serving.cancel()
            await asyncio.wait([serving])


def nothing_served() -> BeltServer:
    crib = toolcrib.open({"tools": {"allow": []}})
    return BeltServer(lambda: crib.belt(toolcrib.OWNER))


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"\r\n", b""),
        (HALF, b""),
        (WITH_TOKEN, b""),
        (HALF + b"Content-Length: 9\r\n\r\n1234", b"HTTP/1.1 401 "),
        (HALF + b"Transfer-Encoding: chunked\r\n\r\n4\r\n1234", b"HTTP/1.1 401 "),
        (HALF + b"\r\n" + HALF, b"HTTP/1.1 401 "),
        (WITH_TOKEN + b"Content-Length: 9\r\n\r\n1234", b""),
        (WITH_TOKEN + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n", b"HTTP/1.1 100 "),
        (WITH_TOKEN + b"Transfer-Encoding: chunked\r\n\r\n4\r\n1234", b""),
    ],
)
async def test_a_request_that_is_not_there_in_time_is_cut_off(sent: bytes, answer: bytes) -> None:
    async with served(nothing_served(), head_seconds=0.2, body_seconds=0.2) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert (await read_to_end(reader)).startswith(answer)
        writer.close()


@pytest.mark.parametrize("begun", [HALF, HALF + b"Content-Length: 99999\r\n\r\n", WITH_TOKEN + b"X: "])
async def test_a_byte_now_and_then_wins_no_time(begun: bytes) -> None:
    async with served(nothing_served(), head_seconds=0.3, body_seconds=0.3) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        ended = asyncio.ensure_future(read_to_end(reader))
        while not ended.done():
            writer.write(b"a")
            await asyncio.wait((ended,), timeout=0.02)
        assert not (await ended).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_an_answer_may_take_longer_than_its_request_and_no_crowd_at_the_door_ends_it() -> None:
    called, goes_on = asyncio.Event(), asyncio.Event()

    @tool(effects=set())
    async def slow() -> str:
        """Take a while."""
        called.set()
        await goes_on.wait()
        return "at last"

    belt = toolcrib.open({"tools": {"allow": ["slow"]}}).belt(toolcrib.OWNER, extra=[slow])
    async with (
        served(BeltServer(lambda: belt), head_seconds=1.0, body_seconds=1.0, max_strangers=4) as port,
        httpx2.AsyncClient(headers=SHOWN, timeout=SECONDS) as http,
        Client(streamable_http_client(f"http://127.0.0.1:{port}{PATH}", http_client=http)) as client,
    ):
        calling = asyncio.ensure_future(client.call_tool("slow"))
        await called.wait()
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for _, writer in crowd:
            writer.write(HALF)
        # the last ones are cut off by time, the first ones by the number
        await asyncio.gather(*(read_to_end(reader) for reader, _ in crowd))
        for _, writer in crowd:
            writer.close()
        goes_on.set()
        (part,) = (await calling).content
        assert isinstance(part, TextContent)
        assert part.text == "at last"


async def test_who_has_the_token_gets_in_while_hundreds_hold_half_a_request(tmp_path: Path) -> None:
    words = ["sh", "-c", 'ulimit -n 512 && exec "$@"', "sh", *serving(crib_in(tmp_path), "--http", "0")]
    env = {**surroundings(tmp_path), "TOOLCRIB_MCP_TOKEN": TOKEN}
    with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", process.stderr.readline().decode())
            assert found
            with contextlib.ExitStack() as stack:
                crowd = [
                    stack.enter_context(socket.create_connection(("127.0.0.1", int(found[1])))) for _ in range(612)
                ]
                for each in crowd:
                    with contextlib.suppress(ConnectionError):  # those that came first were cut off by now
                        each.sendall(HALF)
                headers = {**SHOWN, **ACCEPTS}
                async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
                    assert (await http.post(found[0], json=HELLO[0])).status_code == 200
                opened = os.listdir(f"/proc/{process.pid}/fd")  # noqa: PTH208  names alone
                assert len(opened) < 256
        finally:
            process.kill()


def events_in(data: bytes) -> list[dict[str, str]]:
    blocks = data.decode().replace("\r\n", "\n").split("\n\n")
    rows = [dict(line.partition(": ")[::2] for line in block.splitlines()) for block in blocks]
    return [row for row in rows if row]


async def test_a_client_that_lost_a_stream_gets_the_rest_and_nobody_elses() -> None:
    goes_on = asyncio.Event()

    @tool(effects=set())
    async def waits() -> str:
        """Wait."""
        await goes_on.wait()
        return "it was worth it"

    crib = toolcrib.open({"tools": {"allow": ["waits"]}})
    server = BeltServer(lambda: crib.belt(toolcrib.OWNER, extra=[waits]))
    hello = {**HELLO[0], "params": {**HELLO[0]["params"], "protocolVersion": "2025-11-25"}}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "waits", "arguments": {}}}
    async with served(server) as port, httpx2.AsyncClient(timeout=SECONDS) as http:
        url, clients = f"http://127.0.0.1:{port}{PATH}", []
        for _ in range(2):
            begun = await http.post(url, json=hello, headers=SHOWN | ACCEPTS)
            session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            clients.append(SHOWN | ACCEPTS | session)
            await http.post(url, json=HELLO[1], headers=clients[-1])
        mine, other = clients
        async with http.stream("POST", url, json=call, headers=mine) as stream:
            piece = await anext(stream.aiter_raw())
        (first,) = events_in(piece)
        assert (first["data"], int(first["retry"]) > 0) == ("", True)
        goes_on.set()
        after = {"last-event-id": first["id"], "accept": "text/event-stream"}
        async with http.stream("GET", url, headers=mine | after) as stream:
            rest = b""
            async for piece in stream.aiter_raw():
                rest += piece
                if b"it was worth it" in rest:
                    break
        assert "it was worth it" in events_in(rest)[0]["data"]
        async with http.stream("GET", url, headers=other | after) as stream:
            pass  # what it would be sent comes at once, and there is nothing
        assert len(server.versions) == 2


async def test_who_reads_nothing_is_cut_off_when_it_ends() -> None:
    answering = asyncio.Event()

    async def answer(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        answering.set()
        await send({"type": "http.response.body", "body": bytes(64 * 2**20)})

    with contextlib.closing(listen_on(0)) as at:
        serving = asyncio.create_task(serve_app(answer, at))
        reader, writer = await asyncio.open_connection(*at.getsockname(), limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await answering.wait()
        serving.cancel()
        await asyncio.wait([serving])
    assert len(await read_to_end(reader)) < 64 * 2**20
    writer.close()


class Still(asyncio.SelectorEventLoop):
    """A loop whose clock stands still: what waits for it is there for ever."""

    def time(self) -> float:
        return 0.0


async def serve_and_leave() -> bool:
    async def answer(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body"})

    with contextlib.closing(listen_on(0)) as at:
        serving = asyncio.create_task(serve_app(answer, at))
        reader, writer = await asyncio.open_connection(*at.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"204" in await reader.read()
        writer.close()
        await writer.wait_closed()
        serving.cancel()
        await asyncio.wait([serving])
        return serving.cancelled()


def test_who_has_nobody_left_ends_without_a_look_at_the_clock() -> None:
    with asyncio.Runner(loop_factory=Still) as runner:
        assert runner.run(serve_and_leave())
