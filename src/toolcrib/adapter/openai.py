"""Tools, conversations and replies as OpenAI's chat completions spell them, and the many servers that speak like it."""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.define.event import Replied, ReplyEvent, Usage
from toolcrib.define.message import Call, Finish, Message, Part, Thinking
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool

from .cards import Target
from .conversation import prepare
from .forms import can_be_strict
from .names import schema_for
from .reply import BROKE_OFF, ReplyReader
from .wire import (
    as_count,
    as_list,
    as_object,
    as_text,
    decode_signature,
    encode_signature,
    provider_error,
    sanitize,
    to_json,
)

_SEE_NEXT_MESSAGE = "[the result is in the message that follows]"


def declare(tool: Tool, *, strict: bool = False, model: str = "") -> dict[str, Any]:
    """Return the tool as a function declaration; a strict one, where it can be, holds the model to the schema."""
    strict = strict and can_be_strict(tool.shape)
    parameters = schema_for(model, tool, "strict" if strict else "portable")
    function = {"name": tool.name, "description": sanitize(tool.description), "parameters": parameters}
    return {"type": "function", "function": {**function, "strict": True} if strict else function}


def request(messages: Sequence[Message], tools: Sequence[Tool], target: Target) -> dict[str, Any]:
    """Return what a request says of the conversation and of the tools."""
    body = {"messages": encode_turns(prepare(messages, target), {}, target)}
    offered = declare_all(tools, target)
    return {**body, "tools": offered} if offered else body


def declare_all(tools: Sequence[Tool], target: Target) -> list[dict[str, Any]]:
    """Return the tools that a request offers."""
    return [declare(tool, strict=target.strict, model=target.model) for tool in tools]


def encode_turns(
    messages: Sequence[Message], names: Mapping[str, str], target: Target, *, opens: bool = True
) -> list[dict[str, Any]]:
    """Return the messages of a conversation that was prepared; names stay as they are, and any of them may open it."""
    return list(_messages(messages))


def encode_answer(message: Message) -> str:
    """Return the words of an answer. This wire has no flag for an error, so the words tell."""
    text = message.plain_text
    if message.status != "error" or text[:6].lower() == "error:":
        return text
    return f"error: {text or 'it failed and did not say why'}"


def data_url(image: Image) -> str:
    """Return a picture as a URL that holds it."""
    return f"data:{image.mime};base64,{base64.b64encode(image.data).decode()}"


def _messages(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    names: dict[str | None, str] = {}
    pictures: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            shown = _label_pictures(message, names.get(message.call_id, ""))
            words = encode_answer(message) or (_SEE_NEXT_MESSAGE if shown else "")
            yield {"role": "tool", "content": words, "tool_call_id": message.call_id}
            pictures += shown
            continue
        if pictures:
            # an answer of a tool takes no picture, and nothing may stand between the answers of one reply
            yield {"role": "user", "content": pictures}
            pictures = []
        if message.role == "assistant":
            names = {call.id: call.name for call in message.calls}
            yield _reply(message)
        elif message.role == "user":
            yield {"role": "user", "content": _content(message.content)}
        else:
            yield {"role": "system", "content": message.plain_text}
    if pictures:
        yield {"role": "user", "content": pictures}


def _reply(message: Message) -> dict[str, Any]:
    texts = [part for part in message.content if isinstance(part, Text)]
    reply: dict[str, Any] = {"role": "assistant", "content": _content(texts) if texts else None}
    for field in _REASONING:
        thoughts = [part.text for part in message.content if isinstance(part, Thinking) and part.signature == field]
        if thoughts:
            reply[field] = "\n".join(thoughts)
    if message.calls:
        reply["tool_calls"] = [_call(call) for call in message.calls]
    return reply


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": to_json(call.args).decode()}
    asked = {"id": call.id, "type": "function", "function": function}
    extra = decode_signature(call.signature)
    return {**asked, "extra_content": extra} if extra else asked


def _label_pictures(message: Message, name: str) -> list[dict[str, Any]]:
    """Return the pictures of an answer, with words that say whose they are."""
    pictures = [part for part in message.content if isinstance(part, Image)]
    if not pictures:
        return []
    whose = f"[{'images' if len(pictures) > 1 else 'image'} in the result of {name}, call {message.call_id}]"
    return [{"type": "text", "text": whose}, *map(_block, pictures)]


def _content(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_block(part) for part in parts]


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": data_url(part)}}
    return {"type": "text", "text": part.text}


# Where servers put what a model thinks aloud; it goes back under the same name.
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


class ReplyStream(ReplyReader):
    """Reads one streamed reply, chunk by chunk."""

    _finish: Finish | None = None
    _is_refusal = False

    def feed(self, chunk: Any) -> list[ReplyEvent]:
        frame = as_object(chunk)
        if frame.get("usage"):
            self._reply.use(_usage(as_object(frame["usage"])))
        if frame.get("error"):
            self._error = self._error or provider_error(frame["error"])
        choices = (as_object(choice) for choice in as_list(frame.get("choices")))
        choice = next((choice for choice in choices if choice.get("index", 0) == 0), {})
        events = self._delta(as_object(choice.get("delta") or choice.get("message")))
        if reason := choice.get("finish_reason"):
            known = _FINISHES.get(reason) if isinstance(reason, str) else None
            if known is None:
                self._error = self._error or f"the reply ended for a reason nobody knows ({provider_error(reason)})"
            self._finish = known
        return events

    def end(self) -> Replied:
        if self._error or self._finish is None:
            return self._reply.end("error", self._error or BROKE_OFF)
        is_refused = self._is_refusal and self._finish in ("stop", "calls")
        return self._reply.end("refused" if is_refused else self._finish)

    def _delta(self, delta: Mapping[str, Any]) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for field in _REASONING:
            if thought := as_text(delta.get(field)):
                events += self._reply.thinking(thought, field)
                break  # a server that says it twice means it once
        events += self._reply.text(_content_text(delta.get("content")))
        if refusal := as_text(delta.get("refusal")):
            self._is_refusal = True
            events += self._reply.text(refusal)
        for place, called in enumerate(map(as_object, as_list(delta.get("tool_calls")))):
            events += self._call(called.get("index", place), called, as_object(called.get("function")))
        if legacy := as_object(delta.get("function_call")):
            events += self._call("function_call", legacy, legacy)
        return events

    def _call(self, slot: Any, called: Mapping[str, Any], function: Mapping[str, Any]) -> list[ReplyEvent]:
        args = function.get("arguments")
        return self._reply.call(
            slot if isinstance(slot, int | str) else as_text(called.get("id")),
            id=as_text(called.get("id")),
            name=as_text(function.get("name")),
            piece=as_text(args),
            args=args if isinstance(args, dict) else None,  # some servers send an object for the text of one
            # what Gemini's models behind this API want back
            mark=encode_signature(called["extra_content"]) if as_object(called.get("extra_content")) else "",
        )


read_reply = ReplyStream.read_whole


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = as_object(usage.get("prompt_tokens_details"))
    return Usage(
        input=as_count(usage.get("prompt_tokens")),
        output=as_count(usage.get("completion_tokens")),
        cached=as_count(details.get("cached_tokens")) or as_count(usage.get("prompt_cache_hit_tokens")),
        written=as_count(details.get("cache_write_tokens")),
    )


def _content_text(content: Any) -> str:
    """Return the words of a content, which some servers send as a list of blocks."""
    blocks = map(as_object, as_list(content))
    return as_text(content) or "".join(as_text(block.get("text")) for block in blocks if block.get("type") == "text")
