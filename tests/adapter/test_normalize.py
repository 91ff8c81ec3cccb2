"""Foreign schemas as one that every provider takes."""

import copy
from typing import Any

import jsonschema_rs
import orjson
import pytest
from hypothesis import given, settings

from toolcrib.adapter.forms import GEMINI_DIALECT, to_gemini_form, to_strict_form
from toolcrib.adapter.normalize import normalize
from toolcrib.define.schema.portable import check_portable_schema

from .foreign import BOMBS, json_values, schemas

FORMS = [normalize, to_gemini_form, to_strict_form]


def keywords(schema: Any) -> set[str]:
    """Return every keyword in use, at any depth; names of parameters do not count."""
    if not isinstance(schema, dict):
        return set()
    inner = [*schema.get("properties", {}).values(), schema.get("items")]
    extra = schema.get("additionalProperties")
    return set(schema).union(*map(keywords, [*inner, extra]))


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        (
            {"anyOf": [obj(a={"type": "string"}), obj(b={"type": "integer"})]},
            {"a": {"type": "string"}, "b": {"type": "integer"}},
        ),
        (
            {**obj(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "string"}}},
            {"a": {"type": "string"}},
        ),
        (obj(a={"const": "x"}), {"a": {"type": "string", "enum": ["x"]}}),
        (obj(a={"anyOf": [{"const": "x"}, {"const": "y"}]}), {"a": {"type": "string", "enum": ["x", "y"]}}),
        (obj(a={"anyOf": [{"type": "string"}, {"type": "null"}]}), {"a": {"type": "string"}}),
        (obj(a={"type": ["string", "null"]}), {"a": {"type": "string"}}),
        (obj(a={"allOf": [{"type": "string"}, {"minLength": 2}]}), {"a": {"type": "string", "minLength": 2}}),
        (obj(toString={"type": "string"}), {"toString": {"type": "string"}}),
    ],
)
def test_a_foreign_schema_becomes_a_plain_one(foreign: Any, shown: dict[str, Any]) -> None:
    assert normalize(foreign).schema["properties"] == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"$ref": "#/$defs/Count", "format": "int32"}, {"type": "integer"}),
        (
            {"allOf": [{"type": "integer"}], "format": "int64", "description": "d"},
            {"type": "integer", "description": "d"},
        ),
        ({"oneOf": [{"const": "a"}, {"const": "b"}], "exclusiveMaximum": 9}, {"type": "string", "enum": ["a", "b"]}),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}], "minItems": 1}, {"type": "boolean"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"anyOf": [{"type": "string"}, {"type": "array"}], "minItems": 1}, {"type": "array", "minItems": 1}),
    ],
)
def test_a_limit_tells_no_kind_where_a_schema_beside_it_does(said: Any, shown: dict[str, Any]) -> None:
    foreign = {**obj(a=said), "$defs": {"Count": {"type": "integer"}}}
    seen = normalize(foreign).schema["properties"]["a"]
    assert {word: seen[word] for word in seen if word != "items"} == shown


def test_only_what_every_variant_requires_stays_required() -> None:
    variants = [{**obj(a={}, b={}), "required": ["a", "b"]}, {**obj(a={}, c={}), "required": ["a", "c"]}]
    assert normalize({"anyOf": variants}).schema["required"] == ["a"]


@settings(max_examples=150)
@given(json_values() | schemas())
def test_whatever_comes_in_what_comes_out_is_portable(foreign: Any) -> None:
    before = copy.deepcopy(foreign)
    shown = normalize(foreign).schema
    check_portable_schema(shown, "shown")
    jsonschema_rs.validator_for(shown)
    assert repr(foreign) == repr(before)


@settings(max_examples=150)
@given(schemas())
def test_gemini_is_shown_no_keyword_it_refuses(foreign: Any) -> None:
    assert keywords(to_gemini_form(foreign).schema).isdisjoint(GEMINI_DIALECT.refused)


@settings(max_examples=150)
@given(schemas())
def test_the_strict_form_is_closed_and_names_every_member(foreign: Any) -> None:
    def check(schema: Any) -> None:
        if isinstance(schema, dict) and "properties" in schema:
            assert schema["additionalProperties"] is False
            assert sorted(schema.get("required", [])) == sorted(schema["properties"])
            for inner in schema["properties"].values():
                check(inner)
        if isinstance(schema, dict) and "items" in schema:
            check(schema["items"])

    check(to_strict_form(foreign).schema)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_cut_before_it_goes_off(name: str) -> None:
    for form in FORMS:
        assert len(orjson.dumps(form(BOMBS[name]).schema)) < 16 << 20


def test_what_is_not_told_is_listed() -> None:
    told = to_gemini_form(obj(a={"type": "string", "pattern": "^x", "not": {"const": "xy"}}))
    assert ("a", "pattern") in told.losses
    assert ("a", "not") in told.losses
