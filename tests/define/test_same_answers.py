"""One schema, one answer: a typed function and a tool with that raw schema take and refuse the same arguments."""

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from tests.define.declaring import Colour, Level, raw_tool, tool_taking

from toolcrib.define.errors import ArgumentError
from toolcrib.define.tool import Tool, tool


@dataclass(frozen=True)
class Point:
    x: int
    y: float | None
    unit: Annotated[str, Field(max_length=3)] = "px"


ANNOTATIONS: list[Any] = [
    str,
    int,
    float,
    bool,
    Literal["a", "1", "true"],
    Literal[1, 2],
    Colour,
    Level,
    dt.date,
    dt.datetime,
    dt.time,
    uuid.UUID,
    Point,
    int | None,
    list[str],
    list[int],
    list[bool] | None,
    tuple[float, ...],
    set[str],
    list[Point],
    dict[str, int],
    dict[str, bool],
    Annotated[int, Field(ge=1, lt=10)],
    Annotated[float, Field(gt=0, le=2.5)],
    Annotated[int, Field(multiple_of=3)],
    Annotated[str, Field(min_length=1, max_length=3)],
    Annotated[str, Field(pattern=r"^[a-z]\d*$")],
    Annotated[list[int], Field(min_length=1, max_length=2)],
]


def both_ways(annotation: Any) -> tuple[Tool, Tool]:
    typed = tool_taking(annotation)
    schema = typed.parameters
    return typed, raw_tool(schema["properties"], tuple(schema.get("required", ())))


WAYS = [(str(annotation), *both_ways(annotation)) for annotation in ANNOTATIONS]

SPELLINGS = st.sampled_from(
    ["", "a", "1", " 2 ", "3.0", "1.5", "1e2", "0x1f", "nan", "Infinity", "true", "True", "yes", "null", "red", "a1",
     "٣", "1_0", "2026-02-01", "2026-02-30", "2026-02-01T10:00", "2026-02-01T10:00:00Z", "10:30", "10:30:00+01:00",
     "1700000000", "12345678-1234-5678-1234-567812345678", "12345678123456781234567812345678"]
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-3, 12) | st.sampled_from([0.0, 1.0, 2.5, 3.0, 1e300]) | SPELLINGS
VALUES = st.recursive(
    SCALARS | st.text(max_size=4) | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "unit", "z"]), inner, max_size=3)
    ),
    max_leaves=5,
)
ARGUMENTS = st.fixed_dictionaries({"x": VALUES}) | st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2)


def answer(tool: Tool, args: Any) -> tuple[bool, Any]:
    try:
        checked = dict(tool.check(args))
    except ArgumentError as error:
        return False, str(error)
    return True, {name: value for name, value in checked.items() if value is not None}


@given(st.sampled_from(WAYS), ARGUMENTS)
def test_both_ways_of_declaring_take_and_refuse_alike(ways: tuple[str, Tool, Tool], args: Any) -> None:
    annotation, typed, raw = ways
    ours, theirs = answer(typed, args), answer(raw, args)
    assert ours[0] == theirs[0], f"{annotation}: {ours} but {theirs}"
    assert ours[0] or ours == theirs  # and complain in the same words


@given(st.sampled_from(WAYS), ARGUMENTS)
def test_checked_arguments_pass_the_check_again_unchanged(ways: tuple[str, Tool, Tool], args: Any) -> None:
    for each in ways[1:]:
        is_taken, checked = answer(each, args)
        assert not is_taken or answer(each, checked) == (True, checked)


@given(st.sampled_from([int, float, str, bool]), SCALARS)
def test_nothing_is_made_of_null_and_no_number_of_true(kind: type, value: Any) -> None:
    is_taken, checked = answer(tool_taking(kind), {"x": value})
    if value is None or (isinstance(value, bool) and kind in (int, float)):
        assert not is_taken
    assert not is_taken or type(checked["x"]) is kind


@tool
def many(n: list[int]) -> str:
    """Take many numbers."""
    return str(n)


@tool(name="many", description="Take many numbers.", parameters=many.parameters)
def many_raw(args: Mapping[str, Any]) -> str:
    return str(args)


@pytest.mark.parametrize("item", ["1", "x", 1.0, 1.5, None, 1], ids=repr)
@pytest.mark.parametrize("count", [2, 2_000, 9_000, 50_000])
def test_both_ways_answer_alike_however_many_there_are(item: Any, count: int) -> None:
    answers: list[Mapping[str, Any]] = []
    for each in (many, many_raw):
        try:
            answers.append(each.check({"n": [item] * count}))
        except ArgumentError as error:
            answers.append({"refused": str(error)})
    assert repr(answers[0]) == repr(answers[1])
