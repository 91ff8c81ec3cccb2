"""OpenAI's responses: requests as its own package types them, streams as its own package types them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import FunctionToolParam, ResponseInputItemParam, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from toolcrib.adapter import responses
from toolcrib.define.event import Replied
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.tools import SHELF

from .conversations import CONVERSATIONS, TARGETS, answered
from .golden import TOOLS
from .histories import histories, values
from .sdk import validate
from .streams import STREAMS

TARGET = TARGETS["responses"]
INPUT = TypeAdapter(list[ResponseInputItemParam])
TOOL_LIST = TypeAdapter(list[FunctionToolParam])
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def read(events: Sequence[Any]) -> Replied:
    reader = responses.ReplyStream(TARGET)
    for event in events:
        reader.feed(event)
    return reader.end()


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_of_the_type_that_the_package_sends(name: str, sees: bool) -> None:
    target = replace(TARGET, sees=sees)
    body = responses.request(CONVERSATIONS[name](target), [], target)
    assert body.keys() == {"input"}
    validate(INPUT, body["input"])
    json.dumps(body, ensure_ascii=False).encode()


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(history=histories)
def test_any_history_is_of_the_type_that_the_package_sends(history: list[Message]) -> None:
    body = responses.request(history, [], TARGET)
    validate(INPUT, body["input"])
    json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize("wrong", [{"type": "function_call", "call_id": "c"}, {"role": "user", "content": [{}]}])
def test_the_type_would_tell(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        validate(INPUT, [wrong])


@pytest.mark.parametrize("strict", [False, True])
def test_tools_are_of_the_type_that_the_package_sends(strict: bool) -> None:
    tools = [*TOOLS.values(), *SHELF]
    declared = responses.request([], tools, replace(TARGET, strict=strict))["tools"]
    validate(TOOL_LIST, declared)
    said = {tool["name"]: tool["strict"] for tool in declared}
    assert (said["ping"], said["nested"]) == (strict, False)


@pytest.mark.parametrize("name", [name for name in STREAMS["responses"] if name != "cancelled"])
def test_a_stream_reads_as_the_package_types_it(name: str) -> None:
    raw = STREAMS["responses"][name]
    typed = [EVENT.validate_python(event).model_dump(exclude_unset=True) for event in raw]
    assert read(typed) == read(raw)


@pytest.mark.parametrize("name", ["text", "calls", "refused", "failed", "filtered"])
def test_a_reply_sent_whole_says_the_same_as_a_streamed_one(name: str) -> None:
    *_, last = STREAMS["responses"][name]
    streamed, whole = read(STREAMS["responses"][name]), responses.read_reply(last["response"], TARGET)
    if last["response"]["output"]:
        assert whole == streamed
    else:
        assert (whole.message.finish, whole.error) == (streamed.message.finish, streamed.error)


def test_what_was_read_goes_back_as_it_came() -> None:
    *_, last = STREAMS["responses"]["calls"]
    replied = responses.read_reply(last["response"], TARGET)
    answers = [answered("call_1", "a"), answered("call_2", "b")]
    sent = responses.request([replied.message, *answers], [], TARGET)["input"]
    thought, first, second = last["response"]["output"]
    assert sent == [
        thought,
        {**first, "arguments": '{"path":"a.txt"}'},
        {**second, "arguments": '{"path":"b.txt"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "a"},
        {"type": "function_call_output", "call_id": "call_2", "output": "b"},
    ]


def test_items_without_a_place_are_told_apart_by_their_ids() -> None:
    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", **more}

    def item(own: str, args: str) -> dict[str, Any]:
        return {"type": "function_call", "id": own, "call_id": f"call_{own}", "name": "read", "arguments": args}

    replied = read(
        [
            event("output_item.added", item=item("a", "")),
            event("output_item.added", item=item("b", "")),
            event("function_call_arguments.delta", item_id="b", delta='{"n":2}'),
            event("function_call_arguments.delta", item_id="a", delta='{"n":1}'),
            event("output_item.done", item=item("a", '{"n":1}')),
            event("completed", response={"output": [item("a", '{"n":1}'), item("b", '{"n":2}')]}),
        ]
    )
    assert replied.message.calls == (
        Call(id="call_a", name="read", args={"n": 1}, signature="a"),
        Call(id="call_b", name="read", args={"n": 2}, signature="b"),
    )


def test_a_mark_that_is_not_ours_is_left_out() -> None:
    reply = Message(role="assistant", content=(Thinking("hm", "sig"),), calls=(Call(id="1", name="r"),), by=TARGET.by)
    assert [item["type"] for item in responses.request([reply], [], TARGET)["input"]] == [
        "function_call",
        "function_call_output",
    ]


@pytest.mark.parametrize(
    ("event", "finish", "error"),
    [
        ({"type": "response.incomplete", "response": {}}, "error", "the reply is incomplete (it did not say why)"),
        ({"type": "response.failed", "response": None}, "error", "it did not say why"),
        ({"type": "error", "message": "slow down"}, "error", "slow down"),
        ({"type": "error", "error": {"message": "slow down"}}, "error", "slow down"),
        ({"type": "response.in_progress"}, "error", "the reply broke off before its end; ask again"),
        ({"type": "response.completed", "response": {}}, "stop", ""),
    ],
)
def test_an_end_has_a_reason(event: dict[str, Any], finish: str, error: str) -> None:
    replied = read([event])
    assert (replied.message.finish, replied.error) == (finish, error)


_kinds = st.sampled_from(
    ("output_text.delta", "refusal.delta", "reasoning_text.delta", "reasoning_summary_text.delta", "output_item.added",
     "output_item.done", "function_call_arguments.delta", "completed", "incomplete", "failed", "created")
)  # fmt: skip
_items = st.one_of(
    values,
    st.builds(
        lambda kind, more: {**more, "type": kind},
        st.sampled_from(("message", "reasoning", "function_call", "web_search_call")),
        st.dictionaries(
            st.sampled_from(("id", "call_id", "name", "arguments", "content", "summary", "encrypted_content")), values
        ),
    ),
)
_events = st.lists(
    st.one_of(
        values,
        st.builds(
            lambda kind, at, item, more: {**more, "type": f"response.{kind}", "output_index": at, "item": item},
            _kinds,
            st.one_of(st.integers(0, 2), values),
            _items,
            st.dictionaries(st.sampled_from(("delta", "item_id", "content_index", "summary_index")), values),
        ),
        st.builds(
            lambda kind, output, more: {"type": f"response.{kind}", "response": {**more, "output": output}},
            _kinds,
            st.lists(_items, max_size=3),
            st.dictionaries(st.sampled_from(("usage", "error", "incomplete_details")), values),
        ),
    ),
    max_size=8,
)


def check(events: list[Any]) -> None:
    replied = read(events)
    assert (replied.message.finish == "error") == bool(replied.error)
    assert (replied.message.finish == "calls") <= bool(replied.message.calls)
    json.dumps(responses.request([replied.message], [], TARGET), ensure_ascii=False).encode()


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(events=_events)
def test_whatever_a_server_sends_is_a_reply(events: list[Any]) -> None:
    check(events)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(events=_events)
def test_whatever_very_many_servers_send_is_a_reply(events: list[Any]) -> None:
    check(events)
