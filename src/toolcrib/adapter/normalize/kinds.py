"""Kinds of JSON values: which one a foreign schema is about, and which values of its enum a flat enum can hold."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["KINDS", "SCALARS", "chosen_kind", "evident_kind", "flat_enum"]

SCALARS = frozenset({"string", "integer", "number", "boolean"})
KINDS = SCALARS | {"array", "object"}
_KIND_OF: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
# What a keyword says about the kind of value where no `type` says it.
_EVIDENCE: Mapping[str, str] = {
    keyword: kind
    for kind, keywords in {
        "object": "properties required additionalProperties patternProperties minProperties maxProperties "
        "propertyNames dependentRequired dependentSchemas",
        "array": "items prefixItems minItems maxItems uniqueItems contains",
        "string": "pattern minLength maxLength format",
        "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    }.items()
    for keyword in keywords.split()
}


def evident_kind(schema: Mapping[str, Any]) -> str | None:
    """Return the kind of value the schema is about, from its `type` or else its keywords; None when nothing tells."""
    kind = schema.get("type")
    if isinstance(kind, (list, tuple)):
        kind = chosen_kind(kind)
    if isinstance(kind, str) and kind in KINDS:
        return kind
    return next((_EVIDENCE[keyword] for keyword in schema if keyword in _EVIDENCE), None)


def chosen_kind(kinds: Iterable[Any], wanted: str | None = None) -> str | None:
    """Return the one kind to show where several are allowed: the wanted one, else the first, a number for integers."""
    known = [kind for kind in kinds if isinstance(kind, str) and kind in KINDS]
    if wanted in known:
        return wanted
    if known and known[0] == "integer" and "number" in known:
        return "number"
    return known[0] if known else None


def flat_enum(values: Iterable[Any], kind: str | None) -> tuple[str | None, list[Any]]:
    """Return the values of one kind, and that kind: `kind` if it is given, else strings before others.

    No values means that an enum cannot say it: it lists objects, or nothing of the kind.
    """
    listed = list(values)
    types = set(map(type, listed))
    if kind is None:
        kinds = [_KIND_OF.get(type(value)) for value in listed]
        kind = "string" if str in types else next((each for each in kinds if each not in (None, "null")), None)
        if kind == "integer" and float in types:
            kind = "number"
    match kind:
        case "string":
            kept: list[Any] = listed if types == {str} else [value for value in listed if type(value) is str]
        case "boolean":
            kept = [value for value in listed if type(value) is bool]
        case "integer":
            kept = [int(value) for value in listed if _is_finite(value) and value == int(value)]
        case "number":
            kept = [value for value in listed if _is_finite(value)]
            if {int, float} <= set(map(type, kept)):
                kept = [number for value in kept if (number := _as_float(value)) is not None]
        case _:
            kept = []
    return kind, kept


def _is_finite(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _as_float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None
