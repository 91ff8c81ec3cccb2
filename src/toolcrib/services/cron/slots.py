"""Which slot of a job runs when: claimed once, missed ones caught up once, failures paused for. Pure steps of a job.

Each takes a job and the time, and returns the job as it is to be kept; a store makes one of them at a time. A slot that
ran is spent: `JobState.spent` are runs of slots, the first run holding all of before. So a clock that goes back repeats
nothing, and one that went forward by mistake has cost one slot, not those between.
"""

from dataclasses import replace
from typing import NamedTuple

from toolcrib.define.job import Job, JobRun, JobState, JobStatus
from toolcrib.define.schedule import AtSchedule, Schedule, first_slot, last_slot, next_slot, with_anchor

LEASE_MS = 90_000
MIN_GAP_MS = 10_000  # between two slots of a job, whatever its schedule says
_LATE_MS = 60_000  # behind a slot from when on it counts as missed
_PAUSE_MS, _MAX_PAUSE_MS = 30_000, 3_600_000
_MAX_TRIES, _MAX_SPENT = 5, 128
_ERROR_CHARS = 500
_AHEAD_MS = 42 * 86_400_000  # what a calendar shows


class RunEnd(NamedTuple):
    """What came of a run."""

    status: JobStatus
    summary: str = ""
    error: str = ""
    is_over: bool = False  # it failed behind its work, which is not done again


def begin_state(schedule: Schedule, now_ms: int) -> JobState:
    """Return the state of a job that is made, or scheduled anew, now."""
    slot = schedule.at_ms if isinstance(schedule, AtSchedule) else first_slot(schedule, now_ms)
    floor = now_ms if slot is None else min(now_ms, slot - 1)  # on the dot is in time, and so is once, a moment ago
    return JobState(spent=((floor, floor),))


def plan(job: Job, now_ms: int) -> Job:
    """Return the job with the time at which it is to be looked at next, None for never."""
    at = next_time(job, now_ms) if job.spec.enabled else None
    if at is not None and _is_leased(job.state, now_ms):
        at = max(at, job.state.lease_ms)
    return job if at == job.state.next_ms else replace(job, state=replace(job.state, next_ms=at))


def next_time(job: Job, now_ms: int) -> int | None:
    """Return when the job runs next, if nothing holds it up; a time that is past means now."""
    if job.state.retry_ms is not None:
        return job.state.retry_ms
    return _next_unspent(job, _base(job, now_ms))


def list_upcoming(job: Job, now_ms: int, limit: int) -> list[int]:
    """Return when the job runs next and after that, so many times at most, within a few weeks."""
    found, run_ms = list[int](), next_time(job, now_ms)
    while run_ms is not None and len(found) < limit and run_ms < now_ms + _AHEAD_MS:
        found.append(max(run_ms, now_ms))
        run_ms = _next_unspent(job, max(run_ms + MIN_GAP_MS - 1, now_ms))
    return found


def is_running(job: Job, now_ms: int) -> bool:
    """Tell whether somebody runs it; who does not renew its lease has gone."""
    return _is_leased(job.state, now_ms)


def claim(job: Job, now_ms: int, run: str) -> tuple[Job, int | None]:
    """Return the job with its slot of now claimed for a run, and that slot; None where there is none to run."""
    if not job.spec.enabled or _is_leased(job.state, now_ms):
        return plan(job, now_ms), None
    state = job.state
    if state.retry_ms is not None:
        if state.retry_ms > now_ms:
            return plan(job, now_ms), None
        slot: int | None = state.retry_ms
        job = replace(job, state=replace(state, retry_ms=None))
    else:
        base = _base(job, now_ms)
        slot = last_slot(_slots(job), base, now_ms)
        spent = state.spent
        if slot is None or slot <= spent[0][0] or any(first <= slot <= last for first, last in spent):
            return plan(job, now_ms), None
        job = replace(job, state=_spend(job, slot))
        if job.spec.catch_up is False and now_ms - slot > _LATE_MS:
            return plan(job, now_ms), None
    return plan(_begin(job, now_ms, run), now_ms), slot


def claim_now(job: Job, now_ms: int, run: str) -> Job | None:
    """Return the job claimed for a run that somebody asks for, which spends no slot; None while another run goes on."""
    return None if _is_leased(job.state, now_ms) else plan(_begin(job, now_ms, run), now_ms)


def renew(job: Job, now_ms: int, run: str) -> Job:
    """Return the job with a longer lease for a run that still has it."""
    return plan(_lease(job, now_ms, run), now_ms) if job.state.lease_run == run else job


def finish(job: Job, run: JobRun, end: RunEnd, now_ms: int) -> Job | None:
    """Return the job behind a run; None when it is done with and was to be deleted then."""
    took, is_once = max(now_ms - run.began_ms, 0), isinstance(job.spec.schedule, AtSchedule)
    failures = job.state.failures + 1 if end.status == "error" else 0
    pause = min(_PAUSE_MS * 2 ** max(failures - 1, 0), _MAX_PAUSE_MS)
    known = job.state
    if known.lease_run == run.id:  # else it ran out, and somebody else has it
        known = replace(known, lease_run="", lease_ms=0, running_ms=None)
    state = replace(
        known,
        last_run_ms=run.began_ms,
        last_status=end.status,
        last_error=end.error[:_ERROR_CHARS],
        last_duration_ms=took,
        failures=failures,
        pause_ms=now_ms + pause if failures else 0,
    )
    spec = job.spec
    if is_once and end.status == "ok":
        if spec.delete_after_run:
            return None
        spec = spec.model_copy(update={"enabled": False})
    elif is_once and run.slot_ms is not None:
        gives_up = end.is_over or failures >= _MAX_TRIES
        state = replace(state, retry_ms=None if gives_up else now_ms + pause)
        spec = spec.model_copy(update={"enabled": False}) if gives_up else spec
    return plan(replace(job, spec=spec, state=state), now_ms)


def _slots(job: Job) -> Schedule:
    return with_anchor(job.spec.schedule, job.anchor_ms)


def _begin(job: Job, now_ms: int, run: str) -> Job:
    return _lease(replace(job, state=replace(job.state, running_ms=now_ms)), now_ms, run)


def _lease(job: Job, now_ms: int, run: str) -> Job:
    return replace(job, state=replace(job.state, lease_run=run, lease_ms=now_ms + LEASE_MS))


def _is_leased(state: JobState, now_ms: int) -> bool:
    # one that ends further away than any does was taken before the clock went back
    return bool(state.lease_run) and 0 < state.lease_ms - now_ms <= LEASE_MS


def _base(job: Job, now_ms: int) -> int:
    """Return the moment behind which slots count: the last that is spent as time goes now, and no pause."""
    state = job.state
    floor = state.spent[0][0]
    last = max((last for first, last in state.spent if first <= now_ms), default=floor)
    base = last if last == floor else last + MIN_GAP_MS - 1
    is_paused = state.failures and state.pause_ms - now_ms <= _MAX_PAUSE_MS  # else the clock went back since
    return max(base, state.pause_ms - 1) if is_paused else base


def _next_unspent(job: Job, after_ms: int) -> int | None:
    schedule, after = _slots(job), after_ms
    while (slot := next_slot(schedule, after)) is not None:
        ends = [last for first, last in job.state.spent if first <= slot <= last]
        if not ends:
            return slot
        after = max(ends)
    return None


def _spend(job: Job, slot: int) -> JobState:
    """Return the state with a slot spent: as the next of a run of slots, or as the first of another."""
    spent, schedule = list(job.state.spent), _slots(job)
    at = max((at for at, (first, _) in enumerate(spent) if first <= slot), default=0)
    first, last = spent[at]
    if next_slot(schedule, last if first == last and at == 0 else last + MIN_GAP_MS - 1) == slot:
        spent[at] = first, slot
    else:
        at += 1
        spent.insert(at, (slot, slot))
    coming = next_slot(schedule, slot + MIN_GAP_MS - 1) if at + 1 < len(spent) else None
    if coming is not None and coming >= spent[at + 1][0]:  # the clock was there before: now they are one
        spent[at : at + 2] = [(spent[at][0], spent[at + 1][1])]
    if len(spent) > _MAX_SPENT:  # a gap is given up: the oldest, or the furthest where all are still to come
        at = 0 if spent[1][0] <= slot else len(spent) - 2
        spent[at : at + 2] = [(spent[at][0], spent[at + 1][1])]
    return replace(job.state, spent=tuple(spent))
