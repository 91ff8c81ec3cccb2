"""Where a passage stands in a file: exactly, or as nearly as the first tolerant reading that finds it.

Readings are tried in order, each as tolerant as those before it together: exact bytes, line endings, blanks at the end
of lines, quotes and dashes, Unicode spaces, indentation (whole lines only). The first that finds anything decides, and
what is counted is what that reading found. All of it takes time in proportion to the file and the passage.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import AnyStr, Literal

from toolcrib.lazy import dataclass

# What may stand at the end of a line unseen; the byte-order mark is blank too.
BLANKS = " \t\v\f\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"

# Each character gives way to exactly one other, so that places in a folded text are places in the text itself.
_MARKS = {
    **dict.fromkeys(range(0x2018, 0x201C), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
}
_MARKS_AND_SPACES = {**_MARKS, **dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")}


def _translate(line: str, table: Mapping[int, str]) -> str:
    return line if line.isascii() else line.translate(table)


def fold_line(line: str) -> str:
    """Return a line without the blanks around it, its quotes, dashes and spaces in the plainest spelling."""
    return _translate(line.strip(BLANKS), _MARKS_AND_SPACES)


def indent_of(line: str) -> str:
    """Return the blanks that a line begins with."""
    return line[: len(line) - len(line.lstrip(BLANKS))]


class Indentation:
    """How the indentation that somebody wrote is written in the file, learnt from lines that stand in both."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        known: dict[str, str] = {}
        for written, own in pairs:
            if written.strip(BLANKS):
                known.setdefault(indent_of(written), indent_of(own))
        self._known = known
        self._unit = _unit_of(known)

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Return the lines as they would be indented in the file; blank ones stay as they are."""
        if all(written == own for written, own in self._known.items()):
            return list(lines)
        return [self._own(indent_of(line)) + line.lstrip(BLANKS) if line.strip(BLANKS) else line for line in lines]

    def _own(self, indent: str) -> str:
        if indent in self._known:
            return self._known[indent]
        around = [written for written in self._known if indent.startswith(written)]
        if around:
            nearest = max(around, key=len)
            return self._known[nearest] + self._stretch(indent[len(nearest) :])
        inside = [written for written in self._known if written.startswith(indent)]
        if not inside:
            return indent  # tabs against spaces, and nothing to compare with
        nearest = min(inside, key=len)
        own, less = self._known[nearest], self._stretch(nearest[len(indent) :])
        return own.removesuffix(less) if own.endswith(less) else own[: max(len(own) - len(less), 0)]

    def _stretch(self, indent: str) -> str:
        """Return a piece of indentation in the file's own unit, when it is a whole number of units."""
        written, own = self._unit
        times = len(indent) // len(written) if written else 0
        return own * times if times and written * times == indent else indent


def _unit_of(known: Mapping[str, str]) -> tuple[str, str]:
    """Return one step of indentation as it is written and as the file has it; two empty texts when nothing tells."""
    steps = [
        (more[len(less) :], own[len(known[less]) :])
        for more, own in known.items()
        for less in known
        if len(more) > len(less) and more.startswith(less) and own.startswith(known[less])
    ]
    indented = [(written, own) for written, own in steps if own]
    if indented:
        return min(indented, key=lambda step: len(step[0]))
    for written, own in known.items():
        if own and written and not own.strip("\t") and len(written) % len(own) == 0:
            return written[: len(written) // len(own)], "\t"
        if own and written and not written.strip("\t") and len(own) % len(written) == 0:
            return "\t", own[: len(own) // len(written)]
    return "", ""


MatchReading = Literal["exact", "endings", "blanks", "marks", "spaces", "indentation"]

MAX_SPOTS = 100_000  # places that are kept of one passage; all are counted
MAX_TOLERANT_BYTES = 16 * 1024 * 1024  # bytes of a file that is read tolerantly
_BYTE_ORDER_MARK = "\ufeff"  # of a byte order; never part of a line

_FOLDS: dict[MatchReading, Callable[[str], str]] = {
    "endings": lambda line: line,
    "blanks": lambda line: line.rstrip(BLANKS),
    "marks": lambda line: _translate(line.rstrip(BLANKS), _MARKS),
    "spaces": lambda line: _translate(line.rstrip(BLANKS), _MARKS_AND_SPACES),
    "indentation": fold_line,
}


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """One place of a passage, in bytes from the beginning of the file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matches:
    """Where a passage stands, and by which reading; `total` counts the places beyond the `MOST` that are kept too."""

    reading: MatchReading
    spots: tuple[ByteSpan, ...]
    total: int


class FileBody:
    """A file's bytes, and what the tolerant readings need of them, made when it is first needed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._joined: dict[MatchReading, str] = {}

    @cached_property
    def has_bare_returns(self) -> bool:
        """Whether lines end with nothing but a carriage return, as on very old machines."""
        return b"\n" not in self.data and b"\r" in self.data

    @property
    def is_large(self) -> bool:
        """Whether the file is too large to be read tolerantly."""
        return len(self.data) > MAX_TOLERANT_BYTES

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
        passage = old.encode()
        exact = tuple(self._whole(at, at + len(passage)) for at in _places(self.data, passage))
        if exact:
            total = len(exact) if len(exact) < MAX_SPOTS else self.data.count(passage)
            return Matches("exact", exact, total)
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

    def _says_nothing_new(self, reading: MatchReading, old: str) -> bool:
        """Tell whether a reading could find nothing that the one before it did not."""
        if reading == "endings":
            return "\r" not in old and b"\r" not in self.data
        return reading in ("marks", "spaces") and old.isascii() and self.data.isascii()

    def _whole(self, start: int, end: int) -> ByteSpan:
        """Return an exact place, grown where it would cut the ending of a line in two."""
        data = self.data
        return ByteSpan(start - (start > 0 and data[start] == 0x0A and data[start - 1] == 0x0D), end)

    def _fold(self, reading: MatchReading) -> str:
        if reading not in self._joined:
            fold = _FOLDS[reading]
            self._joined[reading] = "\n".join([fold(line) for line in self.pieces[0]])
        return self._joined[reading]

    def _anywhere(self, reading: MatchReading, wanted: list[str]) -> Matches:
        """Return the places that begin and end anywhere in a line: a folded line has the columns of the line itself."""
        joined, passage = self._fold(reading), "\n".join(wanted)
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
        joined, passage = f"\n{self._fold('indentation')}\n", "\n".join(["", *asked, ""])
        places = []
        line = seen = 0
        at = joined.find(passage)
        while at >= 0:
            line += joined.count("\n", seen, at)
            seen = at
            last = line + len(asked) - 1
            start = starts[line] + (line == 0 and self.text.startswith(_BYTE_ORDER_MARK))
            if not is_ended:
                places.append((start, starts[last] + len(lines[last].rstrip(BLANKS))))
            elif last + 1 < len(lines):
                places.append((start, starts[last + 1]))
            at = joined.find(passage, at + len(passage) - 1)
        return Matches("indentation", self._in_bytes(places[:MAX_SPOTS]), len(places))

    def _in_bytes(self, places: list[tuple[int, int]]) -> tuple[ByteSpan, ...]:
        text = self.text
        if text.isascii():
            return tuple(ByteSpan(start, end) for start, end in places)
        spots, chars, size = [], 0, 0
        for start, end in places:
            first = size + _size(text[chars:start])
            size = first + _size(text[start:end])
            chars = end
            spots.append(ByteSpan(first, size))
        return tuple(spots)


def split_lines(text: str, *, bare_returns: bool = False) -> tuple[list[str], list[str]]:
    """Return the lines of a text and the endings between them; a lone CR ends a line only where nothing else does."""
    if "\r" not in text:
        lines = text.split("\n")
        return lines, ["\n"] * (len(lines) - 1)
    pieces = re.split(r"(\r\n|\n|\r)" if bare_returns else r"(\r\n|\n)", text)
    return pieces[::2], pieces[1::2]


def _places(text: AnyStr, wanted: AnyStr) -> Iterator[int]:
    at, seen = text.find(wanted), 0
    while at >= 0 and seen < MAX_SPOTS:
        yield at
        seen += 1
        at = text.find(wanted, at + len(wanted))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


# How much is looked at.
_MAX_LINES = 200_000
_MAX_LINE_CHARS = 400
_MAX_ASKED_LINES = 2_000
_MAX_COMPARED_LINES = 5_000  # lines that are compared letter by letter
_MAX_VOTES = 50  # a line that stands in more places than this says nothing about where a passage is
_QUOTED_CHARS = 80


@dataclass(frozen=True, slots=True)
class NearestLine:
    """The first line that differs in the nearest passage: its number from 1, as it is, and as it was asked for."""

    line: int
    text: str
    asked: str

    def __str__(self) -> str:
        return f"the nearest is line {self.line}, {quote_line(self.text)}"


def find_nearest(lines: Sequence[str], asked: Sequence[str], first: int = 0) -> NearestLine | None:
    """Return where the asked-for lines nearly stand, at or behind line `first` (from 0); None when nothing is like it.

    Lines that are there vote for the place of the passage; without any, the line that shares most words wins.
    """
    wanted = {
        row: plain for row, line in enumerate(asked[:_MAX_ASKED_LINES]) if (plain := fold_line(line[:_MAX_LINE_CHARS]))
    }
    if not wanted:
        return None
    seen = [fold_line(line[:_MAX_LINE_CHARS]) for line in lines[first : first + _MAX_LINES]]
    index = _vote(seen, wanted)
    if index is None:
        index = _alike(seen, wanted)
    if index is None:
        return None
    for number, plain in wanted.items():
        if not 0 <= index + number < len(seen) or seen[index + number] != plain:
            line = min(max(index + number, 0), len(seen) - 1)
            return NearestLine(first + line + 1, lines[first + line], asked[number])
    return NearestLine(first + index + 1, lines[first + index], asked[0])


def _vote(seen: Sequence[str], wanted: dict[int, str]) -> int | None:
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, plain in wanted.items():
        numbers[plain].append(number)
    votes: Counter[int] = Counter()
    places: Counter[str] = Counter()
    for at, plain in enumerate(seen):
        if plain in numbers and places[plain] < _MAX_VOTES:
            places[plain] += 1
            for number in numbers[plain][:_MAX_VOTES]:
                votes[at - number] += len(plain)  # a long line says more than a bracket
    return max(votes, key=lambda at: (votes[at], -at)) if votes else None


def _alike(seen: Sequence[str], wanted: dict[int, str]) -> int | None:
    number, plain = max(wanted.items(), key=lambda each: len(each[1]))
    words = set(re.findall(r"\w{3,}", plain.lower())[:8])
    likely = (at for at, line in enumerate(seen) if any(word in line.lower() for word in words))
    some = list(islice(likely, _MAX_COMPARED_LINES)) or range(min(len(seen), _MAX_COMPARED_LINES))
    pairs = _pairs(plain)
    best, score_before = None, 0.2  # below it, two lines have nothing to do with each other
    for at in some:
        pairs_here = _pairs(seen[at])
        score = len(pairs & pairs_here) / (len(pairs | pairs_here) or 1)
        if score > score_before:
            best, score_before = at, score
    return None if best is None else best - number


def _pairs(line: str) -> set[str]:
    """Return the pairs of letters in a line: what a misspelt word still shares with itself."""
    low = line.lower()
    return {low[at : at + 2] for at in range(len(low) - 1)}


def quote_path(path: str) -> str:
    """Return a path for a sentence: as it is, or quoted when it holds what cannot be printed."""
    return path if path.isprintable() else repr(path)


def quote_line(text: str) -> str:
    """Return a line for a sentence: quoted, on one line, cut when it is long; bytes that are no text become marks."""
    plain = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return repr(plain if len(plain) <= _QUOTED_CHARS else f"{plain[:_QUOTED_CHARS]}…")
