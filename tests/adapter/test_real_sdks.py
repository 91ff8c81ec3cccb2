"""What we send is what the providers' own packages send: their request types take it whole, and so do their parsers."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from anthropic.types import RawMessageStreamEvent, ToolParam
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types as genai
from mcp import types as mcp_types
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter
from tests.adapter.awkward import AWKWARD, awkward_tools

from toolcrib.adapter import anthropic, gemini, mcp, openai, responses
from toolcrib.adapter.cards import Target
from toolcrib.define.event import Usage
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Image, Result, Text
from toolcrib.define.tool import Tool
from toolcrib.tools import SHELF

CLAUDE = Target(api="anthropic", model="claude-x")
GEMINI_2, GEMINI_3 = Target(api="gemini", model="gemini-2.5-pro"), Target(api="gemini", model="gemini-3-pro")
PNG = b"\x89PNG\r\n\x1a\nrest"


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def exhausted(value: Any) -> Any:
    """Return a value with everything read that its check only promised to read."""
    if isinstance(value, Mapping):
        return {key: exhausted(inner) for key, inner in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Iterator | Sequence):
        return value
    return [exhausted(inner) for inner in value]


def takes(kind: Any, value: Any) -> bool:
    """Tell whether a type of the package takes a value, and every key of it; raise where it does not."""
    return bool(exhausted(adapter(kind).validate_python(value)) == value)


TOOLS: Sequence[Tool] = (*SHELF, *awkward_tools())


def test_there_are_two_hundred_awkward_schemas() -> None:
    assert len(AWKWARD) == 200
    assert len({tool.name for tool in awkward_tools()}) == 200


def test_openai_takes_every_tool() -> None:
    for tool in TOOLS:
        assert takes(ChatCompletionFunctionToolParam, openai.declare(tool))
        assert takes(ChatCompletionFunctionToolParam, openai.declare(tool, strict=True))


@pytest.mark.parametrize("strict", [False, True])
def test_openai_responses_take_every_tool(strict: bool) -> None:
    target = Target(api="responses", model="gpt-x", strict=strict)
    for declared in responses.request([], TOOLS, target)["tools"]:
        assert takes(FunctionToolParam, declared)


def test_what_is_strict_is_closed_at_every_place() -> None:
    strict = [made for tool in TOOLS if "strict" in (made := openai.declare(tool, strict=True)["function"])]
    assert len(strict) > 50
    for declared in strict:
        for place in places(declared["parameters"]):
            if "properties" in place:
                assert place["additionalProperties"] is False
                assert place["required"] == list(place["properties"])


@pytest.mark.parametrize("claude_code", [False, True])
def test_anthropic_takes_every_tool(claude_code: bool) -> None:
    made = anthropic.request([], TOOLS, Target(api="anthropic", model="claude-x", claude_code=claude_code))
    assert len({declared["name"] for declared in made["tools"]}) == len(made["tools"]) == len(TOOLS)
    for declared in made["tools"]:
        assert takes(ToolParam, declared)
        assert declared["input_schema"]["type"] == "object"


def test_gemini_takes_every_tool() -> None:
    offered = gemini.request([], TOOLS, GEMINI_3)["tools"][0]["functionDeclarations"]
    assert len({declared["name"] for declared in offered}) == len(TOOLS)
    for declared in offered:
        genai.FunctionDeclaration.model_validate(declared)
        assert declared["name"][0].isalpha() or declared["name"][0] == "_"


DECLARE: Sequence[Callable[[Tool], dict[str, Any]]] = (openai.declare, anthropic.declare, gemini.declare, mcp.declare)
AS_WRITTEN: Sequence[tuple[Tool, Any]] = [(tool, tool.parameters) for tool in TOOLS]
NO_OBJECTS = [tool for tool, schema in AS_WRITTEN if not isinstance(schema, Mapping)]
HALVES = [tool for tool in TOOLS if "\\ud8" in json.dumps(tool.parameters)]
USUAL = [tool for tool in TOOLS if tool not in (*NO_OBJECTS, *HALVES)]


def test_mcp_takes_every_tool() -> None:
    for tool in USUAL:
        mcp_types.Tool.model_validate(mcp.declare(tool))


def test_mcp_takes_tools_whose_schema_is_no_object() -> None:
    for tool in NO_OBJECTS:
        mcp_types.Tool.model_validate(mcp.declare(tool))


@pytest.mark.parametrize("declare", DECLARE)
def test_every_declaration_can_be_written(declare: Callable[[Tool], dict[str, Any]]) -> None:
    for tool in USUAL:
        assert json.loads(written(declare(tool))) == declare(tool)


@pytest.mark.parametrize("declare", DECLARE)
def test_half_a_character_in_a_schema_does_not_reach_the_wire(declare: Callable[[Tool], dict[str, Any]]) -> None:
    for tool in HALVES:
        written(declare(tool))
        written(declare(replace(tool, description="half \ud83d", label="\udc00 half")))


def written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def places(schema: Any) -> Iterator[dict[str, Any]]:
    """Give every schema within a schema."""
    if isinstance(schema, dict):
        yield schema
        for inner in (*schema.get("properties", {}).values(), schema.get("items")):
            yield from places(inner)


EVERYTHING = (
    Message(role="system", content=(Text("Be brief."), Text("Be kind."))),
    Message(role="assistant", content=(Text("Welcome."),), by=CLAUDE.by),
    Message(role="user", content=(Text("look"), Image(PNG, "image/png"), Image(b"<svg/>", "image/svg+xml"))),
    Message(
        role="assistant",
        content=(Thinking("hm", "c2ln"), Thinking("", "redacted:Y2lwaGVy"), Text("I look.")),
        calls=(
            Call(id="toolu_1", name="read", args={"path": "a"}, signature="c2ln"),
            Call(id="toolu_1", name="3d-view", args={"deep": [{"x": None}]}),
        ),
        finish="calls",
        by=CLAUDE.by,
    ),
    Message(role="tool", content=(Text("text"), Image(PNG, "image/png")), call_id="toolu_1"),
    Message(role="tool", content=(Text("it broke"),), call_id="toolu_1", status="error"),
    Message(role="user", content=(Text("and?"),)),
    Message(role="user", content=(Text("hello?"),)),
    Message(
        role="assistant",
        calls=(Call(id="weird id/!", name="exec", args={"command": "ls"}),),
        finish="calls",
        by="openai/gpt-x",
    ),
    Message(role="tool", call_id="weird id/!", status="pending"),
    Message(role="assistant", content=(Text("Done."),), by=GEMINI_3.by),
    Message(role="user", content=(Text("thanks"), Text(" \t"))),
)


@pytest.mark.parametrize("claude_code", [False, True])
@pytest.mark.parametrize("sees", [False, True])
def test_anthropic_takes_a_whole_request(claude_code: bool, sees: bool) -> None:
    target = Target(api="anthropic", model="claude-x", sees=sees, claude_code=claude_code)
    body = {"model": "claude-x", "max_tokens": 99, **anthropic.request(EVERYTHING, SHELF, target)}
    assert takes(MessageCreateParamsNonStreaming, body)
    roles = [turn["role"] for turn in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


@pytest.mark.parametrize("target", [GEMINI_2, GEMINI_3])
def test_gemini_takes_a_whole_request(target: Target) -> None:
    own = [message if message.by != CLAUDE.by else _by(message, target) for message in EVERYTHING]
    for messages in (EVERYTHING, own):
        body = gemini.request(messages, SHELF, target)
        genai.Content.model_validate(body["systemInstruction"])
        for turn in body["contents"]:
            genai.Content.model_validate_json(json.dumps(turn))
        for tool in body["tools"]:
            genai.Tool.model_validate(tool)


def _by(message: Message, target: Target) -> Message:
    thoughts = (Thinking("hm", "c2ln"), Text("I look."))
    calls = message.calls
    return Message(role="assistant", content=thoughts, calls=calls, finish=message.finish, by=target.by)


EVENTS: Sequence[dict[str, Any]] = (
    {
        "type": "message_start",
        "message": {
            "id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": [],
            "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 30,
                      "cache_creation_input_tokens": 7},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "see."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "Y2lwaGVy"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "I "}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "look."}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "content_block_start", "index": 3,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}},
    },
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": '{"pa'}},
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": 'th": "a"}'}},
    {"type": "content_block_stop", "index": 3},
    {
        "type": "content_block_start", "index": 4,
        "content_block": {"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {}},
    },
    {"type": "content_block_stop", "index": 4},
    {
        "type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 42},
    },
    {"type": "message_stop"},
)  # fmt: skip


def test_a_stream_of_anthropic_says_the_same_to_its_client_and_to_us() -> None:
    for event in EVENTS:
        if event["type"] != "ping":
            adapter(RawMessageStreamEvent).validate_python(event)
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})
    )
    with (
        httpx2.Client(transport=transport) as http,
        Anthropic(api_key="none", base_url="https://fake.test", http_client=http) as client,
        client.messages.stream(
            model="claude-x", max_tokens=99, messages=[{"role": "user", "content": "q"}]
        ) as streamed,
    ):
        theirs = streamed.get_final_message()
    target = Target(api="anthropic", model="claude-x", claude_code=True)
    chunks = anthropic.ReplyStream(target, anthropic.own_names(SHELF, target))
    for event in EVENTS:
        chunks.feed(event)
    ours = chunks.end()
    assert ours.message == Message(
        role="assistant",
        content=(Thinking("Let me see.", "c2ln"), Thinking("", "redacted:Y2lwaGVy"), Text("I look.")),
        calls=(Call(id="toolu_1", name="read", args={"path": "a"}), Call(id="toolu_2", name="ls")),
        finish="calls",
        by="anthropic/claude-x",
    )
    assert ours.usage == Usage(input=42, output=42, cached=30, written=7)
    assert anthropic.read_reply(theirs.model_dump(mode="json"), target, anthropic.own_names(SHELF, target)) == ours
    again = anthropic.request([Message(role="user", content=(Text("q"),)), ours.message], SHELF, target)
    assert again["messages"][1]["content"] == [
        block.model_dump(mode="json", include={"type", "thinking", "signature", "data", "text", "id", "name", "input"})
        for block in theirs.content
    ]


def test_a_stream_of_gemini_says_the_same_to_its_client_and_to_us() -> None:
    parts: Sequence[dict[str, Any]] = (
        {"text": "Let me ", "thought": True},
        {"text": "see.", "thought": True},
        {"text": "I "},
        {"text": "look."},
        {"functionCall": {"name": "_3d", "args": {"path": "a"}, "id": "g1"}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "ls", "args": {}}},
    )
    sent: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts
    ]
    sent[-1]["candidates"][0]["finishReason"] = "STOP"
    sent[-1]["usageMetadata"] = {
        "promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 2,
    }  # fmt: skip
    theirs = [genai.GenerateContentResponse.model_validate(chunk) for chunk in sent]
    chunks = gemini.ReplyStream(GEMINI_3, {"_3d": "3d"})
    for chunk in sent:
        chunks.feed(chunk)
    ours = chunks.end()
    assert ours.message == Message(
        role="assistant",
        content=(Thinking("Let me see."), Text("I look.")),
        calls=(Call(id="g1", name="3d", args={"path": "a"}, signature="c2ln"), Call(id="call_1", name="ls")),
        finish="calls",
        by=GEMINI_3.by,
    )
    assert ours.usage == Usage(input=9, output=7, cached=4)
    assert "".join(chunk.text or "" for chunk in theirs if not chunk.function_calls) == "I look."
    called = [call for chunk in theirs for call in chunk.function_calls or ()]
    assert [call.args for call in called] == [dict(call.args) for call in ours.message.calls]


@pytest.mark.parametrize(
    "result",
    [
        Result.text("fine"),
        Result.error("it broke", details={"path": "/private"}),
        Result.pending("later"),
        Result(content=(Text("a\ud83d"), Image(PNG, "image/png"))),
        Result(),
    ],
)
def test_mcp_takes_every_result_and_never_its_details(result: Result) -> None:
    sent = mcp.encode_result(result)
    read = mcp_types.CallToolResult.model_validate_json(json.dumps(sent, ensure_ascii=False).encode())
    assert read.is_error is (result.status == "error")
    assert read.structured_content is None
    assert "private" not in read.model_dump_json()
