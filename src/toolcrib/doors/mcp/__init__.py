"""The belt of one caller for any MCP client: over stdio, over HTTP on this machine, or within a program.

    server = BeltServer(lambda: crib.belt(caller, profile="coding"))
    async with mcp.Client(server) as client: ...        # in memory
    await serve_stdio(server, 0, 1)                     # the protocol, one message a line
    await serve_http(server, listening(8808), token)    # streamable HTTP on loopback, nothing without the token

It needs the official SDK, the extra `mcp`, which is imported here and nowhere else.
"""

from toolcrib.doors.listener import listen_on

from .http import PATH, BeltApp, serve_http
from .relay import Relay
from .server import BeltServer
from .stdio import claim_stdio, serve_stdio

__all__ = ["PATH", "BeltApp", "BeltServer", "Relay", "claim_stdio", "listen_on", "serve_http", "serve_stdio"]
