"""A guest to whom everything is denied goes through every method, tool, route and chat command of a real gateway.

A new one is no surprise: without an answer here the test fails.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.backends.mcp.world import liar
from tests.doors.gateway.test_devices import Phone, asked_from_afar, phone_at
from tests.doors.gateway.world import TOKEN, Client, World, client_of, device, gateway_of
from tests.joints.asking_world import person_world
from tests.joints.test_rights_of_methods import WORK

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

GUEST = "dt-1111-dt-1111-dt"
# what is asked of a method that is no tool's work, where it needs more than nothing
PARAMS: dict[str, dict[str, Any]] = {
    "agent.wait": {"runId": "x"},
    "approvals.grants": {},
    "calls.complete": {"handle": "x", "content": "x"},
    "node.describe": {"nodeId": "laptop"},
    "node.invoke": {"nodeId": "laptop", "command": "system.run", "idempotencyKey": "1"},
    "tools.call": {"tool": "read", "args": {"path": "note.txt"}},
    "tools.explain": {"tool": "exec"},
    "chat.abort": {"sessionKey": "agent:main:main"},
    "chat.follow": {"sessionKey": "agent:main:main"},
    "chat.history": {"sessionKey": "agent:main:main"},
    "sessions.history": {"key": "agent:main:main"},
    "sessions.preview": {"keys": ["agent:main:main"]},
    "sessions.status": {"key": "agent:main:main"},
    "agent": {"message": "hi", "idempotencyKey": "a", "sessionKey": "agent:main:main"},
    "chat.send": {"message": "hi", "idempotencyKey": "b", "sessionKey": "agent:main:main"},
    "chat.complete": {"content": [{"type": "text", "text": "hi"}], "sessionKey": "agent:main:main"},
    "hooks.run": {"name": "x", "text": "hi"},
}
MORE: list[tuple[str, dict[str, Any]]] = [
    ("agent.identity.get", {"agentId": "second"}),
    ("agent.identity.get", {"sessionKey": "agent:second:main"}),
    ("cron.status", {}),
    ("sessions.list", {"includeLastMessage": True, "includeDerivedTitles": True, "includeGlobal": True}),
    ("tools.explain", {"tool": "read", "args": {"path": "note.txt"}}),
]
# by path: how it is asked, and the answers that a guest may get; 404 is that nothing is told
ROUTES: dict[str, tuple[str, set[int]]] = {
    "/health": ("GET", {200}),
    "/ready": ("GET", {200}),
    "/metrics": ("GET", {200}),
    "/tools/invoke": ("POST", {400, 404}),
    "/v1/models": ("GET", {200}),
    "/v1/chat/completions": ("POST", {400}),
    "/v1/responses": ("POST", {400}),
    "/page/login": ("POST", {403}),
    "/page/logout": ("POST", {403}),
    "/hooks/": ("POST", {401, 404}),
    "/channels/": ("POST", {404}),
}
COMMANDS = {
    "/status": "messages",
    "/stop": "",
    "/new": "",
    "/why exec": "exec",
    "/approve ID": "no question",
    "/deny ID": "no question",
    "/help": "/status",
}


@asynccontextmanager
async def guest_in(folder: Path) -> AsyncIterator[tuple[World, Client, Client]]:
    """Yield a gateway with secrets of the owner's, the owner, and a guest with nothing but `operator.write`."""
    work = folder / "hidden-work"
    work.mkdir()
    (work / "note.txt").write_text("kept-words\n")
    config = {
        "workspace": {"root": str(work)},
        "models": {"default": "offline:rules"},
        "agents": {"hidden-agent": {"model": "ollama:hidden-model"}, "second": {"name": "hidden-name"}},
        "channels": {"webhook": {"url": "http://127.0.0.1:1/hidden-hook", "secret": "s" * 32}},
        "tools": {"deny": ["*"]},
    }
    guest = device("p", GUEST, "operator.write")
    async with gateway_of(config, state=folder / "hidden-state", devices=[guest]) as world, client_of(world) as owner:
        code, laptop = (await owner.get("node.pair.code"))["code"], Phone()
        about: dict[str, Any] = {"role": "node", "caps": ["canvas"], "commands": ["system.run"]}
        async with phone_at(world, laptop, code, **about), client_of(world, GUEST) as client:
            await owner.get("chat.send", {"message": "kept-words", "idempotencyKey": "mine"})
            await owner.wait_for("chat", state="final", runId="mine")
            yield world, owner, client


def check_untold(told: Any, where: str) -> None:
    """Fail where something of the owner's, a path or an address is told."""
    text = json.dumps(told) if not isinstance(told, str) else told
    assert [word for word in ("hidden-", "kept-words", "127.0.0.1", "remoteIp") if word in text] == [], where


async def test_every_method_refuses_or_tells_nothing_of_the_owners(tmp_path: Path) -> None:
    async with guest_in(tmp_path) as (world, owner, guest):
        assert (await owner.get("node.list"))["nodes"]
        for name, method in sorted(world.server.methods.items()):
            params = WORK[name][0] if name in WORK else PARAMS.get(name, {})
            answer = await guest.ask(name, params)
            if method.mark.clients not in ("read", "write") or name in WORK:
                assert not answer["ok"], name
            else:
                assert method.mark.why, name
            if name != "rpc.discover":  # the descriptions of the methods, the same for everybody
                check_untold(answer, name)
        for name, params in MORE:
            check_untold(await guest.ask(name, params), name)


CHANNELS: dict[str, Any] = {"webhook": {"url": "http://127.0.0.1:1/x", "secret": "s" * 32}}
CHANNELS["irc"] = {"host": "127.0.0.1", "port": 1, "nick": "crib"}
SERVERS = {"kitchen": liar("honest"), "cellar": liar("honest")}
SAID = {"target": "7", "message": "hi"}


async def test_lists_tell_a_guest_what_it_may_use_and_nothing_else(tmp_path: Path) -> None:
    rules = {"tools": {"allow": ["kitchen__*", "message", "nodes"]}}
    place = {"root": str(tmp_path / "work")}
    config = {"workspace": place, "mcpServers": SERVERS, "channels": {**CHANNELS, "device": {"direct": rules}}}
    guest = device("p", GUEST, "operator.write")
    async with gateway_of(config, state=tmp_path / "s", devices=[guest]) as world, client_of(world, GUEST) as client:
        await world.server.crib.mcp.ready(60.0)
        (row,) = await client.get("mcp.status")
        assert (row["server"], [each["name"] for each in row["tools"]]) == ("kitchen", ["kitchen__echo"])
        assert not row["about"] + row["said"]
        for channel in ({}, {"channel": "slack"}):
            told = await client.get("tools.call", {"tool": "message", "args": {"action": "send", **SAID, **channel}})
            assert told["status"] == "error"
            assert not [name for name in CHANNELS if name in json.dumps(told["content"])], told["content"]
        await asked_from_afar(world, Phone(), role="node")
        told = await client.get("tools.call", {"tool": "nodes", "args": {"action": "pending"}})
        assert ("requestId" in told["content"][0]["text"], "remoteIp" in told["content"][0]["text"]) == (True, False)


async def test_every_tool_is_denied(tmp_path: Path) -> None:
    async with guest_in(tmp_path) as (world, _, guest):
        names = sorted(world.server.crib.catalog.tools)
        assert {"exec", "read", "message", "image"} <= set(names)
        for name in names:
            told = await guest.get("tools.call", {"tool": name, "args": {}})
            assert (told["status"], told["verdict"]["decision"]) == ("error", "deny"), name
            check_untold(told, name)


async def test_every_route_refuses_or_tells_nothing_of_the_owners(tmp_path: Path) -> None:
    async with guest_in(tmp_path) as (world, _, _guest):
        files = {path for path in world.server.http.routes if path == "/" or "." in path or path.startswith("/views")}
        assert {*world.server.http.routes} - files == {*ROUTES}
        headers = {"authorization": f"Bearer {GUEST}"}
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{world.port}", headers=headers) as http:
            for path, (method, statuses) in ROUTES.items():
                answer = await http.request(method, path, json={} if method == "POST" else None)
                assert answer.status_code in statuses, (path, answer.text)
                check_untold(answer.text, path)
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
            answer = await http.post("/mcp", json=asked, headers={"accept": "application/json, text/event-stream"})
            check_untold(answer.text, "/mcp")
        nobody = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{world.port}")
        async with nobody:
            for path in {*ROUTES} - {"/health", "/ready"}:
                answer = await nobody.request(ROUTES[path][0], path)
                assert answer.status_code in (401, 403, 404), path
        assert TOKEN not in answer.text


async def test_every_chat_command_refuses_or_tells_nothing_of_the_owners(tmp_path: Path) -> None:
    config = {"tools": {"deny": ["*"]}, "box": {"dmPolicy": "open", "allowFrom": ["*"]}}
    async with person_world(tmp_path, config=config) as world:
        for command, answer in COMMANDS.items():
            count = len(world.box.posts)
            world.box.put("mallory", command)
            async with asyncio.timeout(30):
                while len(world.box.posts) == count:
                    await asyncio.sleep(0.01)
            told = world.box.posts[-1].text
            assert answer in told, (command, told)
            assert str(tmp_path) not in told
        listed = world.box.posts[-1].text
    said = {word.rstrip(",") for word in listed.split() if word.startswith("/")}
    assert said <= {each.split()[0] for each in COMMANDS}, "a chat command without an answer here"
