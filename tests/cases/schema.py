"""openclaw-schema on adapter/gemini_schema.py.

OpenClaw cleans every schema for Gemini, so its answers are compared with our Gemini form. The originals leave unions,
lists of types, `allOf`, missing types and conditions inside what they answer; we never do. An answer of ours is the
same when it says the same in the words that every provider takes: at every place the same members, a kind of value
that they allow, their enum values, their notes, and no name required that they do not require.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolcrib.adapter import declare
from toolcrib.adapter.gemini_schema import GEMINI, gemini_form
from toolcrib.define.check import check_of_schema
from toolcrib.define.shape import Shape
from toolcrib.define.tool import tool_named

from .load import Case
from .outcome import Refused, Same, compare, is_same

Json = dict[str, Any]

_NOTES = ("title", "description", "default")
_WORDS = frozenset({"type", *_NOTES, "enum", "properties", "required", "items"})


def _cleaned(args: Json) -> Any:
    return gemini_form(args["schema"]).schema


def _sanitized(args: Json) -> list[Json]:
    """Return the tools with the schemas that the provider of that name is shown."""
    provider = "gemini" if args["provider"].startswith("google") else args["provider"]
    return [_sanitized_tool(entry, provider) for entry in args["tools"]]


def _sanitized_tool(entry: Json, provider: str) -> Json:
    if "parameters" not in entry:
        return entry
    shape = Shape(lambda: entry["parameters"], check_of_schema)
    declared = declare(tool_named(entry["name"], "A tool.", shape), provider)
    return {**entry, "parameters": declared.get("function", declared)["parameters"]}


def _same(case: Case, ours: Any) -> str:
    why = compare(case, ours)
    if not why or isinstance(ours, Refused) or not isinstance(case.expected["result"], Mapping):
        return why
    theirs = dict(_places(case.expected["result"], ""))
    shown = dict(_places(ours, ""))
    if theirs.keys() != shown.keys():
        return f"other members: {sorted(theirs.keys() ^ shown.keys())}"
    return next((found for at in shown for found in _differences(at, shown[at][0], theirs[at])), "")


def _places(schema: Any, at: str) -> Iterator[tuple[str, list[Any]]]:
    """Give every place with all that is said of it, the members of unions and intersections taken together."""
    said = list(_said(schema))
    yield at, said
    members: dict[str, list[Any]] = {}
    for each in said:
        properties = each.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            if inner is not False:
                members.setdefault(f"{at}.{name}", []).append(inner)
        if isinstance(each.get("items"), Mapping):
            members.setdefault(f"{at}[]", []).append(each["items"])
    for place, inner in members.items():
        yield from _places({"allOf": inner}, place)


def _said(schema: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword in ("allOf", "anyOf", "oneOf"):
        variants = schema.get(keyword)
        for variant in variants if isinstance(variants, list) else ():
            yield from _said(variant)


def _differences(at: str, ours: Mapping[str, Any], theirs: list[Any]) -> Iterator[str]:
    if not ours.keys() <= _WORDS:
        yield f"{at}: words that Gemini does not take"
    kinds = [kind for said in theirs for kind in _kinds(said)]
    if kinds and ours["type"] not in kinds and at:
        yield f"{at}: {ours['type']} instead of one of {kinds}"
    required = [set(said["required"]) for said in theirs if isinstance(said.get("required"), list)]
    if not set(ours.get("required", ())) <= set().union(*required):
        yield f"{at}: more is required"
    if ours.get("enum") != _values(theirs):
        yield f"{at}: other values"
    for note in _NOTES:
        first = next((said[note] for said in theirs if note in said), None)
        if not is_same(ours.get(note), first if note == "default" or isinstance(first, str) else None):
            yield f"{at}: another {note}"


def _values(theirs: list[Any]) -> list[str] | None:
    """Return the texts that their enums list, unless some variant leaves the value free."""
    plain = [said for said in theirs if said != {"not": {}} and said.keys().isdisjoint(("allOf", "anyOf", "oneOf"))]
    listed = dict.fromkeys(value for said in plain for value in said.get("enum", ()) if isinstance(value, str))
    return list(listed) if listed and all("enum" in said for said in plain) else None


def _kinds(said: Mapping[str, Any]) -> list[Any]:
    kind = said.get("type")
    return kind if isinstance(kind, list) else [kind] if kind else []


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "cleanSchemaForGemini": _cleaned,
    "normalizeToolParameters": _cleaned,
    "sanitizeToolsForGoogle": _sanitized,
    "geminiUnsupportedKeywords": lambda _: sorted(GEMINI.refused),
}
SAME: dict[str, Same] = {"cleanSchemaForGemini": _same, "normalizeToolParameters": _same}
