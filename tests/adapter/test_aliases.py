"""Spellings that model families know: shown to them in place of ours, taken from everybody."""

from dataclasses import replace
from typing import Any

import pytest

from toolcrib.adapter import anthropic, gemini, openai, responses
from toolcrib.adapter.cards import Api, Target
from toolcrib.adapter.names import parameter_names, rename_parameters
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
    assert parameter_names(change, family) == {"path": "file_path", "oldText": "old_string"}
    declared = dict(change.parameters)
    seen = rename_parameters(declared, parameter_names(change, family))
    assert list(seen["properties"]) == ["file_path", "line", "old_string"]
    assert seen["properties"]["file_path"] is declared["properties"]["path"]
    assert seen["required"] == ["file_path", "line"]
    assert seen["additionalProperties"] is False
    assert list(declared["properties"]) == ["path", "line", "oldText"]


def parameters(api: Api, model: str, **options: Any) -> Any:
    """Return the schema of `change` as a request to this model has it."""
    target = Target(api=api, model=model, **options)
    match api:
        case "anthropic":
            return anthropic.request((), [change], target)["tools"][0]["input_schema"]
        case "gemini":
            return gemini.request((), [change], target)["tools"][0]["functionDeclarations"][0]["parameters"]
        case "openai":
            return openai.request((), [change], target)["tools"][0]["function"]["parameters"]
    return responses.request((), [change], target)["tools"][0]["parameters"]


@pytest.mark.parametrize(
    ("api", "model", "options"),
    [
        ("anthropic", "claude-opus-4", {}),
        ("anthropic", "", {"claude_code": True}),
        ("openai", "anthropic/claude-opus-4", {}),
        ("openai", "anthropic/claude-opus-4", {"strict": True}),
        ("responses", "claude-x", {}),
        ("gemini", "publishers/anthropic/models/claude-x", {}),
    ],
)
def test_a_request_has_the_spelling_that_its_model_knows(api: Api, model: str, options: Any) -> None:
    seen = parameters(api, model, **options)
    assert list(seen["properties"]) == ["file_path", "line", "old_string"]
    assert seen["required"][:2] == ["file_path", "line"]
    assert parameters(api, model, **options) is seen


@pytest.mark.parametrize(("api", "model"), [("openai", "gpt-5"), ("responses", ""), ("gemini", "gemini-3-pro")])
def test_a_request_to_another_model_has_our_own_names(api: Api, model: str) -> None:
    assert list(parameters(api, model)["properties"]) == ["path", "line", "oldText"]


def test_two_tools_of_one_shape_keep_their_own_spellings() -> None:
    plain = replace(change, aliases={})
    assert list(anthropic.declare(plain)["input_schema"]["properties"]) == ["path", "line", "oldText"]
    assert list(anthropic.declare(change)["input_schema"]["properties"]) == ["file_path", "line", "old_string"]


@pytest.mark.parametrize("family", OTHERS)
def test_everybody_else_sees_our_own_names(family: str) -> None:
    declared = dict(change.parameters)
    assert parameter_names(change, family) == {}
    assert rename_parameters(declared, parameter_names(change, family)) is declared


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"line": {"type": "integer"}}},
        {"type": "object", "properties": {"path": {}, "file_path": {}}, "required": ["path"]},
    ],
)
def test_what_the_shown_schema_does_not_have_is_not_renamed(schema: Any) -> None:
    assert rename_parameters(schema, parameter_names(change, "anthropic")) == schema


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
