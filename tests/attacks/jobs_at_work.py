"""Attacks by jobs while they run: a clock that is set, many that are due at once, and one that makes more of itself."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.services.cron_world import ManualClock, crib_at
from toolcrib import OWNER, Call, ToolError
from toolcrib.app import Crib
from toolcrib.define.model import Request
from toolcrib.define.turn import TurnRequest
from toolcrib.services.cron.slots import RunEnd
from toolcrib.services.cron.work import JobRunner as JobWork
from toolcrib.services.cron.work import work_in
from toolcrib.services.feature import TurnCore
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

_HOUR_MS = 3_600_000
_ROUNDS = 20  # of the loop in which a job is at work: others begin meanwhile, if they may


@dataclass
class _World:
    """Jobs whose turns a model answers, and what was seen of them."""

    limits: Json
    adds: int = 0  # jobs that the model tries to make in each turn
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_790_000_000_000))
    going: int = 0
    most: int = 0
    jobs: int = 0
    refused: list[str] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)  # by the job

    def works(self, core: TurnCore) -> JobWork:
        """Return the work of jobs, done by turns that this model answers."""

        async def take_turn(request: TurnRequest, run: str, seconds: int | None) -> RunEnd:
            self.going += 1
            self.most = max(self.most, self.going)
            self.runs[request.caller.session or ""] += 1
            try:
                end = await core.start_turn(replace(request, model=FunctionModel(self._answer, keep=False))).end()
            finally:
                self.going -= 1
            return RunEnd("ok" if end.reason == "done" else "error", end.text, end.sentence)

        return replace(work_in(core), take_turn=take_turn)

    async def _answer(self, request: Request) -> Any:
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        told = [message.plain_text for message in request.history if message.role == "tool"]
        self.refused += [words for words in told if "makes no jobs" in words or "too many jobs" in words]
        if self.adds == 0 or told:
            return text_reply("done")
        job = _job({"everyMs": 60_000}, "again")
        return call_reply(*(Call(f"c{at}", "cron", {"action": "add", "job": job}) for at in range(self.adds)))

    async def make(self, crib: Crib, count: int, schedule: Json) -> None:
        """Make jobs, as many as may be."""
        for at in range(count):
            try:
                await crib.ask("cron.add", {"job": _job(schedule, f"job {at}")}, caller=OWNER)
            except ToolError as error:
                self.refused.append(str(error))

    async def pass_time(self, crib: Crib, seconds: float) -> None:
        """Let time pass, and then as much more as those who wait for their turn need."""
        await self.clock.advance(seconds)
        seen = -1
        while seen != self.runs.total():
            seen = self.runs.total()
            await crib.cron.clock.settle()
            await self.clock.advance(1)
        self.jobs = len((await crib.ask("cron.list", {"includeDisabled": True}, caller=OWNER))["jobs"])


def judge(case: Json, limits: Json) -> Outcome:
    """Let jobs do what the case says, and compare how many there are and how often they ran."""
    asked, must = case["input"], case["must"]
    before, watch = resources.measure_held(begins=True), Stopwatch()
    many = int(asked.get("jobs", asked.get("count", 1)))
    world, late = asyncio.run(_work(asked, many, limits))
    complaints = resources.measure({**must, "alive_during": False}, watch.took, before, resources.measure_held())
    complaints += [late] if must.get("alive_during") and late else []
    return _compare(world, must, many, complaints)


def _compare(world: _World, must: Json, many: int, complaints: list[str]) -> Outcome:
    by_job = Counter[str]()
    for session, count in world.runs.items():
        by_job[session.partition(":run:")[0]] += count
    total, each = by_job.total(), max(by_job.values(), default=0)
    seen = {"jobs": world.jobs, "runs": total, "of_one": each, "at_once": world.most, "refused": len(world.refused)}
    catches_up = must.get("catch_up_runs_max", total)
    if (each if catches_up < many else total) > catches_up:  # fewer than jobs can only be meant of each
        complaints.append(f"{total} runs caught up, {each} of one job")
    if must.get("runs", total) not in (total, each):
        complaints.append(f"{total} runs, {each} of one job")
    if world.most > must.get("concurrent_max", world.limits["cron_concurrent"]):
        complaints.append(f"{world.most} ran at once")
    if world.jobs > must.get("jobs_max", world.limits["cron_jobs"]) or world.jobs != must.get("jobs", world.jobs):
        complaints.append(f"{world.jobs} jobs are there")
    if must["verdict"] in ("reject", "reject_above_limit") and not world.refused:
        complaints.append("it was let through")
    if must["verdict"] == "allow" and world.refused:
        complaints.append(f"refused: {world.refused[0]}")
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


async def _work(asked: Json, many: int, limits: Json) -> tuple[_World, str]:
    world, late = _World(limits), Lateness()
    config = {"cron": {"maxConcurrent": limits["cron_concurrent"]}}
    async with crib_at(world.clock, config, works=world.works) as crib, late:
        crib.cron.start()
        match asked["op"]:
            case "clock_jump":
                seconds = sum(asked.get(unit, 0) * size for unit, size in _UNITS.items())
                await world.make(crib, many, {"everyMs": _HOUR_MS if abs(seconds) >= _HOUR_MS / 1000 else 60_000})
                await world.clock.advance(1)
                world.clock.jump(seconds)
                await world.pass_time(crib, 61)
            case "cron_same_minute":
                await world.make(crib, many, {"atMs": int(world.clock.now() * 1000) + 60_000})
                await world.pass_time(crib, 61)
            case _:
                world.adds = int(asked.get("count", asked.get("jobs", 1)))
                await world.make(crib, 1, {"everyMs": 60_000})
                for _ in range(int(asked.get("minutes", 3))):
                    await world.pass_time(crib, 60)
    return world, late.complaint


_UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def _job(schedule: Json, message: str) -> Json:
    return {"schedule": schedule, "payload": {"kind": "agentTurn", "message": message}}
