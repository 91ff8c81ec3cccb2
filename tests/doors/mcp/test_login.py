"""`toolcrib mcp login`: the page is printed, who comes back is signed in, and who does not can stop waiting."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

from tests.backends.mcp.oauth_world import TOKEN, Resource, signing
from tests.doors.mcp.world import surroundings
from tests.doors.world import crib_file

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def crib_of(folder: Path, resource: Resource) -> Path:
    there = f"{{url: '{resource.url}/mcp', auth: oauth}}"
    return crib_file(folder, f"mcpServers: {{srv: {there}, plain: {{command: 'true'}}}}\n")


@contextlib.asynccontextmanager
async def toolcrib(folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    env = surroundings(folder)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        env.pop(name, None)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolcrib", *words, stdin=pipe, stdout=pipe, stderr=pipe, env=env
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def page_of(process: asyncio.subprocess.Process) -> str:
    """Return the address that is printed."""
    assert process.stderr is not None
    assert b"Sign in here" in await process.stderr.readline()
    return (await process.stderr.readline()).decode().strip()


async def say(folder: Path, *words: str) -> tuple[int | None, str, str]:
    async with toolcrib(folder, *words) as process:
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


async def test_who_follows_the_page_is_signed_in_until_he_signs_out(tmp_path: Path) -> None:
    async with signing() as (resource, _):
        config = ("--config", str(crib_of(tmp_path, resource)))
        async with toolcrib(tmp_path, "mcp", "login", "srv", *config) as process:
            page = await page_of(process)
            reader, writer = await asyncio.open_connection(*re.findall(r"//([^:]+):(\d+)", page)[0])
            writer.write(f"GET /{page.split('/', 3)[3]} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            there = re.findall(r"location: (\S+)", (await reader.read()).decode())[0]
            writer.close()
            reader, writer = await asyncio.open_connection(*re.findall(r"//([^:]+):(\d+)", there)[0])
            writer.write(b"GET /favicon.ico HTTP/1.1\r\n\r\n")  # as browsers do; it is no answer
            assert b"404" in await reader.readline()
            writer.close()
            reader, writer = await asyncio.open_connection(*re.findall(r"//([^:]+):(\d+)", there)[0])
            writer.write(f"GET /{there.split('/', 3)[3]} HTTP/1.1\r\n\r\n".encode())
            assert b"You can close this page" in await reader.read()
            writer.close()
            out, err = await process.communicate()
            assert (process.returncode, out.decode()) == (0, "srv: signed in (x, protocol 2025-11-25)\n")
            assert TOKEN not in err.decode()
        _, out_, _ = await say(tmp_path, "mcp", "list", *config, "--json")
        assert '"srv__echo"' in out_
        assert await say(tmp_path, "mcp", "logout", "srv", *config) == (0, "srv: signed out\n", "")
        assert await say(tmp_path, "mcp", "logout", "srv", *config) == (0, "srv: nobody was signed in\n", "")


async def test_waiting_for_a_person_can_be_stopped(tmp_path: Path) -> None:
    async with signing() as (resource, authority):
        async with toolcrib(tmp_path, "mcp", "login", "srv", "--config", str(crib_of(tmp_path, resource))) as process:
            await page_of(process)
            os.kill(process.pid, signal.SIGINT)
            _, err = await process.communicate()
        assert (process.returncode, "Traceback" in err.decode()) == (130, False)
        assert authority.bodies("/token") == []


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("plain", "'plain' is not one that anybody signs in to; write url and auth: oauth for it in the configuration"),
        ("sr", "the configuration has no MCP server 'sr'; did you mean 'srv'?"),
    ],
)
async def test_a_server_that_nobody_signs_in_to_is_told(server: str, sentence: str, tmp_path: Path) -> None:
    async with signing() as (resource, _):
        for word in ("login", "logout"):
            code, out, err = await say(tmp_path, "mcp", word, server, "--config", str(crib_of(tmp_path, resource)))
            assert (code, out, "Traceback" in err) == (2, "", False)
            assert sentence in err
