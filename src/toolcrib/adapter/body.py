"""The body of a request: the bytes that go to a provider for one streamed reply."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from toolcrib.define.history import History
from toolcrib.define.message import Message
from toolcrib.define.model import Request
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool

from . import anthropic, gemini, openai, responses
from .cards import Api, Target
from .conversation import Exchange, Ids, exchanges, fitted, prepared, rule_for, unanswered, wired
from .options import marked, marked_turns, options_of

__all__ = ["Told", "body_of", "names_of", "packed", "told"]

_WRITE_TURNS = {
    "openai": openai.turns,
    "responses": responses.turns,
    "anthropic": anthropic.turns,
    "gemini": gemini.turns,
}
_KEY = "adapter.written"
_MOST = 4  # forms of one conversation: models that take turns in it, or tools that change


@dataclass(frozen=True, slots=True)
class Told:
    """The turns of a conversation: those `done`, as they are sent and with commas between, and those after them.

    `system` has what system messages said, for providers that take it apart from the turns.
    """

    done: bytes | bytearray
    turns: Sequence[Mapping[str, Any]]
    system: Sequence[Message]


def told(history: History, target: Target, names: Mapping[str, str]) -> Told:
    """Return the conversation as `target` is told it; `names` are those that tools go by, as far as they matter."""
    forms: dict[Hashable, _Written] = history.forms.setdefault(_KEY, {})
    key = (target.api, target.model, target.sees, target.claude_code, frozenset(names.items()))
    written = forms.pop(key, None) or _Written(target, names)
    found = written.told(history)
    if found is None:
        written = _Written(target, names)
        found = written.told(history)
    assert found is not None, "a conversation that was not written yet has nothing that could change"
    forms[key] = written
    while len(forms) > _MOST:
        del forms[next(iter(forms))]
    return found


def packed(value: Any) -> bytes:
    """Return a value as JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a number beyond 64 bits, or values deeper inside each other than orjson goes
        return json.dumps(value, separators=(",", ":")).encode()


class _Written:
    """One form of one conversation."""

    def __init__(self, target: Target, names: Mapping[str, str]) -> None:
        self._target, self._names = target, names
        self._seen = 0  # messages that are finished
        self._done = bytearray()
        self._last: Mapping[str, Any] | None = None  # the turn after those done; it may get a mark yet
        self._system: list[Message] = []
        self._ids = Ids(rule_for(target))
        # what a late answer could change in the finished part, and how it was paired
        self._open: list[Message] = []
        self._pairs: list[Exchange] = []

    def told(self, history: History) -> Told | None:
        """Return the whole conversation, None when what is finished would have to change."""
        new = history.since(self._seen)
        pairs = list(exchanges([*self._open, *new]))
        places = [place for place, message in enumerate(new) if message.role != "tool"]
        paired, coming = pairs[: len(pairs) - len(places)], pairs[len(pairs) - len(places) :]
        kept = [
            (place, fit) for place, each in zip(places, coming, strict=True) for fit in fitted((each,), self._target)
        ]
        if paired != self._pairs:
            return None
        end = self._finished(kept)
        if end:
            self._finish([each for _, each in kept[:end]])
            self._settle(new, kept[end][0])
        rest = [each for _, each in kept[end:]]
        turns = self._turns(wired(rest, self._ids.branch()))
        system = [*self._system, *_system_messages(rest)]
        return Told(self._done, [self._last, *turns] if self._last is not None else turns, system)

    def _finished(self, kept: Sequence[tuple[int, Exchange]]) -> int:
        """Return how many of the exchanges stand before the last reply that a user's turn comes before."""
        end, is_after_user = 0, self._last is not None
        for at, (_, each) in enumerate(kept):
            if each.message.role == "assistant":
                end = at if is_after_user else end
                is_after_user = bool(each.answers)
            elif each.message.role == "user":
                is_after_user = True
        return end

    def _finish(self, stretch: Sequence[Exchange]) -> None:
        turns = self._turns(wired(stretch, self._ids))
        for turn in (self._last, *turns[:-1]):
            if turn is not None:
                self._done += (b"," if self._done else b"") + packed(turn)
        self._last = turns[-1]
        self._system += _system_messages(stretch)

    def _settle(self, new: Sequence[Message], place: int) -> None:
        """Take the messages before `place` for finished; later ones may have answered their calls already."""
        self._seen += place
        self._open = unanswered([*self._open, *new[:place]])
        replies = sum(message.role != "tool" for message in self._open)
        self._pairs = list(exchanges([*self._open, *new[place:]]))[:replies] if replies else []

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        return _WRITE_TURNS[self._target.api](messages, self._names, self._target, opens=self._last is None)


def _system_messages(stretch: Iterable[Exchange]) -> list[Message]:
    return [each.message for each in stretch if each.message.role == "system"]


_TURNS_FIELD: Mapping[Api, bytes] = {
    "openai": b"messages",
    "responses": b"input",
    "anthropic": b"messages",
    "gemini": b"contents",
}
_DECLARED = {
    "openai": openai.declared,
    "responses": responses.declared,
    "anthropic": anthropic.declared,
    "gemini": gemini.declared,
}
_REMEMBERED = 64  # belts, the least used forgotten first


def body_of(request: Request, target: Target) -> bytes:
    """Return the whole JSON body of a streaming request; it costs what is new in the conversation, and copying."""
    tools = tuple(request.tools)
    said = told(request.history, target, _shown(tools, target))
    prompt = prepared([Message(role="system", content=(Text(request.system),))], target) if request.system else []
    fields = options_of(request, target, said.turns) | _system([*prompt, *said.system], target)
    turns = marked_turns(said.turns, target.keep) if target.api == "anthropic" else said.turns
    written: list[bytes | bytearray] = [*map(packed, _opening(prompt, target)), said.done, *map(packed, turns)]
    # joined once, at the end: the turns that are done are most of the bytes, and are copied no more often than needed
    pieces: list[bytes | bytearray] = [packed(fields)[:-1], b',"' if fields else b'"', _TURNS_FIELD[target.api], b'":[']
    for at, piece in enumerate(piece for piece in written if piece):
        if at:
            pieces.append(b",")
        pieces.append(piece)
    pieces.append(b"]")
    if tools:
        pieces += b',"tools":', _offered(tools, target)
    return b"".join([*pieces, b"}"])


def names_of(request: Request, target: Target) -> Mapping[str, str]:
    """Return the tools' own names by those that the model is shown, for whoever reads its calls."""
    shown = _shown(tuple(request.tools), target) or {tool.name: tool.name for tool in request.tools}
    return {other: own for own, other in shown.items()}


@lru_cache(maxsize=_REMEMBERED)
def _shown(tools: tuple[Tool, ...], target: Target) -> Mapping[str, str]:
    """Return the name that the model is shown by the tool's own; nothing where every tool goes by its own."""
    if target.api == "anthropic":
        return anthropic.shown_names(tools, target)
    return gemini.shown_names(tools) if target.api == "gemini" else {}


@lru_cache(maxsize=_REMEMBERED)
def _offered(tools: tuple[Tool, ...], target: Target) -> bytes:
    declared = _DECLARED[target.api](tools, target)
    return packed(marked(declared, target.keep) if target.api == "anthropic" else declared)


def _opening(prompt: Sequence[Message], target: Target) -> list[dict[str, Any]]:
    """Return the turn that says the system prompt, for those who take it as one."""
    if target.api == "openai":
        return openai.turns(prompt, {}, target)
    return responses.turns(prompt, {}, target) if target.api == "responses" else []


def _system(messages: Sequence[Message], target: Target) -> dict[str, Any]:
    """Return the system prompt, for those who take it apart from the turns."""
    if target.api == "anthropic":
        text = "\n\n".join(filter(None, map(anthropic.system_text, messages)))
        return {"system": marked([{"type": "text", "text": text}], target.keep)} if text else {}
    parts = [part for message in messages for part in gemini.system_parts(message)] if target.api == "gemini" else []
    return {"systemInstruction": {"parts": parts}} if parts else {}
