"""Which agents exist: those of the shelf, of plugins, of the user's own files and of files the owner accepted.

The first keeps a name. An agent that is called like a tool, that lists a tool that does not exist, or that leads back
to itself is left out and reported; the others stay.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

from toolcrib.define.agent import COMPLETE, Agent
from toolcrib.define.names import canonical, fold_name, suggest
from toolcrib.define.tool import EFFECTS
from toolcrib.lazy import dataclass, field, regex

from .catalog import Catalog, Problem

SOURCE = "agents"  # of problems

_KINDS = ("core", "plugin", "user", "workspace")
_GLOB = regex(r"[a-z0-9_*-]+")
_COMING = "group:agents"  # there as soon as agents are tools


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOffer:
    """An agent and where it comes from: core, plugin:x, user or workspace; for a file its name and its keys' lines."""

    agent: Agent
    source: str
    file: str = ""
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)

    def place(self, *path: str | int) -> str:
        """Return where a key of the agent stands, as a sentence about it begins."""
        if not self.file:
            return f"agent {self.agent.name} ({self.source})"
        return f"{self.file}:{self.lines.get(path) or self.lines.get(path[:1]) or 1}"


@dataclass(frozen=True, slots=True)
class Agents:
    """The agents that may be used, by name, and what was left out."""

    offers: Mapping[str, AgentOffer] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def __iter__(self) -> Iterator[Agent]:
        return (offer.agent for offer in self.offers.values())

    def __len__(self) -> int:
        return len(self.offers)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The tools that the lists of agents may name: those of a catalog, and those that may come later.

    `servers` are MCP servers, whose tools are called `server__tool`. When it is not `is_whole`, any name may be that of
    an agent or a tool that was not loaded.
    """

    catalog: Catalog
    servers: Collection[str] = ()
    is_whole: bool = True

    def may_come(self, name: str) -> bool:
        """Tell whether a name that is unknown now may be known later."""
        return not self.is_whole or any(name.startswith(f"{fold_name(server)}__") for server in self.servers)


def collect_agents(offers: Iterable[AgentOffer], known: KnownNames, problems: Iterable[Problem] = ()) -> Agents:
    """Return the agents among the offers that can work; `problems` found earlier are kept with the new ones."""
    found = list(problems)
    first = _offers_by_name(offers, known.catalog, found)
    circles = _find_cycles(first)
    kept: dict[str, AgentOffer] = {}
    for name, offer in first.items():
        complaints = [*_unknown_tools(offer, known, frozenset(first)), *circles.get(name, ())]
        found += [Problem(SOURCE, f"{each} (the agent was left out)") for each in complaints]
        if not complaints:
            kept[name] = offer
    return Agents(kept, tuple(found))


def _offers_by_name(offers: Iterable[AgentOffer], catalog: Catalog, problems: list[Problem]) -> dict[str, AgentOffer]:
    """Return the first agent of every name that no tool has."""
    found: dict[str, AgentOffer] = {}
    for offer in sorted(offers, key=lambda each: _KINDS.index(each.source.partition(":")[0])):
        name, where = offer.agent.name, offer.place("name")
        if name in catalog or name == COMPLETE:
            problems.append(
                Problem(SOURCE, f"{where}: there is a tool {name!r}; the agent was left out, give it another name")
            )
        elif name in found:
            owner = found[name].place("name") if found[name].file else found[name].source
            sentence = f"{where}: {owner} has an agent {name!r}; this one was left out, rename it"
            problems.append(Problem(SOURCE, sentence))
        else:
            found[name] = offer
    return found


def _unknown_tools(offer: AgentOffer, known: KnownNames, agents: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with the entries of an agent's list."""
    for index, entry in enumerate(offer.agent.tools or ()):
        if complaint := _complaint(entry, known, agents):
            yield f"{offer.place('tools', index)}: {complaint}"


def _complaint(entry: str, known: KnownNames, agents: frozenset[str]) -> str | None:
    folded, catalog = fold_name(entry), known.catalog
    if folded.startswith("effect:"):
        effects = sorted(EFFECTS)
        return None if folded[7:] in effects else f"no effect is called {folded[7:]!r}; there are {', '.join(effects)}"
    if "*" in folded:
        return None if _GLOB.fullmatch(folded) else f"{entry[:64]!r} can match no tool; * is the only wildcard"
    if folded in catalog.groups or folded == _COMING:
        return None
    is_group, name = folded.startswith("group:"), canonical(entry)
    if name is not None and (name in catalog or name in agents or known.may_come(name)):
        return None
    known_names = catalog.groups if is_group else [*catalog, *agents]
    hint = suggest(entry, known_names, "`toolcrib tools list` shows what there is")
    return f"there is no {'group' if is_group else 'tool'} {entry[:64]!r}{hint}"


def _find_cycles(offers: Mapping[str, AgentOffer]) -> dict[str, list[str]]:
    """Return a complaint for every agent that leads back to itself by the names in lists.

    Globs and groups do not count as calls; how deep those go is bounded where agents run.
    """
    lists = {
        name: {canonical(entry): at for at, entry in reversed([*enumerate(offer.agent.tools or ())])}
        for name, offer in offers.items()
    }
    found: dict[str, list[str]] = {}
    for name, offer in offers.items():
        way = _find_cycle(name, lists)
        if way:
            at = lists[name][way[1]]
            found[name] = [f"{offer.place('tools', at)}: {' → '.join(way)}: it leads back to itself"]
    return found


def _find_cycle(start: str, lists: Mapping[str, Mapping[str | None, int]]) -> list[str]:
    """Return the shortest way from an agent over the lists back to it, empty when there is none."""
    waiting: deque[tuple[str, ...]] = deque([(start,)])
    seen: set[str] = set()
    while waiting:
        way = waiting.popleft()
        for entry in lists[way[-1]]:
            if entry == start:
                return [*way, start]
            if entry is not None and entry in lists and entry not in seen:
                seen.add(entry)
                waiting.append((*way, entry))
    return []
