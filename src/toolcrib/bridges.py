"""The belt inside other people's programs: clients of providers, pydantic-ai, and MCP.

    from toolcrib.bridges import openai as bridge      # or anthropic, or genai

    reply = await client.chat.completions.create(model=..., messages=messages, tools=bridge.tools(belt))
    messages += [reply.choices[0].message, *await bridge.answers(belt, reply)]

Each is an extra of its own name (`toolcrib[openai]`, `[pydantic-ai]`, `[mcp]`), imported when it is first used.
"""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .doors.bridges import anthropic, genai, openai
    from .doors.bridges.pydantic_ai import CribToolset
    from .doors.mcp import BeltServer, Relay, serve_http, serve_stdio

_HOMES = {
    "doors.bridges": "anthropic genai openai",
    "doors.bridges.pydantic_ai": "CribToolset",
    "doors.mcp": "BeltServer Relay serve_http serve_stdio",
}

__all__ = [
    "BeltServer", "CribToolset", "Relay", "anthropic", "genai", "openai", "serve_http", "serve_stdio",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
