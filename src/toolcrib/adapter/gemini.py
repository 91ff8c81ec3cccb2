"""Tools as Gemini takes them: the same schema without the keywords it refuses."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from toolcrib.define.tool import Tool

__all__ = ["declare", "losses"]

REFUSED = frozenset(
    [
        "patternProperties",
        "additionalProperties",
        "$schema",
        "$id",
        "$ref",
        "$defs",
        "definitions",
        "examples",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "multipleOf",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "default",
    ]
)
# Refused words whose absence changes nothing that the model could get wrong.
_HARMLESS = frozenset({"default", "examples"})


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool as a function declaration; one without parameters has no schema at all."""
    declared = {"name": tool.name, "description": tool.description}
    if not tool.parameters.get("properties"):
        return declared
    return {**declared, "parameters": deepcopy(_reduced(tool.parameters))}


def losses(tool: Tool) -> list[str]:
    """Return each constraint that Gemini is not told about; ours is the check that counts."""
    return [f"{where or 'the arguments'}: {keyword}" for where, keyword in _lost(tool.parameters, "")]


def _reduced(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in REFUSED}
    if "properties" in kept:
        kept["properties"] = {name: _reduced(inner) for name, inner in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _reduced(kept["items"])
    return kept


def _lost(schema: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    for keyword, value in schema.items():
        if (
            keyword in REFUSED
            and keyword not in _HARMLESS
            and not (keyword == "additionalProperties" and value is False)
        ):
            yield where, keyword
    for name, inner in schema.get("properties", {}).items():
        yield from _lost(inner, f"{where}.{name}" if where else name)
    if "items" in schema:
        yield from _lost(schema["items"], f"{where}[]")
