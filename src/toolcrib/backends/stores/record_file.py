"""The record as lines of JSON in a file of its own, for whoever carries logs elsewhere; every line has its hash."""

import fcntl
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from toolcrib.define.chain import Row
from toolcrib.define.errors import ToolError

__all__ = ["RecordFile", "rows_in"]

_LINE = re.compile(rb'(\{"seq":([0-9]{1,18}),"at":.*)(?:,"hash":"([0-9a-f]{64})"\})', re.DOTALL)
_TAIL = 1 << 16  # bytes that are looked at first for the last line


class RecordFile:
    """A file that rows are appended to, in their order and each once, by whichever process comes first.

    `last` is the number of the last row that is known to be there. What a crash left out is made up for by the next
    row; a new file in place of one that was taken away goes on where that one ended.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.last = path, 0
        self._lock = threading.Lock()

    def append(self, rows: Iterable[Row]) -> None:
        """Add those of the rows that are not there yet, and wait for the disk."""
        try:
            with self._lock:
                self._append(rows)
        except OSError as error:
            what = f"the record cannot be copied to {self.path.name!r} ({error.strerror}); see audit.file"
            raise ToolError(what, code="unavailable") from error

    def _append(self, rows: Iterable[Row]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with open(fd, "r+b") as file:  # noqa: PTH123  by descriptor
            fcntl.flock(fd, fcntl.LOCK_EX)  # given back with the file
            there = self._found(file)
            new = [row for row in rows if row.seq > there]
            file.write(b"".join(b'%s,"hash":"%s"}\n' % (row.text[:-1], row.hash.encode()) for row in new))
            file.flush()
            os.fsync(fd)
            self.last = new[-1].seq if new else there

    def _found(self, file: BinaryIO) -> int:
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
            raise ToolError(f"{self.path.name!r} does not end with a row of a record; see audit.file", code="failed")
        return row.seq


def rows_in(path: Path) -> Iterator[Row]:
    """Yield the rows of such a file as they stand there; what is no row has the number -1."""
    with path.open("rb") as file:
        for line in file:
            yield _row(line[:-1]) if line.endswith(b"\n") else Row(-1, line, "")


def _row(line: bytes) -> Row:
    found = _LINE.fullmatch(line)
    return Row(-1, line, "") if found is None else Row(int(found[2]), found[1] + b"}", found[3].decode())
