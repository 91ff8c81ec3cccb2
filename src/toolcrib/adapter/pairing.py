"""Calls and their answers: each answer right behind the reply that asked for it, one for every call.

    reply(a, b)  user  answer(b)            reply(a, b)  answer(a: none was kept)  answer(b)  user
    answer(x)    reply(c)            ->     reply(c)     answer(c: none was kept)

A reply that broke off (by length, an error, a stop or a refusal) keeps only the calls that were answered: none of its
others ran. An answer that nobody asked for, or the second one to a call, is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from toolcrib.define.message import Call, Finish, Message
from toolcrib.define.result import Text

__all__ = ["BROKEN", "Exchange", "exchanges", "unanswered"]

BROKEN: frozenset[Finish] = frozenset({"length", "refused", "error", "aborted"})
_LOST = "no result of this call was kept; it may not have run"

_Slot = tuple[int, int]  # the place of a reply, and of a call in it


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message that is no answer, and the answers to its calls, one for each in the same order."""

    message: Message
    answers: tuple[Message, ...] = ()


def exchanges(messages: Sequence[Message]) -> Iterator[Exchange]:
    """Return the conversation with every call answered."""
    answered = _answers(messages)
    for place, message in enumerate(messages):
        if message.role == "tool":
            continue
        if message.role != "assistant" or not message.calls:
            yield Exchange(replace(message, calls=()) if message.calls else message)
            continue
        pairs = [(call, answered.get((place, at))) for at, call in enumerate(message.calls)]
        if message.finish in BROKEN:
            pairs = [pair for pair in pairs if pair[1] is not None]
        calls = tuple(call for call, _ in pairs)
        answers = tuple(answer or _lost(call, message.at) for call, answer in pairs)
        yield Exchange(message if calls == message.calls else replace(message, calls=calls), answers)


def unanswered(messages: Sequence[Message]) -> list[Message]:
    """Return what a late answer could still change: calls that have none, and whatever else was said under their ids.

    The pairs of all other ids are made for good: pairing the rest of a conversation behind these messages alone comes
    to the same as pairing it behind all of them.
    """
    answered = _answers(messages)
    still_open = {
        call.id
        for place, message in enumerate(messages)
        if message.role == "assistant"
        for at, call in enumerate(message.calls)
        if (place, at) not in answered
    }
    kept = []
    for message in messages if still_open else ():
        if message.role == "tool" and message.call_id in still_open:
            kept.append(message)
        elif message.role == "assistant":
            calls = tuple(call for call in message.calls if call.id in still_open)
            kept += [replace(message, calls=calls)] if calls else []
    return kept


def _answers(messages: Sequence[Message]) -> dict[_Slot, Message]:
    """Return which answer belongs to which call."""
    found: dict[_Slot, Message] = {}
    threads: dict[str, _Thread] = {}
    for place, message in enumerate(messages):
        if message.role == "assistant":
            asked: dict[str, list[_Slot]] = {}
            for at, call in enumerate(message.calls):
                asked.setdefault(call.id, []).append((place, at))
            for own, slots in asked.items():
                threads.setdefault(own, _Thread()).ask(slots, found)
        elif message.role == "tool" and message.call_id in threads:
            threads[message.call_id].waiting.append(message)
    for thread in threads.values():
        thread.ask([], found)
    return found


class _Thread:
    """All calls with one id, in order. Models reuse ids: an answer belongs to the reply that asked last."""

    def __init__(self) -> None:
        self.open: list[_Slot] = []
        self.latest = 0
        self.waiting: list[Message] = []

    def ask(self, slots: list[_Slot], found: dict[_Slot, Message]) -> None:
        """Hand out the answers that came since the last reply with this id, then open the calls of the next one."""
        # more answers than the last reply has calls: the first of them are late ones, to calls that are still open
        first = len(self.open) - max(self.latest, min(len(self.waiting), len(self.open)))
        pairs = list(zip(self.open[first:], self.waiting, strict=False))
        found.update(pairs)
        del self.open[first : first + len(pairs)]
        self.open += slots
        self.latest, self.waiting = len(slots), []


def _lost(call: Call, at: float) -> Message:
    return Message(role="tool", content=(Text(_LOST),), call_id=call.id, status="error", at=at)
