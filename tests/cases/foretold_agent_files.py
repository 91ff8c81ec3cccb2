"""What a file of an agent declares by our rules, told in a few lines: for differences/*.toml."""

import re
from typing import Any

from toolcrib.config.parse_yaml import parse_yaml
from toolcrib.define.errors import ConfigError
from toolcrib.tools import SHELF

__all__ = ["body", "defined", "header", "unknown_tools"]

Json = dict[str, Any]

_FILE = re.compile(r"---[ \t]*\r?\n(.*?\n)?---[ \t]*(?:\r?\n(.*))?$", re.DOTALL)
_NAMES = frozenset(tool.name for tool in SHELF)


def header(args: Json) -> Json:
    """Return the keys of a file; ValueError where it has none."""
    found = _FILE.match(args["text"])
    try:
        value = parse_yaml((found[1] or "").replace("\r\n", "\n"), "agent.md")[0] if found else None
    except ConfigError as error:
        raise ValueError("no YAML") from error
    if not isinstance(value, dict):
        raise ValueError("no header")
    return value


def body(args: Json) -> str:
    """Return the prompt in a file."""
    found = _FILE.match(args["text"])
    if found is None:
        raise ValueError("no header")
    return (found[2] or "").replace("\r\n", "\n").strip()


def unknown_tools(args: Json) -> list[str]:
    """Return the entries of `tools` that name no tool of our shelf; a pattern or a group is no name."""
    return [
        each
        for each in header(args)["tools"]
        if isinstance(each, str) and each not in _NAMES and "*" not in each and ":" not in each
    ]


def defined(args: Json) -> Json:
    """Return the agent of a file that is as it should be."""
    said = header(args)
    agent: Json = {
        "name": said["name"],
        "description": said["description"],
        "systemPrompt": body(args),
        "query": "${query}",
        "model": said.get("model", "inherit"),
        "maxTurns": said.get("max_turns", 30),
        "maxTimeMinutes": said.get("timeout_mins", 10),
        "inputs": {"query": {"type": "string", "description": "The task for the agent."}},
        **({"displayName": said["display_name"]} if "display_name" in said else {}),
        **({"tools": said["tools"]} if "tools" in said else {}),
    }
    return {"ok": True, "definitions": [agent]}
