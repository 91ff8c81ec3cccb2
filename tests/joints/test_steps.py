"""A step that a store runs twice, the first time taken back, says and leaves the same as one that ran once."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from toolcrib import OWNER, Crib
from toolcrib.app import Given, build
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import load
from toolcrib.define.approval import Question
from toolcrib.define.device import Device

pytestmark = pytest.mark.anyio

T = TypeVar("T")
JOB = {"name": "n", "schedule": {"everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "list the files"}}
CONFIG = {"quotas": [{"tool": "*", "per": "hour", "calls": 4}], "tools": {"ask": ["write"]}}


class TakenBack(SqliteFile):
    """A file that runs each writing step twice, and takes back what it wrote the first time."""

    def transact(self, step: Callable[[apsw.Connection], T], *, writes: bool = True) -> T:
        def run_twice(db: apsw.Connection) -> T:
            db.execute("SAVEPOINT first")
            try:
                step(db)
            finally:
                db.execute("ROLLBACK TO first")
            return step(db)

        return super().transact(run_twice if writes else step, writes=writes)


async def live(crib: Crib) -> list[Any]:
    """Do a bit of everything that is kept; return what was said of it."""

    async def ask(method: str, **params: Any) -> Any:
        return await crib.ask(method, params, caller=OWNER)

    asked = asyncio.Queue[Question]()
    crib.approvals.on_question(asked.put_nowait)
    turn = crib.turn("write hello to note.txt", caller=OWNER, session="agent:main:s")
    await ask("approvals.answer", id=(await asked.get()).id, answer="once")
    answers: list[Any] = [(await turn.end()).reason]
    job = (await ask("cron.add", job=JOB))["id"]
    for mode in ("due", "force"):
        ran = await ask("cron.run", id=job, mode=mode, wait=True)
        answers.append([ran.get(key) for key in ("ran", "reason", "status")])
    phone = await crib.devices.meet(Device(id="phone"), pairs=False)
    listed = await ask("device.pair.list")
    answers.append([phone.request is not None and each["requestId"] == phone.request.id for each in listed["pending"]])
    tablet = await crib.devices.meet(Device(id="tablet"), pairs=True)
    await ask("device.token.revoke", deviceId="tablet", role="operator")
    answers.append([bool(tablet.token), (await ask("device.pair.list"))["paired"]])
    belt = crib.belt(OWNER)
    return answers + [(await belt.call("ls", {})).details.get("code") for _ in range(4)]


def count_rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


async def test_a_step_may_be_taken_back_and_run_again(tmp_path: Path) -> None:
    seen: list[Any] = []
    for open_file in (SqliteFile, TakenBack):
        work, state = tmp_path / open_file.__name__ / "work", tmp_path / open_file.__name__ / "state"
        work.mkdir(parents=True)
        loaded = load({**CONFIG, "workspace": {"root": str(work)}}, {})
        async with build(loaded, Given(env={}, folder=state, open_file=open_file)) as crib:
            answers = await live(crib)
        report = await audit_in(state / STATE_FILE, loaded).verify(replay=True)
        seen.append((answers, count_rows(state / STATE_FILE), report.findings, (work / "note.txt").read_text()))
    once, twice = seen
    assert twice == once
    assert once[0][:3] == ["done", [False, "not-due", None], [True, None, "ok"]]
    assert (once[0][3:], once[2], once[3]) == ([[True], [True, []], None, None, "quota", "quota"], (), "hello\n")
