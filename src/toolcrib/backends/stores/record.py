"""The record of calls in SQLite, one chain for all writers, and as lines of JSON in a file of its own.

In an entry secrets are taken out, long arguments are cut, and odd values are named by their type.
"""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import apsw
import orjson
from pydantic import BaseModel

from toolcrib.define import record
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.verdict import Basis, Grounds, Verdict
from toolcrib.lazy import regex
from toolcrib.threads import in_turn

from .anchor import Anchor
from .commits import Commits
from .sqlite import SqliteFile, commits_in

ARGUMENT_CHARS = 4096  # characters of arguments that are kept; of longer ones the digest says which they were
_WORD_CHARS = 256
_MAX_PARTS = 10_000
_MAX_DEPTH = 64
_MAX_INT = 1 << 63
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS

Redact = Callable[[str], str]


def body_of(entry: record.RecordEntry, redact: Redact | None = None, limit: int = ARGUMENT_CHARS) -> tuple[str, str]:
    """Return the kind of an entry and its JSON; `redact` takes secrets out of a text."""
    kind, body = _to_json(entry, redact, limit)
    return kind, _json(body, redact).decode()


def encode_grounds(grounds: Grounds, redact: Redact | None = None) -> str:
    """Return the JSON of what decisions are made from, whole: they are derived from it again."""
    text: str | bytes = grounds.text
    if redact is not None and redact(plain := json.dumps(value := json.loads(text), ensure_ascii=False)) != plain:
        text = orjson.dumps(_Plain(redact, sys.maxsize).simplify(value))
    return orjson.dumps({"digest": grounds.digest, "grounds": orjson.Fragment(text)}).decode()


def _to_json(entry: record.RecordEntry, redact: Redact | None, limit: int) -> tuple[str, dict[str, Any]]:
    match entry:
        case record.Decided(call, caller, verdict, reason, grounds, taint):
            body: dict[str, Any] = {"call": _call(call, redact, limit), "caller": _caller(caller)}
            body |= {"verdict": _verdict(verdict)} if verdict else {"reason": reason}
            body |= {"taint": [source[:_WORD_CHARS] for source in taint]} if taint else {}
            return "decided", body | ({"under": grounds.digest} if grounds else {})
        case record.Shadowed(call, caller, verdict, grounds, seen):
            body = {"call": _call(call, redact, limit), "caller": _caller(caller), "verdict": _verdict(verdict)}
            body |= _keep_seen(seen, [call.args, verdict.reason, seen], redact, limit) if seen else {}
            return "shadowed", body | ({"under": grounds.digest} if grounds else {})
        case record.Judged(call, by, decision, reason, basis):
            body = {"call": {**_identify(call, redact), "args": _bound(call.args, redact, limit)}, "by": by}
            body |= {"decision": decision, "reason": reason, "rule": basis.rule, "origin": basis.origin}
            if basis.grounds is not None:
                body["under"] = basis.grounds.digest
                body |= _keep_seen(basis.seen, [call.args, reason, basis.seen], redact, limit)
            return "judged", body
        case record.Started(call, tool):
            args = _bound(call.args, redact, limit)
            return "started", {"call": {**_identify(call, redact), "args": args}, "tool": tool}
        case record.Finished(call, tool, status, code, ran, error):
            outcome = {"status": status, "code": code[:_WORD_CHARS], "ran": ran} | ({"error": error} if error else {})
            return "finished", {"call": _identify(call, redact), "tool": tool, **outcome}
        case record.Completed(call, tool, handle, by):
            return "completed", {"call": _identify(call, redact), "tool": tool, "handle": handle, "by": by}
        case record.Answered(call):
            return "answered", {**entry._asdict(), "call": _identify(call, redact)}
        case record.Granted():
            return "granted", {**entry._asdict(), "shown": _bound(entry.shown, redact, limit)}
        case record.Revoked() | record.Enrolled():
            return type(entry).__name__.lower(), entry._asdict()


def _identify(call: Call, redact: Redact | None) -> dict[str, Any]:
    return {"id": _bound(call.id, redact, _WORD_CHARS), "key": call.key or call.id[:_WORD_CHARS]}


def _call(call: Call, redact: Redact | None, limit: int) -> dict[str, Any]:
    row = {**_identify(call, redact), "name": _bound(call.name, redact, _WORD_CHARS)}
    row["args"] = _bound(call.args, redact, limit)
    return row | ({"flaw": _bound(call.parse_error, redact, _WORD_CHARS)} if call.parse_error else {})


@lru_cache(maxsize=1024)  # the same few callers and verdicts come again and again
def _caller(caller: Caller) -> orjson.Fragment:
    """Return what is known of a caller; fields at their default are left out, but never `owner`."""
    row = {field.name: value for field in fields(caller) if (value := getattr(caller, field.name)) != field.default}
    row["owner"] = caller.owner
    if caller.sender is not None:
        row["sender"] = {field.name: getattr(caller.sender, field.name) for field in fields(caller.sender)}
    return orjson.Fragment(_json(row, None))


@lru_cache(maxsize=1024)
def _verdict(verdict: Verdict) -> orjson.Fragment:
    return orjson.Fragment(_json({field.name: getattr(verdict, field.name) for field in fields(verdict)}, None))


def _bound(value: Any, redact: Redact | None, limit: int) -> Any:
    """Return a value as it is kept: whole, or its beginning with its length and the digest of all of it."""
    if isinstance(value, str) and len(value) <= limit:
        return value
    text = _json(value, redact)
    if len(text) <= limit:
        return orjson.Fragment(text)
    shown = text[:limit].decode(errors="ignore")
    return {"cut": shown, "length": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def _keep_seen(seen: Any, whole: Any, redact: Redact | None, limit: int) -> dict[str, Any]:
    """Return what was looked at, as it is kept; nothing where not all is kept: it is not judged again."""
    text = _json(whole, None)
    is_kept = len(text) <= limit and text == _json(whole, redact) and orjson.loads(text) == whole
    return {"seen": seen} if is_kept else {}


def _json(value: Any, redact: Redact | None) -> bytes:
    try:
        text = orjson.dumps(value, _json_default, _OPTIONS)
    except (TypeError, ValueError):  # too deep, too big a number, half a character
        text = orjson.dumps(_Plain(str).simplify(value), None, _OPTIONS)
    if redact is not None and (shown := text.decode()) != redact(shown):
        text = orjson.dumps(_Plain(redact).simplify(orjson.loads(text)), None, _OPTIONS)
    return text


def _json_default(value: Any) -> Any:
    """Return a value that JSON does not know as one that it does."""
    if isinstance(value, (Mapping, BaseModel)):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    return str(value) if isinstance(value, (PurePath, UUID, Decimal)) else f"<{type(value).__name__}>"


class _Plain:
    """Makes a value plain, part by part, however odd it is; each text as `redact` leaves it."""

    def __init__(self, redact: Redact, limit: int = _MAX_PARTS) -> None:
        self._redact, self._left = redact, limit

    def simplify(self, value: Any, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            return "<more>"
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (int, float)):
            text = repr(value)
            is_plain = self._redact(text) == text and (isinstance(value, float) or abs(value) < _MAX_INT)
            return value if is_plain else self._text(text)
        if isinstance(value, Mapping):
            return {self._text(str(name)): self.simplify(each, depth + 1) for name, each in value.items()}
        if isinstance(value, (Sequence, Set)) and not isinstance(value, (bytes, bytearray, memoryview)):
            return [self.simplify(each, depth + 1) for each in value]
        if is_dataclass(value) and not isinstance(value, type):
            return {each.name: self.simplify(getattr(value, each.name), depth + 1) for each in fields(value)}
        known = _json_default(value)
        return self._text(known) if isinstance(known, str) else self.simplify(known, depth + 1)

    def _text(self, text: str) -> str:
        return self._redact(text.encode(errors="replace").decode())


_LINE = regex(rb'(\{"seq":([0-9]{1,18}),"at":.*)(?:,"hash":"([0-9a-f]{64})"\})', re.DOTALL)
_TAIL = 1 << 16  # bytes that are looked at first for the last line


class RecordFile:
    """A file that rows are appended to, in their order and each once, by whichever process comes first.

    `last` is the number of the last row that is known to be there. What a crash left out is made up for by the next
    row; a new file in place of one that was taken away goes on where that one ended.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.last = path, 0
        self.end: record.Row | None = None  # as it was found
        self._lock = threading.Lock()

    def append(self, rows: Iterable[record.Row]) -> None:
        """Add those of the rows that are not there yet, and wait for the disk."""
        try:
            with self._lock:
                self._append(rows)
        except OSError as error:
            what = f"the record cannot be copied to {self.path.name!r} ({error.strerror}); see audit.file"
            raise ToolError(what, code="unavailable") from error

    def _append(self, rows: Iterable[record.Row]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with open(fd, "r+b") as file:  # noqa: PTH123  by descriptor
            fcntl.flock(fd, fcntl.LOCK_EX)  # given back with the file
            there = self._seek_end(file)
            new = [row for row in rows if row.seq > there]
            file.write(b"".join(b'%s,"hash":"%s"}\n' % (row.text[:-1], row.hash.encode()) for row in new))
            file.flush()
            os.fsync(fd)
            self.last = new[-1].seq if new else there

    def _seek_end(self, file: BinaryIO) -> int:
        """Return the number of the last whole line, and go behind it; half a line that a crash left is cut off."""
        size, tail = file.seek(0, os.SEEK_END), _TAIL
        while True:
            start = file.seek(max(0, size - tail))
            data = file.read()
            end = data.rfind(b"\n") + 1
            begin = data.rfind(b"\n", 0, max(0, end - 1)) + 1
            if begin or not start:
                break
            tail *= 16
        if end != len(data):
            file.truncate(start + end)
        file.seek(start + end)
        if not end:
            return self.last
        row = _row(data[begin : end - 1])
        if row.seq < 0:
            raise ToolError(f"{self.path.name!r} does not end with a row of a record; see audit.file")
        self.end = row
        return row.seq


def rows_in(path: Path) -> Iterator[record.Row]:
    """Yield the rows of such a file as they stand there; what is no row has the number -1."""
    with path.open("rb") as file:
        for line in file:
            yield _row(line[:-1]) if line.endswith(b"\n") else record.Row(-1, line, "")


def _row(line: bytes) -> record.Row:
    found = _LINE.fullmatch(line)
    return record.Row(-1, line, "") if found is None else record.Row(int(found[2]), found[1] + b"}", found[3].decode())


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
        longest: int = ARGUMENT_CHARS,
        file: RecordFile | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._commits, self._redact, self._longest, self._now = commits, redact, longest, now
        self._file = file
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def write(self, entry: record.RecordEntry, /) -> Awaitable[Any]:
        """Take the entry at once; it is on the disk when what is returned was awaited."""
        kind, body = body_of(entry, self._redact, self._longest)
        basis = entry.basis if isinstance(entry, record.Judged) else entry
        grounds = basis.grounds if isinstance(basis, record.Decided | record.Shadowed | Basis) else None
        step = partial(_append_entry, kind, body, self._now(), grounds, self._redact)
        written = self._commits.submit(step, size=len(body))
        return written if self._file is None else asyncio.ensure_future(self._copy(written, self._file))

    async def _copy(self, written: "asyncio.Future[int]", file: RecordFile) -> None:
        """Wait until the file has a row that was written; the first to come copies for all who wait."""
        seq = await written
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if not file.last:
                await in_turn(file.append, ())
                await self._check_file(file)
            while file.last < seq:
                rows = await self._commits.read(partial(_rows, _AFTER, file.last, _PAGE))
                await in_turn(file.append, rows)

    async def _check_file(self, file: RecordFile) -> None:
        """Raise ToolError when a file ends with what the store does not have: it is written behind the store."""
        if (end := file.end) is not None:
            rows = await self._commits.read(partial(_rows, _AFTER, end.seq - 1, 1))
            if rows != [end]:
                file.last = 0  # and so it is asked again
                what = f"{file.path.name!r} ends with row {end.seq}, and the store has no such row: it lost its end"
                raise ToolError(f"{what}; put it back, or name another file in audit.file", code="unavailable")


class SqliteRows:
    """A record in a file, read back; to look at it makes no file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    async def head(self) -> record.Head | None:
        return await self._read(partial(_head, self._file.anchor))

    async def after(self, seq: int, limit: int, /) -> list[record.Row]:
        return await self._read(partial(_rows, _AFTER, seq, limit))

    async def before(self, seq: int, limit: int, /) -> list[record.Row]:
        return await self._read(partial(_rows, _BEFORE, seq, limit))

    async def _read(self, step: Callable[[apsw.Connection], T]) -> T:
        return await in_turn(self._file.transact, step, writes=False)


def _append_entry(
    kind: str, body: str, at: float, grounds: Grounds | None, redact: Redact | None, db: apsw.Connection
) -> int:
    """Add a row behind the last one, and what its decision was made from when that is not there yet."""
    rows = [(kind, body)]
    if grounds is not None:
        db.execute("INSERT OR IGNORE INTO record_grounds VALUES (?)", (grounds.digest,))
        if db.changes():
            rows.insert(0, ("opened", encode_grounds(grounds, redact)))
    head = db.execute("SELECT count, hash FROM record_head").fetchone()
    if head is None:
        raise ToolError("the head of the record is gone; `toolcrib audit verify` says what is left", code="unavailable")
    seq, hash = head
    for kind, body in rows:
        seq += 1
        hash = record.hash_after(hash, record.entry_text(seq, at, kind.encode(), body.encode()))
        db.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?)", (seq, at, kind, body, hash))
    db.execute("UPDATE record_head SET count = ?, hash = ?", (seq, hash))
    return int(seq)


def _head(anchor: Anchor | None, db: apsw.Connection) -> record.Head | None:
    there = anchor.read() if anchor is not None else None  # before the rows, which are written first
    found = db.execute(_HEAD).fetchone()
    if found is None:
        return None
    is_told = there is None and (anchor is None or not commits_in(db))
    known = (0, record.NOTHING) if is_told else None if there is None else (there.rows, there.hash)
    return record.Head(found[0], found[1].decode("latin-1"), found[2] or 0, known)


def _rows(sql: str, seq: int, limit: int, db: apsw.Connection) -> list[record.Row]:
    found = db.execute(sql, (seq, limit))
    return [
        record.Row(seq, record.entry_text(seq, at, kind, body), hash.decode("latin-1"))
        for seq, at, kind, body, hash in found
    ]
