"""`toolcrib mcp serve` as a process, over stdio and HTTP, asked by the official clients of two languages."""

import asyncio
import base64
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

import httpx2
import platformdirs
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ImageContent, TextContent
from tests import prestarted
from tests.doors.mcp.world import ARGUMENTS, HELLO, PICTURE, REFUSALS, call_of, crib_in, serving, surroundings

import toolcrib

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

Mode = Literal["auto", "legacy"]
TOKEN = "a-token-of-the-tests-0123456789"
SECONDS = 120
SDK = "@modelcontextprotocol/sdk@1.32.2"


@pytest.fixture
def crib(tmp_path: Path) -> Path:
    Path("note.txt").write_text("one\n")  # in the workspace, which is where the test runs
    return crib_in(tmp_path)


@pytest.fixture
def served(crib: Path) -> list[str]:
    """Every tool that the owner is shown."""
    belt = toolcrib.open(crib, env=os.environ).belt(toolcrib.OWNER)
    return sorted(tool.name for tool in belt.selection.shown)


def calls_of(served: list[str]) -> dict[str, Mapping[str, Any]]:
    """Return a call for every tool, but for those two that take each other to end."""
    calls = {name: ARGUMENTS.get(name, {}) for name in served if name not in ("hold", "is_over")}
    assert calls.keys() == {*ARGUMENTS, *REFUSALS}, "a tool is served that this test does not know how to call"
    return calls


@contextlib.contextmanager
def started(words: list[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server that runs beside the test, and never longer than it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = prestarted.Popen(words, env=dict(env), **pipes)  # type: ignore[call-overload]  # options of Popen
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@contextlib.contextmanager
def over_http(crib: Path, folder: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server on a free port, and its address."""
    env = {**surroundings(folder), "TOOLCRIB_MCP_TOKEN": TOKEN}
    with started(serving(crib, "--http", "0", *options), env) as process:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)
        assert found, line
        yield found[0], process


@asynccontextmanager
async def connected(how: str, mode: Mode, crib: Path, folder: Path) -> AsyncIterator[Client]:
    """The official client, connected to a server of its own."""
    async with asyncio.timeout(SECONDS):
        if how == "stdio":
            command, *args = serving(crib)
            program = StdioServerParameters(command=command, args=args, env=surroundings(folder), cwd=Path.cwd())
            async with Client(program, mode=mode) as client:
                yield client
            return
        with over_http(crib, folder) as (url, _):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                yield client


Connect = Callable[[], AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["stdio-auto", "stdio-legacy", "http-auto", "http-legacy"])
def connect(request: pytest.FixtureRequest, crib: Path, tmp_path: Path) -> Connect:
    how, _, mode = request.param.partition("-")
    return lambda: connected(how, mode, crib, tmp_path)


def text(result: Any) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextContent))


async def test_the_python_client_lists_and_calls_every_tool_hears_progress_stops_one_and_sees_a_picture(
    connect: Connect, served: list[str]
) -> None:
    async with connect() as client:
        assert sorted(tool.name for tool in (await client.list_tools()).tools) == served
        for name, args in calls_of(served).items():
            result = await client.call_tool(name, dict(args))
            assert result.content, name
            assert bool(result.is_error) == (name in REFUSALS), (name, text(result))
            assert text(result).startswith(REFUSALS.get(name, "")), name
        (part,) = (await client.call_tool("picture")).content
        assert isinstance(part, ImageContent)
        assert (part.mime_type, base64.b64decode(part.data)) == ("image/png", PICTURE)

        heard: list[Any] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))

        assert text(await client.call_tool("steps", progress_callback=hear)) == "3 steps"
        assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]

        holds = asyncio.Event()

        async def begun(progress: float, total: float | None, message: str | None) -> None:
            holds.set()

        call = asyncio.create_task(client.call_tool("hold", progress_callback=begun))
        await holds.wait()
        call.cancel()
        await asyncio.wait([call])
        assert text(await client.call_tool("is_over")) == "it is over"


# the TypeScript client


def program(name: str) -> str:
    """Return the path of a program of Node, which may be installed beside our Python."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return found or pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="session")
def typescript_sdk() -> Path:
    """The folder that the official TypeScript SDK is installed in, once for all runs."""
    npm = program("npm")
    folder = platformdirs.user_cache_path("toolcrib-tests") / SDK.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), SDK]
            done = subprocess.run(words, capture_output=True, text=True, timeout=150)
            if done.returncode:
                pytest.skip(f"impossible here: npm cannot get {SDK}: {done.stderr.strip()[-200:]}")
            (folder / "installed").touch()
    return folder


@pytest.mark.parametrize("how", ["stdio", "http"])
def test_the_typescript_client_lists_and_calls_every_tool_hears_progress_stops_one_and_sees_a_picture(
    typescript_sdk: Path, how: str, crib: Path, served: list[str], tmp_path: Path
) -> None:
    calls = calls_of(served)
    with contextlib.ExitStack() as stack:
        if how == "stdio":
            command, *args = serving(crib)
            where: Any = {"command": command, "args": args, "env": surroundings(tmp_path), "cwd": str(Path.cwd())}
        else:
            url, _ = stack.enter_context(over_http(crib, tmp_path))
            where = {"url": url, "token": TOKEN}
        told = json.dumps({"sdk": str(typescript_sdk), how: where, "calls": calls})
        script = Path(__file__).with_name("client.cjs")
        ran = subprocess.run([program("node"), script, told], capture_output=True, text=True, timeout=SECONDS)
    assert ran.returncode == 0, ran.stderr
    saw = json.loads(ran.stdout)
    assert (saw["names"], sorted(saw["results"])) == (served, sorted(calls))
    for name, result in saw["results"].items():
        assert result["isError"] == (name in REFUSALS), (name, result)
        assert result["parts"][0].startswith(REFUSALS.get(name, "")), (name, result)
    assert saw["results"]["picture"]["parts"] == [f"image/png {base64.b64encode(PICTURE).decode()}"]
    # this client drops what comes in one piece with the result; what it surely hears is a call that holds
    assert saw["progress"] == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]][: len(saw["progress"])]
    assert saw["began"] == "it holds"
    assert "enough" in saw["reason"]
    assert saw["over"] == {"isError": False, "parts": ["it is over"]}
    assert saw["capabilities"]["tools"] == {"listChanged": True}


# stdin and stdout


def say(process: subprocess.Popen[bytes], *messages: Any) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(message if isinstance(message, bytes) else f"{json.dumps(message)}\n".encode())
    process.stdin.flush()


def hear(process: subprocess.Popen[bytes], id: int | None = None, method: str | None = None) -> dict[str, Any]:
    """Return the next message with this id or method; every line has to be a message of the protocol."""
    assert process.stdout is not None
    while True:
        message: dict[str, Any] = json.loads(process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        if message.get("method") == method and message.get("id") == id:
            return message


def test_stdout_carries_nothing_but_the_protocol_and_nobody_else_reads_stdin(crib: Path, tmp_path: Path) -> None:
    with started(serving(crib), surroundings(tmp_path)) as process:
        say(process, *HELLO, call_of(2, "loud"))
        assert hear(process, 1)["result"]["serverInfo"]["name"] == "toolcrib"
        assert hear(process, 2)["result"]["content"][0]["text"] == "said"
        say(process, call_of(3, "steps"))
        assert hear(process, 3)["result"]["isError"] is False
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, b"")
    assert sorted(err.decode().split()) == ["printed", "shouted", "written"]


def test_the_end_of_stdin_ends_the_server_its_bodies_and_their_processes(crib: Path, tmp_path: Path) -> None:
    marker = f"1{os.getpid()}"
    with started(serving(crib), surroundings(tmp_path)) as process:
        say(process, *HELLO, call_of(2, "hold", "t"), call_of(3, "exec", "u", command=f"echo on; sleep {marker}"))
        waiting = {"t", "u"}
        while waiting:
            waiting.discard(hear(process, method="notifications/progress")["params"]["progressToken"])
        wait_until_it_runs(marker)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=SECONDS) == 0
    assert not is_running(marker)


def wait_until_it_runs(marker: str) -> None:
    """Return when the command has come so far; that it printed something was a moment earlier."""
    end = time.monotonic() + SECONDS
    while not is_running(marker):
        assert time.monotonic() < end


def is_running(marker: str) -> bool:
    """Tell whether there is a `sleep` with this odd length of time."""
    end = b"sleep\0" + marker.encode() + b"\0"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().endswith(end):
                return True
    return False


@pytest.mark.parametrize(("how", "number"), [("stdio", signal.SIGINT), ("http", signal.SIGTERM)])
async def test_a_signal_ends_the_server_its_bodies_and_their_processes_with_130(
    how: str, number: signal.Signals, crib: Path, tmp_path: Path
) -> None:
    marker, command = f"2{os.getpid()}", "echo on; sleep {}"
    if how == "stdio":
        with started(serving(crib), surroundings(tmp_path)) as process:
            say(process, *HELLO, call_of(2, "exec", "t", command=command.format(marker)))
            hear(process, method="notifications/progress")
            wait_until_it_runs(marker)
            process.send_signal(number)
            assert process.wait(timeout=SECONDS) == 130
            assert process.stderr is not None
            assert process.stderr.read() == b"toolcrib: interrupted\n"
    else:
        with over_http(crib, tmp_path) as (url, process):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http, asyncio.timeout(SECONDS):
                begun = asyncio.Event()

                async def hear_of_it(progress: float, total: float | None, message: str | None) -> None:
                    begun.set()

                with contextlib.suppress(Exception):  # whatever a client makes of a server that goes away
                    async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
                        args = {"command": command.format(marker)}
                        call = asyncio.create_task(client.call_tool("exec", args, progress_callback=hear_of_it))
                        await begun.wait()
                        process.send_signal(number)
                        assert await asyncio.to_thread(process.wait, SECONDS) == 130
                        call.cancel()
            assert process.returncode == 130
            assert process.stderr is not None
            assert process.stderr.read() == b"toolcrib: interrupted\n"
    assert not is_running(marker)


def test_a_client_that_does_not_read_any_more_ends_the_server(crib: Path, tmp_path: Path) -> None:
    with started(serving(crib), surroundings(tmp_path)) as process:
        say(process, *HELLO)
        hear(process, 1)
        assert process.stdout is not None
        process.stdout.close()
        say(process, call_of(2, "steps"))
        assert process.wait(timeout=SECONDS) == 0


# HTTP


ACCEPTS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def test_a_token_is_made_up_and_told_once_where_none_is_given(crib: Path, served: list[str], tmp_path: Path) -> None:
    with started(serving(crib, "--http", "0"), surroundings(tmp_path)) as process:
        assert process.stderr is not None
        first, second = (process.stderr.readline().decode() for _ in range(2))
        url = first.split()[-1]
        token = second.removeprefix("toolcrib: clients have to show the token ").strip()
        assert first == f"toolcrib: {len(served)} tools at {url}\n"
        assert len(token) >= 32
        headers = {**ACCEPTS, "Authorization": f"Bearer {token}"}
        assert httpx2.post(url, json=HELLO[0], headers=headers, timeout=SECONDS).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (130, b"toolcrib: interrupted\n")


def test_every_call_is_in_the_record_and_follows_from_what_is_recorded_with_it(crib: Path, tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    with started(serving(crib, "--profile", "coding"), env) as process:
        say(process, *HELLO)
        told = []
        for id, name in enumerate(("ls", "steps", "nothing"), 2):
            say(process, call_of(id, name))
            told.append(hear(process, id)["result"]["isError"])
        process.communicate(timeout=SECONDS)
    assert told == [False, True, True]
    verify = [*serving(crib)[:3], "audit", "verify", "--replay", "--config", str(crib)]
    ran = subprocess.run(verify, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
