"""Services that are lost in the middle and come back: what was said meanwhile is answered, and once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.backends.channels.matrix_world import synapse
from tests.backends.channels.telegram_world import TOKEN, telegram
from tests.backends.exec.shells import until
from tests.sockets import listening, relay

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]


class Wire:
    """A way to a server that can be cut: what is under way is lost, and nobody else gets through until it is mended."""

    def __init__(self, port: int) -> None:
        self._port, self._cut, self.refused = port, asyncio.Event(), 0

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut.is_set():
            self.refused += 1
            return
        await relay((reader, writer), self._port, cut=self._cut)

    def cut(self) -> None:
        self._cut.set()

    def mend(self) -> None:
        self._cut = asyncio.Event()


class Talk(NamedTuple):
    """A channel's name and settings as they are for an address, and what a person says and hears there."""

    channel: str
    port: int
    settings: Callable[[str], dict[str, Any]]
    say: Callable[[str], Awaitable[None]]
    heard: Callable[[], Awaitable[list[str]]]


@asynccontextmanager
async def on_telegram(folder: Path) -> AsyncIterator[Talk]:
    with telegram() as server:

        async def say(text: str) -> None:
            server.say(text, by=7)

        async def heard() -> list[str]:
            return server.said(7)

        def settings(base: str) -> dict[str, Any]:
            return {"botToken": TOKEN, "apiBase": base, "owners": ["id:7"]}

        yield Talk("telegram", int(server.address.rpartition(":")[2]), settings, say, heard)


@asynccontextmanager
async def on_matrix(folder: Path) -> AsyncIterator[Talk]:
    async with synapse(folder) as home:
        bot, ann = await home.register("crib"), await home.register("ann")
        room = await ann.make_room(bot.id, direct=True)

        async def say(text: str) -> None:
            await ann.until_joined(room, bot.id)
            await ann.say(room, text)

        async def heard() -> list[str]:
            found = await ann.ask("GET", f"/rooms/{room}/messages?dir=f&limit=100")
            said = [each for each in found["chunk"] if each["type"] == "m.room.message" and each["sender"] == bot.id]
            return [each["content"]["body"] for each in said]

        def settings(base: str) -> dict[str, Any]:
            return {"homeserver": base, "accessToken": bot.token, "owners": [f"id:{ann.id}"]}

        yield Talk("matrix", int(home.address.rpartition(":")[2]), settings, say, heard)


@pytest.mark.parametrize("place", [on_telegram, on_matrix])
async def test_what_is_said_while_a_connection_is_cut_is_answered_once(tmp_path: Path, place: Any) -> None:
    async with place(tmp_path) as talk:
        wire = Wire(talk.port)
        async with listening(wire.carry) as port:
            async with assistant_on(talk.channel, tmp_path, talk.settings(f"http://127.0.0.1:{port}")):
                for tool in ("exec", "read", "write"):
                    await talk.say(f"/why {tool}")
                    await until_answered(talk, f"{tool}: ")
                    wire.cut()
                    await until(lambda: wire.refused > 0)
                    await talk.say(f"/why {tool}_")
                    wire.mend()
                    wire.refused = 0
                    await until_answered(talk, f"there is no tool '{tool}_'")
                await talk.say("/status")
                told = await until_answered(talk, " messages, ")
            assert len(told) == len(set(told)) == 7


async def until_answered(talk: Talk, words: str) -> list[str]:
    """Return all that was answered, once some of it holds these words."""
    async with asyncio.timeout(300):
        while True:
            told = await talk.heard()
            if any(words in each for each in told):
                return told
            await asyncio.sleep(0.1)
