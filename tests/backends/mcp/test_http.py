"""A server behind an address that lies: whatever it answers ends as one sentence, within bounds and without secrets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.backends.exec.shells import until
from tests.backends.mcp.liar import ECHO, text
from tests.backends.mcp.world import HASTY, SECRET, liar, opened
from tests.sockets import listening

from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

HI = {"text": "hi"}
Answer = Callable[[asyncio.StreamWriter, Any], Awaitable[None]]


def http(body: bytes, kind: str = "application/json", status: str = "200 OK", more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}connection: close\r\n\r\n"
    )
    return head.encode() + body


def reply(id: Any, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()


class Server:
    """Speaks HTTP by hand; `answer` is how it answers a call."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.rests: dict[str | None, bytes] = {}  # of a stream that broke off, by the event that was seen last
        self.seen: list[tuple[str, dict[str, str]]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:]) if name}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        message = json.loads(body) if body else {}
        self.seen.append((message.get("method", head[0].split()[0]), headers))
        await self.respond(writer, message)

    async def respond(self, writer: asyncio.StreamWriter, message: Any) -> None:
        match message:
            case {"method": "initialize", "id": id}:
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
                writer.write(http(reply(id, result), more="mcp-session-id: s-1\r\n"))
            case {"method": "tools/list", "id": id}:
                writer.write(http(reply(id, {"tools": [ECHO]})))
            case {"method": "tools/call"}:
                await self.answer(writer, message)
            case {"method": str()}:
                writer.write(http(b"", status="202 Accepted"))
            case _ if (after := self.seen[-1][1].get("last-event-id")) in self.rests:
                writer.write(http(self.rests[after], "text/event-stream"))
            case _:
                writer.write(http(b"", status="405 Method Not Allowed"))
        await writer.drain()


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[tuple[Server, dict[str, Any]]]:
    server = Server(answer)
    async with listening(server.serve) as port:
        headers = {"Authorization": f"Bearer {SECRET}"}
        yield server, {"url": f"http://127.0.0.1:{port}/mcp?key={SECRET}", "headers": headers}


def gives(data: Callable[[Any], bytes]) -> Answer:
    async def answer(writer: asyncio.StreamWriter, message: Any) -> None:
        writer.write(data(message["id"]))

    return answer


async def endless(writer: asyncio.StreamWriter, message: Any) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
    while True:
        writer.write(b"x" * 1_000_000)
        await writer.drain()


async def endless_event(writer: asyncio.StreamWriter, message: Any) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
    while True:
        writer.write(b"x" * 1_000_000)
        await writer.drain()


def events(*data: bytes) -> bytes:
    return http(b"".join(b"event: message\ndata: " + each + b"\n\n" for each in data), "text/event-stream")


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (gives(lambda to: http(reply(to, text("yours")))), "ok", "\nyours\n"),
        (
            gives(lambda to: events(b"", b"{}", reply(9, text("not yours")), reply(to, text("yours")))),
            "ok",
            "\nyours\n",
        ),
        (gives(lambda to: http(b'{"jsonrpc": ')), "error", "cannot be used: it sent a message that is no JSON"),
        (gives(lambda to: events(b"{")), "error", "cannot be used: it sent a message that is no JSON"),
        (gives(lambda to: http(reply(9, text("no")))), "error", "the server ended its answer without one"),
        (gives(lambda to: http(b"")), "error", "the server ended its answer without one"),
        (gives(lambda to: http(b"", status="401 No")), "error", "it answered 401: the headers in the configuration do"),
        (gives(lambda to: http(b"", status="500 No")), "error", "it answered 500"),
        (
            gives(lambda to: http(b"", status="307 There", more="location: http://127.0.0.1:1/\r\n")),
            "error",
            "it answered 307 and points elsewhere; write the address it points to as url",
        ),
        (gives(lambda to: http(b"", status="404 Gone")), "error", "does not know this session any more"),
        (gives(lambda to: http(b"not packed at all", more="content-encoding: gzip\r\n")), "error", "it cannot be read"),
        (gives(lambda to: b"nonsense\r\n\r\n"), "error", "it could not be reached (RemoteProtocolError)"),
        (endless, "error", "it was cut off: it sent more than 16,777,216 bytes at once"),
        (endless_event, "error", "it was cut off: it sent an event of more than 16,777,216 bytes"),
    ],
)
async def test_what_it_answers_harms_nobody(answer: Answer, status: str, words: str, tmp_path: Path) -> None:
    async with (
        served(answer) as (_, settings),
        opened({"srv": settings, "good": liar("honest")}, tmp_path, terms=HASTY) as world,
    ):
        answered = await world.call("srv__echo", HI)
        assert answered[0] == status
        assert words in answered[1]
        assert SECRET not in answered[1]
        assert (await world.call("good__echo", HI))[0] == "ok"


async def test_the_session_the_version_and_the_headers_go_with_every_request(tmp_path: Path) -> None:
    async with served(gives(lambda to: http(reply(to, text("yours"))))) as (server, settings):
        async with opened({"srv": settings}, tmp_path) as world:
            await world.call("srv__echo", HI)
        first, *others = [headers for _, headers in server.seen]
        assert first["authorization"] == f"Bearer {SECRET}"
        assert "mcp-session-id" not in first
        for headers in others:
            named = (headers["authorization"], headers["mcp-session-id"], headers["mcp-protocol-version"])
            assert named == (f"Bearer {SECRET}", "s-1", "2025-06-18")
        methods = {method for method, _ in server.seen}
        assert methods >= {"initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE"}


async def test_a_call_that_nobody_waits_for_is_called_off(tmp_path: Path) -> None:
    called_off = asyncio.Event()

    async def never(writer: asyncio.StreamWriter, message: Any) -> None:
        await called_off.wait()

    async with served(never) as (server, settings), opened({"srv": settings}, tmp_path) as world:
        status, words = await world.call("srv__echo", HI, seconds=0.2)
        assert (status, words) == ("error", "srv__echo did not finish within 0.2 seconds")
        await until(lambda: "notifications/cancelled" in {method for method, _ in server.seen})
        called_off.set()


async def test_a_server_that_forgot_the_session_is_connected_again(tmp_path: Path) -> None:
    forgets = True

    async def answer(writer: asyncio.StreamWriter, message: Any) -> None:
        nonlocal forgets
        writer.write(http(b"", status="404 Gone") if forgets else http(reply(message["id"], text("yours"))))
        forgets = False

    async with served(answer) as (_, settings), opened({"srv": settings}, tmp_path) as world:
        with pytest.raises(ToolError, match="does not know this session any more"):
            await world.service.call("srv", "echo", HI)
        assert (await world.call("srv__echo", HI))[0] == "ok"


def primed(id: str, *data: bytes, retry: int = 1) -> bytes:
    return b"".join(b"id: %s\nretry: %d\ndata: %s\n\n" % (id.encode(), retry, each) for each in (b"", *data))


@pytest.mark.parametrize("is_broken", [False, True])
async def test_a_stream_that_ends_before_its_answer_is_taken_up_where_it_was_left(
    is_broken: bool, tmp_path: Path
) -> None:
    calls: list[Any] = []

    async def answer(writer: asyncio.StreamWriter, message: Any) -> None:
        calls.append(message["id"])
        server.rests["e-1"] = primed("e-2")  # not yet
        server.rests["e-2"] = primed("e-3", reply(message["id"], text("yours")))
        whole = http(primed("e-1"), "text/event-stream")
        writer.write(whole.replace(b"content-length: ", b"content-length: 9") if is_broken else whole)

    async with served(answer) as (server, settings), opened({"srv": settings}, tmp_path) as world:
        status, words = await world.call("srv__echo", HI)
    assert (status, "\nyours\n" in words, len(calls)) == ("ok", True, 1), words
    assert [headers["last-event-id"] for _, headers in server.seen if "last-event-id" in headers] == ["e-1", "e-2"]


async def test_a_stream_that_never_goes_on_is_given_up(tmp_path: Path) -> None:
    async def answer(writer: asyncio.StreamWriter, message: Any) -> None:
        server.rests["e-1"] = primed("e-1")
        writer.write(http(primed("e-1"), "text/event-stream"))

    async with served(answer) as (server, settings), opened({"srv": settings}, tmp_path) as world:
        status, words = await world.call("srv__echo", HI)
    assert (status, "the server ended its answer without one" in words) == ("error", True), words
    assert 2 < len([1 for _, headers in server.seen if "last-event-id" in headers]) < 10


@pytest.mark.parametrize("name", ["x" * 600, "a\x00b", "ä"])
async def test_an_event_that_is_called_nonsense_is_not_asked_for(name: str, tmp_path: Path) -> None:
    answer = gives(lambda to: http(primed(name), "text/event-stream"))
    async with served(answer) as (server, settings), opened({"srv": settings}, tmp_path) as world:
        status, words = await world.call("srv__echo", HI)
    assert (status, "the server ended its answer without one" in words) == ("error", True), words
    assert not any("last-event-id" in headers for _, headers in server.seen)
