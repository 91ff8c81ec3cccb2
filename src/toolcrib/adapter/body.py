"""The body of a request: the bytes that go to a provider for one streamed reply."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from toolcrib.define.message import Message
from toolcrib.define.model import History, Request
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool
from toolcrib.lazy import dataclass

from . import anthropic, gemini, openai, responses
from .cards import Api, Target
from .conversation import CallIds, Exchange, assign_ids, exchanges, fit_exchanges, id_rule_for, open_messages, prepare
from .options import mark_last_block, mark_turns, request_options
from .wire import to_json


class _Spelling(NamedTuple):
    """How an API spells a request: the field of its turns, the turns, and the tools."""

    turns: bytes
    encode_turns: Callable[..., list[dict[str, Any]]]
    declare_all: Callable[[Sequence[Tool], Target], list[dict[str, Any]]]


_SPELLINGS: Mapping[Api, _Spelling] = {
    "openai": _Spelling(b"messages", openai.encode_turns, openai.declare_all),
    "responses": _Spelling(b"input", responses.encode_turns, responses.declare_all),
    "anthropic": _Spelling(b"messages", anthropic.encode_turns, anthropic.declare_all),
    "gemini": _Spelling(b"contents", gemini.encode_turns, gemini.declare_all),
}
_KEY = "adapter.written"
_MAX_FORMS = 4  # forms of one conversation: models that take turns in it, or tools that change


@dataclass(frozen=True, slots=True)
class EncodedHistory:
    """The turns of a conversation: those `done`, as they are sent and with commas between, and those after them.

    `system` has the system messages, for providers that take them apart from the turns.
    """

    done: bytes | bytearray
    turns: Sequence[Mapping[str, Any]]
    system: Sequence[Message]


def encode_history(history: History, target: Target, names: Mapping[str, str]) -> EncodedHistory:
    """Return the conversation as `target` gets it; `names` are those of tools on the wire, as far as they matter."""
    forms: dict[Hashable, _HistoryEncoder] = history.forms.setdefault(_KEY, {})
    key = (target.api, target.model, target.sees, target.claude_code, frozenset(names.items()))
    written = forms.pop(key, None) or _HistoryEncoder(target, names)
    found = written.encode(history)
    if found is None:
        written = _HistoryEncoder(target, names)
        found = written.encode(history)
    assert found is not None, "a conversation that was not written yet has nothing that could change"
    forms[key] = written
    while len(forms) > _MAX_FORMS:
        del forms[next(iter(forms))]
    return found


class _HistoryEncoder:
    """One form of one conversation."""

    def __init__(self, target: Target, names: Mapping[str, str]) -> None:
        self._target, self._names = target, names
        self._seen = 0  # messages that are finished
        self._done = bytearray()
        self._last: Mapping[str, Any] | None = None  # the turn after those done; it may get a mark yet
        self._system: list[Message] = []
        self._ids = CallIds(id_rule_for(target))
        # what a late answer could change in the finished part, and how it was paired
        self._open: list[Message] = []
        self._pairs: list[Exchange] = []

    def encode(self, history: History) -> EncodedHistory | None:
        """Return the whole conversation, None when what is finished would have to change."""
        new = history.since(self._seen)
        pairs = list(exchanges([*self._open, *new]))
        places = [place for place, message in enumerate(new) if message.role != "tool"]
        paired, coming = pairs[: len(pairs) - len(places)], pairs[len(pairs) - len(places) :]
        kept = [
            (place, fit)
            for place, each in zip(places, coming, strict=True)
            for fit in fit_exchanges((each,), self._target)
        ]
        if paired != self._pairs:
            return None
        end = self._count_finished(kept)
        if end:
            self._finish([each for _, each in kept[:end]])
            self._settle(new, kept[end][0])
        rest = [each for _, each in kept[end:]]
        turns = self._turns(assign_ids(rest, self._ids.branch()))
        system = [*self._system, *_system_messages(rest)]
        return EncodedHistory(self._done, [self._last, *turns] if self._last is not None else turns, system)

    def _count_finished(self, kept: Sequence[tuple[int, Exchange]]) -> int:
        """Return how many of the exchanges stand before the last reply that a user's turn comes before."""
        end, is_after_user = 0, self._last is not None
        for index, (_, each) in enumerate(kept):
            if each.message.role == "assistant":
                end = index if is_after_user else end
                is_after_user = bool(each.answers)
            elif each.message.role == "user":
                is_after_user = True
        return end

    def _finish(self, stretch: Sequence[Exchange]) -> None:
        turns = self._turns(assign_ids(stretch, self._ids))
        for turn in (self._last, *turns[:-1]):
            if turn is not None:
                self._done += (b"," if self._done else b"") + to_json(turn)
        self._last = turns[-1]
        self._system += _system_messages(stretch)

    def _settle(self, new: Sequence[Message], place: int) -> None:
        """Take the messages before `place` for finished; later ones may have answered their calls already."""
        self._seen += place
        self._open = open_messages([*self._open, *new[:place]])
        replies = sum(message.role != "tool" for message in self._open)
        self._pairs = list(exchanges([*self._open, *new[place:]]))[:replies] if replies else []

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        return _SPELLINGS[self._target.api].encode_turns(messages, self._names, self._target, opens=self._last is None)


def _system_messages(stretch: Iterable[Exchange]) -> list[Message]:
    return [each.message for each in stretch if each.message.role == "system"]


_CACHED_BELTS = 64  # belts, the least used forgotten first


def encode_body(request: Request, target: Target) -> bytes:
    """Return the whole JSON body of a streaming request; it costs what is new in the conversation, and copying."""
    tools = tuple(request.tools)
    history = encode_history(request.history, target, _wire_names(tools, target))
    prompt = prepare([Message(role="system", content=(Text(request.system),))], target) if request.system else []
    fields = request_options(request, target, history.turns) | _system([*prompt, *history.system], target)
    turns = mark_turns(history.turns, target.keep) if target.api == "anthropic" else history.turns
    first = _SPELLINGS[target.api].encode_turns(prompt, {}, target) if target.api in ("openai", "responses") else []
    written: list[bytes | bytearray] = [*map(to_json, first), history.done, *map(to_json, turns)]
    # joined once, at the end: the turns that are done are most of the bytes, and are copied no more often than needed
    pieces: list[bytes | bytearray] = [
        to_json(fields)[:-1],
        b',"' if fields else b'"',
        _SPELLINGS[target.api].turns,
        b'":[',
    ]
    for index, piece in enumerate(piece for piece in written if piece):
        if index:
            pieces.append(b",")
        pieces.append(piece)
    pieces.append(b"]")
    if tools:
        pieces += b',"tools":', _encode_tools(tools, target)
    return b"".join([*pieces, b"}"])


def names_by_wire_name(request: Request, target: Target) -> Mapping[str, str]:
    """Return the tools' own names by those that the model sees, for reading its calls."""
    shown = _wire_names(tuple(request.tools), target) or {tool.name: tool.name for tool in request.tools}
    return {other: own for own, other in shown.items()}


@lru_cache(maxsize=_CACHED_BELTS)
def _wire_names(tools: tuple[Tool, ...], target: Target) -> Mapping[str, str]:
    """Return the name that the model is shown by the tool's own; nothing where every tool goes by its own."""
    if target.api == "anthropic":
        return anthropic.wire_names(tools, target)
    return gemini.wire_names(tools) if target.api == "gemini" else {}


@lru_cache(maxsize=_CACHED_BELTS)
def _encode_tools(tools: tuple[Tool, ...], target: Target) -> bytes:
    declared = _SPELLINGS[target.api].declare_all(tools, target)
    return to_json(mark_last_block(declared, target.keep) if target.api == "anthropic" else declared)


def _system(messages: Sequence[Message], target: Target) -> dict[str, Any]:
    """Return the system prompt, for those who take it apart from the turns."""
    if target.api == "anthropic":
        text = "\n\n".join(filter(None, map(anthropic.system_text, messages)))
        return {"system": mark_last_block([{"type": "text", "text": text}], target.keep)} if text else {}
    parts = [part for message in messages for part in gemini.system_parts(message)] if target.api == "gemini" else []
    return {"systemInstruction": {"parts": parts}} if parts else {}
