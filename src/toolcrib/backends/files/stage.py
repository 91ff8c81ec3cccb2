"""New contents, written out and synced before they take their place by a rename.

They are written next to the root's own files (or, on another disk mounted below it, beside the target), under names
that begin with STAGE, and are there only for that moment. A writer holds a lock on what it has there: what is not
locked was left by a crash, and is swept away at the next start. What a change of several files has put aside (`.undo`)
is never swept: only the journal knows whether it has to go back.
"""

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat as kinds
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from toolcrib.lazy import dataclass, regex

from .beneath import stat_name

STAGE = ".toolcrib-stage"

_UNDO = ".undo"
_FILE_NAME = regex(r"[0-9a-f]{16}")
_STAGE_NAME = regex(rf"{re.escape(STAGE)}-[0-9a-f]{{16}}")
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOREPLACE, _EXCHANGE = 1, 2
_TRIES = 20


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file in the stage, complete and synced."""

    folder: int
    name: str
    stat: os.stat_result


@contextmanager
def stage_file(folder: int, data: bytes, like: os.stat_result | None) -> Iterator[StagedFile]:
    """Give a new file in the folder, to be renamed; it is removed at the end when it is still there.

    It takes over the permissions and, where allowed, the owner of the file it is like.
    """
    fd, name = _make_locked(lambda name: os.open(name, _CREATE, 0o666, dir_fd=folder))
    try:
        _fill(fd, data, like)
        yield StagedFile(folder, name, os.fstat(fd))
    finally:
        _unlink(name, folder)
        os.close(fd)


class StageFolder:
    """A folder for the files of one change."""

    def __init__(self, root: int, folder: int, name: str) -> None:
        self._root, self.folder, self.name, self.is_kept = root, folder, name, False

    def write(self, data: bytes, like: os.stat_result | None) -> StagedFile:
        name = secrets.token_hex(8)
        fd = os.open(name, _CREATE, 0o666, dir_fd=self.folder)
        try:
            _fill(fd, data, like)
            return StagedFile(self.folder, name, os.fstat(fd))
        finally:
            os.close(fd)

    def sync(self) -> None:
        """Make sure that what is in it is found again after a power loss."""
        sync_folder(self.folder)
        sync_folder(self._root)

    def keep(self) -> None:
        """From now on leave it to the journal: it holds what may have to go back."""
        os.rename(self.name, self.name + _UNDO, src_dir_fd=self._root, dst_dir_fd=self._root)
        self.is_kept = True


@contextmanager
def stage(root: int) -> Iterator[StageFolder]:
    """Give a new folder to write in; it is removed at the end unless it was left to the journal."""

    def make(name: str) -> int:
        os.mkdir(name, 0o700, dir_fd=root)
        return os.open(name, _OPEN_FOLDER, dir_fd=root)

    own = StageFolder(root, *_make_locked(make))
    try:
        yield own
    finally:
        os.close(own.folder)
        if not own.is_kept:
            remove_stage(root, own.name)


def is_stage_name(name: object) -> bool:
    """Tell whether this can be the name of a stage: nothing else may be put back from or removed."""
    return isinstance(name, str) and _STAGE_NAME.fullmatch(name) is not None


def is_staged_name(name: object) -> bool:
    """Tell whether this can be the name of a file in a stage."""
    return isinstance(name, str) and _FILE_NAME.fullmatch(name) is not None


@contextmanager
def open_left_over(root: int, name: str) -> Iterator[int | None]:
    """Give the folder of a change that a crash has left; None when it is not there."""
    fd = None
    for each in (name + _UNDO, name):
        try:
            fd = os.open(each, _OPEN_FOLDER, dir_fd=root)
            break
        except OSError as error:  # a link or a file was put there by another process
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def remove_stage(root: int, name: str) -> bool:
    """Remove the folder of a change, whether it was kept or not; tell whether it is gone."""
    for each in (name + _UNDO, name):
        shutil.rmtree(each, ignore_errors=True, dir_fd=root)
    with open_left_over(root, name) as fd:
        return fd is None


def remove_stale_stages(root: int) -> None:
    """Remove what a crash left; what another process is writing stays, and so does what the journal has to put back."""
    for name in os.listdir(root):
        if name.startswith(f"{STAGE}-") and not name.endswith(_UNDO):
            _sweep_one(name, root)


def version_of(found: os.stat_result, *, moved: bool = False) -> str:
    """Return a word that differs as soon as the file may have changed; of one that we moved, without what that changes.

    Whoever writes a file can set its time of modification back, but not the time its inode changed.
    """
    word = f"{found.st_dev:x}.{found.st_ino:x}.{found.st_size:x}.{found.st_mtime_ns:x}"
    return word if moved else f"{word}.{found.st_ctime_ns:x}"


def stat_moved(was: os.stat_result, name: str, folder: int) -> os.stat_result:
    """Return a file of ours as it is in its place; as it was, and so no longer up to date, when others were there."""
    now = stat_name(name, folder)
    return now if now and version_of(now, moved=True) == version_of(was, moved=True) else was


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file that only this user can read, and wait until its content is on the disk."""
    fd = os.open(path, _CREATE, 0o600)
    with open(fd, "wb") as file:  # noqa: PTH123  by descriptor
        file.write(data)
        file.flush()
        os.fsync(fd)


def sync_folder(folder: int | Path) -> None:
    """Make the names in a folder survive a power loss."""
    name, above = (".", folder) if isinstance(folder, int) else (folder, None)
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some disks cannot sync a folder
            raise
    finally:
        os.close(fd)


def rename_new(old: str, old_folder: int, new: str, new_folder: int) -> None:
    """Rename, refusing to replace anything."""
    if not _renameat2(old, old_folder, new, new_folder, _NOREPLACE):
        with suppress(FileNotFoundError):
            os.stat(new, dir_fd=new_folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def exchange(one: str, one_folder: int, other: str, other_folder: int) -> bool:
    """Swap two files in one step; False where the disk cannot."""
    return _renameat2(one, one_folder, other, other_folder, _EXCHANGE)


def _renameat2(old: str, old_folder: int, new: str, new_folder: int, flags: int) -> bool:
    if _RENAMEAT2 is None:
        return False
    if _RENAMEAT2(old_folder, os.fsencode(old), new_folder, os.fsencode(new), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number), new)


def _find_renameat2() -> Any:
    with suppress(OSError, AttributeError):
        return ctypes.CDLL(None, use_errno=True).renameat2
    return None


_RENAMEAT2 = _find_renameat2()


def _make_locked(make: Callable[[str], int]) -> tuple[int, str]:
    """Return something new in the stage, open and locked; a sweeper may take away what is not locked yet."""
    for _ in range(_TRIES):
        name = f"{STAGE}-{secrets.token_hex(8)}"
        try:
            fd = make(name)
        except FileNotFoundError:  # a sweeper took it away before it was open
            continue
        if _try_lock(fd) and os.fstat(fd).st_nlink:
            return fd, name
        os.close(fd)  # a sweeper has it, or had it
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def _sweep_one(name: str, root: int) -> None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=root)
    except OSError as error:
        # a link or a socket that was put there, or an unreadable file, as the one it was to replace;
        # otherwise the fault is ours (too many open files), and whether another process writes it is unknown
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EACCES):
            _unlink(name, root)
        return
    try:
        if not _try_lock(fd):  # another process is writing it
            return
        if kinds.S_ISDIR(os.fstat(fd).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=root)  # what is left of it the next start finds
        else:
            _unlink(name, root)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _fill(fd: int, data: bytes, like: os.stat_result | None) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
    if like is not None:
        _take_over(fd, like)
    os.fsync(fd)


def _take_over(fd: int, like: os.stat_result) -> None:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        with suppress(OSError):  # only root may give files away, and not to everybody; the content is what counts
            os.fchown(fd, like.st_uid, like.st_gid)
    os.fchmod(fd, like.st_mode & 0o777)


def _unlink(name: str, folder: int) -> None:
    """Remove a file, if it is still there; where that fails, the next start sweeps it away."""
    with suppress(OSError):  # it took its place by a rename, as a rule; nothing here must hide how the change went
        os.unlink(name, dir_fd=folder)
