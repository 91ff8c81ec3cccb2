"""What `toolcrib mcp serve` does around its server, in this process: tools of other servers, changes, questions."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

import httpx2
import orjson
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from tests.backends.mcp.world import liar
from tests.doors.mcp.world import HELLO, call_of

import toolcrib
from toolcrib.app import Crib
from toolcrib.doors.cli._mcp_serving import Serving
from toolcrib.doors.mcp import PATH, listen_on

pytestmark = pytest.mark.anyio

CHANGED = "notifications/tools/list_changed"
TOKEN = "a-token-of-the-tests-0123456789"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
SECONDS = 120


def crib_of(servers: Mapping[str, Any], folder: Path, **more: Any) -> Crib:
    allow = {"tools": {"allow": ["ls", "group:mcp"], **more}}
    return toolcrib.open({**allow, "mcpServers": servers}, state=folder)


class Line:
    """A client over stdin and stdout that takes what comes, message by message."""

    def __init__(self, says: int, hears: asyncio.StreamReader) -> None:
        self._says, self._hears = says, hears
        self.others: list[str] = []  # methods of what came while something else was waited for

    def say(self, *messages: Any) -> None:
        for message in messages:
            os.write(self._says, message if isinstance(message, bytes) else orjson.dumps(message) + b"\n")

    async def hear(self, id: int | None = None, method: str | None = None) -> dict[str, Any]:
        """Return the next message with this id or method."""
        while True:
            message: dict[str, Any] = orjson.loads(await self._hears.readline())
            assert message["jsonrpc"] == "2.0"
            if message.get("method") == method and message.get("id") == id:
                return message
            self.others.append(message.get("method", ""))

    async def names(self) -> list[str]:
        """Return the tools that are listed now."""
        self.say({"jsonrpc": "2.0", "id": 99, "method": "tools/list"})
        return [tool["name"] for tool in (await self.hear(99))["result"]["tools"]]

    async def until_listed(self, *names: str) -> None:
        """Wait until these are the tools, asking only when told that the list has changed."""
        while await self.names() != list(names):
            await self.hear(method=CHANGED)

    async def called(self, id: int, name: str, **args: Any) -> str:
        """Return what a call is answered."""
        self.say(call_of(id, name, **args))
        (part,) = (await self.hear(id))["result"]["content"]
        return str(part["text"])


@contextlib.asynccontextmanager
async def over_stdio(crib: Crib, *, asks: bool = False) -> AsyncIterator[Line]:
    """Serve a crib in this process over two pipes; its end of stdin ends it."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    with open(ours_in, "rb") as pipe, open(theirs_in, "rb") as stdin, open(theirs_out, "wb") as stdout:  # noqa: PTH123
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        serving = asyncio.create_task(
            Serving(crib, lambda extra: crib.belt(toolcrib.OWNER, extra), asks=asks).serve(
                (stdin.fileno(), stdout.fileno()), None
            )
        )
        try:
            async with asyncio.timeout(SECONDS):
                line = Line(ours_out, reader)
                line.say(*HELLO)
                assert (await line.hear(1))["result"]["capabilities"]["tools"] == {"listChanged": True}
                yield line
        finally:
            os.close(ours_out)
            await asyncio.wait([serving], timeout=SECONDS)
            transport.close()
            serving.result()


async def test_tools_of_other_servers_are_served_as_soon_as_they_are_there_and_no_longer(tmp_path: Path) -> None:
    crib = crib_of({"inner": liar("changed on the way", tmp_path / "mark")}, tmp_path)
    async with over_stdio(crib) as line:
        await line.until_listed("ls", "inner__echo")
        assert "\nhi\n" in await line.called(2, "inner__echo", text="hi")
        # it has become another tool, and nobody has accepted that
        await line.until_listed("ls")
        await crib.mcp.accept(toolcrib.OWNER, "inner")
        await line.until_listed("ls", "inner__echo")


async def test_that_another_server_is_gone_for_a_while_is_no_news_to_clients(tmp_path: Path) -> None:
    crib = crib_of({"inner": liar("crash")}, tmp_path)
    async with over_stdio(crib) as line:
        await line.until_listed("ls", "inner__echo")
        line.others.clear()
        await line.called(2, "inner__echo", text="hi")
        while crib.mcp.servers["inner"].state != "waiting":
            await asyncio.sleep(0)
        assert await line.names() == ["ls", "inner__echo"]
        assert line.others == []


async def test_progress_of_another_server_reaches_the_client(tmp_path: Path) -> None:
    async with over_stdio(crib_of({"inner": liar("progress")}, tmp_path)) as line:
        await line.until_listed("ls", "inner__echo")
        line.say(call_of(2, "inner__echo", "token", text="hi"))
        told = [(await line.hear(method="notifications/progress"))["params"] for _ in range(2)]
        assert [(each["progress"], each["total"]) for each in told] == [(1, 2), (2, 2)]
        for each, words in zip(told, ["1 of 2 step 1", "2 of 2 step 2"], strict=True):  # words from outside, so marked
            assert f">>>\nSource: mcp:inner\n---\n{words}\n<<<END_" in each["message"]
        assert "done" in (await line.hear(2))["result"]["content"][0]["text"]


@contextlib.asynccontextmanager
async def over_http(crib: Crib) -> AsyncIterator[str]:
    """Serve a crib in this process on a free port, and yield its address."""
    with contextlib.closing(listen_on(0)) as at:
        serving = asyncio.create_task(
            Serving(crib, lambda extra: crib.belt(toolcrib.OWNER, extra), asks=False).serve(at, (TOKEN, False))
        )
        try:
            async with asyncio.timeout(SECONDS):
                yield f"http://127.0.0.1:{at.getsockname()[1]}{PATH}"
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def test_over_http_a_client_hears_of_tools_that_come_and_calls_them(tmp_path: Path) -> None:
    told = asyncio.Queue[str]()

    async def hear(message: Any) -> None:
        told.put_nowait(getattr(message, "method", repr(message)))

    async with (
        over_http(crib_of({"inner": liar("honest")}, tmp_path)) as url,
        httpx2.AsyncClient(headers=SHOWN, timeout=SECONDS) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy", message_handler=hear) as client,
    ):
        while "inner__echo" not in [tool.name for tool in (await client.list_tools()).tools]:
            assert await told.get() == CHANGED
        (part,) = (await client.call_tool("inner__echo", {"text": "hi"})).content
        assert isinstance(part, TextContent)
        assert "\nhi\n" in part.text


async def test_nothing_is_answered_without_the_token_or_to_another_origin(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({**SHOWN, "Host": "evil.test"}, 403),
        ({**SHOWN, "Host": "127.0.0.1.evil.test"}, 403),
        ({**SHOWN, "Origin": "http://evil.test"}, 403),
        ({**SHOWN, "Origin": "http://localhost.evil.test"}, 403),
        ({**SHOWN, "Origin": "null"}, 403),
        ({**SHOWN, "Origin": "http://localhost:6274"}, 200),
        (SHOWN, 200),
    ]
    accepts = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with over_http(crib_of({}, tmp_path)) as url, httpx2.AsyncClient(timeout=SECONDS) as http:
        for headers, status in cases:
            answer = await http.post(url, json=HELLO[0], headers={**accepts, **headers})
            assert (answer.status_code, "serverInfo" in answer.text) == (status, status == 200), headers
        for path in ("", "/", "/mcp", "/elsewhere"):
            assert (await http.get(url.removesuffix("/mcp") + path)).status_code == 401


async def test_a_line_that_is_no_message_is_answered_and_harms_nobody(tmp_path: Path) -> None:
    async with over_stdio(crib_of({}, tmp_path)) as line:
        line.say(b"}{\n", b"\n", b"\xff\xfe\n")
        assert (await line.hear())["error"]["code"] == -32700
        assert (await line.hear())["error"]["code"] == -32700
        assert await line.names() == ["ls"]


# asking a person


async def test_a_call_that_needs_a_yes_is_refused_when_nobody_can_be_asked(tmp_path: Path) -> None:
    async with over_stdio(crib_of({}, tmp_path, ask=["ls"])) as line:
        assert "needs a person's yes, and nobody is there to ask" in await line.called(2, "ls")


@pytest.mark.parametrize(("answer", "said"), [("once", "note.txt"), ("no", "the user said no to this call of ls")])
async def test_with_ask_a_call_waits_for_an_answer_from_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: Literal["once", "no"], said: str
) -> None:
    Path("note.txt").write_text("one\n")  # in the workspace, which is where the test runs
    crib, elsewhere = (crib_of({}, tmp_path, ask=["ls"]) for _ in range(2))
    asked = asyncio.Event()
    crib.approvals.on_question(lambda _: asked.set())
    async with elsewhere, over_stdio(crib, asks=True) as line:
        line.say(call_of(2, "ls"))
        await asked.wait()
        (question,) = await elsewhere.approvals.waiting(toolcrib.OWNER)
        await elsewhere.approvals.answer(toolcrib.OWNER, question["id"], answer)
        assert said in (await line.hear(2))["result"]["content"][0]["text"]
    assert capsys.readouterr().err == "toolcrib: ls waits for an answer; `toolcrib approvals list` shows it\n"
