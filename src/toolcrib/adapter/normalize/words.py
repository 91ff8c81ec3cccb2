"""The keywords of JSON Schema that are kept as they are, if their value is one that may stand there."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

__all__ = ["ATOMS", "FITTING", "MISFIT", "NOTES", "SILENT", "TEXTS", "plain"]

MISFIT: Any = object()

NOTES = frozenset({"title", "description", "default", "examples"})
TEXTS = frozenset({"type", "title", "description", "format"})
ATOMS = frozenset({str, bool, int, type(None)})  # values that need no copy
# Words that ask nothing of a value.
SILENT = frozenset(
    [
        "$schema",
        "$id",
        "$anchor",
        "$comment",
        "$dynamicAnchor",
        "$vocabulary",
        "nullable",
        "deprecated",
        "readOnly",
        "writeOnly",
        "example",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "discriminator",
        "externalDocs",
        "propertyOrdering",
        "xml",
    ]
)
_LEVELS = 16  # of a default or an example


def plain(value: Any, levels: int = _LEVELS) -> Any:
    """Return a copy of a JSON value; MISFIT for one that is nested deeper or holds a number that is not finite."""
    if type(value) in ATOMS:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else MISFIT
    if levels == 0:
        return MISFIT
    if isinstance(value, (list, tuple)):
        listed = [plain(each, levels - 1) for each in value]
        return MISFIT if any(each is MISFIT for each in listed) else listed
    if isinstance(value, Mapping):
        members = {str(name): plain(each, levels - 1) for name, each in value.items()}
        return MISFIT if any(each is MISFIT for each in members.values()) else members
    return MISFIT


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else MISFIT


def _pattern(value: Any) -> Any:
    return value if isinstance(value, str) and _patterns().is_valid(value) else MISFIT


@cache
def _patterns() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"format": "regex"}, validate_formats=True)


def _flag(value: Any) -> Any:
    return value if isinstance(value, bool) else MISFIT


def _number(value: Any) -> Any:
    return plain(value) if type(value) in (int, float) else MISFIT


def _step(value: Any) -> Any:
    return _number(value) if type(value) in (int, float) and value > 0 else MISFIT


def _size(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else MISFIT


def _examples(value: Any) -> Any:
    return plain(value) if isinstance(value, (list, tuple)) else MISFIT


FITTING: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("title", "description", "format"), _text),
    "pattern": _pattern,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _size),
    "multipleOf": _step,
    "uniqueItems": _flag,
    "default": plain,
    "examples": _examples,
}
