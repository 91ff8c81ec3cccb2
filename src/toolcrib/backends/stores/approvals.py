"""Questions and their answers in SQLite: kept over restarts, shared by processes, each answer used by one of them.

Questions and grants are about calls; pins are what was accepted of other people's MCP servers; counts are what was
taken of quotas.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, astuple, replace
from functools import partial
from typing import Any

import apsw
import orjson

from toolcrib.define.approval import PENDING, SKEW, Grant, Lasting, Question, State, Yes, is_in_time, too_many
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Pin
from toolcrib.define.quota import QuotaUse, QuotaWindow, Reservation, has_room
from toolcrib.define.verdict import Consent
from toolcrib.threads import Runner, in_turn

from .sqlite import SqliteFile

# fields with a column of their own, in the order of the columns; the others are in the body
_QUESTION_FIELDS = ("id", "digest", "state", "person", "asked_at", "expires_at", "by")
_GRANT_FIELDS = ("id", "digest", "made_at", "until", "calls_left")

_QUESTIONS = "SELECT id, digest, state, person, asked_at, expires_at, answered_by, body FROM questions "
_FIND = _QUESTIONS + "WHERE id = :id"
_SAME = _QUESTIONS + (
    "WHERE digest = :digest AND asked_at <= :now + :skew AND expires_at > :now AND (state IN ('pending', 'allowed') "
    "OR (state = 'denied' AND :key <> '' AND json_extract(body, '$.key') = :key)) "
    "ORDER BY state = 'denied' DESC, asked_at DESC, rowid DESC LIMIT 1"
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
    DELETE FROM grants WHERE until <= :now OR calls_left <= 0
"""
_GRANTS = (
    "SELECT id, digest, made_at, until, calls_left, body FROM grants "
    "WHERE made_at <= :now + :skew AND until > :now AND (calls_left IS NULL OR calls_left > 0) "
)
_GRANTED = _GRANTS + (  # noqa: S608  both are constants
    "AND digest IN (SELECT value FROM json_each(:digests)) ORDER BY calls_left NULLS FIRST LIMIT 1"
)
_ADD_GRANT = "INSERT INTO grants (id, digest, made_at, until, calls_left, body) VALUES (?, ?, ?, ?, ?, ?)"
_ALL_GRANTS = _GRANTS + "ORDER BY made_at, rowid"
_PINS = "SELECT server, tool, digest, body, pinned_at FROM mcp_pins "
_PINS_OF_SERVER = _PINS + "WHERE server = :server ORDER BY tool"
_ALL_PINS = _PINS + "ORDER BY server, tool"


class SqliteApprovals:
    """An ApprovalStore in a file. `run` calls a plain function where it does not block the loop."""

    def __init__(self, file: SqliteFile, run: Runner = in_turn) -> None:
        self._file, self._run = file, run

    async def add(self, question: Question, /, *, most: int) -> None:
        await self._run(self._file.transact, partial(_add, question=question, limit=most))

    async def find(self, id: str, /) -> Question | None:
        return next(map(_question, await self._rows(_FIND, id=id)), None)

    async def same(self, digest: str, /, now: float, key: str = "") -> Question | None:
        return next(map(_question, await self._rows(_SAME, digest=digest, now=now, key=key)), None)

    async def pending(self, now: float, /, states: Collection[State] = PENDING) -> tuple[Question, ...]:
        return tuple(map(_question, await self._rows(_PENDING, now=now, states=json.dumps(list(states)))))

    async def settle(
        self, id: str, to: State, /, *, of: Collection[State], now: float | None = None, by: str = ""
    ) -> bool:
        values = {"id": id, "to": to, "of": json.dumps(list(of)), "now": now, "by": by}
        return await self._run(self._file.transact, partial(_settle, values=values))

    async def say_yes(self, id: str, yes: Yes, /, *, now: float, grant: Grant | None = None) -> Question | None:
        return await self._run(self._file.transact, partial(_say_yes, id=id, yes=yes, now=now, grant=grant))

    async def use_grant(self, digests: Sequence[str], /, now: float) -> Grant | None:
        values = {"digests": json.dumps(list(digests)), "now": now}
        found = next(map(_grant, await self._rows(_GRANTED, **values)), None)
        if found is None or found.calls_left is None:
            return found
        return await self._run(self._file.transact, partial(_use_grant, values=values))

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


def _add(db: apsw.Connection, question: Question, limit: int) -> None:
    now = question.asked_at
    if _rows(db, _COUNT, {"person": question.person, "now": now})[0][0] >= limit:
        raise too_many(limit)
    _write_question(db, question)
    db.execute(_TIDY, {"now": now})


def _write_question(db: apsw.Connection, question: Question) -> None:
    own = asdict(question)
    kept = [own.pop(name) for name in _QUESTION_FIELDS]
    db.execute("INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*kept, json.dumps(own)))


def _say_yes(db: apsw.Connection, id: str, yes: Yes, now: float, grant: Grant | None) -> Question | None:
    question = next(map(_question, _rows(db, _FIND, {"id": id})), None)
    if question is None or question.state != "pending" or not is_in_time(question.asked_at, question.expires_at, now):
        return None
    _write_question(db, added := question.add(yes))
    if grant is not None:
        _add_grant(db, grant)
    return added


def _add_grant(db: apsw.Connection, grant: Grant) -> None:
    own = asdict(grant)
    kept = [own.pop(name) for name in _GRANT_FIELDS]
    db.execute(_ADD_GRANT, (*kept, json.dumps(own)))


def _settle(db: apsw.Connection, values: Mapping[str, Any]) -> bool:
    db.execute(_SETTLE, {**values, "skew": SKEW})
    return db.changes() == 1


def _use_grant(db: apsw.Connection, values: Mapping[str, Any]) -> Grant | None:
    """Return a grant with one call less, None when others have used up what was found."""
    grant = next(map(_grant, _rows(db, _GRANTED, values)), None)
    if grant is None or grant.calls_left is None:
        return grant
    db.execute("UPDATE grants SET calls_left = calls_left - 1 WHERE id = ?", (grant.id,))
    return replace(grant, calls_left=grant.calls_left - 1)


def _question(row: tuple[Any, ...]) -> Question:
    *columns, body = row
    rest = json.loads(body)
    lasting, asker = tuple(Lasting(**each) for each in rest.pop("lasting")), rest.pop("asker", None)
    known = dict(zip(_QUESTION_FIELDS, columns, strict=True))
    if "says" in rest:  # one of before was the owner's
        says = (Consent(**{**each, "by": tuple(each["by"])}) for each in rest.pop("says"))
        kept = ((*each, None)[:5] for each in rest.pop("yeses"))  # older rows do not have who answered
        yeses = (Yes(by, who, is_owner, tuple(rules), _caller(caller)) for by, who, is_owner, rules, caller in kept)
        known |= {"says": tuple(says), "yeses": tuple(yeses)}
    return Question(**known, lasting=lasting, asker=_caller(asker), **rest)


def _caller(kept: Mapping[str, Any] | None) -> Caller | None:
    return Caller.from_json(kept) if kept else None


def _grant(row: tuple[Any, ...]) -> Grant:
    *columns, body = row
    rest = json.loads(body)
    asker = rest.pop("asker", None)
    known = dict(zip(_GRANT_FIELDS, columns, strict=True))
    return Grant(**known, asker=_caller(asker), **rest)


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


_FIND_COUNT = "SELECT calls, tokens, cost FROM quota_counts WHERE bucket = ? AND since = ?"
_ADD_COUNT = (
    "INSERT INTO quota_counts VALUES (?, ?, ?, ?, ?) ON CONFLICT (bucket, since) DO UPDATE "
    "SET calls = calls + excluded.calls, tokens = tokens + excluded.tokens, cost = cost + excluded.cost"
)
_FIND_RESERVED = (
    "SELECT 0, coalesce(sum(tokens), 0), coalesce(sum(cost), 0.0) "
    "FROM quota_reservations WHERE bucket = ? AND since = ?"
)
_TIDY_COUNTS = "DELETE FROM quota_counts WHERE since < ?"
_COUNTS_KEPT = 7 * 86_400  # seconds; a clock that was wrong for a while finds its counts again


class SqliteQuotas:
    """A QuotaStore in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def take(
        self, windows: Sequence[QuotaWindow], taken: QuotaUse, /, *, checked: bool, ends: str = ""
    ) -> tuple[QuotaUse, ...]:
        def step(db: apsw.Connection) -> tuple[QuotaUse, ...]:
            if ends:
                db.execute("DELETE FROM quota_reservations WHERE id = ?", (ends,))
            before = _find_counts(db, windows)
            if checked and any(each.find_full(held) for each, held in zip(windows, before, strict=True)):
                return before
            # two quotas may differ in nothing but their limits: what they count is one
            for bucket, since in dict.fromkeys((each.bucket, each.since) for each in windows):
                db.execute(_ADD_COUNT, (bucket, since, *astuple(taken)))
            db.execute(_TIDY_COUNTS, (min(each.since for each in windows) - _COUNTS_KEPT,))
            return before

        return await in_turn(self._file.transact, step)

    async def reserve(
        self, windows: Sequence[QuotaWindow], wanted: Reservation, process: str, is_there: Callable[[str], bool], /
    ) -> tuple[tuple[QuotaUse, QuotaUse], ...]:
        def step(db: apsw.Connection) -> tuple[tuple[QuotaUse, QuotaUse], ...]:
            for (other,) in db.execute("SELECT DISTINCT process FROM quota_reservations").fetchall():
                if not is_there(str(other)):
                    db.execute("DELETE FROM quota_reservations WHERE process = ?", (other,))
            kept = _find_counts(db, windows, _FIND_RESERVED)
            found = tuple(zip(_find_counts(db, windows), kept, strict=True))
            if has_room(windows, found):
                for bucket, since in dict.fromkeys((each.bucket, each.since) for each in windows):
                    row = (wanted.id, bucket, since, process, wanted.most.tokens, wanted.most.cost)
                    db.execute("INSERT OR REPLACE INTO quota_reservations VALUES (?, ?, ?, ?, ?, ?)", row)
            return found

        return await in_turn(self._file.transact, step)

    async def look(self, windows: Sequence[QuotaWindow], /) -> tuple[QuotaUse, ...]:
        return await in_turn(self._file.transact, lambda db: _find_counts(db, windows), writes=False)


def _find_counts(db: apsw.Connection, windows: Sequence[QuotaWindow], query: str = _FIND_COUNT) -> tuple[QuotaUse, ...]:
    found = (db.execute(query, (each.bucket, each.since)).fetchone() for each in windows)
    return tuple(QuotaUse(*row) if row else QuotaUse() for row in found)
