"""Finds the line of every key and list item of a JSON5 text, and what makes it unfit: duplicates, depth, syntax.

The decoder keeps the last of two equal keys without a word, so this scan has to be exact: whatever it
cannot follow to the end is a fault.
"""

import math
import re
from dataclasses import dataclass
from sys import intern

import pyjson5

from toolcrib.config.places import MAX_DEPTH, Fault, KeyPath, Scan, ScanError, deep, line_finder, scanned, twice

__all__ = ["scan_json5"]

_WHITE = r"\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SPACE = re.compile(rf"(?:[{_WHITE}]++|//[^\n\r\u2028\u2029]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_STRING = re.compile(r""""(?:[^"\\\n\r]++|\\(?:\r\n|.))*+"|'(?:[^'\\\n\r]++|\\(?:\r\n|.))*+'""", re.DOTALL)
_WORD = re.compile(rf"""[^{_WHITE}:,{{}}\[\]"'/]++""")
_NUMBER = re.compile(
    r"[+-]?(?:Infinity|NaN|0[xX][0-9a-fA-F]+|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)


def scan_json5(text: str) -> Scan:
    """The lines of a JSON5 text; never raises, and takes time in proportion to the text."""
    return scanned(_Scanner(text))


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet; `count` is the number of members seen."""

    path: KeyPath
    closer: str
    line: int
    count: int = 0


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._line_of = line_finder(text)
        self._open: list[_Open] = []
        self._pos = 0

    def run(self) -> None:
        self._skip()
        if self._pos == len(self._text):
            raise self._lost((), "the file is empty; write {} for an empty configuration")
        self._value(())
        while self._open:
            self._member(self._open[-1])
        if self._pos < len(self._text):
            raise self._lost((), "the configuration ends before this; remove what follows it")

    def _member(self, box: _Open) -> None:
        """Passes one member of the innermost bracket, or the bracket's end."""
        if box.count and not self._eat(","):
            self._close(box, f"expected a comma or {box.closer!r} here")
        elif self._peek() == box.closer:  # empty, or after a trailing comma
            self._close(box, "")
        elif box.closer == "}":
            self._pair(box)
        else:
            path = (*box.path, box.count)
            box.count += 1
            self.lines[path] = self._line_of(self._pos)
            self._value(path)

    def _close(self, box: _Open, otherwise: str) -> None:
        if not self._eat(box.closer):
            raise self._lost(box.path, otherwise)
        self._open.pop()

    def _pair(self, box: _Open) -> None:
        line = self._line_of(self._pos)
        path = (*box.path, self._key(box))
        if path in self.lines:
            raise ScanError(twice(path, line, self.lines[path]))
        self.lines[path] = line
        box.count += 1
        self._skip()
        if not self._eat(":"):
            raise self._lost(path, "expected a colon after the key")
        self._value(path)

    def _key(self, box: _Open) -> str:
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
        """Passes a string, number or word; steps into a bracket."""
        char = self._peek()
        if char and char in "{[":
            line = self._line_of(self._pos)
            if len(self._open) >= MAX_DEPTH:
                raise ScanError(deep(path, line))
            self._open.append(_Open(path, "}" if char == "{" else "]", line))
            self._pos += 1
        else:
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

    def _peek(self) -> str:
        return self._text[self._pos : self._pos + 1]

    def _eat(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self._pos += 1
        self._skip()
        return True

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._pos)
        if match:
            self._pos = match.end()

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
        return ScanError(Fault("lost", path, self._line_of(self._pos), message))
