"""Streamed replies as providers send them: tests/golden/<provider>/streams holds what we make of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from .streams_other import ANTHROPIC, GEMINI

__all__ = ["STREAMS"]

Json = dict[str, Any]


def _chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


def _called(index: int, call_id: str | None = None, name: str | None = None, arguments: str = "") -> Json:
    opened = {"id": call_id, "type": "function"} if call_id else {}
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": index, **opened, "function": function}]}


_USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "total_tokens": 25,
    "prompt_tokens_details": {"cached_tokens": 16},
}

_OPENAI: Mapping[str, Sequence[Json]] = {
    "text": [
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"content": "Hel"}),
        _chunk({"content": "lo \ud83d"}),
        _chunk({"content": "\ude00"}),
        _chunk({}, "stop"),
        {**_chunk({}), "choices": [], "usage": _USAGE},
    ],
    "calls": [
        _chunk({"content": None, "reasoning_content": "Both "}),
        _chunk({"reasoning_content": "files."}),
        _chunk({"content": "I read."}),
        _chunk(_called(0, "call_1", "read", "")),
        _chunk(_called(0, arguments='{"path": ')),
        _chunk(_called(1, "call_2", "read", "")),
        _chunk(_called(0, arguments='"a.txt"}')),
        _chunk(_called(1, arguments='{"path": "b.txt"}')),
        _chunk({}, "tool_calls"),
    ],
    "calls-all-numbered-alike": [
        _chunk(_called(0, "call_1", "read", '{"path": "a.txt"}')),
        _chunk(_called(0, "call_2", "read", '{"path": "b.txt"}')),
        _chunk({}, "stop"),
    ],
    "cut-off": [_chunk(_called(0, "call_1", "write", '{"path": "a.txt", "content": "half')), _chunk({}, "length")],
    "broke-off": [_chunk({"content": "I was"}), _chunk(_called(0, "call_1", "read", "{}"))],
    "refused": [_chunk({"refusal": "I cannot "}), _chunk({"refusal": "help."}), _chunk({}, "stop")],
    "filtered": [_chunk({"content": "Once"}), _chunk({}, "content_filter")],
    "failed": [_chunk({"content": "Once"}), {"error": {"message": "overloaded", "code": 503}}],
    "legacy": [
        _chunk({"function_call": {"name": "read", "arguments": ""}}),
        _chunk({"function_call": {"arguments": "{}"}}),
        _chunk({}, "function_call"),
    ],
    "unreadable": [_chunk(_called(0, "call_1", "read", '{"path": a.txt}')), _chunk({}, "tool_calls")],
}


def _event(kind: str, **more: Any) -> Json:
    return {"type": f"response.{kind}", "sequence_number": 0, **more}


def _delta(kind: str, at: int, piece: str, **more: Any) -> Json:
    return _event(f"{kind}.delta", output_index=at, item_id=f"item_{at}", delta=piece, **more)


def _text(at: int, piece: str) -> Json:
    return _delta("output_text", at, piece, content_index=0, logprobs=[])


def _whole(status: str, *output: Json, **more: Any) -> Json:
    response = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "output": list(output),
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": _RESPONSE_USAGE, **more,
    }  # fmt: skip
    return _event(status, response=response)


_RESPONSE_USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 37,
}
_THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "c2VhbA==",
}
_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": '{"path": "a.txt"}'}
_SECOND = {**_CALL, "id": "fc_2", "call_id": "call_2", "arguments": '{"path": "b.txt"}'}
_MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}
_REFUSAL = {**_MESSAGE, "content": [{"type": "refusal", "refusal": "I cannot help."}]}

_RESPONSES: Mapping[str, Sequence[Json]] = {
    "text": [
        _event("output_item.added", output_index=0, item={**_MESSAGE, "content": [], "status": "in_progress"}),
        _text(0, "Hel"),
        _text(0, "lo."),
        _event("output_text.done", output_index=0, item_id="item_0", content_index=0, text="Hello.", logprobs=[]),
        _event("output_item.done", output_index=0, item=_MESSAGE),
        _whole("completed", _MESSAGE),
    ],
    "calls": [
        _event("output_item.added", output_index=0, item={**_THOUGHT, "summary": [], "encrypted_content": "cGFydA=="}),
        _delta("reasoning_summary_text", 0, "First.", summary_index=0),
        _delta("reasoning_summary_text", 0, "Then.", summary_index=1),
        _event("output_item.done", output_index=0, item=_THOUGHT),
        _event("output_item.added", output_index=1, item={**_CALL, "arguments": ""}),
        _delta("function_call_arguments", 1, '{"path": '),
        _event("output_item.added", output_index=2, item={**_SECOND, "arguments": ""}),
        _delta("function_call_arguments", 2, '{"path": "b.txt"}'),
        _delta("function_call_arguments", 1, '"a.txt"}'),
        _event(
            "function_call_arguments.done", output_index=1, item_id="fc_1", name="read", arguments=_CALL["arguments"]
        ),
        _event("output_item.done", output_index=1, item=_CALL),
        _event("output_item.done", output_index=2, item=_SECOND),
        _whole("completed", _THOUGHT, _CALL, _SECOND),
    ],
    "only-the-whole": [_whole("completed", _THOUGHT, _MESSAGE, _CALL)],
    "thought-kept-by-the-server": [
        _event("output_item.done", output_index=0, item={**_THOUGHT, "encrypted_content": None}),
        _event("output_item.done", output_index=1, item=_CALL),
        _whole("completed"),
    ],
    "cut-off": [
        _event("output_item.added", output_index=0, item={**_CALL, "arguments": ""}),
        _delta("function_call_arguments", 0, '{"path": "a.t'),
        _whole("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    ],
    "broke-off": [_text(0, "I was"), _event("output_item.done", output_index=1, item=_CALL)],
    "refused": [
        _delta("refusal", 0, "I cannot help.", content_index=0),
        _event("output_item.done", output_index=0, item=_REFUSAL),
        _whole("completed", _REFUSAL),
    ],
    "filtered": [_text(0, "Once"), _whole("incomplete", incomplete_details={"reason": "content_filter"})],
    "failed": [_text(0, "Once"), _whole("failed", error={"code": "server_error", "message": "overloaded"})],
    "error": [
        _text(0, "Once"),
        {"type": "error", "code": "rate_limit", "message": "slow down", "param": None, "sequence_number": 1},
    ],
    "cancelled": [_text(0, "Once"), _whole("cancelled")],
}

STREAMS: Mapping[str, Mapping[str, Sequence[Json]]] = {
    "openai": _OPENAI,
    "responses": _RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}
