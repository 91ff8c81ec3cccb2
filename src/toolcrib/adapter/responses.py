"""Tools, conversations and replies as OpenAI's responses spell them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.define.message import Message, Part, Thinking
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool

from .aliases import shown_to
from .conversation import prepared
from .forms import can_be_strict
from .openai import arguments_text, data_url, outcome
from .responses_stream import Chunks, reply_from
from .target import Target
from .wire import unsealed, whole

__all__ = ["Chunks", "declare", "declared", "reply_from", "request", "turns"]


def declare(tool: Tool, *, strict: bool = False, model: str = "") -> dict[str, Any]:
    """Return the tool as a function, strict where it can be; this API takes one that says nothing for a strict one."""
    strict = strict and can_be_strict(tool.shape)
    parameters = shown_to(model, tool, "strict" if strict else "portable")
    declared = {"type": "function", "name": tool.name, "description": whole(tool.description)}
    return {**declared, "parameters": parameters, "strict": strict}


def request(messages: Sequence[Message], tools: Sequence[Tool], target: Target) -> dict[str, Any]:
    """Return what a request says of the conversation and of the tools; nothing in it relies on what the server kept."""
    told = {"input": turns(prepared(messages, target), {}, target)}
    offered = declared(tools, target)
    return {**told, "tools": offered} if offered else told


def declared(tools: Sequence[Tool], target: Target) -> list[dict[str, Any]]:
    """Return the tools that a request offers."""
    return [declare(tool, strict=target.strict, model=target.model) for tool in tools]


def turns(
    messages: Sequence[Message], names: Mapping[str, str], target: Target, *, opens: bool = True
) -> list[dict[str, Any]]:
    """Return the items of a conversation that was prepared; names stay as they are, and any of them may open it."""
    return [item for message in messages for item in _items(message)]


def _items(message: Message) -> Iterator[dict[str, Any]]:
    match message.role:
        case "system":
            yield {"role": "system", "content": _text(message.content)}
        case "user":
            yield {"role": "user", "content": [_block(part) for part in message.content]}
        case "tool":
            yield {"type": "function_call_output", "call_id": message.call_id, "output": _output(message)}
        case "assistant":
            yield from _reply(message)


def _reply(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.content:
        if isinstance(part, Text):
            yield {"role": "assistant", "content": part.text}
        elif isinstance(part, Thinking) and (item := unsealed(part.mark)):
            yield item
    for call in message.calls:
        item = {"call_id": call.id, "name": call.name, "arguments": arguments_text(call.args)}
        yield {"type": "function_call", **({"id": call.mark} if call.mark else {}), **item}


def _output(message: Message) -> str | list[dict[str, Any]]:
    words, pictures = outcome(message), [part for part in message.content if isinstance(part, Image)]
    if not pictures:
        return words
    if message.status == "error":  # the words that tell of it come first
        return [_block(Text(words)), *map(_block, pictures)]
    return [_block(part) for part in message.content]


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "input_image", "detail": "auto", "image_url": data_url(part)}
    return {"type": "input_text", "text": part.text}


def _text(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))
