"""What cannot be shown to every model is refused when the tool is declared, naming the file and the parameter."""

import enum
import sys
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, Union

import annotated_types
import pytest
from pydantic import AliasChoices, BaseModel, Field
from tests.define.declaring import raw_tool, tool_taking

from toolcrib.define.context import Ctx
from toolcrib.define.errors import DeclarationError
from toolcrib.define.tool import tool


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Nothing(enum.Enum):
    """An enum without members."""


@dataclass
class Holder:
    fine: int
    odd: int | str


@dataclass
class Node:
    children: "list[Node]"


class Tree(BaseModel):
    left: "Tree | None" = None


@dataclass
class Unreadable:
    x: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  that it cannot be read is the point


@dataclass
class FieldForDefault:
    x: int = Field(default=3)


class OldTypedDict(typing.TypedDict):
    x: int


@pytest.mark.parametrize(
    ("annotation", "complaint"),
    [
        (int | str, "parameter 'x' is a union (int | str); only `X | None` is portable"),
        (Union[int, str, None], "parameter 'x' is a union"),  # noqa: UP007  the old spelling too
        (Annotated[int | str, "n"], "parameter 'x' is a union"),
        (list[int | str], "parameter 'x'[] is a union"),
        (Any, "parameter 'x' is Any, which not every model can fill in; use str, int"),
        (object, "parameter 'x' is object"),
        (bytes, "parameter 'x' is bytes"),
        (complex, "parameter 'x' is complex"),
        (Decimal, "parameter 'x' is Decimal"),
        (None, "parameter 'x' is None"),
        (type, "parameter 'x' is type"),
        (Callable[[int], int], "parameter 'x' is collections.abc.Callable[[int], int]"),
        (Iterable[int], "parameter 'x' is collections.abc.Iterable[int]"),
        (list, "parameter 'x' is a list without one kind of item; write list[str], for example"),
        (tuple[int, str], "parameter 'x' is a list without one kind of item"),
        (tuple[int], "parameter 'x' is a list without one kind of item"),
        (list[Any], "parameter 'x'[] is Any"),
        (dict, "parameter 'x' is a map; only maps from str to str, int, float or bool are portable"),
        (dict[str, Any], "parameter 'x' is a map"),
        (dict[int, str], "parameter 'x' is a map"),
        (dict[str, list[str]], "parameter 'x' is a map"),
        (Literal["a", 1], "parameter 'x' mixes kinds of values (['a', 1]); a flat enum has values of one kind"),
        (Literal["a", None], "parameter 'x' mixes kinds of values"),
        (Literal[1, True], "parameter 'x' mixes kinds of values"),
        (Literal[b"a"], "parameter 'x' mixes kinds of values"),
        (Mixed, "parameter 'x' mixes kinds of values ([1, 'two'])"),
        (Nothing, "parameter 'x' mixes kinds of values ([])"),
        (Holder, "parameter 'x'.odd is a union"),
        (list[Holder], "parameter 'x'[].odd is a union"),
        (Node, "parameter 'x'.children[] contains itself (Node); a schema cannot be endless"),
        (Tree, "parameter 'x'.left contains itself (Tree)"),
        (Unreadable, "parameter 'x': Unreadable has an annotation that cannot be read"),
        ("Nowhere", "parameter 'x': annotation 'Nowhere' cannot be read (name 'Nowhere' is not defined)"),
        ("int |", "parameter 'x': annotation 'int |' cannot be read"),
        (Annotated[str, Field(ge=1)], "parameter 'x' is of type string, which has no ge"),
        (Annotated[int, Field(pattern="a")], "parameter 'x' is of type integer, which has no pattern"),
        (Annotated[bool, annotated_types.MinLen(1)], "parameter 'x' is of type boolean, which has no min_length"),
        (Annotated[int, Field(default=3)], "parameter 'x' has a default or an alias in its Field; write `= value`"),
        (Annotated[int, Field(alias="n")], "parameter 'x' has a default or an alias in its Field"),
        (Annotated[int, Field(validation_alias=AliasChoices("n", "m"))], "parameter 'x' has a default or an alias"),
        (FieldForDefault, "parameter 'x': field 'x' has a Field for a default; write Annotated[..., Field(...)]"),
    ],
)  # fmt: skip
def test_an_annotation_outside_the_subset_is_refused(annotation: Any, complaint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        tool_taking(annotation)
    sentence = str(raised.value)
    assert sentence.startswith("tool probe (")
    assert "declaring.py:" in sentence
    assert complaint in sentence
    assert "\n" not in sentence


def test_a_typed_dict_that_pydantic_cannot_read_is_refused_with_the_remedy() -> None:
    if sys.version_info < (3, 12):
        with pytest.raises(DeclarationError, match=r"parameter 'x' is a typing\.TypedDict.*from typing_extensions$"):
            tool_taking(OldTypedDict)
    else:
        assert tool_taking(OldTypedDict).check({"x": {"x": "1"}}) == {"x": {"x": 1}}


def test_pydantics_field_behind_the_equals_sign_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"parameter 'x' has a Field for a default; write Annotated"):
        tool_taking(int, Field(default=3, ge=1))


def test_a_parameter_without_annotation_is_refused() -> None:
    def probe(x):  # type: ignore[no-untyped-def]
        """Probe."""

    with pytest.raises(DeclarationError, match=r"test_refusals\.py:\d+\): parameter 'x' has no annotation; use str"):
        tool(probe)


def positional(x: int, /) -> None:
    """Probe."""


def many(*x: int) -> None:
    """Probe."""


def named(**x: int) -> None:
    """Probe."""


@pytest.mark.parametrize("probe", [positional, many, named])
def test_what_cannot_be_passed_by_name_is_refused(probe: Callable[..., None]) -> None:
    with pytest.raises(DeclarationError, match=r"test_refusals\.py:\d+\): parameter 'x' cannot be passed by name"):
        tool(probe)


def test_the_context_comes_first() -> None:
    def probe(x: int, ctx: Ctx) -> None:
        """Probe."""

    with pytest.raises(DeclarationError, match="parameter 'ctx' is the context; write it first, and once"):
        tool(probe)


def test_a_tool_without_words_for_the_model_is_refused() -> None:
    def probe() -> None: ...

    for declare in (tool, tool(description="  ")):
        with pytest.raises(DeclarationError, match=r"tool probe \(.*\): needs a docstring or a description"):
            declare(probe)


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        (type("Union", (BaseModel,), {"__annotations__": {"x": int | str}}), "Union: parameter 'x' is a union"),
        (type("Bytes", (BaseModel,), {"__annotations__": {"x": bytes}}), "Bytes: parameter 'x' is bytes"),
        (Tree, "Tree: parameter 'left'.left contains itself (Tree)"),
    ],
)
def test_a_model_outside_the_subset_is_refused(shape: type[BaseModel], complaint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        tool(name="probe", description="Probe.", parameters=shape)(lambda args: "")
    assert str(raised.value).startswith("tool probe (")
    assert complaint in str(raised.value)


STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"anyOf": [STRING, {"type": "null"}]}, "parameter 'x' uses 'anyOf', which not every model takes; only"),
        ({"oneOf": [STRING]}, "parameter 'x' uses 'oneOf'"),
        ({"allOf": [STRING]}, "parameter 'x' uses 'allOf', which not every model takes; write the merged schema"),
        ({"$ref": "#/$defs/x"}, "parameter 'x' uses '$ref', which not every model takes; only '#/$defs/NAME' is"),
        ({"const": 1}, "parameter 'x' uses 'const', which not every model takes; write an enum with one value"),
        ({"not": STRING}, "parameter 'x' uses 'not'"),
        ({**STRING, "nullable": True}, "parameter 'x' uses 'nullable', which not every model takes; leave it out"),
        ({"type": "object", "patternProperties": {}}, "parameter 'x' uses 'patternProperties'"),
        ({"type": ["string", "null"]}, "parameter 'x' has type ['string', 'null']; use one of array, boolean"),
        ({"type": "null"}, "parameter 'x' has type 'null'"),
        ({"type": "text"}, "parameter 'x' has type 'text'"),
        ({}, "parameter 'x' has type None"),
        (True, "parameter 'x' must be a JSON Schema object, not True"),
        ({"type": "array"}, "parameter 'x'[] must be a JSON Schema object, not None"),
        ({"type": "array", "items": [STRING]}, "parameter 'x'[] must be a JSON Schema object"),
        ({"type": "array", "items": {"const": 1}}, "parameter 'x'[] uses 'const'"),
        ({**STRING, "enum": []}, "parameter 'x' needs a flat enum: a list of values of one kind"),
        ({**STRING, "enum": ["a", 1]}, "parameter 'x' needs a flat enum"),
        ({**STRING, "enum": ["a", None]}, "parameter 'x' needs a flat enum"),
        ({**STRING, "enum": "ab"}, "parameter 'x' needs a flat enum"),
        ({"type": "object", "enum": [{}]}, "parameter 'x' needs a flat enum"),
        ({"type": "object", "properties": []}, "parameter 'x': `properties` must be an object"),
        ({"type": "object", "required": True}, "parameter 'x': `required` must be a list of names"),
        ({"type": "object", "required": ["y"]}, "parameter 'x': `required` names 'y', which is not in `properties`"),
        ({"type": "object", "properties": {"y": {"const": 1}}}, "parameter 'x': parameter 'y' uses 'const'"),
        ({"type": "object", "additionalProperties": {"const": 1}}, "parameter 'x': values of the map uses 'const'"),
    ],
)  # fmt: skip
def test_a_raw_schema_outside_the_subset_is_refused(schema: Any, complaint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        raw_tool({"x": schema})
    assert str(raised.value).startswith("tool probe (")
    assert "declaring.py:" in str(raised.value)
    assert complaint in str(raised.value)


@pytest.mark.parametrize("root", [{"type": "array"}, {"type": ["object"]}, {"anyOf": []}, {}])
def test_the_root_of_a_raw_schema_is_an_object(root: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match="the schema's root must be"):
        tool(name="probe", description="Probe.", parameters=root)(lambda args: "")


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"type": "integer", "minimum": "low"}, "the schema itself is not valid"),
        ({"type": "string", "pattern": "("}, "the schema itself is not valid"),
    ],
)
def test_a_keyword_with_a_senseless_value_is_told_when_the_check_is_built(
    schema: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DeclarationError, match=complaint):
        raw_tool({"x": schema}).check({"x": 1})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Read", "; the canonical spelling is 'read'"),
        ("bash", "; the canonical spelling is 'exec'"),
        ("read ", "; the canonical spelling is 'read'"),
        ("reаd", ""),  # a Cyrillic a
        ("re\u200bad", ""),
        ("read.file", ""),
        ("a" * 65, ""),
    ],
)
def test_a_name_that_is_not_canonical_is_refused(name: str, hint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        tool(name=name, description="Probe.")(lambda: "")
    assert str(raised.value) == f"tool {name!r}: a name is 1 to 64 of a-z, 0-9, _ and -{hint}"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"effect": {"read"}},
            (
                "no option 'effect'; there are label, effects, group, owner_only, optional, exclusive, timeout, limit, "
                "markdown, notice, requires, aliases, narrow, late, paths, urls, recipients, commands, "
                "written, read_places, output, retry"
            ),
        ),
        ({"effects": {"read", "telepathy"}}, "no effect 'telepathy'; there are execute, network, read, send, write"),
        ({"group": "FS"}, "group 'FS' is not made of a-z, 0-9, _ and -"),
        ({"group": "group:fs"}, "group 'group:fs' is not made of a-z, 0-9, _ and -"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
        ({"timeout": -1.5}, "timeout must be a positive number of seconds, not -1.5"),
        ({"timeout": float("nan")}, "timeout must be a positive number of seconds, not nan"),
        ({"timeout": float("inf")}, "timeout must be a positive number of seconds, not inf"),
    ],
)
def test_an_option_that_cannot_work_is_refused(options: Any, complaint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        tool(name="probe", description="Probe.", **options)(lambda: "")
    assert str(raised.value) == f"tool probe: {complaint}"


def test_declaring_in_a_class_with_default_factories_is_fine() -> None:
    @dataclass
    class Fine:
        x: list[int] = field(default_factory=list)

    assert tool_taking(Fine).check({"x": {}}) == {"x": Fine()}
