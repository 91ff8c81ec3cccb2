"""OpenAI's chat completions: requests as its own package types them, streams as its own package reads them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk, ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import TypeAdapter, ValidationError

from toolcrib.adapter import declare, losses, openai
from toolcrib.define.errors import CribError
from toolcrib.define.event import Replied, Usage
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Text
from toolcrib.tools import SHELF

from .conversations import CONVERSATIONS, TARGETS
from .golden import TOOLS
from .histories import histories, values
from .sdk import validate
from .streams import STREAMS

TARGET = TARGETS["openai"]
MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])
TOOL_LIST = TypeAdapter(list[ChatCompletionFunctionToolParam])


def read(chunks: Sequence[Any]) -> Replied:
    reader = openai.ReplyStream(TARGET)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.end()


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_of_the_type_that_the_package_sends(name: str, sees: bool) -> None:
    target = replace(TARGET, sees=sees)
    body = openai.request(CONVERSATIONS[name](target), [], target)
    assert body.keys() == {"messages"}
    validate(MESSAGES, body["messages"])
    json.dumps(body, ensure_ascii=False).encode()


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(history=histories)
def test_any_history_is_of_the_type_that_the_package_sends(history: list[Message]) -> None:
    body = openai.request(history, [], TARGET)
    validate(MESSAGES, body["messages"])
    json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize("wrong", [{"role": "tool", "content": "x"}, {"role": "user", "content": [{"type": "text"}]}])
def test_the_type_would_tell(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        validate(MESSAGES, [wrong])


@pytest.mark.parametrize("strict", [False, True])
def test_tools_are_of_the_type_that_the_package_sends(strict: bool) -> None:
    tools = [*TOOLS.values(), *SHELF]
    declared = openai.request([], tools, replace(TARGET, strict=strict))["tools"]
    validate(TOOL_LIST, declared)
    said = {tool["function"]["name"]: tool["function"].get("strict") for tool in declared}
    assert set(said.values()) <= {None, strict or None}
    assert (said["ping"], said["nested"]) == (strict or None, None)


def test_a_strict_tool_is_closed_and_names_all() -> None:
    parameters = declare(TOOLS["web_fetch"], "openai", strict=True)["function"]["parameters"]
    assert parameters["required"] == list(parameters["properties"])
    assert parameters["additionalProperties"] is False
    assert losses(TOOLS["raw"], "openai", strict=True) != losses(TOOLS["raw"], "openai") == []


def test_only_openai_has_a_strict_form() -> None:
    for ask in (declare, losses):
        with pytest.raises(CribError, match=r"^gemini has no strict form; openai and responses have one$"):
            ask(TOOLS["ping"], "gemini", strict=True)


@pytest.mark.parametrize("name", [name for name in STREAMS["openai"] if name != "failed"])
def test_a_stream_reads_as_the_package_types_it(name: str) -> None:
    raw = STREAMS["openai"][name]
    typed = [ChatCompletionChunk.model_validate(chunk).model_dump(exclude_unset=True) for chunk in raw]
    assert read(typed) == read(raw)


@pytest.mark.parametrize("name", ["text", "calls", "refused"])
def test_a_stream_says_what_the_package_makes_of_it(name: str) -> None:
    state = ChatCompletionStreamState()
    for chunk in STREAMS["openai"][name]:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    theirs = state.get_final_completion().choices[0].message
    ours = read(STREAMS["openai"][name]).message
    texts = [part.text for part in ours.content if isinstance(part, Text)]
    assert "".join(texts) == (theirs.content or theirs.refusal or "").encode("utf-16", "surrogatepass").decode("utf-16")
    assert [(call.id, call.name, call.args) for call in ours.calls] == [
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in theirs.tool_calls or ()
    ]


def test_a_reply_sent_whole_says_the_same_as_a_streamed_one() -> None:
    function = {"name": "read", "arguments": '{"path": "a.txt"}'}
    message = {
        "role": "assistant",
        "content": "I read.",
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}
    response = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}
    call = Call(id="call_1", name="read", args={"path": "a.txt"})
    content = (Thinking("Hm.", "reasoning_content"), Text("I read."))
    whole = Message(role="assistant", content=content, calls=(call,), finish="calls", by=TARGET.by)
    assert openai.read_reply(response, TARGET) == Replied(whole, Usage(input=9, output=2, cached=5))


def test_what_was_read_goes_back_as_it_came() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    called = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [{**called, "extra_content": extra}]}
    replied = openai.read_reply({"choices": [{"message": message, "finish_reason": "tool_calls"}]}, TARGET)
    assert openai.request([replied.message], [], TARGET)["messages"][0] == message


@pytest.mark.parametrize(
    ("chunks", "finish", "error"),
    [
        ([], "error", "the reply broke off before its end; ask again"),
        ([{"choices": [{"delta": {}, "finish_reason": "paused"}]}], "error", "a reason nobody knows (paused)"),
        ([{"choices": [{"delta": {}, "finish_reason": 7}]}], "error", "a reason nobody knows"),
        ([{"error": "no\nmore"}], "error", "no"),
        ([{"error": {"code": "overloaded"}}, {"choices": [{"finish_reason": "stop"}]}], "error", "overloaded"),
        ([{"choices": [{"delta": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "eos"}]}], "stop", ""),
        ([{"choices": [{"index": 1, "finish_reason": "stop"}]}], "error", "the reply broke off"),
    ],
)
def test_an_end_has_a_reason(chunks: list[Any], finish: str, error: str) -> None:
    replied = read(chunks)
    assert replied.message.finish == finish
    assert error in replied.error
    assert bool(error) == bool(replied.error)


_words = st.sampled_from(
    ("choices", "delta", "message", "index", "content", "refusal", "reasoning", "tool_calls", "function_call", "id",
     "function", "name", "arguments", "finish_reason", "usage", "error", "prompt_tokens", "extra_content", "type")
)  # fmt: skip
_chunks = st.lists(
    st.one_of(
        values,
        st.recursive(
            st.one_of(values, st.sampled_from(("stop", "tool_calls", "length"))),
            lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_words, inner, max_size=6)),
            max_leaves=12,
        ),
        st.builds(
            lambda index, called, reason: {
                "choices": [{"index": index, "delta": {"tool_calls": [called]}, "finish_reason": reason}]
            },
            st.sampled_from((0, 1, None)),
            st.dictionaries(_words, values, max_size=4),
            st.one_of(values, st.sampled_from(("stop", "tool_calls", "length"))),
        ),
    ),
    max_size=6,
)


def check(chunks: list[Any]) -> None:
    replied = read(chunks)
    assert (replied.message.finish == "error") == bool(replied.error)
    assert (replied.message.finish == "calls") <= bool(replied.message.calls)
    validate(MESSAGES, openai.request([replied.message], [], TARGET)["messages"])


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(chunks=_chunks)
def test_whatever_a_server_sends_is_a_reply(chunks: list[Any]) -> None:
    check(chunks)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(chunks=_chunks)
def test_whatever_very_many_servers_send_is_a_reply(chunks: list[Any]) -> None:
    check(chunks)
