"""The anchor of a store: how far it was at the last acknowledged commit, in a small file beside it.

A database that lost its end looks like one that never had it: SQLite takes what is left of a write-ahead file for the
whole. So before a commit is acknowledged, its number and the head of the record are written here, too, and what is
opened later has to hold at least that. A crash before it is written leaves more in the store than it says, never less.
"""

import fcntl
import hashlib
import logging
import os
import threading
import weakref
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from toolcrib.backends.files.stage import sync_folder
from toolcrib.define.record import NOTHING

log = logging.getLogger("toolcrib")

_BYTES = 256  # written at once, and fewer than a disk writes whole


class AnchoredState(NamedTuple):
    """A state of the store: how many commits, and how many rows of the record with which hash."""

    commits: int
    rows: int
    hash: str


class Anchor:
    """The file; several processes may write it, and it never goes back."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(f"{store.name}-anchor")
        self._file: _AnchorFile | None = None

    def read(self) -> AnchoredState | None:
        """Return what the file says; None when it is not there or was spoiled."""
        try:
            return _parse(self.path.read_bytes())
        except (FileNotFoundError, IsADirectoryError):
            return None

    def open(self) -> None:
        """Make the file ready to be written, before something depends on it."""
        if self._file is None:
            self._file = file = _AnchorFile(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._let_go = weakref.finalize(self, file.let_go)  # forgotten without a word, it leaves none open
            if file.write(AnchoredState(0, 0, NOTHING)):
                os.fsync(file.fd)
                sync_folder(self.path.parent)

    def advance(self, state: AnchoredState) -> None:
        """Say that the store has come so far. The disk is not waited for: that takes as long as the commit itself.

        So after a kill it is exact, and where the power goes it may be a commit behind.
        """
        assert self._file is not None, "open it first"
        self._file.write(state)
        self._file.sync_soon()

    def close(self) -> None:
        if self._file is not None:
            self._let_go()
            self._file.wait_closed()
        self._file = None


class _AnchorFile:
    """The open file, and the thread that syncs it: made once, since to make one takes longer than a commit."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._bell: SimpleQueue[bool] = SimpleQueue()  # whether to go on
        self._has_rung = False
        self._thread: threading.Thread | None = None

    def sync_soon(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="toolcrib-anchor", daemon=True)
            self._thread.start()
        if not self._has_rung:  # else it is synced with that one
            self._has_rung = True
            self._bell.put(True)

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            goes_on = self._bell.get()
            self._has_rung = False
            try:
                os.fdatasync(self.fd)
            except OSError:
                log.exception("the anchor of a store could not be synced; it is tried again with the next commit")
        os.close(self.fd)

    def let_go(self) -> None:
        """Close it once all is synced, in that thread, so that nobody waits."""
        if self._thread is None:
            os.close(self.fd)
        else:
            self._bell.put(False)

    def wait_closed(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def write(self, state: AnchoredState) -> bool:
        fcntl.flock(self.fd, fcntl.LOCK_EX)
        try:
            there = _parse(os.pread(self.fd, _BYTES, 0))
            if there is not None and there.commits >= state.commits:
                return False
            text = f"{state.commits} {state.rows} {state.hash}"
            os.pwrite(self.fd, f"{text} {_sum(text)}".ljust(_BYTES - 1).encode() + b"\n", 0)
            return True
        finally:
            fcntl.flock(self.fd, fcntl.LOCK_UN)


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parse(data: bytes) -> AnchoredState | None:
    commits, rows, hash, sum, *_ = [*data.decode("latin-1").split(), "", "", "", ""]
    is_whole = bool(sum) and _sum(f"{commits} {rows} {hash}") == sum
    return AnchoredState(int(commits), int(rows), hash) if is_whole else None
