"""Rules about the arguments of a call: `{tool: write, when: {path: "docs/**"}}` in allow, ask and deny lists.

All conditions of an entry must hold. Of several values one is enough in a list that takes away, and all must fit in one
that gives. What cannot be judged denies.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.define.args import write_plain
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.schema.coerce import target_of
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import ArgumentRule, ArgumentRules, Decision, Layer, Rule, Verdict

from .conditions import Holds, Place, Roots, UnjudgedError, make_test

TAINT = "taint"  # what a rule calls the sources of what is in the conversation; no argument

_SHOWN_CHARS = 60
_MAX_REFERENCES = 8  # from one schema to the next
_LISTS = frozenset({list, tuple})
_PROBES = ("qxzkvj", "0417")  # words that a condition which says something does not have in common
_FAR = 2**53  # and a number


@dataclass(frozen=True, slots=True)
class _BoundTest:
    """A condition on one argument: as the rule calls it, as the tool does, what it is, and what it is when left out."""

    name: str
    own: str
    place: Place
    holds: Holds
    default: Any


@dataclass(frozen=True, slots=True)
class BoundRule:
    """An entry with its conditions, and the layer that it stands in."""

    rule: ArgumentRule
    layer: Layer
    tests: tuple[_BoundTest, ...]
    takes: bool

    @classmethod
    def of(cls, rule: ArgumentRule, layer: Layer, tool: Tool, roots: Roots = ()) -> "BoundRule":
        takes = rule.kind in ("deny", "ask")
        return cls(rule, layer, tuple(_bind(tool, json.loads(rule.when), roots, takes=takes)), takes)

    def is_met(self, values: Mapping[str, Any]) -> bool:
        """Tell whether all conditions hold; one that is sure not to makes the others not matter."""
        unjudged = None
        for test in self.tests:
            value = values[test.name]
            try:
                if value is None:
                    return False
                if type(value) not in _LISTS:
                    if not test.holds(value):
                        return False
                elif not value or not (any if self.takes else all)([test.holds(each) for each in value]):
                    return False
            except (UnjudgedError, ToolError) as error:
                unjudged = unjudged or f"{test.name} is {quote_short(str(value), _SHOWN_CHARS)}{_because(error)}"
        if unjudged:
            raise UnjudgedError(unjudged)
        return True


def _because(error: Exception) -> str:
    return f", and {error}" if isinstance(error, ToolError) else ""


def place_of(tool: Tool, name: str) -> tuple[str, Place]:
    """Return what a tool calls an argument of a rule, and whether that is a path or an address of the web."""
    own = name if name in (*tool.paths, *tool.urls) else tool.aliases.get(name, name)
    return own, "path" if own in tool.paths else "url" if own in tool.urls else ""


def _bind(tool: Tool, when: Mapping[str, Any], roots: Roots, *, takes: bool) -> Iterator[_BoundTest]:
    for name, wanted in when.items():
        own, place = place_of(tool, name)
        place = "source" if name == TAINT else place
        default = _find_schema(tool, own).get("default")
        yield _BoundTest(name, own, place, make_test(wanted, place, takes=takes, roots=roots), default)


def _find_schema(tool: Tool, own: str) -> Mapping[str, Any]:
    """Return what is said of a parameter, where it stands or where that refers to."""
    known, said = tool.parameters.get("properties", {}).get(own), dict[str, Any]()
    for _ in range(_MAX_REFERENCES):
        if not isinstance(known, Mapping):
            break
        said, known = {**known, **said}, target_of(known["$ref"], tool.parameters) if "$ref" in known else None
    return said


class CallerArgumentRules:
    """What one caller's rules say about the arguments of one tool.

    `takes` are the entries that deny, then those that ask; `gives` of each layer with an allow list that does not name
    the tool outright, the entries of which one must hold.
    """

    def __init__(self, tool: Tool, takers: Iterable[BoundRule], gives: Iterable[tuple[BoundRule, ...]]) -> None:
        listed = tuple(takers)
        self._tool, self._gives = tool, tuple(gives)
        self._denies = tuple(each for each in listed if each.rule.kind == "deny")
        self._asks = tuple(each for each in listed if each.rule.kind == "ask")
        tests = [test for each in self._all() for test in each.tests]
        self._tests = tuple({test.name: test for test in tests}.values())
        self.paths = tuple(test.name for test in self._tests if test.place == "path")
        self.urls = tuple(test.name for test in self._tests if test.place == "url")
        self.names = tuple(test.name for test in self._tests)
        self._looks = tuple((test.name, test.own, test.default) for test in self._tests)
        self._reads_places = any(test.place != "source" for test in self._tests)
        self._has_places, self._has_taint = bool(self.paths or self.urls), any(each[0] == TAINT for each in self._looks)
        # One look at single values shows that nobody has a say: of a rule that takes, one condition that does not hold
        # is enough; those that give must hold, where each layer has one with one condition.
        takes = [each.tests[0] for each in (*self._denies, *self._asks)]
        holding = [test for layer in self._gives for each in layer for test in each.tests]
        needs_more = self._has_places or self._has_taint or (self._reads_places and tool.read_places is not None)
        self._looks_once = not needs_more and len(holding) == len(self._gives)
        self._seen = tuple(
            (each.own, each.default, each.holds, at >= len(takes)) for at, each in enumerate(takes + holding)
        )

    def _all(self) -> tuple[BoundRule, ...]:
        return (*self._denies, *self._asks, *(each for layer in self._gives for each in layer))

    @property
    def conditions(self) -> tuple[tuple[Decision, str, str], ...]:
        """Each with what it leads to, as it is written, and the place it stands in."""
        means: dict[str, Decision] = {"deny": "deny", "ask": "ask"}
        return tuple((means.get(each.rule.kind, "allow"), str(each.rule), each.layer.origin) for each in self._all())

    def passes(self, args: Mapping[str, Any], sources: Callable[[], Collection[str]]) -> bool:
        """Tell at once of a call without places that nobody denies it or asks about it."""
        if self._looks_once:  # every call comes this way, so that it is one loop
            try:
                for own, default, holds, wanted in self._seen:
                    value = args.get(own)
                    if value is None:
                        value = default
                    if value is None:
                        if wanted:
                            break
                    elif type(value) in _LISTS or holds(value) is not wanted:
                        break
                else:
                    return True
            except (UnjudgedError, ToolError):
                return False
        return not self._has_places and self.judge(self.read(args, sources() if self._has_taint else ())) is None

    def read(self, args: Mapping[str, Any], sources: Collection[str] = ()) -> dict[str, Any]:
        """Return what the rules look at, by the names that they use; a parameter left out has its default."""
        values = {}
        for name, own, default in self._looks:
            value = args.get(own)
            value = write_plain(default if value is None else value)
            values[name] = [write_plain(each) for each in value] if type(value) in _LISTS else value
        if self._has_taint:
            values[TAINT] = list(sources)
        if self._reads_places and self._tool.read_places:
            places = self._tool.read_places(args)
            named = {each for found in places.values() for each in found}
            for test in self._tests:
                if test.own in places:
                    values[test.name] = list(places[test.own])
                elif not test.place and not named.isdisjoint(_list_texts(values[test.name])):
                    values[test.name] = _NamedPlace(tuple(places))
        return values

    def judge(self, values: Mapping[str, Any]) -> Verdict | None:
        """Return who denies or asks about such a call, None when nobody does."""
        for each in self._denies:
            try:
                if each.is_met(values):
                    return self._say("deny", each, f"deny has {each.rule}")
            except UnjudgedError as error:
                return self._say("deny", each, f"{each.rule} cannot be judged: {error}")
        for layer in self._gives:
            if not _is_one_met(layer, values):
                named = " or ".join(str(each.rule) for each in layer)
                return self._say("deny", layer[0], f"allow has it for other arguments only: {named}")
        for each in self._asks:
            try:
                if each.is_met(values):
                    return self._say("ask", each, f"a human is asked for {each.rule}")
            except UnjudgedError as error:
                return self._say("deny", each, f"{each.rule} cannot be judged: {error}")
        return None

    def _say(self, decision: Decision, by: BoundRule, reason: str) -> Verdict:
        origin = by.layer.origin
        place = f"{origin}, {by.layer.note}" if by.layer.note else origin
        remedy = {
            "deny": f"take {by.rule} out of {origin}.deny, or call it with other arguments",
            "ask": f"answer the question, or take {by.rule} out of {origin}",
        }.get(by.rule.kind, f"call it with arguments that an entry of {origin} has, or add one")
        return Verdict(self._tool.name, decision, "argument", str(by.rule), origin, f"{reason} ({place})", remedy)


@dataclass(frozen=True, slots=True)
class _NamedPlace:
    """Stands for an argument that is a place by another name: no condition can be held against it."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"a place, about which rules say {' or '.join(self.names)}"


def _list_texts(value: Any) -> list[str]:
    return [each.strip() for each in (value if type(value) in _LISTS else [value]) if isinstance(each, str)]


def _is_one_met(rules: Iterable[BoundRule], values: Mapping[str, Any]) -> bool:
    for each in rules:
        try:
            if each.is_met(values):
                return True
        except UnjudgedError:
            continue  # it gives nothing; another entry may
    return False


def bind_grant(tool: Tool, when: str, origin: str) -> CallerArgumentRules:
    """Return what judges the calls of a tool by the condition of a grant: they meet it, or are not for it."""
    rule = ArgumentRule("allow", tool.name, when)
    return CallerArgumentRules(tool, (), [(BoundRule.of(rule, Layer("grant", origin, Rule()), tool),)])


def is_open(tool: Tool, when: str) -> bool:
    """Tell whether a condition says nothing about the arguments: whatever value they have meets it."""
    wanted = {name: each for name, each in json.loads(when).items() if name != TAINT}
    rules = bind_grant(tool, json.dumps(wanted), "")
    probes = {name: _list_probes(tool, name) for name in wanted}
    many = max(map(len, probes.values()), default=0)
    tried = ({name: each[at % len(each)] for name, each in probes.items()} for at in range(many))
    return all(rules.judge(values) is None for values in tried)


def _list_probes(tool: Tool, name: str) -> Sequence[Any]:
    """Return values of an argument that a condition which says something does not all hold for."""
    own, place = place_of(tool, name)
    known = _find_schema(tool, own)
    if place:
        return [f"{each}/{each}" if place == "path" else f"https://{each}.{each}/" for each in _PROBES]
    if known.get("enum"):
        return list(known["enum"])
    if known.get("type") in ("integer", "number"):
        return [known.get("minimum", -_FAR), known.get("maximum", _FAR)]
    return [True, False] if known.get("type") == "boolean" else _PROBES


async def resolve_places(
    rules: ArgumentRules,
    tool: Tool,
    args: Mapping[str, Any],
    resolve: Callable[[str], Awaitable[str]],
    sources: Collection[str] = (),
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the arguments with every path that a rule looks at resolved, and what the rules look at."""
    values, changed = rules.read(args, sources), dict[str, Any]()
    for name in rules.paths:
        value, own = values[name], place_of(tool, name)[0]
        if isinstance(value, (list, tuple)):
            values[name] = [await resolve(each) if isinstance(each, str) else each for each in value]
        elif isinstance(value, str):
            values[name] = await resolve(value)
        if args.get(own) is not None and values[name] != args[own]:
            changed[own] = values[name]
    return ({**args, **changed} if changed else args), values
