"""Tools, conversations and replies as Anthropic's messages spell them."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcrib.define.event import Replied, ReplyEvent, Usage
from toolcrib.define.message import Finish, Message, Part, Thinking
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool
from toolcrib.lazy import dataclass, field

from .cards import Target
from .conversation import OPENING, prepare
from .names import NamePreference, assign_names, claude_names, name_for, schema_for
from .reply import BROKE_OFF, ReplyReader
from .trim import error_text
from .wire import as_count, as_list, as_object, as_text, provider_error, sanitize

_Block = dict[str, Any]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool with its schema as `input_schema`."""
    schema = schema_for("anthropic", tool, "portable")
    return {"name": tool.name, "description": sanitize(tool.description), "input_schema": schema}


def request(messages: Sequence[Message], tools: Sequence[Tool], target: Target) -> dict[str, Any]:
    """Return `system`, `messages` and `tools` of a request, without the first and the last where empty."""
    history = prepare(messages, target)
    system = "\n\n".join(filter(None, map(system_text, history)))
    body: dict[str, Any] = {"system": system} if system else {}
    body["messages"] = encode_turns(history, wire_names(tools, target), target)
    if tools:
        body["tools"] = declare_all(tools, target)
    return body


def declare_all(tools: Sequence[Tool], target: Target) -> list[dict[str, Any]]:
    """Return the tools that a request offers, under the names it shows."""
    names = wire_names(tools, target)
    return [{**declare(tool), "name": names[tool.name]} for tool in tools]


def wire_names(tools: Sequence[Tool], target: Target) -> dict[str, str]:
    """Return the name that a request shows by the tool's own."""
    return assign_names((tool.name for tool in tools), _prefer_names(target))


def own_names(tools: Sequence[Tool], target: Target) -> dict[str, str]:
    """Return the tools' own names by those that `request` shows."""
    return {shown: own for own, shown in wire_names(tools, target).items()}


def system_text(message: Message) -> str:
    """Return what a message adds to the system prompt, which stands apart from the turns here."""
    return message.plain_text if message.role == "system" else ""


def _prefer_names(target: Target) -> NamePreference:
    return claude_names if target.claude_code else lambda name: (name,)


def encode_turns(
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
        blocks = list(_blocks(message, names, _prefer_names(target)))
        if made and made[-1][0] == role:
            made[-1][1].extend(blocks)
        elif blocks:
            if role == "assistant" and not made and opens:
                made.append(("user", [_text(OPENING)]))
            made.append((role, blocks))
    return [{"role": role, "content": _user(blocks) if role == "user" else blocks} for role, blocks in made]


def _user(blocks: list[_Block]) -> str | list[_Block]:
    """Return what a user says, results of tools first; a single text as the text itself."""
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        text: str = blocks[0]["text"]
        return text
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _blocks(message: Message, names: Mapping[str, str], wishes: NamePreference) -> Iterator[_Block]:
    if message.role == "tool":
        yield from _result(message)
        return
    yield from filter(None, map(_block, message.content))
    for call in message.calls:
        name = name_for(call.name, names, wishes)
        yield {"type": "tool_use", "id": call.id, "name": name, "input": dict(call.args)}


def _result(message: Message) -> Iterator[_Block]:
    """Return the answer of a tool, pictures inside. A failure has words alone: its pictures stand beside it."""
    pictures = [part for part in message.content if isinstance(part, Image)]
    failed = message.status == "error"
    content: str | list[_Block] = message.plain_text or (error_text("") if failed else "")
    if pictures and not failed:
        content = list(filter(None, map(_block, message.content)))
    yield {"type": "tool_result", "tool_use_id": message.call_id, "content": content, "is_error": failed}
    if failed and pictures:
        yield _text(f"[in the result of the failed call {message.call_id}]")
        yield from map(_picture, pictures)


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
    if thought.signature.startswith(_REDACTED):
        return {"type": "redacted_thinking", "data": thought.signature.removeprefix(_REDACTED)}
    if thought.signature:
        return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}
    # a thought without its signature was cut off; the provider takes it as words only
    return _text(thought.text) if thought.text.strip() else None


# The mark of a thought that came in cipher only is this and the cipher; a signature has no colon.
_REDACTED = "redacted:"

_FINISHES: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "pause_turn": "error",
}
_SENTENCES = {
    "model_context_window_exceeded": "the conversation and the reply exceed the model's context window",
    "refusal": "the provider refused to let the model go on",
    "pause_turn": "the provider paused the reply for tools of its own; ask again",
}


@dataclass(slots=True)
class _OpenBlock:
    """The part of the reply that is arriving: `input` are the arguments of a call that came whole."""

    at: int = -1
    kind: str = ""
    input: Any = None
    signature: list[str] = field(default_factory=list)


class ReplyStream(ReplyReader):
    """Reads one streamed reply, event by event."""

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        super().__init__(target, names)
        self._block = _OpenBlock()
        self._counts: dict[str, int] = {}
        self._reason = self._why = ""

    def feed(self, event: Any) -> list[ReplyEvent]:
        """Take the next event, as it was parsed; a ping and an unknown one give nothing."""
        frame = as_object(event)
        at = as_count(frame.get("index"))
        match as_text(frame.get("type")):
            case "content_block_start":
                return self._start(at, as_object(frame.get("content_block")))
            case "content_block_delta":
                return self._grow(at, as_object(frame.get("delta")))
            case "content_block_stop":
                return self._stop(at)
            case "message_start":
                self._count(as_object(as_object(frame.get("message")).get("usage")))
            case "message_delta":
                self._count(as_object(frame.get("usage")))
                self._give_reason(as_object(frame.get("delta")))
            case "error":
                self._error = self._error or provider_error(frame.get("error"))
        return []

    def end(self) -> Replied:
        self._reply.use(_usage(self._counts))
        if self._error or not self._reason:
            return self._reply.end("error", self._error or BROKE_OFF)
        if self._reason not in _FINISHES:
            return self._reply.end("error", f"the reply ended for a reason nobody knows ({error_text(self._reason)})")
        sentence = _SENTENCES.get(self._reason, "")
        return self._reply.end(_FINISHES[self._reason], f"{sentence}: {self._why}" if self._why else sentence)

    def _start(self, at: int, block: Mapping[str, Any]) -> list[ReplyEvent]:
        events = self._stop(self._block.at)
        kind = as_text(block.get("type"))
        self._block = _OpenBlock(at, kind, block.get("input"))
        if kind == "tool_use":
            return [*events, *self._reply.call(at, id=as_text(block.get("id")), name=as_text(block.get("name")))]
        if kind == "redacted_thinking":
            return [*events, *self._reply.thinking("", f"{_REDACTED}{as_text(block.get('data'))}")]
        return [*events, *self._grow(at, block)]

    def _grow(self, at: int, piece: Mapping[str, Any]) -> list[ReplyEvent]:
        """Take more of a block. Tools that the provider runs itself look like calls, and are of another kind."""
        block = self._block
        match block.kind if at == block.at else "":
            case "text":
                return self._reply.text(as_text(piece.get("text")))
            case "thinking":
                block.signature += [seal] if (seal := as_text(piece.get("signature"))) else []
                return self._reply.thinking(as_text(piece.get("thinking")))
            case "tool_use" if text := as_text(piece.get("partial_json")):
                block.input = None
                return self._reply.call(at, piece=text)
        return []

    def _stop(self, at: int) -> list[ReplyEvent]:
        block = self._block
        if at != block.at:
            return []
        self._block = _OpenBlock()
        if block.signature:
            return self._reply.thinking("", "".join(block.signature))
        return self._reply.call(at, args=block.input) if block.kind == "tool_use" and as_object(block.input) else []

    def _give_reason(self, delta: Mapping[str, Any]) -> None:
        self._reason = as_text(delta.get("stop_reason")) or self._reason
        explanation = as_text(as_object(delta.get("stop_details")).get("explanation"))
        self._why = error_text(explanation) if explanation else self._why

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Keep the newest number of each kind: they are sums, not additions."""
        self._counts |= {kind: as_count(usage[kind]) for kind in _KINDS if usage.get(kind) is not None}


def read_reply(response: Any, target: Target, names: Mapping[str, str] = {}) -> Replied:
    """Return a reply that was sent whole."""
    chunks = ReplyStream(target, names)
    body = as_object(response)
    chunks.feed(body)  # an error looks the same in both
    for index, block in enumerate(as_list(body.get("content"))):
        chunks.feed({"type": "content_block_start", "index": index, "content_block": block})
        chunks.feed({"type": "content_block_stop", "index": index})
    chunks.feed({"type": "message_delta", "delta": body, "usage": body.get("usage")})
    return chunks.end()


_KINDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _usage(counts: Mapping[str, int]) -> Usage:
    fresh, output, cached, written = (counts.get(kind, 0) for kind in _KINDS)
    return Usage(input=fresh + cached + written, output=output, cached=cached, written=written)
