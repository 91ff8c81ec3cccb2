"""The keywords of JSON Schema that are kept as they are, if their value is one that may stand there."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

MISFIT: Any = object()

NOTES = frozenset({"title", "description", "default", "examples"})
TEXTS = frozenset({"type", "title", "description", "format"})
ATOMS = frozenset({str, bool, int, type(None)})  # values that need no copy
# Words that ask nothing of a value.
SILENT = frozenset((
    "$schema", "$id", "$anchor", "$comment", "$dynamicAnchor", "$vocabulary", "nullable", "deprecated",
    "readOnly", "writeOnly", "example", "contentEncoding", "contentMediaType", "contentSchema", "discriminator",
    "externalDocs", "propertyOrdering", "xml",
))  # fmt: skip
_MAX_LEVELS = 16  # of a default or an example


def copy_plain(value: Any, levels: int = _MAX_LEVELS) -> Any:
    """Return a copy of a JSON value; MISFIT for one that is nested deeper or holds a number that is not finite."""
    if type(value) in ATOMS:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else MISFIT
    if levels == 0:
        return MISFIT
    if isinstance(value, (list, tuple)):
        listed = [copy_plain(each, levels - 1) for each in value]
        return MISFIT if any(each is MISFIT for each in listed) else listed
    if isinstance(value, Mapping):
        members = {str(name): copy_plain(each, levels - 1) for name, each in value.items()}
        return MISFIT if any(each is MISFIT for each in members.values()) else members
    return MISFIT


@cache
def _patterns() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"format": "regex"}, validate_formats=True)


def _plain_of(*kinds: type) -> Callable[[Any], Any]:
    return lambda value: copy_plain(value) if type(value) in kinds else MISFIT


def _size(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else MISFIT


FITTING: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("title", "description", "format"), lambda text: text if isinstance(text, str) else MISFIT),
    "pattern": lambda text: text if isinstance(text, str) and _patterns().is_valid(text) else MISFIT,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _plain_of(int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _size),
    "multipleOf": lambda step: copy_plain(step) if type(step) in (int, float) and step > 0 else MISFIT,
    "uniqueItems": _plain_of(bool),
    "default": copy_plain,
    "examples": _plain_of(list, tuple),
}


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


def infer_kind(schema: Mapping[str, Any]) -> str | None:
    """Return the kind of value the schema is about, from its `type` or else its keywords; None when nothing tells."""
    kind = schema.get("type")
    if isinstance(kind, (list, tuple)):
        kind = choose_kind(kind)
    if isinstance(kind, str) and kind in KINDS:
        return kind
    return next((_EVIDENCE[keyword] for keyword in schema if keyword in _EVIDENCE), None)


def choose_kind(kinds: Iterable[Any], wanted: str | None = None) -> str | None:
    """Return the one kind to show where several are allowed: the wanted one, else the first, a number for integers."""
    known = [kind for kind in kinds if isinstance(kind, str) and kind in KINDS]
    if wanted in known:
        return wanted
    if known and known[0] == "integer" and "number" in known:
        return "number"
    return known[0] if known else None


def flatten_enum(values: Iterable[Any], kind: str | None) -> tuple[str | None, list[Any]]:
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
                kept = [float(value) for value in kept if abs(value) <= sys.float_info.max]
        case _:
            kept = []
    return kind, kept


def _is_finite(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))
