"""Groups: `group:*` and plugin ids, derived from what the tools say about themselves."""

from collections.abc import Iterable, Mapping

from toolcrib.define.names import mcp_name
from toolcrib.define.tool import Tool

# The platform tools: every core group but these two, and agents_list, which has no group of its own.
_NOT_PLATFORM = frozenset({"fs", "runtime"})


def groups_of(tools: Iterable[Tool]) -> Mapping[str, frozenset[str]]:
    """Return group name to tool names: `group:fs` ..., `group:plugins`, `group:mcp`, `group:agents`, plugins' ids."""
    found: dict[str, list[str]] = {"group:plugins": []}
    for tool in tools:
        for group in _groups(tool):
            found.setdefault(group, []).append(tool.name)
    return {name: frozenset(members) for name, members in found.items()}


def _groups(tool: Tool) -> Iterable[str]:
    if tool.group is not None:
        yield f"group:{tool.group}"
    kind, _, owner = tool.source.partition(":")
    if kind == "core" and tool.group not in _NOT_PLATFORM:
        yield "group:openclaw"
    elif kind == "plugin":
        yield "group:plugins"
        yield owner
    elif kind == "mcp":
        yield "group:mcp"
        # how its server calls it, where the name holds a digest: a rule is about what the tool is, not how we spell it
        if (spoken := mcp_name(tool.name, tool.source)) and spoken != tool.name:
            yield spoken
    elif kind == "agent":
        yield "group:agents"
