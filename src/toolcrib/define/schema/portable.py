"""Raw JSON Schema within the portable subset: what an author may write by hand.

A `Shape` is what a tool takes. Its schema and the check of arguments are both made at first use.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolcrib.define.errors import DeclarationError

from .annotations import Schema

Check = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Shape:
    """A schema for the model and a check for us.

    The check takes arguments as a model wrote them and returns them coerced, or raises ArgumentError.
    """

    __slots__ = ("_make_check", "_make_schema", "_schema", "check")

    def __init__(self, schema: Callable[[], Schema], check: Callable[[Schema], Check]) -> None:
        self._make_schema, self._make_check = schema, check
        self._schema: Schema | None = None
        self.check: Check = self._first_check

    @property
    def schema(self) -> Schema:
        if self._schema is None:
            self._schema = self._make_schema()
        return self._schema

    def _first_check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        self.check = self._make_check(self.schema)
        return self.check(args)


_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})
_KEYWORDS = frozenset((
    "type", "description", "title", "default", "examples", "enum", "properties", "required",
    "additionalProperties", "items", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties",
))  # fmt: skip
_INSTEAD = {
    "anyOf": "only `X | None` is portable: leave the parameter out of `required`",
    "oneOf": "only one kind of value is portable",
    "allOf": "write the merged schema",
    "$ref": "only '#/$defs/NAME' is, which stands at the root and does not lead back to itself",
    "$defs": "they stand at the root",
    "const": "write an enum with one value",
}


def check_portable_schema(schema: Any, where: str) -> None:
    """Raise DeclarationError, naming the parameter, unless the root is an object within the portable subset."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise DeclarationError(f"{where}: the schema's root must be {{'type': 'object', 'properties': ...}}")
    defs = schema.get("$defs", {})
    root = {key: each for key, each in schema.items() if key not in ("$schema", "$defs")}
    for complaint in _complaints(_inline(root, defs if isinstance(defs, Mapping) else {}), where):
        raise DeclarationError(complaint)


def _inline(schema: Any, defs: Mapping[str, Any], seen: tuple[str, ...] = ()) -> Any:
    """Return a schema with what its references mean in their place; a reference that leads nowhere stays."""
    if not isinstance(schema, Mapping):
        return schema
    name = str(schema.get("$ref")).removeprefix("#/$defs/")
    beside = {key: _inline(each, defs, seen) for key, each in schema.items()}
    if name not in defs or name in seen or schema["$ref"] != f"#/$defs/{name}":
        return beside
    del beside["$ref"]
    inner = _inline(defs[name], defs, (*seen, name))
    return {**inner, **beside} if isinstance(inner, Mapping) else inner


def _complaints(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        yield f"{where} must be a JSON Schema object, not {schema!r}"
        return
    for keyword in schema:
        if keyword not in _KEYWORDS:
            yield f"{where} uses {keyword!r}, which not every model takes; {_INSTEAD.get(keyword, 'leave it out')}"
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        yield f"{where} has type {kind!r}; use one of {', '.join(sorted(_TYPES))}"
    yield from _enum_complaints(schema, where)
    if kind == "array":
        yield from _complaints(schema.get("items"), f"{where}[]")
    if kind == "object":
        yield from _object_complaints(schema, where)


def _enum_complaints(schema: Schema, where: str) -> Iterator[str]:
    values = schema.get("enum")
    if values is None:
        return
    kinds = {type(value) for value in values} if isinstance(values, (list, tuple)) else set()
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        yield f"{where} needs a flat enum: a list of values of one kind"


def _object_complaints(schema: Schema, where: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        yield f"{where}: `properties` must be an object"
        return
    required = schema.get("required", ())
    if not isinstance(required, (list, tuple)):
        yield f"{where}: `required` must be a list of names"
        return
    for name in required:
        if name not in properties:
            yield f"{where}: `required` names {name!r}, which is not in `properties`"
    for name, inner in properties.items():
        yield from _complaints(inner, f"{where}: parameter {name!r}")
    values = schema.get("additionalProperties", False)
    if not isinstance(values, bool):
        yield from _complaints(values, f"{where}: values of the map")
