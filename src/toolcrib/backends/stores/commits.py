"""Commits: steps of many, written in the order in which they came, with one wait for the disk for all that wait.

    submit ─┐
    submit ─┼─ queue ── one thread ── BEGIN  step  step  step  COMMIT, synced ── every future is set
    submit ─┘

A step that fails is taken back alone; when the disk fails, all that stood in the same commit fail with it.
"""

import asyncio
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import apsw

from toolcrib.define.errors import ToolError
from toolcrib.threads import in_turn, settle_future

from .sqlite import SqliteFile

log = logging.getLogger("toolcrib")

T = TypeVar("T")

Step = Callable[[apsw.Connection], T]

_STEPS, _BYTES = 10_000, 256 << 20  # what may wait at once
_TOGETHER = 1_000  # steps in one commit: the first of them waits for the last


class _Job(NamedTuple):
    """A step and its future; without a step, it waits only for those before it."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    step: Step[Any] | None
    size: int


class _Outcome(NamedTuple):
    future: "asyncio.Future[Any]"
    value: Any
    error: BaseException | None


class Commits:
    """The writer of one file. Every step is run by one thread, which starts with the first of them.

    A step gets the connection within a transaction, returns what its future is to hold, and must not wait for anything.
    It touches nothing but the connection: when a step beside it fails, it is taken back and run again.
    """

    def __init__(self, file: SqliteFile, *, most: int = _STEPS, most_bytes: int = _BYTES) -> None:
        self._queue = _Queue(file, most, most_bytes)
        self._reader = SqliteFile(file.path, file.migrations, check=False, sync=file.sync)
        weakref.finalize(self, self._queue.stop)  # forgotten without a word, it leaves no thread behind

    def submit(self, step: Step[T], /, *, size: int = 0) -> "asyncio.Future[T]":
        """Take a step of about `size` bytes; its place is settled now, and it is on the disk when the future is done.

        Who stops waiting does not stop the step. Refused with the code `busy` when too much waits already.
        """
        return self._queue.put(step, size)

    async def read(self, step: Step[T], /) -> T:
        """Return what a step that only looks returns. It sees what was handed in before, and holds up no commit."""
        await self.flush()
        return await in_turn(self._reader.transact, step, writes=False)

    async def flush(self) -> None:
        """Wait until all that was handed in is on the disk or has failed."""
        if (waiting := self._queue.last()) is not None:
            await waiting

    def close(self) -> None:
        """Write what was handed in, and release the thread and the file. Later steps are refused."""
        thread = self._queue.stop()
        if thread is not None:
            thread.join()
        self._reader.close()


class _Queue:
    """What waits, and the thread that takes it; neither knows of its owner, who may be forgotten."""

    def __init__(self, file: SqliteFile, most: int, most_bytes: int) -> None:
        self._file, self._most, self._most_bytes = file, most, most_bytes
        self._lock = threading.RLock()  # the owner may be forgotten at any moment, and the thread is stopped in it
        self._jobs: deque[_Job] = deque()
        self._count = self._bytes = 0  # what was handed in and is not acknowledged yet
        self._bell: SimpleQueue[bool] = SimpleQueue()  # whether to go on
        self._ringing: asyncio.AbstractEventLoop | None = None  # the loop that will ring it
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def put(self, step: Step[Any], size: int) -> "asyncio.Future[Any]":
        with self._lock:
            if self._is_closed:
                raise ToolError(f"{self._file.path.name!r} is closed; open it again to keep something", code="closed")
            if self._count >= self._most or (self._count and self._bytes + size > self._most_bytes):
                name = self._file.path.name
                raise ToolError(f"{self._count} steps wait for {name!r} already; try again later", code="busy")
            return self._put(step, size)

    def last(self) -> "asyncio.Future[Any] | None":
        """Return a future that is done after all that waits now; None when nothing does."""
        with self._lock:
            return self._put(None, 0) if self._count and not self._is_closed else None

    def _put(self, step: Step[Any] | None, size: int) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._jobs.append(_Job(loop, future, step, size))
        self._count += 1
        self._bytes += size
        if self._ringing is None:  # not at once: what this round of the loop still brings is written with it
            self._ringing = loop
            loop.call_soon(self._ring)
        elif self._ringing is not loop:  # which may never come to it
            self._bell.put(True)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="toolcrib-commits", daemon=True)
            self._thread.start()
        return future

    def _ring(self) -> None:
        self._ringing = None
        self._bell.put(True)

    def stop(self) -> threading.Thread | None:
        """Take nothing more; return the thread that writes the rest, if there is one."""
        with self._lock:
            self._is_closed, thread, self._thread = True, self._thread, None
        if thread is not None:
            self._bell.put(False)
        return thread

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            goes_on = self._bell.get()
            while jobs := self._take():
                self._tell(jobs, self._write(jobs))
                del jobs  # what a step holds is not held until the next one comes
        self._file.close()

    def _take(self) -> list[_Job]:
        with self._lock:
            return [self._jobs.popleft() for _ in range(min(len(self._jobs), _TOGETHER))]

    def _write(self, jobs: list[_Job]) -> list[_Outcome]:
        """Return what came of every job, all in one transaction."""
        steps = [job for job in jobs if job.step is not None]
        outcomes = [_Outcome(job.future, None, None) for job in jobs if job.step is None]
        if not steps:
            return outcomes
        try:
            try:
                return self._file.transact(partial(_run, steps)) + outcomes
            except _OneFailedError:  # which of them, and what of it is to be taken back, is found out step by step
                log.debug("one of %d steps failed; each is tried alone", len(steps))
            return self._file.transact(lambda db: [_try_step(job, self._file, db) for job in steps]) + outcomes
        except BaseException as error:  # noqa: BLE001  every error belongs to who waits
            return [_Outcome(job.future, None, error) for job in steps] + outcomes

    def _tell(self, jobs: list[_Job], outcomes: list[_Outcome]) -> None:
        with self._lock:
            self._count -= len(jobs)
            self._bytes -= sum(job.size for job in jobs)
        for loop in {job.loop for job in jobs}:
            own = [outcome for outcome in outcomes if outcome.future.get_loop() is loop]
            try:
                loop.call_soon_threadsafe(_settle, own)  # once for all of them: every call wakes the loop
            except RuntimeError:
                log.debug("%d steps were written after their event loop had ended", len(own))


class _OneFailedError(Exception):
    """A step of several failed. It is raised so that all of them are taken back."""


def _run(jobs: list[_Job], db: apsw.Connection) -> list[_Outcome]:
    """Run the steps one after another, in the hope that none fails."""
    try:
        return [_step(job, db) for job in jobs]
    except Exception as error:
        if len(jobs) == 1 or not db.in_transaction or isinstance(error, _OF_THE_DISK):
            raise
        raise _OneFailedError from error


def _step(job: _Job, db: apsw.Connection) -> _Outcome:
    assert job.step is not None
    return _Outcome(job.future, job.step(db), None)


def _try_step(job: _Job, file: SqliteFile, db: apsw.Connection) -> _Outcome:
    """Run one of several steps: when it fails, what it wrote is taken back, and only that."""
    db.execute("SAVEPOINT step")
    try:
        outcome = _step(job, db)
    except Exception as error:
        if not db.in_transaction or isinstance(error, _OF_THE_DISK):
            raise
        db.execute("ROLLBACK TO step")
        outcome = _Outcome(job.future, None, file.failure(error) if isinstance(error, apsw.Error) else error)
    db.execute("RELEASE step")
    return outcome


# what no other step of the same transaction would be spared
_OF_THE_DISK = (apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.NoMemError, apsw.ReadOnlyError)


def _settle(outcomes: list[_Outcome]) -> None:
    for outcome in outcomes:
        settle_future(*outcome)
