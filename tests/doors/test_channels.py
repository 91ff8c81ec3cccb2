"""A gateway on a real IRC server, from the command line."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.backends.channels.irc_world import irc_server, person
from tests.doors.chat.test_far import gateway_in, toolcrib
from tests.doors.talking import Say, crib_with, talking

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

ANN = "~ann!~ann@127.0.0.1"


def irc(port: int) -> dict[str, Any]:
    return {"irc": {"host": "127.0.0.1", "port": port, "tls": False, "nick": "crib"}}


async def run(folder: Path, *words: str) -> Any:
    return json.loads(await asyncio.to_thread(toolcrib, folder, "channels", *words, "--json"))


async def until_connected(folder: Path) -> None:
    async with asyncio.timeout(120):
        while (await run(folder, "status"))["channels"][0]["state"] != "connected":
            pass  # each look is a process of its own


async def test_people_are_let_in_and_written_to_from_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    with irc_server(tmp_path) as port, talking(Say(text="At nine.")) as server:
        crib = crib_with(server, tmp_path, f"channels: {json.dumps(irc(port))}")
        with gateway_in(folder, crib):
            async with person(port, "ann") as ann:
                await until_connected(folder)
                ann.say("crib", "when do you open?")
                code = (await ann.hears("with the code")).params[1].rpartition(" ")[2].rstrip(".")
                assert (await run(folder, "pair"))["people"][0]["code"] == code
                assert (await run(folder, "pair", code))["sender"] == ANN
                await ann.hears("You are let in now")
                ann.say("crib", "when do you open?")
                await ann.hears("At nine.")
                assert (await run(folder, "send", "ann", "Come early."))["status"] == "sent"
                await ann.hears("Come early.")
