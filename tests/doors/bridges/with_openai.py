"""OpenAI's client with a fake provider: chat completions and responses, whole and streamed."""

from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
from openai import AsyncOpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageParam,
)
from openai.types.responses import FunctionToolParam, Response, ResponseInputParam
from openai.types.responses.response_input_item_param import FunctionCallOutput
from tests.doors.bridges.wires import Asked, Heard, Told, checked, provider, stream

from toolcrib.app import Belt
from toolcrib.doors.bridges import openai as bridge

__all__ = ["chat", "chat_streamed", "responses", "responses_streamed"]

MODEL = "gpt-5"


def _client(transport: httpx2.AsyncClient) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="none", base_url="https://fake.test/v1", http_client=transport, max_retries=0)


# Chat completions


def _completion(calls: Sequence[Asked], finish: str) -> dict[str, Any]:
    said = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args}} for call in calls
    ]
    message = {"role": "assistant", "content": None if calls else "done", "tool_calls": said or None}
    choice = {"index": 0, "finish_reason": finish, "message": message, "logprobs": None}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}


def _chunks(calls: Sequence[Asked], finish: str) -> list[dict[str, Any]]:
    """Return the reply in pieces: a call's name with an id, then its arguments in two halves."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for at, call in enumerate(calls):
        half = len(call.args) // 2
        named = {"index": at, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        deltas.append({"tool_calls": [named]})
        for piece in (call.args[:half], call.args[half:]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    return [{**base, "choices": [choice]} for choice in [*choices, {"index": 0, "delta": {}, "finish_reason": finish}]]


async def chat(belt: Belt, calls: Sequence[Asked], finish: str = "tool_calls", **options: Any) -> Heard:
    reply = _completion(calls, finish)
    ChatCompletion.model_validate(reply)
    return await _chat(belt, reply, **options)


async def chat_streamed(belt: Belt, calls: Sequence[Asked], finish: str = "tool_calls") -> Heard:
    chunks = _chunks(calls, finish)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    return await _chat(belt, stream(chunks, closed=True))


async def _chat(belt: Belt, reply: Any, *, strict: bool = False, **options: Any) -> Heard:
    transport, sent = provider(reply, _completion((), "stop"))
    client, tools = _client(transport), bridge.tools(belt, strict=strict)
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "go"}]
    if isinstance(reply, str):
        state = ChatCompletionStreamState()
        async for chunk in await client.chat.completions.create(
            model=MODEL, messages=messages, tools=tools, stream=True
        ):
            state.handle_chunk(chunk)
        first: ChatCompletion = state.get_final_completion()
    else:
        first = await client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
    reply_kept: Any = first.choices[0].message
    messages += [reply_kept, *await bridge.answers(belt, first, **options)]
    last = await client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
    assert await bridge.answers(belt, last) == []
    tools_sent = checked(list[ChatCompletionFunctionToolParam], sent[0]["tools"])
    answers = checked(list[ChatCompletionMessageParam], sent[1]["messages"][2:])
    return Heard({tool["function"]["name"]: tool["function"] for tool in tools_sent}, list(_chat_told(answers)))


def _chat_told(messages: Sequence[dict[str, Any]]) -> Iterator[Told]:
    """Read the answers; pictures follow in a message of the user's, under the id of their call."""
    pictures: dict[str, int] = {}
    for message in messages:
        if message["role"] == "user":
            whose = ""
            for block in message["content"]:
                if block["type"] == "text":
                    whose = block["text"]
                else:
                    assert block["image_url"]["url"].startswith("data:image/png;base64,")
                    pictures[whose] = pictures.get(whose, 0) + 1
    for message in messages:
        if message["role"] == "tool":
            id, text = message["tool_call_id"], message["content"]
            shown = sum(count for whose, count in pictures.items() if id in whose)
            yield Told(id, text, text.startswith("error:"), shown)


# Responses


def _response(calls: Sequence[Asked], status: str) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {
            "type": "function_call", "id": f"fc_{at}", "call_id": call.id, "name": call.name, "arguments": call.args,
            "status": "completed",
        }
        for at, call in enumerate(calls)
    ]  # fmt: skip
    if not calls:
        said = {"type": "output_text", "text": "done", "annotations": []}
        output = [{"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [said]}]
    return {
        "id": "r1", "object": "response", "created_at": 1, "model": MODEL, "status": status, "output": output,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
    }  # fmt: skip


def _events(calls: Sequence[Asked], status: str) -> list[dict[str, Any]]:
    whole = _response(calls, status)
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**whole, "output": []}}]
    for at, item in enumerate(whole["output"]):
        begun = {**item, "arguments": "", "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        place = {"output_index": at, "item_id": item["id"]}
        events.append({"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]})
        done = {"name": item["name"], "arguments": item["arguments"]}
        events.append({"type": "response.function_call_arguments.done", **place, **done})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": f"response.{status}", "response": whole})
    return [{**event, "sequence_number": at} for at, event in enumerate(events)]


async def responses(belt: Belt, calls: Sequence[Asked], status: str = "completed", **options: Any) -> Heard:
    reply = _response(calls, status)
    Response.model_validate(reply)
    return await _responses(belt, reply, **options)


async def responses_streamed(belt: Belt, calls: Sequence[Asked], status: str = "completed") -> Heard:
    return await _responses(belt, stream(_events(calls, status), named=True))


async def _responses(belt: Belt, reply: Any, *, strict: bool = False, **options: Any) -> Heard:
    transport, sent = provider(reply, _response((), "completed"))
    client, tools = _client(transport), bridge.response_tools(belt, strict=strict)
    items: ResponseInputParam = [{"role": "user", "content": "go"}]
    if isinstance(reply, str):
        events = await client.responses.create(model=MODEL, input=items, tools=tools, stream=True)
        ends = [event.response async for event in events if event.type in ("response.completed", "response.incomplete")]
        first = ends[0]
    else:
        first = await client.responses.create(model=MODEL, input=items, tools=tools)
    reply_kept: Any = first.output
    items += [*reply_kept, *await bridge.response_answers(belt, first, **options)]
    last = await client.responses.create(model=MODEL, input=items, tools=tools)
    assert await bridge.response_answers(belt, last) == []
    tools_sent = checked(list[FunctionToolParam], sent[0]["tools"])
    answers = checked(list[FunctionCallOutput], sent[1]["input"][1 + len(first.output) :])
    return Heard({tool["name"]: tool for tool in tools_sent}, [_output_told(item) for item in answers])


def _output_told(item: dict[str, Any]) -> Told:
    output = item["output"]
    blocks = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
    text = "\n".join(block["text"] for block in blocks if block["type"] == "input_text")
    pictures = [block for block in blocks if block["type"] == "input_image"]
    assert all(block["image_url"].startswith("data:image/png;base64,") for block in pictures)
    return Told(item["call_id"], text, text.startswith("error:"), len(pictures))
