"""The Model port: a conversation and tools in, the events of one reply out."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

from .errors import CribError
from .event import ReplyEvent, Usage
from .history import History
from .tool import Tool

__all__ = ["Choice", "Effort", "Model", "ModelCard", "Price", "Request", "may_request", "model_name", "no_requests"]

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
    """What is known about a model: how much it can be shown and say, whether it sees, what it costs (None: unknown)."""

    provider: str
    model: str
    window: int = 128_000
    longest: int = 0
    sees: bool = False
    price: Price | None = None

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
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def model_name(text: str, aliases: Mapping[str, str] = {}) -> tuple[str, str]:
    """Return provider and model of `provider:model` or `provider/model`; only the first mark counts."""
    whole = aliases.get(text, text).strip()
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
