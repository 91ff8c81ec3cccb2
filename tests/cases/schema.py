"""openclaw-schema on adapter/forms.py.

OpenClaw cleans every schema for Gemini, whatever the provider, so its answers are compared with our Gemini form, word
for word at each place. Theirs still hold unions, lists of types, `allOf`, conditions and places without a type; what we
say instead, rows say by rule.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolcrib.adapter import declare
from toolcrib.adapter.forms import GEMINI_DIALECT, to_gemini_form
from toolcrib.adapter.normalize.refs import DEFINITIONS
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import tool_named

from .load import Case
from .outcome import Form, Same

Json = dict[str, Any]

_SAID = frozenset({"type", "title", "description", "default", "enum", "required", "properties"})
_JOINED = frozenset({"anyOf", "oneOf", "allOf"})


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


def _same_words(case: Case, ours: Any) -> str:
    missing = set(case.expected["result"]).difference(ours)
    return f"Gemini is shown {sorted(missing)}" if missing else ""


def places_of(schema: Any) -> dict[str, Json]:
    """Return what a schema says at each of its places: `root`, `root/member`, `root/list#`.

    Nothing is lost: what joins schemas is `joined`, other words that not every provider takes are `besides`, and what
    is no schema at all is a `value`.
    """
    return dict(_places(schema, "root"))


def _places(schema: Any, at: str) -> Iterator[tuple[str, Json]]:
    if not isinstance(schema, Mapping):
        yield at, {"value": schema}
        return
    said: Json = {}
    inside: Json = {}
    for word, value in schema.items():
        if word == "properties" and isinstance(value, Mapping) and value:
            inside |= {f"{at}/{name.replace('.', '%2E')}": each for name, each in value.items()}
        elif word == "items" and isinstance(value, Mapping):
            inside[f"{at}#"] = value
        elif word in _SAID:
            said[word] = value
        else:
            said.setdefault("joined" if word in _JOINED else "besides", {})[word] = value
    yield at, said
    for place, each in inside.items():
        yield from _places(each, place)


def _places_of_tools(tools: list[Json]) -> dict[str, Json]:
    told = {f"{at}": {**tool, "parameters": None} for at, tool in enumerate(tools)}
    schemas = {f"{at}": tool["parameters"] for at, tool in enumerate(tools) if "parameters" in tool}
    return told | {f"{at}:{place}": said for at, each in schemas.items() for place, said in places_of(each).items()}


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "cleanSchemaForGemini": _shown,
    "normalizeToolParameters": _shown,
    "sanitizeToolsForGoogle": _sanitized,
    "geminiUnsupportedKeywords": _left_out,
}
SAME: dict[str, Same] = {"geminiUnsupportedKeywords": _same_words}
FORM: dict[str, Form] = {
    "cleanSchemaForGemini": places_of,
    "normalizeToolParameters": places_of,
    "sanitizeToolsForGoogle": _places_of_tools,
}
