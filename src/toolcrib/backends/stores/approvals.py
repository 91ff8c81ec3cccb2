"""What people said yes or no to, in SQLite: kept over restarts, shared by processes, each answer spent by one of them.

Questions and grants are about calls; pins are what was accepted of other people's MCP servers.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import apsw
import orjson

from toolcrib.define.approval import PENDING, SKEW, Grant, Lasting, Question, State, too_many
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Pin
from toolcrib.threads import Runner, in_turn

from .sqlite import SqliteFile

# fields with a column of their own, in the order of the columns; the others are in the body
_QUESTION_FIELDS = ("id", "digest", "state", "person", "asked_at", "expires_at", "by")
_GRANT_FIELDS = ("id", "digest", "made_at", "until")

_QUESTIONS = "SELECT id, digest, state, person, asked_at, expires_at, answered_by, body FROM questions "
_FIND = _QUESTIONS + "WHERE id = :id"
_SAME = _QUESTIONS + (
    "WHERE digest = :digest AND state IN ('pending', 'allowed') AND asked_at <= :now + :skew AND expires_at > :now "
    "ORDER BY asked_at DESC, rowid DESC LIMIT 1"
)
_PENDING = _QUESTIONS + (  # noqa: S608  both are constants
    "WHERE state IN (SELECT value FROM json_each(:states)) AND asked_at <= :now + :skew AND expires_at > :now "
    "ORDER BY asked_at, rowid"
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
_PINS = "SELECT server, tool, digest, body, pinned_at FROM mcp_pins "
_PINS_OF_SERVER = _PINS + "WHERE server = :server ORDER BY tool"
_ALL_PINS = _PINS + "ORDER BY server, tool"


class SqliteApprovals:
    """An ApprovalStore in a file. `run` calls a plain function where it holds up nobody."""

    def __init__(self, file: SqliteFile, run: Runner = in_turn) -> None:
        self._file, self._run = file, run

    async def add(self, question: Question, /, *, most: int) -> None:
        await self._run(self._file.transact, partial(_add, question=question, most=most))

    async def find(self, id: str, /) -> Question | None:
        return next(map(_question, await self._rows(_FIND, id=id)), None)

    async def same(self, digest: str, /, now: float) -> Question | None:
        return next(map(_question, await self._rows(_SAME, digest=digest, now=now)), None)

    async def pending(self, now: float, /, states: Collection[State] = PENDING) -> tuple[Question, ...]:
        return tuple(map(_question, await self._rows(_PENDING, now=now, states=json.dumps(list(states)))))

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
        return await self._run(self._file.transact, partial(_settle, values=values, grant=grant))

    async def find_grant(self, digests: Sequence[str], /, now: float) -> Grant | None:
        return next(map(_grant, await self._rows(_GRANTED, digests=json.dumps(list(digests)), now=now)), None)

    async def grants(self, now: float, /) -> tuple[Grant, ...]:
        return tuple(map(_grant, await self._rows(_ALL_GRANTS, now=now)))

    async def revoke(self, id: str, /) -> bool:
        def step(db: apsw.Connection) -> bool:
            db.execute("DELETE FROM grants WHERE id = ?", (id,))
            return db.changes() == 1

        return await self._run(self._file.transact, step)

    async def _rows(self, sql: str, **values: Any) -> list[Any]:
        return await self._run(self._file.transact, partial(_rows, sql=sql, values=values), writes=False)


def _rows(db: apsw.Connection, sql: str, values: Mapping[str, Any]) -> list[Any]:
    return db.execute(sql, {**values, "skew": SKEW}).fetchall()


def _add(db: apsw.Connection, question: Question, most: int) -> None:
    now = question.asked_at
    if _rows(db, _COUNT, {"person": question.person, "now": now})[0][0] >= most:
        raise too_many(most)
    own = asdict(question)
    kept = [own.pop(name) for name in _QUESTION_FIELDS]
    db.execute("INSERT INTO questions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*kept, json.dumps(own)))
    db.execute(_TIDY, {"now": now})


def _settle(db: apsw.Connection, values: Mapping[str, Any], grant: Grant | None) -> bool:
    db.execute(_SETTLE, {**values, "skew": SKEW})
    if db.changes() != 1:
        return False
    if grant is not None:
        own = asdict(grant)
        kept = [own.pop(name) for name in _GRANT_FIELDS]
        db.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?)", (*kept, json.dumps(own)))
    return True


def _question(row: tuple[Any, ...]) -> Question:
    *columns, body = row
    rest = json.loads(body)
    lasting, asker = tuple(Lasting(**each) for each in rest.pop("lasting")), rest.pop("asker", None)
    known = dict(zip(_QUESTION_FIELDS, columns, strict=True))
    return Question(**known, lasting=lasting, asker=Caller.from_json(asker) if asker else None, **rest)


def _grant(row: tuple[Any, ...]) -> Grant:
    *columns, body = row
    return Grant(**dict(zip(_GRANT_FIELDS, columns, strict=True)), **json.loads(body))


class SqlitePins:
    """A PinStore in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def pins(self, server: str, /) -> tuple[Pin, ...]:
        step = partial(_rows, sql=_PINS_OF_SERVER, values={"server": server})
        return tuple(map(_pin, await in_turn(self._file.transact, step, writes=False)))

    async def pin(self, pins: Sequence[Pin], /, *, first: bool = False) -> None:
        def step(db: apsw.Connection) -> None:
            seen = {row[0] for row in db.execute("SELECT DISTINCT server FROM mcp_pins")} if first else set[str]()
            rows = [_pin_row(pin) for pin in pins if pin.server not in seen]
            db.executemany("INSERT OR REPLACE INTO mcp_pins VALUES (?, ?, ?, ?, ?)", rows)

        await in_turn(self._file.transact, step)

    def list_all(self) -> tuple[Pin, ...]:
        return tuple(map(_pin, self._file.transact(partial(_rows, sql=_ALL_PINS, values={}), writes=False)))


def _pin_row(pin: Pin) -> tuple[str, str, str, str, float]:
    return pin.server, pin.tool, pin.digest, orjson.dumps(pin.definition).decode(), pin.pinned_at


def _pin(row: tuple[Any, ...]) -> Pin:
    server, tool, digest, body, pinned_at = row
    try:
        definition = orjson.loads(body)
    except (orjson.JSONDecodeError, TypeError):
        definition = None
    if not isinstance(definition, dict):
        raise ToolError(f"the state file is damaged: the pin of {tool!r} of {server!r} holds no definition")
    return Pin(server, tool, digest, definition, pinned_at)
