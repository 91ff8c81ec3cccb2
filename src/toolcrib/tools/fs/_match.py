"""Where a passage stands in a file: exactly, or as nearly as the first tolerant reading that finds it.

Readings are tried in order, each as tolerant as those before it together: exact bytes, line endings, blanks at the end
of lines, quotes and dashes, Unicode spaces, indentation (whole lines only). The first that finds anything decides, and
what is counted is what that reading found. All of it takes time in proportion to the file and the passage.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal

from ._fold import BLANKS, folded, without_marks, without_spaces

__all__ = ["MOST", "Body", "Matches", "Reading", "Spot", "split_lines"]

Reading = Literal["exact", "endings", "blanks", "marks", "spaces", "indentation"]

MOST = 100_000  # places that are kept of one passage; all are counted
_LARGEST = 16 * 1024 * 1024  # bytes of a file that is read tolerantly
_MARK = "\ufeff"  # of a byte order; never part of a line

_FOLDS: dict[Reading, Callable[[str], str]] = {
    "endings": lambda line: line,
    "blanks": lambda line: line.rstrip(BLANKS),
    "marks": lambda line: without_marks(line.rstrip(BLANKS)),
    "spaces": lambda line: without_spaces(line.rstrip(BLANKS)),
    "indentation": folded,
}


@dataclass(frozen=True, slots=True)
class Spot:
    """One place of a passage, in bytes from the beginning of the file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matches:
    """Where a passage stands, and by which reading; `total` counts the places beyond the `MOST` that are kept too."""

    reading: Reading
    spots: tuple[Spot, ...]
    total: int


class Body:
    """A file's bytes, and what the tolerant readings need of them, made when it is first needed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._joined: dict[Reading, str] = {}

    @cached_property
    def has_bare_returns(self) -> bool:
        """Whether lines end with nothing but a carriage return, as on very old machines."""
        return b"\n" not in self.data and b"\r" in self.data

    @property
    def is_large(self) -> bool:
        """Whether the file is too large to be read tolerantly."""
        return len(self.data) > _LARGEST

    @cached_property
    def text(self) -> str:
        """The text; bytes that are no UTF-8 come back unharmed when it is encoded the same way."""
        return self.data.decode("utf-8", "surrogateescape")

    @cached_property
    def pieces(self) -> tuple[list[str], list[int]]:
        """The lines without their endings, and where each begins, in characters."""
        lines, ends = split_lines(self.text, bare_returns=self.has_bare_returns)
        lengths = (len(line) + len(end) for line, end in zip(lines, ends, strict=False))
        return lines, [0, *accumulate(lengths)]

    def find(self, old: str) -> Matches | None:
        """Return where `old` stands, None when no reading finds it."""
        exact = _all(self.data, old.encode(), self._whole)
        if exact.total:
            return exact
        if self.is_large:
            return None
        wanted = split_lines(old, bare_returns=self.has_bare_returns)[0]
        if not any(line.strip(BLANKS) for line in wanted):
            return None  # nothing but blanks: a tolerant reading would find it everywhere
        for reading, fold in _FOLDS.items():
            if self._says_nothing_new(reading, old):
                continue
            lines = [fold(line) for line in wanted]
            found = self._whole_lines(lines) if reading == "indentation" else self._anywhere(reading, lines)
            if found.total:
                return found
        return None

    def _says_nothing_new(self, reading: Reading, old: str) -> bool:
        """Tell whether a reading could find nothing that the one before it did not."""
        if reading == "endings":
            return "\r" not in old and b"\r" not in self.data
        return reading in ("marks", "spaces") and old.isascii() and self.data.isascii()

    def _whole(self, start: int, end: int) -> Spot:
        """Return an exact place, grown where it would cut the ending of a line in two."""
        data = self.data
        return Spot(start - (start > 0 and data[start] == 0x0A and data[start - 1] == 0x0D), end)

    def _folded(self, reading: Reading) -> str:
        if reading not in self._joined:
            fold = _FOLDS[reading]
            self._joined[reading] = "\n".join([fold(line) for line in self.pieces[0]])
        return self._joined[reading]

    def _anywhere(self, reading: Reading, wanted: list[str]) -> Matches:
        """Return the places that begin and end anywhere in a line: a folded line has the columns of the line itself."""
        joined, passage = self._folded(reading), "\n".join(wanted)
        starts = self.pieces[1]
        places = []
        line = seen = 0
        for at in _places(joined, passage):
            line += joined.count("\n", seen, at)
            seen = at
            last = line + len(wanted) - 1
            column = at - joined.rfind("\n", 0, at) - 1
            end = len(wanted[-1]) + (0 if last > line else column)
            places.append((starts[line] + column, starts[last] + end))
        return Matches(reading, self._in_bytes(places), joined.count(passage))

    def _whole_lines(self, wanted: list[str]) -> Matches:
        """Return the places that are whole lines, however they are indented."""
        lines, starts = self.pieces
        is_ended = not wanted[-1]
        asked = wanted[:-1] if is_ended else wanted
        joined, passage = f"\n{self._folded('indentation')}\n", "\n".join(["", *asked, ""])
        places = []
        line = seen = 0
        at = joined.find(passage)
        while at >= 0:
            line += joined.count("\n", seen, at)
            seen = at
            last = line + len(asked) - 1
            start = starts[line] + (line == 0 and self.text.startswith(_MARK))
            if not is_ended:
                places.append((start, starts[last] + len(lines[last].rstrip(BLANKS))))
            elif last + 1 < len(lines):
                places.append((start, starts[last + 1]))
            at = joined.find(passage, at + len(passage) - 1)
        return Matches("indentation", self._in_bytes(places[:MOST]), len(places))

    def _in_bytes(self, places: list[tuple[int, int]]) -> tuple[Spot, ...]:
        text = self.text
        if text.isascii():
            return tuple(Spot(start, end) for start, end in places)
        spots, chars, size = [], 0, 0
        for start, end in places:
            first = size + _size(text[chars:start])
            size = first + _size(text[start:end])
            chars = end
            spots.append(Spot(first, size))
        return tuple(spots)


def split_lines(text: str, *, bare_returns: bool = False) -> tuple[list[str], list[str]]:
    """Return the lines of a text and the endings between them; a lone CR ends a line only where nothing else does."""
    if "\r" not in text:
        lines = text.split("\n")
        return lines, ["\n"] * (len(lines) - 1)
    pieces = re.split(r"(\r\n|\n|\r)" if bare_returns else r"(\r\n|\n)", text)
    return pieces[::2], pieces[1::2]


def _all(data: bytes, wanted: bytes, spot: Callable[[int, int], Spot]) -> Matches:
    spots: list[Spot] = []
    at = data.find(wanted)
    while at >= 0 and len(spots) < MOST:
        end = at + len(wanted)
        spots.append(spot(at, end))
        at = data.find(wanted, end)
    return Matches("exact", tuple(spots), len(spots) if at < 0 else data.count(wanted))


def _places(text: str, wanted: str) -> Iterator[int]:
    at, seen = text.find(wanted), 0
    while at >= 0 and seen < MOST:
        yield at
        seen += 1
        at = text.find(wanted, at + len(wanted))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
