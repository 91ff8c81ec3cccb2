"""Nothing is fetched because it was written: what goes out asks every service to show no preview of an address."""

import asyncio
import json
import re
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.discord_world import ROOM as DISCORD_ROOM
from tests.backends.channels.discord_world import TOKEN as DISCORD_TOKEN
from tests.backends.channels.discord_world import discord
from tests.backends.channels.slack_world import APP_TOKEN, BOT_TOKEN, slack
from tests.backends.channels.slack_world import ROOM as SLACK_ROOM
from tests.backends.channels.telegram_world import TOKEN as TELEGRAM_TOKEN
from tests.backends.channels.telegram_world import telegram
from tests.backends.channels.whatsapp_world import GRAPH, graph
from tests.joints.asking_world import until
from tests.services.channels.assistants import assistant_on
from toolcrib import OWNER
from toolcrib.backends.channels.email import EMAIL
from toolcrib.backends.channels.matrix import MATRIX
from toolcrib.config.channels import ChannelSettings
from toolcrib.define.channel import Channel, Post
from toolcrib.define.web import Page

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

LINK = "look: https://evil.test/?q=secret and evil.test/x"
SUPPRESSED = 1 << 2


async def _write_in_every_way(channel: Channel, chat: str, folder: Path) -> None:
    """Have every kind of post and edit that can hold words say an address."""
    (folder / "note.txt").write_text("hi")
    await channel.post(Post(chat=chat, text=LINK), "1")
    if channel.abilities.media:
        await channel.post(Post(chat=chat, text=LINK, media=str(folder / "note.txt"), filename="note.txt"), "2")
    if channel.abilities.cards:
        await channel.post(Post(chat=chat, text=LINK, card={"title": "t", "blocks": []}), "3")


async def test_telegram_is_told_to_look_up_no_address(tmp_path: Path) -> None:
    with telegram() as server:
        settings = {"botToken": TELEGRAM_TOKEN, "apiBase": server.address}
        async with assistant_on("telegram", tmp_path, settings) as crib:
            channel = crib.channels.find_line("telegram").channel
            await _write_in_every_way(channel, "7", tmp_path)
            await channel.act("edit", "7", {"messageId": "1", "message": LINK})
        said = [body for name, body in server.asked if "evil.test" in str(body.get("text", ""))]
        assert len(said) == 2
        assert all(body["link_preview_options"] == {"is_disabled": True} for body in said)


async def test_discord_is_told_to_embed_no_address(tmp_path: Path) -> None:
    async with discord() as world:
        settings = {"token": DISCORD_TOKEN, "apiBase": world.base}
        async with assistant_on("discord", tmp_path, settings) as crib:
            channel = crib.channels.find_line("discord").channel
            await _write_in_every_way(channel, DISCORD_ROOM, tmp_path)
            await channel.act("reply", DISCORD_ROOM, {"messageId": "1", "message": LINK})
            await channel.act("edit", DISCORD_ROOM, {"messageId": "1", "message": LINK})
            open_mark = "look <https://evil.test/?q=secret and xhttps://evil.test"
            await channel.post(Post(chat=DISCORD_ROOM, text=open_mark, card={"title": "t"}), "4")
        said = [body for *_, body in world.asked if isinstance(body, dict) and "evil.test" in str(body.get("content"))]
        assert len(said) == 6
        for body in said:
            bare = re.sub(r"<https?://[^\s<>]+>", "", body["content"])
            assert body.get("flags", 0) & SUPPRESSED or (body["embeds"] and "://" not in bare)


async def test_slack_is_told_to_unfurl_no_address(tmp_path: Path) -> None:
    async with slack() as world:
        settings = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiBase": world.base}
        async with assistant_on("slack", tmp_path, settings) as crib:
            channel = crib.channels.find_line("slack").channel
            await _write_in_every_way(channel, SLACK_ROOM, tmp_path)
            id = await channel.post(Post(chat=SLACK_ROOM, text="hi"), "4")
            await channel.act("reply", SLACK_ROOM, {"messageId": id, "message": LINK})
            await channel.act("edit", SLACK_ROOM, {"messageId": id, "message": LINK})
        said = [(name, body) for name, body in world.asked if "evil.test" in str(body)]
        assert [name for name, _ in said] == ["chat.postMessage"] * 4 + ["chat.update"]
        for name, body in said:  # a change takes no word about previews; its text is no link
            off = {"parse": "none"} if name == "chat.update" else {"unfurl_links": "false", "unfurl_media": "false"}
            assert {key: body.get(key) for key in off} == off


FETCHED: list[dict[str, Any]] = [
    {"blocks": [{"type": "image", "image_url": "https://evil.test/?q=secret", "alt_text": "x"}]},
    {"blocks": [{"type": "section", "accessory": {"type": "image", "image_url": " HTTPS://evil.test/x"}}]},
    {"blocks": [{"type": "context", "elements": [{"type": "image", "slack_file": {"url": "//evil.test/x"}}]}]},
    {"blocks": [{"type": "video", "thumbnail_url": "http://evil.test/x", "title": "t"}]},
    {"title": "t", "image": {"url": "https://evil.test/?q=secret"}},
    {"title": "t", "author": {"name": "n", "icon_url": "https://evil.test/x"}},
    {"title": "t", "fields": [{"thumbnail": ["https://evil.test/x"]}]},
]
NAMED: list[dict[str, Any]] = [
    {"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "see https://shop.test, an image"}}]},
    {"blocks": [], "title": "photo of the day", "url": "https://shop.test/", "text": "https://shop.test/image.png"},
    {"blocks": [], "title": "t", "image": {"url": "attachment://plan.png"}},
]


async def test_no_card_is_sent_for_which_a_service_would_fetch_a_picture(tmp_path: Path) -> None:
    async with slack() as world:
        settings = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiBase": world.base}
        async with assistant_on("slack", tmp_path, settings) as crib:
            for cards, is_refused in ((FETCHED, True), (NAMED, False)):
                for card in cards:
                    args = {"action": "send", "target": SLACK_ROOM, "message": "x", "card": card}
                    told = await crib.belt(OWNER).call("message", args)
                    assert ("it would be fetched" in told.plain_text) == is_refused, (card, told.plain_text)
            await until(lambda: [name for name, _ in world.asked].count("chat.postMessage") == len(NAMED))
        assert "evil.test" not in str(world.asked)


async def test_whatsapp_is_told_to_look_up_no_address(tmp_path: Path) -> None:
    with graph() as server:
        settings = {**GRAPH, "apiBase": server.address, "owners": ["e164:+4915112345"]}
        async with assistant_on("whatsapp", tmp_path, settings) as crib:
            await _write_in_every_way(crib.channels.find_line("whatsapp").channel, "4915112345", tmp_path)
        said = [body for _, body in server.asked if "evil.test" in str(body)]
        assert len(said) == 2
        assert [body["text"]["preview_url"] for body in said if body["type"] == "text"] == [False] * (
            len(said) - sum("caption" in str(body) for body in said)
        )


class Recorded:
    """A way out on which nobody answers but with an event's id; what is sent stays."""

    def __init__(self) -> None:
        self.bodies = list[Any]()

    def for_own(self, url: str) -> "Recorded":
        return self

    async def send(self, method: str, url: str, **how: Any) -> Page:
        is_json = how["headers"].get("content-type", "").startswith("application/json")
        self.bodies.append(json.loads(how["body"]) if is_json and how.get("body") else None)
        told = {"event_id": "$1", "content_uri": "mxc://home.test/1"}
        return Page(status=200, url=url, headers={}, body=json.dumps(told).encode())


async def test_matrix_messages_say_that_no_address_of_theirs_is_shown(tmp_path: Path) -> None:
    settings = ChannelSettings.model_validate({"homeserver": "http://home.test", "accessToken": "t"})
    way_out: Any = Recorded()
    channel = MATRIX.make(settings, way_out)
    await _write_in_every_way(channel, "!room:home.test", tmp_path)
    await channel.act("edit", "!room:home.test", {"messageId": "$1", "message": LINK})
    said = [body for body in way_out.bodies if "evil.test" in str(body)]
    assert len(said) == 3
    for body in said:
        contents = [body, body["m.new_content"]] if "m.new_content" in body else [body]
        assert all(each["com.beeper.linkpreviews"] == [] for each in contents)
        assert "formatted_body" not in str(body)


async def test_a_letter_is_plain_text_in_which_no_address_is_looked_up(tmp_path: Path) -> None:
    letters = list[bytes]()

    serving = set[asyncio.Task[Any] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            word = line[:4].upper()
            if word == b"DATA":
                writer.write(b"354 go on\r\n")
                letters.append(await reader.readuntil(b"\r\n.\r\n"))
            writer.write(b"250 ok\r\n" if word != b"QUIT" else b"221 bye\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    imap = {"host": "127.0.0.1", "port": 1, "user": "crib", "password": "correct horse", "tls": False}
    smtp = {"host": "127.0.0.1", "port": port, "tls": False}
    settings = ChannelSettings.model_validate({"address": "crib@home.test", "imap": imap, "smtp": smtp})
    async with server, toolcrib.open({}, env={}) as crib:
        await _write_in_every_way(EMAIL.make(settings, crib.way_out), "ann@home.test", tmp_path)
        await asyncio.gather(*filter(None, serving))
    assert len(letters) == 2
    for letter in letters:
        parts = [part for part in message_from_bytes(letter).walk() if not part.is_multipart()]
        assert [part.get_content_type() for part in parts if not part.get_filename()] == ["text/plain"]
