"""The gate against a bare set-and-regex filter: 50, 1,000 and 10,000 tools through nine set layers.

Both sides start from resolved layers and derived groups, as a host has them between two changes of its configuration.
The floor knows names and lists only: no Tool, no verdict, no place in a file.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from toolcrib import Caller, Tool
from toolcrib.agent.belt import Belts
from toolcrib.config.load import load
from toolcrib.define.verdict import Layer, LayerName, Selection, Verdict
from toolcrib.policy import Facts, PolicySettings, gate, layers_for
from toolcrib.registry import Catalog

from . import Row, Work, interleaved

__all__ = ["CALLER", "SIZES", "World", "bare_filter", "catalog_of", "measure", "rows_from", "world_of", "world_with"]

SIZES = (50, 1_000, 10_000)
FEWER, MORE = SIZES[-2:]  # compared with one another

BELT_BAR, VERDICTS_BAR, LINEAR_BAR = 1.5, 3.0, 2.0
UNCHANGED, ASKED = 10e-6, 100  # seconds a call, and calls that are timed together

GROUPS: Mapping[str, tuple[str, ...]] = {
    "fs": ("read", "write", "edit", "apply_patch", "grep", "find", "ls"),
    "runtime": ("exec", "process"),
    "sessions": ("sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"),
    "memory": ("memory_search", "memory_get"),
    "web": ("web_search", "web_fetch"),
    "ui": ("browser", "canvas"),
    "automation": ("cron", "gateway"),
    "messaging": ("message",),
    "media": ("image", "tts"),
}
PLUGINS = 40
VERBS = ("list", "get", "search", "create", "update", "remove", "send")

# Every layer is set; between them they hold names, groups, plugin ids and globs, in allow and in deny lists.
CONFIG: Mapping[str, Any] = {
    "tools": {
        "profile": "coding",
        "alsoAllow": ["group:plugins", "group:web", "message"],
        "deny": ["crm1_*", "canvas", "crm2_*_1*"],
        "byProvider": {
            "openai": {
                "allow": ["group:fs", "group:runtime", "group:plugins", "group:web", "group:memory", "sessions_*"],
                "deny": ["crm3_send_*"],
            }
        },
        "sandbox": {
            "tools": {
                "allow": ["group:fs", "group:memory", "group:web", "group:plugins"],
                "deny": ["browser", "crm6", "crm16_*"],
            }
        },
        "subagents": {"tools": {"allow": ["read", "edit", "web_*", "group:plugins"], "deny": ["crm7_*"]}},
    },
    "agents": {
        "main": {
            "tools": {
                "deny": ["crm8", "crm9_get_*", "image"],
                "byProvider": {
                    "openai": {"profile": "coding", "alsoAllow": ["group:plugins", "group:web"], "deny": ["crm4_*"]}
                },
            }
        }
    },
    "channels": {
        "telegram": {
            "groups": {
                "-1001": {"tools": {"allow": ["group:fs", "group:web", "group:plugins"], "deny": ["exec", "crm5_*"]}}
            }
        }
    },
    "sandbox": {"mode": "all"},
}

# A sandboxed subagent, at work for somebody in a group chat, through a model with rules of its own: all nine speak.
CALLER = Caller(
    session="agent:main:subagent:7", provider="openai", model="gpt-5", channel="telegram", group="-1001", owner=False
)

Lists = tuple[tuple[str, ...] | None, tuple[str, ...]]  # what one layer allows (None: no limit), and what it denies
Groups = Mapping[str, Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a resolve starts from, in our form and in the floor's."""

    catalog: Catalog
    settings: PolicySettings
    caller: Caller
    layers: tuple[Layer, ...]
    facts: Facts
    names: tuple[str, ...]
    lists: tuple[Lists, ...]

    @property
    def set_layers(self) -> frozenset[LayerName]:
        """The layers that limit anything."""
        return frozenset(layer.name for layer in self.layers if layer.rule.allow is not None or layer.rule.deny)

    def floor(self) -> list[str]:
        """Filter the names, with nothing around it."""
        return bare_filter(self.names, self.catalog.groups, self.lists)

    def belt(self) -> Selection:
        """Resolve, with verdicts on demand."""
        return gate(self.catalog.tools, self.catalog.groups, self.layers, self.facts)

    def verdicts(self) -> dict[str, Verdict]:
        """Resolve, and render every verdict."""
        return dict(self.belt().verdicts)

    def belts(self) -> Belts:
        """Return belts that have already made this caller's."""
        belts = Belts(self.catalog, self.settings)
        belts.belt_for(self.caller)
        return belts


def world_of(size: int) -> World:
    """Return `size` tools, the core's and those of forty plugins, under the benchmark's configuration."""
    core = [(name, None) for names in GROUPS.values() for name in names][:size]
    ids = [f"crm{at % PLUGINS}" for at in range(size - len(core))]
    plugins = [(f"{id}_{VERBS[at % len(VERBS)]}_{at}", id) for at, id in enumerate(ids)]
    return world_with(catalog_of([*core, *plugins], GROUPS), load(CONFIG, {}).policy, CALLER)


def catalog_of(tools: Iterable[tuple[str, str | None]], groups: Groups) -> Catalog:
    """Return a catalog of declared tools, given as name and plugin id; the core's are in the groups that list them."""
    group_of = {name: group for group, names in groups.items() for name in names}
    return Catalog(
        {
            name: replace(Tool.declared(name, name, group=group_of.get(name)), source=f"plugin:{id}" if id else "core")
            for name, id in tools
        }
    )


def world_with(catalog: Catalog, settings: PolicySettings, caller: Caller) -> World:
    """Return the world in which `caller` meets `catalog`, the layers resolved."""
    layers = layers_for(settings, caller)
    rules = [layer.rule for layer in layers]
    return World(
        catalog=catalog,
        settings=settings,
        caller=caller,
        layers=layers,
        facts=Facts(owner=False, additive=settings.tools.plugin_only_allow == "additive"),
        names=tuple(catalog),
        lists=tuple((None if rule.allow is None else (*rule.allow, *rule.also), rule.deny) for rule in rules),
    )


def bare_filter(names: Iterable[str], groups: Groups, lists: Iterable[Lists]) -> list[str]:
    """Return the names that every layer's lists let pass: one set and one regex a list, list after list."""
    kept = list(names)
    for allow, deny in lists:
        shut, glob = _compiled(deny, groups)
        if deny:
            kept = [name for name in kept if name not in shut and not (glob and glob(name))]
        if allow is None or "*" in allow:
            continue
        exact, glob = _compiled(allow, groups)
        if "exec" in exact and "exec" not in shut:
            exact.add("apply_patch")
        kept = [name for name in kept if name in exact or (glob and glob(name))]
    return kept


def _compiled(entries: Iterable[str], groups: Groups) -> tuple[set[str], Callable[[str], object] | None]:
    exact: set[str] = set()
    globs: list[str] = []
    for entry in entries:
        if entry in groups:
            exact.update(groups[entry])
        elif "*" in entry:
            globs.append(re.escape(entry).replace(r"\*", ".*"))
        else:
            exact.add(entry)
    return exact, re.compile("|".join(globs)).fullmatch if globs else None


def measure(rounds: int) -> list[Row]:
    """Return the rows of the policy, measured here and now."""
    taken: dict[str, list[float]] = {}
    for size in SIZES:
        works = works_of(world_of(size), size)
        if size == MORE:
            works |= works_in_parts()
        # the time of this process alone: long works would seem longer than short ones where others want the processor
        taken |= interleaved(works, rounds, time.process_time)
    return rows_from(taken)


def works_of(world: World, size: int) -> dict[str, Work]:
    """Return what is timed in a world of `size` tools; refuse one in which the two sides disagree."""
    if list(world.belt().tools) != world.floor():
        raise AssertionError(f"of {size} tools the gate and the floor keep different ones")
    return {
        f"floor {size}": world.floor,
        f"belt {size}": world.belt,
        f"verdicts {size}": world.verdicts,
        # an equal caller, not the same one: a host makes one a turn
        f"unchanged {size}": partial(_each, [partial(world.belts().belt_for, replace(world.caller))] * ASKED),
    }


def works_in_parts() -> dict[str, Work]:
    """Return the largest world's work done in smaller worlds: so many tools in all, none of them in a warm cache."""
    parts = [world_of(FEWER) for _ in range(MORE // FEWER)]
    return {
        "belt in parts": partial(_each, [part.belt for part in parts]),
        "verdicts in parts": partial(_each, [part.verdicts for part in parts]),
    }


def rows_from(taken: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the promises about `taken`, the seconds of `floor 50`, `belt 50`, ..., `belt in parts`."""
    resolves = [("belt", "verdicts on demand", BELT_BAR), ("verdicts", "all verdicts rendered", VERDICTS_BAR)]
    rows: list[Row] = []
    for size in SIZES:
        for work, words, bar in resolves:
            ours, floor = taken[f"{work} {size}"], taken[f"floor {size}"]
            rows.append(Row(what=f"{size:,} tools, {words}", ours=ours, against="bare filter", floor=floor, bar=bar))
        ours = [each / ASKED for each in taken[f"unchanged {size}"]]
        limit = [UNCHANGED] * len(ours)
        rows.append(Row(what=f"{size:,} tools, unchanged", ours=ours, against="fixed", floor=limit, bar=1.0))
    for work, words, _ in resolves:
        ours, floor = taken[f"{work} {MORE}"], taken[f"{work} in parts"]
        against = f"{MORE // FEWER} times {FEWER:,}"
        rows.append(Row(what=f"{MORE:,} tools, {words}", ours=ours, against=against, floor=floor, bar=LINEAR_BAR))
    return rows


def _each(works: Sequence[Work]) -> None:
    for work in works:
        work()
