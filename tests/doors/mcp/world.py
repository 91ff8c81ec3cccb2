"""What the tests of the MCP server stand on: a plugin with a tool for every thing that can happen, and its crib."""

import base64
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.doors.world import crib_file, plugin_folder

__all__ = ["ARGUMENTS", "PICTURE", "PLUGIN", "crib_in", "manifest", "serving", "surroundings"]

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


@tool(effects=set(), timeout=5)
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

# Arguments for every tool that is served, with which it succeeds; those that fail on purpose are not here.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "edit": {"path": "note.txt", "oldText": "one", "newText": "two"},
    "exec": {"command": "echo from a command"},
    "find": {"pattern": "*.txt"},
    "grep": {"pattern": "o"},
    "loud": {},
    "ls": {},
    "picture": {},
    "process": {"action": "list"},
    "read": {"path": "note.txt"},
    "steps": {},
    "write": {"path": "note.txt", "content": "one\n"},
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
    kept = {name: value for name, value in os.environ.items() if name != "TOOLCRIB_MCP_TOKEN"}
    return {**kept, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "TOOLCRIB_STATE": str(folder / "state")}


def serving(crib: Path, *options: str) -> list[str]:
    """Return the words of `toolcrib mcp serve`."""
    return [sys.executable, "-m", "toolcrib", "mcp", "serve", "--config", str(crib), *options]
