"""A gateway that is killed between what it heard and its answer, on every channel: it is answered once."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.backends.channels.discord_world import TOKEN as DISCORD_TOKEN
from tests.backends.channels.discord_world import discord
from tests.backends.channels.irc_world import irc_server, person
from tests.backends.channels.mail_world import body_of, letter, mail_servers
from tests.backends.channels.matrix_world import synapse
from tests.backends.channels.slack_world import APP_TOKEN, BOT_TOKEN, slack
from tests.backends.channels.telegram_world import TOKEN, telegram
from tests.backends.channels.whatsapp_world import GRAPH, graph, notice, words
from tests.backends.channels.xmpp_world import prosody, xmpp_person
from tests.backends.exec.shells import until
from tests.doors.chat.test_far import gateway_in
from tests.doors.gateway.test_questions import port  # noqa: F401  a fixture
from tests.doors.talking import Say, call, crib_with, talking
from tests.doors.test_channels import ANN, irc, until_connected
from tests.doors.test_inbound import OWNER, insist, post
from tests.services.channels.test_webhook import SECRET, said_by, service, signed

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

SECONDS = 240.0


class Talk(NamedTuple):
    """A channel: its settings, how somebody says something there, and what they have heard so far or hear next."""

    channels: dict[str, Any]
    tell: Callable[[str], Awaitable[None]]
    said: Callable[[], list[str]] | None = None
    hear: Callable[[], Awaitable[str]] | None = None
    is_posted: bool = False  # by a service, which tells it again until it is acknowledged

    async def hears(self, text: str) -> None:
        """Wait for an answer that holds this."""
        if self.hear is not None:
            async with asyncio.timeout(SECONDS):
                assert text in await self.hear()
        elif (said := self.said) is not None:
            await until(lambda: any(text in each for each in said()), SECONDS)


Open = Callable[[Path, int], AbstractAsyncContextManager[Talk]]


@asynccontextmanager
async def on_irc(folder: Path, _: int) -> AsyncIterator[Talk]:
    with irc_server(folder) as at:
        async with person(at, "ann") as ann:

            async def tell(text: str) -> None:
                ann.say("crib", text)

            async def hear() -> str:
                return (await ann.hears()).params[1]

            own = {**irc(at)["irc"], "allowFrom": [ANN], "direct": {"tools": {"allow": ["exec"]}}}
            yield Talk({"irc": own}, tell, hear=hear)


@asynccontextmanager
async def on_xmpp(folder: Path, _: int) -> AsyncIterator[Talk]:
    with prosody(folder, "crib", "ann") as server:
        where = {"host": "127.0.0.1", "port": server.port, "tls": False}
        own = {"jid": "crib@localhost", "password": "crib-secret-1", **where, "owners": ["id:ann@localhost"]}
        async with xmpp_person(server, "ann") as ann:

            async def tell(text: str) -> None:
                ann.say("crib@localhost", text)

            yield Talk({"xmpp": own}, tell, hear=ann.hears)


@asynccontextmanager
async def on_mail(folder: Path, _: int) -> AsyncIterator[Talk]:
    with mail_servers(folder) as servers:

        async def tell(text: str) -> None:
            await servers.send(letter("ann@mail.test", text), vouched=True)

        async def hear() -> str:
            return body_of(await servers.hears("ann"))

        yield Talk({"email": servers.settings(owners=["id:ann@mail.test"])}, tell, hear=hear)


@asynccontextmanager
async def on_matrix(folder: Path, _: int) -> AsyncIterator[Talk]:
    async with synapse(folder) as home:
        bot, ann = await home.register("crib"), await home.register("ann")
        room = await ann.make_room(bot.id, direct=True)

        async def tell(text: str) -> None:
            await ann.until_joined(room, bot.id)
            await ann.say(room, text)

        async def hear() -> str:
            return await ann.hears(room=room)

        own = {"homeserver": home.address, "accessToken": bot.token, "owners": [f"id:{ann.id}"]}
        yield Talk({"matrix": own}, tell, hear=hear)


@asynccontextmanager
async def on_telegram(_: Path, __: int) -> AsyncIterator[Talk]:
    with telegram() as server:

        async def tell(text: str) -> None:
            server.say(text, by=7)

        own = {"botToken": TOKEN, "apiBase": server.address, "owners": ["id:7"]}
        yield Talk({"telegram": own}, tell, lambda: server.said(7))


@asynccontextmanager
async def on_discord(_: Path, __: int) -> AsyncIterator[Talk]:
    async with discord() as there:

        async def tell(text: str) -> None:
            await there.say(text, by="1")

        own = {"apiBase": there.base, "owners": ["id:1"], "token": DISCORD_TOKEN}
        yield Talk({"discord": own}, tell, lambda: there.said("71"))


@asynccontextmanager
async def on_slack(_: Path, __: int) -> AsyncIterator[Talk]:
    async with slack() as there:

        async def tell(text: str) -> None:
            await there.say(text, by="UANN")

        own = {"apiBase": there.base, "owners": ["id:UANN"], "botToken": BOT_TOKEN, "appToken": APP_TOKEN}
        yield Talk({"slack": own}, tell, lambda: there.said("DUANN"))


@asynccontextmanager
async def on_whatsapp(_: Path, port: int) -> AsyncIterator[Talk]:  # noqa: F811
    with graph() as server:
        posted = dict[str, bytes]()

        async def tell(text: str) -> None:
            assert await post(f"http://127.0.0.1:{port}", posted.setdefault(text, notice(words(text)))) == 200

        own = {**GRAPH, "apiBase": server.address, "owners": [f"id:{OWNER}"]}
        yield Talk({"whatsapp": own}, tell, server.said, is_posted=True)


@asynccontextmanager
async def on_a_webhook(_: Path, port: int) -> AsyncIterator[Talk]:  # noqa: F811
    with service() as there:

        async def tell(text: str) -> None:
            request, url = signed(said_by("ann", text, id=text)), f"http://127.0.0.1:{port}/channels/webhook"
            assert await insist(url, request.body, lambda: dict(request.headers)) == 202

        own = {"url": there.url, "secret": SECRET, "owners": ["id:ann"]}
        yield Talk({"webhook": own}, tell, lambda: there.said("ann"), is_posted=True)


EVERY = [on_irc, on_xmpp, on_mail, on_matrix, on_telegram, on_discord, on_slack, on_whatsapp, on_a_webhook]


@pytest.mark.parametrize("on", EVERY)
async def test_a_message_that_a_kill_left_unanswered_is_answered_once(
    tmp_path: Path,
    port: int,  # noqa: F811
    on: Open,
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    slow = call("exec", '{"command": "echo begun > begun; sleep 600"}')
    async with contextlib.AsyncExitStack() as stack:
        talk = await stack.enter_async_context(on(tmp_path, port))
        model = stack.enter_context(talking(slow, Say(text="It is done.")))
        free = f"channels: {json.dumps(talk.channels)}\ntools: {{exec: {{ask: off, security: full}}}}"
        crib = crib_with(model, tmp_path, free)
        with gateway_in(folder, crib, port) as process:
            if not talk.is_posted:
                await until_connected(folder)
            await talk.tell("do it")
            await until(lambda: (folder / "begun").exists(), SECONDS)
            process.kill()
        with gateway_in(folder, crib, port):
            if talk.is_posted:
                await talk.tell("do it")
            await talk.hears("It is done.")
            await talk.tell("/status")
            await talk.hears("messages")
            if talk.said is not None:
                assert talk.said().count("It is done.") == 1
            assert len(model.asked) == 2
