"""The journal of one turn: what the session keeps of it and what the record says of its calls, in one order."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from secrets import token_hex

from toolcrib.define.errors import ToolError
from toolcrib.define.log import Began, Body, Line, SessionStore
from toolcrib.define.record import Entry, Record, Started

__all__ = ["Journal"]


class Journal:
    """Hands lines and entries on as they come, and waits for the disk only where something depends on it.

        reply, Decided ..., Began, Started     on the disk before a body runs
        Finished, answer                       on the disk before anybody is told the outcome

    Both go to one store in that order, so each row takes one commit. It is the turn's `Record`. `path` are the lines
    that lead here, grown with every line; `count` is how many the session has, those of other branches included.
    Without a store nothing but the record is kept. What could not be kept once is not forgotten: from then on nothing
    settles, so no body runs and nobody is told that something was kept.
    """

    def __init__(
        self,
        record: Record,
        store: SessionStore | None = None,
        key: str = "",
        *,
        path: Iterable[Line] = (),
        count: int = 0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._record, self._store, self._key, self.now = record, store, key, now
        self.path, self.count = list(path), count
        self._prefix = token_hex(5)
        self._pending: list[Awaitable[None]] = []
        self._settling: asyncio.Task[None] | None = None  # waits for all that was taken before
        self._failure: ToolError | None = None

    def add(self, body: Body, /) -> str:
        """Take a line of the session behind the last one; return its id. It is kept once `settled` was awaited."""
        if self._store is None:
            return ""
        parent = self.path[-1].id if self.path else None
        line = Line(f"{self._prefix}{self.count:x}", parent, self.now(), body)
        try:
            writing = self._store.append(self._key, (line,), at=self.count)
        except (ToolError, OSError) as error:
            self._fail(error)
        else:
            if writing is not None:
                self._pending.append(writing)
        self.count += 1
        self.path.append(line)
        return line.id

    def write(self, entry: Entry, /) -> Awaitable[None] | None:
        """Take an entry of the record; a body waits until its start is kept, with all that led to it."""
        if is_start := isinstance(entry, Started):
            self.add(Began(entry.call))
        if (writing := self._record.write(entry)) is not None:
            self._pending.append(writing)
        return self.settled() if is_start and not self.is_settled else None

    @property
    def is_settled(self) -> bool:
        """Whether all that was taken is kept already."""
        settling = self._settling
        return not self._pending and self._failure is None and (settling is None or settling.done())

    def settled(self) -> Awaitable[None]:
        """Wait until all that was taken so far is kept, whoever waits for it too; raise ToolError when some is not."""
        # taken now and not when it is awaited: of calls side by side, nobody may take over what another depends on
        pending, self._pending = self._pending, []
        self._settling = asyncio.ensure_future(self._settle(pending, self._settling))
        return self._settling

    async def _settle(self, pending: Iterable[Awaitable[None]], before: "asyncio.Task[None] | None") -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        for writing in pending:
            try:
                await writing
            except (ToolError, OSError) as error:  # the others are waited for all the same
                self._fail(error)
        if (failure := self._failure) is not None:
            raise ToolError(str(failure), code=failure.code) from failure

    def _fail(self, error: ToolError | OSError) -> None:
        if isinstance(error, OSError):
            error = ToolError(f"it could not be kept ({error.strerror or type(error).__name__})", code="unkept")
        self._failure = self._failure or error
