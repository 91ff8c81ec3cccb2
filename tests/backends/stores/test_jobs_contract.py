"""What every store of jobs keeps to, in memory and in a file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcrib.backends.stores.jobs import MemoryJobs, SqliteJobs
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ToolError
from toolcrib.define.job import Job, JobRun, JobState, JobStore, read_job

pytestmark = pytest.mark.anyio

SPEC = read_job(
    {
        "name": "water", "enabled": True, "sessionTarget": "isolated", "wakeMode": "now", "tools": {"allow": ["read"]},
        "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "Europe/Kyiv"},
        "payload": {"kind": "agentTurn", "message": "water the plants", "timeoutSeconds": 60},
    }
)  # fmt: skip
BOB = Caller(channel="telegram", sender=Sender(id="7"), parents=("agent:main:main",), parent_models=("a:b",))
JOB = Job(
    id="j1", spec=SPEC, author=BOB, had=("ls", "read"), home="h", source="web:x", created_ms=1, updated_ms=2,
    anchor_ms=3, state=JobState(spent=((1, 5), (9, 9)), next_ms=10, lease_run="r", last_status="ok"),
)  # fmt: skip


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> JobStore:
    made: dict[str, Callable[[], JobStore]] = {
        "memory": MemoryJobs,
        "sqlite": lambda: SqliteJobs(SqliteFile(tmp_path / "state" / "crib.db")),
    }
    return made[request.param]()


def run_of(number: int, job: str = "j1") -> JobRun:
    return JobRun(id=f"r{number}", job=job, slot_ms=number, began_ms=number, session=f"s{number}")


async def test_an_empty_store_holds_nothing(store: JobStore) -> None:
    assert (await store.list_all(), await store.list_due(99), await store.find_soonest()) == ((), (), None)
    assert (await store.runs("", most=9), await store.forget_runs("j1", keep=0)) == ((), ())


async def test_a_job_comes_back_as_it_was_kept(store: JobStore) -> None:
    await store.change("j1", lambda _: (JOB, None))
    assert await store.list_all() == (JOB,)
    seen: list[Job | None] = []
    await store.change("j1", lambda job: (seen.append(job), (job, None))[1])  # type: ignore[func-returns-value]
    assert seen == [JOB]


async def test_those_that_wait_the_longest_are_due_first_and_those_that_never_come_are_not(store: JobStore) -> None:
    for id, at in (("late", 20), ("soon", 5), ("never", None)):
        job = replace(JOB, id=id, state=replace(JOB.state, next_ms=at))
        await store.change(id, lambda _, job=job: (job, None))  # type: ignore[misc]  # bound at once
    assert (await store.list_due(4), await store.list_due(20)) == ((), ("soon", "late"))
    assert await store.find_soonest() == 5


async def test_a_step_that_fails_changes_nothing(store: JobStore) -> None:
    await store.change("j1", lambda _: (JOB, None))

    def fail(job: Job | None) -> tuple[Job | None, JobRun | None]:
        raise ToolError("no")

    with pytest.raises(ToolError, match="no"):
        await store.change("j1", fail)
    assert await store.list_all() == (JOB,)


async def test_the_latest_runs_are_kept_and_go_with_their_job(store: JobStore) -> None:
    for number in range(5):
        await store.change("j1", lambda _, number=number: (JOB, run_of(number)))  # type: ignore[misc]
    await store.change("j2", lambda _: (replace(JOB, id="j2"), run_of(9, "j2")))
    assert [run.id for run in await store.runs("j1", most=2)] == ["r4", "r3"]
    assert [run.id for run in await store.runs("", most=9)] == ["r9", "r4", "r3", "r2", "r1", "r0"]
    assert {run.id for run in await store.forget_runs("j1", keep=3)} == {"r0", "r1"}
    ended = replace(run_of(4), status="ok", ended_ms=7, summary="done")
    await store.change("j1", lambda job: (job, ended))
    assert (await store.runs("j1", most=1)) == (ended,)
    await store.change("j1", lambda _: (None, None))
    assert [run.id for run in await store.runs("", most=9)] == ["r9"]


async def test_a_job_whose_row_is_damaged_is_told_and_not_forgotten(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "crib.db")
    store = SqliteJobs(file)
    await store.change("j1", lambda _: (JOB, None))
    file.transact(lambda db: db.execute("UPDATE jobs SET body = '{}'").fetchall())
    with pytest.raises(ToolError, match="the job 'j1' cannot be read"):
        await store.list_all()
