"""An assistant on Telegram: people, groups and buttons, at a server that holds the bot to the documentation."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.telegram_world import PICTURE, TOKEN, Telegram, telegram
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.backends.channels.telegram import TelegramChannel
from toolcrib.define.channel import Attachment, Post
from toolcrib.define.errors import ToolError

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

OWNER, STRANGER, GROUP = 7, 8, -100


def assistant(folder: Path, server: Telegram, **own: Any) -> AbstractAsyncContextManager[Crib]:
    settings = {"botToken": TOKEN, "apiBase": server.address, "owners": [f"id:{OWNER}"], **own}
    return assistant_on("telegram", folder, settings)


async def test_the_owner_is_answered_and_a_stranger_gets_a_code(tmp_path: Path) -> None:
    with telegram() as server:
        async with assistant(tmp_path, server) as crib:
            server.say("hello", by=OWNER)
            await until(lambda: any("six verbs" in each for each in server.said(OWNER)))
            server.say("hello", by=STRANGER)
            await until(lambda: any("with the code" in each for each in server.said(STRANGER)))
            (waits,) = (await crib.channels.people())["people"]
            assert waits["sender"] == str(STRANGER)
            await crib.channels.pair(waits["code"])
            server.say("hello", by=STRANGER)
            await until(lambda: any("six verbs" in each for each in server.said(STRANGER)))
            assert any(name == "sendChatAction" for name, _ in server.asked)


async def test_a_name_that_is_the_owners_id_is_worth_nothing(tmp_path: Path) -> None:
    with telegram() as server:
        async with assistant(tmp_path, server, dmPolicy="allowlist"):
            who = {"id": STRANGER, "is_bot": False, "first_name": str(OWNER), "username": str(OWNER)}
            server.say("/why exec", by=STRANGER, who=who)
            server.say("/why exec", by=OWNER)
            await until(lambda: any("exec: " in each for each in server.said(OWNER)))
            assert server.said(STRANGER) == []


async def test_a_group_is_answered_when_it_is_spoken_to_and_in_its_topic(tmp_path: Path) -> None:
    groups = {str(GROUP): {"tools": {"allow": ["read"]}}}
    with telegram() as server:
        async with assistant(tmp_path, server, groups=groups):
            server.say("just talking", by=STRANGER, chat=GROUP)
            server.say("@crib_bot /why exec", by=STRANGER, chat=GROUP, topic=5)
            await until(lambda: bool(server.said(GROUP)))
            (told,) = server.said(GROUP)
            assert told.startswith("exec: deny")
            (body,) = [body for name, body in server.asked if name == "sendMessage"]
            assert body["message_thread_id"] == 5


@pytest.mark.parametrize("topic", [f"{GROUP}:5", f"{GROUP}:topic:5"])
@pytest.mark.parametrize("has_group", [True, False])
async def test_a_topic_that_has_an_entry_has_its_rules_and_no_other_topic_has_them(
    topic: str, has_group: bool, tmp_path: Path
) -> None:
    groups = {
        topic: {"tools": {"allow": ["ls"]}},
        **({str(GROUP): {"tools": {"allow": ["read"]}}} if has_group else {}),
    }
    with telegram() as server:
        async with assistant(tmp_path, server, groups=groups):
            for at, tool in ((6, "read"), (5, "ls"), (5, "read")):
                server.say(f"@crib_bot /why {tool}", by=STRANGER, chat=GROUP, topic=at)
            await until(lambda: len(server.said(GROUP)) == 2 + has_group)
            told = [each.partition(".")[0] for each in server.said(GROUP)]
            assert sorted(told) == sorted(["read: allow"] * has_group + ["ls: allow", "read: deny"])


async def test_a_question_has_buttons_and_only_the_owners_counts(tmp_path: Path) -> None:
    with telegram() as server:
        async with assistant(tmp_path, server):
            server.say("run touch made", by=OWNER)
            await until(lambda: any("/approve" in each for each in server.said(OWNER)))
            asked = next(body for name, body in server.asked if "reply_markup" in body)
            yes = asked["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
            server.press(yes, by=STRANGER, chat=STRANGER)
            server.press(yes, by=OWNER, chat=OWNER)
            await until(lambda: (tmp_path / "work" / "made").exists())
            await until(lambda: sum(name == "answerCallbackQuery" for name, _ in server.asked) == 2)


async def test_a_message_without_words_is_told_that_it_cannot_be_read(tmp_path: Path) -> None:
    with telegram() as server:
        async with assistant(tmp_path, server):
            server.say("", by=OWNER)
            await until(lambda: any("nothing that I can read" in each for each in server.said(OWNER)))


async def test_files_of_a_message_are_kept_in_the_workspace(tmp_path: Path) -> None:
    photo = [{"file_id": "p1", "width": 1, "file_size": len(PICTURE)}]
    letter = {"file_id": "text", "file_name": "../../.hidden\\name.txt", "mime_type": "text/plain", "file_size": 13}
    with telegram() as server:
        async with assistant(tmp_path, server) as crib:
            server.say("list .", by=OWNER, photo=photo, document=letter)
            await until(lambda: bool(server.said(OWNER)))
            kept = sorted((tmp_path / "work" / "inbox").glob("*/*"))
            assert [each.name.partition("-")[2] for each in kept] == ["0-photo.jpg", "1-name.txt"]
            assert kept[0].read_bytes() == PICTURE
            told = await crib.rpc_for(toolcrib.OWNER, {"read"})("chat.history", {"sessionKey": "main"})
            assert "name.txt came with this message" in str(told["messages"][0])


async def test_a_file_is_posted_as_what_it_is(tmp_path: Path) -> None:
    picture, note = tmp_path / "a.png", tmp_path / "b.txt"
    picture.write_bytes(PICTURE)
    note.write_text("words")
    with telegram() as server:
        async with assistant(tmp_path, server) as crib:
            channel = crib.channels.find_line("telegram").channel
            for post in (
                Post(chat="7", text="look", media=str(picture), filename='a".png', silent=True, thread="5"),
                Post(chat="7", media=str(note), filename="c.ogg", is_voice=True),
            ):
                assert await channel.post(post, "key")
            sent = [(name, body) for name, body in server.asked if name.startswith("send")]
            assert [name for name, _ in sent] == ["sendPhoto", "sendVoice"]
            assert sent[0][1]["photo"][1] == PICTURE
            assert sent[0][1]["caption"] == "look"
            assert sent[0][1]["message_thread_id"] == "5"


async def test_what_was_too_much_at_once_is_said_later_and_once(tmp_path: Path) -> None:
    with telegram() as server:
        server.busy = 2
        async with assistant(tmp_path, server) as crib:
            told = await crib.channels.send(toolcrib.OWNER, to=str(OWNER), message="hi", idempotencyKey="1")
            again = await crib.channels.send(toolcrib.OWNER, to=str(OWNER), message="hi", idempotencyKey="1")
            assert told == again
            assert server.said(OWNER) == ["hi"]


async def test_a_wrong_token_is_told_in_one_sentence_that_does_not_hold_it(tmp_path: Path) -> None:
    with telegram() as server:
        async with assistant(tmp_path, server, botToken="1:wrong-wrong-wrong-wrong") as crib:
            (line,) = crib.channels.lines
            await until(lambda: bool(line.why))
            assert line.why == "telegram refused getMe: Unauthorized; check channels.telegram.botToken"


async def test_a_file_is_fetched_and_other_actions_are_done_or_refused(tmp_path: Path) -> None:
    with telegram() as server:
        async with assistant(tmp_path, server) as crib:
            channel = crib.channels.find_line("telegram").channel
            assert isinstance(channel, TelegramChannel)
            assert await channel.fetch(Attachment("f1"), 1_000) == PICTURE
            assert (await channel.act("edit", "7", {"messageId": "5", "message": "new"}))["ok"]
            assert (await channel.act("react", "7", {"messageId": 5, "emoji": "👍"}))["ok"]
            assert "messageId" in await channel.act("poll", "7", {"pollQuestion": "When?", "pollOption": ["1", "2"]})
            for action, params, why in (
                ("edit", {"message": "new"}, "messageId is missing"),
                ("kick", {"messageId": 5}, "telegram cannot 'kick'; it can send"),
            ):
                with pytest.raises(ToolError, match=why):
                    await channel.act(action, "7", params)
