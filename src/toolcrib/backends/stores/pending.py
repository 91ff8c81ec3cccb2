"""Calls that are finished later, in SQLite: kept over restarts, shared by processes, each completed by one of them."""

from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any

import apsw
import orjson

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.later import PendingCall, PendingState
from toolcrib.define.message import Call
from toolcrib.threads import in_turn

from .sqlite import SqliteFile

# fields with a column of their own, in the order of the columns behind the key and the session; the others are in body
_FIELDS = ("handle", "person", "state", "until")
_SELECT = f"SELECT {', '.join(_FIELDS)}, body FROM pending_calls "  # noqa: S608  a constant
_FIND = _SELECT + "WHERE key = ?"
_MATCHING = _SELECT + (  # noqa: S608  both are constants
    "WHERE :handle IN ('', handle) AND :session IN ('', session) "
    "AND (:states = '[]' OR state IN (SELECT value FROM json_each(:states))) ORDER BY rowid DESC"
)
_EXPIRE = "UPDATE pending_calls SET state = 'expired' WHERE state = 'waiting' AND until <= ?"
_WAITING = "SELECT handle, key FROM pending_calls WHERE state = 'waiting' AND person = ?"
_KEEP = (
    "INSERT INTO pending_calls (key, session, handle, person, state, until, body) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET handle = excluded.handle, state = excluded.state, until = excluded.until, "
    "body = excluded.body"
)
_TIDY = (
    "DELETE FROM pending_calls WHERE rowid IN (SELECT rowid FROM pending_calls WHERE state != 'waiting' "
    "AND (state != 'completed' OR until <= ?) ORDER BY rowid DESC LIMIT -1 OFFSET 500)"
)


class SqlitePending:
    """A PendingStore in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def add(self, pending: PendingCall, /, *, most: int) -> None:
        def step(db: apsw.Connection) -> None:
            db.execute(_EXPIRE, (pending.made_at,))
            rows: list[Any] = db.execute(_WAITING, (pending.person,)).fetchall()
            waiting = dict[str, str](rows)
            if pending.handle in waiting:
                raise ToolError(f"a call waits under the handle {pending.handle!r} already", code="exists")
            if pending.key in waiting.values():
                raise ToolError("this call waits under another handle already; it has one", code="exists")
            if len(waiting) >= most:
                raise ToolError(f"{most} calls wait to be completed already; complete or stop some", code="busy")
            _write(db, pending)
            db.execute(_TIDY, (pending.made_at,))

        await in_turn(self._file.transact, step)

    async def find(self, key: str, /) -> PendingCall | None:
        return await in_turn(self._file.transact, lambda db: _find(db, key), writes=False)

    async def select(
        self, *, handle: str = "", session: str = "", states: Collection[PendingState] = ()
    ) -> tuple[PendingCall, ...]:
        values = {"handle": handle, "session": session, "states": orjson.dumps(list(states)).decode()}
        rows = await in_turn(self._file.transact, lambda db: db.execute(_MATCHING, values).fetchall(), writes=False)
        return tuple(map(_read, rows))

    async def settle(
        self, key: str, to: PendingState, /, *, of: Collection[PendingState], now: float = 0.0, **changes: Any
    ) -> bool:
        def step(db: apsw.Connection) -> bool:
            found = _find(db, key)
            if found is None or found.state not in of or found.until <= now:
                return False
            # its result is not needed here once it is kept in the session
            _write(db, replace(found, state=to, **{"result": None, **changes}))
            return True

        return await in_turn(self._file.transact, step)


def _find(db: apsw.Connection, key: str) -> PendingCall | None:
    return next(map(_read, db.execute(_FIND, (key,)).fetchall()), None)


def _write(db: apsw.Connection, pending: PendingCall) -> None:
    own = asdict(pending)
    columns = [own.pop(name) for name in _FIELDS]
    own["call"] = pending.call._asdict()
    db.execute(_KEEP, (pending.key, pending.session, *columns, orjson.dumps(own).decode()))


def _read(row: tuple[Any, ...]) -> PendingCall:
    *columns, body = row
    try:
        rest = orjson.loads(body)
        call, asker = Call(**rest.pop("call")), Caller.from_json(rest.pop("asker"))
        return PendingCall(**dict(zip(_FIELDS, columns, strict=True)), call=call, asker=asker, **rest)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ToolError("the state file is damaged: a pending call cannot be read", code="broken") from error
