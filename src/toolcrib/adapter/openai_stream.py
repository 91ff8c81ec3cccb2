"""Replies as OpenAI's chat completions stream them, or send them whole."""

from collections.abc import Mapping
from typing import Any

from toolcrib.define.event import Replied, ReplyEvent, Usage
from toolcrib.define.message import Finish

from .reply import BROKE_OFF, Reply
from .target import Target
from .wire import complaint, count, fields, items, sealed, words

__all__ = ["REASONING", "Chunks", "reply_from"]

# Where servers put what a model thinks aloud; it goes back under the same name.
REASONING = ("reasoning_content", "reasoning", "reasoning_text")

_FINISHES: Mapping[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


class Chunks:
    """Reads one streamed reply, chunk by chunk, whatever the chunks may be."""

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        self._reply = Reply(target, names)
        self._finish: Finish | None = None
        self._error = ""
        self._is_refusal = False

    @property
    def is_over(self) -> bool:
        """Whether whatever may still come is left out."""
        return self._reply.is_over

    def feed(self, chunk: Any) -> list[ReplyEvent]:
        """Take the next chunk, as it was parsed."""
        said = fields(chunk)
        if said.get("usage"):
            self._reply.use(_usage(fields(said["usage"])))
        if said.get("error"):
            self._error = self._error or complaint(said["error"])
        choices = (fields(choice) for choice in items(said.get("choices")))
        choice = next((choice for choice in choices if choice.get("index", 0) == 0), {})
        events = self._delta(fields(choice.get("delta") or choice.get("message")))
        if reason := choice.get("finish_reason"):
            self._finish_by(reason)
        return events

    def end(self) -> Replied:
        """Return the whole reply; a stream that gave no reason for its end was broken off."""
        if self._error or self._finish is None:
            return self._reply.end("error", self._error or BROKE_OFF)
        is_refused = self._is_refusal and self._finish in ("stop", "calls")
        return self._reply.end("refused" if is_refused else self._finish)

    def _delta(self, delta: Mapping[str, Any]) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for field in REASONING:
            if thought := words(delta.get(field)):
                events += self._reply.thinking(thought, field)
                break  # a server that says it twice means it once
        events += self._reply.text(_text(delta.get("content")))
        if refusal := words(delta.get("refusal")):
            self._is_refusal = True
            events += self._reply.text(refusal)
        for place, called in enumerate(map(fields, items(delta.get("tool_calls")))):
            events += self._call(called.get("index", place), called, fields(called.get("function")))
        if legacy := fields(delta.get("function_call")):
            events += self._call("function_call", legacy, legacy)
        return events

    def _call(self, slot: Any, called: Mapping[str, Any], function: Mapping[str, Any]) -> list[ReplyEvent]:
        args = function.get("arguments")
        return self._reply.call(
            slot if isinstance(slot, int | str) else words(called.get("id")),
            id=words(called.get("id")),
            name=words(function.get("name")),
            piece=words(args),
            args=args if isinstance(args, dict) else None,  # some servers send an object for the text of one
            # what Gemini's models behind this API want back
            mark=sealed(called["extra_content"]) if fields(called.get("extra_content")) else "",
        )

    def _finish_by(self, reason: Any) -> None:
        known = _FINISHES.get(reason) if isinstance(reason, str) else None
        if known is None:
            self._error = self._error or f"the reply ended for a reason nobody knows ({complaint(reason)})"
        self._finish = known


def reply_from(response: Any, target: Target, names: Mapping[str, str] = {}) -> Replied:
    """Return a reply that was sent whole."""
    chunks = Chunks(target, names)
    chunks.feed(response)
    return chunks.end()


def _usage(said: Mapping[str, Any]) -> Usage:
    details = fields(said.get("prompt_tokens_details"))
    return Usage(
        input=count(said.get("prompt_tokens")),
        output=count(said.get("completion_tokens")),
        cached=count(details.get("cached_tokens")) or count(said.get("prompt_cache_hit_tokens")),
        written=count(details.get("cache_write_tokens")),
    )


def _text(content: Any) -> str:
    """Return the words of a content, which some servers send as a list of blocks."""
    blocks = map(fields, items(content))
    return words(content) or "".join(words(block.get("text")) for block in blocks if block.get("type") == "text")
