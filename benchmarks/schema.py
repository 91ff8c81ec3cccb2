"""A thousand foreign schemas for Gemini against one bare walk over them, and a thousand functions declared."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from toolcrib import Tool, tool
from toolcrib.adapter import declare
from toolcrib.adapter.forms import to_gemini_form
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import tool_named

from . import Row, Work, interleaved

__all__ = ["functions", "measure", "schemas", "tools_of", "walked"]

COUNT = 1_000
WALK_BAR, CACHED_BAR, DECLARED = 2.5, 0.25, 50e-3  # the last in seconds

_DROPPED = frozenset(
    {"additionalProperties", "$schema", "$defs", "minLength", "maxLength", "minimum", "maximum", "pattern", "format"}
    | {"minItems", "maxItems"}
)


def schemas() -> list[dict[str, Any]]:
    """Return a thousand schemas of the kinds that plugins and MCP servers bring."""
    return [_schema(at) for at in range(COUNT)]


def _schema(at: int) -> dict[str, Any]:
    path = {"type": "string", "description": f"what tool {at} works on, in a sentence of some length", "minLength": 1}
    number = {"type": "integer", "minimum": 0, "maximum": 10_000, "default": 0, "description": "how many of them"}
    kind = {"type": "string", "enum": ["code", "text", "data", f"kind{at}"], "description": "which kind"}
    maybe = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None}
    order = {"anyOf": [{"const": word, "type": "string"} for word in ("asc", "desc", "none")]}
    filters = {
        "type": "object",
        "properties": {"field": {"type": "string", "pattern": "^[a-z_]+$"}, "op": kind, "value": maybe},
        "required": ["field", "op"],
    }
    match at % 5:
        case 0:
            return _object({"path": path, "offset": number, "limit": number}, "path")
        case 1:
            tags = {"type": "array", "items": {"type": "string"}, "maxItems": 20}
            asked = {"query": path, "order": order, "since": maybe, "kind": kind, "tags": tags}
            return {**_object(asked, "query"), "additionalProperties": False}
        case 2:
            ref = {"$ref": "#/$defs/Filter"}
            listed = {"filter": ref, "filters": {"type": "array", "items": ref}, "size": number}
            return {**_object(listed, "filter"), "$defs": {"Filter": filters}}
        case 3:
            verbs = ("create", "update", "delete")
            return {
                "anyOf": [_object({"action": {"const": v}, "target": path, f"of_{v}": number}, "action") for v in verbs]
            }
    item = {"id": {"type": "string", "format": "uuid"}, "count": number, "kind": kind}
    return _object({"items": {"type": "array", "items": _object(item, "id")}, "note": maybe}, "items")


def _object(properties: dict[str, Any], required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required]}


def tools_of(parameters: list[dict[str, Any]]) -> list[Tool]:
    """Return tools with these parameters, none of which any adapter has seen."""
    return [
        tool_named(f"tool_{at}", "Do it.", Shape(partial(dict, each), check_of_schema))
        for at, each in enumerate(parameters)
    ]


def walked(node: Any) -> Any:
    """Rebuild a tree without the keywords that Gemini does not take: the floor."""
    if type(node) is dict:
        return {key: walked(value) for key, value in node.items() if key not in _DROPPED}
    if type(node) is list:
        return [walked(value) for value in node]
    return node


def functions() -> list[Callable[..., Any]]:
    """Return a thousand typed functions, each its own."""

    def one(at: int) -> Callable[..., Any]:
        async def search(
            query: str, kind: Literal["code", "text", "all"] = "all", tags: list[str] | None = None, limit: int = 10
        ) -> str:
            """Search the workspace."""
            return query

        search.__name__ = f"search_{at}"
        return search

    return [one(at) for at in range(COUNT)]


def measure(rounds: int) -> list[Row]:
    """Return the rows of the schemas, measured here and now."""
    parameters, bodies = schemas(), functions()
    known = tools_of(parameters)
    works: dict[str, Work] = {
        "walk": lambda: [walked(each) for each in parameters],
        "anew": lambda: [to_gemini_form(each) for each in parameters],
        "again": lambda: [declare(each, "gemini") for each in known],
        "functions": lambda: [tool(each) for each in bodies],
    }
    works["again"]()
    taken = interleaved(works, rounds, time.process_time)
    asked = [
        (f"{COUNT:,} schemas for Gemini", "anew", WALK_BAR),
        (f"{COUNT:,} schemas for Gemini, again", "again", CACHED_BAR),
    ]
    rows = [
        Row(what=what, ours=taken[work], against="one walk", floor=taken["walk"], bar=bar) for what, work, bar in asked
    ]
    declared, limit = taken["functions"], [DECLARED] * rounds
    return [*rows, Row(what=f"{COUNT:,} typed functions", ours=declared, against="fixed", floor=limit, bar=1.0)]
