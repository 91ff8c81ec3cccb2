"""The Model port: a conversation and tools in, the events of one reply out.

A `History` is a conversation that only grows, so that whatever is derived from it is derived once.
"""

from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol

import orjson

from toolcrib.lazy import dataclass

from .errors import CribError
from .event import ReplyEvent, Usage
from .message import Message, Thinking
from .result import Image
from .tool import Tool

_PER_TOKEN = 4  # characters, on average
_PICTURE = 1_200  # tokens


class History:
    """The messages a model is shown, oldest first.

    It never changes but by appending. Code that needs it in another form keeps that form in `forms`, under a
    key of its own, together with how many messages it has seen, and goes on from there: a turn costs what is new in it.
    A history that was shortened is another one. `outside` names where texts in it came from, when that was not here,
    `offered` the tools that results offered; neither is forgotten when the texts are.
    """

    __slots__ = ("_after", "_known", "_messages", "forms", "offered", "outside")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.forms: dict[Hashable, Any] = {}
        self.outside: dict[str, None] = {}
        self.offered: dict[str, None] = {}
        self._messages: list[Message] = []
        self._known = self._after = 0
        for message in messages:
            self.append(message)

    def append(self, message: Message, usage: Usage | None = None) -> None:
        """Add a message; `usage` is what its provider counted, all that went before it included."""
        self._messages.append(message)
        if message.offers:
            self.offered.update(dict.fromkeys(message.offers))
        for part in message.content:
            if not isinstance(part, Thinking) and part.source is not None:
                self.outside[part.source] = None
        if usage and usage.input:
            self._known, self._after = usage.input + usage.output, 0
        else:
            self._after += estimate(message)

    @property
    def tokens(self) -> int:
        """How long the conversation is: as the provider counted it last, and an estimate of what came since."""
        return self._known + self._after

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __getitem__(self, at: int) -> Message:
        return self._messages[at]

    def since(self, at: int) -> list[Message]:
        """Return the messages from that place on."""
        return self._messages[at:]


def estimate(message: Message) -> int:
    """Return about how many tokens a message has."""
    characters = pictures = 0
    for part in message.content:
        if isinstance(part, Image):
            pictures += 1
        else:
            characters += len(part.text)
            if isinstance(part, Thinking):
                characters += len(part.signature)
    for call in message.calls:
        characters += len(call.name) + (_length(call.args) if call.args else 2)
    return -(-characters // _PER_TOKEN) + pictures * _PICTURE


def _length(args: Mapping[str, Any]) -> int:
    try:
        return len(orjson.dumps(args, default=str))
    except TypeError:  # a number beyond 64 bits, or half of a character
        return len(str(args))


Effort = Literal["", "off", "low", "medium", "high"]
Choice = Literal["auto", "none", "required"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars for a million tokens."""

    input: float
    output: float
    cached: float = 0.0
    written: float = 0.0

    def of(self, usage: Usage) -> float:
        """Return what a reply costs."""
        plain = max(0, usage.input - usage.cached - usage.written)
        dear = plain * self.input + usage.output * self.output
        return (dear + usage.cached * self.cached + usage.written * self.written) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What is known about a model: how much it can be shown and say, whether it sees, what it costs (None: unknown).

    `is_window_known` is False where the window is a guess. One that `knows_claude_code` is shown the names from there.
    """

    provider: str
    model: str
    window: int = 128_000
    longest: int = 0
    sees: bool = False
    price: Price | None = None
    is_window_known: bool = True
    knows_claude_code: bool = False

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a model is asked: the conversation so far, the tools it may call, and how to answer.

    `choice` says whether it may, must not or must call a tool. `longest` bounds the tokens of the reply, 0 leaves that
    to the provider. `session` names the conversation to providers that keep what they have read.
    """

    history: History
    tools: Sequence[Tool] = ()
    system: str = ""
    choice: Choice = "auto"
    longest: int = 0
    effort: Effort = ""
    session: str = ""


class Model(Protocol):
    """A model that answers."""

    @property
    def card(self) -> ModelCard: ...

    def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        """Ask once. Yield what comes, and last a `Replied`: also when it failed, then with the sentence that says why.

        Nothing but cancellation is raised.
        """

    async def close(self) -> None:
        """Let go of connections."""


def model_name(text: str, aliases: Mapping[str, str] = {}) -> tuple[str, str]:
    """Return provider and model of `provider:model` or `provider/model`; only the first mark counts.

    `local` alone is the model of this machine.
    """
    whole = aliases.get(text, text).strip()
    if whole.lower() == "local":
        return "local", "smollm2"
    at = min((place for mark in ":/" if (place := whole.find(mark)) > 0), default=0)
    provider, model = whole[:at].strip().lower(), whole[at + 1 :].strip()
    if not provider or not model:
        raise CribError(f"{text!r} names no model; write provider:model, like openai:gpt-5")
    return provider, model


_allowed: ContextVar[bool] = ContextVar("toolcrib_requests", default=True)


@contextmanager
def no_requests() -> Iterator[None]:
    """Forbid requests to models outside this machine, for tests: inside, one that is tried fails and says so."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def may_request() -> bool:
    """Return whether a provider may send a request away from this machine."""
    return _allowed.get()
