"""Jobs and their runs, in SQLite: kept over restarts, a slot claimed once by all processes; and in memory."""

from dataclasses import asdict
from typing import Any

import apsw
import orjson

from toolcrib.define.errors import ToolError
from toolcrib.define.job import Job, JobRun, JobStep, job_from_json, job_to_json
from toolcrib.threads import in_turn

from .sqlite import SqliteFile

_RUNS = "SELECT body FROM job_runs WHERE :job IN ('', job) ORDER BY began_ms DESC, rowid DESC LIMIT :most"
_OLD_RUNS = "SELECT rowid, body FROM job_runs WHERE job = ? ORDER BY began_ms DESC, rowid DESC LIMIT -1 OFFSET ?"


class SqliteJobs:
    """A JobStore in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def change(self, id: str, step: JobStep, /) -> tuple[Job | None, JobRun | None]:
        def run(db: apsw.Connection) -> tuple[Job | None, JobRun | None]:
            before = next((_job(*row) for row in _rows(db, "SELECT id, body FROM jobs WHERE id = ?", id)), None)
            job, record = step(before)
            if job is None:
                db.execute("DELETE FROM jobs WHERE id = ?", (id,))
                db.execute("DELETE FROM job_runs WHERE job = ?", (id,))
                return None, record
            if job != before:
                body = orjson.dumps(job_to_json(job)).decode()
                db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", (id, job.state.next_ms, body))
            if record is not None:
                row = (record.id, id, record.began_ms, orjson.dumps(asdict(record)).decode())
                db.execute("INSERT OR REPLACE INTO job_runs VALUES (?, ?, ?, ?)", row)
            return job, record

        return await in_turn(self._file.transact, run)

    async def list_all(self) -> tuple[Job, ...]:
        return tuple(_job(*row) for row in await self._ask("SELECT id, body FROM jobs ORDER BY rowid"))

    async def list_due(self, now_ms: int, /) -> tuple[str, ...]:
        rows = await self._ask("SELECT id FROM jobs WHERE next_ms <= ? ORDER BY next_ms, id", now_ms)
        return tuple(id for (id,) in rows)

    async def find_soonest(self) -> int | None:
        found: int | None = (await self._ask("SELECT min(next_ms) FROM jobs"))[0][0]
        return found

    async def runs(self, job: str, /, most: int) -> tuple[JobRun, ...]:
        return tuple(_run(body) for (body,) in await self._ask(_RUNS, job=job, most=most))

    async def forget_runs(self, job: str, /, keep: int) -> tuple[JobRun, ...]:
        if not await self._ask(_OLD_RUNS, job, keep):  # most of the time: to look costs no commit
            return ()

        def run(db: apsw.Connection) -> tuple[JobRun, ...]:
            gone = _rows(db, _OLD_RUNS, job, keep)
            db.executemany("DELETE FROM job_runs WHERE rowid = ?", [(number,) for number, _ in gone])
            return tuple(_run(body) for _, body in gone)

        return await in_turn(self._file.transact, run)

    async def _ask(self, sql: str, *values: Any, **named: Any) -> list[Any]:
        return await in_turn(self._file.transact, lambda db: _rows(db, sql, *values, **named), writes=False)


def _rows(db: apsw.Connection, sql: str, *values: Any, **named: Any) -> list[Any]:
    return db.execute(sql, named or values).fetchall()


def _job(id: str, body: str) -> Job:
    try:
        return job_from_json(id, orjson.loads(body))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, ToolError) as error:
        raise ToolError(f"the state file is damaged: the job {id[:64]!r} cannot be read", code="broken") from error


def _run(body: str) -> JobRun:
    try:
        return JobRun(**orjson.loads(body))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise ToolError("the state file is damaged: a run of a job cannot be read", code="broken") from error


class MemoryJobs:
    """A JobStore for programs that keep nothing, and for tests. Nothing in it waits, so every step is whole."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._runs: dict[str, dict[str, JobRun]] = {}

    async def change(self, id: str, step: JobStep, /) -> tuple[Job | None, JobRun | None]:
        job, run = step(self._jobs.get(id))
        if job is None:
            self._jobs.pop(id, None)
            self._runs.pop(id, None)
        else:
            self._jobs[id] = job
            if run is not None:
                self._runs.setdefault(id, {})[run.id] = run
        return job, run

    async def list_all(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    async def list_due(self, now_ms: int, /) -> tuple[str, ...]:
        due = [(job.state.next_ms, job.id) for job in self._jobs.values() if job.state.next_ms is not None]
        return tuple(id for at, id in sorted(due) if at <= now_ms)

    async def find_soonest(self) -> int | None:
        times = (job.state.next_ms for job in self._jobs.values())
        return min((each for each in times if each is not None), default=None)

    async def runs(self, job: str, /, most: int) -> tuple[JobRun, ...]:
        every = [run for id, runs in self._runs.items() if job in ("", id) for run in runs.values()]
        return tuple(sorted(every, key=lambda run: run.began_ms, reverse=True)[:most])

    async def forget_runs(self, job: str, /, keep: int) -> tuple[JobRun, ...]:
        runs = self._runs.get(job, {})
        gone = list(runs)[: max(len(runs) - keep, 0)]
        return tuple(runs.pop(id) for id in gone)
