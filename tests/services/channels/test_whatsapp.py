"""An assistant on WhatsApp: people, groups, buttons and files, at a Graph that holds us to its documentation."""

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.whatsapp_world import (
    GRAPH,
    PICTURE,
    Graph,
    graph,
    hook,
    notice,
    picture,
    reply,
    words,
)
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.backends.channels.whatsapp import WhatsAppChannel, read_notice
from toolcrib.define.channel import Attachment, Button, InboundRequest, Post
from toolcrib.define.errors import ToolError

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

OWNER, STRANGER, GROUP = "4915112345", "4915167890", "Y2FwaV9ncm91cDoxNzA1"


def assistant(folder: Path, server: Graph, **own: Any) -> AbstractAsyncContextManager[Crib]:
    return assistant_on("whatsapp", folder, {**GRAPH, "apiBase": server.address, "owners": [f"e164:+{OWNER}"], **own})


async def tell(crib: Crib, body: bytes) -> None:
    answer = await crib.channels.receive("whatsapp", hook(body))
    assert answer is not None
    assert answer.status == 200


def channel_of(crib: Crib) -> WhatsAppChannel:
    channel = crib.channels.find_line("whatsapp").channel
    assert isinstance(channel, WhatsAppChannel)
    return channel


async def test_the_owner_is_answered_and_a_stranger_gets_a_code(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            await tell(crib, notice(words("hello"), by=OWNER))
            await until(lambda: any("six verbs" in each for each in server.said(OWNER)))
            await tell(crib, notice(words("hello"), by=STRANGER, name=f"+{OWNER}"))
            await until(lambda: any("with the code" in each for each in server.said(STRANGER)))
            (waits,) = (await crib.channels.people())["people"]
            assert waits["sender"] == STRANGER
            await crib.channels.pair(waits["code"])
            await tell(crib, notice(words("hello"), by=STRANGER))
            await until(lambda: any("six verbs" in each for each in server.said(STRANGER)))
            read = [body for name, body in server.asked if body.get("status") == "read"]
            assert read[0]["typing_indicator"] == {"type": "text"}
            assert server.sent[0]["context"]["message_id"].startswith("wamid.")


async def test_what_is_told_twice_is_answered_once(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            body = notice(words("/why exec"), by=OWNER)
            for _ in range(3):
                await tell(crib, body)
            await tell(crib, notice(words("/status"), by=OWNER))
            await until(lambda: any("messages" in each for each in server.said(OWNER)))
            assert sum("exec: " in each for each in server.said(OWNER)) == 1


@pytest.mark.parametrize("signature", ["", "sha256=", "sha256=00", "sha1=00", "é"])
async def test_nothing_is_heard_that_is_not_signed(tmp_path: Path, signature: str) -> None:
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            signed = hook(notice(words("/status"), by=OWNER))
            other = hook(notice(words("/status"), by=OWNER), secret="another")
            for request in (signed._replace(headers={"x-hub-signature-256": signature}), other):
                answer = await crib.channels.receive("whatsapp", request)
                assert answer is not None
                assert answer.status == 403
            assert await crib.channels.store.list_unanswered("whatsapp") == ()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"hub.mode": "subscribe", "hub.verify_token": "verify-me", "hub.challenge": "1158"}, (200, "1158")),
        ({"hub.mode": "subscribe", "hub.verify_token": "guessed", "hub.challenge": "1158"}, (403, "")),
        ({"hub.verify_token": "verify-me", "hub.challenge": "1158"}, (403, "")),
        ({}, (403, "")),
    ],
)
async def test_meta_is_told_that_this_is_the_place(
    tmp_path: Path, query: dict[str, str], told: tuple[int, str]
) -> None:
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            answer = await crib.channels.receive("whatsapp", InboundRequest("GET", query, {}, b""))
            assert answer is not None
            assert (answer.status, answer.body if answer.status == 200 else "") == told


async def test_a_group_is_answered_when_it_is_spoken_to_with_the_groups_tools(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant(tmp_path, server, groups={GROUP: {"tools": {"allow": ["read"]}}}) as crib:
            await tell(crib, notice(words("just talking", group_id=GROUP), by=STRANGER))
            await tell(crib, notice(words("@15550783881 /why exec", group_id=GROUP), by=STRANGER))
            await until(lambda: bool(server.said(GROUP)))
            (told,) = server.said(GROUP)
            assert told.startswith("exec: deny")
            assert server.sent[0]["recipient_type"] == "group"


async def test_a_question_has_buttons_and_only_the_owners_counts(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            await tell(crib, notice(words("run touch made"), by=OWNER))
            await until(lambda: any(each["type"] == "interactive" for each in server.sent))
            asked = next(each for each in server.sent if each["type"] == "interactive")
            yes = asked["interactive"]["action"]["buttons"][0]["reply"]["id"]
            await tell(crib, notice(reply(yes), by=STRANGER))
            assert not (tmp_path / "work" / "made").exists()
            await tell(crib, notice(reply(yes), by=OWNER))
            await until(lambda: (tmp_path / "work" / "made").exists())


async def test_a_picture_comes_in_and_files_go_out(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(PICTURE)
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            channel, post = channel_of(crib), Post(chat=OWNER, media=str(tmp_path / "out"), filename="a.png")
            (heard,) = read_notice(notice(picture(caption="look")), GRAPH["phoneNumberId"])
            assert (heard.text, heard.attachments) == ("look", (Attachment("777", "image", "image/png"),))
            assert await channel.fetch(heard.attachments[0], 1_000) == PICTURE
            await channel.post(replace(post, text="a nut"), "1")
            await channel.post(replace(post, filename="list.pdf", text="x" * 1_025), "2")
            await channel.post(replace(post, filename="v.ogg", text="said", is_voice=True), "3")
            assert [(each["type"], each[each["type"]].get("caption")) for each in server.sent] == [
                ("image", "a nut"), ("document", None), ("text", None), ("audio", None), ("text", None),
            ]  # fmt: skip
            assert set(server.files.values()) == {PICTURE}
            with pytest.raises(ToolError, match=r"whatsapp refused it: .*Param file must be"):
                await channel.post(replace(post, filename="a.exe"), "4")


async def test_a_token_is_shown_to_meta_alone(tmp_path: Path) -> None:
    with graph() as server, graph() as other:
        server.file_host = other.address
        async with assistant(tmp_path, server) as crib:
            with pytest.raises(ToolError, match=r"sent us to 127\.0\.0\.1 for a file, which is none of its places"):
                await channel_of(crib).fetch(Attachment("777"), 1_000)
            with pytest.raises(ToolError, match="no id that WhatsApp knows"):
                await channel_of(crib).fetch(Attachment("../me"), 1_000)


async def test_buttons_that_do_not_fit_are_written_to_be_typed(tmp_path: Path) -> None:
    rows = ((Button("Allow once", "/approve 1"), Button("Refuse", "/deny 1")),)
    many = (tuple(Button(f"B{each}", f"/b {each}") for each in range(4)),)
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            for chat, text, buttons in ((OWNER, "x" * 1_025, rows), (GROUP, "May it?", rows), (OWNER, "Which?", many)):
                await channel_of(crib).post(Post(chat=chat, text=text, buttons=buttons), text)
            assert [each["type"] for each in server.sent] == ["text"] * 3
            assert server.said(GROUP) == ["May it?\nAllow once: /approve 1\nRefuse: /deny 1"]


async def test_what_was_too_much_at_once_is_said_later_and_once(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(b"OggS")
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            server.fails = [(429, 130_429), (400, 131_056)]
            told = await crib.channels.send(toolcrib.OWNER, to=OWNER, message="hi", idempotencyKey="1")
            assert told == await crib.channels.send(toolcrib.OWNER, to=OWNER, message="hi", idempotencyKey="1")
            assert server.said(OWNER) == ["hi"]
            voice = Post(chat=OWNER, media=str(tmp_path / "v"), filename="v.ogg", text="said", is_voice=True)
            await channel_of(crib).post(replace(voice, text=""), "0")
            server.sent.clear()
            server.fails = [(429, 130_429)]
            server.fails = [(200, 0), *server.fails]
            with pytest.raises(ToolError, match="takes no more for now"):
                await channel_of(crib).post(voice, "2")
            await channel_of(crib).post(voice, "2")
            assert [each["type"] for each in server.sent] == ["audio", "text"]


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ((400, 131_047), "was refused: whatsapp refused it: they last wrote more than 24 hours ago"),
        ((400, 133_010), "the number is not registered; do it with `toolcrib channels login whatsapp`"),
        ((0, 0), "may or may not have arrived"),
        ((502, 0), "may or may not have arrived: whatsapp is out of order: status 502"),
    ],
)
async def test_what_was_not_said_is_told_in_one_sentence(
    tmp_path: Path, failure: tuple[int, int], sentence: str
) -> None:
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            server.fails = [failure]
            with pytest.raises(ToolError, match=sentence):
                await crib.channels.send(toolcrib.OWNER, to=OWNER, message="hi", idempotencyKey="1")
            assert server.said(OWNER) == []


async def test_while_the_graph_is_not_there_what_is_told_is_kept(tmp_path: Path) -> None:
    with graph() as gone:
        pass
    with graph() as server:
        async with assistant(tmp_path, gone) as crib:
            (line,) = crib.channels.lines
            await until(lambda: "cannot be reached" in line.why)
            await tell(crib, notice(words("hello"), by=OWNER))
        async with assistant(tmp_path, server):
            await until(lambda: any("six verbs" in each for each in server.said(OWNER)))


async def test_a_reaction_is_set_and_taken_away(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant(tmp_path, server) as crib:
            channel = channel_of(crib)
            assert (await channel.act("react", OWNER, {"messageId": "wamid.1", "emoji": "👍"}))["ok"]
            assert (await channel.act("react", OWNER, {"messageId": "wamid.1", "remove": True}))["ok"]
            assert [each["reaction"]["emoji"] for each in server.sent] == ["👍", ""]
            for action, params, why in (
                ("react", {"emoji": "👍"}, "messageId and emoji are needed"),
                ("edit", {"messageId": "wamid.1"}, "whatsapp cannot 'edit'; it can send, broadcast, reply, react"),
            ):
                with pytest.raises(ToolError, match=why):
                    await channel.act(action, OWNER, params)


async def test_wrong_keys_are_told_in_one_sentence_each(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant(tmp_path, server, accessToken="wrong") as crib:
            (line,) = crib.channels.lines
            await until(lambda: bool(line.why))
            assert "the access token does not hold; check channels.whatsapp.accessToken" in line.why


def test_only_what_is_written_to_this_number_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    number = GRAPH["phoneNumberId"]
    failed = [{"status": "failed", "errors": [{"code": 131_047, "title": "Re-engagement"}]}]
    assert list(read_notice(notice(words("hi"), number="1"), number)) == []
    assert list(read_notice(notice({"type": "reaction", "reaction": {"emoji": "x"}}), number)) == []
    assert list(read_notice(notice(words("hi", **{"from": "DE.1"})), number)) == []
    assert list(read_notice(notice(statuses=failed), number)) == []
    assert "they last wrote more than 24 hours ago" in caplog.text
    assert list(read_notice(b"{}", number)) == []
    odd: list[dict[str, Any]] = [
        {"type": "contacts", "contacts": [{}]},
        {"type": "unsupported"},
        {"type": "button", "button": {"text": "T"}},
    ]
    assert [each.text for each in read_notice(notice(*odd), number)] == ["", "", "T"]
    other = json.loads(notice(words("hi")))
    other["entry"][0]["changes"][0]["field"] = "account_update"
    assert list(read_notice(json.dumps(other).encode(), number)) == []
