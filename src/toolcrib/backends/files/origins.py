"""Which files hold words from outside: those in the folders where others' files lie, and what was written after such.

A file is known by its path and content, or by its content alone where it was moved or copied. What a person changed has
another content, and what they accepted counts as theirs: neither is traced.
"""

import hashlib
import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Protocol

from toolcrib.lazy import regex

CLOCK_NS = 20_000_000  # by which the clock of a disk may be late
_MIN_KNOWN_BYTES = 16  # content that is shorter may be the same by chance, so that its path has to be
_MAX_WALKED, _MAX_CHANGED = 200_000, 2_000  # files
WHOLE_FOLDER = -1
_WORD, _MIN_SENTENCE_WORDS = regex(r"[^\W\d_]+"), 4
_MAX_REPOSITORY_BYTES = 1 << 24
_KNOWN = regex(rb"refs/(\S+)|\0(.)([^\0]+)(?=\0)", re.DOTALL)  # a branch, or how long the name of a file is, and it
_TODO = frozenset({"rebase-merge/done", "rebase-merge/git-rebase-todo"})  # with the titles of commits
_MIN_SENTENCE_BYTES = 20  # of letters without a break, as some write without any


class OriginRow(NamedTuple):
    """A content and the path it had, and what it goes back to: "" is a person who accepted it, wherever it lies.

    A whole folder, whatever lies in it, has a size of -1 and no digest. What was there before the time `at` (in seconds
    since 1970) does not go back to it, though it may be the same.
    """

    path: str
    size: int
    digest: str
    source: str
    at: float = 0.0

    def is_of(self, path: str, changed_ns: int) -> bool:
        """Tell whether a file with this content, last changed then, may be the one that is meant, or a copy of it."""
        is_known = self.size >= _MIN_KNOWN_BYTES and changed_ns >= self.at * 1e9 - CLOCK_NS
        return is_known or self.path == to_kept_path(path)


class OriginStore(Protocol):
    """Keeps rows: no more than so many, of too many those of one folder become that folder."""

    def find(self, size: int, /) -> Collection[OriginRow]:
        """Return the rows of contents of this size, and of whole folders."""

    def below(self, path: str, /) -> Collection[OriginRow]:
        """Return the rows of a path and of those below it that are not accepted."""

    def add(self, rows: Collection[OriginRow], /) -> None: ...

    def add_made(self, digests: Mapping[str, str], person: str, /) -> None:
        """Keep who wrote the contents that lie at these paths now."""

    def find_made(self, path: str, person: str, /) -> str:
        """Return the digest of what a person wrote to a path, "" where others wrote there since, or no one."""


class NoOrigins:
    """Stands where nothing is kept."""

    def find(self, size: int, /) -> Collection[OriginRow]:
        return ()

    def below(self, path: str, /) -> Collection[OriginRow]:
        return ()

    def add(self, rows: Collection[OriginRow], /) -> None:
        return

    def add_made(self, digests: Mapping[str, str], person: str, /) -> None:
        return

    def find_made(self, path: str, person: str, /) -> str:
        return ""


class FileOrigins:
    """What is known of the files of all workspaces, and what writes to them after it has read from outside."""

    def __init__(self, store: OriginStore | None = None) -> None:
        self.store, self._lock = store or NoOrigins(), threading.Lock()
        self._writers: dict[object, tuple[str, int, str]] = {}

    def begin(self, root: str, source: str) -> object:
        """Count every change below a folder from now on as going back to a source; return what ends that."""
        key = object()
        with self._lock:
            self._writers[key] = os.path.realpath(root), time.time_ns() - CLOCK_NS, source
        return key

    def end(self, key: object) -> None:
        """Keep what has changed since then as it is now. It looks at every file there is."""
        root, since, source = self._writers[key]
        began = (since + CLOCK_NS) / 1e9  # the row allows for the clock itself
        try:
            self.store.add([row._replace(source=source, at=began) for row in _read_rows(root, list_files(root, since))])
        finally:
            with self._lock:
                del self._writers[key]

    def list_writers(self, path: str) -> list[tuple[int, str]]:
        """Return since when something writes there, or above, that has read from outside; and from where."""
        with self._lock:
            return [(since, source) for root, since, source in self._writers.values() if is_below(path, root)]


NOTHING_KNOWN = FileOrigins()


def list_files(root: str, since: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the files below a folder, and their sizes, that were written, moved or brought there since a moment.

    What git keeps counts as one file, since other commands read it than those that write it.
    """
    ahead, walked = [(root, False)], 0
    while ahead:
        folder, is_moved = ahead.pop()
        before = walked
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                walked += 1
                if walked > _MAX_WALKED:  # too many to look at
                    yield root, WHOLE_FOLDER
                    return
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    was_moved = is_moved or about.st_ctime_ns >= since > about.st_mtime_ns
                    if entry.name != ".git":
                        ahead.append((entry.path, was_moved))
                    elif was_moved or _holds_changed(entry.path, since):
                        yield entry.path, WHOLE_FOLDER
                elif (stat.S_ISREG(about.st_mode) or entry.is_symlink()) and (is_moved or about.st_ctime_ns >= since):
                    yield entry.path, about.st_size
            if walked == before and (is_moved or os.stat(folder).st_ctime_ns >= since):  # noqa: PTH116
                yield folder, 0  # which may have a name that says something


def _holds_changed(folder: str, since: int) -> bool:
    """Tell whether something was put into a folder below this one: what lies in it itself changes by a mere look."""
    try:
        return any(os.stat(each).st_ctime_ns >= since for each, _, _ in islice(os.walk(folder), 1, None))  # noqa: PTH116
    except OSError:
        return True


def _read_rows(root: str, changed: Iterator[tuple[str, int]]) -> Iterator[OriginRow]:
    """Yield what is kept of files that changed: of very many in one folder of the root, that folder."""
    found = [(path, size, _find_top(root, path)) for path, size in changed]
    counts = Counter(top for _, _, top in found)
    many = {top for top, count in counts.items() if count > _MAX_CHANGED}
    many = {root} if len(found) - sum(counts[top] for top in many) > _MAX_CHANGED else many
    yield from (OriginRow(to_kept_path(top), WHOLE_FOLDER, "", "") for top in many)
    for path, size, top in found:
        with suppress(OSError):
            if size == WHOLE_FOLDER:
                yield OriginRow(to_kept_path(path), size, "", "")
            elif not many & {root, top} and (size or is_wordy(path[len(root) :])):
                yield OriginRow(to_kept_path(path), size, read_digest(path), "")


def _find_top(root: str, path: str) -> str:
    end = path.find("/", len(root) + 1)
    return path if end < 0 else path[:end]


def is_wordy(path: str) -> bool:
    """Tell whether a name along a path is as long as a sentence: such a one may say something to who reads it."""
    words = [_WORD.findall(name) for name in path.split("/")]
    longest = max((len(word.encode(errors="replace")) for each in words for word in each), default=0)
    return longest >= _MIN_SENTENCE_BYTES or any(len(each) >= _MIN_SENTENCE_WORDS for each in words)


def read_name(path: str) -> str:
    """Return what a listing shows of a path: a link with where it leads, a repository with its branches and files."""
    if os.path.islink(path):  # noqa: PTH114
        return f"{path}/{os.readlink(path)}"  # noqa: PTH115
    return "/".join((path, *_list_repository(path))) if path.endswith("/.git") else path


def _list_repository(folder: str) -> Iterator[str]:
    """Yield the names of branches, of files that are gone and still known, and of commits in a rebase."""
    for name in (*_TODO, "HEAD", "config", "index", "packed-refs"):
        with suppress(OSError), open(f"{folder}/{name}", "rb") as file:  # noqa: PTH123
            data = file.read(_MAX_REPOSITORY_BYTES)
            if name in _TODO:
                yield os.fsdecode(data)
                continue
            for ref, size, path in _KNOWN.findall(data):
                is_gone = not os.path.lexists(os.fsencode(folder[:-4]) + path)
                if ref or (is_gone and size == bytes([min(len(path), 255)])):
                    yield os.fsdecode(ref or path)
    yield from (name for _, _, names in os.walk(f"{folder}/refs") for name in names)


def read_digest(path: str) -> str:
    """Return what the content of a file is known by; of a link it is where that leads, and nothing of a folder."""
    if os.path.islink(path):  # noqa: PTH114
        return hash_bytes(os.fsencode(os.readlink(path)))  # noqa: PTH115
    if os.path.isdir(path):  # noqa: PTH112
        return ""
    with open(path, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_bytes(data: bytes) -> str:
    """Return what a content is known by."""
    return hashlib.sha256(data).hexdigest()


def to_kept_path(path: str) -> str:
    """Return a path as it can be kept."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
