"""Replies as Anthropic streams them, or sends them whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.define.event import Replied, ReplyEvent, Usage
from toolcrib.define.message import Finish

from .reply import BROKE_OFF, Reply
from .target import Target
from .trim import error_text
from .wire import complaint, count, fields, items, words

__all__ = ["REDACTED", "Chunks", "reply_from"]

# The mark of a thought that came in cipher only is this and the cipher; a signature has no colon.
REDACTED = "redacted:"

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
class _Block:
    """The part of the reply that is arriving: `input` are the arguments of a call that were said at once."""

    at: int = -1
    kind: str = ""
    input: Any = None
    signature: list[str] = field(default_factory=list)


class Chunks:
    """Reads one streamed reply, event by event, whatever the events may be."""

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        self._reply = Reply(target, names)
        self._block = _Block()
        self._counts: dict[str, int] = {}
        self._reason = self._why = self._error = ""

    @property
    def is_over(self) -> bool:
        """Whether whatever may still come is left out."""
        return self._reply.is_over

    def feed(self, event: Any) -> list[ReplyEvent]:
        """Take the next event, as it was parsed; a ping, and one that nobody knows, says nothing."""
        said = fields(event)
        at = count(said.get("index"))
        match words(said.get("type")):
            case "content_block_start":
                return self._start(at, fields(said.get("content_block")))
            case "content_block_delta":
                return self._grow(at, fields(said.get("delta")))
            case "content_block_stop":
                return self._stop(at)
            case "message_start":
                self._count(fields(fields(said.get("message")).get("usage")))
            case "message_delta":
                self._count(fields(said.get("usage")))
                self._give_reason(fields(said.get("delta")))
            case "error":
                self._error = self._error or complaint(said.get("error"))
        return []

    def end(self) -> Replied:
        """Return the whole reply; a stream that gave no reason for its end was broken off."""
        self._reply.use(_usage(self._counts))
        if self._error or not self._reason:
            return self._reply.end("error", self._error or BROKE_OFF)
        if self._reason not in _FINISHES:
            return self._reply.end("error", f"the reply ended for a reason nobody knows ({error_text(self._reason)})")
        sentence = _SENTENCES.get(self._reason, "")
        return self._reply.end(_FINISHES[self._reason], f"{sentence}: {self._why}" if self._why else sentence)

    def _start(self, at: int, block: Mapping[str, Any]) -> list[ReplyEvent]:
        events = self._stop(self._block.at)
        kind = words(block.get("type"))
        self._block = _Block(at, kind, block.get("input"))
        if kind == "tool_use":
            return [*events, *self._reply.call(at, id=words(block.get("id")), name=words(block.get("name")))]
        if kind == "redacted_thinking":
            return [*events, *self._reply.thinking("", f"{REDACTED}{words(block.get('data'))}")]
        return [*events, *self._grow(at, block)]

    def _grow(self, at: int, piece: Mapping[str, Any]) -> list[ReplyEvent]:
        """Take more of a block. Tools that the provider runs itself look like calls, and are of another kind."""
        block = self._block
        match block.kind if at == block.at else "":
            case "text":
                return self._reply.text(words(piece.get("text")))
            case "thinking":
                block.signature += [seal] if (seal := words(piece.get("signature"))) else []
                return self._reply.thinking(words(piece.get("thinking")))
            case "tool_use" if text := words(piece.get("partial_json")):
                block.input = None
                return self._reply.call(at, piece=text)
        return []

    def _stop(self, at: int) -> list[ReplyEvent]:
        block = self._block
        if at != block.at:
            return []
        self._block = _Block()
        if block.signature:
            return self._reply.thinking("", "".join(block.signature))
        return self._reply.call(at, args=block.input) if block.kind == "tool_use" and fields(block.input) else []

    def _give_reason(self, said: Mapping[str, Any]) -> None:
        self._reason = words(said.get("stop_reason")) or self._reason
        explanation = words(fields(said.get("stop_details")).get("explanation"))
        self._why = error_text(explanation) if explanation else self._why

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Keep the newest number of each kind: they are sums, not additions."""
        self._counts |= {kind: count(usage[kind]) for kind in _KINDS if usage.get(kind) is not None}


def reply_from(response: Any, target: Target, names: Mapping[str, str] = {}) -> Replied:
    """Return a reply that was sent whole."""
    chunks = Chunks(target, names)
    said = fields(response)
    chunks.feed(said)  # an error looks the same in both
    for at, block in enumerate(items(said.get("content"))):
        chunks.feed({"type": "content_block_start", "index": at, "content_block": block})
        chunks.feed({"type": "content_block_stop", "index": at})
    chunks.feed({"type": "message_delta", "delta": said, "usage": said.get("usage")})
    return chunks.end()


_KINDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _usage(counts: Mapping[str, int]) -> Usage:
    fresh, output, cached, written = (counts.get(kind, 0) for kind in _KINDS)
    return Usage(input=fresh + cached + written, output=output, cached=cached, written=written)
