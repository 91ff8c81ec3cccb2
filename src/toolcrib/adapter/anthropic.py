"""Tools, conversations and replies as Anthropic's messages spell them."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcrib.define.message import Message, Part, Thinking
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool

from .aliases import shown_to
from .anthropic_stream import REDACTED, Chunks, reply_from
from .claude_code import claude_names
from .conversation import prepared
from .spelling import Wishes, spelled, spelling
from .target import Target
from .trim import error_text
from .wire import whole

__all__ = [
    "Chunks", "declare", "declared", "own_names", "reply_from", "request", "shown_names", "system_text", "turns",
]  # fmt: skip

_OPENING = "(The conversation begins with the reply below.)"

_Block = dict[str, Any]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool with its schema as `input_schema`."""
    schema = shown_to("anthropic", tool, "portable")
    return {"name": tool.name, "description": whole(tool.description), "input_schema": schema}


def request(messages: Sequence[Message], tools: Sequence[Tool], target: Target) -> dict[str, Any]:
    """Return `system`, `messages` and `tools` of a request, without the first and the last where empty."""
    history = prepared(messages, target)
    system = "\n\n".join(filter(None, map(system_text, history)))
    body: dict[str, Any] = {"system": system} if system else {}
    body["messages"] = turns(history, shown_names(tools, target), target)
    if tools:
        body["tools"] = declared(tools, target)
    return body


def declared(tools: Sequence[Tool], target: Target) -> list[dict[str, Any]]:
    """Return the tools that a request offers, under the names it shows."""
    names = shown_names(tools, target)
    return [{**declare(tool), "name": names[tool.name]} for tool in tools]


def shown_names(tools: Sequence[Tool], target: Target) -> dict[str, str]:
    """Return the name that a request shows by the tool's own."""
    return spelled((tool.name for tool in tools), _wishes(target))


def own_names(tools: Sequence[Tool], target: Target) -> dict[str, str]:
    """Return the tools' own names by those that `request` shows."""
    return {shown: own for own, shown in shown_names(tools, target).items()}


def system_text(message: Message) -> str:
    """Return what a message adds to the system prompt, which stands apart from the turns here."""
    return _words(message) if message.role == "system" else ""


def _wishes(target: Target) -> Wishes:
    return claude_names if target.claude_code else lambda name: (name,)


def turns(
    messages: Sequence[Message], names: Mapping[str, str], target: Target, *, opens: bool = True
) -> list[dict[str, Any]]:
    """Return the turns, the user's and the model's in alternation: results of tools are the user's.

    Where they do not open the conversation, a user's turn stands before them.
    """
    made: list[tuple[str, list[_Block]]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message, names, _wishes(target)))
        if made and made[-1][0] == role:
            made[-1][1].extend(blocks)
        elif blocks:
            if role == "assistant" and not made and opens:
                made.append(("user", [_text(_OPENING)]))
            made.append((role, blocks))
    return [{"role": role, "content": _user(blocks) if role == "user" else blocks} for role, blocks in made]


def _user(blocks: list[_Block]) -> str | list[_Block]:
    """Return what a user says, results of tools first; a single text as the text itself."""
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        text: str = blocks[0]["text"]
        return text
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _blocks(message: Message, names: Mapping[str, str], wishes: Wishes) -> Iterator[_Block]:
    if message.role == "tool":
        yield from _result(message)
        return
    yield from filter(None, map(_block, message.content))
    for call in message.calls:
        name = spelling(call.name, names, wishes)
        yield {"type": "tool_use", "id": call.id, "name": name, "input": dict(call.args)}


def _result(message: Message) -> Iterator[_Block]:
    """Give the answer of a tool, pictures inside. A failure is told in words alone: its pictures stand beside it."""
    pictures = [part for part in message.content if isinstance(part, Image)]
    failed = message.status == "error"
    content: str | list[_Block] = _words(message) or (error_text("") if failed else "")
    if pictures and not failed:
        content = list(filter(None, map(_block, message.content)))
    yield {"type": "tool_result", "tool_use_id": message.call_id, "content": content, "is_error": failed}
    if failed and pictures:
        yield _text(f"[in the result of the failed call {message.call_id}]")
        yield from map(_picture, pictures)


def _words(message: Message) -> str:
    return "\n".join(part.text for part in message.content if isinstance(part, Text))


def _block(part: Part) -> _Block | None:
    """Return a part as a block; a blank text has none, since the provider refuses it."""
    if isinstance(part, Text):
        return _text(part.text) if part.text.strip() else None
    if isinstance(part, Image):
        return _picture(part)
    return _thought(part)


def _text(text: str) -> _Block:
    return {"type": "text", "text": text}


def _picture(image: Image) -> _Block:
    source = {"type": "base64", "media_type": image.mime, "data": base64.b64encode(image.data).decode()}
    return {"type": "image", "source": source}


def _thought(thought: Thinking) -> _Block | None:
    if thought.mark.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": thought.mark.removeprefix(REDACTED)}
    if thought.mark:
        return {"type": "thinking", "thinking": thought.text, "signature": thought.mark}
    # a thought without its signature was cut off; the provider takes it as words only
    return _text(thought.text) if thought.text.strip() else None
