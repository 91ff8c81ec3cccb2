"""Streamed replies of Anthropic and Gemini, for streams.py."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ANTHROPIC", "GEMINI"]

Json = dict[str, Any]


def _opened(**usage: int) -> Json:
    message: Json = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 1, **usage},
    }  # fmt: skip
    return {"type": "message_start", "message": message}


def _block(at: int, begun: Json, *deltas: Json, stopped: bool = True) -> list[Json]:
    end = [{"type": "content_block_stop", "index": at}] if stopped else []
    return [
        {"type": "content_block_start", "index": at, "content_block": begun},
        *({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas),
        *end,
    ]


def _text(at: int, *pieces: str) -> list[Json]:
    return _block(at, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def _use(at: int, *pieces: str, stopped: bool = True, **more: Any) -> list[Json]:
    begun = {"type": "tool_use", "id": f"toolu_{at}", "name": "read", "input": {}, **more}
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return _block(at, begun, *deltas, stopped=stopped)


def _ended(reason: str, **more: Any) -> list[Json]:
    delta = {"stop_reason": reason, "stop_sequence": None, **more}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]


_THOUGHT = _block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Both "},
    {"type": "thinking_delta", "thinking": "files."},
    {"type": "signature_delta", "signature": "c2ln"},
)

ANTHROPIC: Mapping[str, Sequence[Json]] = {
    "text": [_opened(), {"type": "ping"}, *_text(0, "Hel", "lo \ud83d", "\ude00"), *_ended("end_turn")],
    "calls": [
        _opened(cache_read_input_tokens=30, cache_creation_input_tokens=7),
        *_THOUGHT,
        *_text(1, "I read."),
        *_use(2, "", '{"path": ', '"a.txt"}'),
        *_use(3, '{"path": "b.txt"}'),
        *_use(4, name="ping"),
        *_ended("tool_use"),
    ],
    "arguments-said-at-once": [_opened(), *_use(0, input={"path": "a.txt"}), *_ended("tool_use")],
    "redacted": [
        _opened(),
        *_THOUGHT,
        *_block(1, {"type": "redacted_thinking", "data": "Y2lwaGVy"}),
        *_block(
            2, {"type": "thinking", "thinking": "", "signature": ""}, {"type": "signature_delta", "signature": "b25l"}
        ),
        *_text(3, "Done."),
        *_ended("end_turn"),
    ],
    "tools-of-the-provider": [
        _opened(),
        *_block(
            0,
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
        ),
        *_block(1, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
        *_text(2, "Found."),
        *_ended("end_turn"),
    ],
    "stop-sequence": [_opened(), *_text(0, "one"), *_ended("stop_sequence", stop_sequence="two")],
    "cut-off": [_opened(), *_use(0, '{"path": "a.txt", "content": "half', stopped=False), *_ended("max_tokens")],
    "window-full": [_opened(), *_text(0, "Once"), *_ended("model_context_window_exceeded")],
    "refused": [
        _opened(),
        *_text(0, "Once"),
        *_ended("refusal", stop_details={"type": "refusal", "category": "bio", "explanation": "It could do harm."}),
    ],
    "paused": [_opened(), *_text(0, "Once"), *_ended("pause_turn")],
    "unknown-reason": [_opened(), *_use(0, "{}"), *_ended("moonrise")],
    "broke-off": [_opened(), *_text(0, "I was"), *_use(1, "{}")],
    "failed": [
        _opened(),
        *_text(0, "Once"),
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ],
    "unreadable": [_opened(), *_use(0, '{"path": a.txt}'), *_ended("tool_use")],
}


def _chunk(*parts: Json, **more: Any) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}


_USAGE = {
    "promptTokenCount": 20,
    "cachedContentTokenCount": 16,
    "toolUsePromptTokenCount": 1,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 3,
    "totalTokenCount": 29,
}
_CALL = {"name": "read", "args": {"path": "a.txt"}}

GEMINI: Mapping[str, Sequence[Json]] = {
    "text": [
        {**_chunk({"text": "Hel"}), "usageMetadata": {"promptTokenCount": 20}},
        {**_chunk({"text": "lo."}, finishReason="STOP"), "usageMetadata": _USAGE},
    ],
    "calls": [
        _chunk({"text": "Both ", "thought": True}),
        _chunk({"text": "files.", "thought": True}),
        _chunk({"text": "I read."}),
        _chunk({"functionCall": {**_CALL, "id": "g1"}, "thoughtSignature": "c2ln"}, {"functionCall": _CALL}),
        _chunk({"functionCall": {"name": "ping"}}, finishReason="STOP"),
    ],
    "sealed-words": [
        _chunk({"text": "Done."}),
        _chunk({"text": "", "thoughtSignature": "c2ln"}, finishReason="STOP"),
    ],
    "cut-off": [_chunk({"text": "Once"}, {"functionCall": _CALL}), _chunk(finishReason="MAX_TOKENS")],
    "unsafe": [_chunk({"text": "Once"}), _chunk(finishReason="SAFETY")],
    "recited": [_chunk({"text": "Once"}, finishReason="RECITATION", finishMessage="It is a quotation.")],
    "malformed-call": [
        _chunk({"functionCall": _CALL}, finishReason="MALFORMED_FUNCTION_CALL", finishMessage="print(read(")
    ],
    "unknown-reason": [_chunk({"functionCall": _CALL}, finishReason="MOONRISE")],
    "blocked": [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 3}}],
    "broke-off": [_chunk({"text": "I was"}), _chunk({"functionCall": _CALL})],
    "failed": [_chunk({"text": "Once"}), {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}],
}
