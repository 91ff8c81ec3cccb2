"""Big values by content hash in SQLite: those of a session's pictures stay as long as it does, others for a while."""

import hashlib
import time
from collections.abc import Callable
from typing import Any

import apsw

from toolcrib.define.errors import ToolError

from .commits import Commits

MAX_BLOB_BYTES = 32 << 20  # bytes of one
_BYTES, _SECONDS = 512 << 20, 30 * 86_400.0  # of all that nothing refers to; how long one of them stays

_KEEP = "INSERT INTO blobs VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET kept_at = max(kept_at, excluded.kept_at)"
_PRUNE = """
    DELETE FROM blobs WHERE hash IN (
        SELECT hash FROM (
            SELECT hash, kept_at, sum(size) OVER (ORDER BY hash = :new DESC, kept_at DESC, hash) AS bytes
            FROM blobs WHERE NOT EXISTS (SELECT 1 FROM pictures WHERE pictures.hash = blobs.hash)
        ) WHERE hash != :new AND (bytes > :most OR kept_at < :oldest)
    )
"""
_DROP = """
    DELETE FROM blobs WHERE hash IN (SELECT hash FROM pictures WHERE session = :session)
    AND NOT EXISTS (SELECT 1 FROM pictures WHERE pictures.hash = blobs.hash AND session != :session)
"""


class SqliteBlobs:
    """Blobs in a file. What was put is on the disk; the oldest that no session holds give way."""

    def __init__(
        self,
        commits: Commits,
        *,
        most: int = _BYTES,
        seconds: float = _SECONDS,
        largest: int = MAX_BLOB_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._commits, self._clock = commits, clock
        self._most, self._seconds, self._largest = most, seconds, largest

    async def put(self, data: bytes, /) -> str:
        hash, now = hash_of(data, self._largest), self._clock()

        def step(db: apsw.Connection) -> None:
            keep_blob(db, hash, data, now)
            db.execute(_PRUNE, {"new": hash, "most": self._most, "oldest": now - self._seconds})

        await self._commits.submit(step, size=len(data))
        return hash

    async def get(self, key: str, /) -> bytes:
        return await self._commits.read(lambda db: fetch_blob(db, key))


def hash_of(data: bytes, max_bytes: int = MAX_BLOB_BYTES) -> str:
    """Return the name of a value; raise ToolError when it is larger than may be kept."""
    if len(data) > max_bytes:
        raise ToolError(f"{len(data)} bytes are more than can be kept at once ({max_bytes})", code="too_large")
    return hashlib.sha256(data).hexdigest()


def keep_blob(db: apsw.Connection, hash: str, data: bytes, now: float) -> None:
    """Keep a value, or keep it for longer."""
    db.execute(_KEEP, (hash, len(data), now, data))


def fetch_blob(db: apsw.Connection, hash: str) -> bytes:
    """Return a value as it was kept; raise ToolError when it is gone, or is not what it was."""
    found: list[Any] = db.execute("SELECT data FROM blobs WHERE hash = ?", (askable(hash),)).fetchall()
    if not found:
        raise ToolError(f"nothing is kept under {hash[:64]!r} any more", code="not_found")
    data: bytes = found[0][0]
    if hashlib.sha256(data).hexdigest() != hash:
        raise ToolError(f"what is kept under {hash!r} is damaged", code="broken")
    return data


def drop_blobs(db: apsw.Connection, session: int) -> None:
    """Forget the values that this session alone refers to."""
    db.execute(_DROP, {"session": session})
    db.execute("DELETE FROM pictures WHERE session = ?", (session,))


def askable(text: str) -> str:
    """Return a text that SQLite can be asked for: half a character has no bytes, and is no part of any name."""
    return text.encode(errors="replace").decode()
