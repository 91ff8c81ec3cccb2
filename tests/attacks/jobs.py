"""Attacks that are jobs: what is refused when it is made, and how often the rest may run."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from tests.services.cron_world import ManualClock, crib_at
from toolcrib import OWNER, ToolError

from . import Outcome, broken, kept
from .resources import measure_held

Json = Mapping[str, Any]


def judge_job(job: Json, must: Json) -> Outcome:
    """Make one job, let a minute pass where it is taken, and compare the verdict, the time and the runs."""
    return asyncio.run(_judge_job(job, must))


async def _judge_job(job: Json, must: Json) -> Outcome:
    clock = ManualClock(1_790_000_000_000)
    async with crib_at(clock) as crib:
        began, why, many = time.process_time(), "", 0
        try:
            made = await crib.ask("cron.add", {"job": job}, caller=OWNER)
        except ToolError as error:
            why = str(error)
        else:
            crib.cron.start()
            await clock.advance(60)
            await crib.cron.clock.settle()
            many = len((await crib.ask("cron.runs", {"id": made["id"]}, caller=OWNER))["entries"])
        took = time.process_time() - began
    seen = {"error": why} if why else {"accepted": True, "runs": many}
    if must["verdict"] == "reject" and not why:
        return broken("accepted", seen)
    if must["verdict"] == "accept" and why:
        return broken(f"refused: {why}", seen)
    if many > must.get("max_runs_per_minute", 60):
        return broken(f"it ran {many} times in a minute", seen)
    return broken(f"took {took:.1f} s", seen) if took > must.get("max_seconds", 60) else kept(seen)


def judge_many(case: Json) -> Outcome:
    """Make as many jobs as the case says, and compare how many there are."""
    before = measure_held(begins=True)
    made, why = asyncio.run(_make(case["input"]["count"]))
    after, must = measure_held(), case["must"]
    if after["fds"] - before["fds"] > must.get("fds_growth", 1_000):
        return broken("descriptors are left", after)
    if must.get("verdict") == "allow" and why:
        return broken(f"refused: {why}", {"jobs": made})
    return kept({"jobs": made}) if made == must.get("jobs", made) else broken(f"{made} jobs", {"jobs": made})


async def _make(count: int) -> tuple[int, str]:
    async with crib_at(ManualClock()) as crib:
        for at in range(count):
            job = {"schedule": {"everyMs": 3_600_000 + at}, "payload": {"kind": "systemEvent", "text": f"job {at}"}}
            try:
                await crib.ask("cron.add", {"job": job}, caller=OWNER)
            except ToolError as error:
                return len((await crib.ask("cron.list", caller=OWNER))["jobs"]), str(error)
        return len((await crib.ask("cron.list", caller=OWNER))["jobs"]), ""
