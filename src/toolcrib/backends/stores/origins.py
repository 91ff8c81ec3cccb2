"""Which contents go back to words from outside: an OriginStore in SQLite, in a file or in memory."""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import apsw
import orjson

from toolcrib.backends.files.origins import OriginRow

from .sqlite import MADE_FILES, SqliteFile
from .sqlite import ORIGINS as TABLE

T = TypeVar("T")

MAX_ROWS = 100_000
_FIND = "SELECT path, size, digest, source, at FROM origins WHERE size IN (?, -1)"
_BELOW = (
    "SELECT path, size, digest, source, at FROM origins WHERE (path = ? OR (path > ? AND path < ?)) AND source != ''"
)
_ADD = """
    INSERT INTO origins VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET source = excluded.source, at = min(at, excluded.at)
"""
_OLDEST_PATH = "SELECT path FROM origins WHERE source != '' AND size >= 0 ORDER BY at LIMIT 1"
_DROP_BELOW = "DELETE FROM origins WHERE path > ? AND path < ? AND source != ''"
_LIFT = "DELETE FROM origins WHERE size = -1 AND (path = ? OR (path > ? AND path < ?))"
_MADE = "SELECT digest FROM made WHERE path = ? AND person = ?"
_FORGET_MADE = "DELETE FROM made WHERE at < (SELECT at FROM made ORDER BY at DESC LIMIT 1 OFFSET ?)"
_FORGET = "DELETE FROM origins WHERE source = '' AND digest IN (SELECT value FROM json_each(?))"


class SqliteOrigins:
    """Rows in a file; without one, in memory."""

    def __init__(self, file: SqliteFile | None = None, most: int = MAX_ROWS) -> None:
        self._file, self._most = file, most
        self._lock, self._memory = threading.Lock(), _open_memory()

    def find(self, size: int, /) -> list[OriginRow]:
        return self._read(_FIND, (size,))

    def below(self, path: str, /) -> list[OriginRow]:
        return self._read(_BELOW, (path, *_range(path)))

    def add(self, rows: Collection[OriginRow], /) -> None:
        if not rows:
            return

        def step(db: apsw.Connection) -> None:
            db.executemany(_ADD, [(*each[:4], each.at or time.time()) for each in rows])
            while _count(db) > self._most and (oldest := db.execute(_OLDEST_PATH).fetchone()):
                folder = os.path.dirname(oldest[0])  # noqa: PTH120
                db.execute(_DROP_BELOW, _range(folder))
                db.execute(_ADD, (folder, -1, "", "others", time.time()))

        self._transact(step)

    def add_made(self, digests: Mapping[str, str], person: str, /) -> None:
        def step(db: apsw.Connection) -> None:
            rows = [(path, digest, person, time.time()) for path, digest in digests.items()]
            db.executemany("INSERT OR REPLACE INTO made VALUES (?, ?, ?, ?)", rows)
            db.execute(_FORGET_MADE, (self._most,))

        self._transact(step)

    def find_made(self, path: str, person: str, /) -> str:
        rows: list[Any] = self._transact(lambda db: db.execute(_MADE, (path, person)).fetchall(), writes=False)
        return str(rows[0][0]) if rows else ""

    def accept(self, path: str, contents: Collection[tuple[int, str]]) -> None:
        """Keep that a person accepted these contents, by size and hash, and all that lies in this folder by now."""

        def step(db: apsw.Connection) -> None:
            db.executemany(_ADD, [("", *each, "", time.time()) for each in contents])
            db.execute(_LIFT, (path, *_range(path)))

        self._transact(step)

    def forget(self, digests: Collection[str]) -> None:
        """Take that back."""
        self._transact(lambda db: db.execute(_FORGET, (orjson.dumps(list(digests)).decode(),)))

    def _read(self, query: str, values: tuple[object, ...]) -> list[OriginRow]:
        rows: list[Any] = self._transact(lambda db: db.execute(query, values).fetchall(), writes=False)
        return [OriginRow(*row) for row in rows]

    def _transact(self, step: Callable[[apsw.Connection], T], *, writes: bool = True) -> T:
        if self._file is not None:
            return self._file.transact(step, writes=writes)
        with self._lock:
            return step(self._memory)


def _open_memory() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(TABLE + MADE_FILES)
    return db


def _count(db: apsw.Connection) -> int:
    rows: list[Any] = db.execute("SELECT count(*) FROM origins").fetchall()
    return int(rows[0][0])


def _range(folder: str) -> tuple[str, str]:
    """Return what paths below a folder lie between."""
    top = folder.rstrip("/")
    return f"{top}/", f"{top}0"
