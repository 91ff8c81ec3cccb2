"""Markdown cut into chunks that follow its headings, and texts as words that an index of any script can find."""

import unicodedata
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from toolcrib.lazy import dataclass, field, regex

CHUNK_CHARS, OVERLAP_CHARS = 1_600, 320
_MIN_CHARS = 32
_MAX_SECTIONS = 5_000  # of one file: beyond them headings begin no chunk
_TITLE_CHARS = 200  # of a heading, as it goes with every chunk below it
_MAX_WORDS = 64  # of one question
_CLUSTER_CHARS = 16  # how far a cut is moved so that nothing that is seen as one character is split

_HEADING = regex(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = regex(r" {0,3}(`{3,}|~{3,})")
_JOINERS = "\u200d\ufe0e\ufe0f"

# Scripts that put no blanks between words; Korean does, and what it hangs on its words is longer than they are.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_RUN = regex(f"[{_UNSPACED}]+")
# Signs that are left out in quick typing: accents, and the vowels of Arabic and Hebrew.
_SIGNS = regex("[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0652\u0670]+")
# A word, with the marks that are part of it in scripts like Devanagari, which are no letters.
_WORD = regex(f"([{_UNSPACED}]+)|((?:[^\\W_{_UNSPACED}]|[\u0900-\u0dff])+)")


class Chunk(NamedTuple):
    """A piece of a text; lines count from 1. `above` are the headings over it, which it is found by as well."""

    start_line: int
    end_line: int
    text: str
    above: str = ""

    @property
    def whole(self) -> str:
        """The text as it is searched."""
        return f"{self.above}\n{self.text}" if self.above else self.text

    @property
    def hash(self) -> bytes:
        return sha256(self.whole.encode("utf-8", "replace")).digest()


def chunk_markdown(text: str, size: int = CHUNK_CHARS, overlap: int = OVERLAP_CHARS) -> list[Chunk]:
    """Return the chunks of a text: whole lines, up to `size` characters, a heading at the beginning of its own.

    A section that is longer goes on in a chunk that repeats its last lines, up to `overlap` characters and never more
    than half a chunk. What is blank is no chunk.
    """
    cutter = _Cutter(max(_MIN_CHARS, size), overlap)
    fence = ""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        mark = _FENCE.match(line)
        heading = None if fence else _HEADING.match(line)
        if mark and (not fence or (line.strip().startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else mark[1]
        if heading:
            cutter.begin_section(len(heading[1]), line[heading.end() :][:_TITLE_CHARS].strip(" \t#"))
        for piece in _slice_line(line, cutter.size):
            cutter.add(number, piece, is_heading=bool(heading))
    cutter.flush()
    return cutter.chunks


@dataclass(slots=True)
class _Cutter:
    size: int
    overlap: int
    chunks: list[Chunk] = field(default_factory=list)
    _lines: list[tuple[int, str]] = field(default_factory=list)
    _chars: int = 0
    _repeated: int = 0
    _has_body: bool = False
    _headings: list[tuple[int, str]] = field(default_factory=list)
    _above: str = ""

    def begin_section(self, level: int, title: str) -> None:
        """End the chunk that has a body; headings that follow one another stay together."""
        if self._has_body and len(self.chunks) < _MAX_SECTIONS:
            self.flush()
        elif not self._has_body:
            del self._lines[: self._repeated]
            self._repeated = 0
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        if not self._has_body and not any(text.strip() for _, text in self._lines):
            self._above = self._trail()
        self._headings.append((level, title))

    def add(self, number: int, text: str, *, is_heading: bool) -> None:
        if self._lines and self._chars + len(text) + 1 > self.size:
            self.flush(goes_on=True)
        self._lines.append((number, text))
        self._chars += len(text) + 1
        self._has_body = self._has_body or (not is_heading and bool(text.strip()))

    def flush(self, *, goes_on: bool = False) -> None:
        """Make a chunk of the lines so far; when the section goes on, the next one repeats the last of them."""
        lines = self._lines
        text = "\n".join(line for _, line in lines)
        if text.strip() and (self._has_body or not self._repeated):
            self.chunks.append(Chunk(lines[0][0], lines[-1][0], text, self._above))
        self._lines, self._chars, self._has_body, self._above = [], 0, False, self._trail()
        for number, line in reversed(lines if goes_on else ()):
            if self._chars >= self.overlap or self._chars + len(line) + 1 > self.size // 2:
                break
            self._lines.insert(0, (number, line))
            self._chars += len(line) + 1
        self._repeated = len(self._lines)

    def _trail(self) -> str:
        return " › ".join(title for _, title in self._headings if title)


def _slice_line(line: str, size: int) -> Iterator[str]:
    """Give a line in pieces of a chunk's size, none of which begins within a character."""
    while len(line) > size:
        piece = cut_text(line, size)
        yield piece
        line = line[len(piece) :]
    yield line


def cut_text(text: str, max_chars: int) -> str:
    """Return the beginning of a text, without the half of what is seen as one character."""
    if len(text) <= max_chars:
        return text
    end = max_chars
    while end > max(1, max_chars - _CLUSTER_CHARS) and _joins(text[end - 1], text[end]):
        end -= 1
    return text[: max_chars if _joins(text[end - 1], text[end]) else end]


def _joins(before: str, after: str) -> bool:
    is_regional = "\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff"
    is_toned = "\U0001f3fb" <= after <= "\U0001f3ff"
    return before == "\u200d" or after in _JOINERS or is_toned or is_regional or unicodedata.category(after)[0] == "M"


def space_words(text: str) -> str:
    """Return a text for FTS5: a script without blanks as pairs of characters, everything else as it is."""
    return _RUN.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", _fold(text))


def _fold(text: str) -> str:
    """Return a text as it is compared: one spelling of each character, without accents."""
    return unicodedata.normalize("NFC", _SIGNS.sub("", unicodedata.normalize("NFKD", text)))


def _pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run))]


def list_terms(question: str) -> list[str]:
    """Return the terms of a question, each as FTS5 takes it: data, never syntax.

    FTS5 knows the endings of English; a word with other letters is looked for by its beginning.
    """
    terms: dict[str, None] = {}
    for found in _WORD.finditer(_fold(question)):
        run, word = found.groups()
        if run:
            pairs = _pairs(run)[:-1]  # the last is one character, which only ends a text
            terms.update(dict.fromkeys([f'"{pair}"' for pair in pairs] or [f'"{run}"*']))
        elif word.isascii() or len(word) < 5:
            terms[f'"{word}"'] = None
        else:
            terms[f'"{word[: max(4, len(word) * 7 // 10)]}"*'] = None
        if len(terms) >= _MAX_WORDS:
            break
    return list(terms)
