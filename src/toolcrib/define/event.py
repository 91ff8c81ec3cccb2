"""What a reply and a running turn say about themselves, as they happen.

a reply   TextDelta, ThinkingDelta, CallDelta ..., then Replied, once and last
a call    ToolStarted, ToolProgress ..., then ToolFinished, once and last
a turn    TurnStarted, then replies and calls, with Retrying, Received, Compacted and Warned between them, and
          TurnFinished last
"""

from typing import Literal

from toolcrib.lazy import dataclass

from .message import Call, Message
from .result import Result
from .verdict import Verdict


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

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.written + other.written,
        )


@dataclass(frozen=True, slots=True)
class Replied:
    """The whole reply, with the reason it ended; `error` says in one sentence what broke it off.

    `retry` is None when asking again would not help, else the seconds to wait at least before it may.
    """

    message: Message
    usage: Usage = Usage()
    error: str = ""
    retry: float | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call was taken up, as the model wrote it; there is no verdict on a tool that does not exist.

    `label` is the title that its tool has for people, if it has one.
    """

    call: Call
    verdict: Verdict | None
    label: str = ""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A body's partial result, as watchers may see it."""

    call: Call
    partial: Result


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """What came of a call, as watchers may see it; `markdown` where the tool says that it writes such."""

    call: Call
    result: Result
    markdown: bool = False


# Why a turn ended: answered; a limit on model calls, time, tokens or money; going round in circles; a reply cut off by
# its length or refused; a failure; stopped by a person; a subagent that never reported that it was done.
Ending = Literal[
    "done", "turns", "timeout", "tokens", "cost", "repeating", "length", "refused", "error", "stopped",
    "no_completion",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message is being answered, by `model` (`provider:model`)."""

    session: str
    model: str
    message: Message


@dataclass(frozen=True, slots=True)
class Retrying:
    """The reply so far does not count: it failed, and is asked for again in `seconds`, for the `attempt`th time."""

    attempt: int
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message that came while the turn went on was taken up."""

    message: Message


@dataclass(frozen=True, slots=True)
class Compacted:
    """The history was shortened, from so many tokens to so many."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Warned:
    """A quota is nearly used up, in one sentence; `call` is the one that came so close, None for a reply."""

    sentence: str
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """How a turn ended: why, in one sentence where it is not `done`; the last words; what it took.

    `steps` counts the replies; `cost` is in dollars, None when a price is not known.
    """

    reason: Ending
    text: str = ""
    sentence: str = ""
    steps: int = 0
    usage: Usage = Usage()
    cost: float | None = None


ReplyEvent = TextDelta | ThinkingDelta | CallDelta | Replied
CallEvent = ToolStarted | ToolProgress | ToolFinished | Warned
Event = ReplyEvent | CallEvent | TurnStarted | Retrying | Received | Compacted | TurnFinished
