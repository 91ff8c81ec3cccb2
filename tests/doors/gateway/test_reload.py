"""The configuration is read again while the gateway runs: whole or not at all, from the next call on."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Caller, Ctx, ToolError, tool

from .world import World, client_of, gateway_of

pytestmark = pytest.mark.anyio
GOOD = {"tools": {"ask": ["poke"]}}


@contextlib.asynccontextmanager
async def gateway_with(path: Path, config: Mapping[str, Any] = GOOD, **given: Any) -> AsyncIterator[World]:
    """Yield a gateway over a file that tests change."""
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    async with gateway_of(path, state=path.parent / "state", **given) as world:
        yield world


def write(path: Path, config: Any) -> None:
    path.write_text(config if isinstance(config, str) else json.dumps(config))


async def test_a_change_of_the_file_counts_from_the_next_call_on(tmp_path: Path) -> None:
    path = tmp_path / "crib.json5"
    async with gateway_with(path, {}) as world, client_of(world) as client:
        assert (await client.get("tools.explain", {"tool": "exec"}))["decision"] != "deny"
        write(path, {"tools": {"deny": ["exec"]}})
        assert (await client.wait_for("config"))["ok"]
        assert (await client.get("tools.explain", {"tool": "exec"}))["decision"] == "deny"


@pytest.mark.parametrize(
    "bad", ['{"gateway":', "null", '{"tools": {"dney": []}}', '{"plugins": {"x": {"enabled": true}}}']
)
async def test_a_file_that_cannot_be_used_changes_nothing_and_is_told(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "crib.json5"
    async with gateway_with(path, {"tools": {"deny": ["exec"]}}) as world, client_of(world) as client:
        before = world.server.crib.loaded
        write(path, bad)
        told = await client.wait_for("config")
        assert not told["ok"]
        assert told["error"]
        assert world.server.crib.loaded is before
        shown = await client.get("config.get")
        assert (shown["valid"], shown["config"]) == (False, {"tools": {"deny": ["exec"]}})
        assert path.read_text() == bad


async def test_what_is_taken_away_is_gone_from_turns_that_run(tmp_path: Path) -> None:
    path, world_of = tmp_path / "crib.json5", list[World]()

    @tool
    async def tighten(ctx: Ctx) -> str:
        """Deny the other one."""
        write(path, {"tools": {"deny": ["poke"]}})
        world_of[0].server.reload()
        return "done"

    @tool
    def poke() -> str:
        """Poke."""
        return "poked"

    async with gateway_with(path, {}, tools=[tighten, poke]) as world:
        world_of.append(world)
        belt = world.server.crib.belt(toolcrib.OWNER)
        assert (await belt.call("poke")).status == "ok"
        await belt.call("tighten")
        refused = await belt.call("poke")
        assert (refused.status, refused.details["code"]) == ("error", "denied")
        write(path, {})
        world.server.reload()
        assert (await belt.call("poke")).status == "ok"


async def test_a_waiting_question_is_judged_anew(tmp_path: Path) -> None:
    path, ran = tmp_path / "crib.json5", list[str]()

    @tool
    def poke() -> str:
        """Poke."""
        ran.append("poke")
        return "poked"

    async with gateway_with(path, tools=[poke]) as world, client_of(world) as client:
        call = asyncio.ensure_future(world.server.crib.belt(toolcrib.OWNER).call("poke"))
        asked = await client.wait_for("exec.approval.requested")
        write(path, {"tools": {"deny": ["poke"]}})
        world.server.reload()
        await client.get("exec.approval.resolve", {"id": asked["id"], "decision": "allow-once"})
        assert (await call).details["code"] == "denied"
        assert ran == []


async def test_another_secret_turns_out_who_showed_the_old_one(tmp_path: Path) -> None:
    path, new = tmp_path / "crib.json5", "another-long-token-0123456789"
    async with gateway_with(path, {}) as world, client_of(world) as client:
        write(path, {"gateway": {"auth": {"mode": "token", "token": new}}})
        world.server.reload()
        await client.socket.wait_closed()
        async with client_of(world, new) as again:
            assert new not in json.dumps(await again.get("config.get"))


async def test_the_owner_patches_the_file_and_it_counts(tmp_path: Path) -> None:
    path = tmp_path / "crib.json5"
    async with gateway_with(path) as world, client_of(world) as client:
        base = (await client.get("config.get"))["hash"]
        done = await client.get("config.patch", {"raw": '{tools: {deny: ["exec"], ask: null}}', "baseHash": base})
        assert (done["changed"], done["restart"]) == (["tools.ask", "tools.deny"], [])
        assert json.loads(path.read_text()) == {"tools": {"deny": ["exec"]}}
        assert (path.stat().st_mode & 0o777, path.with_name("crib.json5.bak").read_text()) == (0o600, json.dumps(GOOD))
        assert (await client.get("tools.explain", {"tool": "exec"}))["decision"] == "deny"
        for raw, held, said in (
            ("{}", base, "as it is now"),
            ("{}", "", "is missing"),
            ("{tools: {dney: []}}", done["hash"], "dney"),
            ('{gateway: {auth: {token: "…"}}}', done["hash"], "a secret that was left out"),
            ("{", done["hash"], "raw"),
        ):
            code, sentence = await client.refusal("config.patch", {"raw": raw, "baseHash": held})
            assert code == "INVALID_REQUEST"
            assert said in sentence
            assert json.loads(path.read_text()) == {"tools": {"deny": ["exec"]}}
        assert sorted(each.name for each in tmp_path.glob("*crib*")) == ["crib.json5", "crib.json5.bak"]


WIDER: tuple[Any, ...] = (
    {"tools": {"deny": []}},
    {"tools": {"deny": None}},
    {"tools": {"exec": {"ask": "off"}}},
    {"tools": {"deny": ["write"]}},
    {"tools": {"exec": {"examples": {"ask": ["rm x"]}}}},
    {"channels": {"telegram": {"groups": {"1": {"tools": {"deny": ["exec"]}}}}}},
    {"owners": ["id:7"]},
    {"mcpServers": {"x": {"command": "sh"}}},
)


@pytest.mark.parametrize("patch", WIDER, ids=json.dumps)
async def test_a_model_changes_nothing_that_may_give_somebody_more(tmp_path: Path, patch: Any) -> None:
    path = tmp_path / "crib.json5"
    async with gateway_with(path, {"tools": {"deny": ["exec"]}}) as world:
        belt, before = world.server.crib.belt(toolcrib.OWNER), path.read_bytes()
        base = json.loads((await belt.call("gateway", {"action": "config.get"})).plain_text)["hash"]
        refused = await belt.call("gateway", {"action": "config.patch", "raw": json.dumps(patch), "baseHash": base})
        assert (refused.status, path.read_bytes()) == ("error", before)
        assert "person" in refused.details["error"]


async def test_a_model_cannot_take_back_what_waits_for_a_start(tmp_path: Path) -> None:
    path = tmp_path / "crib.json5"
    async with gateway_with(path, {}) as world:
        belt = world.server.crib.belt(toolcrib.OWNER)
        write(path, {"tools": {"deny": ["exec"]}, "workspace": {"root": str(tmp_path)}})
        base = json.loads((await belt.call("gateway", {"action": "config.get"})).plain_text)["hash"]
        patch = {"action": "config.patch", "raw": '{"tools": null, "workspace": null}', "baseHash": base}
        assert "person" in (await belt.call("gateway", patch)).details["error"]


async def test_a_model_may_take_rights_away(tmp_path: Path) -> None:
    path = tmp_path / "crib.json5"
    async with gateway_with(path, {}) as world:
        belt = world.server.crib.belt(toolcrib.OWNER)
        base = json.loads((await belt.call("gateway", {"action": "config.get"})).plain_text)["hash"]
        patch = {"action": "config.patch", "raw": '{"tools": {"deny": ["write"]}}', "baseHash": base}
        assert (await belt.call("gateway", patch)).status == "ok"
        assert (await belt.call("write", {"path": "x", "content": "y"})).details["code"] == "denied"


async def test_a_guest_sees_and_changes_no_configuration(tmp_path: Path) -> None:
    async with gateway_with(tmp_path / "crib.json5") as world:
        crib = world.server.crib
        for method in ("config.get", "config.schema", "gateway.restart"):
            with pytest.raises(ToolError, match="only the owner"):
                await crib.ask(method, caller=Caller(channel="telegram"))


async def test_agents_reach_one_another_once_that_is_configured(tmp_path: Path) -> None:
    path, other = tmp_path / "crib.json5", "agent:kid:main"
    async with gateway_with(path, {"agents": {"kid": {}}}) as world, client_of(world) as client:
        params = {"message": "hello", "idempotencyKey": "one", "sessionKey": other}
        await client.get("agent", params)
        asker = Caller(owner=True, session="agent:main:main")
        said = {"message": "list the files", "key": other}
        with pytest.raises(ToolError, match="agentToAgent"):
            await world.server.crib.ask("sessions.send", said, caller=asker)
        write(path, {"agents": {"kid": {}}, "tools": {"agentToAgent": {"enabled": True, "allow": ["main", "k*"]}}})
        world.server.reload()
        assert (await world.server.crib.ask("sessions.send", said, caller=asker))["status"] == "ok"


async def test_a_file_that_is_not_in_force_is_told_to_the_owner_where_they_look(tmp_path: Path) -> None:
    path = tmp_path / "crib.json5"
    async with gateway_with(path, {}) as world, client_of(world) as client:
        assert "notInForce" not in await client.get("status")
        write(path, {"workspace": {"root": str(tmp_path)}})
        await client.wait_for("config", ok=False)
        assert "workspace changed, which counts from a start on" in (await client.get("status"))["notInForce"]
        write(path, {})
        await client.wait_for("config", ok=True)
        assert "notInForce" not in await client.get("status")
