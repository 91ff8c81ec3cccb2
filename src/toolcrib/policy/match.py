"""Entries of a rule against tools: names, globs, groups, plugin ids and effects; deny is asked first by the gate.

An entry is folded like a name. `*` in it stands for any run of characters, and nothing else is special. In an allow
list an effect permits only tools all of whose effects are listed; in deny and ask lists any effect of the tool counts.
"""

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from itertools import filterfalse

from toolcrib.define.names import ALIASES, canonical, fold_name, mcp_entry, nearest, server_part
from toolcrib.define.tool import EFFECTS, Tool
from toolcrib.lazy import dataclass, regex

Groups = Mapping[str, frozenset[str]]

MAX_ENTRY_CHARS = 256

_GLOB = regex(r"[a-z0-9_*-]+")
_GROUP = regex(r"group:[a-z0-9_-]{1,64}")


def complaint_about(entry: str) -> str | None:
    """Say what is wrong with the spelling of an entry, or None when it can mean something."""
    folded = fold_name(entry)
    if not folded:
        return "a blank entry means nothing; remove it"
    if len(entry) > MAX_ENTRY_CHARS:
        return f"an entry of {len(entry)} characters; {MAX_ENTRY_CHARS} is the most"
    if folded.startswith("effect:"):
        effect = folded.removeprefix("effect:")
        if effect in EFFECTS:
            return None
        meant = nearest(effect, EFFECTS)
        hint = f"did you mean 'effect:{meant[0]}'?" if meant else f"there are {', '.join(sorted(EFFECTS))}"
        return f"no effect is called {effect!r}; {hint}"
    if folded.startswith("group:"):
        return None if _GROUP.fullmatch(folded) else f"{entry!r} names no group; a glob matches tool names only"
    if _GLOB.fullmatch(folded):
        return None
    return f"{entry!r} can match no tool; names are made of a-z, 0-9, _ and -, and * is the only wildcard"


def is_glob(entry: str) -> bool:
    """Tell whether the entry matches by pattern rather than by name."""
    return "*" in entry


@dataclass(frozen=True, slots=True)
class Inventory:
    """The tools as rules see them: every name, and the groups they are in."""

    tools: Mapping[str, Tool]
    groups: Groups

    def with_effect(self, effect: str) -> frozenset[str]:
        """Return the names of the tools that have this effect, apply_patch counted wherever exec is."""
        found = frozenset(name for name, tool in self.tools.items() if effect in tool.effects)
        return found | {"apply_patch"} if "exec" in found and "apply_patch" in self.tools else found

    def within_effects(self, effects: frozenset[str]) -> frozenset[str]:
        """Return the names of the tools that have no effect but these."""
        return frozenset(name for name, tool in self.tools.items() if tool.effects <= effects)


@dataclass(frozen=True, slots=True)
class _ParsedEntries:
    """One list as it is written, sorted by how its entries match: folded entry (or effect) to entry as written.

    `spoken` holds names and globs of MCP servers' tools as `mcp_entry` writes them.
    """

    plain: Mapping[str, str]
    globs: Mapping[str, str]
    spoken: Mapping[str, str]
    effects: Mapping[str, str]
    any_glob: Callable[[str], object] | None
    everything: str | None


@dataclass(frozen=True, slots=True)
class RuleMatcher:
    """One list, ready to be asked: plain names, whole groups, and globs; each knows its entry as written."""

    parsed: _ParsedEntries
    groups: tuple[tuple[frozenset[str], str], ...] = ()

    @property
    def names(self) -> Set[str]:
        """The names the list stands for outright or as members of a group; not those a glob matches."""
        return self.parsed.plain.keys() | frozenset().union(*(members for members, _ in self.groups))

    def entry_for(self, name: str) -> str | None:
        """Return the entry, as written, that matches this canonical name."""
        parsed = self.parsed
        if parsed.everything is not None:
            return parsed.everything
        entry = parsed.plain.get(name)
        if entry is not None:
            return entry
        for members, written in self.groups:
            if name in members:
                return written
        if parsed.any_glob is not None and parsed.any_glob(name):
            return next(written for glob, written in parsed.globs.items() if fnmatch.fnmatchcase(name, glob))
        return None

    def select(self, names: frozenset[str]) -> frozenset[str]:
        """Return those of `names` that the list matches."""
        parsed = self.parsed
        if parsed.everything is not None:
            return names
        found = names.intersection(parsed.plain)
        for members, _ in self.groups:
            more = names & members
            found = found | more if found else more
        if parsed.any_glob is not None:
            found = found.union(filter(parsed.any_glob, names - found if found else names))
        return found

    def reject(self, names: frozenset[str]) -> frozenset[str]:
        """Return those of `names` that the list does not match."""
        parsed = self.parsed
        if parsed.everything is not None:
            return frozenset()
        missed = names.difference(parsed.plain, *(members for members, _ in self.groups))
        return missed if parsed.any_glob is None else frozenset(filterfalse(parsed.any_glob, missed))


def list_meant(entry: str, inventory: Inventory) -> frozenset[str]:
    """Return the tools that one entry means in a list that denies; a name may be written as a call may write it."""
    name = canonical(entry)
    if name is not None and name in inventory.tools:
        return frozenset((name,))
    return matcher_for((entry,), inventory).select(frozenset(inventory.tools))


def matcher_for(
    entries: tuple[str, ...], inventory: Inventory, *, permits: bool = False, within: str = ""
) -> RuleMatcher:
    """Return the matcher of one list; `permits` says it is an allow list, where an effect must cover the whole tool.

    `within` is what the names of an MCP server's tools begin with: in a list about that server alone, a tool may be
    called as the server calls it.
    """
    known = inventory.groups
    is_theirs = "group:mcp" in known and any("__" in entry for entry in entries)
    parsed = _parse_entries(entries, within, _find_renamed_servers(inventory) if is_theirs else (), permits)
    groups = [(known[entry], written) for entry, written in parsed.plain.items() if entry in known]
    if parsed.spoken and "group:mcp" in known:
        groups += _match_spoken(parsed.spoken, inventory)
    if parsed.effects:
        groups += _match_effects(parsed.effects, inventory, permits=permits)
    return RuleMatcher(parsed, tuple(groups))


# The same lists come back with every caller, so each is parsed once.
@lru_cache(maxsize=4096)
def _parse_entries(
    entries: tuple[str, ...], within: str, renamed: tuple[tuple[str, str], ...], permits: bool
) -> _ParsedEntries:
    plain: dict[str, str] = {}
    globs: dict[str, str] = {}
    effects: dict[str, str] = {}
    everything: str | None = None
    spelled = [(fold_name(written), written) for written in entries]
    spelled += [(each, written) for entry, written in spelled for each in _respell_server(entry, renamed)]
    if within and not permits:  # a server may begin the names of its tools with its own: that is denied as well
        spelled += [(within + entry, written) for entry, written in spelled if entry.startswith(within)]
    for entry, written in spelled:
        if within and ":" not in entry and entry != "*" and not entry.startswith(within):
            entry = within + entry
        if entry == "*":
            everything = written
        elif entry.startswith("effect:"):
            effects.setdefault(entry.removeprefix("effect:"), written)
        elif not is_glob(entry):
            plain.setdefault(ALIASES.get(entry, entry), written)
        elif _GLOB.fullmatch(entry):  # any other can match no name
            globs.setdefault(entry, written)
    any_glob = re.compile("|".join(map(fnmatch.translate, globs))).match if globs else None
    named = {**globs, **plain}
    spoken = {mcp_entry(entry): written for entry, written in named.items() if "__" in entry or "*" in entry}
    return _ParsedEntries(plain, globs, spoken, effects, any_glob, everything)


def _find_renamed_servers(inventory: Inventory) -> tuple[tuple[str, str], ...]:
    """Return the MCP servers whose tools do not begin with their name: that name, folded, and what they begin with."""
    sources = {inventory.tools[name].source.removeprefix("mcp:") for name in inventory.groups["group:mcp"]}
    pairs = ((fold_name(server), server_part(server)) for server in sources)
    return tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))


def _respell_server(entry: str, renamed: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Yield an entry that calls a server as the configuration does the way the names of its tools begin."""
    for server, part in renamed:
        for found in re.finditer("(?=__)", entry):
            if fnmatch.fnmatchcase(server, entry[: found.start()]):
                yield part + entry[found.start() :]


def _match_spoken(entries: Mapping[str, str], inventory: Inventory) -> list[tuple[frozenset[str], str]]:
    """Return what entries mean of tools whose names end in a digest: they are about what its server calls a tool."""
    spoken = {
        name: members
        for name, members in inventory.groups.items()
        if "__" in name and all(inventory.tools[each].source.startswith("mcp:") for each in members)
    }
    return [
        (members, written)
        for entry, written in entries.items()
        for name, members in spoken.items()
        if fnmatch.fnmatchcase(name, entry)
    ]


def _match_effects(
    effects: Mapping[str, str], inventory: Inventory, *, permits: bool
) -> list[tuple[frozenset[str], str]]:
    if permits:
        return [(inventory.within_effects(frozenset(effects)), next(iter(effects.values())))]
    return [(inventory.with_effect(effect), written) for effect, written in effects.items()]
