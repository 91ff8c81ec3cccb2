"""Search in the files of a folder: the provider `local`, to try web_search without a key and without a network.

The index is in memory. It is made anew when a file was added, removed or changed, so that answers are never old.
"""

import logging
import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.define.display import is_encodable
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Page, WebQuery
from toolcrib.threads import in_thread

if TYPE_CHECKING:
    import apsw

log = logging.getLogger("toolcrib")

_PLAIN, _HTML = (".txt", ".text", ".md", ".markdown", ".rst"), (".html", ".htm", ".xhtml")
_MAX_FILES, _FILE_BYTES, _ALL_BYTES, _MAX_WORDS = 2_000, 1 << 20, 64 << 20, 32
_NOT_SHOWN = "script, style, template, noscript"
_HEADING = re.compile(r"^#\s+(.+)$", re.MULTILINE)


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
        folder, left = self._folder.absolute(), _ALL_BYTES
        if not folder.is_dir():
            raise ToolError(f"web.search.folder is no folder: {str(self._folder)!r}; name one", code="not_found")
        count = 0
        for at, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                path = os.path.join(at, name)  # noqa: PTH118  Path costs more than all the rest here
                if name.startswith(".") or not name.lower().endswith(_PLAIN + _HTML) or not is_encodable(path):
                    continue
                try:
                    facts = os.stat(path, follow_symlinks=False)  # noqa: PTH116
                except OSError:  # gone meanwhile
                    continue
                if not stat.S_ISREG(facts.st_mode) or facts.st_size > _FILE_BYTES:
                    continue
                count, left = count + 1, left - facts.st_size
                if count > _MAX_FILES or left < 0:
                    log.warning("web.search.folder holds more than is searched: %d files of it are", count - 1)
                    return
                yield IndexedFile(path, facts.st_mtime_ns, facts.st_size)


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
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415  few cribs search in a folder

    page = LexborHTMLParser(text)
    title = page.css_first("title")
    for node in page.css(_NOT_SHOWN):
        node.decompose()
    return (title.text(strip=True) if title else "") or name, page.body.text(separator=" ") if page.body else ""
