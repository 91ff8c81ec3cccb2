"""The two MCP servers that are measured, and how calls to them are timed. Loading this loads the official SDK."""

import time
from collections.abc import Mapping
from typing import Any

import orjson
from mcp import Client
from mcp.server import Server, ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool

from toolcrib.doors.mcp import BeltServer

from .call import ARGUMENTS, belt_with, forecast

__all__ = ["taken"]

CALLS = 200  # that are timed together

Context = ServerRequestContext[Any, Any]


async def _listed(ctx: Context, params: object) -> ListToolsResult:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    return ListToolsResult(tools=[Tool(name="forecast", description="Tell the weather.", input_schema=schema)])


async def _bare(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    args: Mapping[str, Any] = params.arguments or {}
    return CallToolResult(content=[TextContent(type="text", text=f"{args['city']}:{args['days']}")])


async def taken(rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of a call to the SDK's server and to ours, one figure a round."""
    belt = belt_with(forecast)
    floor = Server[Any]("floor", on_list_tools=_listed, on_call_tool=_bare)
    async with Client(floor) as bare, Client(BeltServer(lambda: belt)) as ours:
        if await _answer(bare) != await _answer(ours):
            raise AssertionError("a call and its floor give different answers")
        pairs = [await _round(bare, ours) for _ in range(rounds)]
    return [least for least, _ in pairs], [least for _, least in pairs]


async def _answer(client: Client) -> object:
    return (await client.call_tool("forecast", orjson.loads(ARGUMENTS))).content


async def _round(*clients: Client) -> list[float]:
    """Return the least disturbed seconds of a call of each client, the clients taking turns."""
    best = [float("inf")] * len(clients)
    for _ in range(7):
        for at, client in enumerate(clients):
            began = time.process_time()
            for _ in range(CALLS):
                await _answer(client)
            best[at] = min(best[at], (time.process_time() - began) / CALLS)
    return best
