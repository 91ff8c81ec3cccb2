"""Logins: which channels there are, credentials that hold, a number that is proven by its code, and an end."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.telegram_world import TOKEN, telegram
from tests.backends.channels.whatsapp_world import GRAPH, graph
from tests.backends.exec.shells import until
from toolcrib import OWNER, Caller, Sender
from toolcrib.define.errors import ToolError

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

STRANGER = Caller(channel="whatsapp", sender=Sender(id="49151"))


async def test_a_number_is_proven_and_registered_by_the_owners_tool(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant_on("whatsapp", tmp_path, {**GRAPH, "apiBase": server.address}) as crib:
            belt = crib.belt(OWNER)

            async def login(action: str, **args: Any) -> Any:
                return (await belt.call("whatsapp_login", {"action": action, **args})).details

            who = "+1 555-078-3881 Crib"
            assert await login("status") == {"connected": False, "message": f"{who} is not registered yet"}
            assert (await login("start", method="voice"))["message"].startswith("A code comes by a voice call")
            assert server.asked[-1] == ("request_code", {"code_method": "VOICE", "language": "en_US"})
            refused = await belt.call("whatsapp_login", {"action": "wait", "code": "000-000", "pin": "246810"})
            assert refused.status == "error"
            assert not server.is_connected
            assert (await login("wait", code="123-456", pin="246810"))["connected"]
            assert server.asked[-1] == ("register", {"messaging_product": "whatsapp", "pin": "246810"})
            assert await login("status") == {"connected": True, "message": f"{who} is registered"}
            assert await login("start") == {"connected": True, "message": f"{who} is registered already"}
            assert (await login("wait", timeoutMs=600_000))["connected"]


@pytest.mark.parametrize(
    ("code", "pin"), [("12345", "246810"), ("123456", ""), ("123456", "abcdef"), ("１２３４５６", "246810")]
)
async def test_a_code_that_is_none_does_not_reach_meta(tmp_path: Path, code: str, pin: str) -> None:
    with graph() as server:
        async with assistant_on("whatsapp", tmp_path, {**GRAPH, "apiBase": server.address}) as crib:
            with pytest.raises(ToolError, match="the code has six digits, and so has the pin"):
                await crib.ask("web.login.wait", {"code": code, "pin": pin}, caller=OWNER)
            assert server.asked == []


async def test_nobody_but_the_owner_logs_in(tmp_path: Path) -> None:
    with graph() as server:
        async with assistant_on("whatsapp", tmp_path, {**GRAPH, "apiBase": server.address}) as crib:
            assert crib.belt(STRANGER).verdicts["whatsapp_login"].decision == "deny"
            for method in ("start", "wait", "status"):
                with pytest.raises(ToolError, match="owner"):
                    await crib.ask(f"web.login.{method}", {}, caller=STRANGER)
            for method in ("channels.login", "channels.logout"):
                with pytest.raises(ToolError, match="needs the scope 'admin'"):
                    await crib.ask(method, {"channel": "whatsapp"}, caller=STRANGER)
            assert server.asked == []


async def test_a_channel_says_as_whom_it_is_there_ends_and_begins_again(tmp_path: Path) -> None:
    with telegram() as server:
        settings = {"botToken": TOKEN, "apiBase": server.address, "owners": ["id:7"]}
        async with assistant_on("telegram", tmp_path, settings) as crib:
            server.say("/why exec", by=7)
            await until(lambda: len(server.said(7)) == 1)
            assert await crib.ask("channels.login", {"channel": "telegram"}, caller=OWNER) == {
                "channel": "telegram", "ok": True, "as": "@crib_bot",
            }  # fmt: skip
            assert await crib.channels.store.cursor("telegram")
            assert (await crib.ask("channels.logout", {"channel": "telegram"}, caller=OWNER))["loggedOut"]
            assert (crib.channels.lines, await crib.channels.store.cursor("telegram")) == ((), "")
            server.say("/why read", by=7)
            await crib.ask("channels.login", {"channel": "telegram"}, caller=OWNER)
            await until(lambda: len(server.said(7)) == 2)  # what was told before is known, and not answered again
            assert server.said(7)[1].startswith("read: ")


async def test_the_kinds_are_listed_with_what_they_can_do(tmp_path: Path) -> None:
    config = {"channels": {"webhook": {"url": "http://127.0.0.1:1/", "secret": "x" * 20}, "signal": {}}}
    async with toolcrib.open(config, state=tmp_path) as crib:
        rows = {row["channel"]: row for row in (await crib.ask("channels.list", {}, caller=OWNER))["channels"]}
        assert rows["webhook"]["configured"]
        assert rows["webhook"]["actions"] == ["send", "broadcast", "reply"]
        assert not rows["telegram"]["configured"]
        assert rows["signal"] == {"channel": "signal", "configured": False}
        told = await crib.ask("channels.login", {"channel": "webhook"}, caller=OWNER)
        assert told == {"channel": "webhook", "ok": True, "as": ""}
        assert crib.channels.lines == ()  # no gateway runs
        with pytest.raises(ToolError, match="start `toolcrib gateway`, which connects webhook"):
            crib.channels.find_line("webhook")
        for channel, why in (("irc", "nothing says how to reach irc"), ("nonsense", "there is no channel 'nonsense'")):
            with pytest.raises(ToolError, match=why):
                await crib.ask("channels.login", {"channel": channel}, caller=OWNER)


async def test_wrong_credentials_are_told_when_one_logs_in(tmp_path: Path) -> None:
    with telegram() as server:
        config = {"channels": {"telegram": {"botToken": "1:wrong-wrong", "apiBase": server.address}}}
        async with toolcrib.open(config, state=tmp_path) as crib:
            with pytest.raises(ToolError, match=r"check channels\.telegram\.botToken"):
                await crib.ask("channels.login", {"channel": "telegram"}, caller=OWNER)


async def test_a_telegram_chat_is_described_to_who_is_in_it(tmp_path: Path) -> None:
    groups = {"-100": {"requireMention": False, "tools": {"allow": ["telegram_chat"]}}}
    with telegram() as server:
        settings = {"botToken": TOKEN, "apiBase": server.address, "owners": ["id:7"], "groups": groups}
        async with assistant_on("telegram", tmp_path, settings) as crib:
            told = await crib.belt(OWNER).call("telegram_chat", {"chatId": "-100"})
            assert told.details == {
                "channel": "telegram", "to": "-100",
                "ok": True, "chat": {"title": "Shop", "type": "supergroup"}, "members": 3,
                "administrators": [{"id": "7", "name": "Ann"}],
            }  # fmt: skip
            assert told.content[0].source == "message:telegram"
            member = Caller(
                channel="telegram", group="-100", sender=Sender(id="8"), session="agent:main:telegram:group:-100"
            )
            for params in ({}, {"to": "7"}, {"to": "-200"}):
                with pytest.raises(ToolError, match="only the owner reaches other chats"):
                    await crib.ask("channels.act", {"channel": "telegram", "action": "chat", **params}, caller=member)
            server.say("hello", by=8, chat=-100)
            await until(lambda: bool(server.said(-100)))
            here = {"channel": "telegram", "action": "chat"}
            with_name = {"title": "Shop", "type": "supergroup"}
            known = Sender(id="8", username="p8", name="P8")
            asked = Caller(channel="telegram", group="-100", sender=known, session=member.session)
            assert (await crib.ask("channels.act", here, caller=asked))["chat"] == with_name
            with pytest.raises(ToolError, match="stays there"):
                await crib.ask("channels.act", {**here, "to": "7"}, caller=asked)
            with pytest.raises(ToolError, match="action must be 'send'"):
                await crib.ask("channels.act", {**here, "action": "kick"}, caller=OWNER)
