"""Logs of sessions in SQLite: a line that was acknowledged is on the disk, with its pictures."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import apsw

from toolcrib.define.errors import ToolError
from toolcrib.define.log import Labelled, Line, Order, SessionHead, Switched, check_lines, head_after, went_on
from toolcrib.define.session import check_key

from .blobs import MAX_BLOB_BYTES, askable, drop_blobs, fetch_blob, hash_of, keep_blob
from .commits import Commits
from .sessions_json import from_text, line_from_json, line_to_json, to_text

log = logging.getLogger("toolcrib")
T = TypeVar("T")

# The number of lines is not written down beside them: that would be one page more to sync with every line.
_HEADS = """
    SELECT key, made_at, coalesce(last.at, changed_at), coalesce(last.number, 0), CAST(about AS BLOB)
    FROM sessions
    LEFT JOIN lines AS last ON last.session = sessions.id
    AND last.number = (SELECT max(number) FROM lines WHERE session = sessions.id)
"""
_FIND = _HEADS + "WHERE key = ?"
_LISTS: dict[Order, str] = {
    "changed": _HEADS + "ORDER BY 3 DESC, sessions.id DESC LIMIT ?",
    "made": _HEADS + "ORDER BY 2 DESC, sessions.id DESC LIMIT ?",
}
_MAKE = "INSERT INTO sessions (key, made_at, changed_at, about) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_COUNT = """
    SELECT id, (SELECT coalesce(max(number), 0) FROM lines WHERE session = sessions.id),
    EXISTS (SELECT 1 FROM lines WHERE session = sessions.id AND lines.id = ?) FROM sessions WHERE key = ?
"""
_ABOUT = "UPDATE sessions SET about = ? WHERE id = ?"
# what was left in a session besides its lines
_RENAMED = (
    "UPDATE jobs SET body = json_set(body, '$.home', ?2) WHERE json_extract(body, '$.home') = ?1",
    "UPDATE pending_calls SET session = ?2, body = json_set(body, '$.asker.session', ?2) WHERE session = ?1",
)
_KNOWN = "SELECT 1 FROM lines WHERE session = ? AND id = ?"
_LINE = "INSERT INTO lines VALUES (?, ?, ?, ?, ?)"
_PICTURE = "INSERT INTO pictures VALUES (?, ?) ON CONFLICT DO NOTHING"
_LINES = "SELECT number, CAST(body AS BLOB) FROM lines WHERE session=(SELECT id FROM sessions WHERE key=?) ORDER BY 1"


class SqliteSessions:
    """A SessionStore in a file, shared by processes."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def add(self, head: SessionHead, lines: Sequence[Line], /) -> SessionHead:
        check_key(head.key)
        written = _encode_lines(lines)
        return await self._commits.submit(partial(_add, head=head, written=written), size=written.size)

    async def make(self, head: SessionHead, /) -> SessionHead:
        check_key(head.key)
        return await self._commits.submit(partial(_make, head=head))

    async def find(self, key: str, /) -> SessionHead | None:
        check_key(key)
        return await self._commits.read(partial(_find, key=key))

    async def rename(self, old: str, new: str, /) -> bool:
        check_key(new)
        return await self._commits.submit(partial(_rename, old=check_key(old), new=new))

    async def list(self, *, most: int = 100, order: Order = "changed") -> tuple[SessionHead, ...]:
        sql = _LISTS[order]
        return await self._commits.read(lambda db: tuple(_whole_heads(db.execute(sql, (max(most, 0),)))))

    async def lines(self, key: str, /) -> tuple[Line, ...]:
        check_key(key)
        return await self._commits.read(partial(_lines, key=key))

    def append(self, key: str, lines: Sequence[Line], /, *, at: int) -> Awaitable[None]:
        check_key(key)
        written = _encode_lines(lines)
        return self._commits.submit(partial(_append, key=key, at=at, written=written), size=written.size)

    async def delete(self, key: str, /) -> bool:
        check_key(key)
        return await self._commits.submit(partial(_delete, key=key))


class _EncodedLines(NamedTuple):
    """Lines as they are kept: their texts, and their pictures by hash."""

    lines: tuple[Line, ...]
    bodies: tuple[str, ...]
    pictures: dict[str, bytes]
    size: int


def _encode_lines(lines: Sequence[Line]) -> _EncodedLines:
    pictures: dict[str, bytes] = {}

    def keep(data: bytes) -> str:
        hash = hash_of(data)
        pictures[hash] = data
        return hash

    bodies = tuple(to_text(line_to_json(line, keep)) for line in lines)
    if bodies and max(map(len, bodies)) > MAX_BLOB_BYTES:
        raise ToolError(f"a line of a session is longer than {MAX_BLOB_BYTES} characters", code="too_large")
    return _EncodedLines(tuple(lines), bodies, pictures, sum(map(len, bodies)) + sum(map(len, pictures.values())))


def _add(db: apsw.Connection, head: SessionHead, written: _EncodedLines) -> SessionHead:
    if _find(db, head.key) is not None:
        raise ToolError(f"there is a session {head.key!r} already; choose another key", code="exists")
    _make(db, head)
    if written.lines:
        _append(db, head.key, 0, written)
    return _require_head(db, head.key)


def _make(db: apsw.Connection, head: SessionHead) -> SessionHead:
    db.execute(_MAKE, (head.key, head.made_at, head.changed_at, _about(head)))
    return _require_head(db, head.key)


def _append(db: apsw.Connection, key: str, at: int, written: _EncodedLines) -> None:
    lines = written.lines
    parent = lines[0].parent if lines else None
    found: list[Any] = db.execute(_COUNT, (parent and askable(parent), key)).fetchall()
    if not found:
        raise ToolError(f"there is no session {key!r}; it was never made, or it was deleted", code="not_found")
    session, count, has_parent = found[0]
    if at != count:
        raise went_on(key, count, at)

    def is_known(known: str) -> bool:
        if known == parent and has_parent:
            return True
        return bool(db.execute(_KNOWN, (session, askable(known))).fetchall())

    check_lines(lines, is_known)
    for number, (line, body) in enumerate(zip(lines, written.bodies, strict=True), at + 1):
        db.execute(_LINE, (session, number, line.id, line.at, _seal(body, number)))
    for hash, data in written.pictures.items():
        keep_blob(db, hash, data, lines[-1].at)
        db.execute(_PICTURE, (hash, session))
    if any(isinstance(line.body, Labelled | Switched) for line in lines):
        db.execute(_ABOUT, (_about(head_after(_require_head(db, key), lines)), session))


def _rename(db: apsw.Connection, old: str, new: str) -> bool:
    head = _find(db, old)
    if head is None or _find(db, new) is not None:
        return False
    db.execute("UPDATE sessions SET key = ?, about = ? WHERE key = ?", (new, _about(replace(head, key=new)), old))
    for each in _RENAMED:
        db.execute(each, (old, new))
    return True


def _find(db: apsw.Connection, key: str) -> SessionHead | None:
    return next(map(_head, db.execute(_FIND, (key,)).fetchall()), None)


def _require_head(db: apsw.Connection, key: str) -> SessionHead:
    return _head(db.execute(_FIND, (key,)).fetchall()[0])


def _lines(db: apsw.Connection, key: str) -> tuple[Line, ...]:
    pictures: dict[str, bytes] = {}

    def fetch(hash: str) -> bytes:
        if hash not in pictures:
            pictures[hash] = fetch_blob(db, hash)
        return pictures[hash]

    lines: list[Line] = []
    for number, body in db.execute(_LINES, (key,)):
        wanted = len(lines) + 1
        if number != wanted:
            raise ToolError(f"line {wanted} of the session {key!r} is missing", code="broken")
        try:
            lines.append(_unseal(body, lambda value: line_from_json(value, fetch), number))
        except ToolError as error:
            raise ToolError(f"line {number} of the session {key!r} cannot be read: {error}", code="broken") from error
    return tuple(lines)


def _delete(db: apsw.Connection, key: str) -> bool:
    found: list[Any] = db.execute("DELETE FROM sessions WHERE key = ? RETURNING id", (key,)).fetchall()
    for (session,) in found:
        db.execute("DELETE FROM lines WHERE session = ?", (session,))
        drop_blobs(db, session)
    return bool(found)


def _about(head: SessionHead) -> str:
    about = {"title": head.title, "model": head.model, "parents": list(head.parents), "source": head.source}
    return _seal(to_text(about), head.key, float(head.made_at))


def _head(row: tuple[Any, ...]) -> SessionHead:
    key, made_at, changed_at, count, about = row

    def parse(row: Any) -> SessionHead:
        parents = tuple(row.pop("parents"))
        return SessionHead(key=key, made_at=made_at, changed_at=changed_at, count=count, parents=parents, **row)

    try:
        return _unseal(about, parse, key, float(made_at))
    except (ToolError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ToolError(f"the session {key!r} cannot be read: {error}", code="broken") from error


def _whole_heads(rows: Iterable[tuple[Any, ...]]) -> Iterator[SessionHead]:
    for row in rows:
        try:
            yield _head(row)
        except ToolError:  # asking for this one reports it; the others are read all the same
            log.exception("a session is left out of the list")


def _seal(text: str, *about: object) -> str:
    """Return a text with a sum of it and of what stands beside it, behind a line end that no text of ours has."""
    return f"{text}\n{_sum(text.encode(), about)}"


def _unseal(kept: bytes, parse: Callable[[Any], T], *about: object) -> T:
    """Return what was sealed, parsed; raise ToolError when a bit of it has changed. Old ones have no sum."""
    text, has_sum, sum = kept.partition(b"\n")
    value = parse(from_text(text.decode(errors="replace")))
    if not has_sum or sum == _sum(text, about).encode():
        return value
    raise ToolError("it is not as it was written; a disk that changes bits changes more than these")


def _sum(text: bytes, about: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(about).encode() + text).hexdigest()[:32]
