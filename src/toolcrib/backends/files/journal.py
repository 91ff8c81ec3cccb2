"""Several files changed as one, also across a crash.

What is about to be moved is written down first, outside of the workspace: nothing that lies in a workspace is obeyed.
What lies among the records and is not of the form that we write is set aside, not obeyed either.
Then every new content takes its place by a rename that keeps the old file in the stage. Marking the record as done is
the moment the change has happened. A record found at the next start that is not marked belongs to a change that did
not: it is undone.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import stat as kinds
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from toolcrib.define.errors import ToolError
from toolcrib.lazy import dataclass, regex

from . import stage as staging
from .beneath import Beneath, stat_name

_PATIENCE = 10.0  # seconds to wait for another process that changes the same workspace
_PAUSE = 0.01
_RECORD_NAME = regex(r"[0-9a-f]{16}\.(?:json|new|done)")
_MAX_RECORD_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class FileStep:
    """One file to be written or, with no data, deleted; `before` is the file that was found there."""

    path: str
    data: bytes | None
    before: os.stat_result | None
    like: os.stat_result | None = None


class ChangeJournal:
    """The records of one workspace: a folder below `state`, named after the root."""

    def __init__(self, state: Path, beneath: Beneath) -> None:
        self._folder = state / hashlib.sha256(os.fsencode(beneath.path)).hexdigest()[:32]
        self._beneath = beneath

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other changes of this workspace out, also those of other processes."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fd = os.open("lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise ToolError(
                f"the crib cannot keep its journal in {str(self._folder)!r} ({error.strerror}), so nothing was changed",
            ) from error
        try:
            _wait_for(fd)
            yield
        finally:
            os.close(fd)

    def clear_up(self) -> None:
        """Undo and sweep what a crash left, if there is anything: to be called when the root is opened."""
        if self._folder.is_dir():
            with self.lock():
                self.recover()
        staging.remove_stale_stages(self._beneath.fd)

    def recover(self) -> None:
        """Undo what a crash left half done; to be called under the lock."""
        for path in sorted(each for each in self._folder.iterdir() if _RECORD_NAME.fullmatch(each.name)):
            if path.suffix == ".new" and not path.is_dir():  # the crash came before anything was moved
                path.unlink()
                continue
            record = _read_record(path)
            if record is None:
                path.rename(path.with_suffix(".odd"))
                continue
            if record["root"] != _identity(os.fstat(self._beneath.fd)):
                path.unlink()  # of another folder that had this name before
                continue
            with staging.open_left_over(self._beneath.fd, record["stage"]) as stage:
                if stage is not None and path.suffix == ".json":
                    self._undo(record, stage)
            self._forget(path, record)

    def apply(self, folders: Sequence[str], steps: Sequence[FileStep]) -> list[os.stat_result | None]:
        """Make the folders, outermost first, then take the steps: all of them or none. To be called under the lock."""
        root = self._beneath.fd
        with staging.stage(root) as own:
            staged = [None if step.data is None else own.write(step.data, step.like or step.before) for step in steps]
            record = {
                "root": _identity(os.fstat(root)),
                "stage": own.name,
                "folders": list(folders),
                "steps": [_row(step, new) for step, new in zip(steps, staged, strict=True)],
            }
            own.sync()
            path = self._write_record(record)
            try:
                own.keep()
                written = self._take(own.folder, record, steps, staged)
                path.rename(path.with_suffix(".done"))
                staging.sync_folder(self._folder)
            except BaseException:
                self._undo(record, own.folder)  # when this fails too, the record stays and the next start tries again
                self._forget(path, record)
                raise
        self._forget(path, record)
        return written

    def _forget(self, path: Path, record: Any) -> None:
        """Remove what was put aside, then the record; when that fails the next start tries again."""
        done = path.with_suffix(".done")
        if path.exists():  # undone, and not to be undone again
            path.rename(done)
        if staging.remove_stage(self._beneath.fd, record["stage"]):
            with suppress(OSError):
                done.unlink()

    def _take(
        self, stage: int, record: Any, steps: Sequence[FileStep], staged: Sequence[staging.StagedFile | None]
    ) -> list[os.stat_result | None]:
        written = list[os.stat_result | None]()
        for folder in record["folders"]:
            with self._beneath.place(folder) as place:
                os.mkdir(place.name, dir_fd=place.folder)
        for row, step, new in zip(record["steps"], steps, staged, strict=True):
            with self._beneath.place(step.path, follow=False) as place:
                _take_one(stage, row, step, place.name, place.folder)
                written.append(staging.stat_moved(new.stat, place.name, place.folder) if new else None)
        changed = (*record["folders"], *(step.path for step in steps))
        for folder in {path.rpartition("/")[0] or "." for path in changed}:
            fd = self._beneath.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                staging.sync_folder(fd)
            finally:
                os.close(fd)
        return written

    def _undo(self, record: Any, stage: int) -> None:
        for row in reversed(record["steps"]):
            try:
                with self._beneath.place(row["path"], follow=False) as place:
                    _undo_one(stage, row, place.name, place.folder)
                    staging.sync_folder(place.folder)
            except ToolError as error:
                if error.code != "not_found":  # a folder on the way had not been made yet
                    raise
        for folder in reversed(record["folders"]):
            with suppress(ToolError), self._beneath.place(folder, follow=False) as place:
                os.rmdir(place.name, dir_fd=place.folder)

    def _write_record(self, record: Any) -> Path:
        path = self._folder / f"{secrets.token_hex(8)}.json"
        new = path.with_suffix(".new")
        try:
            staging.write_synced(new, json.dumps(record).encode())
            new.rename(path)
            staging.sync_folder(self._folder)
        except BaseException:
            new.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise
        return path


def _read_record(path: Path) -> Any:
    """Return a record; None for a forged one: its names could lead anywhere."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            return None
        raise
    try:
        found = os.fstat(fd)
        if not kinds.S_ISREG(found.st_mode) or found.st_size > _MAX_RECORD_BYTES:
            return None
        with open(fd, "rb", closefd=False) as file:
            record = json.loads(file.read(_MAX_RECORD_BYTES))
    except (ValueError, RecursionError):
        return None
    finally:
        os.close(fd)
    return record if _is_record(record) else None


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or not staging.is_stage_name(record.get("stage")):
        return False
    folders, steps = record.get("folders"), record.get("steps")
    return (
        isinstance(record.get("root"), list)
        and isinstance(folders, list)
        and all(isinstance(folder, str) for folder in folders)
        and isinstance(steps, list)
        and all(isinstance(row, dict) and _is_row(row) for row in steps)
    )


def _is_row(row: Mapping[str, Any]) -> bool:
    new, inode = row.get("new"), row.get("inode")
    is_new = staging.is_staged_name(new) and isinstance(inode, int)
    return (
        isinstance(row.get("path"), str) and staging.is_staged_name(row.get("old")) and (is_new or new is inode is None)
    )


def _row(step: FileStep, new: staging.StagedFile | None) -> Mapping[str, Any]:
    name, inode = (None, None) if new is None else (new.name, new.stat.st_ino)
    return {"path": step.path, "new": name, "inode": inode, "old": secrets.token_hex(8)}


def _take_one(stage: int, row: Any, step: FileStep, name: str, folder: int) -> None:
    if step.before is None:
        staging.rename_new(row["new"], stage, name, folder)
        return
    if step.data is None:
        os.rename(name, row["old"], src_dir_fd=folder, dst_dir_fd=stage)
    elif staging.exchange(row["new"], stage, name, folder):
        os.rename(row["new"], row["old"], src_dir_fd=stage, dst_dir_fd=stage)
    else:
        os.link(name, row["old"], src_dir_fd=folder, dst_dir_fd=stage, follow_symlinks=False)
        os.rename(row["new"], name, src_dir_fd=stage, dst_dir_fd=folder)
    old = os.stat(row["old"], dir_fd=stage, follow_symlinks=False)
    if staging.version_of(old, moved=True) != staging.version_of(step.before, moved=True):
        raise ToolError(f"{step.path!r} changed at this very moment; read it again", code="changed")


def _undo_one(stage: int, row: Any, name: str, folder: int) -> None:
    """Put one file back, whatever of its step was done."""
    old, now = stat_name(row["old"], stage), stat_name(name, folder)
    new = stat_name(row["new"], stage) if row["new"] is not None else None
    if old is not None:
        os.rename(row["old"], name, src_dir_fd=stage, dst_dir_fd=folder)
    elif new is not None and new.st_ino != row["inode"]:  # exchanged: the old file has the new one's name
        os.rename(row["new"], name, src_dir_fd=stage, dst_dir_fd=folder)
    elif new is None and now is not None and now.st_ino == row["inode"]:
        os.unlink(name, dir_fd=folder)


def _identity(found: os.stat_result) -> list[int]:
    return [found.st_dev, found.st_ino]


def _wait_for(fd: int) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise ToolError("another process is changing this workspace; try again", code="busy") from None
        time.sleep(_PAUSE)
