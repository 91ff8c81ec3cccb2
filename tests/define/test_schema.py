"""Annotations to the portable JSON Schema subset."""

import datetime as dt
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Optional, Required

import annotated_types
import pytest
from pydantic import AfterValidator, BaseModel, Field
from pydantic import dataclasses as pydantic_dataclasses
from tests.define.declaring import Colour, Level, tool_taking
from typing_extensions import TypedDict

from toolcrib.define.tool import tool


@dataclass(frozen=True)
class Point:
    x: Annotated[int, "from the left"]
    y: int | None
    tags: list[str] = field(default_factory=list)
    unit: Literal["px", "em"] = "px"


class Person(BaseModel):
    name: str = Field(description="as in the passport", min_length=1)
    born: dt.date | None = None
    nick: str | None
    mail: str = Field(default="", alias="e-mail")
    phone: str = Field(default="", validation_alias="telephone")


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]
    seed: Required[int | None]


@pydantic_dataclasses.dataclass
class Size:
    width: int = Field(description="in pixels", gt=0)
    height: int = Field(default=10)


@dataclass(frozen=True)
class Line:
    start: Point
    others: list[Point]


POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "description": "from the left"},
        "y": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "unit": {"type": "string", "enum": ["px", "em"], "default": "px"},
    },
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.time, {"type": "string", "format": "time"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Literal[Colour.RED], {"type": "string", "enum": ["red"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}}),
        (frozenset[int], {"type": "array", "items": {"type": "integer"}}),
        (tuple[bool, ...], {"type": "array", "items": {"type": "boolean"}}),
        (Sequence[float], {"type": "array", "items": {"type": "number"}}),
        (list[list[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        (list[Literal["a"]], {"type": "array", "items": {"type": "string", "enum": ["a"]}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, str], {"type": "object", "additionalProperties": {"type": "string"}}),
        (Annotated[str, "the path"], {"type": "string", "description": "the path"}),
        (Annotated[str, Field(description="the path")], {"type": "string", "description": "the path"}),
        (Annotated[int, "n", Field(ge=1, le=9)], {"type": "integer", "description": "n", "minimum": 1, "maximum": 9}),
        (Annotated[int, annotated_types.Interval(gt=0, lt=5)],
         {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 5}),
        (Annotated[float, Field(multiple_of=0.5)], {"type": "number", "multipleOf": 0.5}),
        (Annotated[str, Field(min_length=1, max_length=3)], {"type": "string", "minLength": 1, "maxLength": 3}),
        (Annotated[str, Field(pattern="^a+$")], {"type": "string", "pattern": "^a+$"}),
        (Annotated[str, Field(pattern=re.compile("^a+$"))], {"type": "string", "pattern": "^a+$"}),
        (Annotated[list[int], annotated_types.Len(1, 2)],
         {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
        (Annotated[dict[str, bool], Field(max_length=4)],
         {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 4}),
        (Annotated[dt.date, Field(ge=dt.date(2020, 1, 1))], {"type": "string", "format": "date"}),
        (Annotated[int, AfterValidator(abs)], {"type": "integer"}),
        (Annotated[int, {"not": "hashable"}], {"type": "integer"}),
        (list[Annotated[int, Field(ge=1)]], {"type": "array", "items": {"type": "integer", "minimum": 1}}),
        (Point, POINT),
        (list[Point], {"type": "array", "items": POINT}),
        (Line, {
            "type": "object",
            "properties": {"start": POINT, "others": {"type": "array", "items": POINT}},
            "required": ["start", "others"],
            "additionalProperties": False,
        }),
        (Person, {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "as in the passport"},
                "born": {"type": "string", "format": "date"},
                "nick": {"type": "string"},
                "e-mail": {"type": "string", "default": ""},
                "telephone": {"type": "string", "default": ""},
            },
            "required": ["name"],
            "additionalProperties": False,
        }),
        (Options, {
            "type": "object",
            "properties": {"deep": {"type": "boolean"}, "limit": {"type": "integer"}, "seed": {"type": "integer"}},
            "required": ["deep"],
            "additionalProperties": False,
        }),
        (Size, {
            "type": "object",
            "properties": {
                "width": {"type": "integer", "exclusiveMinimum": 0, "description": "in pixels"},
                "height": {"type": "integer", "default": 10},
            },
            "required": ["width"],
            "additionalProperties": False,
        }),
    ],
)  # fmt: skip
def test_an_annotation_becomes_its_portable_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert tool_taking(annotation).parameters == {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "annotation",
    [
        int | None,
        Optional[int],  # noqa: UP045  the old spelling is what is tested
        Annotated[int | None, "n"],
        Annotated[int, Field(ge=1)] | None,
    ],
)
def test_a_parameter_is_optional_by_none_and_the_schema_does_not_speak_of_null(annotation: Any) -> None:
    parameters = tool_taking(annotation).parameters
    assert "required" not in parameters
    assert parameters["properties"]["x"]["type"] == "integer"


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (int, 3, {"type": "integer", "default": 3}),
        (bool, False, {"type": "boolean", "default": False}),
        (str, "", {"type": "string", "default": ""}),
        (Colour, Colour.BLUE, {"type": "string", "enum": ["red", "blue"], "default": "blue"}),
        (Level, Level.LOW, {"type": "integer", "enum": [1, 2], "default": 1}),
        (int | None, None, {"type": "integer"}),
        (float, math.inf, {"type": "number"}),  # JSON has no infinity
        (list[str], [], {"type": "array", "items": {"type": "string"}}),
        (dt.date, dt.date(2020, 1, 1), {"type": "string", "format": "date"}),
    ],
)
def test_a_parameter_is_optional_by_default_and_a_scalar_default_is_shown(
    annotation: Any, default: Any, shown: dict[str, Any]
) -> None:
    assert tool_taking(annotation, default).parameters == {
        "type": "object",
        "properties": {"x": shown},
        "additionalProperties": False,
    }


def test_a_tool_without_parameters_has_an_empty_object() -> None:
    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    assert ping.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_parameters_stand_in_the_order_they_are_written() -> None:
    @tool
    def copy(source: str, target: str, *, force: bool = False) -> str:
        """Copy."""
        return f"{source} {target} {force}"

    assert list(copy.parameters["properties"]) == ["source", "target", "force"]
    assert copy.parameters["required"] == ["source", "target"]
