"""What an agent takes and gives, however its author wrote it down, as the one JSON Schema that models are shown.

Three ways: a dataclass, TypedDict or pydantic model; raw JSON Schema; or a table of names with one of six types each:

    {"objective": {"type": "string", "description": "what to find out", "required": True},
     "folders": {"type": "string[]"}}
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from .check import check_of_fields, check_of_model, check_of_schema
from .errors import DeclarationError
from .fields import members_of
from .names import nearest
from .portable import check_portable_schema
from .schema import Schema, fields_of, object_schema
from .shape import Shape

__all__ = ["SIX", "Wanted", "defaults_of", "entry_schema", "is_schema", "schema_of", "shape_of", "table_schema"]

Wanted = type | Mapping[str, Any]

SIX: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "string[]": {"type": "array", "items": {"type": "string"}},
    "number[]": {"type": "array", "items": {"type": "number"}},
}
_RANGE, _COUNT = ("enum", "minimum", "maximum"), ("minItems", "maxItems")
# What an entry may say besides its type, description, required and default: the words of JSON Schema that fit its type.
_MORE: Mapping[str, tuple[str, ...]] = {
    "string": ("enum", "minLength", "maxLength", "pattern"),
    "number": _RANGE,
    "integer": _RANGE,
    "boolean": (),
    "string[]": _COUNT,
    "number[]": _COUNT,
}
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "string[]": lambda value: isinstance(value, list | tuple) and all(map(_FITS["string"], value)),
    "number[]": lambda value: isinstance(value, list | tuple) and all(map(_FITS["number"], value)),
}


def is_schema(wanted: Mapping[str, Any]) -> bool:
    """Tell JSON Schema from a table: in a table `type` would be the name of an input, with an entry of its own."""
    return isinstance(wanted.get("type"), str)


def schema_of(wanted: Wanted, where: str) -> Schema:
    """Return the JSON Schema of what was declared; raise DeclarationError when not every model could fill it in."""
    if isinstance(wanted, Mapping):
        if is_schema(wanted):
            check_portable_schema(wanted, where)
            return wanted
        return table_schema(wanted, where)
    return object_schema(fields_of(wanted, where))


def table_schema(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the schema of a table of inputs, or of `{"inputs": table}` around it. An empty `required` is left out."""
    inside = table.get("inputs")
    if table.keys() == {"inputs"} and isinstance(inside, Mapping) and all(map(_is_entry, inside.values())):
        table = inside
    properties = {name: entry_schema(name, entry, where) for name, entry in table.items()}
    required = [name for name, entry in table.items() if entry.get("required")]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def entry_schema(name: str, entry: Any, where: str) -> dict[str, Any]:
    """Return the schema of one row of a table; raise DeclarationError, naming the input and what would do."""
    if not name.strip():
        raise DeclarationError(f"{where}: an input has a blank name; give it one")
    if not _is_entry(entry):
        raise DeclarationError(f"{where}: input {name!r} must be a mapping with a type, not {entry!r}"[:300])
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in SIX:
        said = "null" if kind is None and "type" in entry else kind
        has = "has no type" if said is None else f"has the type {str(said)[:40]!r}"
        raise DeclarationError(f"{where}: input {name!r} {has}; there are {', '.join(SIX)}")
    for word, value in entry.items():
        if complaint := _complaint(word, value, kind):
            raise DeclarationError(f"{where}: input {name!r}: {complaint}")
    said = {word: value for word, value in entry.items() if word not in ("type", "required")}
    return {**SIX[kind], **said}


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping)


def _complaint(word: str, value: Any, kind: str) -> str | None:
    """Say what is wrong with one word of a row, or None."""
    if word == "type":
        return None
    if word == "required":
        return None if isinstance(value, bool) else f"`required` is true or false, not {value!r}"
    if word == "description":
        return None if isinstance(value, str) else f"`description` is text, not {value!r}"
    if word == "default":
        return None if _FITS[kind](value) else f"`default` must be of type {kind}, not {value!r}"
    known = ("type", "description", "required", "default", *_MORE[kind])
    if word not in known:
        close = nearest(word, known)
        return f"{word!r} says nothing about a {kind}; " + (f"write {close[0]!r}" if close else "leave it out")
    if word == "enum":
        fits = isinstance(value, list | tuple) and bool(value) and all(map(_FITS[kind], value))
        return None if fits else f"`enum` is a list of values of type {kind}"
    if word == "pattern":
        return None if isinstance(value, str) else f"`pattern` is text, not {value!r}"
    fits = _FITS["number" if word in _RANGE else "integer"](value)
    return None if fits else f"{word!r} is a number, not {value!r}"


def shape_of(wanted: Wanted, where: str) -> Shape:
    """Return the schema of the arguments and their check; nothing but what was declared is taken."""
    if isinstance(wanted, Mapping):
        schema = {"properties": {}, "additionalProperties": False, **schema_of(wanted, where)}
        return Shape(lambda: schema, check_of_schema)
    fields = fields_of(wanted, where)
    if issubclass(wanted, BaseModel):
        return Shape(lambda: object_schema(fields), lambda schema: check_of_model(wanted, schema))
    return Shape(lambda: object_schema(fields), lambda schema: check_of_fields(fields, schema))


def defaults_of(wanted: Wanted, where: str) -> dict[str, Any]:
    """Return the value of every input that has one when nobody gives it."""
    if isinstance(wanted, Mapping):
        properties = schema_of(wanted, where).get("properties", {})
        return {name: each["default"] for name, each in properties.items() if "default" in each}
    if issubclass(wanted, BaseModel):
        listed = zip(members_of(wanted, where) or (), wanted.model_fields.values(), strict=True)
        return {
            each.name: info.get_default(call_default_factory=True) for each, info in listed if not info.is_required()
        }
    if not dataclasses.is_dataclass(wanted):
        return {}
    return {each.name: value for each in dataclasses.fields(wanted) if (value := _default(each)) is not _NONE}


_NONE = object()


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else _NONE
