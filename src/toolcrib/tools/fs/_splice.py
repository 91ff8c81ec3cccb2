"""Passages of a file replaced by others. What is not in a passage stays as it is, byte for byte."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ._indent import Indentation
from ._lines import steps
from ._match import Body, Matches, Reading, Spot, split_lines

__all__ = ["Splice", "overlapping", "replacements", "spliced"]


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes `start` to `end` of a file give way to `data`."""

    start: int
    end: int
    data: bytes


def spliced(data: bytes, splices: Iterable[Splice]) -> bytes:
    """Return the file with the splices made; they are in order and do not overlap."""
    parts: list[bytes] = []
    at = 0
    for splice in splices:
        parts += (data[at : splice.start], splice.data)
        at = splice.end
    return b"".join((*parts, data[at:]))


def overlapping(spots: Iterable[tuple[int, Spot]]) -> tuple[int, int] | None:
    """Return the numbers of two passages that share a byte; None when none do."""
    ordered = sorted(spots, key=lambda each: (each[1].start, each[1].end))
    for (one, before), (other, after) in pairwise(ordered):
        if after.start < before.end:
            return one, other
    return None


def replacements(body: Body, matches: Matches, old: str, new: str) -> list[Splice]:
    """Return what `new` becomes at each place: with the line endings of the place and, where need be, its indentation.

    Where a tolerant reading found the passage, a line that `old` and `new` have in common stays as the file has it.
    """
    if matches.reading == "exact" and "\n" not in new:
        data = new.encode()
        return [Splice(spot.start, spot.end, data) for spot in matches.spots]
    made: dict[tuple[bytes, str], bytes] = {}  # most places of a passage are the same
    splices = []
    for spot in matches.spots:
        key = body.data[spot.start : spot.end], _ending_near(body, spot)
        if key not in made:
            made[key] = _fitted(body, key, matches.reading, old, new)
        splices.append(Splice(spot.start, spot.end, made[key]))
    return splices


def _fitted(body: Body, place: tuple[bytes, str], reading: Reading, old: str, new: str) -> bytes:
    data, near = place
    own, ends = split_lines(data.decode("utf-8", "surrogateescape"), bare_returns=body.has_bare_returns)
    wanted = split_lines(new)[0]
    if reading == "exact" and len(set(ends)) <= 1:
        text = (ends[0] if ends else near).join(wanted)
    else:
        written = split_lines(old, bare_returns=body.has_bare_returns)[0]
        text = _woven(_Place(own, ends or [near], written), wanted, reading)
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class _Place:
    """The lines of a passage as the file has them, the endings between them, and the lines as they were asked for."""

    own: Sequence[str]
    ends: Sequence[str]
    written: Sequence[str]


def _woven(place: _Place, wanted: Sequence[str], reading: Reading) -> str:
    own, ends, written = place.own, place.ends, place.written
    if reading == "indentation":
        indented = Indentation(zip(written, own, strict=True))
        written, wanted = indented(written), indented(wanted)
    lines: list[str] = []
    after: list[str] = []
    for step in steps(written, wanted):
        for at in range(step.new, step.new_end):
            line = step.old + at - step.new
            lines.append(own[line] if step.kept else wanted[at])
            after.append(ends[min(line, len(ends) - 1)])
    return "".join(line + end for line, end in zip(lines, [*after[:-1], ""], strict=True))


def _ending_near(body: Body, spot: Spot) -> str:
    """Return how the line ends that the place is in, or else the one before it."""
    if body.has_bare_returns:
        return "\r"
    data = body.data
    at = data.find(b"\n", spot.end)
    if at < 0:
        at = data.rfind(b"\n", 0, spot.start)
    return "\r\n" if at > 0 and data[at - 1] == 0x0D else "\n"
