"""A walk through a folder in the order of names, on descriptors that never follow a link.

Every folder is opened by its bare name in the folder above, which is held open, so neither a link nor a race leads out.
Folders that ignore files name are not entered, nor are `.git` and the folder for unfinished writes, unless the walk
begins in them.
"""

import os
import stat
from bisect import bisect
from collections.abc import Generator, Iterator
from itertools import islice
from typing import NamedTuple

from toolcrib.backends.files.stage import STAGE
from toolcrib.lazy import dataclass, field

from .globs import IGNORE_FILES, NO_RULES, GlobMatcher, IgnoreRules

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NEVER_ENTERED = frozenset({".git"})
_IGNORE_NAMES = frozenset(IGNORE_FILES)
_MAX_DEPTH = 200  # folders within folders; each one holds a descriptor
_IGNORE_FILE_BYTES = 1 << 20
_FOLDER_NAMES = 1_000_000  # of one folder


class NameRun(NamedTuple):
    """Names that follow one another: what is no folder, and the folder after it, if any.

    `prefix` is the folder they are in, with `/` at its end, "" for the root.
    """

    prefix: str
    names: list[str]
    folder: str | None


@dataclass(frozen=True, slots=True)
class PathFilter:
    """Which files a walk is after: those that match, or with `negated` all others. A file named so is never ignored."""

    matches: GlobMatcher
    negated: bool = False


class _Level(NamedTuple):
    """An open folder on the way."""

    fd: int
    prefix: str
    rules: IgnoreRules
    runs: Iterator[NameRun]


@dataclass(slots=True)
class FileWalk:
    """One walk, from an open folder whose path is `prefix` (with `/` at its end, "" for the root).

    It gives ordinary files, or with `names` all but folders of such a name. Afterwards `unreadable` counts
    the folders that could not be opened, and `odd` tells that an ignore file was one that we do not read: a link,
    something special, one with several names, or too large.
    """

    folder: int
    prefix: str
    rules: IgnoreRules = NO_RULES
    only: PathFilter | None = None
    names: GlobMatcher | None = None
    unreadable: int = 0
    odd: bool = False
    _stack: list[_Level] = field(default_factory=list)

    def runs(self) -> Generator[NameRun, None, None]:
        """Give the names in order, each folder before what is in it."""
        self._enter(self.folder, self.prefix, self.rules)
        try:
            while self._stack:
                level = self._stack[-1]
                run = next(level.runs, None)
                if run is None:
                    self._leave()
                    continue
                yield run
                if run.folder is not None:
                    self._descend(level, run.folder)
        finally:
            while self._stack:
                self._leave()

    def _descend(self, level: _Level, name: str) -> None:
        if len(self._stack) >= _MAX_DEPTH:
            self.unreadable += 1
            return
        try:
            below = os.open(name, _FOLDER, dir_fd=level.fd)
        except OSError:  # gone, swapped for something else, or not ours to read
            self.unreadable += 1
            return
        self._enter(below, f"{level.prefix}{name}/", level.rules)

    def _enter(self, fd: int, prefix: str, rules: IgnoreRules) -> None:
        names: list[str] = []
        folders: list[str] = []
        try:
            rules = self._list(fd, prefix, rules, names, folders)
        except OSError:
            self.unreadable += 1
        if rules is not NO_RULES or self.only is not None:
            names, folders = self._keep(prefix, rules, names, folders)
        names.sort()
        folders.sort()
        runs = _runs(prefix, names, folders) if folders else (NameRun(prefix, names, None),) if names else ()
        self._stack.append(_Level(fd, prefix, rules, iter(runs)))

    def _list(self, fd: int, prefix: str, rules: IgnoreRules, names: list[str], folders: list[str]) -> IgnoreRules:
        """Put the names where they belong; return the rules that hold among them."""
        others: list[str] = []
        with os.scandir(fd) as entries:
            for entry in islice(entries, _FOLDER_NAMES):
                if entry.name.startswith(STAGE):
                    continue
                if entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name not in _NEVER_ENTERED:
                        folders.append(entry.name)
                else:
                    others.append(entry.name)
        if len(names) + len(folders) + len(others) >= _FOLDER_NAMES:
            self.unreadable += 1
        texts = {name: _read_ignore_file(fd, name) for name in _IGNORE_NAMES.intersection(names)}
        if None in texts.values() or _IGNORE_NAMES.intersection(others) or _IGNORE_NAMES.intersection(folders):
            self.odd = True
        if self.names is not None:
            names[:] = self.names(prefix[len(self.prefix) :], names + others)
        read = {name: text for name, text in texts.items() if text is not None}
        return rules.below(prefix, read) if read else rules

    def _keep(
        self, prefix: str, rules: IgnoreRules, files: list[str], folders: list[str]
    ) -> tuple[list[str], list[str]]:
        """Return the files and the folders that are not passed over."""
        if self.only is not None:
            inner = prefix[len(self.prefix) :]
            chosen = self.only.matches(inner, files)
            chosen_folders = self.only.matches(inner, folders)
            if not self.only.negated:  # nothing but these, whatever the rules say
                entered = [name for name in folders if name in chosen_folders]
                others = [name for name in folders if name not in chosen_folders]
                return [name for name in files if name in chosen], entered + rules.keep(prefix, others, folders=True)
            files = [name for name in files if name not in chosen]
            folders = [name for name in folders if name not in chosen_folders]
        return rules.keep(prefix, files, folders=False), rules.keep(prefix, folders, folders=True)

    def _leave(self) -> None:
        fd = self._stack.pop().fd
        if fd != self.folder:
            os.close(fd)


def _runs(prefix: str, names: list[str], folders: list[str]) -> list[NameRun]:
    runs, begin = [], 0
    for folder in folders:
        end = bisect(names, folder, begin)
        runs.append(NameRun(prefix, names[begin:end], folder))
        begin = end
    if begin < len(names):
        runs.append(NameRun(prefix, names[begin:], None))
    return runs


def rules_above(root: int, parts: tuple[str, ...]) -> IgnoreRules:
    """Return the rules that hold in a folder of a workspace because of ignore files in the folders above it."""
    rules, base, held = NO_RULES, "", []
    fd = root
    try:
        for part in parts:
            texts = {name: text for name in IGNORE_FILES if (text := _read_ignore_file(fd, name)) is not None}
            rules = rules.below(base, texts) if texts else rules
            fd = os.open(part, _FOLDER, dir_fd=fd)
            held.append(fd)
            base += f"{part}/"
    except OSError:  # swapped for a link meanwhile: what is known so far holds
        return rules
    finally:
        for each in held:
            os.close(each)
    return rules


def _read_ignore_file(folder: int, name: str) -> str | None:
    """Return what an ignore file says; None when it is none that we read: a plain file of one name, not too large."""
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > _IGNORE_FILE_BYTES:
            return None
        return os.read(fd, _IGNORE_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)
