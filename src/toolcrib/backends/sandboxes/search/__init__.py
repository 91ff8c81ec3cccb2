"""Search in the contents and in the names of a workspace's files.

Both kinds of search take their names from one walk of our own (`walk`), so they come in the order of paths, whatever
engine is at work. The first files are searched right here: a common word is found in them, and the search is over
before a program could have been started. For the rest ripgrep tells which files are worth opening (`rg`); where
it is absent or fails, all of them are. Lines are always taken by us, from a descriptor beneath the root: an ordinary
file, and one with a single name unless its folder may hold hard links.
"""

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from toolcrib.backends.sandboxes.files.beneath import Beneath
from toolcrib.backends.sandboxes.files.guard import Guard
from toolcrib.backends.sandboxes.files.told import in_words
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Find, Found, Line, Names, Search

from .globs import glob_matcher
from .lines import Hits, hits_in
from .pattern import Pattern, pattern_of
from .rg import Sieve, ripgrep, takes
from .stop import Stop, until_stopped
from .walk import Only, Walk, rules_above

__all__ = ["find", "search"]

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_FRONT, _LONGEST_FRONT = 64, 2_000  # files that are searched before ripgrep is asked: at first, and with hits in sight
_FRONT_BYTES = 32 << 20
_MOST_MATCHES, _MOST_CONTEXT, _MOST_LINES, _MOST_NAMES = 10_000, 200, 100_000, 100_000
_MOST_CHARACTERS, _MOST_FILES = 4_000_000, 1_000_000


async def search(beneath: Beneath, guard: Guard, query: Search, *, rg: str | bool = True, front: int = _FRONT) -> Found:
    """Return the lines that match.

    `rg` is the ripgrep to use, True for the one that is there, False for none; `front` is how many files are searched
    before it is asked.
    """
    guard.reading(query.path)
    pattern = pattern_of(query.pattern, literal=query.literal, ignore_case=query.ignore_case)
    program = ripgrep() if rg is True else rg or None
    return await until_stopped(lambda stop: _Search(beneath, guard, query, pattern, program, front, stop).found())


async def find(beneath: Beneath, guard: Guard, query: Find) -> Names:
    """Return the names that match."""
    guard.reading(query.path)
    return await until_stopped(partial(_names, beneath, query))


@dataclass(slots=True)
class _Search:
    """One search at work."""

    beneath: Beneath
    guard: Guard
    query: Search
    pattern: Pattern
    rg: str | None
    front: int
    stop: Stop
    context: int = field(init=False)
    limit: int = field(init=False)
    lines: list[Line] = field(default_factory=list)
    matches: int = 0
    characters: int = 0
    searched: int = 0
    linked: int = 0
    unreadable: int = 0
    more: bool = False

    def __post_init__(self) -> None:
        self.context = max(0, min(self.query.context, _MOST_CONTEXT))
        self.limit = max(1, min(self.query.limit, _MOST_MATCHES, _MOST_LINES // (2 * self.context + 1)))

    def found(self) -> Found:
        path = self.query.path
        with self.beneath.place(path) as place:
            seen = place.stat()
            if seen is not None and not stat.S_ISDIR(seen.st_mode):
                self.guard.regular(path, seen)  # something special is not even opened
            fd = os.open(place.name or ".", _OPEN, dir_fd=place.folder)
            try:
                what = os.fstat(fd)
                if stat.S_ISDIR(what.st_mode):
                    self._folder(fd, place.real)
                else:
                    self.guard.regular(path, what)
                    self.guard.single(path, place.path, what)
                    self._add(self._hits(fd, what.st_size, place.path))
            finally:
                os.close(fd)
        return Found(lines=tuple(self.lines), more=self.more, linked=self.linked, unreadable=self.unreadable)

    def _folder(self, fd: int, real: tuple[str, ...]) -> None:
        prefix = "".join(f"{part}/" for part in real)
        walk = Walk(fd, prefix, rules_above(self.beneath.fd, real), _only(self.query.glob))
        paths = self._files(walk)
        opener = _Opener(fd, len(prefix))
        try:
            seen = self._front(paths, opener)
            if not self.more and seen is not None:
                self._rest(walk, fd, prefix, paths, opener)
        finally:
            opener.close()
            paths.close()
        self.unreadable += walk.unreadable

    def _files(self, walk: Walk) -> Generator[str, None, None]:
        for prefix, names, _ in walk.runs():
            self.stop.check()
            for name in names:
                yield prefix + name

    def _front(self, paths: Iterator[str], opener: "_Opener") -> int | None:
        """Search the first files, and go on while the limit is in sight; return how many, None when that was all."""
        seen, budget = 0, self.front
        while seen < budget and self.searched < _FRONT_BYTES:
            path = next(paths, None)
            if path is None:
                return None
            seen += 1
            self._search(path, opener)
            if self.more:
                return seen
            if seen == budget and self.matches:
                in_sight = seen * self.limit // self.matches + _FRONT
                budget = max(budget, in_sight if in_sight <= _LONGEST_FRONT else 0)
        return seen

    def _rest(self, walk: Walk, fd: int, prefix: str, paths: Iterator[str], opener: "_Opener") -> None:
        if self.rg is None or not takes(self.query.glob):
            self._all(paths, opener)
            return
        sieve = Sieve(self.rg, fd, self.pattern.text, self.query.glob, walk.rules.anywhere, self.stop)
        try:
            left = list(islice(paths, _MOST_FILES + 1))
            if len(left) > _MOST_FILES:
                raise ToolError(
                    f"{self.query.path!r} holds more than {_MOST_FILES} files; search a folder in it", code="too_large"
                )
            answer = None if walk.odd else sieve.files()
        finally:
            sieve.close()
        self.stop.check()
        if answer is None:
            self._all(left, opener)
            return
        named, complete = answer
        if not complete:
            unreadable = sum(not opener.readable(path) for path in left)
            if not named or not (unreadable or walk.unreadable):  # it stumbled over something else, or did not begin
                self._all(left, opener)
                return
            self.unreadable += unreadable
        cut = len(prefix)
        self._all((path for path in left if path[cut:] in named), opener)

    def _all(self, paths: Iterable[str], opener: "_Opener") -> None:
        for path in paths:
            self._search(path, opener)
            if self.more:
                return

    def _search(self, path: str, opener: "_Opener") -> None:
        """Search one file; one that cannot be read is counted, one with a match and several names as well."""
        self.stop.check()
        try:
            fd = opener.open(path)
        except OSError:
            self.unreadable += 1
            return
        try:
            what = os.fstat(fd)
            if not stat.S_ISREG(what.st_mode):
                return
            hits = self._hits(fd, what.st_size, path)
        except OSError:
            self.unreadable += 1
            return
        finally:
            os.close(fd)
        if not hits.matches and not hits.more:
            return
        if what.st_nlink > 1 and not self.guard.may_be_linked(path):
            self.linked += 1
        else:
            self._add(hits)

    def _hits(self, fd: int, size: int, path: str) -> Hits:
        self.searched += size
        return hits_in(fd, size, path, self.pattern, self.context, self.limit - self.matches, self.stop.check)

    def _add(self, hits: Hits) -> None:
        self.lines += hits.lines
        self.matches += hits.matches
        self.characters += sum(len(line.text) for line in hits.lines)
        self.more = hits.more or self.characters > _MOST_CHARACTERS


class _Opener:
    """Opens files of one folder by their path in the workspace, name by name; the folder of the last one stays open."""

    def __init__(self, folder: int, cut: int) -> None:
        self._folder, self._cut = folder, cut
        self._at, self._path = folder, ""

    def open(self, path: str) -> int:
        """Return a descriptor; OSError when there is a link on the way, or nothing that can be read."""
        return os.open(self._name(path), _OPEN, dir_fd=self._at)

    def readable(self, path: str) -> bool:
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


def _names(beneath: Beneath, query: Find, stop: Stop) -> Names:
    matches = glob_matcher(query.pattern.rstrip("/") or "*", smart_case=True)
    only_folders = query.pattern.endswith("/")
    limit = max(1, min(query.limit, _MOST_NAMES))
    found: list[str] = []
    with beneath.place(query.path) as place:
        prefix = "".join(f"{part}/" for part in place.real)
        with in_words(query.path):
            try:
                fd = os.open(place.name or ".", _OPEN | os.O_DIRECTORY, dir_fd=place.folder)
            except NotADirectoryError:
                raise ToolError(
                    f"{query.path!r} is a file, not a folder; find looks for names in a folder", code="not_folder"
                ) from None
        cut = len(prefix)
        walk = Walk(fd, prefix, rules_above(beneath.fd, place.real), names=matches)
        runs = walk.runs()
        try:
            for folder, names, below in runs:
                stop.check()
                if names and not only_folders:
                    found += [folder + name for name in names]
                if below is not None and matches(folder[cut:], (below,)):
                    found.append(f"{folder}{below}/")
                if len(found) > limit:
                    break
        finally:
            runs.close()
            os.close(fd)
    return Names(paths=tuple(found[:limit]), more=len(found) > limit, unreadable=walk.unreadable)


def _only(glob: str | None) -> Only | None:
    """Return which files a glob is about."""
    if glob is None:
        return None
    negated = glob.startswith("!")
    body = glob[1:] if negated else glob
    return Only(glob_matcher(f"{body}**" if body.endswith("/") else body), negated)
