"""The passage of a file that comes nearest to one that is not there, for the sentence that says so."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ._fold import folded

__all__ = ["Near", "named", "nearest", "shown"]

_LINES, _WIDTH, _WANTED = 200_000, 400, 2_000  # how much is looked at: lines, characters of a line, lines asked for
_COMPARED = 5_000  # lines that are compared letter by letter
_VOTES = 50  # a line that stands in more places than this says nothing about where a passage is
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Near:
    """The first line that differs in the nearest passage: its number from 1, as it is, and as it was asked for."""

    line: int
    text: str
    asked: str

    def __str__(self) -> str:
        return f"the nearest is line {self.line}, {shown(self.text)}"


def nearest(lines: Sequence[str], asked: Sequence[str], first: int = 0) -> Near | None:
    """Return where the asked-for lines nearly stand, at or behind line `first` (from 0); None when nothing is like it.

    Lines that are there vote for the place of the passage; without any, the line that shares most words is told.
    """
    wanted = {at: plain for at, line in enumerate(asked[:_WANTED]) if (plain := folded(line[:_WIDTH]))}
    if not wanted:
        return None
    seen = [folded(line[:_WIDTH]) for line in lines[first : first + _LINES]]
    at = _voted(seen, wanted)
    if at is None:
        at = _alike(seen, wanted)
    if at is None:
        return None
    for number, plain in wanted.items():
        if not 0 <= at + number < len(seen) or seen[at + number] != plain:
            line = min(max(at + number, 0), len(seen) - 1)
            return Near(first + line + 1, lines[first + line], asked[number])
    return Near(first + at + 1, lines[first + at], asked[0])


def _voted(seen: Sequence[str], wanted: dict[int, str]) -> int | None:
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, plain in wanted.items():
        numbers[plain].append(number)
    votes: Counter[int] = Counter()
    places: Counter[str] = Counter()
    for at, plain in enumerate(seen):
        if plain in numbers and places[plain] < _VOTES:
            places[plain] += 1
            for number in numbers[plain][:_VOTES]:
                votes[at - number] += len(plain)  # a long line says more than a bracket
    return max(votes, key=lambda at: (votes[at], -at)) if votes else None


def _alike(seen: Sequence[str], wanted: dict[int, str]) -> int | None:
    number, plain = max(wanted.items(), key=lambda each: len(each[1]))
    words = set(re.findall(r"\w{3,}", plain.lower())[:8])
    likely = (at for at, line in enumerate(seen) if any(word in line.lower() for word in words))
    some = list(islice(likely, _COMPARED)) or range(min(len(seen), _COMPARED))
    pairs = _pairs(plain)
    best, most = None, 0.2  # below it, two lines have nothing to do with each other
    for at in some:
        own = _pairs(seen[at])
        score = len(pairs & own) / (len(pairs | own) or 1)
        if score > most:
            best, most = at, score
    return None if best is None else best - number


def _pairs(line: str) -> set[str]:
    """Return the pairs of letters in a line: what a misspelt word still shares with itself."""
    low = line.lower()
    return {low[at : at + 2] for at in range(len(low) - 1)}


def named(path: str) -> str:
    """Return a path for a sentence: as it is, or quoted when it holds what cannot be printed."""
    return path if path.isprintable() else repr(path)


def shown(text: str) -> str:
    """Return a line for a sentence: quoted, on one line, cut when it is long; bytes that are no text become marks."""
    plain = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return repr(plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…")
