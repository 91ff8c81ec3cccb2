"""What is written down about every call: the decision before it, the outcome after it."""

from collections.abc import Awaitable
from typing import Literal, NamedTuple, Protocol

from .caller import Caller
from .message import Call
from .result import Status
from .verdict import Verdict

__all__ = ["Decided", "Entry", "Finished", "Record"]


class Decided(NamedTuple):
    """Whether a call may run: the verdict with its rule, or None and the reason when there is no such tool."""

    call: Call
    caller: Caller
    verdict: Verdict | None
    reason: str


class Finished(NamedTuple):
    """What came of a call; `ran` says whether the body was started, `code` which kind of failure it was."""

    call: Call
    tool: str
    status: Status | Literal["cancelled"]
    code: str
    ran: bool


Entry = Decided | Finished


class Record(Protocol):
    """Where entries are written down; a call does not go on before its entry is."""

    def write(self, entry: Entry, /) -> Awaitable[None] | None:
        """Write the entry: at once, or when what is returned was awaited."""
        ...
