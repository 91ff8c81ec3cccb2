"""One reply of a model, put together from the pieces in which it streams in."""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from toolcrib.define.errors import ArgumentError
from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta, ThinkingDelta, Usage
from toolcrib.define.message import Call, Finish, Message, Part, Thinking
from toolcrib.define.result import Text
from toolcrib.lazy import dataclass, field, regex

from .arguments import check_argument_size, parse_arguments
from .cards import Target
from .wire import join_surrogates, sanitize

_ERROR_CHARS = 4_000  # characters of an error
# How providers and servers say it; each has its own words.
_OVERFLOW = regex(
    r"(?:prompt|input|request) is too long"
    r"|exceeds? (?:the |this )?(?:model'?s? )?(?:available |maximum )?(?:context|token)[ _](?:window|size|length|limit)"
    r"|input token count[^\n]{0,80}exceeds"
    r"|maximum (?:prompt|context|input) length"
    r"|(?:reduce|shorten) the length of (?:the|your) (?:messages|prompt|input)"
    r"|exceeds the limit of \d+"
    r"|(?:greater|longer|larger) than the (?:model'?s? )?(?:maximum )?context"
    r"|context[ _](?:window|length|size)[ _](?:exceeds?|exceeded|limit|is full)"
    r"|exceeded (?:the )?(?:model )?(?:token|context) limit"
    r"|too many (?:input )?tokens"
    r"|token limit (?:was )?exceeded"
    r"|\A4(?:00|13) *(?:status code)? *\(no body\)",
    re.IGNORECASE,
)
# The same words about tokens are used for too many of them in a minute.
_RATE_LIMIT = regex(r"rate.?limit|thrott|per (?:second|minute|day)|\b429\b|quota|please wait", re.IGNORECASE)


def is_overflow(reply: Replied, window: int = 0) -> bool:
    """Tell whether the conversation was too long for the model; `window` is how many tokens it takes, if known.

    Some providers answer all the same and leave out what does not fit: then the tokens tell.
    """
    if reply.message.finish in ("error", "length") and reply.error:
        return says_overflow(reply.error[:_ERROR_CHARS])
    return 0 < window < reply.usage.input and reply.message.finish in ("stop", "calls")


def says_overflow(sentence: str) -> bool:
    """Tell whether a provider's sentence or code means that the conversation was too long."""
    return _OVERFLOW.search(sentence) is not None and not _RATE_LIMIT.search(sentence)


BROKE_OFF = "the reply broke off before its end; ask again"

_MIB = 1024 * 1024
_MAX_TEXT_CHARS = 8 * _MIB  # characters of text and thought
_MAX_CALL_CHARS = 8 * _MIB  # characters of one call
_MAX_ALL_CALLS_CHARS = 32 * _MIB  # characters of all calls
_MAX_CALLS = 64
_MAX_NAME_CHARS = 256  # beyond it no tool is meant, and pieces are no longer joined


class ReplyBuilder:
    """Collects one reply: each piece gives the events that watchers see, `end` gives the whole.

    `names` holds the tools' own names by those the model was shown. What comes after the end is left out; a reply that
    grows beyond every measure ends as an error, and none of its calls runs.
    """

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        self._by = target.by
        self._names = names
        self._parts: list[_PartBuilder] = []
        self._calls: list[_CallBuilder] = []
        self._slots: dict[Hashable, list[_CallBuilder]] = {}
        self._usage = Usage()
        self._text = self._asked = 0
        self._excess = ""
        self._ended: Replied | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing that may still come counts: it has ended, or grew beyond every measure."""
        return self._ended is not None or bool(self._excess)

    def text(self, piece: str) -> list[ReplyEvent]:
        """Take more words."""
        shown = self._write(piece, "", is_thought=False) if piece else ""
        return [TextDelta(shown)] if shown else []

    def thinking(self, piece: str, mark: str = "") -> list[ReplyEvent]:
        """Take more of a thought. A mark seals it: what follows with no mark, or another, is a new thought."""
        shown = self._write(piece, mark, is_thought=True) if piece or mark else ""
        return [ThinkingDelta(shown)] if shown else []

    def call(
        self,
        slot: Hashable,
        *,
        id: str = "",
        name: str = "",
        piece: str = "",
        args: dict[str, Any] | None = None,
        mark: str = "",
    ) -> list[ReplyEvent]:
        """Take more of the call in that slot: its id, its name, the next piece of its arguments or all of them.

        A second id in one slot is a second call, and so is a second name once there are arguments: some servers number
        every call alike. An id or a name that only comes again changes nothing.
        """
        size = len(id) + len(name) + len(piece) + len(mark)
        if not self._has_room_for_call(size):
            return []
        asked = self._in_slot(slot, id, name)
        if asked is None or asked.size + size > _MAX_CALL_CHARS:
            many = f"more than {_MAX_CALLS} calls" if asked is None else "arguments longer than any tool takes"
            self._excess = self._excess or f"the reply was stopped: it had {many}"
            return []
        before = asked.name
        shown = asked.add(id, name, piece, mark)
        if args is not None:
            asked.args = args
        has_news = shown or asked.name != before
        return [CallDelta(asked.at, self._own(asked.name), shown)] if has_news else []

    def spoil(self, slot: Hashable, flaw: str) -> None:
        """Say what is wrong with the last call in that slot: it will be answered with that, and not run."""
        for asked in self._slots.get(slot, ())[-1:]:
            asked.flaw = asked.flaw or flaw

    def use(self, usage: Usage) -> None:
        """Note how many tokens it took; the last word counts."""
        self._usage = usage

    def end(self, finish: Finish, error: str = "") -> Replied:
        """Return the whole reply. Asked again, it says the same."""
        if self._ended is None:
            self._ended = self._finish(finish, error)
        return self._ended

    def _write(self, piece: str, mark: str, *, is_thought: bool) -> str:
        """Keep a piece; return what a watcher can be shown now."""
        if self._ended or self._excess:
            return ""
        self._text += len(piece) + len(mark)
        if self._text > _MAX_TEXT_CHARS:
            self._excess = f"the reply was stopped: it was longer than {_MAX_TEXT_CHARS:,} characters"
            return ""
        last = self._parts[-1] if self._parts else None
        if last is None or last.is_thought != is_thought or last.mark not in ("", mark):
            last = _PartBuilder(is_thought)
            self._parts.append(last)
        last.mark = last.mark or mark
        return last.text.add(piece)

    def _has_room_for_call(self, size: int) -> bool:
        if self._ended or self._excess:
            return False
        self._asked += size
        if self._asked > _MAX_ALL_CALLS_CHARS:
            self._excess = f"the reply was stopped: its calls were longer than {_MAX_ALL_CALLS_CHARS:,} characters"
        return not self._excess

    def _in_slot(self, slot: Hashable, id: str, name: str) -> "_CallBuilder | None":
        """Return the call that a piece belongs to, a new one where it opens one; None when there are too many."""
        here = self._slots.setdefault(slot, [])
        last = here[-1] if here else None
        if last and (not id or not last.id or id == last.id):
            if id or not last.has_arguments or name in ("", last.name):
                return last
        elif known := next((each for each in here if each.id == id), None):
            return known
        if len(self._calls) == _MAX_CALLS:
            return None
        opened = _CallBuilder(len(self._calls))
        here.append(opened)
        self._calls.append(opened)
        return opened

    def _finish(self, finish: Finish, error: str) -> Replied:
        if self._excess:
            finish, error = "error", self._excess
        elif finish in ("stop", "calls"):
            finish = "calls" if self._calls else "stop"
        content = tuple(words.part() for words in self._parts)
        ids = _unique(asked.id for asked in self._calls)
        calls = tuple(asked.call(id, self._own(asked.name)) for asked, id in zip(self._calls, ids, strict=True))
        message = Message(role="assistant", content=content, calls=calls, finish=finish, by=self._by)
        return Replied(message, self._usage, error)

    def _own(self, name: str) -> str:
        return self._names.get(name, name)


class ReplyReader(ABC):
    """Reads one streamed reply of a wire, piece by piece, whatever the pieces may be."""

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        self._reply = ReplyBuilder(target, names)
        self._error = ""

    @property
    def is_over(self) -> bool:
        """Whether whatever may still come is left out."""
        return self._reply.is_over

    @abstractmethod
    def feed(self, chunk: Any, /) -> list[ReplyEvent]:
        """Take the next piece, as it was parsed."""

    @abstractmethod
    def end(self) -> Replied:
        """Return the whole reply; a stream that gave no reason for its end was broken off."""

    @classmethod
    def read_whole(cls, response: Any, target: Target, names: Mapping[str, str] = {}) -> Replied:
        """Return a reply that was sent whole."""
        reader = cls(target, names)
        reader.feed(response)
        return reader.end()


@dataclass(slots=True)
class _TextPieces:
    """A text in pieces, and what of it can be shown: half of a character waits for the other half."""

    pieces: list[str] = field(default_factory=list)
    half: str = ""

    def add(self, piece: str) -> str:
        """Keep a piece; return what is whole now and was not before."""
        if not piece:
            return ""
        self.pieces.append(piece)
        text = self.half + piece
        self.half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return sanitize(text[:-1] if self.half else text)

    def join(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class _PartBuilder:
    """One text or one thought in pieces."""

    is_thought: bool
    text: _TextPieces = field(default_factory=_TextPieces)
    mark: str = ""

    def part(self) -> Part:
        text = sanitize(self.text.join())
        return Thinking(text, self.mark) if self.is_thought else Text(text)


@dataclass(slots=True)
class _CallBuilder:
    """One call in pieces."""

    at: int
    id: str = ""
    name: str = ""
    mark: str = ""
    flaw: str = ""
    text: _TextPieces = field(default_factory=_TextPieces)
    args: dict[str, Any] | None = None
    size: int = 0

    @property
    def has_arguments(self) -> bool:
        return bool(self.text.pieces) or self.args is not None

    def add(self, id: str, name: str, piece: str, mark: str) -> str:
        """Keep more of the call; return what a watcher can be shown of its arguments now."""
        self.size += len(name) + len(piece)
        self.id = self.id or id
        if name != self.name and not self.has_arguments and len(self.name) < _MAX_NAME_CHARS:
            self.name += name
        self.mark = mark or self.mark
        return self.text.add(piece)

    def call(self, id: str, name: str) -> Call:
        flaw = self.flaw if name else "the call names no tool; name one of those you were given"
        try:
            args = {} if self.flaw else self._arguments()
        except ArgumentError as error:
            args, flaw = {}, flaw or str(error)
        return Call(id=id, name=name, args=args, signature=self.mark, parse_error=flaw)

    def _arguments(self) -> dict[str, Any]:
        if self.args is not None:
            return check_argument_size(self.args)
        return parse_arguments(join_surrogates(self.text.join()))


def _unique(ids: Iterable[str]) -> list[str]:
    """Return unique ids: one that is missing or a duplicate gets a number."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    unique = []
    for own in ids:
        fit = own
        while not fit or fit in taken:
            number = numbers[own] = numbers.get(own, 0 if not own else 1) + 1
            fit = f"{own or 'call'}_{number}"
        taken.add(fit)
        unique.append(fit)
    return unique
