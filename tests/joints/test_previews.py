"""Nothing is fetched because it was written: what goes out asks every service to show no preview of an address."""

import re
from pathlib import Path

import pytest

from tests.backends.channels.discord_world import ROOM as DISCORD_ROOM
from tests.backends.channels.discord_world import TOKEN as DISCORD_TOKEN
from tests.backends.channels.discord_world import discord
from tests.backends.channels.slack_world import APP_TOKEN, BOT_TOKEN, slack
from tests.backends.channels.slack_world import ROOM as SLACK_ROOM
from tests.backends.channels.telegram_world import TOKEN as TELEGRAM_TOKEN
from tests.backends.channels.telegram_world import telegram
from tests.services.channels.assistants import assistant_on
from toolcrib.define.channel import Channel, Post

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
        said = [body for *_, body in world.asked if isinstance(body, dict) and "evil.test" in str(body.get("content"))]
        assert len(said) == 4
        for body in said:
            bare = re.search(r"(?<!<)https://", body["content"])
            assert body.get("flags", 0) & SUPPRESSED or (body["embeds"] and not bare)


async def test_slack_is_told_to_unfurl_no_address(tmp_path: Path) -> None:
    async with slack() as world:
        settings = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiBase": world.base}
        async with assistant_on("slack", tmp_path, settings) as crib:
            await _write_in_every_way(crib.channels.find_line("slack").channel, SLACK_ROOM, tmp_path)
        said = [(name, body) for name, body in world.asked if "evil.test" in str(body)]
        assert len(said) == 3
        for name, body in said:
            assert name == "chat.postMessage"
            assert (body["unfurl_links"], body["unfurl_media"]) == ("false", "false")
