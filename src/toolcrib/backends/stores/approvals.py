"""Questions and grants in SQLite: kept over restarts, shared by processes, each answer spent by one of them."""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import apsw

from toolcrib.define.approval import SKEW, Grant, Lasting, Question, State, too_many
from toolcrib.threads import in_thread

from .sqlite import SqliteFile

_QUESTIONS = "SELECT id, digest, state, person, asked_at, expires_at, answered_by, body FROM questions "
_FIND = _QUESTIONS + "WHERE id = :id"
_SAME = _QUESTIONS + (
    "WHERE digest = :digest AND state IN ('pending', 'allowed') AND asked_at <= :now + :skew AND expires_at > :now "
    "ORDER BY asked_at DESC, rowid DESC LIMIT 1"
)
_PENDING = _QUESTIONS + (
    "WHERE state = 'pending' AND asked_at <= :now + :skew AND expires_at > :now ORDER BY asked_at, rowid"
)
_COUNT = (
    "SELECT count(*) FROM questions "
    "WHERE state = 'pending' AND person = :person AND asked_at <= :now + :skew AND expires_at > :now"
)
_SETTLE = (
    "UPDATE questions SET state = :to, answered_by = CASE :by WHEN '' THEN answered_by ELSE :by END "
    "WHERE id = :id AND state IN (SELECT value FROM json_each(:of)) "
    "AND (:now IS NULL OR (asked_at <= :now + :skew AND expires_at > :now))"
)
_TIDY = """
    DELETE FROM questions WHERE id IN (
        SELECT id FROM questions WHERE state NOT IN ('pending', 'allowed') OR expires_at <= :now
        ORDER BY asked_at DESC LIMIT -1 OFFSET 500
    );
    DELETE FROM grants WHERE until <= :now
"""
_GRANTS = "SELECT id, digest, made_at, until, body FROM grants WHERE made_at <= :now + :skew AND until > :now "
_GRANTED = _GRANTS + "AND digest IN (SELECT value FROM json_each(:digests)) LIMIT 1"  # noqa: S608  both are constants
_ALL_GRANTS = _GRANTS + "ORDER BY made_at, rowid"


class SqliteApprovals:
    """An ApprovalStore in a file. `run` calls a plain function where it holds up nobody."""

    def __init__(self, file: SqliteFile, run: Callable[..., Awaitable[Any]] = in_thread) -> None:
        self._file, self._run = file, run

    async def add(self, question: Question, /, *, most: int) -> None:
        await self._run(self._file.transact, partial(_add, question=question, most=most))

    async def find(self, id: str, /) -> Question | None:
        return next(iter(await self._questions(_FIND, id=id)), None)

    async def same(self, digest: str, /, now: float) -> Question | None:
        return next(iter(await self._questions(_SAME, digest=digest, now=now)), None)

    async def pending(self, now: float, /) -> tuple[Question, ...]:
        return await self._questions(_PENDING, now=now)

    async def settle(
        self,
        id: str,
        to: State,
        /,
        *,
        of: Collection[State],
        now: float | None = None,
        by: str = "",
        grant: Grant | None = None,
    ) -> bool:
        values = {"id": id, "to": to, "of": json.dumps(list(of)), "now": now, "by": by}
        moved: bool = await self._run(self._file.transact, partial(_settle, values=values, grant=grant))
        return moved

    async def find_grant(self, digests: Sequence[str], /, now: float) -> Grant | None:
        return next(iter(await self._grants(_GRANTED, digests=json.dumps(list(digests)), now=now)), None)

    async def grants(self, now: float, /) -> tuple[Grant, ...]:
        return await self._grants(_ALL_GRANTS, now=now)

    async def revoke(self, id: str, /) -> bool:
        def step(db: apsw.Connection) -> bool:
            db.execute("DELETE FROM grants WHERE id = ?", (id,))
            return db.changes() == 1

        gone: bool = await self._run(self._file.transact, step)
        return gone

    async def _questions(self, sql: str, **values: Any) -> tuple[Question, ...]:
        return tuple(
            map(_question, await self._run(self._file.transact, partial(_rows, sql=sql, values=values), writes=False))
        )

    async def _grants(self, sql: str, **values: Any) -> tuple[Grant, ...]:
        return tuple(
            map(_grant, await self._run(self._file.transact, partial(_rows, sql=sql, values=values), writes=False))
        )


def _rows(db: apsw.Connection, sql: str, values: Mapping[str, Any]) -> list[Any]:
    return db.execute(sql, {**values, "skew": SKEW}).fetchall()


def _add(db: apsw.Connection, question: Question, most: int) -> None:
    now = question.asked_at
    if _rows(db, _COUNT, {"person": question.person, "now": now})[0][0] >= most:
        raise too_many(most)
    own = asdict(question)
    kept = [own.pop(name) for name in ("id", "digest", "state", "person", "asked_at", "expires_at", "by")]
    db.execute("INSERT INTO questions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*kept, json.dumps(own)))
    db.execute(_TIDY, {"now": now})


def _settle(db: apsw.Connection, values: Mapping[str, Any], grant: Grant | None) -> bool:
    db.execute(_SETTLE, {**values, "skew": SKEW})
    if db.changes() != 1:
        return False
    if grant is not None:
        own = asdict(grant)
        kept = [own.pop(name) for name in ("id", "digest", "made_at", "until")]
        db.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?)", (*kept, json.dumps(own)))
    return True


def _question(row: tuple[Any, ...]) -> Question:
    id, digest, state, person, asked_at, expires_at, by, body = row
    rest = json.loads(body)
    lasting = tuple(Lasting(**each) for each in rest.pop("lasting"))
    return Question(
        id=id, digest=digest, state=state, person=person, asked_at=asked_at, expires_at=expires_at, by=by,
        lasting=lasting, **rest,
    )  # fmt: skip


def _grant(row: tuple[Any, ...]) -> Grant:
    id, digest, made_at, until, body = row
    return Grant(id=id, digest=digest, made_at=made_at, until=until, **json.loads(body))
