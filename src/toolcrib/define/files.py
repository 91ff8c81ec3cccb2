"""What a workspace is asked and what it answers: entries, passages, changes, searches.

Paths are text, relative to the root of the workspace and written with `/`; the root itself is `.`. A name that is not
UTF-8 keeps its bytes as surrogate escapes. Contents are bytes, in and out.

A version is an opaque word for "this file with this content": it differs as soon as the file may have changed. A
workspace belongs to one session and keeps the versions that session has been shown (`note`, `noted`), so that an edit
of a file that changed since can be refused. It holds no more than a few thousand and forgets the oldest.

How a path may be spelled is read here once for every workspace; nothing is looked up.
"""

import hashlib
import unicodedata
from collections.abc import Callable
from typing import Literal

from toolcrib.lazy import dataclass, field, regex

from .display import quote_short
from .errors import ToolError

EntryKind = Literal["file", "folder", "link", "other"]

NOWHERE = ""
"""The version of a file that does not exist."""

# Marks before digits before letters, as dictionaries have them.
_RANKS = {char: chr(rank + 1) for rank, char in enumerate("_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$")}


def in_order(name: str) -> tuple[str, str, str]:
    """Return what names are ordered by: marks, digits, letters; accents and case only where all else is the same."""
    split = unicodedata.normalize("NFD", name.casefold())
    base = "".join(char for char in split if not unicodedata.combining(char))
    return "".join(_RANKS.get(char, char) for char in base), split, name


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a workspace.

    `kind` is what stands at the end of the links, as long as they stay inside; `link` for a link that leads nowhere or
    out, `other` for pipes, sockets and devices. `target` is what a link says, as written. `changed` counts nanoseconds.
    `digest` is that of the content, where all of it was at hand.
    """

    path: str
    kind: EntryKind
    size: int = 0
    changed: int = 0
    version: str = NOWHERE
    target: str | None = None
    digest: str = field(default="", compare=False, repr=False)

    def has_held(self, data: bytes) -> bool:
        """Tell whether this is known to be the file's content, whatever its version says."""
        return self.digest == hash_content(data)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def hash_content(data: bytes) -> str:
    """Return a word that no other content has."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The first entries of a folder, in the order of `in_order`; `total` counts all of them."""

    entries: tuple[Entry, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Whole lines of a file, from line `first` (counted from 1), as they are on disk, line ends included.

    `count` lines are in `data`. `more` says that lines follow; `total` counts all lines when the end was reached
    within the work the passage took anyway, else it is None. `long` is the length of line `first` when that line
    alone is more than was asked for; `data` is empty then. `entry` is the file the lines were taken from.
    """

    data: bytes
    first: int
    count: int
    more: bool
    total: int | None
    entry: Entry
    long: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file to be written (`data`) or deleted (None), as part of a change that happens whole or not at all.

    `expect` is the version the file must still have: NOWHERE when it must not exist, None when it does not matter.
    `like` names a file whose permissions a new file takes over: the old name of a file that moves.
    """

    path: str
    data: bytes | None
    expect: str | None = None
    like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Lines that match a pattern, in the files beneath `path` (or in that one file), `glob` naming which.

    A file for which `is_shut` is true is not opened: nothing in the answer depends on what it holds.
    """

    pattern: str
    path: str = "."
    glob: str | None = None
    ignore_case: bool = False
    literal: bool = False
    context: int = 0
    limit: int = 100
    is_shut: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedLine:
    """A line of an answer: one that matched, or one around it."""

    path: str
    number: int
    text: str
    matched: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, in the order of paths and lines.

    `more` only when something was left out because of the limit; `linked` counts the files left out as hard links,
    `unreadable` the files and folders that could not be opened. `judged` tells that a rule may have left files out.
    """

    lines: tuple[MatchedLine, ...]
    more: bool = False
    linked: int = 0
    unreadable: int = 0
    judged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """Files and folders beneath `path` whose name, or path when the pattern has a `/`, matches a glob.

    Those for which `is_shut` is true are left out.
    """

    pattern: str
    path: str = "."
    limit: int = 1_000
    is_shut: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What was found by name, in order, folders with a `/` at the end; `more` only when something was left out.

    `judged` tells that a rule may have left names out.
    """

    paths: tuple[str, ...]
    more: bool = False
    unreadable: int = 0
    judged: bool = False


_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 4_096  # bytes, as every file system we know has them
_ADDRESS = regex(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOME = regex(r"~[A-Za-z0-9_.-]*\Z")


def parts_of(path: str, *roots: str) -> tuple[str, ...]:
    """Return the names along a path, `..` kept as spelled; an absolute path must begin with one of the roots."""
    _check(path)
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if path.startswith("/"):
        return _strip_root(path, parts, roots)
    if parts and _HOME.fullmatch(parts[0]) and (len(parts) > 1 or parts[0] == "~"):
        raise ToolError(
            f"{_quote(path)} is in a home folder, not in the workspace; give a path inside it", code="denied"
        )
    return parts


def plain(parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the parts without `..`, taken by spelling alone; None when they lead out."""
    kept: list[str] = []
    for part in parts:
        if part != "..":
            kept.append(part)
        elif kept:
            kept.pop()
        else:
            return None
    return tuple(kept)


def join_parts(parts: tuple[str, ...]) -> str:
    """Return the path of these parts; the root is `.`."""
    return "/".join(parts) or "."


def fold_path(path: str) -> str:
    """Return the path as the most forgiving disk takes it: no case, no invisible characters, no blanks at the end."""
    if path.isascii() and path.isprintable():
        folded = path.lower()
    else:
        shown = (char for char in unicodedata.normalize("NFC", path) if unicodedata.category(char) != "Cf")
        folded = "".join(shown).casefold()
    return "/".join(part.rstrip(". ") or part for part in folded.split("/"))


def outside(path: str) -> ToolError:
    """Return the refusal of a path that leads out."""
    return ToolError(f"{_quote(path)} leads out of the workspace; give a path inside it", code="denied")


def _check(path: str) -> None:
    if not path:
        raise ToolError("the path is empty; the workspace itself is '.'", code="bad_path")
    if "\0" in path:
        raise ToolError(f"{_quote(path)} holds a NUL character; no file has such a name", code="bad_path")
    if _ADDRESS.match(path):
        raise ToolError(f"{_quote(path)} is an address; give the plain path of a file in the workspace", code="denied")
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolError(f"{_quote(path)} holds half a character; no file has such a name", code="bad_path") from None
    if len(raw) >= _MAX_PATH_BYTES or max(map(len, raw.split(b"/"))) > _MAX_NAME_BYTES:
        raise ToolError(
            f"{_quote(path)} is too long: a name has at most {_MAX_NAME_BYTES} bytes, a path {_MAX_PATH_BYTES}",
            code="bad_path",
        )


def _strip_root(path: str, parts: tuple[str, ...], roots: tuple[str, ...]) -> tuple[str, ...]:
    for root in roots:
        prefix = tuple(part for part in root.split("/") if part)
        if parts[: len(prefix)] == prefix:
            return parts[len(prefix) :]
    raise ToolError(f"{_quote(path)} is outside of the workspace; give a path relative to it", code="denied")


def _quote(path: str) -> str:
    return quote_short(path, 200)
