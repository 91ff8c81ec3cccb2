"""One SQLite file that several stores share: what was acknowledged is on the disk, what is broken is reported.

The file comes into being whole: where there is one, it was good once. So an empty, foreign or damaged file is no reason
to begin again. A damaged one is set aside as `<name>.broken-<number>`, and nothing is kept until somebody puts a good
copy back or takes the broken one away. One that holds less than its anchor says was robbed of its end, and is left
as it is until somebody takes the anchor away.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import apsw

from toolcrib.backends.files.stage import sync_folder, write_synced
from toolcrib.define.errors import ToolError

from .anchor import Anchor, AnchoredState

ORIGINS = """
    CREATE TABLE origins (
        path TEXT NOT NULL, size INTEGER NOT NULL, digest TEXT NOT NULL, source TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (digest, path)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX origins_by_size ON origins (size);
    CREATE INDEX origins_by_path ON origins (path);
    """
MADE_FILES = """
    CREATE TABLE made (path TEXT PRIMARY KEY, digest TEXT NOT NULL, person TEXT NOT NULL, at REAL NOT NULL)
    STRICT, WITHOUT ROWID;
    CREATE INDEX made_by_time ON made (at);
    """
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE questions (
        id TEXT PRIMARY KEY, digest TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('pending', 'allowed', 'denied', 'spent', 'withdrawn', 'expired')),
        person TEXT NOT NULL, asked_at REAL NOT NULL, expires_at REAL NOT NULL, answered_by TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX questions_by_digest ON questions (digest);
    CREATE INDEX questions_by_state ON questions (state, asked_at);
    CREATE TABLE grants (
        id TEXT PRIMARY KEY, digest TEXT NOT NULL, made_at REAL NOT NULL, until REAL NOT NULL, body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX grants_by_digest ON grants (digest);
    """,
    """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, made_at REAL NOT NULL, changed_at REAL NOT NULL,
        about TEXT NOT NULL
    ) STRICT;
    CREATE TABLE lines (
        session INTEGER NOT NULL, number INTEGER NOT NULL, id TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (session, number), UNIQUE (session, id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE blobs (
        hash TEXT PRIMARY KEY, size INTEGER NOT NULL, kept_at REAL NOT NULL, data BLOB NOT NULL
    ) STRICT;
    CREATE INDEX blobs_by_age ON blobs (kept_at, size, hash);
    CREATE TABLE pictures (
        hash TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (hash, session)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX pictures_by_session ON pictures (session);
    """,
    """
    CREATE TABLE record (
        seq INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL
    ) STRICT;
    CREATE TABLE record_head (
        one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, hash TEXT NOT NULL
    ) STRICT;
    INSERT INTO record_head VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
    CREATE TABLE record_grounds (digest TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE mcp_pins (
        server TEXT NOT NULL, tool TEXT NOT NULL, digest TEXT NOT NULL, body TEXT NOT NULL, pinned_at REAL NOT NULL,
        PRIMARY KEY (server, tool)
    ) STRICT, WITHOUT ROWID;
    """,
    "ALTER TABLE record_head ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;",
    """
    CREATE TABLE devices (
        id TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('operator', 'node')), body TEXT NOT NULL,
        PRIMARY KEY (id, role)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE device_requests (
        id TEXT PRIMARY KEY, device TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('operator', 'node')),
        asked_at REAL NOT NULL, body TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE jobs (id TEXT PRIMARY KEY, next_ms INTEGER, body TEXT NOT NULL) STRICT;
    CREATE INDEX jobs_by_time ON jobs (next_ms);
    CREATE TABLE job_runs (
        id TEXT PRIMARY KEY, job TEXT NOT NULL, began_ms INTEGER NOT NULL, body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX job_runs_by_job ON job_runs (job, began_ms);
    """,
    """
    CREATE TABLE heard (
        number INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, chat TEXT NOT NULL, id TEXT NOT NULL,
        answered INTEGER NOT NULL DEFAULT 0, body TEXT NOT NULL, UNIQUE (channel, chat, id)
    ) STRICT;
    CREATE INDEX heard_unanswered ON heard (channel, number) WHERE answered = 0;
    CREATE TABLE posts (
        number INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, key TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting'
            CHECK (state IN ('waiting', 'sending', 'sent', 'failed', 'uncertain')),
        told TEXT NOT NULL DEFAULT '', body TEXT NOT NULL, UNIQUE (channel, key)
    ) STRICT;
    CREATE INDEX posts_to_send ON posts (channel, number) WHERE state IN ('waiting', 'sending');
    CREATE TABLE channel_cursors (channel TEXT PRIMARY KEY, cursor TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE acquaintances (
        channel TEXT NOT NULL, sender TEXT NOT NULL, chat TEXT NOT NULL, name TEXT NOT NULL, code TEXT NOT NULL,
        at REAL NOT NULL, PRIMARY KEY (channel, sender)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE quota_counts (
        bucket TEXT NOT NULL, since INTEGER NOT NULL, calls INTEGER NOT NULL, tokens INTEGER NOT NULL,
        cost REAL NOT NULL, PRIMARY KEY (bucket, since)
    ) STRICT, WITHOUT ROWID;
    """,
    "ALTER TABLE grants ADD COLUMN calls_left INTEGER;",
    """
    CREATE TABLE pending_calls (
        key TEXT PRIMARY KEY, session TEXT NOT NULL, handle TEXT NOT NULL, person TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('waiting', 'completed', 'taken', 'withdrawn', 'expired')),
        until REAL NOT NULL, body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX pending_by_handle ON pending_calls (handle);
    CREATE INDEX pending_by_state ON pending_calls (state);
    """,
    """
    CREATE TABLE quota_reservations (
        id TEXT NOT NULL, bucket TEXT NOT NULL, since INTEGER NOT NULL, process TEXT NOT NULL,
        tokens INTEGER NOT NULL, cost REAL NOT NULL, PRIMARY KEY (id, bucket, since)
    ) STRICT, WITHOUT ROWID;
    """,
    ORIGINS,
    """
    CREATE TABLE places (
        session TEXT PRIMARY KEY, channel TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL, caller TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE direct_places (
        channel TEXT NOT NULL, id TEXT NOT NULL, e164 TEXT NOT NULL, chat TEXT NOT NULL, thread TEXT NOT NULL,
        at REAL NOT NULL, PRIMARY KEY (channel, id, e164)
    ) STRICT, WITHOUT ROWID;
    """,
    MADE_FILES,
)


log = logging.getLogger("toolcrib")

T = TypeVar("T")

_OURS = 0x70656773  # the application id in the file's header
_FORMATS = slice(18, 20)  # of the header: how the file is written and read
_PATIENCE = 5_000  # milliseconds to wait for another process
_CHECKED = 64 << 20  # bytes of a file that is read whole when it is opened; a second of a slow disk
_COUNT = "UPDATE record_head SET commits = commits + 1 RETURNING commits, count, hash"
_BROKEN = (apsw.CorruptError, apsw.NotADBError)


class SqliteFile:
    """A file of tables. It is opened at the first use, and used by one thread at a time.

    Without `sync` nothing waits for the disk: what was acknowledged may be gone when the power is. Without `check`
    damage is found where it is touched, not when the file is opened: for a further connection to a file in use. With
    `only_looks` nothing in the folder is changed, not even by damage.
    """

    def __init__(
        self,
        path: Path,
        migrations: Sequence[str] = MIGRATIONS,
        *,
        sync: bool = True,
        check: bool = True,
        only_looks: bool = False,
    ) -> None:
        self.path, self.migrations = path, migrations
        self._name = os.fspath(path)
        self.sync, self._check, self._only_looks = sync, check, only_looks
        self.anchor = Anchor(path) if sync and migrations is MIGRATIONS else None
        self._lock = threading.Lock()
        self._opened: tuple[apsw.Connection, tuple[int, int]] | None = None

    def transact(self, step: Callable[[apsw.Connection], T], *, writes: bool = True) -> T:
        """Return what `step` returns; what it wrote is on the disk by then. When it fails, nothing was written."""
        with self._lock:
            try:
                if not writes and _inode(self._name) is None:
                    return step(self._empty())  # only to look is no reason to make a file
                db, anchor = self._ready(), self.anchor if writes else None
                if anchor:
                    anchor.open()
                db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                try:
                    value = step(db)
                    counted: list[Any] = db.execute(_COUNT).fetchall() if anchor else []
                    db.execute("COMMIT")
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                if anchor and counted:  # it is not where the record has lost its head
                    anchor.advance(AnchoredState(*counted[0]))
            except _BROKEN as error:
                if self._only_looks:
                    raise ToolError(f"the store {self.path.name!r} is broken ({error})", code="unavailable") from error
                raise self._set_aside(str(error)) from error
            except (apsw.Error, OSError) as error:
                raise self.failure(error) from error
            except UnicodeDecodeError as error:
                raise ToolError(f"{self.path.name!r} holds a text that is damaged ({error})", code="broken") from error
            return value

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self.anchor is not None:
            self.anchor.close()
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def _ready(self) -> apsw.Connection:
        """Return the connection to the file that stands there now: it may have been set aside, or put back."""
        if self._opened is not None:
            if self._opened[1] == _inode(self._name):
                return self._opened[0]
            self._close()
        if self._only_looks:
            inode, db = _inode(self._name) or (0, 0), _connect_read_only(self.path)
        else:
            inode = _inode(self._name) or self._create()
            db = apsw.Connection(self._name, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        self._opened = db, inode
        return db

    def _prepare(self, db: apsw.Connection) -> None:
        db.set_busy_timeout(_PATIENCE)
        if (size := self.path.stat().st_size) == 0:
            raise apsw.CorruptError("the file is empty")
        if self._check and size <= _CHECKED and (found := db.pragma("quick_check", 1)) != "ok":
            raise apsw.CorruptError(str(found))
        if db.pragma("application_id") != _OURS:
            raise ToolError(
                f"{self.path.name!r} is no store of toolcrib's; keep the store elsewhere", code="unavailable"
            )
        if self._only_looks:
            self._check_end(db)
            return
        wait = "FULL" if self.sync else "OFF"
        for pragma in ("journal_mode=WAL", f"synchronous={wait}", "fullfsync=ON", "trusted_schema=OFF"):
            db.execute(f"PRAGMA {pragma}")
        _migrate(db, self.migrations, self.path.name)
        self._check_end(db)

    def _check_end(self, db: apsw.Connection) -> None:
        """Raise ToolError when the store holds less than was acknowledged."""
        if self.anchor is None:
            return
        there, name = self.anchor.read(), self.path.name  # before the store, which is written first
        commits = commits_in(db)
        if there is not None and commits is not None and commits < there.commits:  # else `audit verify` tells it
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # what is left of it is left for who can save some
            lost = f"has lost its end: {there.commits - commits} of {there.commits} commits that were acknowledged are"
            back = f"put {name!r} and '{name}-wal' back as they were, or take {self.anchor.path.name!r} away to go on"
            raise ToolError(f"the store {name!r} {lost} gone; {back} with what is left", code="unavailable")
        if there is None and commits and self._check:
            log.warning("%s is gone, so nobody can tell whether the end of %r is still there", self.anchor.path, name)

    def _create(self) -> tuple[int, int]:
        """Put a whole file with all tables there, unless another process does; return which file it is."""
        memory = self._empty()
        whole = bytearray(memory.serialize("main"))
        whole[_FORMATS] = b"\2\2"  # written ahead from the start: two who open it at once would refuse each other that
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.path.with_name(f".{self.path.name}.{token_hex(8)}")
        try:
            write_synced(fresh, bytes(whole))
            os.link(fresh, self.path)
        except FileExistsError:
            log.debug("another process made %s first", self.path)
        finally:
            memory.close()
            fresh.unlink(missing_ok=True)
        sync_folder(self.path.parent)
        return _inode(self._name) or (0, 0)

    def _empty(self) -> apsw.Connection:
        """Return a store that holds nothing, in memory; never in place of one that is broken."""
        name = self.path.name
        if broken := sorted(self.path.parent.glob(f"{name}.broken-*")):
            raise ToolError(_aside_sentence(name, broken[0].name), code="unavailable")
        anchor = self.anchor
        # looked for again after the anchor was read: another may have made the file, and written to it, just now
        if anchor and (there := anchor.read()) is not None and there.commits and _inode(self._name) is None:
            back = f"put it back, or take {anchor.path.name!r} away to begin with nothing"
            gone = f"is gone, and {there.commits} commits to it were acknowledged"
            raise ToolError(f"the store {name!r} {gone}; {back}", code="unavailable")
        memory = apsw.Connection(":memory:")
        memory.pragma("application_id", _OURS)
        _migrate(memory, self.migrations, name)
        return memory

    def _set_aside(self, what: str) -> ToolError:
        """Move a damaged file where nothing touches it any more, with what belongs to it; return what to say."""
        self._close()
        name = self.path.name
        number = 1
        while (aside := self.path.with_name(f"{name}.broken-{number}")).exists():
            number += 1
        try:
            for tail in ("-anchor", "-wal", ""):  # the file last: while it is there, it is found broken again
                if (part := self.path.with_name(name + tail)).exists():
                    part.rename(aside.with_name(aside.name + tail))
            self.path.with_name(f"{name}-shm").unlink(missing_ok=True)
        except OSError as error:
            log.exception("%s is broken (%s), and could not be set aside", self.path, what)
            return ToolError(f"the store {name!r} is broken ({what}) and cannot be moved: {error}", code="unavailable")
        log.error("%s is broken (%s); it was set aside as %s", self.path, what, aside)
        return ToolError(_aside_sentence(name, aside.name), code="unavailable")

    def failure(self, error: Exception) -> ToolError:
        """Return what to say of an error of SQLite or of the disk."""
        log.error("%s cannot be used", self.path, exc_info=error)
        name = self.path.name
        if isinstance(error, apsw.FullError):
            return ToolError(f"the disk is full, so {name!r} could not be written")
        if isinstance(error, (apsw.BusyError, apsw.LockedError)):
            return ToolError(f"{name!r} is busy: another process holds it; try again", code="busy")
        if isinstance(error, (OSError, apsw.CantOpenError, apsw.ReadOnlyError)):
            why = error.strerror if isinstance(error, OSError) else str(error)
            sentence = f"{name!r} cannot be used: {self.path.parent} cannot be written to ({why})"
            return ToolError(f"{sentence}; set TOOLCRIB_STATE to a folder that can be", code="unavailable")
        return ToolError(f"{name!r} cannot be used ({type(error).__name__}: {error})", code="unavailable")


def commits_in(db: apsw.Connection) -> int | None:
    """Return how many commits a store has counted, 0 for one of before they were; None where that is gone."""
    counts: list[Any] = db.execute("SELECT 1 FROM pragma_table_info('record_head') WHERE name = 'commits'").fetchall()
    found: list[Any] = db.execute("SELECT commits FROM record_head").fetchall() if counts else [(0,)]
    return int(found[0][0]) if found else None


def _connect_read_only(path: Path) -> apsw.Connection:
    """Return a connection that writes nothing: beside a file that nobody has open, not even what readers share."""
    is_open = path.with_name(f"{path.name}-wal").exists()
    name = f"{path.absolute().as_uri()}?mode=ro{'' if is_open else '&immutable=1'}"
    return apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _migrate(db: apsw.Connection, migrations: Sequence[str], name: str) -> None:
    """Bring the tables up to date, each step whole or not at all."""
    while (version := db.pragma("user_version")) != len(migrations):
        if version > len(migrations):
            raise ToolError(f"{name!r} was written by a newer toolcrib; use that one", code="unavailable")
        db.execute("BEGIN IMMEDIATE")
        try:
            if db.pragma("user_version") == version:  # and no other process was faster
                db.execute(migrations[version])
                db.pragma("user_version", version + 1)
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")


def _aside_sentence(name: str, broken: str) -> str:
    return (
        f"the store {name!r} was found broken and set aside as {broken!r}, so nothing can be kept; put a good copy "
        f"back, or take the broken one away to begin with nothing"
    )


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  asked for before every step
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
