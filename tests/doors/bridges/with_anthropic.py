"""Anthropic's client with a fake provider, whole and streamed."""

import json
from collections.abc import Sequence
from typing import Any

from anthropic import AsyncAnthropic
from anthropic.types import Message, MessageParam, RawMessageStreamEvent, ToolParam
from tests.doors.bridges.wires import Asked, Heard, Told, checked, provider, stream

from toolcrib.app import Belt
from toolcrib.doors.bridges import anthropic as bridge

__all__ = ["messages", "messages_streamed"]

MODEL = "claude-of-tomorrow"
_USAGE = {"input_tokens": 1, "output_tokens": 1}


def _message(content: Sequence[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    return {
        "id": "m1", "type": "message", "role": "assistant", "model": MODEL, "content": list(content),
        "stop_reason": reason, "stop_sequence": None, "usage": _USAGE,
    }  # fmt: skip


def _uses(calls: Sequence[Asked]) -> list[dict[str, Any]]:
    uses = [{"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.args)} for call in calls]
    return [{"type": "text", "text": "let me see"}, *uses]


def _events(calls: Sequence[Asked], reason: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": _message([], None)}]
    for at, call in enumerate(calls):
        begun = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        events.append({"type": "content_block_start", "index": at, "content_block": begun})
        half = len(call.args) // 2
        for piece in (call.args[:half], call.args[half:]):
            delta = {"type": "input_json_delta", "partial_json": piece}
            events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    end = {"stop_reason": reason, "stop_sequence": None}
    return [*events, {"type": "message_delta", "delta": end, "usage": _USAGE}, {"type": "message_stop"}]


async def messages(belt: Belt, calls: Sequence[Asked], reason: str = "tool_use", **options: Any) -> Heard:
    reply = _message(_uses(calls), reason)
    Message.model_validate(reply)
    return await _converse(belt, reply, **options)


async def messages_streamed(belt: Belt, calls: Sequence[Asked], reason: str = "tool_use") -> Heard:
    events = _events(calls, reason)
    for event in events:
        checked(RawMessageStreamEvent, event)
    return await _converse(belt, stream(events, named=True))


async def _converse(belt: Belt, reply: Any, *, claude_code: bool = False, **options: Any) -> Heard:
    transport, sent = provider(reply, _message([{"type": "text", "text": "done"}], "end_turn"))
    client = AsyncAnthropic(api_key="none", base_url="https://fake.test", http_client=transport, max_retries=0)
    tools = bridge.tools(belt, claude_code=claude_code)
    said: list[MessageParam] = [{"role": "user", "content": "go"}]
    if isinstance(reply, str):
        async with client.messages.stream(model=MODEL, max_tokens=99, messages=said, tools=tools) as streamed:
            first: Message = await streamed.get_final_message()
    else:
        first = await client.messages.create(model=MODEL, max_tokens=99, messages=said, tools=tools)
    answers = await bridge.answers(belt, first, claude_code=claude_code, **options)
    said += [{"role": "assistant", "content": first.content}, *answers]
    last = await client.messages.create(model=MODEL, max_tokens=99, messages=said, tools=tools)
    assert await bridge.answers(belt, last) == []
    tools_sent = checked(list[ToolParam], sent[0]["tools"])
    [answer] = checked(list[MessageParam], sent[1]["messages"][2:])
    return Heard({tool["name"]: tool for tool in tools_sent}, [_told(block) for block in answer["content"]])


def _told(block: dict[str, Any]) -> Told:
    assert block["type"] == "tool_result"
    content = block["content"]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    pictures = [part for part in blocks if part["type"] == "image"]
    assert all(part["source"]["media_type"] == "image/png" for part in pictures)
    text = "\n".join(part["text"] for part in blocks if part["type"] == "text")
    return Told(block["tool_use_id"], text, block["is_error"], len(pictures))
