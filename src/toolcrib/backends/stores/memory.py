"""Stores that live as long as the process: for programs that keep nothing, and for trying things out."""

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from toolcrib.define.errors import ToolError
from toolcrib.define.log import Line, Noted, Order, SessionHead, check_lines, head_after, went_on
from toolcrib.define.record import RecordEntry
from toolcrib.define.session import check_key

from .sessions_json import line_from_json, line_to_json

_MAX_ENTRIES, _MAX_BYTES = 10_000, 64 << 20  # what is kept before the oldest gives way
_MAX_SESSIONS = 10_000


class MemoryRecord:
    """The last entries, oldest first."""

    def __init__(self) -> None:
        self.entries: deque[RecordEntry] = deque(maxlen=_MAX_ENTRIES)

    def write(self, entry: RecordEntry, /) -> None:
        self.entries.append(entry)


class InMemoryBlobs:
    """Big values by content hash, the oldest forgotten when they grow too many."""

    def __init__(self, most: int = _MAX_BYTES) -> None:
        self._most, self._size = most, 0
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes, /) -> str:
        key = hashlib.sha256(data).hexdigest()
        if key not in self._kept:
            self._kept[key] = data
            self._size += len(data)
            while self._size > self._most and len(self._kept) > 1:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
        return key

    async def get(self, key: str, /) -> bytes:
        if key not in self._kept:
            raise ToolError(f"nothing is kept under {key[:64]!r} any more", code="not_found")
        return self._kept[key]


class _Session:
    """A log, its ids, and its head as it was at the last look."""

    __slots__ = ("_head", "ids", "lines")

    def __init__(self, head: SessionHead) -> None:
        self._head = replace(head, count=0)
        self.lines: list[Line] = []
        self.ids: set[str] = set()

    def head(self) -> SessionHead:
        if self._head.count < len(self.lines):
            self._head = head_after(self._head, self.lines[self._head.count :])
        return self._head

    def rename(self, key: str) -> None:
        self._head = replace(self._head, key=key)

    def append(self, lines: Sequence[Line]) -> None:
        check_lines(lines, self.ids.__contains__)
        # a plugin's data may change: it is copied, as a file would give it back
        kept = [line_from_json(line_to_json(line)) if type(line.body) is Noted else line for line in lines]
        self.lines.extend(kept)
        self.ids.update([line.id for line in kept])


class MemorySessions:
    """A SessionStore for programs that keep nothing, and for tests. Nothing in it waits, so every step is whole."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    async def add(self, head: SessionHead, lines: Sequence[Line], /) -> SessionHead:
        if check_key(head.key) in self._sessions:
            raise ToolError(f"there is a session {head.key!r} already; choose another key", code="exists")
        session = _Session(head)
        session.append(lines)
        return self._keep(session)

    async def make(self, head: SessionHead, /) -> SessionHead:
        known = self._sessions.get(check_key(head.key))
        return self._keep(_Session(head)) if known is None else known.head()

    async def find(self, key: str, /) -> SessionHead | None:
        known = self._sessions.get(check_key(key))
        return None if known is None else known.head()

    async def rename(self, old: str, new: str, /) -> bool:
        known = self._sessions.get(check_key(old))
        if known is None or check_key(new) in self._sessions:
            return False
        known.rename(new)
        self._sessions[new] = self._sessions.pop(old)
        return True

    async def list(self, *, most: int = 100, order: Order = "changed") -> tuple[SessionHead, ...]:
        heads = [session.head() for session in reversed(self._sessions.values())]
        heads.sort(key=lambda head: head.changed_at if order == "changed" else head.made_at, reverse=True)
        return tuple(heads[: max(most, 0)])

    async def lines(self, key: str, /) -> tuple[Line, ...]:
        known = self._sessions.get(check_key(key))
        return () if known is None else tuple(known.lines)

    def append(self, key: str, lines: Sequence[Line], /, *, at: int) -> None:
        session = self._sessions.get(key)
        if session is None:
            check_key(key)
            raise ToolError(f"there is no session {key!r}; it was never made, or it was deleted", code="not_found")
        if len(session.lines) != at:
            raise went_on(key, len(session.lines), at)
        session.append(lines)

    async def delete(self, key: str, /) -> bool:
        return self._sessions.pop(check_key(key), None) is not None

    def _keep(self, session: _Session) -> SessionHead:
        if len(self._sessions) >= _MAX_SESSIONS:
            raise ToolError(f"{_MAX_SESSIONS} sessions are kept already; delete one", code="busy")
        head = session.head()
        self._sessions[head.key] = session
        return head
