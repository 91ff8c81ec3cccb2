"""Two hundred awkward schemas, as servers of other people write them: the nastiest by hand, the rest from a seed."""

import random
from typing import Any

from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool, tool_named

__all__ = ["AWKWARD", "awkward_tools"]

_COUNT = 200
_SEED = 20_260
_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_NAMES = ("a", "b", "path", "type", "properties", "$ref", "__proto__", "naïve key", "名前", "x.y", "x/y~z", "", "🙂")
_TOOLS = ("probe", "3d-view", "_3d-view", "-", "_", "x" * 64, "9" * 64, "webfetch", "web-fetch", "task", "class")


_STRING = {"type": "string"}
_NUMBER = {"type": "number"}
_NULL = {"type": "null"}
_NOTES = (
    ("description", "d"), ("title", "T"), ("default", 1), ("format", "date"), ("minLength", 2), ("maximum", 5),
    ("pattern", "("),
)  # fmt: skip


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


_NESTED: Any = _STRING
for _ in range(40):
    _NESTED = _object(inner={"type": "array", "items": _NESTED})

_BY_HAND: dict[str, Any] = {
    "nothing": {},
    "true": True,
    "false": False,
    "null": None,
    "a list": [],
    "a text": "object",
    "a number": 7,
    "only a type": {"type": "object"},
    "a string at the root": _STRING,
    "an array at the root": {"type": "array", "items": _STRING},
    "no type": {"properties": {"a": {}}},
    "properties that are a list": {"type": "object", "properties": ["a", "b"]},
    "required without properties": {"type": "object", "required": ["a"]},
    "required that is no list": {"type": "object", "properties": {"a": _STRING}, "required": True},
    "a union at the root": {"anyOf": [_object(a=_STRING), _object(b={"type": "integer"})]},
    "oneOf at the root with tags": {
        "oneOf": [
            _object(kind={"const": "a"}, x=_NUMBER),
            _object(kind={"const": "b"}, x=_STRING),
        ]
    },
    "allOf at the root": {"allOf": [_object(a=_STRING), {"required": ["a"]}]},
    "unions within unions": _object(a={"anyOf": [{"oneOf": [_STRING, {"anyOf": [_NULL]}]}]}),
    "a union of lists": _object(a={"anyOf": [{"type": "array", "items": _STRING}, _STRING]}),
    "an empty union": _object(a={"anyOf": []}),
    "only null": _object(a=_NULL),
    "a list of types": _object(a={"type": ["string", "integer", "null"]}),
    "an empty list of types": _object(a={"type": []}),
    "an unknown type": _object(a={"type": "any"}, b={"type": "date"}, c={"type": 5}),
    "mixed enum": _object(a={"enum": [1, "two", None, True, 2.5, {"x": 1}, [3]]}),
    "an empty enum": _object(a={"enum": []}),
    "an enum of numbers": _object(a={"type": "integer", "enum": [1, 2, 3]}),
    "const": _object(a={"const": "x"}, b={"const": 5}, c={"const": None}, d={"const": {"x": []}}),
    "a tuple": _object(a={"type": "array", "prefixItems": [_STRING, _NUMBER], "items": False}),
    "an old tuple": _object(a={"type": "array", "items": [_STRING, _NUMBER]}),
    "an array of nothing": _object(a={"type": "array"}),
    "an array of anything": _object(a={"type": "array", "items": True}),
    "pattern properties": {"type": "object", "patternProperties": {"^x-": _STRING, "(": _NULL}},
    "additional properties": {
        "type": "object",
        "additionalProperties": {"anyOf": [_STRING, _NULL]},
    },
    "property names": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1},
    "if and then": {
        **_object(a=_STRING, b=_STRING),
        "if": {"properties": {"a": {"const": "x"}}},
        "then": {"required": ["b"]},
        "else": {"required": ["a"]},
    },
    "not": _object(a={"not": _STRING}, b={"not": {}}),
    "dependent": {
        **_object(a={}, b={}),
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"a": {"required": ["b"]}},
    },
    "a reference": {"$ref": "#/$defs/A", "$defs": {"A": _object(x=_STRING)}},
    "references in old words": {**_object(a={"$ref": "#/definitions/A"}), "definitions": {"A": {"type": "integer"}}},
    "a ring": {**_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": _object(next={"$ref": "#/$defs/A"})}},
    "the root in itself": _object(children={"type": "array", "items": {"$ref": "#"}}),
    "a reference that dangles": _object(a={"$ref": "#/$defs/Gone"}, b={"$ref": "https://x.test/s.json"}),
    "a reference with words beside it": {
        **_object(a={"$ref": "#/$defs/A", "description": "mine", "default": 3}),
        "$defs": {"A": {"type": "integer", "description": "theirs"}},
    },
    "deep nesting": _NESTED,
    "many members": _object(**{f"p{at}": _STRING for at in range(300)}),
    "a long description": {
        **_object(a={"type": "string", "description": "word " * 20_000}),
        "description": "x" * 50_000,
    },
    "other scripts": _object(名前={"type": "string", "description": "имя\u202e🙂\u0000"}, ключ={"enum": ["да", "нет"]}),
    "half a character": _object(a={**_STRING, "description": "a\ud83d", "default": "\ude00", "enum": ["\ud83d"]}),
    "names like keywords": _object(
        type=_STRING,
        properties={"type": "object"},
        required={"type": "boolean"},
        **{"$ref": _STRING},
    ),
    "names of prototypes": _object(__proto__=_STRING, constructor=_STRING, toString={}),
    "limits without sense": _object(
        a={"type": "string", "minLength": 9, "maxLength": 1}, b={"type": "number", "minimum": "x", "multipleOf": 0}
    ),
    "numbers out of range": _object(a={"type": "number", "minimum": -1e308, "maximum": 1e308, "default": 10**30}),
    "not a number": _object(a={"type": "number", "default": float("nan"), "maximum": float("inf")}),
    "patterns and formats": _object(a={"pattern": "(?<=x)(?!y)\\p{L}+", "format": "hostname"}, b={"format": "int64"}),
    "open interface words": _object(a={**_STRING, "nullable": True, "example": "x", "deprecated": True, "xml": {}}),
    "content": _object(a={"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}),
    "unevaluated": {**_object(a={}), "unevaluatedProperties": False, "$dynamicRef": "#x", "$anchor": "y"},
    "with a dialect": {
        "$schema": "https://x.test/draft#",
        "id": "x",
        **_object(a=_STRING),
    },
    "defaults of other types": _object(a={"type": "string", "default": {"x": 1}}, b={"type": "array", "default": "x"}),
    "titles that are no texts": _object(a={"type": "string", "title": 5, "description": ["x"]}),
    "members that are no schemas": _object(a="string", b=["string"], c=5, d=None),
}


def _grown(chance: random.Random, depth: int) -> Any:
    """Return a schema of any make."""
    kind = chance.choice(("plain", "plain", "object", "object", "array", "union", "all", "enum", "ref", "odd"))
    if depth <= 0 and kind in ("object", "array", "union", "all"):
        kind = "plain"
    several = [_grown(chance, depth - 1) for _ in range(chance.randrange(4))] if depth > 0 else []
    schema: dict[str, Any] = {}
    match kind:
        case "plain":
            schema = {"type": chance.choice((*_TYPES, [*chance.sample(_TYPES, 2)]))}
        case "object":
            members = {chance.choice(_NAMES): inner for inner in several}
            schema = {"type": "object", "properties": members, "required": chance.sample(_NAMES, 2)}
            schema |= {"additionalProperties": _grown(chance, 0)} if chance.random() < 0.3 else {}
        case "array":
            schema = {"type": "array", "items": several[0] if several else chance.choice((True, [], {}))}
        case "union":
            schema = {chance.choice(("anyOf", "oneOf")): several}
        case "all":
            schema = {"allOf": several, "type": "object"}
        case "enum":
            schema = {"enum": chance.sample(["x", "y", 1, 2.5, None, True, "", "é"], chance.randrange(1, 5))}
        case "ref":
            schema = {"$ref": chance.choice(("#/$defs/A", "#/$defs/B", "#", "#/properties/a", "other.json"))}
        case _:
            return chance.choice((True, False, {}, {"const": "x"}, {"not": {}}, {"if": {}, "then": {"type": "string"}}))
    notes = {
        "description": "d",
        "title": "T",
        "default": 1,
        "format": "date",
        "minLength": 2,
        "maximum": 5,
        "pattern": "(",
    }
    return schema | dict(chance.sample(sorted(notes.items(), key=str), chance.randrange(3)))


def _generated(count: int) -> dict[str, Any]:
    chance = random.Random(_SEED)
    made = {}
    for number in range(count):
        definitions = {"A": _grown(chance, 2), "B": _grown(chance, 1)}
        root = _grown(chance, 4)
        made[f"seed {number}"] = {**root, "$defs": definitions} if isinstance(root, dict) else root
    return made


AWKWARD: dict[str, Any] = _BY_HAND | _generated(_COUNT - len(_BY_HAND))


def awkward_tools() -> list[Tool]:
    """Return a tool for each of the schemas; their names are awkward too."""
    return [_tool(at, schema) for at, schema in enumerate(AWKWARD.values())]


def _tool(at: int, schema: Any) -> Tool:
    name = _TOOLS[at] if at < len(_TOOLS) else f"{_TOOLS[at % len(_TOOLS)][:58]}_{at}"
    return tool_named(name, f"Probe {name}.", Shape(lambda: schema, check_of_schema))
