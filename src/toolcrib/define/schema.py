"""Annotations to the portable JSON Schema subset: what every provider takes and every author may use.

Scalars, flat enums, lists, nested objects and maps from strings to scalars. Ranges, lengths, patterns and formats
are kept. A default or `| None` makes a parameter optional. Everything else is refused when the tool is declared,
naming the parameter.
"""

import datetime as dt
import enum
import math
import re
import types
import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .errors import DeclarationError
from .fields import LISTS, SUBSET, Field, is_field_info, members_of

__all__ = ["Schema", "check_portable", "fields_of", "object_schema"]

Schema = Mapping[str, Any]

_SCALARS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    dt.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}
_MAPS = (dict, Mapping)
_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}

# pydantic and annotated-types constraints by attribute: the keyword of JSON Schema and the types it is about.
_NUMBERS = ("integer", "number")
_LIMITS = {
    "ge": ("minimum", _NUMBERS),
    "gt": ("exclusiveMinimum", _NUMBERS),
    "le": ("maximum", _NUMBERS),
    "lt": ("exclusiveMaximum", _NUMBERS),
    "multiple_of": ("multipleOf", _NUMBERS),
    "pattern": ("pattern", ("string",)),
}
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def fields_of(shape: type, where: str) -> tuple[Field, ...]:
    """Return the fields of a dataclass, pydantic model or TypedDict, each checked to be portable."""
    found = members_of(shape, where)
    if found is None:
        raise DeclarationError(f"{where}: {shape!r} is no dataclass, TypedDict or pydantic model")
    check_portable(found, f"{where}: {shape.__name__}")
    return found


def check_portable(fields: Iterable[Field], where: str) -> None:
    """Raise DeclarationError, naming the parameter, unless every field is within the portable subset."""
    for field in fields:
        try:
            _is_portable(field.annotation)
        except (DeclarationError, TypeError):  # refused, or of a kind that cannot be remembered
            _schema(field.annotation, f"{where}: parameter {field.name!r}", ())


@lru_cache(maxsize=1024)
def _is_portable(annotation: Any) -> bool:
    """Remember annotations that are within the subset: a thousand functions mostly share a few dozen."""
    _schema(annotation, "", ())
    return True


def object_schema(fields: Iterable[Field]) -> dict[str, Any]:
    """Return the schema of an object with these fields. An empty `required` is left out."""
    return _object(tuple(fields), "", ())


def _object(fields: tuple[Field, ...], where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    properties = {}
    for field in fields:
        made = _schema(field.annotation, f"{where}.{field.name}" if where else field.name, seen)
        if field.description:
            made = {**made, "description": field.description}
        default = field.default.value if isinstance(field.default, enum.Enum) else field.default
        if isinstance(default, (str, int)) or (isinstance(default, float) and math.isfinite(default)):
            made = {**made, "default": default}
        properties[field.name] = made
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [field.name for field in fields if field.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _schema(annotation: Any, where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    """Return the portable schema of one annotation; `seen` are the objects around it, to refuse a cycle."""
    scalar = _SCALARS.get(annotation) if isinstance(annotation, type) else None
    if scalar is not None:
        return dict(scalar)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(args[0], args[1:], where, seen)
    if origin is Union or origin is types.UnionType:
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) != 1:
            raise DeclarationError(f"{where} is a union ({annotation}); only `X | None` is portable")
        return _schema(rest[0], where, seen)
    if origin is Literal:
        return _enum(args, where)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enum([member.value for member in annotation], where)
    if origin in LISTS or annotation in LISTS:
        return _list(annotation, args, where, seen)
    if origin in _MAPS or annotation in _MAPS:
        return _map(args, where)
    members = members_of(annotation, where) if isinstance(annotation, type) else None
    if members is None:
        raise DeclarationError(f"{where} is {_spelled(annotation)}, which not every model can fill in; {SUBSET}")
    if annotation in seen:
        raise DeclarationError(f"{where} contains itself ({annotation.__name__}); a schema cannot be endless")
    return _object(members, where, (*seen, annotation))


def _annotated(inner: Any, notes: tuple[Any, ...], where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    schema = _schema(inner, where, seen)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif is_field_info(note):
            if note.description:
                schema["description"] = note.description
            for limit in note.metadata:
                _limit(schema, limit, where)
        else:
            _limit(schema, note, where)
    return schema


def _limit(schema: dict[str, Any], limit: Any, where: str) -> None:
    """Write one constraint into `schema`; what is no constraint (a validator, say) stays pydantic's business."""
    for attribute, (keyword, kinds) in _LIMITS.items():
        value = getattr(limit, attribute, None)
        # the earliest date, say, cannot be written in JSON Schema; pydantic knows it all the same
        if value is None or "format" in schema:
            continue
        _refuse_misfit(schema, attribute, kinds, where)
        schema[keyword] = value.pattern if isinstance(value, re.Pattern) else value
    for at, attribute in enumerate(("min_length", "max_length")):
        value = getattr(limit, attribute, None)
        if value is not None:
            _refuse_misfit(schema, attribute, tuple(_LENGTHS), where)
            schema[_LENGTHS[schema["type"]][at]] = value


def _refuse_misfit(schema: Schema, attribute: str, kinds: tuple[str, ...], where: str) -> None:
    if schema["type"] not in kinds:
        raise DeclarationError(f"{where} is of type {schema['type']}, which has no {attribute}; leave it out")


def _enum(values: Iterable[Any], where: str) -> dict[str, Any]:
    listed = [value.value if isinstance(value, enum.Enum) else value for value in values]
    kinds = {_JSON_TYPES.get(type(value)) for value in listed}
    if len(kinds) != 1 or None in kinds:
        raise DeclarationError(f"{where} mixes kinds of values ({listed}); a flat enum has values of one kind")
    return {"type": kinds.pop(), "enum": listed}


def _list(annotation: Any, args: tuple[Any, ...], where: str, seen: tuple[type, ...]) -> dict[str, Any]:
    items = [arg for arg in args if arg is not Ellipsis]
    if len(items) != 1 or (get_origin(annotation) is tuple and len(args) != 2):
        raise DeclarationError(f"{where} is a list without one kind of item; write list[str], for example")
    return {"type": "array", "items": _schema(items[0], f"{where}[]", seen)}


def _map(args: tuple[Any, ...], where: str) -> dict[str, Any]:
    if len(args) != 2 or args[0] is not str or args[1] not in _JSON_TYPES:
        raise DeclarationError(f"{where} is a map; only maps from str to str, int, float or bool are portable")
    return {"type": "object", "additionalProperties": dict(_SCALARS[args[1]])}


def _spelled(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
