"""The journal of one turn: what the session keeps of it and what the record says of its calls, in one order."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from secrets import token_hex

from pydantic_core import to_jsonable_python

from toolcrib.define.errors import ToolError
from toolcrib.define.log import Began, Body, Line, Said, SessionStore
from toolcrib.define.message import Call, Message
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
        self._waiting: set[asyncio.Future[None]] = set()  # what was handed in and is not kept yet
        self._settling: list[tuple[asyncio.Future[None], set[asyncio.Future[None]]]] = []  # who waits, and for what
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
                self._take(writing)
        self.count += 1
        self.path.append(line)
        return line.id

    def line_of(self, message: Message) -> str | None:
        """Return the line on the path that holds this very message."""
        said = (line for line in reversed(self.path) if type(line.body) is Said and line.body.message is message)
        return next((line.id for line in said), None)

    def write(self, entry: Entry, /) -> Awaitable[None] | None:
        """Take an entry of the record; a body waits until its start is kept, with all that led to it."""
        if is_start := isinstance(entry, Started):
            self.add(Began(_plain(entry.call)))
        if (writing := self._record.write(entry)) is not None:
            self._take(writing)
        return self.settled() if is_start and not self.is_settled else None

    @property
    def is_settled(self) -> bool:
        """Whether all that was taken is kept already."""
        return not self._waiting and self._failure is None

    def check(self) -> None:
        """Raise ToolError when something that was taken could not be kept."""
        if (failure := self._failure) is not None:
            raise ToolError(str(failure), code=failure.code) from failure

    def settled(self) -> "asyncio.Future[None]":
        """Wait until all that was taken so far is kept, whoever waits for it too; raise ToolError when some is not."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # noted now and not when it is awaited: of calls side by side, none may go on before what it depends on
        self._settling.append((future, set(self._waiting)))
        self._settle()
        return future

    def _take(self, writing: Awaitable[None]) -> None:
        future = asyncio.ensure_future(writing)
        self._waiting.add(future)
        future.add_done_callback(self._kept)

    def _kept(self, future: "asyncio.Future[None]") -> None:
        self._waiting.discard(future)
        if future.cancelled():
            self._fail(ToolError("it could not be kept: the store was stopped", code="unkept"))
        elif (error := future.exception()) is not None:
            self._fail(error)
        for _, needed in self._settling:
            needed.discard(future)
        self._settle()

    def _settle(self) -> None:
        """Let everybody go on whose lines and entries are kept, in the order in which they came to wait."""
        while self._settling and not self._settling[0][1]:
            future, _ = self._settling.pop(0)
            if future.done():  # nobody waits any more
                continue
            if (failure := self._failure) is None:
                future.set_result(None)
            else:
                future.set_exception(ToolError(str(failure), code=failure.code))
                future.exception()  # looked at: who does not wait for it meets it in `check`

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, ToolError):
            why = getattr(error, "strerror", None) or type(error).__name__
            error = ToolError(f"it could not be kept ({why})", code="unkept")
        self._failure = self._failure or error


def _plain(call: Call) -> Call:
    """Return a call as it can be kept: arguments that were checked may be of types of the tool's own."""
    return call if not call.args else call._replace(args=to_jsonable_python(dict(call.args), fallback=str))
