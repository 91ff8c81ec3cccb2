"""A unified diff of what was changed, made from the surroundings of the changes alone and never longer than a page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ._lines import Step, steps
from ._splice import Splice

__all__ = ["Diff", "diff_of"]

_AROUND = 4  # lines shown before and after a change
_LONGEST, _WIDEST = 50_000, 2_000  # characters of a diff and of a line in it
_LARGEST = 1_000_000  # bytes of one place that is told line by line
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


def diff_of(path: str, data: bytes, splices: Sequence[Splice]) -> Diff:
    """Return the diff of a file with these splices, in order; what is over the limit is counted, not shown."""
    shown = [f"--- a/{path}", f"+++ b/{path}"]
    told = _Page(_LONGEST)
    first = shift = 0
    for region in _regions(data, splices):
        changed = steps(region.old, region.new)
        if not first:
            first = region.line + 1 + next((step.new for step in changed if not step.kept), 0)
        for hunk in _hunks(changed):
            told.add(_told(region, hunk, shift))
        shift += len(region.new) - len(region.old)
    return Diff("\n".join([*shown, *told.lines, *told.note()]), first)


class _Page:
    """Lines up to a number of characters; the others are counted."""

    def __init__(self, room: int) -> None:
        self.lines: list[str] = []
        self._room, self._left = room, 0

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._room -= len(line) + 1
            if self._room < 0:
                self._left += 1
            else:
                self.lines.append(line)

    def note(self) -> list[str]:
        return [f"... and {self._left} more lines"] if self._left else []


def _regions(data: bytes, splices: Sequence[Splice]) -> Iterator[_Region]:
    """Give the lines around each splice; splices whose surroundings touch share a region."""
    line = seen = at = 0
    while at < len(splices):
        start = _back(data, splices[at].start, _AROUND)
        parts: list[bytes] = []
        end = copied = start
        while at < len(splices) and (splices[at].start <= end or end == start):
            splice = splices[at]
            parts += (data[copied : splice.start], splice.data)
            copied, end = splice.end, _forth(data, splice.end, _AROUND + 1)
            at += 1
        parts.append(data[copied:end])
        line += data.count(b"\n", seen, start)
        seen = start
        yield _Region(line, _split(data[start:end]), _split(b"".join(parts)))


def _split(data: bytes) -> list[bytes]:
    """Return the lines with their endings; what is too much to tell line by line is one line."""
    return data.splitlines(keepends=True) if b"\r" not in data and len(data) <= _LARGEST else _split_by_lf(data)


def _split_by_lf(data: bytes) -> list[bytes]:
    if len(data) > _LARGEST:
        return [data]
    lines = data.split(b"\n")
    return [*(line + b"\n" for line in lines[:-1]), *(lines[-1:] if lines[-1] else ())]


def _hunks(changed: Sequence[Step]) -> Iterator[list[Step]]:
    """Give the changes in groups that stand near one another, with the kept lines around them cut short."""
    group: list[Step] = []
    for step in changed:
        if not step.kept:
            group.append(step)
            continue
        long = step.old_end - step.old > 2 * _AROUND
        if group and any(not each.kept for each in group):
            if not long:
                group.append(step)
                continue
            yield [*group, _cut(step, tail=False)]
        group = [_cut(step, tail=True)]
    if any(not each.kept for each in group):
        last = group[-1]
        yield [*group[:-1], _cut(last, tail=False) if last.kept else last]


def _cut(step: Step, *, tail: bool) -> Step:
    over = max(step.old_end - step.old - _AROUND, 0)
    if tail:
        return step._replace(old=step.old + over, new=step.new + over)
    return step._replace(old_end=step.old_end - over, new_end=step.new_end - over)


def _told(region: _Region, hunk: Sequence[Step], shift: int) -> Iterator[str]:
    old, new = hunk[-1].old_end - hunk[0].old, hunk[-1].new_end - hunk[0].new
    line = region.line + 1
    yield f"@@ -{_range(line + hunk[0].old, old)} +{_range(line + shift + hunk[0].new, new)} @@"
    for step in hunk:
        if step.kept:
            yield from _marked(" ", region.old[step.old : step.old_end])
        else:
            yield from _marked("-", region.old[step.old : step.old_end])
            yield from _marked("+", region.new[step.new : step.new_end])


def _range(line: int, count: int) -> str:
    return f"{line if count else line - 1},{count}" if count != 1 else f"{line}"


def _marked(mark: str, lines: Sequence[bytes]) -> Iterator[str]:
    for line in lines:
        # a tenth more than is shown, so that no character is cut in the middle
        text = line[: 4 * _WIDEST].decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        yield mark + (text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… [{len(line)} bytes]")
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
