"""An assistant on Slack: a local server that holds it to the documentation of Socket Mode and of the methods."""

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.hosted_world import PICTURE
from tests.backends.channels.slack_world import APP_TOKEN, BOT, BOT_TOKEN, ROOM, Slack, slack
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.backends.channels.slack import SlackChannel
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import Attachment, Post
from toolcrib.define.errors import ToolError

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

ANN, BOB = "UANN", "UBOB"  # the owner, and somebody
OWN, HIS = f"D{ANN}", f"D{BOB}"  # their direct chats


def assistant(folder: Path, world: Slack, **own: Any) -> AbstractAsyncContextManager[Crib]:
    settings = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiBase": world.base, "owners": [f"id:{ANN}"], **own}
    return assistant_on("slack", folder, settings)


def channel_of(crib: Crib) -> SlackChannel:
    channel = crib.channels.find_line("slack").channel
    assert isinstance(channel, SlackChannel)
    return channel


async def test_a_stranger_gets_a_code_and_a_paired_person_is_answered(tmp_path: Path) -> None:
    async with slack() as world, assistant(tmp_path, world) as crib:
        await world.say("hello", by=BOB)
        await until(lambda: any("with the code" in each for each in world.said(HIS)))
        await world.say("hello", by=BOB)
        (waits,) = (await crib.channels.people())["people"]
        assert waits["sender"] == BOB
        await crib.channels.pair(waits["code"])
        await world.say("/why exec", by=BOB)
        await until(lambda: any(each.startswith("exec: deny") for each in world.said(HIS)))
        assert sum("with the code" in each for each in world.said(HIS)) == 1
        await until(lambda: not world.waiting)


async def test_a_name_or_another_bot_like_the_owner_gets_nothing(tmp_path: Path) -> None:
    async with slack() as world, assistant(tmp_path, world, dmPolicy="allowlist"):
        await world.say("/why exec", by=BOB, username=ANN, user_profile={"display_name": ANN, "name": ANN})
        await world.say("/why exec", by=ANN, bot_id="B2", subtype="bot_message")
        await world.say("/why exec", by=ANN)
        await until(lambda: any("exec: " in each for each in world.said(OWN)))
        await until(lambda: not world.waiting)
        assert len(world.said(OWN)) == 1
        assert world.said(HIS) == []


async def test_a_channel_has_its_belt_and_a_mention_is_answered_once_in_its_thread(tmp_path: Path) -> None:
    groups = {ROOM: {"tools": {"allow": ["read"]}}}
    async with slack() as world, assistant(tmp_path, world, groups=groups):
        await world.say("just talking", by=BOB, channel=ROOM)
        await world.say(f"<@{BOT}> /why exec", by=BOB, channel="C599")  # nobody listed that one
        await world.say(f"<@{BOT}> /why exec", by=BOB, channel=ROOM, thread_ts="1600000000.000001")
        await world.say(f"<@{BOT}>: /why exec", by=BOB, channel=ROOM)
        await until(lambda: len(world.said(ROOM)) == 2 and not world.waiting)
        assert all(each.startswith("exec: deny") for each in world.said(ROOM))
        threads = [body.get("thread_ts") for name, body in world.asked if name == "chat.postMessage"]
        assert set(threads) == {"1600000000.000001", None}
        assert world.said("C599") == []


async def test_a_question_has_buttons_and_only_the_owners_counts_where_it_was_asked(tmp_path: Path) -> None:
    groups = {ROOM: {"tools": {"allow": ["exec"]}}}
    async with slack() as world, assistant(tmp_path, world, groups=groups):
        await world.say("/status", by=ANN)
        await until(lambda: bool(world.said(OWN)))
        await world.say(f"<@{BOT}> run touch made", by=BOB, channel=ROOM)
        await until(lambda: any("blocks" in body for _, body in world.asked))
        (asked,) = [json.loads(body["blocks"]) for _, body in world.asked if "blocks" in body]
        yes = asked[-1]["elements"][0]["value"]
        await until(lambda: world.said(ROOM) == ["The owner is asked."])
        await world.press(yes, by="UEVE", channel=ROOM)  # whose it is not, for them it is text
        await world.press(yes, by=ANN, channel=ROOM)
        await until(lambda: "not shown here in full" in world.said(ROOM)[-1])
        assert not (tmp_path / "work" / "made").exists()
        await world.press(yes, by=ANN)
        await until(lambda: (tmp_path / "work" / "made").exists())


async def test_a_picture_is_fetched_and_sent_and_the_token_stays_with_slack(tmp_path: Path) -> None:
    file = tmp_path / "made.png"
    file.write_bytes(PICTURE)
    async with slack() as world, assistant(tmp_path, world) as crib:
        channel = channel_of(crib)
        assert await channel.fetch(Attachment(f"http://{world.host}/files/a.png", mime="image/png"), 1_000) == PICTURE
        for url in ("http://127.0.0.1:1/a.png", "http://files.slack.com/a", "https://slack.com.evil.test/a"):
            with pytest.raises(ToolError, match="none of the service's own hosts"):
                await channel.fetch(Attachment(url), 1_000)
        await channel.post(Post(chat=OWN, text="look", media=str(file), filename="a.png"), "k")
        assert world.uploads == [PICTURE]
        assert world.said(OWN) == ["look"]


async def test_what_was_said_while_nobody_was_there_is_answered_once(tmp_path: Path) -> None:
    async with slack() as world:
        async with assistant(tmp_path, world):
            await world.say("/why exec", by=ANN)
            await until(lambda: len(world.said(OWN)) == 1 and not world.waiting)
            await world.cut()
            await world.say("/why read", by=ANN)  # told again, and found in the history
            await until(lambda: len(world.said(OWN)) == 2 and not world.waiting)
        await world.say("/why write", by=ANN)
        world.waiting.clear()  # Slack has given it up
        async with assistant(tmp_path, world):
            await until(lambda: len(world.said(OWN)) == 3)
            await world.say("/why ls", by=ANN)
            await until(lambda: len(world.said(OWN)) == 4)
        assert [each.partition(":")[0] for each in world.said(OWN)] == ["exec", "read", "write", "ls"]


async def test_a_message_is_said_later_when_it_was_too_much_and_never_twice(tmp_path: Path) -> None:
    async with slack() as world, assistant(tmp_path, world) as crib:
        world.busy = 2
        await crib.channels.send(toolcrib.OWNER, to=OWN, message="hi <!channel> & all", idempotencyKey="1")
        assert world.said(OWN) == ["hi &lt;!channel&gt; &amp; all"]
        world.breaks = 1
        with pytest.raises(ToolError, match="may or may not have arrived"):
            await crib.channels.send(toolcrib.OWNER, to=OWN, message="again", idempotencyKey="2")
        assert world.said(OWN)[1:] == ["again"]


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"botToken": "xoxb-wrong"}, "slack refused auth.test: invalid_auth; check channels.slack.botToken"),
        (
            {"appToken": "xapp-wrong"},
            "slack refused apps.connections.open: invalid_auth; check channels.slack.appToken",
        ),
    ],
)
async def test_what_is_wrong_is_told_in_one_sentence(tmp_path: Path, own: dict[str, Any], why: str) -> None:
    async with slack() as world, assistant(tmp_path, world, **own) as crib:
        (line,) = crib.channels.lines
        await until(lambda: bool(line.why))
        assert line.why == why


async def test_other_actions_are_done_or_refused(tmp_path: Path) -> None:
    async with slack() as world, assistant(tmp_path, world) as crib:
        await world.say("words of others &amp; <https://x.test|x>", by=BOB, channel=ROOM)
        channel, one = channel_of(crib), {"messageId": world.messages[ROOM][0]["ts"]}
        for action, params, key in (
            ("edit", {**one, "message": "new"}, "messageId"), ("react", {**one, "emoji": "👍"}, "messageId"),
            ("react", {**one, "emoji": ":tada:", "remove": True}, "messageId"), ("pin", one, "messageId"),
            ("unpin", one, "messageId"), ("delete", one, "messageId"), ("list-pins", {}, "messages"),
            ("thread-reply", {"threadId": one["messageId"], "message": "x"}, "messageId"),
            ("read", {"limit": 5}, "messages"), ("read", {"threadId": one["messageId"]}, "messages"),
            ("reactions", one, "reactions"), ("member-info", {"userId": BOB}, "member"), ("emoji-list", {}, "emojis"),
            ("channel-list", {}, "channels"), ("channel-info", {}, "channel"), ("members", {}, "members"),
        ):  # fmt: skip
            told = await channel.act(action, ROOM, params)
            assert told["ok"] is True, action
            assert key in told, action
            assert ("source" in told) == (key != "messageId"), action
        assert (await channel.act("read", ROOM, {}))["messages"][-1]["text"] == "words of others & https://x.test"
        for action, chat, params, why in (
            ("edit", ROOM, {"message": "new"}, "messageId is missing"),
            ("react", ROOM, {**one, "emoji": "🦖"}, "by its name in Slack"),
            ("channel-info", "C0", {}, "channel_not_found"),
            ("kick", ROOM, {}, "slack cannot 'kick'; it can send"),
        ):
            with pytest.raises(ToolError, match=why):
                await channel.act(action, chat, params)


async def test_its_tools_read_the_chat_that_the_caller_is_in_and_no_other(tmp_path: Path) -> None:
    groups = {"*": {"tools": {"allow": ["slack_history", "slack_members"]}}}
    async with slack() as world, assistant(tmp_path, world, groups=groups) as crib:
        await world.say("our secret", by=BOB, channel=ROOM)
        await world.say("their secret", by=ANN, channel="C599")
        await world.say(f"<@{BOT}> hello", by=BOB, channel=ROOM)
        await until(lambda: bool(world.said(ROOM)))
        session = f"agent:main:slack:channel:{ROOM.lower()}"
        bob = Caller(channel="slack", group=ROOM, sender=Sender(id=BOB), session=session)
        here = await crib.belt(bob).call("slack_history", {})
        assert here.status == "ok"
        assert "our secret" in here.plain_text
        assert [block.source for block in here.content] == ["message:slack"]
        assert "their secret" not in here.plain_text
        assert "Real UANN" in (await crib.belt(bob).call("slack_members", {})).plain_text
        elsewhere = Caller(channel="slack", group="C599", sender=Sender(id=BOB), session=session)
        for caller, args in ((bob, {"channelId": "C599"}), (elsewhere, {})):
            told = await crib.belt(caller).call("slack_history", args)
            assert told.status == "error"
            assert "only the owner reaches other chats" in told.plain_text or "stays there" in told.plain_text
        owner = Caller(channel="slack", sender=Sender(id=ANN))
        assert "their secret" in (await crib.belt(owner).call("slack_history", {"channelId": "C599"})).plain_text


async def test_an_event_that_nobody_can_read_holds_up_no_other(tmp_path: Path) -> None:
    async with slack() as world, assistant(tmp_path, world):
        await world.tell("events_api", {"event": {"type": "message", "user": BOB, "channel": 5, "ts": "x"}})
        await world.tell("interactive", {"type": "block_actions", "actions": [{}]})
        await world.say("/why exec", by=ANN)
        await until(lambda: len(world.said(OWN)) == 1 and not world.waiting)
