"""A unified diff of what was changed, made from the surroundings of the changes alone and never longer than a page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, pairwise
from typing import NamedTuple

from toolcrib.lazy import dataclass, regex

from ._match import ByteSpan, FileBody, Indentation, Matches, MatchReading, split_lines
from ._text import shorten_line

_MAX_COMPARISONS = 5_000_000  # beyond it the lines between the first and the last difference count as all new


_SHOWN_CHARS = 2_000  # of a change that a model reads


def render_change(diff: str) -> str:
    """Return what a model reads of a change it made: the lines around it, without the names of the file."""
    lines = "\n".join(line for line in diff.splitlines() if not line.startswith(("--- ", "+++ ")))
    return f"The change:\n{shorten_line(lines, _SHOWN_CHARS, ' ...')}" if lines else ""


class LineStep(NamedTuple):
    """Lines `old` to `old_end` became lines `new` to `new_end`; `kept` when they are the same."""

    kept: bool
    old: int
    old_end: int
    new: int
    new_end: int


def compare_lines(old: Sequence[object], new: Sequence[object]) -> list[LineStep]:
    """Return the steps from `old` to `new`, kept and changed ones in turn."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    found = [LineStep(True, 0, head, 0, head)] if head else []
    found += _between(old[head : len(old) - tail], new[head : len(new) - tail], head)
    if tail:
        found.append(LineStep(True, len(old) - tail, len(old), len(new) - tail, len(new)))
    return found


def _between(old: Sequence[object], new: Sequence[object], at: int) -> list[LineStep]:
    if not old and not new:
        return []
    known = Counter(old)
    pairs = sum(known[line] * times for line, times in Counter(new).items())
    if not pairs or pairs * min(len(old), len(new)) > _MAX_COMPARISONS:
        return [LineStep(False, at, at + len(old), at, at + len(new))]
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [LineStep(tag == "equal", at + a, at + b, at + c, at + d) for tag, a, b, c, d in codes]


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes `start` to `end` of a file give way to `data`."""

    start: int
    end: int
    data: bytes


def apply_splices(data: bytes, splices: Iterable[Splice]) -> bytes:
    """Return the file with the splices made; they are in order and do not overlap."""
    parts: list[bytes] = []
    at = 0
    for splice in splices:
        parts += (data[at : splice.start], splice.data)
        at = splice.end
    return b"".join((*parts, data[at:]))


def find_overlap(spots: Iterable[tuple[int, ByteSpan]]) -> tuple[int, int] | None:
    """Return the numbers of two passages that share a byte; None when none do."""
    ordered = sorted(spots, key=lambda each: (each[1].start, each[1].end))
    for (one, before), (other, after) in pairwise(ordered):
        if after.start < before.end:
            return one, other
    return None


def make_splices(body: FileBody, matches: Matches, old: str, new: str) -> list[Splice]:
    """Return what `new` becomes at each place: with the line endings of the place and, where need be, its indentation.

    Where a tolerant reading found the passage, a line that `old` and `new` have in common stays as the file has it.
    """
    if matches.reading == "exact" and "\n" not in new:
        data = new.encode()
        return [Splice(spot.start, spot.end, data) for spot in matches.spots]
    made: dict[tuple[bytes, str], bytes] = {}  # most places of a passage are the same
    splices = []
    for spot in matches.spots:
        ending = b"\r" if body.has_bare_returns else line_ending(body.data, spot.start, spot.end)
        key = body.data[spot.start : spot.end], ending.decode()
        if key not in made:
            made[key] = _fit_replacement(body, key, matches.reading, old, new)
        splices.append(Splice(spot.start, spot.end, made[key]))
    return splices


def _fit_replacement(body: FileBody, place: tuple[bytes, str], reading: MatchReading, old: str, new: str) -> bytes:
    data, near = place
    own, ends = split_lines(data.decode("utf-8", "surrogateescape"), bare_returns=body.has_bare_returns)
    wanted = split_lines(new)[0]
    if reading == "exact" and len(set(ends)) <= 1:
        text = (ends[0] if ends else near).join(wanted)
    else:
        written = split_lines(old, bare_returns=body.has_bare_returns)[0]
        if reading == "indentation":
            indented = Indentation(zip(written, own, strict=True))
            written, wanted = indented(written), indented(wanted)
        text = _weave(own, ends or [near], written, wanted)
    return text.encode("utf-8", "surrogateescape")


def _weave(own: Sequence[str], ends: Sequence[str], written: Sequence[str], wanted: Sequence[str]) -> str:
    """Return the wanted lines: those that were `written` too as the file has them, with its endings between them."""
    lines: list[str] = []
    after: list[str] = []
    for step in compare_lines(written, wanted):
        for at in range(step.new, step.new_end):
            line = step.old + at - step.new
            lines.append(own[line] if step.kept else wanted[at])
            after.append(ends[min(line, len(ends) - 1)])
    return "".join(line + end for line, end in zip(lines, [*after[:-1], ""], strict=True))


def line_ending(data: bytes, start: int, end: int) -> bytes:
    """Return how the line ends that the bytes up to `end` are in, or else the one before `start`."""
    at = data.find(b"\n", end)
    if at < 0:
        at = data.rfind(b"\n", 0, start)
    return b"\r\n" if at > 0 and data[at - 1] == 0x0D else b"\n"


_CONTEXT_LINES = 4  # lines shown before and after a change
_MAX_DIFF_CHARS, _MAX_LINE_CHARS = 50_000, 2_000  # characters of a diff and of a line in it
_MAX_REGION_BYTES = 1_000_000  # bytes of one place that is compared line by line
_LINE = regex(rb"[^\n]*\n|[^\n]+")
_NO_END = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class Diff:
    """The diff, and the number (from 1) of the first line that is different in the new file."""

    text: str
    first: int


@dataclass(frozen=True, slots=True)
class _Region:
    """Whole lines of the old file, from line `line` (from 0), and what has come in their place."""

    line: int
    old: Sequence[bytes]
    new: Sequence[bytes]


def make_diff(path: str, data: bytes, splices: Sequence[Splice]) -> Diff:
    """Return the diff of a file with these splices, in order; what is over the limit is counted, not shown."""
    lines = [f"--- a/{path}", f"+++ b/{path}"]
    room, left = _MAX_DIFF_CHARS, 0
    first = shift = 0
    for region in _regions(data, splices):
        changed = compare_lines(region.old, region.new)
        if not first:
            first = region.line + 1 + next((step.new for step in changed if not step.kept), 0)
        for line in chain.from_iterable(_render_hunk(region, hunk, shift) for hunk in _hunks(changed)):
            room -= len(line) + 1
            if room < 0:
                left += 1
            else:
                lines.append(line)
        shift += len(region.new) - len(region.old)
    if left:
        lines.append(f"... and {left} more lines")
    return Diff("\n".join(lines), first)


def _regions(data: bytes, splices: Sequence[Splice]) -> Iterator[_Region]:
    """Give the lines around each splice; splices whose surroundings touch share a region."""
    line = seen = at = 0
    while at < len(splices):
        start = _back(data, splices[at].start, _CONTEXT_LINES)
        parts: list[bytes] = []
        end = copied = start
        while at < len(splices) and (splices[at].start <= end or end == start):
            splice = splices[at]
            parts += (data[copied : splice.start], splice.data)
            copied, end = splice.end, _forth(data, splice.end, _CONTEXT_LINES + 1)
            at += 1
        parts.append(data[copied:end])
        line += data.count(b"\n", seen, start)
        seen = start
        yield _Region(line, _split(data[start:end]), _split(b"".join(parts)))


def _split(data: bytes) -> list[bytes]:
    """Return the lines with their endings; what is too much to tell line by line is one line."""
    return _LINE.findall(data) if len(data) <= _MAX_REGION_BYTES else [data]


def _hunks(changed: Sequence[LineStep]) -> Iterator[list[LineStep]]:
    """Give the changes in groups that stand near one another, with the kept lines around them cut short."""
    group: list[LineStep] = []
    for step in changed:
        if not step.kept:
            group.append(step)
            continue
        long = step.old_end - step.old > 2 * _CONTEXT_LINES
        if group and any(not each.kept for each in group):
            if not long:
                group.append(step)
                continue
            yield [*group, _cut(step, tail=False)]
        group = [_cut(step, tail=True)]
    if any(not each.kept for each in group):
        last = group[-1]
        yield [*group[:-1], _cut(last, tail=False) if last.kept else last]


def _cut(step: LineStep, *, tail: bool) -> LineStep:
    over = max(step.old_end - step.old - _CONTEXT_LINES, 0)
    if tail:
        return step._replace(old=step.old + over, new=step.new + over)
    return step._replace(old_end=step.old_end - over, new_end=step.new_end - over)


def _render_hunk(region: _Region, hunk: Sequence[LineStep], shift: int) -> Iterator[str]:
    old, new = hunk[-1].old_end - hunk[0].old, hunk[-1].new_end - hunk[0].new
    line = region.line + 1
    yield f"@@ -{_range(line + hunk[0].old, old)} +{_range(line + shift + hunk[0].new, new)} @@"
    for step in hunk:
        if step.kept:
            yield from _mark_lines(" ", region.old[step.old : step.old_end])
        else:
            yield from _mark_lines("-", region.old[step.old : step.old_end])
            yield from _mark_lines("+", region.new[step.new : step.new_end])


def _range(line: int, count: int) -> str:
    return f"{line if count else line - 1},{count}" if count != 1 else f"{line}"


def _mark_lines(mark: str, lines: Sequence[bytes]) -> Iterator[str]:
    for line in lines:
        # a tenth more than is shown, so that no character is cut in the middle
        text = line[: 4 * _MAX_LINE_CHARS].decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        yield mark + (text if len(text) <= _MAX_LINE_CHARS else f"{text[:_MAX_LINE_CHARS]}… [{len(line)} bytes]")
        if not line.endswith(b"\n"):
            yield _NO_END


def _back(data: bytes, at: int, lines: int) -> int:
    """Return where the line begins that stands `lines` before the one at `at`."""
    at = data.rfind(b"\n", 0, at) + 1
    for _ in range(lines):
        if not at:
            break
        at = data.rfind(b"\n", 0, at - 1) + 1
    return at


def _forth(data: bytes, at: int, lines: int) -> int:
    """Return where the line ends that stands `lines - 1` behind the one at `at`."""
    for _ in range(lines):
        end = data.find(b"\n", at)
        if end < 0:
            return len(data)
        at = end + 1
    return at
