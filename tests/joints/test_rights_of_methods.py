"""A guest to whom everything is denied goes through every method: each refuses, or has its reason here."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp_types import RequestParams

import toolcrib
from toolcrib import OWNER, Caller, Ctx, Sender, ToolError, tool
from toolcrib.define.errors import DeclarationError
from toolcrib.define.ports import WHYS, Scope, rpc
from toolcrib.doors.gateway.http import HttpRoute
from toolcrib.doors.mcp.relay import RelayMethod
from toolcrib.services.channels.responder import ChatCommand
from toolcrib.services.router import Router
from toolcrib.testing import FakeApprover

pytestmark = pytest.mark.anyio

GUEST = Caller(channel="device", sender=Sender(id="ph"), owner=False, session="agent:main:device:dm:ph")
RIGHTS: frozenset[Scope] = frozenset({"read", "write"})  # what `operator.write` is
OPEN = {"channels": {"device": {"direct": {"tools": {"allow": ["*"]}}}}}
KEY = {"id": "x"}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

# methods that do a tool's work: how one is asked, and the tool that it is a call of
WORK: dict[str, tuple[dict[str, Any], str]] = {
    "channels.act": ({"channel": "slack", "action": "read"}, "slack_history"),
    "channels.message": ({"action": "send", "key": "k", "params": {"target": "7", "message": "hi"}}, "message"),
    "gateway.restart": ({}, "gateway"),
    "image.describe": ({"pictures": [PICTURE]}, "image"),
    "memory.get": ({"path": "MEMORY.md"}, "memory_get"),
    "memory.search": ({"query": "tea"}, "memory_search"),
    "process.clear": (KEY, "process"),
    "process.keys": ({**KEY, "keys": ["Enter"]}, "process"),
    "process.kill": (KEY, "process"),
    "process.list": ({}, "process"),
    "process.log": (KEY, "process"),
    "process.paste": ({**KEY, "text": "x"}, "process"),
    "process.poll": ({**KEY, "wait": 1}, "process"),
    "process.remove": (KEY, "process"),
    "process.submit": (KEY, "process"),
    "process.write": (KEY, "process"),
    "send": ({"to": "7", "message": "hi", "channel": "slack"}, "message"),
    "sessions.send": ({"message": "hi", "key": "agent:main:device:dm:ph:other"}, "sessions_send"),
    "subagents.list": ({}, "subagents"),
    "subagents.spawn": ({"task": "look"}, "sessions_spawn"),
    "subagents.steer": ({"target": "x", "message": "on"}, "subagents"),
    "subagents.stop": ({"target": "x"}, "subagents"),
    "tts.convert": ({"text": "hi"}, "tts"),
    "wake": ({"text": "hi"}, "cron"),
    "web.search": ({"query": "nuts"}, "web_search"),
}  # fmt: skip


@tool(effects={"read"})
async def curious(ctx: Ctx, method: str, params: str = "{}") -> str:
    """Ask the services for a method."""
    return str(await ctx.rpc(method, json.loads(params)))


def crib_in(folder: Path, config: dict[str, Any] | None = None, **more: Any) -> toolcrib.Crib:
    settings = {"workspace": {"root": str(folder)}, "models": {"default": "offline:rules"}, **(config or {})}
    return toolcrib.open(settings, tools=[curious], state=folder / "state", env={}, **more)


def test_every_method_that_a_guest_may_ask_for_does_a_tools_work_or_has_a_reason(tmp_path: Path) -> None:
    marks = {name: each.mark for name, each in crib_in(tmp_path).methods.items()}
    asked = {name for name, mark in marks.items() if mark.clients in RIGHTS}
    assert {name for name in asked if marks[name].as_tool is not None} == {*WORK}
    assert {name for name in asked if marks[name].why not in WHYS} == {*WORK}


@pytest.mark.parametrize("clients", ["read", "write"])
def test_one_that_says_neither_is_not_offered(clients: Scope) -> None:
    class Bell:
        @rpc("bell.ring", clients=clients)
        async def ring(self) -> None:
            """Ring."""

    with pytest.raises(DeclarationError, match=r"bell.ring .*guests may ask for it; say as_tool, or why"):
        Router([Bell()])


async def answer(*_: Any) -> Any:
    """Answer whoever asks."""


OFFERS: list[Callable[..., object]] = [
    partial(HttpRoute, "GET", answer),
    partial(ChatCommand, answer),
    partial(RelayMethod, "bells/list", RequestParams, answer),
]


@pytest.mark.parametrize("offer", OFFERS, ids=["route", "chat command", "resource"])
def test_a_route_a_command_or_a_resource_without_a_reason_is_not_offered_either(offer: Callable[..., object]) -> None:
    for nothing in ({}, {"why": ""}, {"why": "because"}):
        with pytest.raises(DeclarationError, match="guests may ask for it; say as_tool, or why"):
            offer(**nothing)
    for why in WHYS:
        offer(why=why)


@pytest.mark.parametrize(
    "how", [{"clients": "admin"}, {"clients": "read", "why": "own"}, {"clients": "write", "as_tool": "write"}]
)
def test_one_that_says_so_or_that_no_guest_may_ask_for_is_offered(how: dict[str, Any]) -> None:
    class Bell:
        @rpc("bell.ring", **how)
        async def ring(self) -> None:
            """Ring."""

    assert "bell.ring" in Router([Bell()]).methods


@pytest.mark.parametrize("method", WORK)
async def test_what_a_tool_does_is_denied_where_the_tool_is_and_that_is_recorded(tmp_path: Path, method: str) -> None:
    params, name = WORK[method]
    async with crib_in(tmp_path, {"tools": {"deny": ["*"]}}) as crib:
        with pytest.raises(ToolError, match=rf"^{name} is denied|^Refused: {name}|^{name}") as refused:
            await crib.rpc_for(GUEST, RIGHTS)(method, params)
        assert refused.value.code == "denied"
        rows = await crib.ask("audit.tail", caller=OWNER)
        assert [(row["tool"], row["decision"]) for row in rows] == [(name, "deny")]


async def test_from_another_body_it_is_a_second_call_and_from_its_own_it_is_none(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("Drinks green tea.\n")
    asked = {"method": "memory.search", "params": '{"query": "tea"}'}
    async with crib_in(tmp_path) as crib:
        assert "green tea" in (await crib.belt(OWNER).call("curious", asked)).plain_text
        assert "green tea" in (await crib.belt(OWNER).call("memory_search", {"query": "tea"})).plain_text
        assert (await crib.ask("memory.search", {"query": "tea"}, caller=OWNER))["results"]
        rows = await crib.ask("audit.tail", caller=OWNER)
    assert [row["tool"] for row in rows] == ["curious", "memory_search", "memory_search", "memory_search"]
    async with crib_in(tmp_path, {"tools": {"deny": ["memory_search"]}}) as crib:
        told = await crib.belt(OWNER).call("curious", asked)
        assert (told.status, "memory_search is denied" in told.plain_text) == ("error", True)


async def test_what_a_guest_may_use_they_may_also_ask_for_as_a_method(tmp_path: Path) -> None:
    human = FakeApprover(True)
    async with crib_in(tmp_path, {**OPEN, "tools": {"ask": ["subagents"]}}, approver=human) as crib:
        ask = crib.rpc_for(GUEST, RIGHTS)
        assert (await ask("process.list", {}))["sessions"] == []
        assert (await ask("memory.search", {"query": "tea"}))["results"] == []
        assert (await ask("subagents.spawn", {"task": "say hi"}))["status"] == "accepted"
        assert (await ask("wake", {"text": "hi"}))["ok"]
        assert len(await ask("subagents.list", {})) == 1
    assert [call.name for _, call, _ in human.asked] == ["subagents"]


async def test_what_the_owner_does_by_hand_is_no_call_of_a_model(tmp_path: Path) -> None:
    async with crib_in(tmp_path, {"tools": {"profile": "minimal"}}) as crib:
        assert (await crib.ask("wake", {"text": "hi"}, caller=OWNER))["ok"]
        job = {"schedule": {"everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "hi"}}
        made = await crib.ask("cron.add", {"job": job}, caller=OWNER)
        assert (await crib.ask("cron.remove", {"id": made["id"]}, caller=OWNER))["removed"]
        assert await crib.ask("audit.tail", caller=OWNER) == []


class Shelf:
    """A service whose one method does the work of the tool `look_at`."""

    @rpc("shelf.look", clients="read", as_tool="look_at")
    async def look(self, path: str, to: str = "") -> str:
        """Tell what lies there."""
        return f"saw {path} {to}".rstrip()


INSTEAD: list[tuple[dict[str, Any], str, int]] = [
    ({}, "", 1),  # what was judged
    ({"path": "a.txt", "to": "alice"}, "", 1),
    ({"path": "b.txt"}, "", 2),
    ({"path": "secret/b.txt"}, "denied", 2),
    ({"path": "x/../secret/b.txt"}, "denied", 2),
    ({"to": "mallory"}, "denied", 2),
]


PLACES = {"says nothing": {}, "says what it reaches": {"paths": ("path",), "recipients": ("to",)}}


@pytest.mark.parametrize(("instead", "code", "calls"), INSTEAD, ids=[json.dumps(each) for each, *_ in INSTEAD])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
async def test_a_body_asks_its_own_method_without_a_second_judgement_only_for_what_was_judged(
    tmp_path: Path, instead: dict[str, Any], code: str, calls: int, places: dict[str, Any]
) -> None:
    @tool(effects={"read"}, **places)
    async def look_at(ctx: Ctx, path: str, to: str = "") -> str:
        """Tell what lies there, by the method whose work this is."""
        return str(await ctx.rpc("shelf.look", {"path": path, "to": to, **instead}))

    (tmp_path / "x").mkdir()
    rules = [{"tool": "look_at", "when": {"path": "secret/**"}}, {"tool": "look_at", "when": {"to": "mallory"}}]
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"deny": rules}}
    async with toolcrib.open(config, tools=[look_at], services=[Shelf()], state=tmp_path / "state", env={}) as crib:
        told = await crib.belt(OWNER).call("look_at", {"path": "a.txt", "to": "alice"})
        ran = [row["ran"] for row in await crib.ask("audit.tail", caller=OWNER)]
    assert (told.status, (told.details or {}).get("code", "")) == ("error" if code else "ok", code), told
    assert ran == [True, not code][:calls]


KNOCK: dict[str, Any] = {"name": "knock", "description": "Knock.", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("id", ["program", "owner", "id:program", "client:program", "phone"])
async def test_no_id_of_a_person_gives_their_tools_the_rights_of_the_programs_own(tmp_path: Path, id: str) -> None:
    guest = replace(GUEST, sender=Sender(id=id), session=f"agent:main:device:dm:{id.replace(':', '-')}")
    async with crib_in(tmp_path) as crib:
        for caller, decision in ((guest, "deny"), (OWNER, "allow")):
            heard = asyncio.Queue[Any]()
            rpc_of = crib.rpc_for(caller, RIGHTS)
            offer = asyncio.create_task(
                rpc_of("tools.offer", {"tools": [KNOCK], "idempotencyKey": "k"}, progress=heard.put_nowait)
            )
            async with asyncio.timeout(30):
                told = await heard.get()
            assert [each["decision"] for each in told["tools"]] == [decision], told
            offer.cancel()
            await asyncio.gather(offer, return_exceptions=True)
        assert crib.belt(guest).verdicts["curious"].decision == "allow"  # which the program hands over itself
