"""Foreign schemas (MCP servers, plugins, connected clients) as one that every provider takes.

    normalize({"anyOf": [{"$ref": "#/$defs/Open"}, {"$ref": "#/$defs/Close"}], "$defs": ...})
    # Shown(schema={"type": "object", "properties": ...}, losses=())

What comes out is within the subset that our own authors write (`define/schema/portable.py`): definitions inlined,
unions flattened, every value of one kind. It is only for showing: arguments are checked against the original, and
`losses` says what the model does not see.
"""

from typing import Any, NamedTuple

import orjson

from toolcrib.adapter.wire import sanitize

from .walk import Dialect, SchemaWalk

_PORTABLE = Dialect()


class ShownSchema(NamedTuple):
    """A schema as a provider gets it, and what is left out of it: (place, keyword), the root's place being empty."""

    schema: dict[str, Any]
    losses: tuple[tuple[str, str], ...] = ()

    @property
    def clauses(self) -> list[str]:
        """The losses in words, one clause each."""
        return [f"{where or 'the arguments'}: {keyword}" for where, keyword in self.losses]


def normalize(schema: Any) -> ShownSchema:
    """Return any JSON value, read as the schema of a tool's arguments, as an object within the portable subset."""
    return normalize_for(_PORTABLE, schema)


def normalize_for(dialect: Dialect, schema: Any) -> ShownSchema:
    """Return the schema as a dialect of the portable subset has it."""
    walk = SchemaWalk(schema, dialect)
    return ShownSchema(make_encodable(walk.root()), tuple(walk.losses))


def make_encodable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as a wire can carry it: without halves of characters."""
    try:
        orjson.dumps(schema)
    except TypeError:  # that, or a number beyond 64 bits
        return {sanitize(name): _encodable_value(value) for name, value in schema.items()}
    return schema


def _encodable_value(value: Any) -> Any:
    match value:
        case str():
            return sanitize(value)
        case list():
            made = [_encodable_value(each) for each in value]
            return list(dict.fromkeys(made)) if all(isinstance(each, str) for each in made) else made
        case dict():
            return {sanitize(name): _encodable_value(inner) for name, inner in value.items()}
    return value
