"""A message to be answered and how: every start of a turn makes a TurnRequest."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from toolcrib.lazy import dataclass

from .agent import Agent
from .caller import Caller
from .errors import CribError
from .event import Event, TurnFinished
from .message import Message
from .model import Effort, Model
from .ports import Approver
from .result import Image, Text
from .tool import Tool
from .verdict import Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one turn: replies, seconds (a human's are not counted), tokens, dollars; None is no bound.

    `repeats` is how often the same calls with the same results may follow one another; 0 does not look.
    """

    turns: int | None = 100
    seconds: float | None = 3600.0
    tokens: int | None = None
    cost: float | None = None
    repeats: int = 5


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What a registered agent works on in a session of its own; `inputs` were checked."""

    agent: Agent
    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """A message to be answered in a session; whatever is left out comes from the session or the configuration.

    `asked_model` comes from the caller, who may get the configured model alone; `model` is for the program to set.
    `extra` are tools of the program itself. `leaf` is the line of the session to go on from; without one, its last.
    `task` lets a registered agent work until it has an answer, instead of one loop. `bounds` leave the caller less than
    the configuration does. One that `resumes` says nothing: it goes on with those calls of the last reply that a
    process left before they began.
    """

    message: Message
    caller: Caller
    session: str = ""
    model: Model | str | None = None
    asked_model: str = ""
    extra: tuple[Tool, ...] = ()
    approver: Approver | None = None
    limits: Limits | None = None
    effort: Effort = ""
    leaf: str | None = None
    task: AgentTask | None = None
    bounds: tuple[Layer, ...] = ()
    resumes: bool = False


class TurnHandle(Protocol):
    """A turn that goes on."""

    async def end(self) -> TurnFinished:
        """Wait for its end."""

    def steer(self, message: Message, /) -> None:
        """Say something that is heard as soon as the calls under way are done."""

    def stop(self) -> None:
        """End it."""


class TurnReader(Protocol):
    """Reads the events of a turn: `number` of them came before the next one, and it `is_behind` when that has come."""

    time: float  # when the one that was read last happened, in seconds since the epoch

    def __aiter__(self) -> AsyncIterator[Event]: ...
    async def __anext__(self) -> Event: ...
    @property
    def number(self) -> int: ...
    @property
    def is_behind(self) -> bool: ...


class FollowedTurn(TurnHandle, Protocol):
    """A turn that goes on, and can be followed."""

    def subscribe(self, after: int = 0) -> TurnReader:
        """Return one more reader of what happens in it, from its beginning, or after so many events."""

    def follow_up(self, message: str | Message, /) -> None:
        """Say something that is answered next, in the same turn."""


def user_message(text: str, pictures: tuple[Image, ...] = (), source: str = "") -> Message:
    """Return what a person says as a message, and shows with it; a blank one with no picture is a CribError."""
    if not text.strip() and not pictures:
        raise CribError("the message is blank; say what is to be done")
    shown = (each._replace(source=source or each.source) for each in pictures)
    return Message(role="user", content=(*((Text(text, source or None),) if text.strip() else ()), *shown))
