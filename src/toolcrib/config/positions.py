"""Where keys stand: key paths, their dotted names, and the line of every key of a JSON5 or TOML text.

The JSON5 decoder keeps the last of two equal keys without a word, so its scan has to be exact: whatever it cannot
follow to the end is a fault. `tomllib` judges TOML; where the scan and it disagree, a key takes the line of its parent.
"""

import math
import os
import re
import tomllib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from sys import intern
from typing import Any, ClassVar, Literal

import pyjson5

from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ConfigError, ConfigLocation
from toolcrib.lazy import dataclass, regex

KeyPath = tuple[str | int, ...]
Spot = tuple[str, int | None]  # file and line

MAX_DEPTH = 32
_SHOWN = 200  # characters of a key path in an error; a key may be as long as the file

_LINE_END = regex(r"\r\n|\n|\r")


def format_path(path: KeyPath) -> str:
    """The name of a key path as people write it: `tools.deny[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def place(file: str, line: int | None, path: KeyPath) -> ConfigLocation:
    """A place fit for an error message: the key path is cut to a readable length and holds nothing unprintable."""
    name = format_path(tuple(part if isinstance(part, int) else part[:_SHOWN] for part in path))
    return ConfigLocation(file, line, escape_unprintable(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"))


@dataclass(eq=False)
class ScanError(Exception):
    """What a scan cannot accept; `twice` is a duplicate key, `deep` nesting over 32, `lost` anything else."""

    kind: Literal["twice", "deep", "lost"]
    path: KeyPath
    line: int
    message: str

    def error(self, file: str) -> ConfigError:
        """Return what a reader of `file` raises."""
        return ConfigError(self.message, place(file, self.line, self.path))


def deep(path: KeyPath, line: int) -> ScanError:
    """The fault of nesting over the limit."""
    return ScanError("deep", path, line, f"nested more than {MAX_DEPTH} levels deep; flatten it")


def twice(path: KeyPath, line: int, first: int | None) -> ScanError:
    """The fault of a key that was already there, on line `first`."""
    return ScanError("twice", path, line, f"this key stands twice, first on line {first}; keep one of them")


@dataclass(frozen=True, slots=True)
class Scan:
    """The line of every key and list item up to the first fault, and that fault."""

    lines: Mapping[KeyPath, int]
    fault: ScanError | None = None


def line_finder(text: str) -> Callable[[int], int]:
    """A function from an offset in `text` to its line, counted from 1."""
    starts = [match.end() for match in _LINE_END.finditer(text)]
    return lambda offset: bisect_right(starts, offset) + 1


class Places(Mapping[KeyPath, ConfigLocation]):
    """The place of every key path, named when it is asked for.

    Names are not kept: beneath one very long key they would take far more room than the file.
    """

    def __init__(self, spots: Mapping[KeyPath, Spot]) -> None:
        self._spots = spots

    def __getitem__(self, path: KeyPath) -> ConfigLocation:
        file, line = self._spots[path]
        return ConfigLocation(file, line, format_path(path))

    def __iter__(self) -> Iterator[KeyPath]:
        return iter(self._spots)

    def __len__(self) -> int:
        return len(self._spots)


_CLOSERS = {"{": "}", "[": "]"}


@dataclass(slots=True)
class _OpenBracket:
    """A bracket that is not closed yet; `count` is the number of members seen."""

    path: KeyPath
    closer: str
    line: int
    count: int = 0


class _Scanner(ABC):
    """Walks a text once, noting the line of every key and list item."""

    blank: ClassVar[re.Pattern[str]]  # what may stand between two tokens

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._line_of = line_finder(text)
        self._lines: dict[KeyPath, int] = {}
        self._open: list[_OpenBracket] = []

    def scan(self) -> Scan:
        """Return what is found, as far as the walk gets."""
        try:
            self._run()
        except ScanError as fault:
            return Scan(self._lines, fault)
        return Scan(self._lines)

    @abstractmethod
    def _run(self) -> None:
        """Walk the whole text; raise ScanError where it cannot be followed."""

    def _line(self) -> int:
        return self._line_of(self._pos)

    def _peek(self) -> str:
        return self._text[self._pos : self._pos + 1]

    def _eat(self, token: str) -> bool:
        if not self._text.startswith(token, self._pos):
            return False
        self._pos += len(token)
        return True

    def _skip(self) -> None:
        if match := self.blank.match(self._text, self._pos):
            self._pos = match.end()

    def _note_key(self, path: KeyPath, line: int) -> None:
        if path in self._lines:
            raise twice(path, line, self._lines[path])
        self._lines[path] = line

    def _note_item(self, box: _OpenBracket) -> KeyPath:
        """Return the path of the next item of a list."""
        path = (*box.path, box.count)
        box.count += 1
        self._lines[path] = self._line()
        return path

    def _enter(self, path: KeyPath) -> bool:
        """Step into the bracket that opens here; False when none does."""
        closer = _CLOSERS.get(self._peek())
        if closer is None:
            return False
        line = self._line()
        if len(self._open) >= MAX_DEPTH:  # before the decoder sees it, which may be recursive
            raise deep(path, line)
        self._open.append(_OpenBracket(path, closer, line))
        self._pos += 1
        return True


_WHITE = r"\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_STRING = regex(r""""(?:[^"\\\n\r]++|\\(?:\r\n|.))*+"|'(?:[^'\\\n\r]++|\\(?:\r\n|.))*+'""", re.DOTALL)
_WORD = regex(rf"""[^{_WHITE}:,{{}}\[\]"'/]++""")
_NUMBER = regex(
    r"[+-]?(?:Infinity|NaN|0[xX][0-9a-fA-F]+|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)


def scan_json5(text: str) -> Scan:
    """The lines of a JSON5 text; never raises, and takes time in proportion to the text."""
    return _Json5Scanner(text).scan()


class _Json5Scanner(_Scanner):
    blank = re.compile(rf"(?:[{_WHITE}]++|//[^\n\r\u2028\u2029]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")

    def _run(self) -> None:
        self._skip()
        if self._pos == len(self._text):
            raise self._lost((), "the file is empty; write {} for an empty configuration")
        self._value(())
        while self._open:
            self._member(self._open[-1])
        if self._pos < len(self._text):
            raise self._lost((), "the configuration ends before this; remove what follows it")

    def _member(self, box: _OpenBracket) -> None:
        """Pass one member of the innermost bracket, or the bracket's end."""
        if box.count and not self._eat(","):
            self._close(box, f"expected a comma or {box.closer!r} here")
        elif self._peek() == box.closer:  # empty, or after a trailing comma
            self._close(box, "")
        elif box.closer == "}":
            self._pair(box)
        else:
            self._value(self._note_item(box))

    def _close(self, box: _OpenBracket, otherwise: str) -> None:
        if not self._eat(box.closer):
            raise self._lost(box.path, otherwise)
        self._open.pop()

    def _pair(self, box: _OpenBracket) -> None:
        line = self._line()
        path = (*box.path, self._key(box))
        self._note_key(path, line)
        box.count += 1
        self._skip()
        if not self._eat(":"):
            raise self._lost(path, "expected a colon after the key")
        self._value(path)

    def _key(self, box: _OpenBracket) -> str:
        match = _STRING.match(self._text, self._pos) or _WORD.match(self._text, self._pos)
        if match is None:
            raise self._lost(box.path, "expected a key or '}' here")
        token = match[0]
        quoted = token[0] in "\"'"
        if "\\" in token:
            try:  # the decoder itself is the only sure authority on what an escape means
                name = str(pyjson5.decode(token if quoted else f'"{token}"'))
            except pyjson5.Json5DecoderException:
                raise self._lost(box.path, "this key holds an escape that JSON5 does not know") from None
        else:
            name = token[1:-1] if quoted else token
        self._pos = match.end()
        return intern(name)

    def _value(self, path: KeyPath) -> None:
        """Pass a string, number or word; step into a bracket."""
        if not self._enter(path):
            match = _STRING.match(self._text, self._pos) or _WORD.match(self._text, self._pos)
            if match is None or not (match[0][0] in "\"'" or self._is_literal(match[0], path)):
                raise self._lost(path, "expected a value here (text needs quotes)")
            self._pos = match.end()
        self._skip()

    def _is_literal(self, word: str, path: KeyPath) -> bool:
        if word in {"true", "false", "null"}:
            return True
        if not _NUMBER.fullmatch(word):
            return False
        # the decoder answers 1e999 with an error about something else
        if "x" not in word.lower() and not math.isfinite(float(word)):
            raise self._lost(path, "this number is not finite; write one that is")
        return True

    def _eat(self, token: str) -> bool:
        is_there = super()._eat(token)
        self._skip()
        return is_there

    def _lost(self, path: KeyPath, message: str) -> ScanError:
        """The fault at the present position; the commonest causes have their own sentences."""
        char = self._peek()
        if not char and self._open:
            box = self._open[-1]
            opener = "{" if box.closer == "}" else "["
            message = f"the file ends here, but the {opener!r} of line {box.line} is not closed"
        elif char and char in "\"'" and not _STRING.match(self._text, self._pos):
            message = "the string that starts here is not closed on its line"
        elif self._text.startswith("/*", self._pos):
            message = "the comment that starts here is not closed"
        return ScanError("lost", path, self._line(), message)


_BASIC = r'"(?:[^"\\\n]++|\\.)*+"'
_LITERAL = r"'[^'\n]*+'"
_REST_OF_LINE = regex(r"[ \t]*+(?:#[^\n]*+)?(?:\r?\n|\Z)")
_KEY_PART = regex(rf"[ \t]*+([A-Za-z0-9_-]++|{_BASIC}|{_LITERAL})[ \t]*+")
_SCALAR = regex(
    r'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}' + r"|'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    rf"|{_BASIC}|{_LITERAL}|[^\s,\[\]{{}}#\"'][^,\]}}#\r\n]*+",
    re.DOTALL,
)


def scan_toml(text: str) -> Scan:
    """The lines of a TOML text; never raises, and takes time in proportion to the text."""
    return _TomlScanner(text).scan()


class _TomlScanner(_Scanner):
    blank = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._table: KeyPath = ()
        self._counts: dict[KeyPath, int] = {}  # members of each array of tables so far
        self._declared: set[KeyPath] = set()  # tables that no header may name again
        self._values: set[KeyPath] = set()  # keys with a value: nothing may be added beneath them

    def _run(self) -> None:
        while True:
            self._skip()
            if self._pos >= len(self._text):
                return
            if self._eat("[["):
                self._header("]]")
            elif self._eat("["):
                self._header("]")
            else:
                self._pair()
            match = _REST_OF_LINE.match(self._text, self._pos)
            if match is None:
                raise self._lost("expected the end of the line here")
            self._pos = match.end()

    def _header(self, closer: str) -> None:
        line = self._line()
        path: KeyPath = ()
        *parents, last = self._key()
        for part in parents:
            path = self._into((*path, part), line)
        path = (*path, last)
        if not self._eat(closer):
            raise self._lost(f"expected {closer!r} here")
        if self._is_taken(path, closer):
            raise twice(path, line, self._lines.get(path))
        self._lines.setdefault(path, line)
        if closer == "]]":
            path = (*path, self._counts.setdefault(path, 0))
            self._counts[path[:-1]] += 1
        else:
            self._declared.add(path)
        self._lines[path] = line  # a table that so far was only implied has its line here
        self._table = path

    def _is_taken(self, path: KeyPath, closer: str) -> bool:
        """Whether `path` is already something else than the header's brackets say, or may be named only once."""
        if path in self._counts:
            return closer == "]"
        return path in self._declared or path in self._values or (closer == "]]" and path in self._lines)

    def _into(self, path: KeyPath, line: int) -> KeyPath:
        """Where the keys beneath `path` belong: in the newest member, if it is an array of tables."""
        if path in self._values:
            raise twice(path, line, self._lines.get(path))
        self._lines.setdefault(path, line)
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self) -> None:
        """Pass a key and the whole of its value, which may hold brackets in brackets."""
        self._assign(self._table)
        while self._open:
            box = self._open[-1]
            self._skip()
            if self._eat(box.closer):
                self._open.pop()
            elif self._eat(","):
                continue
            elif box.closer == "}":
                self._assign(box.path)
            else:
                self._value(self._note_item(box))

    def _assign(self, base: KeyPath) -> None:
        line = self._line()
        *parents, last = self._key()
        path = base
        for part in parents:
            path = self._into((*path, part), line)
            self._declared.add(path)
        path = (*path, last)
        self._note_key(path, line)
        self._values.add(path)
        if not self._eat("="):
            raise self._lost("expected '=' after the key")
        self._value(path)

    def _key(self) -> list[str]:
        parts: list[str] = []
        while True:
            match = _KEY_PART.match(self._text, self._pos)
            if match is None:
                raise self._lost("expected a key here")
            parts.append(intern(self._name(match[1])))
            self._pos = match.end()
            if len(parts) > MAX_DEPTH:  # before tomllib sees it, which takes quadratic time over a long key
                raise deep((*self._table, *parts), self._line())
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

    def _value(self, path: KeyPath) -> None:
        """Pass a string, number, word or date; step into a bracket."""
        while self._text.startswith((" ", "\t"), self._pos):
            self._pos += 1
        if self._enter(path):
            return
        match = _SCALAR.match(self._text, self._pos)
        if match is None:
            raise self._lost("expected a value here")
        self._pos = match.end()

    def _lost(self, message: str) -> ScanError:
        return ScanError("lost", self._table, self._line(), message)


def place_workspaces(value: Any, file_of: Callable[[KeyPath], str], here: KeyPath = ()) -> Any:
    """Return a configuration with the folders of workspaces counted from the file in which each is written."""
    if here == ("workspace", "root") or (len(here) == 3 and (here[0], here[2]) == ("agents", "workspace")):
        file = file_of(here)
        if not (isinstance(value, str) and value.strip() and file):
            return value
        folder = os.path.expanduser(value)  # noqa: PTH111  Path's own raises for a user who is not there
        return value if folder.startswith(("/", "~")) else str(Path(file).absolute().parent / folder)
    if len(here) < 3 and isinstance(value, Mapping):
        return {key: place_workspaces(each, file_of, (*here, key)) for key, each in value.items()}
    if len(here) == 1 and isinstance(value, list):
        return [place_workspaces(each, file_of, (*here, index)) for index, each in enumerate(value)]
    return value
