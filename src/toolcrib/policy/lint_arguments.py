"""Lint of rules about arguments: conditions that can never hold, denies that another tool gets around."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from toolcrib.define.names import nearest
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import ArgumentRule, Rule

from .arguments import TAINT
from .conditions import Roots, UnjudgedError, make_test
from .reach import place_of

Match = Callable[[str], set[str]]

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": (int, float),
    "number": (int, float),
    "boolean": bool,
}


def explain_dead(rule: ArgumentRule, tools: Iterable[Tool], roots: Roots = ()) -> str:
    """Say why a condition can hold for no call of these tools, "" when it can for some; `roots` spell workspaces."""
    why, when = "", json.loads(rule.when).items()
    for tool in tools:
        takes = rule.kind in ("deny", "ask")
        found = [each for name, wanted in when if (each := _explain_never(tool, name, wanted, roots, takes=takes))]
        if not found:
            return ""
        why = why or found[0]
    return why


def _explain_never(tool: Tool, name: str, wanted: Any, roots: Roots, *, takes: bool) -> str:
    looked = place_of(tool, name, takes=takes)
    _, own, place, kind = looked
    schema, known = tool.parameters, tool.parameters.get("properties", {})
    tests = wanted if isinstance(wanted, Mapping) else {"in": [wanted]}
    if place or kind or name == TAINT:
        known = {**known, own: {"type": "string"}}
    if own not in known:
        close = nearest(name, [*known, *tool.aliases, *tool.paths, *tool.urls])
        if tool.commands and name in ("path", "url"):
            return f"{tool.name} runs commands, and what they reach nobody can say"
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return "" if schema.get("additionalProperties", False) else f"{tool.name} has no argument {name!r}{hint}"
    if tests.get("min", 0) > tests.get("max", tests.get("min", 0)):
        return f"{name} cannot be at least {tests['min']} and at most {tests['max']}"
    if "in" in tests and not tests["in"]:
        return f"{name} can be none of no values"
    globs = [each for each in tests.get("in", ()) if isinstance(each, str)]
    globs += [f"{tests['under']}/"] if "under" in tests else []
    is_anywhere = looked.is_wide and any(each.strip()[:1] in ("/", "~") for each in globs)  # a command goes there
    if place == "path" and globs and not is_anywhere and all(_leads_out(each, roots) for each in globs):
        how = "write it from the root of the workspace, or whole and without links, and without .. or \\"
        return f"no path of the workspace is {globs[0]!r}; {how}"
    return _explain_value(name, tests, known[own])


def _explain_value(name: str, tests: Mapping[str, Any], known: Any) -> str:
    """Say why no value that a parameter takes can be meant."""
    kind, values = known.get("type"), known.get("enum")
    wanted = list(tests.get("in", ()))
    if values is not None and wanted and not any(_fits(each, values) for each in wanted):
        return f"{name} is one of {', '.join(map(str, values))}"
    numbers, texts = {"min", "max"} & tests.keys(), {"matches", "host", "under"} & tests.keys()
    is_wrong = (numbers and kind in ("string", "boolean")) or (texts and kind in ("integer", "number", "boolean"))
    if is_wrong or (kind in _KINDS and wanted and not any(isinstance(each, _KINDS[kind]) for each in wanted)):
        return f"{name} is a value of the type {kind}"
    minimum, maximum = known.get("minimum", -math.inf), known.get("maximum", math.inf)
    is_out = wanted and all(type(each) in (int, float) and not minimum <= each <= maximum for each in wanted)
    if is_out or tests.get("min", minimum) > maximum or tests.get("max", maximum) < minimum:
        return f"{name} is at least {minimum} and at most {maximum}"
    return ""


def _fits(wanted: Any, values: Sequence[Any]) -> bool:
    """Tell whether one of the values is meant, as what takes away compares them."""
    test = make_test(wanted, "", takes=True)
    for each in values:
        with suppress(UnjudgedError):
            if test(each):
                return True
    return False


def _leads_out(glob: str, roots: Roots) -> bool:
    """Tell whether a glob means no path of a workspace: one from `/` may, unless it begins as where another lies."""
    plain = glob.strip()
    begins, star, _ = (plain + "*" * plain.endswith("/")).partition("*")
    if ".." in plain.split("/") or "\\" in plain:
        return True
    if any(f"{begins}/".startswith(f"{root}/") or (star and f"{root}/".startswith(begins)) for root in roots):
        return False
    return plain.startswith(("~", *(f"/{root.split('/')[1]}/" for root in roots if root.startswith("/"))))


def find_ways_around(
    rule: ArgumentRule, scope: Rule, shut: set[str], tools: Mapping[str, Tool], match: Match
) -> list[str]:
    """Return the tools that can do by another name what an entry denies by path; `shut` are those denied outright."""
    wanted = json.loads(rule.when)
    named = [tools[name] for name in sorted(match(rule.tool))]
    if not any(place_of(tool, name, takes=True).place == "path" for tool in named for name in wanted):
        return []
    effects = {each for tool in named for each in tool.effects & {"read", "write"}}
    effects |= {"send"} if "read" in effects else set()
    same = [each for each in scope.when if each.kind == "deny" and each.when == rule.when]
    alike = {name for each in same for name in match(each.tool) if not tools[name].commands}
    # what runs programs reaches every file; what is searched or listed is judged by the argument, too
    opening = {name for name, each in tools.items() if each.paths or (each.says_nothing and "execute" in each.effects)}
    others = (each for name, each in tools.items() if each.commands or (name in opening and each.effects & effects))
    return [each.name for each in others if each.has_body and each.name not in alike | shut]
