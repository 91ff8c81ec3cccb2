"""Arguments against a shape: coerced where the spelling is clear, every complaint in one sentence."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Base64Str, BaseModel, Field, field_validator, model_validator
from tests.define.declaring import Colour, Level, raw_tool, tool_taking
from typing_extensions import TypedDict

from toolcrib.define.errors import ArgumentError
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.tool import Tool, tool


@dataclass(frozen=True)
class Point:
    x: int
    y: int | None
    unit: str = "px"


class Person(BaseModel):
    name: str
    age: int | None
    mail: str = Field(default="", alias="e-mail")


class Options(TypedDict):
    deep: bool
    seed: int | None


@pytest.mark.parametrize(
    ("annotation", "given", "coerced"),
    [
        (int, "5", 5),
        (int, " 5 ", 5),
        (int, 5.0, 5),
        (float, "1.5", 1.5),
        (float, 2, 2.0),
        (int, "1e2", 100),
        (int, "0x10", 16),
        (str, 5, "5"),
        (str, 5.0, "5"),
        (str, 1.5, "1.5"),
        (str, 1e21, "1e+21"),
        (str, True, "true"),
        (bool, 1, True),
        (bool, 0.0, False),
        (bool, "true", True),
        (bool, "false", False),
        (bool, "True", True),
        (bool, "False", False),
        (list[int], '["1", 2]', [1, 2]),
        (tuple[str, ...], ' ["a"] ', ("a",)),
        (dict[str, int], '{"a": "1"}', {"a": 1}),
        (list[Point], '[{"x": "1"}]', [Point(1, None)]),
        (list[int] | None, "[]", []),
        (str, "[1]", "[1]"),
        (list[int], ["1", 2], [1, 2]),
        (tuple[int, ...], ["1", 2], (1, 2)),
        (set[str], ["a", 1], {"a", "1"}),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (Literal["a", "b"], "a", "a"),
        (Literal[1, 2], "2", 2),
        (Colour, "red", Colour.RED),
        (Level, "2", Level.HIGH),
        (dt.date, "2026-02-01", dt.date(2026, 2, 1)),
        (dt.datetime, "2026-02-01T10:00:00Z", dt.datetime(2026, 2, 1, 10, tzinfo=dt.UTC)),
        (dt.datetime, "2026-02-01 10:00", dt.datetime(2026, 2, 1, 10)),  # noqa: DTZ001  no offset was given
        (dt.time, "10:30", dt.time(10, 30)),
        (Point, {"x": "1"}, Point(1, None)),
        (Point, {"x": 1, "y": None, "unit": None}, Point(1, None)),
        (list[Point], [{"x": 1, "y": "2"}], [Point(1, 2)]),
        (list[list[Point]] | None, [[{"x": 1}]], [[Point(1, None)]]),
        (Person, {"name": 7, "e-mail": "a@b"}, Person(name="7", age=None, **{"e-mail": "a@b"})),
        (Options, {"deep": "true"}, {"deep": True, "seed": None}),
    ],
)
def test_a_clear_spelling_is_coerced_to_the_declared_type(annotation: Any, given: Any, coerced: Any) -> None:
    checked = tool_taking(annotation).check({"x": given})
    assert checked == {"x": coerced}
    assert type(checked["x"]) is type(coerced)


Positive = Annotated[int, Field(ge=1)]
Filled = Annotated[str, Field(min_length=1)]


def test_limits_inside_an_optional_annotation_are_checked() -> None:
    for annotation in (Positive | None, Annotated[int | None, Field(ge=1)], list[Positive] | None):
        with pytest.raises(ArgumentError, match="must be at least 1, not -1"):
            tool_taking(annotation).check({"x": [-1] if annotation == list[Positive] | None else -1})


@pytest.mark.parametrize(
    ("annotation", "blanks"),
    [
        (Positive, [0, 0.0, "0", "", [], {}, None]),
        (Filled, ["", [], {}, None]),
        (Literal["a", "b"], [0, "", [], {}, None]),
        (list[Positive], [0, "", {}, None]),
        (dict[str, str], [0, "", [], None]),
        (bool, ["", [], {}, None]),
        (dt.date, [0, "", [], {}, None]),
        (Colour, [0, "", [], {}, None]),
        (Point, [0, "", [], {}, None]),
    ],
)
def test_a_blank_that_an_optional_parameter_does_not_take_is_not_given(annotation: Any, blanks: list[Any]) -> None:
    def plain(y: str, x: annotation | None = None) -> str:
        """Take what is optional."""
        return y

    for blank in blanks:
        assert tool(plain).check({"y": "", "x": blank}) == {"y": ""}, blank


@pytest.mark.parametrize(
    ("annotation", "blank", "taken"),
    [(str, "", ""), (int, 0, 0), (float, 0, 0.0), (list[int], [], []), (dict[str, int], {}, {}), (bool, 0, False),
     (bool, False, False)],
)  # fmt: skip
def test_a_blank_that_a_parameter_takes_is_a_value(annotation: Any, blank: Any, taken: Any) -> None:
    assert tool_taking(annotation | None).check({"x": blank}) == {"x": taken}


def test_a_blank_in_an_object_is_not_given_where_it_is_optional_there() -> None:
    class Window(BaseModel):
        width: Positive
        height: Positive | None = None

    def show(window: Window) -> str:
        """Show a window."""
        return "shown"

    assert tool(show).check({"window": {"width": 1, "height": 0}})["window"].height is None
    with pytest.raises(ArgumentError, match=r"window\.width must be at least 1, not 0"):
        tool(show).check({"window": {"width": 0, "height": 0}})


def test_a_blank_behind_a_reference_of_a_raw_schema_is_asked_there() -> None:
    schema = {
        "type": "object",
        "properties": {"few": {"$ref": "#/$defs/few"}, "any": {"$ref": "#/properties/few"}, "n": {"type": "integer"}},
        "$defs": {"few": {"type": "integer", "minimum": 1}},
    }
    assert check_of_schema(schema)({"few": 0, "n": "2"}) == {"n": 2}
    with pytest.raises(ArgumentError, match="any must be at least 1, not 0"):  # where it cannot be asked, it is a value
        check_of_schema(schema)({"any": 0})


@pytest.mark.parametrize(
    ("annotation", "given", "complaint"),
    [
        (int, "five", "x must be an integer, not 'five'"),
        (int, 1.5, "x must be an integer, not 1.5"),
        (int, "1.5", "x must be an integer, not '1.5'"),
        (int, True, "x must be an integer, not true"),
        (int, "1e300", "x must be an integer, not '1e300'"),
        (int, "٣", "x must be an integer, not '٣'"),
        (int, "1_000", "x must be an integer, not '1_000'"),
        (int, None, "x is required"),
        (float, "nan", "x must be a number, not 'nan'"),
        (float, "1e999", "x must be a number, not '1e999'"),
        (float, "Infinity", "x must be a number, not 'Infinity'"),
        (float, True, "x must be a number, not true"),
        (float, 10**400, "x should be a valid number, not 100000000000000000...0000000000000000000"),
        (str, ["a"], "x must be a string, not ['a']"),
        (str, None, "x is required"),
        (bool, "perhaps", "x must be true or false, not 'perhaps'"),
        (bool, "TRUE", "x must be true or false, not 'TRUE'"),
        (bool, 2, "x must be true or false, not 2"),
        (list[int], "1,2", "x must be a list, not '1,2'"),
        (list[int], "[1, 2", "x must be a list, not '[1, 2'"),
        (list[int], '{"a": 1}', "x must be a list, not '{\"a\": 1}'"),
        (list[int], '[1, "b"]', "x[1] must be an integer, not 'b'"),
        (list[int], [1, "b"], "x[1] must be an integer, not 'b'"),
        (list[int], [1, None], "x[1] must be an integer, not null"),
        (dict[str, int], {"a": "b"}, "x.a must be an integer, not 'b'"),
        (dict[str, int], {"a\nb": "c"}, "x['a\\nb'] must be an integer, not 'c'"),
        (Literal["a", "b"], "c", "x must be 'a' or 'b', not 'c'"),
        (Colour, "green", "x must be 'red' or 'blue', not 'green'"),
        (dt.date, "soon", "x must be a date such as 2026-02-01, not 'soon'"),
        (dt.date, "2023-02-29", "x must be a date such as 2026-02-01, not '2023-02-29'"),
        (dt.datetime, "1700000000", "x must be a date and time such as 2026-02-01T10:00:00Z, not '1700000000'"),
        (Annotated[int, Field(ge=1)], 0, "x must be at least 1, not 0"),
        (Annotated[str, Field(max_length=2)], "abc", "x must have at most 2 characters, not 3"),
        (Annotated[str, Field(pattern="^a")], "b", "x must match ^a, not 'b'"),
        (Annotated[int, Field(multiple_of=5)], 7, "x must be a multiple of 5, not 7"),
        (Annotated[dt.date, Field(ge=dt.date(2020, 1, 1))], "2019-12-31",
         "x should be greater than or equal to 2020-01-01, not '2019-12-31'"),
        (Point, {"y": 1}, "x.x is required"),
        (Point, {"x": 1, "unt": "em"}, "there is no parameter 'unt' in x (did you mean 'unit'?)"),
        (list[Point], [{"x": 1}, {"z": 1}],
         "there is no parameter 'z' in x[1] (it takes x, y, unit); x[1].x is required"),
        (Person, {"name": "a", "mail": "a@b"}, "there is no parameter 'mail' in x (did you mean 'e-mail'?)"),
        (Options, {"deep": True, "5": 1}, "there is no parameter '5' in x (it takes deep, seed)"),
        (list[Point], {"x": 1}, "x must be a list, not {'x': 1}"),
        (str, {"long": "a" * 99}, "x must be a string, not {'long': 'aaaaaaaaaaaaaaaaa...aaaaaaaaa…"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_its_place_and_the_value(annotation: Any, given: Any, complaint: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        tool_taking(annotation).check({"x": given})
    assert str(raised.value) == f"probe: {complaint}"
    assert raised.value.code == "bad_arguments"


class Search(BaseModel):
    """The same parameters as `by_function` and BY_SCHEMA."""

    query: str
    count: int = Field(default=5, ge=1, le=10)
    sites: list[str] | None = None


@tool(name="search")
def by_function(
    query: str,
    count: Annotated[int, Field(ge=1, le=10)] = 5,
    sites: list[str] | None = None,
) -> str:
    """Search."""
    return f"{query} {count} {sites}"


@tool(name="search", description="Search.", parameters=Search)
def by_model(args: Search) -> str:
    return f"{args.query} {args.count} {args.sites}"


@tool(
    name="search",
    description="Search.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "count": {"type": "integer", "default": 5, "minimum": 1, "maximum": 10},
            "sites": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
    },
)
def by_schema(args: Mapping[str, Any]) -> str:
    return f"{args['query']} {args.get('count', 5)} {args.get('sites')}"


WAYS = pytest.mark.parametrize("search", [by_function, by_model, by_schema], ids=["function", "model", "schema"])


@WAYS
@pytest.mark.parametrize(
    ("args", "checked"),
    [
        ({"query": "a"}, {"query": "a"}),
        ({"query": 5, "count": "3"}, {"query": "5", "count": 3}),
        ({"query": "a", "count": None, "sites": None}, {"query": "a"}),
        ({"query": "a", "sites": ["b", 1]}, {"query": "a", "sites": ["b", "1"]}),
    ],
)
def test_the_three_ways_take_the_same_arguments(search: Tool, args: dict[str, Any], checked: dict[str, Any]) -> None:
    assert search.check(args) == checked


@WAYS
@pytest.mark.parametrize(
    ("args", "complaints"),
    [
        ({}, ["query is required"]),
        ({"query": None}, ["query is required"]),
        ({"qery": "a"}, ["there is no parameter 'qery' (did you mean 'query'?)", "query is required"]),
        ({"query": "a", "zzz": 1}, ["there is no parameter 'zzz' (it takes query, count, sites)"]),
        ({"query": "a", "count": 11}, ["count", "11", "10"]),
        (
            {"query": [], "count": "x", "sites": [[]], "it's": 1},
            ["query", "count", "sites[0]", 'there is no parameter "it\'s"'],
        ),
    ],
)
def test_the_three_ways_complain_about_everything_at_once(
    search: Tool, args: dict[str, Any], complaints: Sequence[str]
) -> None:
    with pytest.raises(ArgumentError) as raised:
        search.check(args)
    sentence = str(raised.value)
    assert sentence.startswith("search: ")
    assert "\n" not in sentence
    for complaint in complaints:
        assert complaint in sentence


@pytest.mark.parametrize(
    ("schema", "given", "coerced"),
    [
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, "-3", -3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, "9" * 30, int("9" * 30)),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "2", 2),
        ({"type": "string"}, 5, "5"),
        ({"type": "boolean"}, "true", True),
        ({"type": "array", "items": {"type": "integer"}}, ["1"], [1]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "1"}, {"a": 1}),
        ({"type": "object", "properties": {"b": {"type": "integer"}}}, {"b": "1", "c": "1"}, {"b": 1, "c": "1"}),
    ],
)
def test_scalars_of_a_raw_schema_are_coerced_where_it_is_clear(schema: Any, given: Any, coerced: Any) -> None:
    checked = raw_tool({"x": schema}).check({"x": given})
    assert checked == {"x": coerced}
    assert type(checked["x"]) is type(coerced)


@pytest.mark.parametrize(
    ("schema", "given", "complaint"),
    [
        ({"type": "integer"}, "1.5", "x must be an integer, not '1.5'"),
        ({"type": "integer"}, True, "x must be an integer, not true"),
        ({"type": "integer"}, "", "x must be an integer, not ''"),
        ({"type": "number"}, "nan", "x must be a number, not 'nan'"),
        ({"type": "number"}, "inf", "x must be a number, not 'inf'"),
        ({"type": "boolean"}, "yes", "x must be true or false, not 'yes'"),
        ({"type": "string", "minLength": 2}, "a", "x must have at least 2 characters, not 1"),
        ({"type": "string", "pattern": "^a"}, "b", "x must match ^a, not 'b'"),
        ({"type": "string", "format": "date"}, "soon", "x must be a date such as 2026-02-01, not 'soon'"),
        ({"type": "string", "format": "email"}, "nope", "x must be a valid email, not 'nope'"),
        ({"type": "string", "enum": ["a", "b"]}, "c", "x must be 'a' or 'b', not 'c'"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, [1, 2], "x must have at most 1 item, not 2"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a", "a"],
         "x must hold each item once, not ['a', 'a']"),
        ({"type": "number", "exclusiveMinimum": 0}, 0, "x must be more than 0, not 0"),
        ({"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]}, {}, "x.y is required"),
        ({"type": "object", "additionalProperties": False}, {"z": 1}, "x takes no members; leave it empty"),
    ],
)  # fmt: skip
def test_every_keyword_of_a_raw_schema_is_checked(schema: Any, given: Any, complaint: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        raw_tool({"x": schema}, required=("x",)).check({"x": given})
    assert str(raised.value) == f"probe: {complaint}"


def test_a_raw_schema_takes_other_names_only_when_it_says_so() -> None:
    assert raw_tool({}, additionalProperties=True).check({"any": "thing"}) == {"any": "thing"}
    with pytest.raises(ArgumentError, match=r"^probe: there is no parameter 'any' \(leave it out\)$"):
        raw_tool({}).check({"any": "thing"})


def test_at_most_ten_complaints_are_listed() -> None:
    with pytest.raises(ArgumentError) as raised:
        tool_taking(int).check({"x": 1, **{f"p{n:02}": n for n in range(12)}})
    assert str(raised.value).count("there is no parameter") == 10
    assert str(raised.value).endswith("; and 2 more")


def test_a_models_own_validators_run_once_and_speak_for_themselves() -> None:
    class Span(BaseModel):
        start: int
        end: int
        note: Base64Str = ""

        @field_validator("start")
        @classmethod
        def _even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value + 2

        @model_validator(mode="after")
        def _in_order(self) -> "Span":
            if self.end < self.start:
                raise ValueError("the end comes before the start")
            return self

    span = tool(name="span", description="Span.", parameters=Span)(lambda args: "")
    assert span.check({"start": "2", "end": 9, "note": "aGk="}) == {"start": 4, "end": 9, "note": "hi"}
    for args, complaint in (
        ({"start": 1, "end": 2}, "start must be even, not 1"),
        ({"start": 4, "end": 2}, "the end comes before the start"),
    ):
        with pytest.raises(ArgumentError) as raised:
            span.check(args)
        assert str(raised.value) == f"span: {complaint}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["query", "count", "sites", "else"]), JSON))
def test_whatever_a_model_sends_is_taken_or_refused_in_one_line(args: dict[str, Any]) -> None:
    for search in (by_function, by_model, by_schema):
        assert len(outcome(search, args).splitlines()) == 1


def outcome(search: Tool, args: dict[str, Any]) -> str:
    try:
        return ", ".join(["taken", *search.check(args)])
    except ArgumentError as error:
        return str(error)


@pytest.mark.parametrize("args", [{"t": "\ud800aaa"}, {"t": [], "u": "\ud800"}, {"\ud800": 1}])
def test_half_a_character_is_a_complaint_where_other_things_are_wrong(args: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"t": {"type": "string", "maxLength": 2}}, "required": ["t"]}
    with pytest.raises(ArgumentError):
        check_of_schema(schema)(args)
