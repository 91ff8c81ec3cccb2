"""What the tests of the MCP server stand on: a plugin with a tool for every thing that can happen, and its crib."""

import base64
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.doors.world import crib_file, plugin_folder

__all__ = [
    "ARGUMENTS",
    "HELLO",
    "PICTURE",
    "PLUGIN",
    "REFUSALS",
    "call_of",
    "crib_in",
    "manifest",
    "serving",
    "surroundings",
]

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

PLUGIN = f'''\
import asyncio, base64, os
from toolcrib import Ctx, Plugin, Result, ToolError, tool

ended = asyncio.Event()


@tool(effects=set())
async def steps(ctx: Ctx, count: int = 3) -> str:
    """Go step by step."""
    for at in range(1, count + 1):
        ctx.progress(Result.text(f"step {{at}}", details={{"progress": at, "total": count}}))
    return f"{{count}} steps"


@tool(effects=set())
async def hold(ctx: Ctx) -> str:
    """Wait until somebody stops it."""
    try:
        ctx.progress(Result.text("it holds"))
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)  # a body may need some time to put things in order
        await asyncio.sleep(0)
        ended.set()
    return "never"


@tool(effects=set(), timeout=60)
async def is_over() -> str:
    """Wait until what held was stopped."""
    await ended.wait()
    ended.clear()
    return "it is over"


@tool(effects=set())
async def picture() -> Result:
    """Show a picture."""
    return Result.image(base64.b64decode("{base64.b64encode(PICTURE).decode()}"))


@tool(effects=set())
async def fails() -> str:
    """Fail."""
    raise ToolError("the well is dry; dig another")


@tool(effects={{"read"}})
async def loud() -> str:
    """Print to stdout, in every way there is."""
    print("printed")
    os.write(1, b"written\\n")
    os.system("echo shouted; cat")
    return "said"


plugin = Plugin(name="dice", tools=(steps, hold, is_over, picture, fails, loud))
'''

# Arguments for every tool that is served, with which it succeeds.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "agents_list": {},
    "nodes": {"action": "status"},
    "cron": {"action": "status"},
    "codebase_investigator": {"objective": "where is note.txt"},
    "edit": {"path": "note.txt", "oldText": "one", "newText": "two"},
    "exec": {"command": "echo from a command"},
    "find": {"pattern": "*.txt"},
    "generalist": {"task": "list the files"},
    "gateway": {"action": "status"},
    "grep": {"pattern": "o"},
    "loud": {},
    "ls": {},
    "picture": {},
    "process": {"action": "list"},
    "read": {"path": "note.txt"},
    "sessions_list": {},
    "sessions_spawn": {"task": "list the files"},
    "steps": {},
    "subagents": {"action": "list"},
    "write": {"path": "note.txt", "content": "one\n"},
}

# Those that fail here, and what they say.
REFUSALS: Mapping[str, str] = {
    "fails": "the well is dry; dig another",
    "browser": "browser: action is required",
    "canvas": "canvas: action is required",
    "message": "message: action is required",
    "memory_get": "memory_get: path is required",
    "memory_search": "memory_search: query is required",
    "result_get": "result_get: key is required",
    "sessions_history": "sessions_history: sessionKey is required",
    "sessions_send": "sessions_send: message is required",
    "image": "image: image is required",
    "tts": "tts: text is required",
    "web_search": "web_search: query is required",
    "session_status": "this call belongs to no session; name one by its key",
    "web_fetch": "web_fetch: url is required",
}


def manifest() -> dict[str, Any]:
    """Return what the plugin declares."""
    names = ("steps", "hold", "is_over", "picture", "fails")
    tools = [{"name": name, "description": name, "effects": []} for name in names]
    return {"tools": [*tools, {"name": "loud", "description": "loud", "effects": ["read"]}]}


def crib_in(folder: Path, more: str = "") -> Path:
    """Return the configuration of a crib with the plugin, whose commands run without a question."""
    plugins = plugin_folder(folder / "plugins", PLUGIN, manifest=manifest())
    plain = f"plugins: {{folders: ['{plugins}'], allow: [dice]}}\n"
    return crib_file(folder, plain + (more or "tools: {exec: {security: full}}\n"))


def surroundings(folder: Path) -> dict[str, str]:
    """Return the environment of a server that keeps its state in this folder."""
    paths = os.pathsep.join(path for path in sys.path if path)
    # without anybody's keys: subagents are answered by the offline model
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_TOKEN"))}
    return {**kept, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "TOOLCRIB_STATE": str(folder / "state")}


def serving(crib: Path, *options: str) -> list[str]:
    """Return the words of `toolcrib mcp serve`."""
    return [sys.executable, "-m", "toolcrib", "mcp", "serve", "--config", str(crib), *options]


HELLO: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def call_of(id: int, name: str, token: str | None = None, **args: Any) -> dict[str, Any]:
    """Return a call as it crosses the wire; with a token, its progress is asked for."""
    params = {"name": name, "arguments": args} | ({"_meta": {"progressToken": token}} if token else {})
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
