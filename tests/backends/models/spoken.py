"""Replies as the four APIs spell them on the wire, streamed and whole."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from toolcrib.adapter.cards import Api
from toolcrib.define.event import Usage

__all__ = ["Say", "event", "said", "sent_whole"]

Json = dict[str, Any]
_TOOK = Usage(input=20, output=7, cached=16)


@dataclass(frozen=True, kw_only=True)
class Say:
    """A reply: a thought, words, calls as (id, name, arguments), and what it took."""

    thinking: str = ""
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    usage: Usage = _TOOK
    piece: int = 5  # characters of a piece

    def pieces(self, text: str) -> Iterator[str]:
        return (text[at : at + self.piece] for at in range(0, len(text), self.piece))


def event(value: Json, name: str = "") -> bytes:
    """Return an event as it is sent."""
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + orjson.dumps(value) + b"\n\n"


def said(api: Api, say: Say) -> list[bytes]:
    """Return the events of a streamed reply."""
    return list(_SPOKEN[api](say))


def sent_whole(api: Api, say: Say) -> Json:
    """Return a reply in one piece."""
    return _WHOLE[api](say)


# chat completions


def _chunk(delta: Json, finish: str | None = None, **more: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    return event({**head, "choices": choices, **more})


def _chat(say: Say) -> Iterator[bytes]:
    yield _chunk({"role": "assistant", "content": ""})
    for piece in say.pieces(say.thinking):
        yield _chunk({"reasoning_content": piece})
    for piece in say.pieces(say.text):
        yield _chunk({"content": piece})
    for index, (id, name, args) in enumerate(say.calls):
        opened = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        yield _chunk({"tool_calls": [opened]})
        for piece in say.pieces(args):
            yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk({}, "tool_calls" if say.calls else "stop")
    yield _chunk({}, choices=[], usage=_chat_usage(say.usage))
    yield b"data: [DONE]\n\n"


def _chat_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _chat_whole(say: Say) -> Json:
    message: Json = {"role": "assistant", "content": say.text or None, "refusal": None}
    if say.thinking:
        message["reasoning_content"] = say.thinking
    if say.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": args}}
            for id, name, args in say.calls
        ]
    finish = "tool_calls" if say.calls else "stop"
    choices = [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}]
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "m"}
    return {**head, "choices": choices, "usage": _chat_usage(say.usage)}


# responses


def _items(say: Say) -> list[Json]:
    items: list[Json] = []
    if say.thinking:
        summary = [{"type": "summary_text", "text": say.thinking}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed"})
    if say.text:
        content = [{"type": "output_text", "text": say.text, "annotations": [], "logprobs": []}]
        head: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        items.append({**head, "content": content})
    for at, (id, name, args) in enumerate(say.calls):
        head = {"type": "function_call", "id": f"fc_{at}", "call_id": id, "name": name, "status": "completed"}
        items.append({**head, "arguments": args})
    return items


def _responses_whole(say: Say, status: str = "completed") -> Json:
    usage = {
        "input_tokens": say.usage.input,
        "input_tokens_details": {"cached_tokens": say.usage.cached},
        "output_tokens": say.usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": say.usage.input + say.usage.output,
    }
    is_done = status == "completed"
    return {
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "model": "m", "parallel_tool_calls": True,
        "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0, "max_output_tokens": None,
        "output": _items(say) if is_done else [], "usage": usage if is_done else None,
    }  # fmt: skip


def _responses(say: Say) -> Iterator[bytes]:
    number = 0

    def told(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        name = f"response.{kind}"
        return event({"type": name, "sequence_number": number, **fields}, name)

    yield told("created", response=_responses_whole(say, "in_progress"))
    for at, item in enumerate(_items(say)):
        of = {"output_index": at, "item_id": item["id"]}
        match item["type"]:
            case "reasoning":
                yield told("output_item.added", output_index=at, item={**item, "summary": []})
                empty = {"type": "summary_text", "text": ""}
                yield told("reasoning_summary_part.added", **of, summary_index=0, part=empty)
                for piece in say.pieces(say.thinking):
                    yield told("reasoning_summary_text.delta", **of, summary_index=0, delta=piece)
                yield told("reasoning_summary_text.done", **of, summary_index=0, text=say.thinking)
            case "message":
                yield told("output_item.added", output_index=at, item={**item, "content": [], "status": "in_progress"})
                part: Json = {"type": "output_text", "text": "", "annotations": []}
                yield told("content_part.added", **of, content_index=0, part=part)
                for piece in say.pieces(say.text):
                    yield told("output_text.delta", **of, content_index=0, delta=piece, logprobs=[])
                yield told("output_text.done", **of, content_index=0, text=say.text, logprobs=[])
                yield told("content_part.done", **of, content_index=0, part=item["content"][0])
            case _:
                yield told("output_item.added", output_index=at, item={**item, "arguments": ""})
                for piece in say.pieces(item["arguments"]):
                    yield told("function_call_arguments.delta", **of, delta=piece)
                yield told("function_call_arguments.done", **of, arguments=item["arguments"], name=item["name"])
        yield told("output_item.done", output_index=at, item=item)
    yield told("completed", response=_responses_whole(say))


# messages


def _blocks(say: Say) -> list[Json]:
    blocks: list[Json] = []
    if say.thinking:
        blocks.append({"type": "thinking", "thinking": say.thinking, "signature": "c2VhbGVk"})
    if say.text:
        blocks.append({"type": "text", "text": say.text})
    for id, name, args in say.calls:
        blocks.append({"type": "tool_use", "id": id, "name": name, "input": orjson.loads(args)})
    return blocks


def _messages_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input - usage.cached - usage.written,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.written,
    }


def _messages_whole(say: Say) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": _blocks(say),
        "stop_reason": "tool_use" if say.calls else "end_turn",
        "stop_sequence": None,
        "usage": _messages_usage(say.usage),
    }


def _messages(say: Say) -> Iterator[bytes]:
    def told(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, **fields}, kind)

    opened = {**_messages_whole(say), "content": [], "stop_reason": None}
    yield told("message_start", message={**opened, "usage": {**_messages_usage(say.usage), "output_tokens": 1}})
    yield told("ping")
    texts = [say.thinking] * bool(say.thinking) + [say.text] * bool(say.text) + [args for _, _, args in say.calls]
    for index, (block, text) in enumerate(zip(_blocks(say), texts, strict=True)):
        empty: Mapping[str, Json] = {
            "thinking": {"thinking": "", "signature": ""},
            "text": {"text": ""},
            "tool_use": {"input": {}},
        }
        kind, field = {
            "thinking": ("thinking_delta", "thinking"),
            "text": ("text_delta", "text"),
            "tool_use": ("input_json_delta", "partial_json"),
        }[block["type"]]
        yield told("content_block_start", index=index, content_block={**block, **empty[block["type"]]})
        for piece in say.pieces(text):
            yield told("content_block_delta", index=index, delta={"type": kind, field: piece})
        if "signature" in block:
            delta = {"type": "signature_delta", "signature": block["signature"]}
            yield told("content_block_delta", index=index, delta=delta)
        yield told("content_block_stop", index=index)
    ended = {"stop_reason": "tool_use" if say.calls else "end_turn", "stop_sequence": None}
    yield told("message_delta", delta=ended, usage={"output_tokens": say.usage.output})
    yield told("message_stop")


# generateContent


def _generated(parts: list[Json], **more: Any) -> Json:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **more}
    return {"candidates": [candidate], "modelVersion": "m", "responseId": "r1"}


def _called(call: tuple[str, str, str]) -> Json:
    id, name, args = call
    return {"functionCall": {"id": id, "name": name, "args": orjson.loads(args)}, "thoughtSignature": "c2VhbGVk"}


def _counted(usage: Usage) -> Json:
    counts = {"promptTokenCount": usage.input, "candidatesTokenCount": usage.output}
    return {**counts, "totalTokenCount": usage.input + usage.output, "cachedContentTokenCount": usage.cached}


def _gemini(say: Say) -> Iterator[bytes]:
    for piece in say.pieces(say.thinking):
        yield event(_generated([{"text": piece, "thought": True}]))
    for piece in say.pieces(say.text):
        yield event(_generated([{"text": piece}]))
    for call in say.calls:
        yield event(_generated([_called(call)]))
    yield event({**_generated([{"text": ""}], finishReason="STOP"), "usageMetadata": _counted(say.usage)})


def _gemini_whole(say: Say) -> Json:
    parts: list[Json] = [{"text": say.thinking, "thought": True}] if say.thinking else []
    parts += [{"text": say.text}] if say.text else []
    parts += map(_called, say.calls)
    return {**_generated(parts, finishReason="STOP"), "usageMetadata": _counted(say.usage)}


_SPOKEN: Mapping[Api, Callable[[Say], Iterator[bytes]]] = {
    "openai": _chat,
    "responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
}
_WHOLE: Mapping[Api, Callable[[Say], Json]] = {
    "openai": _chat_whole,
    "responses": _responses_whole,
    "anthropic": _messages_whole,
    "gemini": _gemini_whole,
}
