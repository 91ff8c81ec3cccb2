"""The files of a memory: listed by a walk that follows no link, and read beneath the folder that they were found in."""

import os
import stat
import time
import weakref
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.disk import Disk, Terms, read_passage
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.backends.files.os_errors import as_tool_errors
from toolcrib.backends.files.tracing import trace_note
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Passage
from toolcrib.define.memory import MemoryPlaces
from toolcrib.lazy import dataclass, field
from toolcrib.threads import in_turn

MAX_NOTES, NOTE_BYTES = 50_000, 4 << 20
_MAX_DEPTH = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TICK = 100_000_000  # nanoseconds in which a file may change twice and look the same


class NoteVersion(NamedTuple):
    """What changes with a file: the time of its last change is the system's own and cannot be set. And its root."""

    changed_ns: int
    size: int
    inode: int
    root: int

    def __str__(self) -> str:
        return f"{self.changed_ns} {self.size} {self.inode}"


@dataclass(slots=True)
class NoteList:
    """The files that there are now, by the path that is shown, and how many were left out for which reason.

    `roots` are the folders that they were found beneath, each with what its path is shown as.
    """

    notes: dict[str, NoteVersion] = field(default_factory=dict)
    roots: list[tuple[Path, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add_folder(self, root: Path, shown: str, top: frozenset[str] | None = None) -> None:
        """Add what lies in a folder, of its own entries only those in `top`; one that is not there holds nothing."""
        try:
            fd = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            self.left_out["cannot be opened"] += 1
            return
        self.roots.append((root, shown))
        try:
            self._walk(fd, shown, top, 0)
        finally:
            os.close(fd)

    def _walk(self, fd: int, prefix: str, top: frozenset[str] | None, depth: int) -> None:
        """Add the Markdown files below an open folder; what has a name with a dot before it is left alone.

        This is done before every search, so what every file costs counts.
        """
        folders, root, notes = [], len(self.roots) - 1, self.notes
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == "." or (top is not None and name not in top):
                    continue
                if not name.isascii() and not _is_text(name):
                    self.left_out["have a name that is no text"] += 1
                elif name[-3:].lower() == ".md" and entry.is_file(follow_symlinks=False):
                    found, path = entry.stat(follow_symlinks=False), prefix + name
                    if found.st_nlink > 1 or found.st_size > NOTE_BYTES or len(notes) >= MAX_NOTES:
                        self.left_out[_describe_odd(found)] += 1
                    elif path not in notes:
                        notes[path] = NoteVersion(found.st_ctime_ns, found.st_size, found.st_ino, root)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
        for name in sorted(folders):
            if depth >= _MAX_DEPTH:
                self.left_out["lie too deep"] += 1
                continue
            try:
                below = os.open(name, _FOLDER, dir_fd=fd)
            except OSError:
                self.left_out["cannot be opened"] += 1
                continue
            try:
                self._walk(below, f"{prefix}{name}/", None, depth + 1)
            finally:
                os.close(below)

    def describe(self) -> str:
        """Return what was left out as one sentence, "" for nothing."""
        reasons = ", ".join(f"{count} that {reason}" for reason, count in sorted(self.left_out.items()))
        return f"not searched: {reasons}" if reasons else ""


def _describe_odd(found: os.stat_result) -> str:
    if found.st_nlink > 1:
        return "have a second name (a hard link)"
    is_large = found.st_size > NOTE_BYTES
    return f"are larger than {NOTE_BYTES >> 20} MiB" if is_large else f"are beyond the first {MAX_NOTES}"


def list_notes(places: MemoryPlaces) -> NoteList:
    """Return the files of a memory as they stand on disk now."""
    listed = NoteList()
    listed.add_folder(places.folder, "", frozenset({"MEMORY.md", "memory.md", "memory"}))
    for extra in places.extra:
        path = places.folder / extra
        is_file = path.suffix.lower() == ".md" and path.is_file()
        folder = path.parent if is_file else path
        if path.is_symlink():
            continue
        inside = folder.is_relative_to(places.folder)
        shown = (folder.relative_to(places.folder) if inside else folder).as_posix()
        listed.add_folder(folder, "" if shown == "." else f"{shown}/", frozenset({path.name}) if is_file else None)
    return listed


def read_note(listed: NoteList, path: str) -> tuple[str, str]:
    """Return the text of a file and its version, "" while it may still change unseen; raise ToolError for no file."""
    root, shown = listed.roots[listed.notes[path].root]
    with as_tool_errors(path), closing(Beneath(os.fspath(root))) as beneath:
        fd = beneath.open(path[len(shown) :], os.O_RDONLY | os.O_NOFOLLOW)
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > NOTE_BYTES:
                raise ToolError(f"{path!r} is no longer a file that can be searched", code="denied")
            now = time.time_ns()
            with open(fd, "rb", closefd=False) as file:
                data = file.read(NOTE_BYTES)
        finally:
            os.close(fd)
    version = NoteVersion(found.st_ctime_ns, found.st_size, found.st_ino, 0)
    is_settled = abs(now - found.st_ctime_ns) > _TICK
    return data.decode("utf-8-sig", "replace"), str(version) if is_settled else ""


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class MemoryFolder:
    """One folder that holds memory; nothing on disk is touched before it is used."""

    def __init__(self, terms: Terms) -> None:
        self._terms, self._disk = terms, Disk(terms)
        self.workspace = LocalWorkspace(self._disk)
        weakref.finalize(self.workspace, self._disk.close)  # a writer holds no more of us than this

    async def make(self) -> None:
        """Make the folder, where it is one that we keep."""
        await in_turn(lambda: self._terms.root.mkdir(mode=0o700, parents=True, exist_ok=True))

    async def lines(self, path: str, first: int, most: int, size: int) -> Passage:
        """Return whole lines of a file that is reached by its own name."""
        return await in_turn(self._lines, path, (first, most, size))

    async def trace(self, path: str) -> Sequence[str] | None:
        """Return what a note goes back to, nothing where a person wrote or accepted it; None where that is unknown."""
        return await in_turn(trace_note, self._disk, path)

    def close(self) -> None:
        """Let go of the root; it is opened again when it is used."""
        self._disk.close()

    def _lines(self, path: str, asked: tuple[int, int, int]) -> Passage:
        with self._disk.open(path) as (fd, found), self._disk.beneath.place(path, follow=False) as place:
            there = place.stat()
            is_same = there is not None and (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
            if place.real != self._disk.spell(path) or not is_same:
                what = f"{quote_short(path, 200)} is reached by a link; memory is read by the names of its own files"
                raise ToolError(what, code="denied")
            return read_passage(fd, self._disk.entry(path, found), asked)[0]
