"""Stores that live as long as the process: for programs that keep nothing, and for trying things out."""

import hashlib
from collections import deque

from toolcrib.define.errors import ToolError
from toolcrib.define.record import Entry

__all__ = ["MemoryBlobs", "MemoryRecord"]

_ENTRIES, _BYTES = 10_000, 64 << 20  # what is kept before the oldest gives way


class MemoryRecord:
    """The last entries, oldest first."""

    def __init__(self, most: int = _ENTRIES) -> None:
        self.entries: deque[Entry] = deque(maxlen=most)

    def write(self, entry: Entry, /) -> None:
        self.entries.append(entry)


class MemoryBlobs:
    """Big values by content hash, the oldest forgotten when they grow too many."""

    def __init__(self, most: int = _BYTES) -> None:
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
