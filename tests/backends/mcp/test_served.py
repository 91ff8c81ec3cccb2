"""Servers as people write them, with the official SDK and with FastMCP, over stdio and HTTP: their tools are ours."""

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.backends.exec.shells import until
from tests.backends.mcp.world import HERE, SECRET, World, opened, said, served

from toolcrib.define.caller import Caller
from toolcrib.define.event import CallEvent
from toolcrib.define.result import Image, Text
from toolcrib.services.mcp.service import McpTerms

pytestmark = pytest.mark.anyio

PATIENT = McpTerms(first_delay=0.1, longest_delay=0.5, most_tries=1_000, patience=30.0)
NAMES = ["add", "told", "fail", "picture", "slow", "sayhello__f962e7", "resources__list", "resources__read"]


@contextmanager
def listening(maker: str) -> Iterator[str]:
    """Serve over HTTP on a free port, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [sys.executable, str(HERE / "served.py"), maker, "http", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@asynccontextmanager
async def world_of(maker: str, how: str, state: Path) -> AsyncIterator[World]:
    if how == "stdio":
        async with opened({"srv": served(maker)}, state, terms=PATIENT, ready=30.0) as world:
            yield world
        return
    with listening(maker) as url:
        settings = {"url": url, "headers": {"Authorization": f"Bearer {SECRET}"}}
        async with opened({"srv": settings}, state, terms=PATIENT, ready=0.0) as world:
            yield world


@pytest.fixture(params=["official stdio", "official http", "fastmcp stdio", "fastmcp http"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    maker, how = request.param.split()
    async with world_of(maker, how, tmp_path) as made:
        await up(made)
        yield made


async def up(world: World) -> None:
    """Wait until the server is connected; a real one takes seconds to start."""
    async with asyncio.timeout(60):
        while not world.theirs:
            event = asyncio.Event()
            world.service.on_change(event.set)
            await event.wait()


async def test_its_tools_are_called_like_our_own(world: World, tmp_path: Path) -> None:
    assert world.theirs == [f"srv__{name}" for name in NAMES]
    assert world.problems == []
    belt = world.belt()
    status, words = said(await belt.call("srv__add", {"a": 1, "b": "2"}))
    assert (status, words.splitlines()[1:4]) == ("ok", ["Source: mcp:srv", "---", "3"])
    status, words = said(await belt.call("srv__add", {"a": "one"}))
    assert status == "error"
    assert words.startswith("srv__add: ")
    assert "hello bob" in said(await belt.call("srv__sayhello__f962e7", {"name": "bob"}))[1]
    status, words = said(await belt.call("srv__fail"))
    assert status == "error"
    assert "fail" in words
    picture = await belt.call("srv__picture")
    assert [part.mime for part in picture.content if isinstance(part, Image)] == ["image/png"]
    _, listed = said(await belt.call("srv__resources__list"))
    assert "note://one: one, text/plain, The first note" in listed
    _, read = said(await belt.call("srv__resources__read", {"uri": "note://one"}))
    assert "the words of note one" in read
    status, words = said(await belt.call("srv__resources__read", {"uri": "note://none"}))
    assert status == "error"
    prompts = await world.prompts.prompts(Caller(), "srv")
    assert '"name": "greet"' in prompts["text"]
    filled = await world.prompts.prompt(Caller(), "srv", "greet", {"name": "Ann"})
    assert filled["source"] == "mcp:srv"
    assert '"text": "Please greet Ann."' in filled["text"]


async def test_progress_is_passed_on_and_a_stop_reaches_the_server(world: World, tmp_path: Path) -> None:
    seen: list[str] = []
    first = asyncio.Event()

    def watch(event: CallEvent) -> None:
        partial: Any = getattr(event, "partial", None)
        if partial is not None:
            seen.extend(part.text for part in partial.content if isinstance(part, Text))
            first.set()

    belt, mark = world.belt(watch), tmp_path / "mark"
    assert said(await belt.call("srv__slow", {"steps": 3}))[0] == "ok"
    assert [line for line in seen if re.fullmatch(r"[123] of 3 step [123]", line)] == seen
    first.clear()
    call = asyncio.ensure_future(belt.call("srv__slow", {"steps": 1_000, "mark": str(mark)}))
    async with asyncio.timeout(60):
        await first.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(mark.exists)
    assert said(await belt.call("srv__add", {"a": 2, "b": 2}))[0] == "ok"


async def test_a_program_gets_what_the_configuration_gives_it_and_little_else(tmp_path: Path) -> None:
    async with opened({"srv": served(env={"WHICH": "this"})}, tmp_path, ready=30.0) as world:
        _, words = await world.call("srv__told")
        names = {word.partition("=")[0] for word in words.splitlines()[3].split() if "=" in word}
        basics = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
        assert "WHICH=this" in words
        assert names - basics <= {"WHICH"}


async def test_what_a_server_was_lent_is_not_said_back(tmp_path: Path) -> None:
    async with opened({"srv": served()}, tmp_path, ready=30.0) as world:
        _, words = await world.call("srv__told")
        assert "API_KEY=…" in words
        assert SECRET not in words
