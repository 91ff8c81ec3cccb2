"""What a provider is shown of a tool's arguments: one of four forms of the schema, remembered for each shape."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

from toolcrib.define.schema.portable import Shape

from .normalize import ShownSchema, make_encodable, normalize, normalize_for
from .normalize.keywords import FITTING, NOTES, SILENT, copy_plain
from .normalize.merge import Losses, SchemaReading, member_path
from .normalize.walk import Dialect, SchemaWalk

_STRICT = Dialect(
    refused=frozenset({"minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties", "patternProperties"}),
    silent=SILENT | {"examples"},
    tells_null=True,
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_OWN_WORDS = frozenset(
    {"type", "nullable", "default", "enum", "properties", "required", "items", "additionalProperties"}
)
_MAX_STRICT_LEVELS = 10  # of nested objects and arrays that OpenAI takes


def to_strict_form(schema: Any) -> ShownSchema:
    """Return any JSON value, read as the schema of a tool's arguments, in OpenAI's strict form."""
    walk = SchemaWalk(schema, _STRICT)
    closed = make_encodable(_close(walk.root(), "", 0, walk.losses))
    return ShownSchema(closed, tuple(dict.fromkeys(walk.losses)))


def _close(reading: SchemaReading, where: str, level: int, losses: Losses) -> dict[str, Any]:
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
        closed["items"] = _close(reading["items"], f"{where}[]", level + 1, losses)
    elif kind == "object":
        closed |= _close_object(reading, where, level, losses)
    return closed


def _close_object(reading: SchemaReading, where: str, level: int, losses: Losses) -> dict[str, Any]:
    members, required = reading.get("properties", {}), reading.get("required", ())
    others = reading.get("additionalProperties", not members and where != "")
    if others is not False:
        losses.append((where, "additionalProperties"))
    if members and level >= _MAX_STRICT_LEVELS:
        losses.append((where, "depth"))
        members = {}
    properties = {}
    for name, inner in members.items():
        if name not in required:
            inner["nullable"] = True
        properties[name] = _close(inner, member_path(where, name), level + 1, losses)
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def _is_taken(keyword: str, value: Any) -> bool:
    if keyword == "format":
        return value in _FORMATS
    return keyword != "pattern" or not any(look in value for look in ("(?=", "(?!", "(?<"))


GEMINI_DIALECT = Dialect(
    # of a value it gets the kind and the notes, and no limit at all
    refused=frozenset(FITTING) - NOTES | {"additionalProperties", "patternProperties"},
    silent=SILENT | {"examples"},
    enums=frozenset({"string"}),
)


def to_gemini_form(schema: Any) -> ShownSchema:
    """Return any JSON value, read as the schema of a tool's arguments, as Gemini takes it."""
    return normalize_for(GEMINI_DIALECT, schema)


Form = Literal["whole", "portable", "gemini", "strict"]

_CACHED_FORMS = 4096  # forms of shapes, the least used forgotten first
_MAX_LEVELS = 100  # of nested values in a schema that is shown whole
_CLOSED_OUT = frozenset({"additionalProperties", "patternProperties", "depth"})


def can_be_strict(shape: Shape) -> bool:
    """Tell whether the strict form has room for every argument: a map of any names has none in it."""
    return _CLOSED_OUT.isdisjoint(keyword for _, keyword in convert_schema(shape, "strict").losses)


def _keep_whole(schema: Any) -> ShownSchema:
    """Return the schema as it is, if its root says that it is an object; a client of MCP takes the rest as it comes."""
    copy = copy_plain(schema, _MAX_LEVELS)
    is_object = isinstance(copy, dict) and copy.get("type") == "object"
    return ShownSchema(make_encodable(copy)) if is_object else normalize(schema)


_FORMS: Mapping[Form, Callable[[Any], ShownSchema]] = {
    "whole": _keep_whole,
    "portable": normalize,
    "gemini": to_gemini_form,
    "strict": to_strict_form,
}


@lru_cache(maxsize=_CACHED_FORMS)
def convert_schema(shape: Shape, form: Form) -> ShownSchema:
    """Return the schema in that form. It is made once and shared by everybody: who wants to change it copies it."""
    return _FORMS[form](shape.schema)
