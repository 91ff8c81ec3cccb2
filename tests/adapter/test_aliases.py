"""Spellings that model families know: shown to them in place of ours, taken from everybody."""

from typing import Any

import pytest

from toolcrib.adapter.aliases import shown_as, spelled
from toolcrib.define.errors import ArgumentError
from toolcrib.define.tool import Tool, tool

CLAUDE = ["anthropic", "claude-opus-4", "openrouter/anthropic/claude-x", "Anthropic", "bedrock/eu.anthropic.claude-3"]
OTHERS = ["openai", "gemini", "gpt-5", "mistral", "ollama/qwen3", ""]


@tool(aliases={"file_path": "path", "filename": "path", "old_string": "oldText"})
def change(path: str, line: int, oldText: str = "") -> str:  # noqa: N803  the documents' name
    """Change."""
    return f"{path} {line} {oldText}"


@pytest.mark.parametrize("family", CLAUDE)
def test_a_family_sees_the_spelling_it_knows_in_place_of_ours(family: str) -> None:
    assert shown_as(change, family) == {"path": "file_path", "oldText": "old_string"}
    declared = dict(change.parameters)
    seen = spelled(declared, change, family)
    assert list(seen["properties"]) == ["file_path", "line", "old_string"]
    assert seen["properties"]["file_path"] is declared["properties"]["path"]
    assert seen["required"] == ["file_path", "line"]
    assert seen["additionalProperties"] is False
    assert list(declared["properties"]) == ["path", "line", "oldText"]


@pytest.mark.parametrize("family", OTHERS)
def test_everybody_else_sees_our_own_names(family: str) -> None:
    declared = dict(change.parameters)
    assert shown_as(change, family) == {}
    assert spelled(declared, change, family) is declared


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"line": {"type": "integer"}}},
        {"type": "object", "properties": {"path": {}, "file_path": {}}, "required": ["path"]},
    ],
)
def test_what_the_shown_schema_does_not_have_is_not_renamed(schema: Any) -> None:
    assert spelled(schema, change, "anthropic") == schema


@pytest.mark.parametrize(
    ("args", "checked"),
    [
        ({"path": "a", "line": 1}, {"path": "a", "line": 1}),
        ({"file_path": "a", "line": "1", "old_string": ""}, {"path": "a", "line": 1, "oldText": ""}),
        ({"filename": "a", "line": 1}, {"path": "a", "line": 1}),
    ],
)
def test_every_spelling_is_taken_and_comes_back_under_our_own_name(args: Any, checked: Any) -> None:
    assert change.check(args) == checked


def raw(properties: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties}
    return tool(name="probe", description="Probe.", parameters=schema, aliases={"file_path": "path"})(lambda args: "")


@pytest.mark.parametrize("probe", [change, raw({"path": {"type": "string"}})], ids=["typed", "raw"])
def test_a_closed_schema_takes_its_spellings_and_nothing_else(probe: Tool) -> None:
    with pytest.raises(ArgumentError, match="there is no parameter 'file_pat'"):
        probe.check({"file_pat": "a", "line": 1})
    with pytest.raises(ArgumentError, match="there is no parameter 'new_string'"):
        probe.check({"path": "a", "line": 1, "new_string": "b"})
