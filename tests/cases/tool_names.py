"""gemini-tool-names on define/names.py and, for the tools of MCP servers, define/names.py.

They write `mcp_server_tool`, we write `server__tool`. Of a name that is made valid, what is compared is that it is one
and can still be read; which characters stand in for the others is each its own. Of an entry for a rule, what is
compared is what it means: put on a list, it is about the tools of that server, or of all, and about no others.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcrib.agent.belt import Belts
from toolcrib.config.load import load
from toolcrib.define.caller import Caller
from toolcrib.define.names import ALIASES, canonical, fold_name, mcp_name, nearest, tool_name
from toolcrib.define.tool import Tool
from toolcrib.registry.catalog import Catalog

from .gemini_rules import entry_about
from .load import Case
from .outcome import Same

Json = dict[str, Any]

_READABLE = 20  # characters at the beginning of a name that must not get lost
_SERVER = "mcp"


def _is_name(args: Json) -> Json:
    """Tell whether a rule may hold this, as a name and where globs are allowed."""
    name = args["name"]
    return {"plain": canonical(name) is not None, "withWildcards": canonical(name.replace("*", "x")) is not None}


def _aliases(args: Json) -> list[str]:
    own = canonical(args["name"])
    return [args["name"], *(other for other, name in ALIASES.items() if name == own and other != args["name"])]


def _same_suggestion(case: Case, ours: Any) -> str:
    """Compare who was meant; they name the three nearest however far off, we name those that look like it."""
    theirs = re.findall(r'"([^"]*)"', case.expected)
    strangers = [name for name in ours if name not in theirs]
    return f"they do not suggest {strangers}" if strangers else ""


def _same_name(case: Case, ours: Any) -> str:
    """Compare that both made a valid name in which the beginning of the old one can still be read."""
    if canonical(ours) != ours or not ours.startswith(f"{_SERVER}__"):
        return "ours is no name of a tool of that server"
    for run in re.findall(r"[a-z0-9]+", fold_name(case.args["name"])[:_READABLE]):
        if run in case.expected.lower() and run not in ours:
            return f"{run!r} cannot be read in ours"
    return ""


def _same_meaning(case: Case, ours: Any) -> str:
    """Compare which tools an entry is about, by denying them: of these servers and tools, those that are meant."""
    meant = case.args["server"], case.args.get("tool") or "*"
    servers, tools = ((each if each != "*" else "one", "other") for each in meant)
    offered = {
        tool_name(server, tool): replace(Tool.declared(tool_name(server, tool), tool), source=f"mcp:{server}")
        for server in servers
        for tool in tools
    }
    belt = Belts(Catalog(offered), load({"tools": {"deny": [ours]}}, {}).policy).belt_for(Caller(owner=True))
    wanted = {
        tool_name(server, tool)
        for server in (servers if meant[0] == "*" else meant[:1])
        for tool in (tools if meant[1] == "*" else meant[1:])
    }
    denied = {name for name in offered if name not in belt.tools}
    return "" if denied == wanted else f"it is about {sorted(denied)}"


def _parts(args: Json) -> Json:
    """Return what a name says of the server it came from, if nothing but the name is known."""
    spelled = mcp_name(args["name"], "")
    server, _, tool = (spelled or "").partition("__")
    return {"serverName": server, "toolName": tool} if tool else {}


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.formatMcpToolName": lambda args: entry_about(args["server"], args.get("tool") or "*"),
    "gemini.generateValidName": lambda args: tool_name(_SERVER, args["name"]),
    "gemini.getToolAliases": _aliases,
    "gemini.getToolSuggestion": lambda args: nearest(args["unknown"], args["known"], 3),
    "gemini.isValidToolName": _is_name,
    "gemini.parseMcpToolName": _parts,
}
SAME: dict[str, Same] = {
    "gemini.formatMcpToolName": _same_meaning,
    "gemini.generateValidName": _same_name,
    "gemini.getToolSuggestion": _same_suggestion,
}
