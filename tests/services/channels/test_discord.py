"""An assistant on Discord: a local server that holds it to the documentation of the gateway and of REST."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.discord_world import BOT, GUILD, ROOM, THREAD, TOKEN, Discord, discord
from tests.backends.channels.hosted_world import PICTURE
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.backends.channels.discord import DiscordChannel
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import Attachment, Post
from toolcrib.define.errors import ToolError

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

ANN, BOB = "1", "2"  # the owner, and somebody
OWN, HIS = f"7{ANN}", f"7{BOB}"  # their direct chats


def assistant(folder: Path, world: Discord, **own: Any) -> AbstractAsyncContextManager[Crib]:
    settings = {"token": TOKEN, "apiBase": world.base, "owners": [f"id:{ANN}"], **own}
    return assistant_on("discord", folder, settings)


def channel_of(crib: Crib) -> DiscordChannel:
    channel = crib.channels.find_line("discord").channel
    assert isinstance(channel, DiscordChannel)
    return channel


async def test_a_stranger_gets_a_code_and_a_paired_person_is_answered(tmp_path: Path) -> None:
    async with discord() as world, assistant(tmp_path, world) as crib:
        await world.say("hello", by=BOB)
        await until(lambda: any("with the code" in each for each in world.said(HIS)))
        await world.say("hello", by=BOB)
        (waits,) = (await crib.channels.people())["people"]
        assert waits["sender"] == BOB
        await crib.channels.pair(waits["code"])
        await world.say("/why exec", by=BOB)
        await until(lambda: any(each.startswith("exec: deny") for each in world.said(HIS)))
        assert sum("with the code" in each for each in world.said(HIS)) == 1


async def test_a_name_or_a_webhook_like_the_owner_gets_nothing(tmp_path: Path) -> None:
    async with discord() as world, assistant(tmp_path, world, dmPolicy="allowlist"):
        await world.say("/why exec", by=BOB, author={"id": BOB, "username": ANN, "global_name": ANN})
        await world.say("/why exec", by=ANN, webhook_id="5")
        await world.say("/why exec", by=ANN)
        await until(lambda: any("exec: " in each for each in world.said(OWN)))
        assert len(world.said(OWN)) == 1
        assert world.said(HIS) == []


async def test_a_channel_and_its_threads_have_the_belt_of_the_channel(tmp_path: Path) -> None:
    groups = {f"{GUILD}/{ROOM}": {"tools": {"allow": ["read"]}}}
    async with discord() as world, assistant(tmp_path, world, groups=groups):
        await world.say("just talking", by=BOB, channel=ROOM)
        await world.say(f"<@{BOT}> /why exec", by=BOB, channel="599")  # nobody listed that one
        await world.say(f"<@{BOT}> /why exec", by=BOB, channel=ROOM)
        await world.say(f"<@!{BOT}>, /why exec", by=BOB, channel=THREAD, mentions=[{"id": BOT}])
        await until(lambda: bool(world.said(ROOM) and world.said(THREAD)))
        assert [each.partition(".")[0] for each in (*world.said(ROOM), *world.said(THREAD))] == ["exec: deny"] * 2
        assert world.said("599") == []


async def test_a_question_has_buttons_and_only_the_owners_counts_where_it_was_asked(tmp_path: Path) -> None:
    groups = {f"{GUILD}/{ROOM}": {"tools": {"allow": ["exec"]}}}
    async with discord() as world, assistant(tmp_path, world, groups=groups):
        await world.say("/status", by=ANN)
        await until(lambda: bool(world.said(OWN)))
        await world.say(f"<@{BOT}> run touch made", by=BOB, channel=ROOM)
        await until(lambda: any("components" in each for each in world.posts()))
        (asked,) = [each for each in world.posts() if "components" in each]
        yes = asked["components"][0]["components"][0]["custom_id"]
        await until(lambda: world.said(ROOM) == ["The owner is asked."])
        await world.press(yes, by="3", channel=ROOM)  # whose it is not, for them it is text
        await world.press(yes, by=ANN, channel=ROOM)
        await until(lambda: "not shown here in full" in world.said(ROOM)[-1])
        assert not (tmp_path / "work" / "made").exists()
        await world.press(yes, by=ANN)
        await until(lambda: (tmp_path / "work" / "made").exists())
        await until(lambda: sum(path.startswith("/interactions/") for _, path, _ in world.asked) == 3)


async def test_a_picture_is_fetched_and_sent_and_only_from_where_files_are(tmp_path: Path) -> None:
    file = tmp_path / "made.png"
    file.write_bytes(PICTURE)
    async with discord() as world, assistant(tmp_path, world) as crib:
        channel = channel_of(crib)
        assert await channel.fetch(Attachment(f"http://{world.host}/attachments/1/a.png"), 1_000) == PICTURE
        for url in ("http://127.0.0.1:1/a.png", "http://cdn.discordapp.com/a", "https://discordapp.com.evil.test/a"):
            with pytest.raises(ToolError, match="none of the service's own hosts"):
                await channel.fetch(Attachment(url), 1_000)
        await channel.post(Post(chat=OWN, text="look", media=str(file), filename='a"\r\n.png'), "k")
        assert world.files == [PICTURE]
        assert world.said(OWN) == ["look"]


async def test_what_was_said_while_the_connection_was_cut_is_answered_once(tmp_path: Path) -> None:
    async with discord() as world:
        async with assistant(tmp_path, world):
            await world.say("/why exec", by=ANN)
            await until(lambda: len(world.said(OWN)) == 1)
            await world.cut()
            await world.say("/why read", by=ANN)
            await until(lambda: len(world.said(OWN)) == 2)
            assert [each["op"] for each in world.frames if each["op"] in (2, 6)] == [2, 6]
        await world.say("/why write", by=ANN)  # the gateway is down, its session still there
        async with assistant(tmp_path, world):
            await until(lambda: len(world.said(OWN)) == 3)
        world.sessions.clear()  # and now it is not any more
        await world.say("/why edit", by=ANN)
        async with assistant(tmp_path, world):
            await until(lambda: len(world.said(OWN)) == 4)
            await world.say("/why ls", by=ANN)
            await until(lambda: len(world.said(OWN)) == 5)
        assert [each.partition(":")[0] for each in world.said(OWN)] == ["exec", "read", "write", "edit", "ls"]


async def test_a_gateway_that_does_not_answer_heartbeats_is_left(tmp_path: Path) -> None:
    async with discord() as world:
        world.interval, world.mute_beats = 100, True
        async with assistant(tmp_path, world):
            await until(lambda: any(each["op"] == 6 for each in world.frames))
            world.mute_beats = False
            await world.say("/why exec", by=ANN)
            await until(lambda: len(world.said(OWN)) == 1)


async def test_a_message_is_said_once_whatever_becomes_of_its_answer(tmp_path: Path) -> None:
    async with discord() as world, assistant(tmp_path, world) as crib:
        world.busy, world.drops = 2, 1
        told = await crib.channels.send(toolcrib.OWNER, to=OWN, message="hi <@1> @everyone", idempotencyKey="1")
        assert told["status"] == "sent"
        assert world.said(OWN) == ["hi <@1> @everyone"]


@pytest.mark.parametrize(
    ("own", "allowed", "why"),
    [
        ({"token": "wrong"}, True, "discord refused it: 401: Unauthorized; check channels.discord.token"),
        ({}, False, "discord refused us: the bot may not read messages; switch on Message Content Intent"),
    ],
)
async def test_what_is_wrong_is_told_in_one_sentence(
    tmp_path: Path, own: dict[str, Any], allowed: bool, why: str
) -> None:
    async with discord() as world:
        world.is_content_allowed = allowed
        async with assistant(tmp_path, world, **own) as crib:
            (line,) = crib.channels.lines
            await until(lambda: bool(line.why))
            assert line.why.startswith(why)


async def test_other_actions_are_done_or_refused(tmp_path: Path) -> None:
    async with discord() as world, assistant(tmp_path, world) as crib:
        await world.say("words of others", by=BOB, channel=ROOM)
        channel, one = channel_of(crib), {"messageId": world.messages[ROOM][0]["id"]}
        poll = {"pollQuestion": "When?", "pollOption": ["1", "2"]}
        for action, params, key in (
            ("edit", {**one, "message": "new"}, "messageId"), ("react", {**one, "emoji": "👍"}, "messageId"),
            ("react", {**one, "emoji": "👍", "remove": True}, "messageId"), ("pin", one, "messageId"),
            ("unpin", one, "messageId"), ("delete", one, "messageId"), ("poll", poll, "messageId"),
            ("sticker", {"stickerId": ["5"]}, "messageId"), ("thread-create", {"threadName": "t"}, "threadId"),
            ("thread-create", {"threadName": "t", **one}, "threadId"), ("reply", {**one, "message": "x"}, "messageId"),
            ("thread-reply", {"threadId": THREAD, "message": "x"}, "messageId"),
            ("read", {"limit": 5}, "messages"), ("list-pins", {}, "messages"), ("reactions", one, "reactions"),
            ("thread-list", {}, "threads"), ("member-info", {"userId": "7"}, "member"), ("role-info", {}, "roles"),
            ("emoji-list", {}, "emojis"), ("channel-list", {}, "channels"), ("channel-info", {}, "channel"),
            ("members", {}, "members"),
        ):  # fmt: skip
            told = await channel.act(action, ROOM, params)
            assert told["ok"] is True, action
            assert key in told, action
            assert ("source" in told) == (key not in ("messageId", "threadId")), action
        for action, chat, params, why in (
            ("edit", ROOM, {"message": "new"}, "messageId is missing"),
            ("delete", ROOM, {"messageId": "../../guilds/1"}, "messageId is to be a number"),
            ("read", "../users", {}, "the chat is to be a number"),
            ("kick", ROOM, {}, "discord cannot 'kick'; it can send"),
            ("members", OWN, {}, "guildId is missing"),
        ):
            with pytest.raises(ToolError, match=why):
                await channel.act(action, chat, params)


async def test_its_tools_read_the_chat_that_the_caller_is_in_and_no_other(tmp_path: Path) -> None:
    groups = {"*": {"tools": {"allow": ["discord_history", "discord_members"]}}}
    async with discord() as world, assistant(tmp_path, world, groups=groups) as crib:
        await world.say("our secret", by=BOB, channel=ROOM)
        await world.say("their secret", by=ANN, channel="599")
        await world.say(f"<@{BOT}> hello", by=BOB, channel=ROOM)
        await until(lambda: bool(world.said(ROOM)))
        session = f"agent:main:discord:channel:{ROOM}"
        bob = Caller(channel="discord", group=f"{GUILD}/{ROOM}", sender=Sender(id=BOB), session=session)
        belt = crib.belt(bob)
        here = await belt.call("discord_history", {})
        assert here.status == "ok"
        assert "our secret" in here.plain_text
        assert "their secret" not in here.plain_text
        assert "Ann" in (await belt.call("discord_members", {})).plain_text
        elsewhere = Caller(channel="discord", group=f"{GUILD}/599", sender=Sender(id=BOB), session=session)
        for caller, args in ((bob, {"channelId": "599"}), (bob, {"threadId": "599"}), (elsewhere, {})):
            told = await crib.belt(caller).call("discord_history", args)
            assert told.status == "error"
            assert "only the owner reaches other chats" in told.plain_text or "stays there" in told.plain_text
        with pytest.raises(ToolError, match="message is denied at the group layer"):
            await crib.rpc_for(bob, {"write"})("channels.act", {"channel": "discord", "action": "thread-list"})
        owner = Caller(channel="discord", sender=Sender(id=ANN))
        assert "their secret" in (await crib.belt(owner).call("discord_history", {"channelId": "599"})).plain_text


async def test_an_event_that_nobody_can_read_holds_up_no_other(tmp_path: Path) -> None:
    async with discord() as world, assistant(tmp_path, world):
        await world.tell("MESSAGE_CREATE", {"author": {"id": BOB}})
        await world.tell("MESSAGE_CREATE", {"id": "1", "author": "x", "channel_id": ["y"]})
        await world.say("/why exec", by=ANN)
        await until(lambda: len(world.said(OWN)) == 1)
