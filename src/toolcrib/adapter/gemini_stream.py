"""Replies as Gemini streams them, or sends them whole, which looks the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.define.event import Replied, ReplyEvent, Usage

from .gemini_pieces import Pieces
from .reply import BROKE_OFF, Reply
from .target import Target
from .trim import error_text
from .wire import complaint, count, fields, items, words

__all__ = ["Chunks", "reply_from"]

_REFUSED = frozenset(
    [
        "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
    ]
)  # fmt: skip
_MOST_GIVEN = 1_000  # calls; a reply with far fewer is stopped


class Chunks:
    """Reads one streamed reply, chunk by chunk, whatever the chunks may be."""

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        self._reply = Reply(target, names)
        self._given: list[tuple[str, str]] = []
        self._pieces: Pieces | None = None  # of the last call, while it is not finished
        self._reason = self._why = self._error = self._blocked = ""

    @property
    def given(self) -> Sequence[tuple[str, str]]:
        """The id and the name of every call so far, as the provider wrote them."""
        return self._given

    @property
    def is_over(self) -> bool:
        """Whether whatever may still come is left out."""
        return self._reply.is_over

    def feed(self, chunk: Any) -> list[ReplyEvent]:
        """Take the next chunk, as it was parsed."""
        said = fields(chunk)
        if said.get("usageMetadata"):
            self._reply.use(_usage(fields(said["usageMetadata"])))
        if said.get("error"):
            self._error = self._error or complaint(said["error"])
        feedback = fields(said.get("promptFeedback"))
        if reason := words(feedback.get("blockReason")):
            self._blocked = _explained(reason, feedback.get("blockReasonMessage"))
        candidate = fields(next(iter(items(said.get("candidates"))), None))
        events: list[ReplyEvent] = []
        for part in items(fields(candidate.get("content")).get("parts")):
            events += self._part(fields(part))
        if reason := words(candidate.get("finishReason")):
            self._reason, self._why = reason, _explained(reason, candidate.get("finishMessage"))
        return events

    def end(self) -> Replied:
        """Return the whole reply; a stream that gave no reason for its end was broken off."""
        self._cut_call()
        if self._error:
            return self._reply.end("error", self._error)
        if self._blocked:
            return self._reply.end("refused", f"the provider refused the conversation: {self._blocked}")
        match self._reason:
            case "":
                return self._reply.end("error", BROKE_OFF)
            case "STOP":
                return self._reply.end("stop")
            case "MAX_TOKENS":
                return self._reply.end("length")
        if self._reason in _REFUSED:
            return self._reply.end("refused", f"the provider refused to let the model go on: {self._why}")
        return self._reply.end("error", f"the provider broke the reply off: {self._why}")

    def _part(self, part: Mapping[str, Any]) -> list[ReplyEvent]:
        mark, text = words(part.get("thoughtSignature")), words(part.get("text"))
        if isinstance(part.get("functionCall"), Mapping) and (part["functionCall"] or self._pieces):
            return self._call(part["functionCall"], mark)
        if part.get("thought") is True:
            return self._reply.thinking(text, mark)
        # the seal on words is kept as a thought without words, which goes back in the same place
        return [*self._reply.text(text), *self._reply.thinking("", mark)]

    def _call(self, called: Mapping[str, Any], mark: str) -> list[ReplyEvent]:
        """Take a call, or the next piece of one: what says no other id and no other name goes on with it."""
        id, name = words(called.get("id")), words(called.get("name"))
        goes_on = called.get("willContinue") is True
        if self._pieces and not (id in ("", self._given[-1][0]) and name in ("", self._given[-1][1])):
            self._cut_call()
        if self._pieces is None:
            if len(self._given) == _MOST_GIVEN:
                return []
            self._given.append((id, name))
            if not goes_on and "partialArgs" not in called:
                args = dict(fields(called.get("args")))
                return self._reply.call(len(self._given), id=id, name=name, args=args, mark=mark)
            self._pieces = Pieces()
        pieces, slot = self._pieces, len(self._given)
        pieces.add(called)
        if goes_on:
            return self._reply.call(slot, id=id, name=name, mark=mark)
        self._pieces = None
        events = self._reply.call(slot, id=id, name=name, args=pieces.whole(), mark=mark)
        self._reply.spoil(slot, pieces.flaw)
        return events

    def _cut_call(self) -> None:
        if self._pieces:
            self._reply.spoil(len(self._given), "the arguments broke off before their end; make the call again")
            self._pieces = None


def reply_from(response: Any, target: Target, names: Mapping[str, str] = {}) -> Replied:
    """Return a reply that was sent whole."""
    chunks = Chunks(target, names)
    chunks.feed(response)
    return chunks.end()


def _explained(reason: str, message: Any) -> str:
    return error_text(f"{reason}, {words(message)}" if words(message) else reason)


def _usage(said: Mapping[str, Any]) -> Usage:
    return Usage(
        input=count(said.get("promptTokenCount")) + count(said.get("toolUsePromptTokenCount")),
        output=count(said.get("candidatesTokenCount")) + count(said.get("thoughtsTokenCount")),
        cached=count(said.get("cachedContentTokenCount")),
    )
