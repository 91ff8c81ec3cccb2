"""Search in the files of a folder: the provider `local`, to try web_search without a key and without a network.

The index is in memory. It is rebuilt when a file was added, removed or changed, so that answers are never stale.
"""

import contextlib
import logging
import os
import re
import stat
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.define.display import is_encodable
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Page, WebQuery
from toolcrib.lazy import regex
from toolcrib.threads import in_thread

if TYPE_CHECKING:
    import apsw

log = logging.getLogger("toolcrib")

_PLAIN, _HTML = (".txt", ".text", ".md", ".markdown", ".rst"), (".html", ".htm", ".xhtml")
_MAX_NAMES, _MAX_FILES, _FILE_BYTES, _ALL_BYTES, _MAX_WORDS = 50_000, 2_000, 1 << 20, 16 << 20, 32
_TAG = regex(r"(<[^<>]*>)")  # read as it comes: a parser takes minutes for tags that are not closed
_APART = regex(r"<(/?)(title|script|style|template|noscript)\b", re.IGNORECASE)
_HEADING = regex(r"^#\s+(.+)$", re.MULTILINE)


class IndexedFile(NamedTuple):
    """A file as it was when it was read."""

    path: str
    changed: int
    size: int


def refuse_freshness(who: str, what: str = "what is new") -> ToolError:
    """Return that a provider cannot tell old from new."""
    return ToolError(f"{who} cannot be asked for {what}; leave freshness out", code="unsupported_freshness")


class FolderSearch:
    """Searches the text, Markdown and HTML files below a folder; links and hidden files are left out."""

    name = "local"
    is_cacheable = False

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._files: tuple[IndexedFile, ...] = ()
        self._db: apsw.Connection | None = None

    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        """Return the files with all words of the query, best first; where there is none, those with some."""
        if query.freshness:
            raise refuse_freshness(self.name)
        return {"results": await in_thread(self._search, query)}

    def _search(self, query: WebQuery) -> list[dict[str, str]]:
        words = [f'"{word}"' for word in re.findall(r"\w+", query.words)[:_MAX_WORDS]]
        with self._lock:
            files = tuple(self._list())
            if self._db is None or files != self._files:
                self._db, self._files = _make_index(files), files
            for joined in (" AND ".join(words), " OR ".join(words)):
                rows = self._db.execute(_FIND, (joined, query.count)).fetchall() if words else []
                if rows:
                    break
        return [
            {"title": str(title), "url": Path(str(path)).as_uri(), "description": " ".join(str(text).split())}
            for title, path, text in rows
        ]

    def _list(self) -> Iterator[IndexedFile]:
        """Yield the files that are searched, in the order of their paths."""
        folder = self._folder.absolute()
        if not folder.is_dir():
            raise ToolError(f"web.search.folder is no folder: {str(self._folder)!r}; name one", code="not_found")
        files, left = 0, _ALL_BYTES
        for names, path in enumerate(_walk(folder), 1):
            if path.lower().endswith(_PLAIN + _HTML) and is_encodable(path):
                with contextlib.suppress(OSError):  # gone meanwhile
                    facts = os.lstat(path)
                    if stat.S_ISREG(facts.st_mode) and facts.st_size <= _FILE_BYTES:
                        files, left = files + 1, left - facts.st_size
                        yield IndexedFile(path, facts.st_mtime_ns, facts.st_size)
            if names >= _MAX_NAMES or files >= _MAX_FILES or left <= 0:
                if self._db is None:
                    log.warning("web.search.folder holds more than is searched: %d of its files are", files)
                return


def _walk(folder: Path) -> Iterator[str]:
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(at, name) for name in sorted(names) if not name.startswith("."))  # noqa: PTH118


_TABLE = "CREATE VIRTUAL TABLE page USING fts5(title, body, path UNINDEXED, tokenize='porter unicode61')"
_FIND = """SELECT title, path, snippet(page, 1, '', '', '…', 48) FROM page WHERE page MATCH ?
    ORDER BY bm25(page, 5.0, 1.0), path LIMIT ?"""


def _make_index(files: tuple[IndexedFile, ...]) -> "apsw.Connection":
    import apsw  # noqa: PLC0415  few cribs search in a folder

    db = apsw.Connection(":memory:")
    with db:
        db.execute(_TABLE)
        for each in files:
            try:
                text = _read(each.path)
            except OSError as error:
                log.info("web.search.folder: %s cannot be read: %s", each.path, error.strerror)
                continue
            db.execute("INSERT INTO page VALUES (?, ?, ?)", (*_split(each.path, text), each.path))
    return db


def _read(path: str) -> str:
    # what was an ordinary file when it was listed may be a link by now
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return Page(url=path, body=file.read(_FILE_BYTES), is_cut=True).text


def _split(path: str, text: str) -> tuple[str, str]:
    """Return the title of a file, and its words."""
    name = Path(path).name
    if not path.lower().endswith(_HTML):
        heading = _HEADING.search(text)
        return (heading[1].strip() if heading else name), text
    title, words, inside = "", list[str](), ""
    for piece in _TAG.split(text):
        if found := _APART.match(piece):
            is_end, tag = bool(found[1]), found[2].lower()
            inside = tag if not inside and not is_end else "" if tag == inside and is_end else inside
        elif inside == "title":
            title = title or " ".join(unescape(piece).split())
        elif not inside and not piece.startswith("<"):
            words.append(piece)
    return title or name, unescape(" ".join(words))
