"""A call through our MCP server in memory, with gate and record, against the official SDK's own server.

Both are asked by the official client. The floor is the SDK's low-level server with a bare function behind it.
"""

import asyncio

from . import Row

__all__ = ["measure"]

BAR = 1.2


def measure(rounds: int) -> list[Row]:
    """Return the row, measured here and now."""
    from .mcp_servers import taken  # noqa: PLC0415  the SDK takes a second to load, and slows down who is measured later

    floor, ours = asyncio.run(taken(rounds))
    return [Row(what="one call over MCP", ours=ours, against="SDK's server", floor=floor, bar=BAR)]
