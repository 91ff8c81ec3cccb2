"""Foreign schemas for tests: any JSON at all, what a server might write, and bombs."""

from typing import Any

from hypothesis import strategies as st

__all__ = ["BOMBS", "json_values", "schemas", "with_comments"]

_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_NAMES = ("a", "b", "properties", "$ref", "type", "default", "__proto__", "toString", "required", "")
_REFERENCES = (
    "#/$defs/A",
    "#/$defs/B",
    "#/definitions/A",
    "#/properties/a",
    "#/$defs/A/properties/b",
    "#",
    "http://x/y",
)

_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(("", "x", "y", "é"))


def json_values() -> st.SearchStrategy[Any]:
    """Give any JSON value, the words of JSON Schema among its names."""
    names = st.sampled_from((*_NAMES, "anyOf", "allOf", "oneOf", "items", "enum", "const", "$defs", "not")) | st.text()
    atoms = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(_TYPES + _REFERENCES)
    return st.recursive(
        atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=25
    )


def schemas() -> st.SearchStrategy[Any]:
    """Give a schema as a server might write it, with definitions that may refer to each other."""
    inner = st.recursive(_leaves(), _nested, max_leaves=8)
    root = _nested(inner) | inner
    return st.builds(
        lambda schema, a, b: {**schema, "$defs": {"A": a, "B": b}} if isinstance(schema, dict) else schema,
        root,
        inner,
        inner,
    )


def _leaves() -> st.SearchStrategy[Any]:
    limits = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(_TYPES) | st.lists(st.sampled_from(_TYPES), max_size=3),
            "enum": st.lists(_scalars, max_size=3),
            "const": _scalars,
            "default": _scalars,
            "description": st.sampled_from(("first", "second")),
            "title": st.sampled_from(("t", 5)),
            "minLength": st.integers(-1, 3),
            "minimum": st.floats(allow_nan=True),
            "pattern": st.sampled_from(("^a", "(", "(?=x)")),
            "format": st.sampled_from(("date", "uri")),
            "examples": st.lists(_scalars, max_size=1),
        },
    )
    plain = st.sampled_from(_TYPES).map(lambda kind: {"type": kind})
    literal = st.builds(
        lambda value, notes: {"const": value, "type": "string", **notes},
        st.sampled_from(("x", "y", 1)),
        st.sampled_from(({}, {}, {"title": "T"}, {"description": "D"})),
    )
    reference = st.sampled_from(_REFERENCES).map(lambda ref: {"$ref": ref})
    return plain | plain | literal | reference | limits | st.booleans() | st.just({}) | st.just({"not": {}})


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3)
    several = st.lists(inner, max_size=3)
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": members},
        optional={
            "required": st.lists(st.sampled_from(_NAMES), max_size=3),
            "additionalProperties": st.booleans() | inner,
        },
    )
    composed = st.fixed_dictionaries(
        {},
        optional={
            "anyOf": several | st.lists(objects, max_size=3),
            "oneOf": several,
            "allOf": several,
            "$ref": st.sampled_from(_REFERENCES),
            "description": st.just("own"),
            "properties": members,
            "type": st.just("object"),
            "$defs": st.fixed_dictionaries({"A": inner}),
        },
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array")}, optional={"items": inner | several}
    ) | st.fixed_dictionaries({"prefixItems": several})
    maps = st.fixed_dictionaries({"patternProperties": st.dictionaries(st.just("^x"), inner)})
    return objects | objects | composed | lists | maps | several.map(lambda variants: {"anyOf": variants})


def with_comments(schema: Any) -> Any:
    """Return the schema with a comment at every place, which says nothing and is in the way of every shortcut."""
    if not isinstance(schema, dict):
        return schema
    noted = {**schema, "$comment": "in the way"}
    for keyword in ("properties", "$defs", "definitions", "patternProperties"):
        if isinstance(schema.get(keyword), dict):
            noted[keyword] = {name: with_comments(each) for name, each in schema[keyword].items()}
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(schema.get(keyword), list):
            noted[keyword] = [with_comments(each) for each in schema[keyword]]
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            noted[keyword] = with_comments(schema[keyword])
    return noted


def _doubling(levels: int, use: Any) -> dict[str, Any]:
    definitions = {f"d{at}": use(f"#/$defs/d{at + 1}") for at in range(levels)}
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**definitions, f"d{levels}": {"type": "string"}}}


def _nest(levels: int, around: Any) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = around(schema)
    return schema


_MANY = {f"m{at}": {"$ref": "#/$defs/big"} for at in range(2_000)}

BOMBS: dict[str, Any] = {
    "every definition uses the next one twice": _doubling(
        60, lambda ref: {"type": "object", "properties": {"x": {"$ref": ref}, "y": {"$ref": ref}}}
    ),
    "few enough of them that none is too deep": _doubling(
        28, lambda ref: {"type": "object", "properties": {"x": {"$ref": ref}, "y": {"$ref": ref}}}
    ),
    "every union holds the next one twice": _doubling(
        60, lambda ref: {"anyOf": [{"$ref": ref}, {"$ref": ref, "title": "t"}]}
    ),
    "every allOf holds the next one twice": _doubling(60, lambda ref: {"allOf": [{"$ref": ref}, {"$ref": ref}]}),
    "a long chain of references": _doubling(3_000, lambda ref: {"$ref": ref}),
    "a ring of references": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "one long text in two thousand places": {
        "type": "object",
        "properties": _MANY,
        "$defs": {"big": {"type": "string", "description": "x" * 100_000}},
    },
    "one long enum in two thousand places": {
        "type": "object",
        "properties": _MANY,
        "$defs": {"big": {"enum": [f"v{at}" for at in range(20_000)]}},
    },
    "members within members": _nest(500, lambda inner: {"type": "object", "properties": {"n": inner}}),
    "unions within unions": _nest(500, lambda inner: {"anyOf": [inner, {"type": "null"}]}),
    "lists within lists": _nest(500, lambda inner: {"type": "array", "items": inner}),
    "a default within lists": {"properties": {"a": {"default": _nest(500, lambda inner: [inner])}}},
    "long names above many members": {
        "properties": {
            "n" * 200_000: {"type": "object", "properties": {f"m{at}": {"minLength": 1} for at in range(4_000)}}
        }
    },
    "twenty thousand variants": {"anyOf": [{"type": "object", "properties": {f"p{at}": {}}} for at in range(20_000)]},
}
