"""A call that is finished later: its body began the work and returned, and it is completed later by a handle.

waiting ──▶ completed ──▶ taken
   │
   ├──────▶ withdrawn     the call was stopped, or its body did without
   └──────▶ expired       it was not completed in time
"""

from collections.abc import Collection
from typing import Any, Literal, Protocol

from toolcrib.lazy import dataclass

from .caller import Caller
from .message import Call
from .result import Result

PendingState = Literal["waiting", "completed", "taken", "withdrawn", "expired"]
LATER_SECONDS = 7 * 86_400.0  # how long a call waits, unless its tool says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call that waits for whoever does its work, under a `handle` that no other of its person's waits under.

    `call` is as it was understood, `asker` who made it, `person` who may complete it beside the owner ("" when nobody).
    `in_turn` says whether a turn goes on with its result, `process` the one that waits, `outside` where content came
    from that its body had read. Once it is completed, `by` says by whom, `result` with what, in JSON, and `mark` is the
    key of that request.
    """

    handle: str
    call: Call
    asker: Caller
    person: str
    made_at: float
    until: float
    process: str
    in_turn: bool
    outside: str | None = None
    state: PendingState = "waiting"
    by: str = ""
    mark: str = ""
    result: Any = None

    @property
    def key(self) -> str:
        """The key of its call."""
        return self.call.key

    @property
    def session(self) -> str:
        """The session it was made in, "" for none."""
        return self.asker.session or ""

    def to_json(self) -> dict[str, Any]:
        """Return it as a door shows it."""
        row = {"handle": self.handle, "tool": self.call.name, "sessionKey": self.session, "state": self.state}
        return {**row, "madeAt": self.made_at, "until": self.until}


def pending_result(tool: str, handle: str) -> Result:
    """Return the result of a call that is not completed yet."""
    words = f"{tool} is pending: it goes on elsewhere, and is completed later under the handle {handle!r}"
    return Result.pending(words, details={"tool": tool, "handle": handle})


class PendingStore(Protocol):
    """Where pending calls are kept. A method is durable when it returns, and atomic."""

    async def add(self, pending: PendingCall, /, *, most: int) -> None:
        """Keep a new one; ToolError when its person has one with this handle, or `most` of them, waiting already."""

    async def find(self, key: str, /) -> PendingCall | None:
        """Return the one of the call with this key."""

    async def select(
        self, *, handle: str = "", session: str = "", states: Collection[PendingState] = ()
    ) -> tuple[PendingCall, ...]:
        """Return those with this handle, of this session, in one of these states, as far as given; newest first."""

    async def settle(
        self, key: str, to: PendingState, /, *, of: Collection[PendingState], now: float = 0.0, **changes: Any
    ) -> bool:
        """Move one on if its state is one `of` these, and its time not over by `now`; tell whether.

        `changes` are other fields. Of all that try, at once or later, in whatever process, one succeeds.
        """


class LaterWaiter(Protocol):
    """What a call waits through after its body has left it to others."""

    async def wait(self, call: Call, /) -> Result:
        """Return what the call was completed with; ToolError when its time is over or it was cancelled."""

    async def withdraw(self, call: Call, /) -> bool:
        """Close the call for completion; False when it is left for the next process to wait for."""

    async def take(self, call: Call, /) -> None:
        """Take note that the result of a call is kept where it belongs."""
