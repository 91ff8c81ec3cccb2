"""The anchor of a store: how far it was at the last acknowledged commit, in a small file beside it.

A database that lost its end looks like one that never had it: SQLite takes what is left of a write-ahead file for the
whole. So before a commit is acknowledged, its number and the head of the record are written here, too, and what is
opened later has to hold at least that. A crash before it is written leaves more in the store than it says, never less.
"""

import fcntl
import hashlib
import os
import threading
import weakref
from pathlib import Path
from typing import NamedTuple

from toolcrib.backends.files.stage import sync_folder
from toolcrib.define.record import NOTHING

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
        self._fd, self._syncing = -1, threading.Thread()

    def read(self) -> AnchoredState | None:
        """Return what the file says; None when it is not there or was spoiled."""
        try:
            return _parse(self.path.read_bytes())
        except (FileNotFoundError, IsADirectoryError):
            return None

    def open(self) -> None:
        """Make the file ready to be written, before something depends on it."""
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._let_go = weakref.finalize(self, os.close, self._fd)  # forgotten without a word, it leaves none open
            if self._write(AnchoredState(0, 0, NOTHING)):
                os.fsync(self._fd)
                sync_folder(self.path.parent)

    def advance(self, state: AnchoredState) -> None:
        """Say that the store has come so far. The disk is not waited for: that takes as long as the commit itself.

        So after a kill it is exact, and where the power goes it may be a commit behind.
        """
        self._write(state)
        if not self._syncing.is_alive():  # else it is synced with the next, or when it is closed
            self._syncing = threading.Thread(target=self._sync, daemon=True)
            self._syncing.start()

    def _sync(self) -> None:  # a method of its own, so that it stays in one place
        os.fdatasync(self._fd)

    def _write(self, state: AnchoredState) -> bool:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            there = _parse(os.pread(self._fd, _BYTES, 0))
            if there is not None and there.commits >= state.commits:
                return False
            text = f"{state.commits} {state.rows} {state.hash}"
            os.pwrite(self._fd, f"{text} {_sum(text)}".ljust(_BYTES - 1).encode() + b"\n", 0)
            return True
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._syncing.ident is not None:
            self._syncing.join()
            os.fdatasync(self._fd)
        if self._fd >= 0:
            self._let_go()
        self._fd, self._syncing = -1, threading.Thread()


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parse(data: bytes) -> AnchoredState | None:
    commits, rows, hash, sum, *_ = [*data.decode("latin-1").split(), "", "", "", ""]
    is_whole = bool(sum) and _sum(f"{commits} {rows} {hash}") == sum
    return AnchoredState(int(commits), int(rows), hash) if is_whole else None
