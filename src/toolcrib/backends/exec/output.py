"""What a command prints: the end of it in memory, the beginning on disk, new bytes to whoever watches.

However much comes, memory holds at most twice the end that is asked for. The disk is touched only by a command that
prints more than that end.
"""

import logging
import os
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress

from toolcrib.define.shell import Limits, Whole

__all__ = ["Output"]

log = logging.getLogger("toolcrib")

_MOST = 1 << 20  # bytes of the end, whatever is asked for

Told = Callable[[bytes], None]


class Output:
    """Bytes in the order they came. `folder` is where the beginning is kept when it grows."""

    def __init__(self, limits: Limits, folder: str | None = None) -> None:
        self._keep = max(1, min(limits.output, _MOST))
        self._most = max(0, limits.whole)
        self._folder = folder
        self._end = bytearray()
        self._watchers: dict[object, Told] = {}
        self._file: int | None = None
        self._path, self._written, self._failed = "", 0, ""
        self.total = 0

    def add(self, data: memoryview) -> None:
        """Take what was printed next."""
        if self._file is not None:
            self._spool(data)
        elif self.total + len(data) > self._keep and not self._path and not self._failed:
            self._open()
            self._spool(memoryview(bytes(self._end)))  # nothing was dropped so far
            self._spool(data)
        self.total += len(data)
        self._end += data if len(data) <= self._keep else data[-self._keep :]
        if len(self._end) > 2 * self._keep:
            del self._end[: -self._keep]
        if self._watchers:
            self._tell(bytes(data))

    def tail(self, most: int | None = None) -> bytes:
        """Return the end of what was printed."""
        count = self._keep if most is None else max(0, min(most, self._keep))
        return bytes(self._end[-count:]) if count else b""

    def since(self, at: int) -> tuple[int, bytes]:
        """Return what was printed from byte `at` on, as far as it is kept, and the byte it begins at."""
        kept = min(len(self._end), self._keep)
        first = min(max(at, self.total - kept), self.total)
        return first, self.tail(self.total - first)

    def whole(self) -> Whole:
        """Return what was printed from the beginning; reads the disk."""
        if not self._path:
            data = bytes(self._end) if self.total <= self._keep else b""
            data = data[: self._most]
        else:
            with open(self._path, "rb") as file:  # noqa: PTH123
                data = file.read(self._most)
        missing = self.total - len(data)
        return Whole(data=data, missing=missing, why=self._why() if missing else "")

    def watch(self, told: Told) -> Callable[[], None]:
        """Call `told` with new output; return what ends that."""
        key = object()
        self._watchers[key] = told
        return lambda: self._watchers.pop(key, None) and None

    def close(self) -> None:
        """Nothing more will come."""
        self._watchers.clear()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _why(self) -> str:
        return self._failed or f"only the first {self._most:,} bytes are kept"

    def _tell(self, data: bytes) -> None:
        for key, told in list(self._watchers.items()):
            try:
                told(data)
            except Exception:  # who watches must not end what is watched
                log.exception("watching a command's output failed; it is not told any more")
                self._watchers.pop(key, None)

    def _open(self) -> None:
        try:
            self._file, self._path = tempfile.mkstemp(prefix=f"output-{os.getpid()}-", dir=self._folder)
        except OSError as error:
            self._failed = f"the disk did not take it ({error.strerror})"
            return
        weakref.finalize(self, _remove, self._path)

    def _spool(self, data: memoryview) -> None:
        if self._file is None:
            return
        data = data[: self._most - self._written]
        try:
            while data:
                count = os.write(self._file, data)
                self._written += count
                data = data[count:]
        except OSError as error:
            self._failed = f"the disk did not take it ({error.strerror})"
        if self._failed or self._written >= self._most:
            os.close(self._file)
            self._file = None


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108
