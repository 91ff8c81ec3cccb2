"""Calls that come in over a real gateway: of a program over WebSocket or HTTP, of an MCP client, of a hook's agent."""

import asyncio
import json
import tempfile
from collections.abc import Mapping
from typing import Any

import httpx2

from tests.backends.models.servers import Say, serving
from tests.doors.gateway.test_http_mcp import mcp_to
from tests.doors.gateway.world import TOKEN, Client, World, client_of, gateway_of
from tests.doors.talking import in_turn
from toolcrib import OWNER
from toolcrib.define.record import Decided, Started

Json = dict[str, Any]

WAYS = frozenset({"client_tool", "hook_agent", "http_invoke", "mcp_loopback"})
_HOOKS = {"enabled": True, "token": "hook-token-hook-token"}


def come_in(config: Json, via: str, name: str, args: Any, count: int) -> tuple[list[Any], list[str]]:
    """Make calls through a gateway with this configuration; return its record, and what was told."""
    return asyncio.run(_come_in(config, via, name, args, count))


async def _come_in(config: Json, via: str, name: str, args: Any, count: int) -> tuple[list[Any], list[str]]:
    calls = tuple((f"call_{at}", name, json.dumps(args)) for at in range(count))
    with tempfile.TemporaryDirectory() as folder:
        async with serving(in_turn(Say(calls=calls), Say(text="done"))) as model:
            models = {"default": "small:one", "small": {"baseUrl": model.base_url}}
            own = {**config, "models": models, "hooks": _HOOKS, "workspace": {"root": folder}}
            # a hook has little until a rule names it; with this one it has what all the others leave
            own["channels"] = {**config.get("channels", {}), "hook": {"direct": {"tools": {"allow": ["*"]}}}}
            async with gateway_of(own) as world:
                record: Any = world.server.crib.belt(OWNER).pipeline.record
                if via == "hook_agent":
                    async with client_of(world) as owner:
                        messages = await _wake(world, owner)
                    told = [str(each) for each in messages if each["role"] == "toolResult"]
                else:
                    told = await asyncio.gather(*(_ASK[via](world, name, args) for _ in range(count)))
                return [each for each in record.entries if isinstance(each, Decided | Started)], list(told)


async def _invoke(world: World, name: str, args: Any) -> str:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{world.port}", headers=headers, timeout=60) as client:
        return (await client.post("/tools/invoke", json={"tool": name, "args": args})).text


async def _offer_and_call(world: World, name: str, args: Any) -> str:
    """Offer a tool of that name, where it is free, and have it called; else call what is there."""
    async with client_of(world) as client, client_of(world) as caller:
        offered = await client.ask("tools.offer", {"tools": [{"name": name}], "idempotencyKey": str(id(client))})
        asked = asyncio.ensure_future(caller.ask("tools.call", {"tool": name, "args": args}))
        if offered["ok"] and offered["payload"]["tools"][0]["decision"] == "allow":
            call = await client.wait_for("tool.call")
            await client.get("tools.answer", {"callId": call["callId"], "result": "done"})
        return str(await asked)


async def _call_over_mcp(world: World, name: str, args: Any) -> str:
    async with mcp_to(world, TOKEN) as client:
        return str(await client.call_tool(name, args))


async def wake(name: str) -> str:
    """Post to a hook of a gateway; return what its agent is told."""
    async with gateway_of({"hooks": _HOOKS}) as world, client_of(world) as owner:
        messages = await _wake(world, owner, name)
        return str(messages[0]["content"][0]["text"])


async def _wake(world: World, owner: Client, name: str = "mail") -> list[Json]:
    """Post to a hook, and wait until its agent is done; return its session."""
    headers: Mapping[str, str] = {"authorization": f"Bearer {_HOOKS['token']}"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{world.port}", headers=headers, timeout=60) as hook:
        run = (await hook.post(f"/hooks/{name}", content=b"look at this")).json()
    await owner.wait_for("chat", runId=run["runId"], state="final")
    return list((await owner.get("chat.history", {"sessionKey": run["sessionKey"]}))["messages"])


_ASK = {"client_tool": _offer_and_call, "http_invoke": _invoke, "mcp_loopback": _call_over_mcp}
