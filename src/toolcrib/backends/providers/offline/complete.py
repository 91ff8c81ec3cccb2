"""The last word of a subagent: an answer as the arguments of `complete_task`, whatever its schema asks for."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.define.errors import ArgumentError
from toolcrib.define.tool import Tool

from .answers import Answer, Found
from .course import Step

__all__ = ["completion"]

_MOST = 20


def completion(tool: Tool, answer: Answer, trace: Sequence[str]) -> Step | None:
    """Return the call that hands the answer in, None when its schema cannot be met."""
    schema = tool.parameters
    for args in (_object(schema, answer, trace, every=True), _object(schema, answer, trace, every=False)):
        try:
            tool.check(args)
        except ArgumentError:
            continue
        return Step(tool.name, args)
    return None


def _object(schema: Mapping[str, Any], answer: Answer, trace: Sequence[str], *, every: bool) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    return {
        name: _value(name, part, answer, trace)
        for name, part in schema.get("properties", {}).items()
        if every or name in required
    }


def _value(name: str, schema: Mapping[str, Any], answer: Answer, trace: Sequence[str]) -> Any:
    if choices := schema.get("enum"):
        return next((each for each in choices if each in ("success", "done", "completed", "ok")), choices[0])
    match schema.get("type"):
        case "object":
            return _object(schema, answer, trace, every=True)
        case "array":
            return _items(name, schema.get("items", {}), answer, trace)
        case "boolean":
            return True
        case "integer" | "number":
            return answer.places[0].line if answer.places and "line" in name.lower() else 0
    if answer.places and re.search(r"path|file$|location$", name.lower()):
        return f"{answer.places[0].path}:{answer.places[0].line}" if "loc" in name.lower() else answer.places[0].path
    return answer.text


def _items(name: str, schema: Mapping[str, Any], answer: Answer, trace: Sequence[str]) -> list[Any]:
    low = name.lower()
    if re.search(r"trace|step|log|action", low):
        return list(trace)[:_MOST]
    if schema.get("type") == "object":
        return [_place(schema, place) for place in _by_file(answer.places)]
    if schema.get("type") == "string" and re.search(r"loc|file|path|place|where|reference|result", low):
        return [f"{place.path}:{place.line}" for place in answer.places[:_MOST]]
    return []


def _by_file(places: Sequence[Found]) -> list[Found]:
    return list({place.path: place for place in reversed(places)}.values())[::-1][:_MOST]


def _place(schema: Mapping[str, Any], place: Found) -> dict[str, Any]:
    """Return a line of a file as an object with whatever properties are wanted."""
    made: dict[str, Any] = {}
    wanted = schema.get("properties", {})
    has_line = any(part.get("type") in ("integer", "number") for part in wanted.values())
    told = place.text.strip() if has_line else f"line {place.line}: {place.text.strip()}"
    for name, part in wanted.items():
        low = name.lower()
        match part.get("type"):
            case "integer" | "number":
                made[name] = place.line
            case "array":
                symbols = re.findall(r"(?:def|class|fn|func|function|struct|type|const)\s+(\w+)", place.text)
                made[name] = symbols if part.get("items", {}).get("type") == "string" else []
            case "boolean":
                made[name] = True
            case "object":
                made[name] = {}
            case _:
                made[name] = place.path if re.search(r"path|file|loc|where", low) else told
    return made
