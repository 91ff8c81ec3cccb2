"""Finds the line of every key and list item of a TOML text, for positions only: `tomllib` judges the text.

Where the two disagree, a key has no line of its own and takes its parent's.
"""

import re
import tomllib
from dataclasses import dataclass
from sys import intern

from toolcrib.config.places import MAX_DEPTH, Fault, KeyPath, Scan, ScanError, deep, line_finder, scanned, twice

__all__ = ["scan_toml"]

_BASIC = r'"(?:[^"\\\n]++|\\.)*+"'
_LITERAL = r"'[^'\n]*+'"
_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_REST_OF_LINE = re.compile(r"[ \t]*+(?:#[^\n]*+)?(?:\r?\n|\Z)")
_KEY_PART = re.compile(rf"[ \t]*+([A-Za-z0-9_-]++|{_BASIC}|{_LITERAL})[ \t]*+")
_SCALAR = re.compile(
    r'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}' + r"|'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    rf"|{_BASIC}|{_LITERAL}|[^\s,\[\]{{}}#\"'][^,\]}}#\r\n]*+",
    re.DOTALL,
)


def scan_toml(text: str) -> Scan:
    """The lines of a TOML text; never raises, and takes time in proportion to the text."""
    return scanned(_Scanner(text))


@dataclass(slots=True)
class _Open:
    """A bracket of a value that is not closed yet."""

    path: KeyPath
    closer: str
    count: int = 0


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._line_of = line_finder(text)
        self._pos = 0
        self._table: KeyPath = ()
        self._counts: dict[KeyPath, int] = {}  # members of each array of tables so far
        self._declared: set[KeyPath] = set()  # tables that no header may name again
        self._values: set[KeyPath] = set()  # keys with a value: nothing may be added beneath them

    def run(self) -> None:
        while True:
            self._skip()
            if self._pos >= len(self._text):
                return
            if self._eat("[["):
                self._header("]]")
            elif self._eat("["):
                self._header("]")
            else:
                self._pair(self._table)
            match = _REST_OF_LINE.match(self._text, self._pos)
            if match is None:
                raise self._lost("expected the end of the line here")
            self._pos = match.end()

    def _header(self, closer: str) -> None:
        line = self._line_of(self._pos)
        path: KeyPath = ()
        *parents, last = self._key()
        for part in parents:
            path = self._into((*path, part), line)
        path = (*path, last)
        if not self._eat(closer):
            raise self._lost(f"expected {closer!r} here")
        if self._is_taken(path, closer):
            raise ScanError(twice(path, line, self.lines.get(path)))
        self.lines.setdefault(path, line)
        if closer == "]]":
            path = (*path, self._counts.setdefault(path, 0))
            self._counts[path[:-1]] += 1
        else:
            self._declared.add(path)
        self.lines[path] = line  # a table that so far was only implied has its line here
        self._table = path

    def _is_taken(self, path: KeyPath, closer: str) -> bool:
        """Whether `path` is already something else than the header's brackets say, or may be named only once."""
        if path in self._counts:
            return closer == "]"
        return path in self._declared or path in self._values or (closer == "]]" and path in self.lines)

    def _into(self, path: KeyPath, line: int) -> KeyPath:
        """Where the keys beneath `path` belong: in the newest member, if it is an array of tables."""
        if path in self._values:
            raise ScanError(twice(path, line, self.lines.get(path)))
        self.lines.setdefault(path, line)
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, base: KeyPath) -> None:
        """Passes a key and the whole of its value, which may hold brackets in brackets."""
        boxes: list[_Open] = []
        self._assign(base, boxes)
        while boxes:
            box = boxes[-1]
            self._skip()
            if self._eat(box.closer):
                boxes.pop()
            elif self._eat(","):
                continue
            elif box.closer == "}":
                self._assign(box.path, boxes)
            else:
                path = (*box.path, box.count)
                box.count += 1
                self.lines[path] = self._line_of(self._pos)
                self._value(path, boxes)

    def _assign(self, base: KeyPath, boxes: list[_Open]) -> None:
        line = self._line_of(self._pos)
        *parents, last = self._key()
        path = base
        for part in parents:
            path = self._into((*path, part), line)
            self._declared.add(path)
        path = (*path, last)
        if path in self.lines:
            raise ScanError(twice(path, line, self.lines[path]))
        self.lines[path] = line
        self._values.add(path)
        if not self._eat("="):
            raise self._lost("expected '=' after the key")
        self._value(path, boxes)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            match = _KEY_PART.match(self._text, self._pos)
            if match is None:
                raise self._lost("expected a key here")
            parts.append(intern(self._name(match[1])))
            self._pos = match.end()
            if len(parts) > MAX_DEPTH:  # before tomllib sees it, which takes quadratic time over a long key
                raise ScanError(deep((*self._table, *parts), self._line_of(self._pos)))
            if not self._eat("."):
                return parts

    def _name(self, token: str) -> str:
        if token[0] not in "\"'":
            return token
        if token[0] == "'" or "\\" not in token:
            return token[1:-1]
        try:
            return str(tomllib.loads(f"key={token}")["key"])
        except ValueError:
            raise self._lost("this key holds an escape that TOML does not know") from None

    def _value(self, path: KeyPath, boxes: list[_Open]) -> None:
        """Passes a string, number, word or date; steps into a bracket."""
        while self._text.startswith((" ", "\t"), self._pos):
            self._pos += 1
        char = self._text[self._pos : self._pos + 1]
        if char and char in "[{":
            if len(boxes) >= MAX_DEPTH:  # before tomllib sees it, which is recursive
                raise ScanError(deep(path, self._line_of(self._pos)))
            boxes.append(_Open(path, "]" if char == "[" else "}"))
            self._pos += 1
            return
        match = _SCALAR.match(self._text, self._pos)
        if match is None:
            raise self._lost("expected a value here")
        self._pos = match.end()

    def _eat(self, token: str) -> bool:
        if not self._text.startswith(token, self._pos):
            return False
        self._pos += len(token)
        return True

    def _skip(self) -> None:
        match = _BLANK.match(self._text, self._pos)
        if match:
            self._pos = match.end()

    def _lost(self, message: str) -> ScanError:
        return ScanError(Fault("lost", self._table, self._line_of(self._pos), message))
