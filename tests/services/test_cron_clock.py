"""The clock of jobs, by a clock that is set, stops and changes with the season: each slot once, and no rush."""

import asyncio
import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.services.cron_world import START_MS, ManualClock, settle
from toolcrib.backends.stores.jobs import MemoryJobs
from toolcrib.define.caller import OWNER
from toolcrib.define.job import Job, JobRun, JobStep, read_job
from toolcrib.define.schedule import last_slot, next_slot, with_anchor
from toolcrib.services.cron import slots
from toolcrib.services.cron.clock import ClockPorts, JobClock
from toolcrib.services.cron.slots import RunEnd

pytestmark = pytest.mark.anyio

HOUR, DAY, YEAR = 3_600, 86_400, 365 * 86_400
ZONES = ("America/New_York", "Europe/Kyiv", "Australia/Lord_Howe")


def job_of(id: str, schedule: dict[str, Any], now_ms: int = START_MS, **more: Any) -> Job:
    written = {"name": id, "enabled": True, "sessionTarget": "main", "wakeMode": "next-heartbeat", **more}
    spec = read_job({**written, "schedule": schedule, "payload": {"kind": "systemEvent", "text": "t"}})
    times: dict[str, Any] = {"created_ms": now_ms, "updated_ms": now_ms, "anchor_ms": now_ms}
    state = slots.begin_state(spec.schedule, now_ms)
    return slots.plan(Job(id=id, spec=spec, author=OWNER, had=(), home="h", state=state, **times), now_ms)


class CountedJobs(MemoryJobs):
    """Jobs in memory, which note when they are looked at."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock, self._looks = clock, deque[float]()
        self.busiest = self.changes = 0

    async def change(self, id: str, step: JobStep, /) -> tuple[Job | None, JobRun | None]:
        self.changes += 1
        return await super().change(id, step)

    async def list_due(self, now_ms: int, /) -> tuple[str, ...]:
        self._looks.append(self._clock.passed)
        while self._looks[0] <= self._clock.passed - 1:
            self._looks.popleft()
        self.busiest = max(self.busiest, len(self._looks))
        return await super().list_due(now_ms)


@dataclass
class World:
    """A clock over jobs in memory; what ran, and how late."""

    clock: ManualClock
    ends: dict[str, RunEnd] = field(default_factory=dict)
    hold: dict[str, asyncio.Event] = field(default_factory=dict)
    ran: list[tuple[str, int | None]] = field(default_factory=list)
    late: Counter[str] = field(default_factory=Counter)
    most: int = 1_000

    def __post_init__(self) -> None:
        self.store = CountedJobs(self.clock)
        self.jobs = self.clock_over(self.store)

    def clock_over(self, store: MemoryJobs) -> JobClock:
        async def forget(runs: tuple[JobRun, ...]) -> None:
            return None

        world = ClockPorts(
            perform=self.perform, tell=lambda job, run: None, forget=forget, most=lambda: self.most,
            now=self.clock.now, pause=self.clock.pause,
        )  # fmt: skip
        return JobClock(store, world)

    async def perform(self, job: Job, run: JobRun) -> RunEnd:
        self.ran.append((job.id, run.slot_ms))
        if run.slot_ms is not None and run.began_ms - run.slot_ms > 61_000:
            self.late[job.id] += 1
        if job.id in self.hold:
            await self.hold[job.id].wait()
        return self.ends.get(job.id, RunEnd("ok"))

    async def add(self, *jobs: Job) -> None:
        for job in jobs:
            await self.store.change(job.id, lambda _, job=job: (job, None))  # type: ignore[misc]  # bound at once

    def slots_of(self, id: str) -> list[int]:
        return [(at - START_MS) // 1000 for name, at in self.ran if name == id and at is not None]


async def test_an_interval_keeps_its_anchor_over_a_restart() -> None:
    world = World(ManualClock())
    await world.add(job_of("a", {"kind": "every", "everyMs": 600_000}))
    world.jobs.start()
    await world.clock.advance(650)
    await world.jobs.close()
    await world.clock.advance(400)
    again = world.clock_over(world.store)
    again.start()
    await world.clock.advance(600)
    await again.close()
    assert world.slots_of("a") == [600, 1200]


async def test_what_was_missed_is_done_once_or_left_out_as_the_job_says() -> None:
    world = World(ManualClock())
    every = {"kind": "every", "everyMs": 60_000}
    await world.add(job_of("caught", every), job_of("skipped", every, catchUp=False))
    await world.clock.advance(610)
    world.clock.jump(100)
    world.jobs.start()
    await world.clock.advance(1)
    assert (world.slots_of("caught"), world.slots_of("skipped")) == ([660], [660])
    await world.jobs.close()
    world.clock.jump(HOUR)
    again = world.clock_over(world.store)
    again.start()
    await world.clock.advance(5)
    assert (world.slots_of("caught"), world.slots_of("skipped")) == ([660, 4_260], [660, 4_260])
    daily = job_of("daily", {"kind": "every", "everyMs": DAY * 1000}, catchUp=False)
    await world.add(daily)
    world.clock.jump(2 * DAY + HOUR)
    await world.clock.advance(61)
    assert world.slots_of("daily") == []
    await world.clock.advance(DAY)
    assert len(world.slots_of("daily")) == 1
    await again.close()


async def test_a_job_that_fails_waits_longer_each_time() -> None:
    world = World(ManualClock(), ends={"a": RunEnd("error", error="no")})
    await world.add(job_of("a", {"kind": "every", "everyMs": 60_000}))
    world.jobs.start()
    await world.clock.advance(2 * HOUR)
    assert world.slots_of("a") == [60, 120, 180, 300, 540, 1020, 1980, 3900, 7500][: len(world.slots_of("a"))]
    assert len(world.slots_of("a")) == 8
    await world.jobs.close()


async def test_what_runs_once_is_tried_five_times_and_then_given_up() -> None:
    world = World(ManualClock(), ends={"a": RunEnd("error", error="no")})
    await world.add(job_of("a", {"kind": "at", "atMs": START_MS + 5_000}))
    world.jobs.start()
    await world.clock.advance(DAY)
    assert len(world.ran) == len(set(world.ran)) == 5
    (job,) = await world.store.list_all()
    assert (job.spec.enabled, job.state.last_error) == (False, "no")
    await world.jobs.close()


async def test_a_slow_job_holds_up_neither_another_nor_its_own_next_slot_twice() -> None:
    world = World(ManualClock(), hold={"slow": asyncio.Event()})
    every = {"kind": "every", "everyMs": 60_000}
    await world.add(job_of("slow", every), job_of("quick", every))
    world.jobs.start()
    await world.clock.advance(605)
    assert (world.slots_of("slow"), len(world.slots_of("quick"))) == ([60], 10)
    world.hold.pop("slow").set()
    await settle()
    await world.clock.advance(5)
    assert world.slots_of("slow") == [60, 600]
    await world.jobs.close()


async def test_as_many_run_at_once_as_may_and_the_others_wait_their_turn() -> None:
    world = World(ManualClock(), hold={"a": asyncio.Event(), "b": asyncio.Event()}, most=1)
    await world.add(*(job_of(id, {"kind": "every", "everyMs": 60_000}) for id in "ab"))
    world.jobs.start()
    await world.clock.advance(61)
    assert world.ran == [("a", START_MS + 60_000)]
    world.hold.pop("a").set()
    await settle()
    await world.clock.advance(1)
    assert [id for id, _ in world.ran] == ["a", "b"]
    await world.jobs.close()


async def test_of_many_jobs_that_wait_for_a_place_none_is_read_again_until_there_is_one() -> None:
    clock = ManualClock()
    world = World(clock, most=2, hold={f"j{at}": asyncio.Event() for at in range(300)})
    await world.add(*(job_of(f"j{at}", {"kind": "every", "everyMs": 60_000}) for at in range(300)))
    world.jobs.start()
    await clock.advance(61)
    assert len(world.ran) == 2
    before = world.store.changes
    await clock.advance(30)
    assert world.store.changes - before < 100  # of hundreds in each look
    await world.jobs.close()


async def test_a_job_comes_at_most_every_ten_seconds() -> None:
    world = World(ManualClock())
    await world.add(job_of("a", {"kind": "every", "everyMs": 1}), job_of("b", {"kind": "cron", "expr": "* * * * * *"}))
    world.jobs.start()
    await world.clock.advance(60)
    assert len(world.slots_of("a")) <= 6
    assert len(world.slots_of("b")) <= 6
    assert world.store.busiest <= 5
    await world.jobs.close()


async def test_who_has_gone_lets_go_of_a_job_after_its_lease() -> None:
    world = World(ManualClock())
    job = job_of("a", {"kind": "every", "everyMs": 60_000})
    gone, slot = slots.claim(replace(job), START_MS + 60_000, "dead")
    assert slot == START_MS + 60_000
    await world.add(gone)
    world.clock.jump(60)
    world.jobs.start()
    await world.clock.advance(85)
    assert world.ran == []
    await world.clock.advance(40)
    assert world.slots_of("a") == [120, 180]
    await world.jobs.close()


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expr", ["30 2 * * *", "30 1 * * *", "0 * * * *", "*/20 * * * *", "15,45 1-3 * * *"])
def test_in_a_year_with_both_changes_of_the_clocks_slots_only_go_forward(zone: str, expr: str) -> None:
    schedule = read_job(
        {"name": "n", "sessionTarget": "main", "wakeMode": "now", "payload": {"kind": "systemEvent", "text": "t"},
         "schedule": {"kind": "cron", "expr": expr, "tz": zone}}
    ).schedule  # fmt: skip
    for begin in (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 9, 27, tzinfo=UTC)):
        at = int(begin.timestamp() * 1000)
        end, seen = at + 42 * DAY * 1000, list[int]()
        while (slot := next_slot(schedule, at)) is not None and slot < end:
            assert slot > at
            seen.append(slot)
            at = slot
        daily = Counter(each // (DAY * 1000) for each in seen)
        usual = {"30": {1, 2}, "0": {23, 24, 25}, "*/20": {71, 72, 73}, "15,45": set(range(4, 9))}[expr.split()[0]]
        assert usual >= set(list(daily.values())[1:-1])
        if expr.startswith("30"):
            assert abs(len(seen) - 42) <= 1
        for slot in seen[:: len(seen) // 20]:
            assert last_slot(schedule, slot - 3 * DAY * 1000, slot) == slot
            assert next_slot(schedule, slot - 1) == slot


def campaign_jobs(now_ms: int, rng: random.Random) -> list[Job]:
    """190 jobs that come daily or more seldom, and 10 that come every hour; in three zones."""
    jobs = []
    for at in range(190):
        minute, hour, zone = rng.randrange(60), rng.randrange(24), ZONES[at % 3]
        days = rng.choice(("* * *", "* * *", "* * 1-5", "* * 0", "1 * *", "L * *"))
        expr = {"kind": "cron", "expr": f"{minute} {hour if at % 5 else 2} {days}", "tz": zone}
        jobs.append(
            job_of(f"d{at}", expr if at % 4 else {"kind": "every", "everyMs": (1 + at % 7) * DAY * 1000}, now_ms)
        )
    for at in range(10):
        hourly = {"kind": "cron", "expr": f"{at * 6} * * * *", "tz": ZONES[at % 3]}
        jobs.append(job_of(f"h{at}", hourly if at % 2 else {"kind": "every", "everyMs": 3_600_000}, now_ms))
    return jobs


async def campaign(days: int, begin: datetime, seed: int = 7) -> World:
    """Let days pass with jumps of an hour, a day and a year both ways, and with a clock that stops."""
    rng = random.Random(seed)
    start = int(begin.timestamp() * 1000)
    world = World(ManualClock(start))
    jobs = campaign_jobs(start, rng)
    await world.add(*jobs)
    world.jobs.start()
    jumps = deque([HOUR, -HOUR, DAY, -DAY, YEAR, -YEAR, -HOUR, 2 * DAY, -YEAR, YEAR, 300, -300])
    windows: list[tuple[float, float]] = []
    passed = 0.0
    while passed < days * DAY:
        began, length = world.clock.told, min(rng.uniform(0.5, 2.5) * DAY, days * DAY - passed)
        await world.clock.advance(length)
        windows.append((began, world.clock.told))
        passed += length
        await world.clock.advance(600, frozen=True)
        before = Counter(world.late)
        world.clock.jump(jumps[0])
        jumps.rotate(-1)
        await world.clock.advance(70)
        most_late = max((world.late - before).values(), default=0)
        assert most_late <= 1, "one catch-up a job and jump"
    await world.jobs.close()
    assert len(world.ran) == len(set(world.ran)), "no slot twice"
    assert world.store.busiest <= 5, "wake-ups in a second"
    ran = defaultdict[str, set[int]](set)
    for id, slot in world.ran:
        ran[id].add(slot or 0)
    for job in jobs:
        schedule = with_anchor(job.spec.schedule, job.anchor_ms)
        for first, last in windows:
            at = max(int(first * 1000) + 120_000, start)
            while (slot := next_slot(schedule, at)) is not None and slot < int(last * 1000) - 120_000:
                assert slot in ran[job.id], f"{job.id} lost {slot}"
                at = slot
    return world


async def test_a_month_with_jumps_runs_every_slot_once() -> None:
    world = await campaign(31, datetime(2026, 3, 6, tzinfo=UTC))
    assert len(world.ran) > 7_000


@pytest.mark.full
@pytest.mark.timeout(1_200)
async def test_a_year_with_jumps_runs_every_slot_once() -> None:
    world = await campaign(366, datetime(2026, 1, 1, tzinfo=UTC), seed=11)
    assert len(world.ran) > 80_000
