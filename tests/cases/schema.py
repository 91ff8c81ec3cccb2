"""openclaw-schema on adapter/forms.py.

OpenClaw cleans every schema for Gemini, whatever the provider, so its answers are compared with our Gemini form. They
still hold unions, lists of types, `allOf`, conditions and places without a type; to us they are foreign schemas like
any other. So an answer is the same when theirs, normalized, is ours: what they keep we keep, in words that every
provider takes. A place of which they say nothing (a reference they cut or cannot follow) may be told better.
"""

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.adapter import declare
from toolcrib.adapter.forms import GEMINI_DIALECT, to_gemini_form
from toolcrib.adapter.normalize.refs import DEFINITIONS
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import tool_named

from .load import Case
from .outcome import Refused, Same, compare, is_same

Json = dict[str, Any]

_NOTES = frozenset({"title", "description", "default"})
_NOTHING = "they say nothing of this place"


def _shown(args: Json) -> Json:
    return to_gemini_form(args["schema"]).schema


def _sanitized(args: Json) -> list[Json]:
    provider = "gemini" if args["provider"].startswith("google") else args["provider"]
    return [_sanitized_tool(entry, provider) for entry in args["tools"]]


def _sanitized_tool(entry: Json, provider: str) -> Json:
    if "parameters" not in entry:
        return entry
    shape = Shape(lambda: entry["parameters"], check_of_schema)
    declared = declare(tool_named(entry["name"], "A tool.", shape), provider)
    return {**entry, "parameters": declared.get("function", declared)["parameters"]}


def _left_out(_: Json) -> list[str]:
    """Return the words of JSON Schema that Gemini is never shown."""
    return sorted(GEMINI_DIALECT.refused | GEMINI_DIALECT.silent | {"$ref", *DEFINITIONS})


def _same(case: Case, ours: Any) -> str:
    why = compare(case, ours)
    if not why or isinstance(ours, Refused):
        return why
    theirs = to_gemini_form(_marked(case.expected["result"])).schema
    return "" if _agrees(ours, theirs) else f"theirs, normalized, is {theirs}"


def _same_tools(case: Case, ours: Any) -> str:
    theirs = case.expected["result"]
    if case.args["provider"] == "openai":
        return compare(case, ours)
    told = [
        {**each, "parameters": to_gemini_form(each["parameters"]).schema} if "parameters" in each else each
        for each in theirs
    ]
    return "" if is_same(ours, told) else f"theirs, normalized, is {told}"


def _same_words(case: Case, ours: Any) -> str:
    missing = set(case.expected["result"]).difference(ours)
    return f"Gemini is shown {sorted(missing)}" if missing else ""


def _marked(schema: Any, inner: bool = False) -> Any:
    """Return their answer with a mark where they say nothing."""
    if isinstance(schema, list):
        return [_marked(each, inner) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if inner and schema.keys() <= _NOTES:
        return {"description": _NOTHING}
    kept = dict(schema)
    if isinstance(schema.get("properties"), Mapping):
        kept["properties"] = {name: _marked(each, inner=True) for name, each in schema["properties"].items()}
    for keyword in ("items", "allOf", "anyOf", "oneOf"):
        if keyword in schema:
            kept[keyword] = _marked(schema[keyword], inner=keyword == "items")
    return kept


def _agrees(ours: Any, theirs: Any) -> bool:
    if not isinstance(theirs, Mapping) or not isinstance(ours, Mapping):
        return is_same(ours, theirs)
    if theirs.get("description") == _NOTHING:
        return True
    told = {
        name for name, each in theirs.items() if not (isinstance(each, Mapping) and each.get("description") == _NOTHING)
    }
    return told <= ours.keys() <= theirs.keys() and all(_agrees(ours[key], theirs[key]) for key in ours)


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "cleanSchemaForGemini": _shown,
    "normalizeToolParameters": _shown,
    "sanitizeToolsForGoogle": _sanitized,
    "geminiUnsupportedKeywords": _left_out,
}
SAME: dict[str, Same] = {
    "cleanSchemaForGemini": _same,
    "normalizeToolParameters": _same,
    "sanitizeToolsForGoogle": _same_tools,
    "geminiUnsupportedKeywords": _same_words,
}
