"""The record in SQLite: rows in one chain, whoever writes them, and a head that says how many there are."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import apsw

from toolcrib.define.chain import Head, Row, hash_after, text_of
from toolcrib.define.errors import ToolError
from toolcrib.define.grounds import Grounds
from toolcrib.define.record import Decided, Entry
from toolcrib.define.threads import in_thread

from .commits import Commits
from .record_file import RecordFile
from .record_json import LONGEST, Redact, body_of, opened
from .sqlite import SqliteFile

__all__ = ["SqliteRecord", "SqliteRows"]

T = TypeVar("T")

_COLUMNS = "SELECT seq, at, CAST(kind AS BLOB), CAST(body AS BLOB), CAST(hash AS BLOB) FROM record "
_AFTER = _COLUMNS + "WHERE seq > ? ORDER BY seq LIMIT ?"
_BEFORE = _COLUMNS + "WHERE seq < ? ORDER BY seq DESC LIMIT ?"
_HEAD = "SELECT count, CAST(hash AS BLOB), (SELECT max(seq) FROM record) FROM record_head"

_PAGE = 1000


class SqliteRecord:
    """A Record in a file. Its place in the chain is found within the transaction, so several processes may write.

    What decisions are made from is written once, before the first of them. `redact` takes secrets out of a text; of
    arguments `longest` characters are kept. With a `file`, an entry is written when that has it, too.
    """

    def __init__(
        self,
        commits: Commits,
        *,
        redact: Redact | None = None,
        longest: int = LONGEST,
        file: RecordFile | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._commits, self._redact, self._longest, self._now = commits, redact, longest, now
        self._file = file
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def write(self, entry: Entry, /) -> Awaitable[Any]:
        """Take the entry at once; it is on the disk when what is returned was awaited."""
        kind, body = body_of(entry, self._redact, self._longest)
        grounds = entry.grounds if isinstance(entry, Decided) else None
        step = partial(_append, kind, body, self._now(), grounds, self._redact)
        written = self._commits.submit(step, size=len(body))
        return written if self._file is None else asyncio.ensure_future(self._copied(written, self._file))

    async def _copied(self, written: "asyncio.Future[int]", file: RecordFile) -> None:
        """Wait until the file has a row that was written; whoever comes first copies for all who wait."""
        seq = await written
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            while file.last < seq:
                rows = await self._commits.read(partial(_rows, _AFTER, file.last, _PAGE))
                await in_thread(file.append, rows)


class SqliteRows:
    """A record in a file, read back; to look at it makes no file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def head(self) -> Head | None:
        return await self._seen(_head)

    async def after(self, seq: int, most: int, /) -> list[Row]:
        return await self._seen(partial(_rows, _AFTER, seq, most))

    async def before(self, seq: int, most: int, /) -> list[Row]:
        return await self._seen(partial(_rows, _BEFORE, seq, most))

    async def _seen(self, step: Callable[[apsw.Connection], T]) -> T:
        return await in_thread(self._file.transact, step, writes=False)


def _append(
    kind: str, body: str, at: float, grounds: Grounds | None, redact: Redact | None, db: apsw.Connection
) -> int:
    """Add a row behind the last one, and what its decision was made from when that is not there yet."""
    rows = [(kind, body)]
    if grounds is not None:
        db.execute("INSERT OR IGNORE INTO record_grounds VALUES (?)", (grounds.digest,))
        if db.changes():
            rows.insert(0, ("opened", opened(grounds, redact)))
    return _chained(db, at, rows)


def _chained(db: apsw.Connection, at: float, rows: Iterable[tuple[str, str]]) -> int:
    head = db.execute("SELECT count, hash FROM record_head").fetchone()
    if head is None:
        raise ToolError("the head of the record is gone; `toolcrib audit verify` says what is left", code="unavailable")
    seq, hash = head
    for kind, body in rows:
        seq += 1
        hash = hash_after(hash, text_of(seq, at, kind.encode(), body.encode()))
        db.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?)", (seq, at, kind, body, hash))
    db.execute("UPDATE record_head SET count = ?, hash = ?", (seq, hash))
    return int(seq)


def _head(db: apsw.Connection) -> Head | None:
    found = db.execute(_HEAD).fetchone()
    return None if found is None else Head(found[0], found[1].decode("latin-1"), found[2] or 0)


def _rows(sql: str, seq: int, most: int, db: apsw.Connection) -> list[Row]:
    found = db.execute(sql, (seq, most))
    return [Row(seq, text_of(seq, at, kind, body), hash.decode("latin-1")) for seq, at, kind, body, hash in found]
