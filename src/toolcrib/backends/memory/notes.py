"""The files of a memory: listed by a walk that follows no link, and read beneath the folder that they were found in."""

import os
import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.os_errors import as_tool_errors
from toolcrib.define.errors import ToolError
from toolcrib.define.memory import MemoryPlaces

MAX_NOTES, NOTE_BYTES = 50_000, 4 << 20
_MAX_DEPTH = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TICK = 100_000_000  # nanoseconds in which a file may change twice and look the same


class Note(NamedTuple):
    """A file of a memory: its path as it is shown, what changes when it does, and where it is opened."""

    path: str
    version: str
    root: Path
    name: str


@dataclass(slots=True)
class NoteList:
    """The files that there are now, by path, and how many were left out for which reason."""

    notes: dict[str, Note] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def add_folder(self, root: Path, prefix: str, *, top: tuple[str, ...] | None = None) -> None:
        """Add what lies in a folder, of its own entries only those in `top`; one that is not there holds nothing."""
        try:
            fd = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            self.left_out["cannot be opened"] += 1
            return
        try:
            for name, found in self._walk(fd, "", top):
                self._add(root, name, f"{prefix}{name}", found)
        finally:
            os.close(fd)

    def add_file(self, path: Path, shown: str) -> None:
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            self._add(path.parent, path.name, shown, found)

    def _walk(self, fd: int, prefix: str, top: tuple[str, ...] | None) -> Iterator[tuple[str, os.stat_result]]:
        """Give the Markdown files below an open folder; what has a name with a dot before it is left alone."""
        folders = []
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(".") or (top is not None and name not in top):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif name[-3:].lower() == ".md" and entry.is_file(follow_symlinks=False):
                    yield prefix + name, entry.stat(follow_symlinks=False)
        for name in sorted(folders):
            if prefix.count("/") >= _MAX_DEPTH:
                self.left_out["lie too deep"] += 1
                continue
            try:
                below = os.open(name, _FOLDER, dir_fd=fd)
            except OSError:
                self.left_out["cannot be opened"] += 1
                continue
            try:
                yield from self._walk(below, f"{prefix}{name}/", None)
            finally:
                os.close(below)

    def _add(self, root: Path, name: str, shown: str, found: os.stat_result) -> None:
        if (key := (found.st_dev, found.st_ino)) in self._seen:
            return
        if reason := self._refuse(shown, found):
            self.left_out[reason] += 1
            return
        self._seen.add(key)
        self.notes[shown] = Note(shown, _version(found), root, name)

    def _refuse(self, shown: str, found: os.stat_result) -> str:
        if found.st_nlink > 1:
            return "have a second name (a hard link)"
        if found.st_size > NOTE_BYTES:
            return f"are larger than {NOTE_BYTES >> 20} MiB"
        if not shown.isprintable() and not _is_text(shown):
            return "have a name that is no text"
        return f"are beyond the first {MAX_NOTES}" if len(self.notes) >= MAX_NOTES else ""

    def describe(self) -> str:
        """Return what was left out as one sentence, "" for nothing."""
        reasons = ", ".join(f"{count} that {reason}" for reason, count in sorted(self.left_out.items()))
        return f"not searched: {reasons}" if reasons else ""


def list_notes(places: MemoryPlaces) -> NoteList:
    """Return the files of a memory as they stand on disk now."""
    listed = NoteList()
    listed.add_folder(places.folder, "", top=("MEMORY.md", "memory.md", "memory"))
    for extra in places.extra:
        path = places.folder / extra
        shown = path.relative_to(places.folder) if path.is_relative_to(places.folder) else path
        try:
            if path.is_symlink():
                continue
            if path.is_dir():
                listed.add_folder(path, "" if path == places.folder else f"{shown.as_posix()}/")
            elif path.suffix.lower() == ".md":
                listed.add_file(path, shown.as_posix())
        except FileNotFoundError:
            continue
        except OSError:
            listed.left_out["cannot be opened"] += 1
    return listed


def read_note(note: Note) -> tuple[str, str]:
    """Return the text of a file and its version, "" while it may still change unseen; raise ToolError for no file."""
    with as_tool_errors(note.path), closing(Beneath(os.fspath(note.root))) as beneath:
        fd = beneath.open(note.name, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > NOTE_BYTES:
                raise ToolError(f"{note.path!r} is no longer a file that can be searched", code="denied")
            now = time.time_ns()
            with open(fd, "rb", closefd=False) as file:
                data = file.read(NOTE_BYTES)
        finally:
            os.close(fd)
    is_settled = abs(now - found.st_ctime_ns) > _TICK
    return data.decode("utf-8-sig", "replace"), _version(found) if is_settled else ""


def _version(found: os.stat_result) -> str:
    """Return what changes with a file: the time of its last change is the system's own, and cannot be set."""
    return f"{found.st_ctime_ns} {found.st_size} {found.st_ino}"


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
