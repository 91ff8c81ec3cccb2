"""A conversation in a provider's form, written once: what is finished stays as bytes, only what is new is converted.

    user  reply  answers | reply  answers | reply  answers
    `------ as bytes --------------------' `-- anew each --'

A conversation is finished up to a reply that follows something a user or a tool said: no provider's form joins the two,
so nothing that comes later changes what stands before. Only an answer that comes late does; then all is written anew.
"""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from toolcrib.define.history import History
from toolcrib.define.message import Message

from . import anthropic, gemini, openai, responses
from .conversation import fitted, wired
from .ids import Ids, rule_for
from .pairing import Exchange, exchanges, unanswered
from .target import Target

__all__ = ["Told", "packed", "told"]

_TURNS = {
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
        system = [*self._system, *_system(rest)]
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
        self._system += _system(stretch)

    def _settle(self, new: Sequence[Message], place: int) -> None:
        """Take the messages before `place` for finished; later ones may have answered their calls already."""
        self._seen += place
        self._open = unanswered([*self._open, *new[:place]])
        replies = sum(message.role != "tool" for message in self._open)
        self._pairs = list(exchanges([*self._open, *new[place:]]))[:replies] if replies else []

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        return _TURNS[self._target.api](messages, self._names, self._target, opens=self._last is None)


def _system(stretch: Iterable[Exchange]) -> list[Message]:
    return [each.message for each in stretch if each.message.role == "system"]
