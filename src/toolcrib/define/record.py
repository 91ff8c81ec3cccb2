"""What is written down about every call: what decides, the decision, a human's word, that it starts, its outcome."""

from collections.abc import Awaitable
from typing import Literal, NamedTuple, Protocol

from .caller import Caller
from .grounds import Grounds
from .message import Call
from .result import Status
from .verdict import Verdict

__all__ = ["Answered", "Decided", "Entry", "Finished", "Granted", "Record", "Revoked", "Started"]


class Decided(NamedTuple):
    """Whether a call may run: the verdict with its rule, or None and the reason when there is no such tool."""

    call: Call
    caller: Caller
    verdict: Verdict | None
    reason: str
    grounds: Grounds | None = None


class Answered(NamedTuple):
    """A human's word on a call was used: `by` whom, yes or no; `grant` names the one that holds until then, if any."""

    call: Call
    by: str
    yes: bool
    question: str = ""
    grant: str = ""
    until: float | None = None


class Granted(NamedTuple):
    """A human said yes for some time: `shown` is to what, `digest` which calls that means."""

    grant: str
    question: str
    tool: str
    by: str
    until: float
    digest: str
    shown: str


class Revoked(NamedTuple):
    """A grant was taken back."""

    grant: str
    tool: str
    by: str


class Started(NamedTuple):
    """The body of a call is about to run; one that never finished after that is uncertain (G15)."""

    call: Call
    tool: str


class Finished(NamedTuple):
    """What came of a call; `ran` says whether the body was started, `code` which kind of failure it was."""

    call: Call
    tool: str
    status: Status | Literal["cancelled"]
    code: str
    ran: bool


Entry = Decided | Answered | Granted | Revoked | Started | Finished


class Record(Protocol):
    """Where entries are written down, in the order in which they are handed in; a call does not go on before its is."""

    def write(self, entry: Entry, /) -> Awaitable[None] | None:
        """Take the entry. It is written now when nothing is returned, else when what is returned was awaited."""
        ...
