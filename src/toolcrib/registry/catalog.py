"""Catalog: every tool by name, and the groups derived from what tools say of themselves. A snapshot never changes."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from toolcrib.define.names import mcp_spellings, suggest
from toolcrib.define.tool import Tool
from toolcrib.lazy import dataclass, replace

# The platform tools: every core group but these two, and agents_list, which has no group of its own.
_NOT_PLATFORM = frozenset({"fs", "runtime"})

ALIASED = "aliases"  # of problems

DERIVED_GROUPS = frozenset({"plugins", "mcp", "agents", "openclaw"})
"""Groups that are made of where tools come from: no tool may name one as its own."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something offered that was not taken in, in one sentence."""

    source: str
    sentence: str


class Catalog(Mapping[str, Tool]):
    """Name to Tool, with the groups derived from the tools and what was refused. Immutable; equal only to itself."""

    __slots__ = ("_groups", "_problems", "_tools")

    def __init__(self, tools: Mapping[str, Tool], problems: Iterable[Problem] = ()) -> None:
        self._tools = MappingProxyType(dict(tools))
        self._groups = MappingProxyType(dict(groups_of(self._tools.values())))
        self._problems = tuple(problems)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    @property
    def groups(self) -> Mapping[str, frozenset[str]]:
        return self._groups

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._problems


def name_tools(catalog: Catalog, aliases: Mapping[str, str]) -> Catalog:
    """Return the catalog with other names for its tools; one that means something already is left out and reported."""
    tools, problems = dict(catalog.tools), list[Problem]()
    for other, own in aliases.items():
        if other in catalog.tools or other in catalog.groups:
            problems.append(Problem(ALIASED, f"tools.aliases: {other!r} is a name of its own; it was left out"))
        elif own in tools:
            tools[own] = replace(tools[own], other_names=(*tools[own].other_names, other))
        elif "__" not in own:  # the tool of an MCP server may come later
            what = f"tools.aliases: {other!r} stands for {own!r}, which is no tool{suggest(own, tools)}"
            problems.append(Problem(ALIASED, f"{what}; it was left out"))
    return Catalog(tools, (*catalog.problems, *problems))


def groups_of(tools: Iterable[Tool]) -> Mapping[str, frozenset[str]]:
    """Return group name to tool names: `group:fs` ..., `group:plugins`, `group:mcp`, `group:agents`, plugins' ids."""
    found: dict[str, list[str]] = {"group:plugins": []}
    for tool in tools:
        for group in _groups(tool):
            found.setdefault(group, []).append(tool.name)
    return {name: frozenset(members) for name, members in found.items()}


def _groups(tool: Tool) -> Iterable[str]:
    yield from tool.other_names  # a rule about another name is about the tool
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
        # a rule is about what the tool is, not how we spell it
        yield from mcp_spellings(tool.name, tool.source, tool.own_name)
    elif kind == "agent":
        yield "group:agents"
