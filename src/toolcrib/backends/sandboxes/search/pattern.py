r"""What a line is searched for: one language of regular expressions, read once and written out for both engines.

The language is what ripgrep and RE2 have in common, so every pattern takes linear time: literals, `.`, sets, groups,
`|`, repetition, `^ $ \b \B \d \w \s \p{..}` and `(?i)`. Letters, digits and blanks are Unicode's. A match lies within
one line; a carriage return before its end counts as part of the end. What neither engine has gets one sentence.

RE2 knows word boundaries between ASCII letters only. On a line with other letters they are looked for in a copy of the
line in which every boundary is marked with characters that no text has.
"""

import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import re2

from toolcrib.define.errors import ArgumentError

from .syntax import INSIDE_MARK, WORD_MARK, Dialect, written

__all__ = ["Pattern", "pattern_of"]

_MEMORY = 32 << 20  # bytes that one compiled expression may take
_LONGEST = 4_000  # characters of a pattern
_PLAIN = Dialect(boundary=r"\b", inside=r"\B")
_LOOSE = Dialect(boundary="(?:)", inside="(?:)")
_MARKS = WORD_MARK + INSIDE_MARK
_MARKED = Dialect(boundary=WORD_MARK, inside=INSIDE_MARK, marks=_MARKS)
_MOST_MARKS = 8  # boundaries asked for at one place

# Letters in circles and squares: alphabetic by name, symbols by category.
_CIRCLED = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern. `text` is the expression for ripgrep; `literal` the bytes, when that is all it is."""

    text: str
    literal: bytes | None
    _strict: Any
    _loose: Any = None
    _marked: Any = None
    _marks: int = 0

    def next_line(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Return where the next matching line of a text begins and ends, from the line that begins at `at`."""
        size = len(data)
        while at < size:
            found = self._found(data, at)
            if found < 0:
                return None
            start = data.rfind(b"\n", at, found) + 1 or at
            if start >= size:  # behind the last line end there is no line
                return None
            end = data.find(b"\n", found)
            end = size if end < 0 else end
            if self._loose is None or self._holds(data[start:end]):
                return start, end
            at = end + 1
        return None

    def _found(self, data: bytes, at: int) -> int:
        if self.literal is not None:
            return data.find(self.literal, at)
        match = (self._loose or self._strict).search(data, at)
        return -1 if match is None else int(match.start())

    def _holds(self, line: bytes) -> bool:
        """Tell whether a line that matches without its word boundaries matches with them."""
        if line.isascii():
            return self._strict.search(line) is not None
        return self._marked.search(_with_marks(line, self._marks).encode()) is not None


@lru_cache(maxsize=64)
def pattern_of(text: str, *, literal: bool, ignore_case: bool) -> Pattern:
    """Return the compiled pattern; raise ArgumentError when it is not one, or not one that takes linear time."""
    if len(text) > _LONGEST:
        raise ArgumentError(f"the pattern has {len(text)} characters; {_LONGEST} is the most")
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise ArgumentError("the pattern holds half a character, which no text has") from None
    if literal and ("\n" in text or "\r" in text):
        raise ArgumentError(
            "the pattern holds a line end, and lines are searched one by one; search for one line of it"
        )
    plain = written(text, _PLAIN, literal=literal)
    case = "(?i)" if ignore_case else ""
    strict = _compiled(case + plain.text)
    # an expression that is no more than its own letters is looked for as such: nothing is faster
    whole = raw if raw and not ignore_case and (literal or plain.is_literal) else None
    if not plain.boundaries:
        return Pattern(f"{case}{plain.text}", whole, strict)
    loose, marked = written(text, _LOOSE), written(text, _MARKED)
    return Pattern(
        text=f"{case}{plain.text}",
        literal=None,
        _strict=strict,
        _loose=_compiled(case + loose.text),
        _marked=_compiled(case + marked.text),
        _marks=min(plain.boundaries, _MOST_MARKS),
    )


def _compiled(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(f"(?m){text}", options)
    except re2.error as error:
        problem = bytes(error.args[0]).decode(errors="replace").partition(":")[0]
        raise ArgumentError(
            f"the pattern cannot be searched for ({problem}); "
            "make it simpler, or set literal to search for the text as it is"
        ) from None


def _with_marks(line: bytes, count: int) -> str:
    """Return the line with a mark, `count` times over, wherever a word begins or ends, and another one elsewhere."""
    text = line.decode("utf-8", "replace")
    border, inside = WORD_MARK * count, INSIDE_MARK * count
    pieces: list[str] = []
    before = False
    for char in text:
        word = _is_word(char)
        pieces += (border if word is not before else inside, char)
        before = word
    pieces.append(border if before else inside)
    return "".join(pieces)


@cache
def _is_word(char: str) -> bool:
    """Tell whether a character belongs to words, as Unicode sees it."""
    category = unicodedata.category(char)
    if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or char in "\u200c\u200d":
        return True
    return any(first <= ord(char) <= last for first, last in _CIRCLED)
