"""Two processes over one store of jobs, killed while jobs fire: no slot runs twice, none that was due is lost."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted

# Time goes a hundred times as fast: a slot of two minutes comes every 1.2 seconds, of forty jobs one every 30 ms. What
# is killed is a fork of a process that has everything loaded.
_WORLD = """
import asyncio, json, os, random, signal, sys, time
from pathlib import Path
from toolcrib.backends.stores.jobs import SqliteJobs
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import OWNER
from toolcrib.define.job import Job, read_job
from toolcrib.services.cron import slots
from toolcrib.services.cron.clock import JobClock, ClockPorts
from toolcrib.services.cron.slots import RunEnd

folder, kills, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
BASE, SPEED, EVERY, MANY = time.time(), 100, 120_000, 40
START = int(BASE * 1000)
rng = random.Random(3)

class Hasty(SqliteJobs):
    async def change(self, id, step, /):
        seen = []
        await super().change(id, lambda job: (seen.append(job), (job, None))[1])
        await asyncio.sleep(0.002)
        told = step(seen[0])
        return await super().change(id, lambda job: told)

def now():
    return BASE + (time.time() - BASE) * SPEED

def store():
    return {"kept": SqliteJobs, "hasty": Hasty}[how](SqliteFile(folder / "crib.db"))

async def make():
    for at in range(MANY):
        first = START + EVERY + at * EVERY // MANY
        spec = read_job({"name": "n", "enabled": True, "sessionTarget": "main", "wakeMode": "now",
                         "schedule": {"kind": "every", "everyMs": EVERY, "anchorMs": first},
                         "payload": {"kind": "systemEvent", "text": "t"}})
        state = slots.begin_state(spec.schedule, START)
        job = slots.plan(Job(id=f"j{at}", spec=spec, author=OWNER, had=(), home="h", created_ms=START, updated_ms=START,
                             anchor_ms=START, state=state), START)
        await store().change(job.id, lambda _, job=job: (job, None))

async def live(seconds=3600.0):
    ran = os.open(folder / "ran", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def perform(job, run):
        os.write(ran, f"{job.id} {run.slot_ms}\\n".encode())
        await asyncio.sleep(rng.random() * 0.02)
        return RunEnd("ok")

    async def watch():  # a process that stands still misses slots, and catches up one for all of them
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.02)
            if time.monotonic() - before > 0.1:
                (folder / "stalled").touch()

    async def forget(runs): pass
    async def pause(seconds): await asyncio.sleep(seconds / SPEED)

    ports = ClockPorts(
        perform=perform, tell=lambda job, run: None, forget=forget, most=lambda: 100, now=now, pause=pause
    )
    clock = JobClock(store(), ports)
    clock.start()
    watching = asyncio.create_task(watch())
    await asyncio.sleep(seconds)
    watching.cancel()
    await clock.close()

def fork(work=live, *args):  # all in forks: threads that this process had would be missing in them
    rng.seed(rng.random())
    if (pid := os.fork()) == 0:
        try:
            asyncio.run(work(*args))
        finally:
            os._exit(0)
    return pid

os.waitpid(fork(make), 0)
children = [fork(), fork()]
for at in range(kills):
    wait, before = rng.uniform(0.03, 0.09), time.monotonic()
    time.sleep(wait)
    if time.monotonic() - before - wait > 0.1:
        (folder / "stalled").touch()
    os.kill(children[at % 2], signal.SIGKILL)
    os.waitpid(children[at % 2], 0)
    children[at % 2] = fork()
time.sleep(2.0)  # until every lease of the dead is over, and what waited for it is done
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
end = int(now() * 1000)
os.waitpid(fork(live, 1.5), 0)

async def tell():
    jobs = store()
    runs = {}
    for at in range(MANY):
        runs[f"j{at}"] = sorted(run.slot_ms for run in await jobs.runs(f"j{at}", most=10_000))
    (folder / "runs").write_text(json.dumps(runs))

os.waitpid(fork(tell), 0)
runs = json.loads((folder / "runs").read_text())
due = {f"j{at}": list(range(START + EVERY + at * EVERY // MANY, end, EVERY)) for at in range(MANY)}
ran, stalled = (folder / "ran").read_text().split("\\n")[:-1], (folder / "stalled").exists()
print(json.dumps({"runs": runs, "due": due, "ran": ran, "stalled": stalled}))
"""


def kill(folder: Path, kills: int, how: str = "kept") -> dict[str, Any]:
    done = prestarted.run(
        [sys.executable, "-c", _WORLD, str(folder), str(kills), how],
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check(told: dict[str, Any]) -> int:
    """Hold what came of it against what was due; return how many slots ran."""
    effects, claimed = told["ran"], [f"{id} {slot}" for id, runs in told["runs"].items() for slot in runs]
    assert len(effects) == len(set(effects)), "an effect happened twice"
    assert len(claimed) == len(set(claimed)), "a slot was claimed twice"
    assert set(effects) <= set(claimed), "something happened that nobody claimed"
    late = {id for id, times in told["due"].items() if times and max(told["runs"][id], default=0) < times[-1]}
    assert not late, "what was due was never caught up"
    lost = {f"{id} {slot}" for id, times in told["due"].items() for slot in times} - set(claimed)
    # while the machine stands still more than a slot may pass, and then one is caught up for all of them
    assert told["stalled"] or not lost, sorted(lost)
    return len(set(claimed))


def test_killed_while_jobs_fire_no_slot_runs_twice_and_none_is_lost(tmp_path: Path) -> None:
    assert check(kill(tmp_path, 10)) >= 40  # one of each job at least


@pytest.mark.full
@pytest.mark.timeout(600)
def test_killed_five_hundred_times_no_slot_runs_twice_and_none_is_lost(tmp_path: Path) -> None:
    assert check(kill(tmp_path, 500)) >= 500


def test_kills_find_a_store_that_does_not_claim_in_one_step(tmp_path: Path) -> None:
    told = kill(tmp_path, 20, "hasty")
    assert len(told["ran"]) > len(set(told["ran"]))
