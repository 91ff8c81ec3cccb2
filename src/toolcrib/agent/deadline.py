"""A deadline that costs next to nothing until somebody waits.

Most bodies and hooks finish without ever suspending; for those a timer would cost more than the work. So a deadline
only puts itself on a list. The event loop gets to that list when, and only when, somebody waits, and sets timers for
those that are still open by then. A body that blocks the loop could not be stopped by a timer either.

A turn has a `Clock` instead, which stands still while a human is asked, or somebody else
does the work of a call.
"""

import asyncio
import logging
from asyncio import current_task, get_running_loop
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from toolcrib.define.approval import AnswerDesk, AskTerms
from toolcrib.define.caller import Caller
from toolcrib.define.later import LaterWaiter
from toolcrib.define.message import Call
from toolcrib.define.ports import Approver
from toolcrib.define.result import Result

log = logging.getLogger("toolcrib")

T = TypeVar("T")

_listed: dict[asyncio.AbstractEventLoop, list["Deadline"]] = {}  # opened since the loop's last turn


class Deadline:
    """How long the parts of some work may take, each set by `give` before it begins.

    deadline = Deadline()
    try:
        deadline.give(5)
        await work()
    except asyncio.CancelledError:
        if deadline.was_missed(): ...  # it was our doing, and is taken back
    finally:
        deadline.close()
    """

    __slots__ = ("_beside", "_is_missed", "_loop", "_seconds", "_task", "_timer")

    _timer: asyncio.TimerHandle | None  # once the loop has seen it

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Begin, in the task that runs now, with all the time in the world."""
        self._loop = loop = get_running_loop()
        self._task = current_task(loop)
        self._seconds: float | None = None
        self._is_missed = False
        listed = _listed.get(loop)
        if listed is None:
            listed = _list_of(loop)
        listed.append(self)
        self._beside: list[Deadline] | None = listed  # where it stands, None when the loop has seen it

    def give(self, seconds: float | None) -> None:
        """Give what comes next so many seconds from now, or all the time in the world."""
        self._seconds = seconds
        if self._beside is None:  # on the list again: what comes next may not wait at all
            self._unset_timer()
            self._beside = _list_of(self._loop)
            self._beside.append(self)

    def was_missed(self) -> bool:
        """Tell whether a CancelledError is this deadline's doing; if so, the task is not cancelled any more."""
        if not self._is_missed or self._task is None:
            return False
        self._is_missed = False
        return self._task.uncancel() == 0

    def close(self) -> None:
        """Let go."""
        if (listed := self._beside) is None:
            self._unset_timer()
        elif listed[-1] is self:
            listed.pop()
        else:
            listed.remove(self)
        if self._is_missed:  # by work that took no notice and came to its end
            self.was_missed()

    def see(self) -> None:
        """Set the timer, now that somebody waits."""
        self._beside, seconds = None, self._seconds
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._miss)

    def _unset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _miss(self) -> None:
        if self._task is not None:
            self._is_missed = True
            self._task.cancel()


def _list_of(loop: asyncio.AbstractEventLoop) -> list[Deadline]:
    listed = _listed.get(loop)
    if listed is None:
        listed = _listed[loop] = []
        loop.call_soon(_see, loop)
    return listed


def _see(loop: asyncio.AbstractEventLoop) -> None:
    for deadline in _listed.pop(loop):
        deadline.see()


def _when_done(task: "asyncio.Future[T]") -> "asyncio.Future[None]":
    """Return a future that is done when the task is, however it ended; cancelling it does not touch the task."""
    done: asyncio.Future[None] = task.get_loop().create_future()
    task.add_done_callback(lambda _: None if done.done() else done.set_result(None))
    return done


async def wait_to_end(work: Awaitable[T]) -> T:
    """Return what `work` returns; it is finished also when who waits for it is cancelled, who then stays cancelled."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await _when_done(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (failure := task.exception()):
        log.error("what had to be finished failed", exc_info=failure)
    raise cancelled


def is_cancelled() -> bool:
    """Tell a cancellation from outside, which has to go on, from a CancelledError that some code made up."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


class Clock:
    """So many seconds for what is done within `running()`, without those between `hold` and `go_on`."""

    def __init__(self, seconds: float | None) -> None:
        self._left, self._asking = seconds, 0
        self._timeout: asyncio.Timeout | None = None

    def running(self) -> asyncio.Timeout:
        """Return the block within which the time runs."""
        self._timeout = asyncio.timeout(self._left)
        return self._timeout

    @property
    def is_over(self) -> bool:
        return self._timeout is not None and self._timeout.expired()

    def hold(self) -> None:
        """Stand still until `go_on` was called as often."""
        self._asking += 1
        timeout = self._timeout
        if self._asking > 1 or timeout is None or timeout.expired():
            return
        if (when := timeout.when()) is not None:
            self._left = when - asyncio.get_running_loop().time()
            timeout.reschedule(None)

    def go_on(self) -> None:
        """Go on with what was left."""
        self._asking -= 1
        timeout = self._timeout
        if self._asking or timeout is None or timeout.expired() or self._left is None:
            return
        timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    @contextmanager
    def stand_still(self) -> Iterator[None]:
        """Stand still meanwhile."""
        self.hold()
        try:
            yield
        finally:
            self.go_on()


class Unhurried:
    """An approver whose time is not the turn's, asked once all that led to the question is kept.

    Who answers after a kill has to find the call in its session, or nothing could go on.
    """

    def __init__(self, approver: Approver, clock: Clock, flush: Callable[[], Awaitable[None]]) -> None:
        self._approver, self._clock, self._flush = approver, clock, flush
        self.writes_record = getattr(approver, "writes_record", False)

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        with self._clock.stand_still():
            await self._flush()
            return await self._approver.approve(caller, call, reason, binding)


class UnhurriedPeople:
    """The people who are asked likewise."""

    def __init__(self, people: AnswerDesk, clock: Clock, flush: Callable[[], Awaitable[None]]) -> None:
        self._people, self._clock, self._flush = people, clock, flush
        self.list_conditional, self.spend = people.list_conditional, people.spend

    async def ask(self, caller: Caller, call: Call, asked: AskTerms, /) -> bool:
        with self._clock.stand_still():
            await self._flush()
            return await self._people.ask(caller, call, asked)


class UnhurriedWaiter:
    """Waits for what is finished later, in time that is not the turn's."""

    def __init__(self, later: LaterWaiter, clock: Clock) -> None:
        self._later, self._clock = later, clock
        self.withdraw, self.take = later.withdraw, later.take

    async def wait(self, call: Call, /) -> Result:
        with self._clock.stand_still():
            return await self._later.wait(call)


def count_stops() -> int:
    """Return how often the task that runs now was asked to stop."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def find_cancellation(error: BaseException) -> asyncio.CancelledError | None:
    """Return the error when it is a cancellation from outside, which has to leave in the end."""
    return error if isinstance(error, asyncio.CancelledError) and is_cancelled() else None
