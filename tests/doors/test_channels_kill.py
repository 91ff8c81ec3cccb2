"""A gateway that is killed between what it heard and its answer, on real servers: answered once."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.backends.channels.mail_world import body_of, letter, mail_servers
from tests.backends.channels.matrix_world import synapse
from tests.backends.channels.telegram_world import TOKEN, telegram
from tests.backends.channels.xmpp_world import prosody, xmpp_person
from tests.backends.exec.shells import until
from tests.doors.chat.test_far import gateway_in
from tests.doors.talking import Say, call, crib_with, talking
from tests.doors.test_channels import until_connected

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

Tell = Callable[[str], Awaitable[None]]
Hear = Callable[[], Awaitable[str]]


@asynccontextmanager
async def xmpp_talk(folder: Path) -> AsyncIterator[tuple[dict[str, Any], Tell, Hear]]:
    with prosody(folder, "crib", "ann") as server:
        where = {"host": "127.0.0.1", "port": server.port, "tls": False}
        settings = {"jid": "crib@localhost", "password": "crib-secret-1", **where, "owners": ["id:ann@localhost"]}
        async with xmpp_person(server, "ann") as ann:

            async def tell(text: str) -> None:
                ann.say("crib@localhost", text)

            yield {"xmpp": settings}, tell, ann.hears


@asynccontextmanager
async def mail_talk(folder: Path) -> AsyncIterator[tuple[dict[str, Any], Tell, Hear]]:
    with mail_servers(folder) as servers:

        async def tell(text: str) -> None:
            await servers.send(letter("ann@mail.test", text), vouched=True)

        async def hear() -> str:
            return body_of(await servers.hears("ann"))

        yield {"email": servers.settings(owners=["id:ann@mail.test"])}, tell, hear


@asynccontextmanager
async def matrix_talk(folder: Path) -> AsyncIterator[Any]:
    async with synapse(folder) as home:
        bot, ann = await home.register("crib"), await home.register("ann")
        room = await ann.make_room(bot.id, direct=True)

        async def tell(text: str) -> None:
            await ann.until_joined(room, bot.id)
            await ann.say(room, text)

        async def hear() -> str:
            return await ann.hears(room=room)

        own = {"homeserver": home.address, "accessToken": bot.token, "owners": [f"id:{ann.id}"]}
        yield {"matrix": own}, tell, hear


@asynccontextmanager
async def telegram_talk(folder: Path) -> AsyncIterator[Any]:
    with telegram() as server:
        heard = list[str]()

        async def tell(text: str) -> None:
            server.say(text, by=7)

        async def hear() -> str:
            await until(lambda: len(server.said(7)) > len(heard))
            heard.append(server.said(7)[len(heard)])
            return heard[-1]

        yield {"telegram": {"botToken": TOKEN, "apiBase": server.address, "owners": ["id:7"]}}, tell, hear


@pytest.mark.parametrize("talk", [xmpp_talk, mail_talk, matrix_talk, telegram_talk])
async def test_a_message_that_a_kill_left_unanswered_is_answered_once(tmp_path: Path, talk: Any) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    slow = call("exec", '{"command": "echo begun > begun; sleep 600"}')
    async with talk(tmp_path) as (channels, tell, hear):
        with talking(slow, Say(text="It is done.")) as server:
            free = f"channels: {json.dumps(channels)}\ntools: {{exec: {{ask: off, security: full}}}}"
            crib = crib_with(server, tmp_path, free)
            with gateway_in(folder, crib) as process:
                await until_connected(folder)
                await tell("do it")
                async with asyncio.timeout(240):
                    while not (folder / "begun").exists():
                        await asyncio.sleep(0.05)
                process.kill()
            with gateway_in(folder, crib):
                assert "It is done." in await hear()
                await tell("/status")
                assert "messages" in await hear()
                assert len(server.asked) == 2
