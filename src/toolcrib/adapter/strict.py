"""Schemas in OpenAI's strict form: closed objects that name every member, optional ones taking null.

A null that a model writes for an optional member means "not given"; the check of arguments leaves it out.
"""

from typing import Any

from .normalize import Shown, carried
from .normalize.merge import Losses, Reading, inside
from .normalize.walk import Dialect, Walk
from .normalize.words import SILENT

__all__ = ["strict_form"]

_STRICT = Dialect(
    refused=frozenset({"minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties", "patternProperties"}),
    silent=SILENT | {"examples"},
    tells_null=True,
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_OWN_WORDS = frozenset(
    {"type", "nullable", "default", "enum", "properties", "required", "items", "additionalProperties"}
)
_LEVELS = 10  # of nested objects and arrays that OpenAI takes


def strict_form(schema: Any) -> Shown:
    """Return any JSON value, read as the schema of a tool's arguments, in OpenAI's strict form."""
    walk = Walk(schema, _STRICT)
    closed = carried(_closed(walk.root(), "", 0, walk.losses))
    return Shown(closed, tuple(dict.fromkeys(walk.losses)))


def _closed(reading: Reading, where: str, level: int, losses: Losses) -> dict[str, Any]:
    kind, nullable = reading["type"], "nullable" in reading
    closed: dict[str, Any] = {"type": [kind, "null"] if nullable else kind}
    for keyword, value in reading.items():
        if keyword not in _OWN_WORDS:
            if _is_taken(keyword, value):
                closed[keyword] = value
            else:
                losses.append((where, keyword))
    if "enum" in reading:
        closed["enum"] = [*reading["enum"], None] if nullable else reading["enum"]
    if kind == "array":
        closed["items"] = _closed(reading["items"], f"{where}[]", level + 1, losses)
    elif kind == "object":
        closed |= _closed_object(reading, where, level, losses)
    return closed


def _closed_object(reading: Reading, where: str, level: int, losses: Losses) -> dict[str, Any]:
    members, required = reading.get("properties", {}), reading.get("required", ())
    others = reading.get("additionalProperties", not members and where != "")
    if others is not False:
        losses.append((where, "additionalProperties"))
    if members and level >= _LEVELS:
        losses.append((where, "depth"))
        members = {}
    properties = {}
    for name, inner in members.items():
        if name not in required:
            inner["nullable"] = True
        properties[name] = _closed(inner, inside(where, name), level + 1, losses)
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def _is_taken(keyword: str, value: Any) -> bool:
    if keyword == "format":
        return value in _FORMATS
    return keyword != "pattern" or not any(look in value for look in ("(?=", "(?!", "(?<"))
