"""Six sources into one catalog: shelf, plugins, channels, connected clients, MCP servers, agents.

The first keeps a name. A later tool of the same name, a plugin called like a core tool or a group, a tool of
a plugin that names a core group, and a factory that raises are left out and reported: nothing is taken in silently and
nothing takes the others down.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any

from toolcrib.define.agent import Agent
from toolcrib.define.caller import Caller
from toolcrib.define.channel import ChannelKind
from toolcrib.define.errors import DeclarationError
from toolcrib.define.names import ALIASES, fold_name, is_name
from toolcrib.define.plugin import Factory, Guard, Hook, Observer, takes_caller
from toolcrib.define.tool import PROGRAM, Tool
from toolcrib.lazy import dataclass, field, replace

from .catalog import DERIVED_GROUPS, Catalog, Problem

_MAIN = Caller(owner=True, agent="main", session="agent:main:main")  # who has what is there, where nothing says it

_Made = dict[tuple[Tool | Factory, Caller], tuple[tuple[Tool, ...], list[Problem]]]

# In this order: a core tool can never be displaced by anything that is installed or connected.
_KINDS = ("core", "plugin", "channel", "client", "mcp", "agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one source brings: `source` is core, plugin:x, channel:x, client:x, mcp:x or agent."""

    source: str
    tools: tuple[Tool | Factory, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    per_caller: tuple[Tool, ...] = ()  # what factories that take a caller make, where that is written down
    before: tuple[Hook | Guard, ...] = ()
    after: tuple[Observer, ...] = ()
    hooks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    agents: tuple[Agent, ...] = ()
    channels: Mapping[str, ChannelKind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind, colon, owner = self.source.partition(":")
        if kind not in _KINDS or (kind in ("core", "agent")) == bool(colon and owner):
            raise DeclarationError(f"no source is called {self.source!r}; write core, plugin:NAME, channel:NAME ...")


def collect_catalog(offers: Iterable[Offer], problems: Iterable[Problem] = ()) -> Catalog:
    """Return one catalog of everything offered; `problems` found earlier are kept with the new ones."""
    ordered = sorted(offers, key=lambda offer: _KINDS.index(offer.source.partition(":")[0]))
    tools: dict[str, Tool] = {}
    found = list(problems)
    for offer in ordered:
        refusal = _refuse_owner(offer.source, tools)
        if refusal:
            found.append(Problem(offer.source, refusal))
            continue
        for tool in _make_tools(offer, found):
            if _joins_core(tool, tools):
                sentence = (
                    f"{offer.source}: {tool.name!r} names the core group {tool.group!r} as its own; it was left out"
                )
                found.append(Problem(offer.source, sentence))
                continue
            first = tools.setdefault(tool.name, tool)
            if first is not tool:
                sentence = f"{offer.source} offers a tool {tool.name!r}, which {first.source} has; it was left out"
                found.append(Problem(offer.source, sentence))
    return Catalog(tools, found)


def rename_tools(offer: Offer, names: Mapping[str, str], prefix: str) -> Offer:
    """Return an offer whose tools have the names that the configuration gives them, also where it speaks of them.

    Its guards are about the new name and the old one: none of them may come to miss its tool.
    """

    def rename(name: str) -> str:
        return names.get(name) or f"{prefix}{name}"

    def renamed(item: Tool | Factory) -> Tool | Factory:
        if isinstance(item, Tool):
            return replace(item, name=rename(item.name))

        @wraps(item)
        def factory(*given: Any) -> tuple[Any, ...]:
            made: Any = item(*given)
            tools = () if made is None else (made,) if isinstance(made, Tool) else tuple(made)
            return tuple(renamed(each) if isinstance(each, Tool) else each for each in tools)

        return factory

    own = {*names, *(each.name for each in (*offer.tools, *offer.per_caller) if isinstance(each, Tool))}
    guards = tuple(
        replace(each, tools=each.tools.union(map(rename, each.tools))) if isinstance(each, Hook) else each
        for each in offer.before
    )
    agents = tuple(
        each if each.tools is None else replace(each, tools=tuple(rename(at) if at in own else at for at in each.tools))
        for each in offer.agents
    )
    made = tuple(replace(each, name=rename(each.name)) for each in offer.per_caller)
    return replace(offer, tools=tuple(map(renamed, offer.tools)), per_caller=made, before=guards, agents=agents)


def _refuse_owner(source: str, tools: Mapping[str, Tool]) -> str | None:
    """Say why a whole source is refused: its id stands in rules beside tool names, so it must not mean one."""
    kind, _, owner = source.partition(":")
    if kind != "plugin":
        return None
    if not is_name(owner):
        meant = fold_name(owner)
        hint = f"; write {meant!r}" if is_name(meant) else ""
        return f"plugin {owner!r}: an id is 1 to 64 of a-z, 0-9, _ and -{hint}; it was left out"
    core = [tool for tool in tools.values() if tool.source == "core"]
    if owner in ALIASES or any(tool.name == owner for tool in core):
        return f"plugin {owner!r} is called like a core tool; it was left out"
    if owner == "plugins" or any(tool.group == owner for tool in core):
        return f"plugin {owner!r} is called like a group of core tools; it was left out"
    return None


def _joins_core(tool: Tool, tools: Mapping[str, Tool]) -> bool:
    """Tell whether a foreign tool claims a group that rules and profiles know as ours.

    Taking only the group away would be no answer: a rule that denies the group would miss the tool.
    """
    group = fold_name(tool.group or "")
    if not group or tool.source.startswith(("core", "channel:", "agent")) or tool.source == PROGRAM:
        return group in DERIVED_GROUPS
    return group in DERIVED_GROUPS or any(each.source == "core" and each.group == group for each in tools.values())


def _make_tools(offer: Offer, problems: list[Problem]) -> Iterable[Tool]:
    """Yield the offer's tools, factories called, each marked with its source."""
    asked = tuple(item for item in offer.tools if takes_caller(item))
    found = [tool for item in offer.tools if item not in asked for tool in _call_factory(item, offer, problems)]
    yield from (tool if tool.source == offer.source else replace(tool, source=offer.source) for tool in found)
    if not asked:
        return
    known = offer.per_caller or [tool for item in asked for tool in _call_factory(item, offer, problems, _MAIN)]
    if not known and all(each.source != offer.source for each in problems):
        sentence = "a factory makes nothing for the owner, and no manifest says what for others; it was left out"
        problems.append(Problem(offer.source, f"{offer.source}: {sentence}"))
    for tool in known:
        if tool.name not in [each.name for each in found]:
            judged = replace(tool, source=offer.source)
            yield replace(judged, make=partial(_make_for, asked, offer, judged))


def _make_for(
    asked: Iterable[Tool | Factory], offer: Offer, judged: Tool, caller: Caller, made: _Made
) -> Tool | str | None:
    """Return a tool as it is made for a caller, under the fields by which it is judged; a sentence when that fails.

    `made` is filled: who makes several tools for a caller is called once.
    """
    found: list[Problem] = []
    for item in asked:
        if (item, caller) not in made:
            problems: list[Problem] = []
            made[item, caller] = _call_factory(item, offer, problems, caller), problems
        tools, problems = made[item, caller]
        found += problems
        for tool in tools:
            if tool.name != judged.name:
                continue
            if not tool.effects <= judged.effects or _terms_of(tool) != _terms_of(judged):
                return f"{offer.source}: {tool.name!r} has effects or terms for one caller that it is not judged by"
            return replace(tool, source=offer.source, effects=judged.effects)
    return found[0].sentence if found else None


def _terms_of(tool: Tool) -> tuple[object, ...]:
    return tool.group, tool.owner_only, tool.optional, frozenset(tool.requires)


def _call_factory(item: Tool | Factory, offer: Offer, problems: list[Problem], *caller: Caller) -> tuple[Tool, ...]:
    if isinstance(item, Tool):
        return (item,)
    name = getattr(item, "__name__", "a factory")
    try:
        made: Any = item(offer.config, *caller)
        tools = () if made is None else (made,) if isinstance(made, Tool) else tuple(made)
    except (Exception, SystemExit) as error:  # noqa: BLE001  foreign code: what it raises is reported
        line = next(iter(str(error).splitlines()), "")
        sentence = f"{offer.source}: {name} raised {type(error).__name__}: {line}; it was left out"
        problems.append(Problem(offer.source, sentence))
        return ()
    strays = [made for made in tools if not isinstance(made, Tool)]
    if strays:
        sentence = f"{offer.source}: {name} made a {type(strays[0]).__name__}, which is no Tool; it was left out"
        problems.append(Problem(offer.source, sentence))
        return ()
    return tools
