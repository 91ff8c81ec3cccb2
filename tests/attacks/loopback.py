"""Calls that come in over the MCP server: made by the official client, in memory, on a belt as it is."""

import asyncio
import logging
from collections.abc import Sequence

from mcp import Client, MCPError

from toolcrib.adapter.mcp import read_result
from toolcrib.app import Belt
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.doors.mcp import BeltServer

__all__ = ["made"]


async def made(belt: Belt, calls: Sequence[Call]) -> list[Result]:
    """Make the calls side by side; return what the client was told."""
    logging.getLogger("client").addHandler(logging.NullHandler())  # it wonders aloud about names that are not listed
    async with Client(BeltServer(lambda: belt), mode="legacy") as client:
        return await asyncio.gather(*(_made(client, call) for call in calls))


async def _made(client: Client, call: Call) -> Result:
    try:
        # `args` is as wild as an attack has it; what is no object is for the server to refuse
        told = await client.call_tool(call.name, call.args)  # type: ignore[arg-type]  # anything a wire can carry
    except (MCPError, ValueError) as error:
        return Result.text(str(error), details={"code": "protocol"})
    return read_result(told.model_dump(by_alias=True, exclude_none=True), "loopback")
