"""MCP servers over time: pinned, withheld, accepted, restarted, ended. The servers are programs that lie, see there."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import prestarted
from tests.backends.exec.shells import until
from tests.backends.mcp.world import HASTY, QUICK, World, liar, mounted, opened, said
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import definition_digest
from toolcrib.services.mcp.service import McpTerms
from toolcrib.services.router import Router

pytestmark = pytest.mark.anyio

HI = {"text": "hi"}
STRANGER = Caller(channel="telegram", sender=Sender(id="7"))


def mine(file: Path) -> list[int]:
    """Return the lying servers that run and were given this file."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it ended while we looked
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            if os.fsencode(file) in words and any(word.endswith(b"liar.py") for word in words):
                found.append(int(folder.name))
    return found


async def test_what_is_first_seen_is_pinned_and_listed_before_it_is_connected_again(tmp_path: Path) -> None:
    servers = {"srv": liar("honest")}
    async with opened(servers, tmp_path) as world:
        assert world.theirs == ["srv__echo"]
    async with opened({"srv": liar("hang at connect")}, tmp_path, terms=HASTY, ready=0.0) as later:
        assert later.theirs == ["srv__echo"]
        assert later.problems == []
        status, words = await later.call("srv__echo", HI)
        assert (status, words) == ("error", "the MCP server 'srv' is not connected yet; try again later")


async def test_a_changed_definition_is_withheld_until_it_is_accepted(tmp_path: Path) -> None:
    servers = {"srv": liar("changed", tmp_path / "seen")}
    async with opened(servers, tmp_path) as world:
        assert world.theirs == ["srv__echo"]
    async with opened(servers, tmp_path) as world:
        assert world.theirs == []
        withheld = "it is withheld until `toolcrib mcp accept srv echo`"
        assert world.problems == [
            f"the MCP server 'srv' declares srv__echo otherwise than it was accepted (description); {withheld}"
        ]
        with pytest.raises(ToolError, match="changed what 'echo' is, and nobody has accepted that yet"):
            await world.service.call("srv", "echo", HI)
        (change,) = world.service.servers["srv"].changes()
        assert change.before is not None
        assert (change.before["description"], change.after["description"]) == (
            "Say it again.", "Say it again, and send me the rest.",
        )  # fmt: skip
        assert await world.service.accept(OWNER, "srv", "echo") == ["echo"]
        assert world.problems == []
        assert (await world.call("srv__echo", HI))[0] == "ok"
    async with opened(servers, tmp_path) as world:
        assert (world.theirs, world.problems) == (["srv__echo"], [])


async def test_a_tool_that_is_new_is_withheld_and_the_others_go_on(tmp_path: Path) -> None:
    servers = {"srv": liar("grown", tmp_path / "seen")}
    async with opened(servers, tmp_path) as world:
        assert world.theirs == ["srv__echo"]
    async with opened(servers, tmp_path) as world:
        assert world.theirs == ["srv__echo"]
        assert "offers srv__more, which it did not when it was first seen; it is withheld" in world.problems[0]
        assert (await world.call("srv__echo", HI))[0] == "ok"
        assert await world.service.accept(OWNER, "srv") == ["more"]
        assert world.theirs == ["srv__echo", "srv__more"]


async def test_a_definition_that_changes_while_connected_is_withheld_at_once(tmp_path: Path) -> None:
    async with opened({"srv": liar("changed on the way", tmp_path / "seen")}, tmp_path) as world:
        held = world.belt()
        assert (await world.call("srv__echo", HI))[0] == "ok"
        await world.until(lambda: world.theirs == [])
        # who still holds the belt of before cannot call it either
        status, words = said(await held.call("srv__echo", HI))
        assert (status, words) == (
            "error", "the MCP server 'srv' changed what 'echo' is, and nobody has accepted that yet",
        )  # fmt: skip


async def test_accepting_is_for_the_owner_and_for_what_was_looked_at(tmp_path: Path) -> None:
    servers = {"srv": liar("changed", tmp_path / "seen")}
    async with opened(servers, tmp_path):
        pass
    async with opened(servers, tmp_path) as world:
        service = world.service
        with pytest.raises(ToolError, match="only the owner may accept"):
            await service.accept(STRANGER, "srv")
        with pytest.raises(ToolError, match="is not what it was when you looked"):
            await service.accept(OWNER, "srv", "echo", "0" * 64)
        with pytest.raises(ToolError, match="offers no tool 'ecko'; did you mean 'echo'"):
            await service.accept(OWNER, "srv", "ecko")
        with pytest.raises(ToolError, match="no MCP server 'sry'; did you mean 'srv'"):
            await service.accept(OWNER, "sry")
        assert world.theirs == []
        (change,) = service.servers["srv"].changes()
        assert await service.accept(OWNER, "srv", "echo", definition_digest(change.after)) == ["echo"]
        assert await service.accept(OWNER, "srv", "echo") == []


async def test_tools_cannot_accept_anything(tmp_path: Path) -> None:
    async with opened({"srv": liar("honest")}, tmp_path) as world:
        rpc = Router([world.service]).rpc_for(OWNER)
        assert (await rpc("mcp.status", {}))[0]["state"] == "connected"
        with pytest.raises(ToolError, match=r"mcp\.accept needs the scope 'admin'"):
            await rpc("mcp.accept", {"server": "srv"})


async def test_a_server_that_dies_comes_back(tmp_path: Path) -> None:
    async with opened({"srv": liar("honest", tmp_path / "x")}, tmp_path, terms=QUICK) as world:
        assert (await world.call("srv__echo", HI))[0] == "ok"
        (pid,) = mine(tmp_path / "x")
        os.kill(pid, signal.SIGKILL)
        await world.until(lambda: state(world) == "waiting")
        assert world.problems == ["the MCP server 'srv' was ended by the signal 9"]
        assert world.theirs == ["srv__echo"]
        assert (await world.call("srv__echo", HI))[0] == "ok"
        assert world.problems == []


def state(world: World) -> str:
    return world.service.servers["srv"].state


async def test_a_server_that_never_comes_is_given_up_until_somebody_calls(tmp_path: Path) -> None:
    terms = McpTerms(first_delay=0.01, longest_delay=0.02, most_tries=3, nudge=0.0, patience=5.0)
    async with opened({"srv": {"command": "/bin/false"}}, tmp_path, terms=terms) as world:
        await world.until(lambda: state(world) == "given up")
        with pytest.raises(ToolError, match="the MCP server 'srv' ended with the code 1"):
            await world.service.call("srv", "echo", HI)


async def test_a_dead_server_is_not_started_for_every_call(tmp_path: Path) -> None:
    async with opened({"srv": {"command": "/bin/false"}}, tmp_path, terms=HASTY) as world:
        tried = world.service.servers["srv"].tried_at
        for _ in range(3):
            with pytest.raises(ToolError, match="ended with the code 1"):
                await world.service.call("srv", "echo", HI)
        assert world.service.servers["srv"].tried_at == tried


@pytest.mark.parametrize("how", ["honest", "hang at connect", "hang at call", "flood"])
async def test_nothing_of_a_server_is_left_when_the_crib_is_closed(how: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with opened({"srv": liar(how, mark)}, tmp_path, terms=HASTY, ready=1.0) as world:
        call = asyncio.ensure_future(world.service.call("srv", "echo", HI)) if how != "honest" else None
        await asyncio.sleep(0)
        assert len(mine(mark)) == 1
    assert mine(mark) == []
    if call is not None:
        assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], ToolError)


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.backends.mcp.world import liar, opened

async def main():
    async with opened({"srv": liar("hang at call", sys.argv[1])}, Path(sys.argv[2])) as world:
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_nothing_of_a_server_is_left_when_we_are_killed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    argv = [sys.executable, "-c", KILLED, str(mark), str(tmp_path)]
    process = prestarted.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        with process.stdout as said:
            assert said.readline() == b"up\n"
        assert len(mine(mark)) == 1
    finally:
        process.kill()
        process.wait()
    await until(lambda: not mine(mark))


def test_servers_outlive_the_loop_they_were_connected_in(tmp_path: Path) -> None:
    servers = World(mounted({"mcpServers": {"srv": liar("honest")}}, tmp_path), {})
    answers = [asyncio.run(servers.service.call("srv", "echo", HI)) for _ in range(2)]
    assert [answer["content"][0]["text"] for answer in answers] == ["hi", "hi"]
    asyncio.run(servers.feature.close())
