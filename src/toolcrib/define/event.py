"""What a reply and a running turn say about themselves, as they happen.

a reply   TextDelta, ThinkingDelta, CallDelta ..., then Replied, once and last
a call    ToolStarted, ToolProgress ..., then ToolFinished, once and last
"""

from dataclasses import dataclass

from .message import Call, Message
from .result import Result
from .verdict import Verdict

__all__ = [
    "CallDelta", "CallEvent", "Replied", "ReplyEvent", "TextDelta", "ThinkingDelta", "ToolFinished", "ToolProgress",
    "ToolStarted", "Usage",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More words of a reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of what the model thinks aloud."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of a call: `at` is its place among the calls of the reply, `text` the new piece of its arguments."""

    at: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply; `cached` of the `input` were read from a cache, `written` were written to it."""

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Replied:
    """The whole reply, with the reason it ended; `error` says in one sentence what broke it off."""

    message: Message
    usage: Usage = Usage()
    error: str = ""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call was taken up, as the model wrote it; there is no verdict on a tool that does not exist."""

    call: Call
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A body's partial result, as watchers may see it."""

    call: Call
    partial: Result


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """What came of a call, as watchers may see it."""

    call: Call
    result: Result


ReplyEvent = TextDelta | ThinkingDelta | CallDelta | Replied
CallEvent = ToolStarted | ToolProgress | ToolFinished
