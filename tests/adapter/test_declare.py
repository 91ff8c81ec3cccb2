"""How each provider sees a tool: golden JSON, reviewed as diffs; conversations and streams are kept beside it.

After a deliberate change write the files anew with: python -m tests.adapter.golden
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Annotated, Any

import pytest
from pydantic import Field
from tests.adapter.awkward import awkward_tools
from tests.adapter.golden import GOLDEN, PROVIDERS, TOOLS, golden_files, written

from toolcrib.adapter import PROVIDERS as ADAPTERS
from toolcrib.adapter import declare, gemini, losses, openai, responses
from toolcrib.define.errors import ArgumentError, CribError
from toolcrib.define.tool import Tool, tool
from toolcrib.tools import SHELF


@pytest.mark.parametrize(("name", "value"), [*golden_files()], ids=lambda each: each if isinstance(each, str) else "")
def test_what_is_sent_and_read_is_what_its_golden_file_says(name: str, value: Any) -> None:
    assert written(value) == (GOLDEN / name).read_text(encoding="utf-8"), (
        f"{name} differs; if that is meant, run: python -m tests.adapter.golden"
    )


def test_there_is_no_golden_file_for_nothing() -> None:
    there = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.json")}
    assert there == {name for name, _ in golden_files()}


def test_every_provider_has_golden_files() -> None:
    assert sorted(ADAPTERS) == sorted(PROVIDERS)


def test_declaring_for_one_provider_changes_nothing_for_another() -> None:
    everything = [*TOOLS.values(), *SHELF, *awkward_tools(), spelled_tool]
    before = deepcopy([(each.parameters, list(_declared(each))) for each in everything])
    for each, (parameters, declared) in zip(everything, before, strict=True):
        assert (each.parameters, list(_declared(each))) == (parameters, declared), each.name


def _declared(each: Tool) -> Iterator[dict[str, Any]]:
    """Give the tool in every form that there is, for models that know other spellings too."""
    yield from (declare(each, provider) for provider in PROVIDERS)
    yield from (declare(each, provider, strict=True) for provider in ("openai", "responses"))
    yield gemini.declare(each, model="claude-x")
    for strict in (False, True):
        yield openai.declare(each, strict=strict, model="claude-x")
        yield responses.declare(each, strict=strict, model="claude-x")


@tool(aliases={"file_path": "path"})
def spelled_tool(path: str, other: int = 1) -> str:
    """Take a path."""
    return f"{path} {other}"


@pytest.mark.parametrize("provider", ["openai", "responses"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"type": "object", "properties": {"any": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}
            },
        },
    ],
    ids=["map", "any object", "open", "maps in a list"],
)
def test_what_cannot_be_said_strictly_is_declared_as_it_is(provider: str, parameters: Any) -> None:
    probe = tool(name="probe", description="Probe.", parameters=parameters)(lambda args: "")
    assert declare(probe, provider, strict=True) == declare(probe, provider)
    assert losses(probe, provider, strict=True) == losses(probe, provider)


@pytest.mark.parametrize("name", TOOLS)
def test_gemini_is_told_none_of_the_keywords_it_refuses(name: str) -> None:
    shown = json.dumps(declare(TOOLS[name], "gemini"))
    for keyword in ("additionalProperties", "minimum", "maxLength", 'pattern":', 'format":', "multipleOf"):
        assert keyword not in shown


def test_gemini_keeps_parameters_that_are_called_like_a_keyword() -> None:
    @tool
    def probe(pattern: str, default: int = 1, format: str = "") -> str:
        """Probe."""
        return f"{pattern} {default} {format}"

    assert declare(probe, "gemini")["parameters"] == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "default": {"type": "integer", "default": 1},
            "format": {"type": "string", "default": ""},
        },
        "required": ["pattern"],
    }
    assert losses(probe, "gemini") == []


@tool
def bounded(
    name: Annotated[str, Field(max_length=8, pattern="^a")],
    labels: dict[str, str],
    sizes: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)],
    plain: int = 3,
) -> str:
    """Take bounded things."""
    return f"{name} {labels} {sizes} {plain}"


def test_what_gemini_is_not_told_is_listed_by_place_and_keyword() -> None:
    assert sorted(losses(bounded, "gemini")) == [
        "labels: additionalProperties",
        "name: maxLength",
        "name: pattern",
        "sizes: minItems",
        "sizes[]: minimum",
    ]


@pytest.mark.parametrize("provider", ["anthropic", "mcp", "openai", "responses"])
def test_the_others_are_told_everything(provider: str) -> None:
    assert losses(bounded, provider) == []


def test_what_a_provider_is_not_told_is_checked_all_the_same() -> None:
    with pytest.raises(ArgumentError) as raised:
        bounded.check({"name": "bbbbbbbbb", "labels": {"a": []}, "sizes": [0]})
    for complaint in ("name must have at most 8", "labels.a must be a string", "sizes[0] must be at least 1"):
        assert complaint in str(raised.value)


def test_gemini_is_shown_no_schema_for_a_tool_without_parameters() -> None:
    assert declare(TOOLS["ping"], "gemini") == {"name": "ping", "description": "Answer pong."}
    assert declare(Tool.declared("read", "Read a file."), "gemini") == {"name": "read", "description": "Read a file."}


@pytest.mark.parametrize(
    ("provider", "hint"),
    [
        ("gemni", "did you mean 'gemini'?"),
        ("zzz", "there are anthropic, gemini, mcp, openai, responses"),
        ("", "there are"),
    ],
)
def test_a_provider_without_adapter_is_named_with_the_nearest(provider: str, hint: str) -> None:
    for ask in (declare, losses):
        with pytest.raises(CribError, match=f"^no adapter for {provider!r}; ") as raised:
            ask(TOOLS["ping"], provider)
        assert hint in str(raised.value)


@pytest.mark.parametrize(
    ("effects", "hints"),
    [
        (None, {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}),
        ({"read"}, {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}),
        ({"network"}, {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": True}),
        ({"send"}, {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": True}),
        ({"write"}, {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}),
        (set(), {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}),
    ],
)
def test_the_hints_of_mcp_are_read_from_the_effects(effects: Any, hints: dict[str, bool]) -> None:
    assert declare(Tool.declared("probe", "Probe.", effects=effects), "mcp")["annotations"] == hints
