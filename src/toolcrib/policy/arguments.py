"""Rules about the arguments of a call: `{tool: write, when: {path: "docs/**"}}` in allow, ask and deny lists.

All conditions of an entry must hold. Of several values one is enough in a list that takes away, and all must fit in one
that gives. What cannot be judged denies.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.define.args import write_plain
from toolcrib.define.context import Ports
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.schema.coerce import target_of
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import ArgumentRule, ArgumentRules, Consent, Decision, Layer, Rule, Verdict
from toolcrib.lazy import dataclass, replace

from .conditions import Holds, Roots, UnjudgedError, is_whole_address, make_test
from .reach import ANY, Looked, place_of, read_reached, resolve_wide

TAINT = "taint"  # what a rule calls the sources of what is in the conversation; no argument

_SHOWN_CHARS = 60
_MAX_REFERENCES = 8  # from one schema to the next
_LISTS = frozenset({list, tuple})
_PROBES = ("qxzkvj", "0417")  # words that a condition which says something does not have in common
_FAR = 2**53  # and a number


@dataclass(frozen=True, slots=True)
class _BoundTest:
    """A condition: as the rule calls what it is about, what that is, and the default where it is an argument."""

    name: str
    looked: Looked
    holds: Holds
    default: Any

    def holds_wide(self, value: Any) -> bool:
        """Tell whether a text that may be a place is meant; one that is none is not, but for an odd address."""
        try:
            return self.holds(value)
        except (UnjudgedError, ToolError):
            return self.looked.kind == "url" and is_whole_address(value)


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
            value = values[test.looked.key] if test.looked.key in values else values[test.name]
            try:
                if value is None:
                    return False
                if type(value) not in _LISTS:
                    if not test.holds(value):
                        return False
                elif test.looked.is_wide:
                    if not any(map(test.holds_wide, value)):
                        return False
                elif not value or not (any if self.takes else all)([test.holds(each) for each in value]):
                    return False
            except (UnjudgedError, ToolError) as error:
                because = f", and {error}" if isinstance(error, ToolError) else ""
                unjudged = unjudged or f"{test.name} is {quote_short(str(value), _SHOWN_CHARS)}{because}"
        if unjudged:
            raise UnjudgedError(unjudged)
        return True


def _bind(tool: Tool, when: Mapping[str, Any], roots: Roots, *, takes: bool) -> Iterator[_BoundTest]:
    for name, wanted in when.items():
        looked = Looked(TAINT, TAINT, "source") if name == TAINT else place_of(tool, name, takes=takes)
        default = _find_schema(tool, looked.own).get("default")
        yield _BoundTest(name, looked, make_test(wanted, looked.place, takes=takes, roots=roots), default)


def _find_schema(tool: Tool, own: str) -> Mapping[str, Any]:
    """Return the schema of a parameter, with that of its `$ref`."""
    known, stated = tool.parameters.get("properties", {}).get(own), dict[str, Any]()
    for _ in range(_MAX_REFERENCES):
        if not isinstance(known, Mapping):
            break
        stated, known = {**known, **stated}, target_of(known["$ref"], tool.parameters) if "$ref" in known else None
    return stated


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
        self._tests = tuple({test.looked.key: test for test in tests}.values())
        looked = [test.looked for test in self._tests]
        self.paths = tuple(each.key for each in looked if each.place == "path")
        self.urls = tuple(each.key for each in looked if "url" in (each.place, each.kind))
        self.names = tuple(dict.fromkeys(name for each in looked for name in each.list_names(tool)))
        self._has_places = bool(self.paths) or any(each.place == "url" or each.kind for each in looked)
        self._has_taint = any(each.key == TAINT for each in looked)
        # One look at single values shows that no rule applies: of a rule that takes, one condition that does not hold
        # is enough; those that give must hold, where each layer has one with one condition.
        takes = [each.tests[0] for each in (*self._denies, *self._asks)]
        holding = [test for layer in self._gives for each in layer for test in each.tests]
        needs_more = self._has_places or self._has_taint or (tool.read_places is not None and bool(tests))
        self._looks_once = not needs_more and len(holding) == len(self._gives)
        self._seen = (
            *((each.looked.own, each.default, each.holds, False) for each in takes),
            *((each.looked.own, each.default, each.holds, True) for each in holding),
        )

    def _all(self) -> tuple[BoundRule, ...]:
        return (*self._denies, *self._asks, *(each for layer in self._gives for each in layer))

    @property
    def conditions(self) -> tuple[tuple[Decision, str, str], ...]:
        """Each with what it leads to, as it is written, and the place it stands in."""
        means: dict[str, Decision] = {"deny": "deny", "ask": "ask"}
        return tuple((means.get(each.rule.kind, "allow"), str(each.rule), each.layer.origin) for each in self._all())

    def passes(self, args: Mapping[str, Any], sources: Callable[[], Collection[str]]) -> bool:
        """Tell fast that no rule denies or asks about a call without places."""
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

    def read(self, args: Mapping[str, Any], sources: Collection[str] = (), here: Sequence[str] = ()) -> dict[str, Any]:
        """Return what the rules look at; a parameter left out has its default, `here` is the chat of the call."""
        values, tool = dict[str, Any](), self._tool
        places = tool.read_places(args) if tool.read_places and self._tests else {}
        named = {each for name in (*tool.paths, *tool.urls) for each in places.get(name, ())}
        for test in self._tests:
            key, own = test.looked.key, test.looked.own
            if key == TAINT:
                values[key] = list(sources)
            elif test.looked.kind:
                values[key] = read_reached(tool, test.looked, args, here)
            elif own in places:
                values[key] = list(places[own])
            else:
                value = write_plain(test.default if args.get(own) is None else args[own])
                values[key] = [write_plain(each) for each in value] if type(value) in _LISTS else value
                if not test.looked.place and not named.isdisjoint(each.strip() for each in _list_texts(values[key])):
                    values[key] = _NamedPlace(tuple(places))
        return values

    def judge(self, values: Mapping[str, Any]) -> Verdict | None:
        """Return the verdict that denies or asks about such a call, None when there is none."""
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

    def list_says(self, values: Mapping[str, Any]) -> tuple[Consent, ...]:
        """Return who may answer for each rule that asks about such a call."""
        met = (each for each in self._asks if _may_be_met(each, values))
        says = (replace(each.rule.consent, outside=any(test.name == TAINT for test in each.tests)) for each in met)
        return tuple(dict.fromkeys(says))

    def asks_after(self, sources: Collection[str]) -> bool:
        """Tell whether an entry asks because of one of these sources, whatever the other arguments are."""
        tests = (test for each in self._asks for test in each.tests if test.name == TAINT)
        return any(test.holds(source) for test in tests for source in sources)

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
    return [each for each in (value if type(value) in _LISTS else [value]) if isinstance(each, str)]


def _may_be_met(rule: BoundRule, values: Mapping[str, Any]) -> bool:
    try:
        return rule.is_met(values)
    except UnjudgedError:
        return True


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
    tried = ({name: each[index % len(each)] for name, each in probes.items()} for index in range(many))
    return all(rules.judge(values) is None for values in tried)


def _list_probes(tool: Tool, name: str) -> Sequence[Any]:
    """Return values of an argument that a condition which says something does not all hold for."""
    looked = place_of(tool, name, takes=False)
    known, place = _find_schema(tool, looked.own), looked.place
    if place:
        return [f"{each}/{each}" if place == "path" else f"https://{each}.{each}/" for each in _PROBES]
    if known.get("enum"):
        return list(known["enum"])
    if known.get("type") in ("integer", "number"):
        return [known.get("minimum", -_FAR), known.get("maximum", _FAR)]
    return [True, False] if known.get("type") == "boolean" else _PROBES


async def resolve_places(
    rules: ArgumentRules, tool: Tool, args: Mapping[str, Any], ports: Ports, sources: Collection[str] = ()
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the arguments with every path that a rule looks at resolved, and what the rules look at."""
    values, led, resolve = rules.read(args, sources, ports.here()), dict[str, str](), ports.workspace.resolve
    for key in rules.paths:
        if key.startswith(ANY):
            values[key] = await resolve_wide(tool, values[key], args, resolve, ports.workspace.list)
            continue
        for each in _list_texts(values[key]):
            led[each] = await resolve(each)
        values[key] = _put(led, values[key])
    changed = {own: _put(led, args[own]) for own in tool.paths if led and args.get(own) is not None}
    return ({**args, **changed} if any(changed[own] != args[own] for own in changed) else args), values


def _put(led: Mapping[str, str], value: Any) -> Any:
    """Return a path, or several, as where they lead to."""
    if isinstance(value, (list, tuple)):
        return [_put(led, each) for each in value]
    return led.get(value, value) if isinstance(value, str) else value
