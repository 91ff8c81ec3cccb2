"""What is written down about every call: what decides, the decision, what guards and humans say, its start and end.

Its rows are a chain: each carries the hash of itself and of the row before, so none can be changed unseen.
"""

import hashlib
import json
from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from toolcrib.lazy import dataclass

from .caller import Caller
from .message import Call
from .result import Status
from .verdict import NO_BASIS, Basis, Decision, Grounds, Verdict


class Decided(NamedTuple):
    """Whether a call may run: the verdict with its rule, or None and the reason when there is no such tool.

    `taint` names the first sources of content from outside that was in the conversation by then.
    """

    call: Call
    caller: Caller
    verdict: Verdict | None
    reason: str
    grounds: Grounds | None = None
    taint: tuple[str, ...] = ()


class Shadowed(NamedTuple):
    """How the policy on trial would have decided a call otherwise; nothing follows from it.

    `seen` is what its rules about arguments looked at, where one of them decides.
    """

    call: Call
    caller: Caller
    verdict: Verdict
    grounds: Grounds | None = None
    seen: Mapping[str, Any] = MappingProxyType({})


class Judged(NamedTuple):
    """The decision of a guard about a call that policy permits: the judge of commands, a hook, or `taint`."""

    call: Call
    by: str
    decision: Decision | Literal["rewrite"]
    reason: str
    basis: Basis = NO_BASIS


class Answered(NamedTuple):
    """A human's word on a call was used: `by` whom, yes or no; `grant` names the one that holds until then, if any."""

    call: Call
    by: str
    yes: bool
    question: str = ""
    grant: str = ""
    until: float | None = None


class Granted(NamedTuple):
    """A human approved for some time: `shown` is to what, `digest` or `when` which calls it means, `calls` how many."""

    grant: str
    question: str
    tool: str
    by: str
    until: float
    digest: str
    shown: str
    calls: int | None = None
    session: str = ""
    when: str = ""


class Revoked(NamedTuple):
    """A grant was taken back."""

    grant: str
    tool: str
    by: str


class Enrolled(NamedTuple):
    """Who may connect has changed: a device was paired, given a token, turned away or revoked, by whom."""

    device: str
    role: str
    change: str
    scopes: tuple[str, ...]
    by: str


class Started(NamedTuple):
    """The body of a call is about to run; one that never finished after that is uncertain (G15)."""

    call: Call
    tool: str


class Finished(NamedTuple):
    """What came of a call; `ran` says whether the body was started, `code` and `error` what kind of failure it was."""

    call: Call
    tool: str
    status: Status | Literal["cancelled"]
    code: str
    ran: bool
    error: str = ""


class Completed(NamedTuple):
    """A call that was left pending under a handle was completed, by whom; its outcome follows as one more end."""

    call: Call
    tool: str
    handle: str
    by: str


RecordEntry = Decided | Shadowed | Judged | Answered | Granted | Revoked | Enrolled | Started | Finished | Completed


class Record(Protocol):
    """Where entries are written down, in the order in which they are handed in; a call does not go on before its is."""

    def write(self, entry: RecordEntry, /) -> Awaitable[None] | None:
        """Take the entry. It is written now when nothing is returned, else when what is returned was awaited."""


NOTHING = "0" * 64  # the hash before the first row


class Row(NamedTuple):
    """One row: its number, the text that its hash is of, and the hash; the number is -1 where it cannot be read."""

    seq: int
    text: bytes
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """How many rows there have to be and the hash of the last; `last` is the highest number that is there.

    `anchor` is how many were acknowledged and the hash of the last of those, None where that is lost.
    """

    count: int
    hash: str
    last: int
    anchor: tuple[int, str] | None = (0, NOTHING)


class Rows(Protocol):
    """A record, read back."""

    async def head(self) -> Head | None:
        """Return the head, None when it is gone."""

    async def after(self, seq: int, limit: int, /) -> Sequence[Row]:
        """Return the rows behind this number, in their order."""

    async def before(self, seq: int, limit: int, /) -> Sequence[Row]:
        """Return the rows before this number, the last one first."""


def entry_text(seq: int, at: float, kind: bytes, body: bytes) -> bytes:
    """Return the text that a row's hash is of: a line of JSON unless its parts were tampered with."""
    named = json.dumps(kind.decode("latin-1")).encode()  # whatever stands there, it cannot look like the next part
    return b'{"seq":%d,"at":%s,"kind":%s,"body":%s}' % (seq, repr(at).encode(), named, body)


def hash_after(before: str, text: bytes) -> str:
    """Return the hash of a row that comes after the one with the hash `before`."""
    return hashlib.sha256(before.encode() + b"\n" + text).hexdigest()
