"""The clock of jobs: sleeps until one is due, claims its slot in the store, and runs it beside the others.

Several processes may have one store: whoever claims a slot first runs it. The clock looks at least once a minute, so
that one that was set is noticed, and never more often than four times a second.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from secrets import token_hex

from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.job import Job, JobRun, JobStore
from toolcrib.lazy import dataclass, replace

from . import slots
from .slots import RunEnd

log = logging.getLogger("toolcrib")

_MIN_SECONDS, _MAX_SECONDS = 0.25, 60.0  # between two looks
_RENEW_SECONDS = 30.0
_JUMP_MS = 1_000
_SUMMARY_CHARS = 8_000
_KEPT_RUNS = 50  # of one job

Perform = Callable[[Job, JobRun], Awaitable[RunEnd]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPorts:
    """What the clock needs from the rest: the time in seconds, how to wait, and what to do for a job.

    `perform` does it, and `tell` hears of every run that begins and ends, `tell_gone` of a job that goes behind its
    run; `forget` of runs that are kept no longer.
    `prepare` comes before every look. `is_left` says of a run that is stopped whether another process goes on with it.
    `most` run at once of the owner's jobs, which `is_owners` tells, and as many of all others; one that `waits` for a
    person is none of them.
    """

    perform: Perform
    tell: Callable[[Job, JobRun], None]
    forget: Callable[[tuple[JobRun, ...]], Awaitable[None]]
    most: Callable[[], int]
    tell_gone: Callable[[Job], None] = lambda job: None
    prepare: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    is_left: Callable[[Job, JobRun], bool] = lambda job, run: False
    is_owners: Callable[[Job], bool] = lambda job: True
    waits: Callable[[Job, JobRun], bool] = lambda job, run: False
    now: Callable[[], float] = time.time
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


class JobClock:
    """Runs the jobs of one store. Without `start` it runs what it is asked to, and nothing by itself."""

    def __init__(self, store: JobStore, world: ClockPorts) -> None:
        self._store, self._world = store, world
        self._poked, self._claiming = asyncio.Event(), asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._going: dict[str, asyncio.Task[RunEnd]] = {}  # by job
        self._runs: dict[str, tuple[Job, JobRun, int]] = {}  # by id of the job, with the time of the last lease
        self._is_owners: dict[str, bool] = {}  # whether a job that waits for a place is one of the owner's, by id
        self._seen_ms: int | None = None

    @property
    def is_looking(self) -> bool:
        """Whether it looks for jobs by itself."""
        return self._looking is not None and not self._looking.done()

    def now_ms(self) -> int:
        return int(self._world.now() * 1000)

    def start(self) -> None:
        """Look for jobs from now on, until `close`."""
        if not self.is_looking:
            self._seen_ms, self._looking = None, asyncio.get_running_loop().create_task(self._look_on())

    def poke(self) -> None:
        """Have it look soon: something has changed."""
        self._poked.set()

    async def close(self) -> None:
        """Look no more, and stop what runs."""
        looking, self._looking = self._looking, None
        async with self._claiming:  # a claimed run begins, so that it can be recorded as stopped
            tasks = [task for task in (looking, *self._going.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_now(self, job: Job, *, is_forced: bool) -> "asyncio.Task[RunEnd] | str":
        """Run a job now, where it is due or `is_forced`; return its task, or a word for why it does not run."""
        # whoever asked may go meanwhile: what is claimed begins all the same
        return await asyncio.shield(asyncio.ensure_future(self._run_now(job, is_forced=is_forced)))

    async def _run_now(self, job: Job, *, is_forced: bool) -> "asyncio.Task[RunEnd] | str":
        now, id = self.now_ms(), token_hex(8)

        def step(known: Job | None) -> tuple[Job | None, JobRun | None]:
            if known is None or slots.is_running(known, now):
                return known, None
            if is_forced:
                return slots.claim_now(known, now, id) or known, JobRun(id=id, job=known.id, slot_ms=None, began_ms=now)
            taken, slot = slots.claim(known, now, id)
            return taken, None if slot is None else JobRun(id=id, job=known.id, slot_ms=slot, began_ms=now)

        known, run = await self._store.change(job.id, step)
        if known is None:
            return "removed"
        if run is None:
            return "already-running" if slots.is_running(known, now) else "not-due"
        return self.begin(known, run)

    async def settle(self) -> None:
        """Wait until what runs has ended."""
        while self._going:
            await asyncio.wait(list(self._going.values()))
            await asyncio.sleep(0)

    async def _look_on(self) -> None:
        while True:
            self._poked.clear()
            try:
                async with self._claiming:
                    seconds = await self._look()
            except ToolError as error:  # the store, which may be back in a moment
                log.warning("jobs cannot be looked at: %s", error)
                seconds = _MAX_SECONDS
            except Exception:  # one look is not worth the clock
                log.exception("looking for jobs failed")
                seconds = _MAX_SECONDS
            await self._world.pause(_MIN_SECONDS)
            await self._wait(seconds - _MIN_SECONDS)

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until somebody pokes."""
        if seconds <= 0 or self._poked.is_set():
            return
        waiting = [asyncio.ensure_future(each) for each in (self._poked.wait(), self._world.pause(seconds))]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _look(self) -> float:
        """Begin what is due; return for how many seconds there is nothing to do."""
        await self._world.prepare()
        now = self.now_ms()
        if self._seen_ms is None or now < self._seen_ms - _JUMP_MS:
            await self._plan_all(now)  # what was future is past, or the other way round
        self._seen_ms = now
        await self._renew(now)
        limit = self._world.most()
        if limit == 0:
            return _MAX_SECONDS
        full = set[bool]()
        due = [id for id in await self._store.list_due(now) if id not in self._going]
        self._is_owners = {id: self._is_owners[id] for id in due if id in self._is_owners}
        for id in due:
            if not self.is_looking:
                return _RENEW_SECONDS
            if self._is_owners.get(id) not in full:  # of those that wait for a place, none is read again
                full |= await self._claim(id, limit)
        if full:  # who ends pokes
            return _RENEW_SECONDS
        soonest = await self._store.find_soonest()
        max_seconds = _RENEW_SECONDS if self._going else _MAX_SECONDS
        return max_seconds if soonest is None else min(max((soonest - now) / 1000, _MIN_SECONDS), max_seconds)

    async def _claim(self, id: str, limit: int) -> set[bool]:
        """Begin a job whose slot is due, or return whose places are full: the owner's, or those of all others."""
        now, run, world = self.now_ms(), token_hex(8), self._world
        held = Counter(world.is_owners(job) for job, run, _ in self._runs.values() if not world.waits(job, run))

        def step(job: Job | None) -> tuple[Job | None, JobRun | None]:
            if job is None or held[world.is_owners(job)] >= limit:
                return job, None
            taken, slot = slots.claim(job, now, run)
            return taken, None if slot is None else JobRun(id=run, job=id, slot_ms=slot, began_ms=now)

        job, began = await self._store.change(id, step)
        if job is not None and began is not None:
            self.begin(job, began)
        if job is None:
            return set()
        is_owners = self._is_owners[id] = world.is_owners(job)
        return {is_owners} if held[is_owners] >= limit else set()

    def begin(self, job: Job, run: JobRun) -> "asyncio.Task[RunEnd]":
        """Run a job whose slot is claimed, or go on with a run that another process left."""
        task = self._going[job.id] = asyncio.get_running_loop().create_task(self._go(job, run))
        self._runs[job.id] = job, run, run.began_ms
        return task

    async def _go(self, job: Job, run: JobRun) -> RunEnd:
        end = RunEnd("error", error="it was stopped before it was done")
        try:
            self._world.tell(job, run)
            end = await self._world.perform(job, run)
        except CribError as error:
            end = RunEnd("error", error=str(error))
        except Exception:  # a job must not take the clock with it
            log.exception("the job %s failed", job.id)
            end = RunEnd("error", error="it failed; the log says more")
        finally:
            if self._world.is_left(job, run):  # whoever comes next goes on with it
                self._forget(job)
            else:
                await asyncio.shield(asyncio.ensure_future(self._end(job, run, end)))
        return end

    async def _end(self, job: Job, run: JobRun, end: RunEnd) -> None:
        now = self.now_ms()
        done = replace(
            run, status=end.status, ended_ms=now, summary=end.summary[:_SUMMARY_CHARS], error=end.error[:_SUMMARY_CHARS]
        )

        def step(known: Job | None) -> tuple[Job | None, JobRun | None]:
            return (slots.finish(known, run, end, now), done) if known else (None, None)

        try:
            kept, ended = await self._store.change(job.id, step)
            self._world.tell(kept or replace(job, state=replace(job.state, next_ms=None)), done)
            if kept is None and ended is not None:
                self._world.tell_gone(job)
            await self._world.forget(await self._store.forget_runs(job.id, keep=_KEPT_RUNS))
        except ToolError as error:
            log.error("what came of the job %s could not be kept: %s", job.id, error)  # noqa: TRY400  the store's words
        finally:
            self._forget(job)
            self.poke()

    def _forget(self, job: Job) -> None:
        self._going.pop(job.id, None)
        self._runs.pop(job.id, None)

    async def _plan_all(self, now: int) -> None:
        for job in await self._store.list_all():
            if slots.plan(job, now) != job:
                await self._store.change(job.id, lambda job: (job and slots.plan(job, now), None))

    async def _renew(self, now: int) -> None:
        for id, (job, run, at) in list(self._runs.items()):
            if abs(now - at) >= _RENEW_SECONDS * 1000:
                await self._store.change(id, partial(_renew_step, now=now, run=run.id))
                self._runs[id] = job, run, now


def _renew_step(job: Job | None, *, now: int, run: str) -> tuple[Job | None, JobRun | None]:
    return job and slots.renew(job, now, run), None
