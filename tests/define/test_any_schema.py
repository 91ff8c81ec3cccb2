"""Any schema against any arguments: only declared errors, and never more than a moment of processor time."""

import contextlib
import json
import sys
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapter.foreign import json_values, schemas

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.define.errors import ArgumentError, DeclarationError
from toolcrib.define.schema.check import check_of_schema, fit_to
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import tool_named

MOMENT = 0.05  # seconds of processor time for one schema and its arguments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["5", "true", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from("ab") | st.text(max_size=3), VALUES, max_size=3)
SCHEMAS = (schemas() | json_values()).filter(lambda schema: isinstance(schema, dict))


def checked(schema: Any, args: Any) -> str:
    """Say what became of the arguments; raises what is not declared."""
    try:
        result = tool_named("probe", "Probe.", Shape(lambda: schema, check_of_schema)).check(args)
    except (ArgumentError, DeclarationError) as error:
        return str(error)
    assert isinstance(result, dict)
    return ""


@given(SCHEMAS, ARGUMENTS)
def test_arguments_are_taken_or_refused_in_one_line(schema: Any, args: Any) -> None:
    complaint = checked(schema, args)
    assert len(complaint.splitlines()) <= 1


@given(SCHEMAS, ARGUMENTS)
def test_what_is_taken_is_taken_again(schema: Any, args: Any) -> None:
    try:
        fit = fit_to(schema)
        once = fit(args)
    except (ArgumentError, DeclarationError):
        return
    assert repr(fit(once)) == repr(once)


def laughing(levels: int) -> dict[str, Any]:
    """Return a schema of a few lines that unfolds to 2 ** levels."""
    parts: dict[str, Any] = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": {"type": "object"}}}


def forking() -> dict[str, Any]:
    """Return a schema in which every level can be read in two ways."""
    ways = [{"required": [name], "properties": {name: {"const": 1}, "a": {"$ref": "#/$defs/n"}}} for name in "bc"]
    return {"type": "object", "$ref": "#/$defs/n", "$defs": {"n": {"anyOf": ways}}}


def nested(levels: int, **beside: Any) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value, **beside}
    return value


ENDLESS = {"type": "object", "additionalProperties": {"$ref": "#"}}
TWICE = {"allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2}
LISTS = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}


def long_enum(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"enum": [f"option {at}" for at in range(count)]}}}


MANY = "probe: the arguments do not fit the parameters; send fewer values to learn why"


@pytest.mark.parametrize(
    ("schema", "args", "complaint"),
    [
        (laughing(40), {}, "the schema unfolds to more than 20000 parts; write a smaller one"),
        (laughing(8), {}, ""),
        (forking(), nested(30, b=1, c=1), "probe: the arguments do not fit the parameters; send fewer levels of them"),
        (forking(), nested(30, c=1) | {"b": 1}, "probe: the arguments do not fit the parameters"),
        (ENDLESS, nested(60), ""),
        (ENDLESS, nested(5000), "probe: the arguments are nested more than 64 deep; write them flatter"),
        (TWICE, nested(60), ""),
        (LISTS, {"a": ["1"] * 2_000}, ""),
        (
            LISTS,
            {"a": ["1"] * 9_000},
            "probe: a[2998] must be an integer, not '1'; the arguments are long, so there may",
        ),
        (LISTS, {"a": ["1"] * 40_000}, MANY),
        (LISTS, {"a": ["x"] * 100_000}, MANY),
        (LISTS, {"a": [[]] * 100_000}, MANY),
        ({"additionalProperties": {"type": "integer"}}, {str(at): "x" for at in range(100_000)}, MANY),
        ({"additionalProperties": False}, {str(at): 1 for at in range(100_000)}, MANY),
        (long_enum(50), {"a": "x"}, "probe: a must be 'option 0', 'option 1', 'option 2'"),
        ({"$ref": "#/$defs/none"}, {}, "the schema itself is not valid"),
        ({"$ref": "https://example.invalid/schema"}, {}, "the schema itself is not valid"),
        ({"type": "strange"}, {}, "the schema itself is not valid"),
        ({"properties": {"a": {"pattern": "^(?=(x+)+$)"}}}, {"a": "x" * 5_000 + "y"}, "probe: a must match"),
        ({"patternProperties": {"^(?=a)": {"type": "integer"}}}, {"a": "5"}, "probe: a must be an integer"),
    ],
)
def test_what_is_made_to_be_slow_is_bounded(schema: Any, args: Any, complaint: str) -> None:
    assert checked(schema, args).startswith(complaint)
    assert checked(schema, args) != "" or not complaint


@pytest.mark.parametrize(
    ("schema", "given", "coerced"),
    [
        ({"type": ["number", "boolean"]}, "true", True),
        ({"type": ["string", "number"]}, "5", "5"),
        ({"type": ["integer", "null"]}, None, None),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, 5, 5),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "integer"}]}, ["5"], [5]),
        ({"oneOf": [{"$ref": "#/$defs/whole"}, {"type": "boolean"}]}, "5", 5),
        ({"$ref": "#/$defs/whole"}, "5", 5),
        ({"$ref": "#/$defs/odd~1name"}, "5", 5),
        ({"allOf": [{"$ref": "#/$defs/whole"}, {"minimum": 1}]}, "5", 5),
        (
            {"type": "object", "patternProperties": {"^n": {"type": "integer"}}},
            {"n": "5", "m": "5"},
            {"n": 5, "m": "5"},
        ),
        ({"type": "object", "properties": {"y": {"type": "string"}}}, {"y": None}, {}),
        ({"const": None}, None, None),
        ({}, None, None),
    ],
)
def test_foreign_schemas_are_coerced_like_our_own(schema: Any, given: Any, coerced: Any) -> None:
    definitions = {"whole": {"type": "integer"}, "odd/name": {"$ref": "#/$defs/whole"}}
    fit = fit_to({"type": "object", "properties": {"x": schema}, "$defs": definitions})
    assert fit({"x": given}) == {"x": coerced}


@pytest.mark.parametrize(
    ("schema", "given", "complaint"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, {}, "x must be a string or a list, not {}"),
        ({"anyOf": [{"type": "null"}, {"type": "object", "required": ["y"]}]}, {}, "x.y is required"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 5, "x must fit one of its 2 forms only, not 5"),
        ({"oneOf": [{"minimum": 5}, {"maximum": 1}]}, 3, "x must fit one of its 2 forms, not 3"),
        ({"const": "a"}, "b", "x must be 'a', not 'b'"),
        ({"not": {"type": "array"}}, [], "x: "),
        ({"type": "object", "minProperties": 1}, {}, "x must have at least 1 member, not 0"),
    ],
)
def test_complaints_about_foreign_schemas_are_sentences_too(schema: Any, given: Any, complaint: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        fit_to({"type": "object", "properties": {"x": schema}, "required": ["x"]})({"x": given})
    assert str(raised.value).startswith(complaint)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_campaign_of_schemas_and_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    worst: list[tuple[float, str]] = [(0.0, "")]
    checked({}, {"a": 1})  # what is imported at first use is not the input's doing

    @settings(max_examples=8_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(SCHEMAS, ARGUMENTS)
    def one(schema: Any, args: Any) -> None:
        text = json.dumps(args)
        began = time.process_time()
        with contextlib.suppress(ArgumentError):
            args = parse_arguments(text)
        checked(schema, args)
        worst[0] = max(worst[0], (time.process_time() - began, ascii((schema, args))[:500]))

    one()
    with capsys.disabled():
        sys.stdout.write(f"\nschemas and arguments: worst {worst[0][0] * 1000:.1f} ms for {worst[0][1]}\n")
    assert worst[0][0] < MOMENT
