"""A pinned root on disk and what may be read beneath it. Plain functions: the workspace runs them in threads."""

import os
import stat as kinds
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import platformdirs

from toolcrib.define.errors import ToolError
from toolcrib.define.files import (
    Entry,
    EntryKind,
    Listing,
    Passage,
    fold_path,
    hash_content,
    in_order,
    join_parts,
    plain,
)
from toolcrib.lazy import dataclass, field, replace

from .beneath import Beneath
from .guard import Access, WorkspaceGuard
from .journal import ChangeJournal
from .origins import NOTHING_KNOWN, FileOrigins
from .os_errors import as_tool_errors
from .stage import STAGE, version_of

FOREIGN = ("inbox", "downloads")  # at the root of a workspace: what came with messages, and what pages gave

LineMark = tuple[int, int]  # a line, counted from 1, and the byte it begins at

_BLOCK = 1 << 20
_COUNTED = 8 << 20  # files up to this size are counted to their end
_MAX_DIGESTED = 1 << 20  # bytes of a file whose content is compared when only its times changed


def read_passage(
    fd: int, entry: Entry, asked: tuple[int, int, int], known: LineMark = (1, 0)
) -> tuple[Passage, LineMark]:
    """Return the lines asked for (first, most, size), and where the line after them begins.

    `known` is a mark from an earlier passage of this version of the file: the count goes on from there.
    """
    first, max_lines, size = asked
    pos, before = _seek(fd, first, known if known[0] <= first else (1, 0))
    if before < first - 1:
        return Passage(data=b"", first=first, count=0, more=False, total=before, entry=entry), (1, 0)
    data = _read(fd, size + 1, pos)  # the end of the last line does not count
    taken, count = _whole_lines(data, max_lines, at_end=pos + len(data) >= entry.size and data[size:] in (b"", b"\n"))
    end = pos + taken
    more = end < entry.size
    long = _seek(fd, 2, (1, pos))[0] - pos if more and max_lines and not count else None
    total = first - 1 + count if not more else None
    if more and entry.size <= _COUNTED:
        total = first - 1 + count + _seek(fd, sys.maxsize, (1, end))[1]
    found = Passage(data=data[:taken], first=first, count=count, more=more, total=total, entry=entry, long=long)
    return found, (first + count, end)


def _seek(fd: int, first: int, known: LineMark) -> tuple[int, int]:
    """Return where line `first` begins and how many lines come before; where the file ends earlier, its end and lines.

    The count goes on from `known`.
    """
    line, pos = known
    block = bytearray(_BLOCK)
    while line < first and (read := os.preadv(fd, [block], pos)):
        here = block.count(b"\n", 0, read)
        if line + here >= first:
            return pos + _offset_after(block, first - line, read), first - 1
        line, pos = line + here, pos + read
    if line == first:
        return pos, first - 1
    return pos, line - 1 + (pos > 0 and os.pread(fd, 1, pos - 1) != b"\n")


def _offset_after(block: bytearray, wanted: int, end: int) -> int:
    """Return the place behind the `wanted`-th newline, halving the block instead of going from one to the next."""
    start = 0
    while end - start > 4_096:
        middle = (start + end) // 2
        here = block.count(b"\n", start, middle)
        if here >= wanted:
            end = middle
        else:
            start, wanted = middle, wanted - here
    for _ in range(wanted):
        start = block.index(b"\n", start) + 1
    return start


def _whole_lines(data: bytes, max_lines: int, *, at_end: bool) -> tuple[int, int]:
    """Return how many bytes of the data are whole lines, at most `most`, and how many lines."""
    end = len(data) if at_end else data.rfind(b"\n") + 1
    count = data.count(b"\n", 0, end) + (end > 0 and data[end - 1 : end] != b"\n")
    if count <= max_lines:
        return end, count
    end = _offset_after(bytearray(data[:end]), max_lines, end) if max_lines > 0 else 0
    return end, max(max_lines, 0)


MAX_READ_BYTES = 64 << 20  # bytes that are held at once
_MAX_NAMES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a workspace is opened with: globs of protected and of linked files, the crib's own files, its state.

    `code` is what the crib loads: it may be read, and never changed. `others` are the roots of all workspaces, which
    may lie in this one; `origins` knows which files hold words from outside.
    `inbox` is the only folder of `inbox/` that is there for who is not the owner, "" for the owner.
    `refusal` says why this folder is none; then nothing in it is touched.
    """

    root: Path
    access: Access = "rw"
    protected: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    own: tuple[Path, ...] = ()
    code: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()
    refusal: str = ""
    inbox: str = field(default="", compare=False)
    origins: FileOrigins = field(default=NOTHING_KNOWN, compare=False, repr=False)
    state: Path = field(default_factory=lambda: platformdirs.user_state_path("toolcrib", appauthor=False))


class Disk:
    """The files beneath one root. It is opened, and what a crash left is cleared up, at the first use."""

    def __init__(self, terms: Terms, *, kernel: bool | None = None) -> None:
        self._terms, self._kernel = terms, kernel
        self._lock = threading.Lock()
        self._pinned: Beneath | None = None
        self._followed: Disk | None = None

    @cached_property
    def strict(self) -> "Disk":
        """The same files, by paths that no link is followed in."""
        strict = Disk(self._terms, kernel=self._kernel)
        strict._followed = self
        return strict

    @property
    def beneath(self) -> Beneath:
        if self._followed is not None:
            return self._followed.beneath.without_links()
        with self._lock:
            if self._pinned is None:
                self._pinned = self._pin()
            return self._pinned

    @cached_property
    def guard(self) -> WorkspaceGuard:
        root = self.beneath.path
        kept = (*self._terms.own, *self._terms.code, self._terms.state)
        own = (os.path.relpath(os.path.realpath(path), root) for path in kept)
        inside = [path for path in own if path != ".." and not path.startswith("../")]
        return WorkspaceGuard.of(self._terms.access, self._terms.protected, self._terms.linked, inside)

    @cached_property
    def journal(self) -> ChangeJournal:
        return ChangeJournal(self._terms.state, self.beneath)

    @property
    def origins(self) -> FileOrigins:
        return self._terms.origins

    @cached_property
    def foreign(self) -> tuple[str, ...]:
        """Folders below the root, as they are shown, in which files of others lie."""
        root = self.beneath.path
        roots = {os.path.realpath(each) for each in (root, *map(str, self._terms.others))}
        paths = (os.path.relpath(f"{each}/{name}", root) for each in sorted(roots) for name in FOREIGN)
        return tuple(path for path in paths if not path.startswith("../"))

    @cached_property
    def inboxes(self) -> tuple[str, ...]:
        """Those in which what people send is kept, each in a folder of its sender."""
        return tuple(each for each in self.foreign if f"/{each}".endswith(f"/{FOREIGN[0]}"))

    def is_foreign(self, path: str) -> bool:
        """Tell whether a path, without links, lies in one of these, as the most forgiving disk takes it."""
        folded = fold_path(path)
        return any(folded.startswith(f"{fold_path(each)}/") for each in self.foreign)

    def close(self) -> None:
        with self._lock:
            if self._pinned is not None:
                self._pinned.close()
                self._pinned = None

    def stat(self, path: str) -> Entry:
        self.guard.check_read(path)
        try:
            fd = self.beneath.open(path, getattr(os, "O_PATH", 0))
        except ToolError as error:
            link = self._link(path) if error.code in ("not_found", "denied") else None
            if link is None:
                raise
            return link
        try:
            return self.entry(path, os.fstat(fd))
        finally:
            os.close(fd)

    def read(self, path: str, start: int, length: int | None) -> bytes:
        with self.open(path) as (fd, found):
            size = max(found.st_size - start, 0) if length is None else min(length, max(found.st_size - start, 0))
            if size > MAX_READ_BYTES:
                raise ToolError(
                    f"{path!r} has {found.st_size} bytes, too many to hold at once ({MAX_READ_BYTES}); "
                    "take a part of it",
                    code="too_large",
                )
            return _read(fd, size, start)

    def lines(self, path: str, asked: tuple[int, int, int], marks: dict[str, LineMark]) -> Passage:
        with self.open(path) as (fd, found):
            entry = self.entry(path, found)
            taken, marks[entry.version] = read_passage(fd, entry, asked, marks.get(entry.version, (1, 0)))
            if entry.size > _MAX_DIGESTED:
                return taken
            data = _read(fd, entry.size, 0) if taken.first > 1 or taken.more else taken.data
            return replace(taken, entry=replace(entry, digest=hash_content(data)))

    def list(self, path: str, limit: int) -> Listing:
        self.guard.check_read(path)
        with as_tool_errors(path):
            fd = self.beneath.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                names = [name for name in os.listdir(fd) if not name.startswith(STAGE)]  # noqa: PTH208  of a descriptor
                if len(names) > _MAX_NAMES:
                    raise ToolError(f"{path!r} has {len(names)} entries, too many to list", code="too_large")
                names.sort(key=in_order)
                base = self.spell(path)
                shown = [self._entry_in(join_parts((*base, name)), name, fd) for name in names[:limit]]
                return Listing(entries=tuple(entry for entry in shown if entry is not None), total=len(names))
            finally:
                os.close(fd)

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """Give a regular file, open for reading: not special, not linked from elsewhere."""
        self.guard.check_read(path)
        fd = self.beneath.open(path, os.O_RDONLY)
        try:
            found = os.fstat(fd)
            self.guard.check_regular(path, found)
            if found.st_nlink > 1:
                with self.beneath.place(path) as place:
                    self.guard.check_single_name(path, place.path, found)
            with as_tool_errors(path):
                yield fd, found
        finally:
            os.close(fd)

    def entry(self, path: str, found: os.stat_result, data: bytes | None = None) -> Entry:
        """Return the entry for a path and what was found there; `data` is all of its content, if known."""
        kind = _kind(found.st_mode)
        return Entry(
            path=join_parts(self.spell(path)),
            kind=kind,
            size=found.st_size if kind == "file" else 0,
            changed=found.st_mtime_ns,
            version=version_of(found),
            digest="" if data is None else hash_content(data),
        )

    def spell(self, path: str) -> tuple[str, ...]:
        """Return the parts of a path as it is shown: without `..`, relative to the root."""
        parts = self.beneath.parts(path)
        taken = plain(parts)
        return parts if taken is None else taken

    def _pin(self) -> Beneath:
        root = str(self._terms.root)
        if self._terms.refusal:
            raise ToolError(self._terms.refusal, code="unavailable")
        try:
            beneath = Beneath(root, kernel=self._kernel)
        except OSError as error:
            why = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be opened ({error.strerror})"
            raise ToolError(
                f"the workspace {root!r} {why}; make it, or set workspace.root", code="unavailable"
            ) from error
        if self._terms.access == "rw":
            ChangeJournal(self._terms.state, beneath).clear_up()
        return beneath

    def _link(self, path: str) -> Entry | None:
        """Return the entry of a link that leads nowhere or out; None when the path ends in none."""
        with self.beneath.place(path, follow=False) as place:
            found = place.stat()
            if found is None or not kinds.S_ISLNK(found.st_mode):
                return None
            target = os.readlink(place.name, dir_fd=place.folder)
            return Entry(path=join_parts(self.spell(path)), kind="link", changed=found.st_mtime_ns, target=target)

    def _entry_in(self, path: str, name: str, folder: int) -> Entry | None:
        """Return an entry of an open folder; None when it was removed meanwhile."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not kinds.S_ISLNK(found.st_mode):
                return self.entry(path, found)
            target = os.readlink(name, dir_fd=folder)
        except FileNotFoundError:
            return None
        try:
            led = (self._followed or self).stat(path)  # only shown, not opened
        except ToolError:
            return Entry(path=path, kind="link", changed=found.st_mtime_ns, target=target)
        return Entry(path=path, kind=led.kind, size=led.size, changed=led.changed, version=led.version, target=target)


def _kind(mode: int) -> EntryKind:
    if kinds.S_ISREG(mode):
        return "file"
    return "folder" if kinds.S_ISDIR(mode) else "other"


def _read(fd: int, size: int, pos: int) -> bytes:
    """Read so many bytes, fewer only at the end."""
    parts = []
    while size and (part := os.pread(fd, size, pos)):
        parts.append(part)
        pos, size = pos + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
