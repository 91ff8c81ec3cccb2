"""The official MCP client at the gateway: each credential has the belt of its own caller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")
pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from .world import TOKEN, World, client_of, device, gateway_of

pytestmark = pytest.mark.anyio

GUEST = "dt-1111-dt-1111-dt"


@asynccontextmanager
async def mcp_to(world: World, token: str) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{world.port}/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def test_each_credential_is_served_the_belt_of_its_own_caller(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one\n")
    config = {
        "workspace": {"root": str(tmp_path)},
        "channels": {"device": {"direct": {"tools": {"deny": ["exec", "write"]}}}},
    }
    async with gateway_of(config, devices=[device("phone", GUEST, "operator.write")]) as world:
        async with mcp_to(world, TOKEN) as owner, mcp_to(world, GUEST) as guest:
            assert {"read", "exec", "write"} <= await names(owner)
            assert {"exec", "write"}.isdisjoint(await names(guest))
            answer = await owner.call_tool("read", {"path": "note.txt"})
            assert "one" in str(answer.content)
            refused = await guest.call_tool("write", {"path": "x.txt", "content": "x"})
            assert refused.is_error
        assert not (tmp_path / "x.txt").exists()


async def test_who_may_only_read_sees_the_tools_and_calls_none() -> None:
    screen = device("screen", GUEST, "operator.read")
    async with gateway_of(devices=[screen]) as world, mcp_to(world, GUEST) as guest:
        assert "session_status" in await names(guest)
        refused = await guest.call_tool("session_status", {})
        assert (refused.is_error, "missing scope: operator.write" in str(refused.content)) == (True, True)


async def test_a_session_is_of_no_use_to_another_and_ends_with_its_credential() -> None:
    async with gateway_of(devices=[device("phone", GUEST, "operator.write")]) as world:
        url = f"http://127.0.0.1:{world.port}/mcp"
        about = {"capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        params = {"protocolVersion": "2025-06-18", **about}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        async with httpx2.AsyncClient(timeout=60, headers={"accept": "application/json, text/event-stream"}) as http:
            began = await http.post(url, json=hello, headers={"authorization": f"Bearer {TOKEN}"})
            session = {"mcp-session-id": began.headers["mcp-session-id"]}
            ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            stolen = await http.post(url, json=ask, headers={"authorization": f"Bearer {GUEST}", **session})
            assert stolen.status_code == 404
            assert (await http.post(url, json=hello)).status_code == 401
            own = await http.post(url, json=hello, headers={"authorization": f"Bearer {GUEST}"})
            assert own.status_code == 200
            async with client_of(world) as owner:
                await owner.get("device.token.revoke", {"deviceId": "phone"})
            gone = await http.post(url, json=hello, headers={"authorization": f"Bearer {GUEST}"})
            assert gone.status_code == 401
