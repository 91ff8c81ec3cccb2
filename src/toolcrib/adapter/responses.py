"""Tools, conversations and replies as OpenAI's responses spell them."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.define.event import Replied, ReplyEvent, Usage
from toolcrib.define.message import Finish, Message, Part, Thinking
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool

from . import openai
from .cards import Target
from .conversation import prepare
from .wire import as_count, as_list, as_object, as_text, decode_signature, encode_signature, provider_error, to_json


def declare(tool: Tool, *, strict: bool = False, model: str = "") -> dict[str, Any]:
    """Return the tool as a function, strict where it can be; this API takes one that says nothing for a strict one."""
    function = openai.declare(tool, strict=strict, model=model)["function"]
    return {"type": "function", **function, "strict": "strict" in function}


def request(messages: Sequence[Message], tools: Sequence[Tool], target: Target) -> dict[str, Any]:
    """Return what a request says of the conversation and of the tools; nothing in it relies on what the server kept."""
    body = {"input": encode_turns(prepare(messages, target), {}, target)}
    offered = declare_all(tools, target)
    return {**body, "tools": offered} if offered else body


def declare_all(tools: Sequence[Tool], target: Target) -> list[dict[str, Any]]:
    """Return the tools that a request offers."""
    return [declare(tool, strict=target.strict, model=target.model) for tool in tools]


def encode_turns(
    messages: Sequence[Message], names: Mapping[str, str], target: Target, *, opens: bool = True
) -> list[dict[str, Any]]:
    """Return the items of a conversation that was prepared; names stay as they are, and any of them may open it."""
    return [item for message in messages for item in _items(message)]


def _items(message: Message) -> Iterator[dict[str, Any]]:
    match message.role:
        case "system":
            yield {"role": "system", "content": message.plain_text}
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
        elif isinstance(part, Thinking) and (item := decode_signature(part.signature)):
            yield item
    for call in message.calls:
        item = {"call_id": call.id, "name": call.name, "arguments": to_json(call.args).decode()}
        yield {"type": "function_call", **({"id": call.signature} if call.signature else {}), **item}


def _output(message: Message) -> str | list[dict[str, Any]]:
    words, pictures = openai.encode_answer(message), [part for part in message.content if isinstance(part, Image)]
    if not pictures:
        return words
    if message.status == "error":  # the words that tell of it come first
        return [_block(Text(words)), *map(_block, pictures)]
    return [_block(part) for part in message.content]


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "input_image", "detail": "auto", "image_url": openai.data_url(part)}
    return {"type": "input_text", "text": part.text}


_CUT: Mapping[str, Finish] = {"max_output_tokens": "length", "content_filter": "refused"}
ENDS = frozenset(f"response.{status}" for status in ("completed", "incomplete", "failed", "cancelled"))


class ReplyStream(openai.ReplyStream):
    """Reads one streamed reply, event by event; it ends as the other one of OpenAI's."""

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        super().__init__(target, names)
        self._slots: set[Hashable] = set()
        self._streamed: set[Hashable] = set()
        self._done: set[Hashable] = set()
        # a call whose thought cannot be sent back goes back without its item's id: the two are only taken together
        self._has_lost_thought = False

    def feed(self, chunk: Any) -> list[ReplyEvent]:
        event = as_object(chunk)
        kind, slot = as_text(event.get("type")), _slot(event)
        self._slots.add(slot)
        match kind.removeprefix("response."):
            case "output_text.delta":
                return self._words(slot, _part(event), event.get("delta"))
            case "refusal.delta":
                self._is_refusal = True
                return self._words(slot, _part(event), event.get("delta"))
            case "reasoning_summary_text.delta" | "reasoning_text.delta":
                return self._thought(slot, _part(event), event.get("delta"))
            case "function_call_arguments.delta":
                self._streamed.add((slot, "arguments"))
                return self._reply.call(slot, piece=as_text(event.get("delta")))
            case "output_item.added":
                item = as_object(event.get("item"))
                return self._take_call(slot, item) if item.get("type") == "function_call" else []
            case "output_item.done":
                return self._item(slot, as_object(event.get("item")))
            case "error":
                self._error = self._error or provider_error(event.get("error") or event)
        return self._whole(kind, as_object(event.get("response"))) if kind in ENDS else []

    def _words(self, slot: Hashable, at: int, piece: Any) -> list[ReplyEvent]:
        self._streamed.add((slot, at))
        return self._reply.text(as_text(piece))

    def _thought(self, slot: Hashable, at: int, piece: Any) -> list[ReplyEvent]:
        is_next = (slot, "thought") in self._streamed and (slot, at) not in self._streamed
        self._streamed |= {(slot, at), (slot, "thought")}
        return self._reply.thinking(("\n\n" if is_next else "") + as_text(piece))

    def _item(self, slot: Hashable, item: Mapping[str, Any]) -> list[ReplyEvent]:
        if slot in self._done:
            return []
        self._done.add(slot)
        match item.get("type"):
            case "message":
                return self._message(slot, item)
            case "reasoning":
                return self._reasoning(slot, item)
            case "function_call":
                rest = "" if (slot, "arguments") in self._streamed else as_text(item.get("arguments"))
                mark = "" if self._has_lost_thought else as_text(item.get("id"))
                return self._take_call(slot, item, piece=rest, mark=mark)
        return []

    def _take_call(
        self, slot: Hashable, item: Mapping[str, Any], *, piece: str = "", mark: str = ""
    ) -> list[ReplyEvent]:
        name, call_id = as_text(item.get("name")), as_text(item.get("call_id"))
        return self._reply.call(slot, id=call_id, name=name, piece=piece, mark=mark)

    def _message(self, slot: Hashable, item: Mapping[str, Any]) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for index, part in enumerate(map(as_object, as_list(item.get("content")))):
            self._is_refusal = self._is_refusal or part.get("type") == "refusal"
            if (slot, index) not in self._streamed:
                events += self._words(slot, index, part.get("text") or part.get("refusal"))
        return events

    def _reasoning(self, slot: Hashable, item: Mapping[str, Any]) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        if (slot, "thought") not in self._streamed:
            parts = as_list(item.get("summary")) or as_list(item.get("content"))
            for index, part in enumerate(map(as_object, parts)):
                events += self._thought(slot, index, part.get("text"))
        mark = _seal(item)
        self._has_lost_thought = self._has_lost_thought or not mark
        return [*events, *self._reply.thinking("", mark)]

    def _whole(self, kind: str, response: Mapping[str, Any]) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for index, item in enumerate(map(as_object, as_list(response.get("output")))):
            own = as_text(item.get("id"))
            events += self._item(own if own in self._slots else index, item)
        if response.get("usage"):
            self._reply.use(_usage(as_object(response["usage"])))
        match kind:
            case "response.completed":
                self._finish = "stop"
            case "response.cancelled":
                self._finish = "aborted"
            case "response.incomplete":
                reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
                self._finish = _CUT.get(reason, "error")
                if self._finish == "error":
                    self._error = self._error or f"the reply is incomplete ({provider_error(reason)})"
            case _:
                self._error = self._error or provider_error(response.get("error"))
        return events


def read_reply(response: Any, target: Target, names: Mapping[str, str] = {}) -> Replied:
    """Return a reply that was sent whole."""
    last = {"type": f"response.{as_text(as_object(response).get('status'))}", "response": response}
    return ReplyStream.read_whole(last, target, names)


def _slot(event: Mapping[str, Any]) -> Hashable:
    """Return what tells an item from the others: its place, or its id where a server leaves the place out."""
    place = event.get("output_index")
    if isinstance(place, int):
        return place
    return as_text(event.get("item_id")) or as_text(as_object(event.get("item")).get("id"))


def _part(event: Mapping[str, Any]) -> int:
    place = event.get("content_index", event.get("summary_index"))
    return place if isinstance(place, int) else 0


def _seal(item: Mapping[str, Any]) -> str:
    """Return a thought as it is sent back, "" when the server kept it to itself."""
    if not as_text(item.get("id")) or not as_text(item.get("encrypted_content")):
        return ""
    kept = ("type", "id", "summary", "content", "encrypted_content")
    return encode_signature({name: item[name] for name in kept if item.get(name) is not None})


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = as_object(usage.get("input_tokens_details"))
    return Usage(
        input=as_count(usage.get("input_tokens")),
        output=as_count(usage.get("output_tokens")),
        cached=as_count(details.get("cached_tokens")),
        written=as_count(details.get("cache_write_tokens")),
    )
