"""An assistant on a real Matrix homeserver."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.matrix_world import Homeserver, Member, synapse
from tests.backends.channels.telegram_world import PICTURE
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.define.channel import Post

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]


def assistant(folder: Path, bot: Member, **own: Any) -> AbstractAsyncContextManager[Crib]:
    return assistant_on("matrix", folder, {"homeserver": bot.address, "accessToken": bot.token, **own})


async def meet(folder: Path, home: Homeserver) -> tuple[Member, Member, Member]:
    return await home.register("crib"), await home.register("ann"), await home.register("bob")


async def test_people_and_rooms_on_a_real_homeserver(tmp_path: Path) -> None:
    async with synapse(tmp_path) as home:
        bot, ann, bob = await meet(tmp_path, home)
        room = await ann.make_room(bot.id, bob.id)
        await bob.ask("POST", f"/join/{room}", {})
        groups = {room: {"tools": {"allow": ["read"]}}}
        async with assistant(tmp_path, bot, owners=[f"id:{ann.id}"], groups=groups) as crib:
            own = await ann.make_room(bot.id, direct=True)
            await ann.until_joined(own, bot.id)
            await ann.say(own, "run touch made")
            question = await ann.hears("/approve", room=own)
            await ann.say(own, f"/approve {question.rpartition(' ')[2]}")
            await until(lambda: (tmp_path / "work" / "made").exists())

            await ann.show(own, PICTURE)
            await until(lambda: any((tmp_path / "work").glob("inbox/*/*-a.png")))
            picture = tmp_path / "b.png"
            picture.write_bytes(PICTURE)
            channel = crib.channels.find_line("matrix").channel
            assert await channel.post(Post(chat=own, text="look", media=str(picture), filename="b.png"), "k")
            assert await ann.sees(own) == PICTURE

            his = await bob.make_room(bot.id, direct=True)
            await bob.say(his, "hello")
            async with asyncio.timeout(120):
                while not (people := (await crib.channels.people())["people"]):
                    await asyncio.sleep(0.05)
            (status,) = (await crib.channels.status())["channels"]
            assert status["invitations"] == [
                {"chat": his, "sender": bob.id, "problem": "whoever invites is not let in"}
            ]  # fmt: skip
            members = await bob.ask("GET", f"/rooms/{his}/joined_members")
            assert list(members["joined"]) == [bob.id]
            await crib.channels.pair(people[0]["code"])
            await bob.until_joined(his, bot.id)
            await bob.hears("You are let in now", room=his)
            assert "invitations" not in (await crib.channels.status())["channels"][0]
            await bob.say(his, "/why exec")
            assert "exec: deny" in await bob.hears("exec:", room=his)

            await ann.until_joined(room, bot.id)
            await bob.say(room, "just talking")
            await bob.say(room, "crib: /why exec")
            assert "exec: deny" in await bob.hears("exec:", room=room)


async def test_a_display_name_that_is_the_owners_id_is_worth_nothing(tmp_path: Path) -> None:
    async with synapse(tmp_path) as home:
        bot, ann, bob = await meet(tmp_path, home)
        await bob.ask("PUT", f"/profile/{bob.id}/displayname", {"displayname": ann.id})
        room = await ann.make_room(bot.id, bob.id)
        await bob.ask("POST", f"/join/{room}", {})
        groups = {room: {"tools": {"allow": ["read"]}}}
        async with assistant(tmp_path, bot, owners=[f"id:{ann.id}"], groups=groups) as crib:
            await bob.until_joined(room, bot.id)
            await bob.say(room, "crib: /why gateway")
            assert "deny" in await bob.hears("gateway:", room=room)
            his = await bob.make_room(bot.id, direct=True)
            async with asyncio.timeout(120):
                while not (people := (await crib.channels.people())["people"]):
                    await asyncio.sleep(0.05)
            assert [(each["sender"], bool(each["code"])) for each in people] == [(bob.id, True)]
            members = await bob.ask("GET", f"/rooms/{his}/joined_members")
            assert list(members["joined"]) == [bob.id]


async def test_a_room_that_the_configuration_names_is_joined_whoever_invites(tmp_path: Path) -> None:
    async with synapse(tmp_path) as home:
        bot, ann, bob = await meet(tmp_path, home)
        named, other = await bob.make_room(bot.id, ann.id), await bob.make_room(bot.id, ann.id)
        own = {"owners": [f"id:{ann.id}"], "dmPolicy": "disabled", "groups": {named: {}, "*": {}}}
        async with assistant(tmp_path, bot, **own) as crib:
            await bob.until_joined(named, bot.id)
            async with asyncio.timeout(120):
                while not (waiting := (await crib.channels.status())["channels"][0].get("invitations")):
                    await asyncio.sleep(0.05)
            assert [each["chat"] for each in waiting] == [other]
            assert (await crib.channels.people())["people"] == []


async def test_what_came_while_nobody_was_there_is_answered_once(tmp_path: Path) -> None:
    async with synapse(tmp_path) as home:
        bot, ann, _ = await meet(tmp_path, home)
        own = {"owners": [f"id:{ann.id}"]}
        room = await ann.make_room(bot.id, direct=True)
        async with assistant(tmp_path, bot, **own):
            await ann.until_joined(room, bot.id)
            await ann.say(room, "/status")
            await ann.hears("messages", room=room)
        await ann.say(room, "list .")
        async with assistant(tmp_path, bot, **own) as crib:
            await ann.hears(room=room)
            told = await crib.channels.send(toolcrib.OWNER, to=room, message="once", idempotencyKey="k")
            assert told == await crib.channels.send(toolcrib.OWNER, to=room, message="once", idempotencyKey="k")
            await ann.hears("once", room=room)
        async with assistant(tmp_path, bot, **own):
            await ann.say(room, "/status")
            assert "messages" in await ann.hears(room=room)
