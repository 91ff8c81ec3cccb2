"""The hunks of a patch, found in a file and turned into splices: lines that a hunk keeps stay as the file has them."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from toolcrib import ToolError

from ._fold import BLANKS, folded
from ._indent import Indentation
from ._near import nearest, shown
from ._patch import Hunk, Item
from ._splice import Splice

__all__ = ["splices_of"]

_MARK = b"\xef\xbb\xbf"  # of a byte order; not part of the first line
_LARGEST = 16 * 1024 * 1024  # bytes of a file that is read tolerantly
_WORK = 1024 * 1024 * 1024  # bytes that are searched in vain for all hunks of a file; about a second

# What two lines are compared by, in the order of the attempts that come after the exact one.
_READINGS: tuple[tuple[Callable[[str], str], bool], ...] = (
    (lambda line: line, False),
    (lambda line: line.rstrip(BLANKS), False),
    (lambda line: line.strip(BLANKS), True),
    (folded, True),
)


def splices_of(path: str, data: bytes, hunks: Sequence[Hunk]) -> list[Splice]:
    """Return what the hunks change in a file, in order, each looked for behind the one before it.

    Raise ToolError when one does not fit, naming where it nearly does.
    """
    file = _File(data)
    found: list[Splice] = []
    at = file.first
    for number, hunk in enumerate(hunks, 1):
        where = f"{path}: hunk {number} (line {hunk.line} of the patch)"
        for context in hunk.contexts:
            place = file.seek([context], at)
            if place is None:
                raise ToolError(f"{where} does not fit: {_near(file, [context], at)}", code="no_match")
            at = file.after(place[0])
        splices, at = _placed(file, hunk, at, where)
        found += splices
    return sorted(found, key=lambda splice: splice.start)


def _placed(file: "_File", hunk: Hunk, at: int, where: str) -> tuple[list[Splice], int]:
    items = list(hunk.items)
    old = [item.text for item in items if item.mark != "+"]
    if not any(old) and _is_loose(items):
        old = []
    while old:
        place = file.seek(old, at, at_end=hunk.at_end)
        if place is not None:
            return file.walk(place[0], items, indented=place[1])
        if old[-1]:
            break
        items, old = _without_last_blank(items), old[:-1]
    if old:
        asked = [item.text for item in hunk.items if item.mark != "+"]
        raise ToolError(f"{where} does not fit: {_near(file, asked, at)}", code="no_match")
    added = [item.text for item in items if item.mark == "+"]
    if hunk.contexts and not hunk.at_end:
        return [file.insertion(at, added)], at
    return [file.insertion(len(file.data), added)], at


def _is_loose(items: Sequence[Item]) -> bool:
    """Tell whether the blank lines of a hunk only stand behind what it adds, so that they separate and mean nothing."""
    marks = [item.mark for item in items]
    return "+" in marks and marks == sorted(marks, key=lambda mark: mark != "+") and "-" not in marks


def _without_last_blank(items: Sequence[Item]) -> list[Item]:
    """Return the items without the last old line, which is blank, and without a blank line that ends what is added."""
    last = max(at for at, item in enumerate(items) if item.mark != "+")
    kept = [item for at, item in enumerate(items) if at != last]
    if items[last].mark == "-" and kept and kept[-1] == Item("+", ""):
        kept.pop()
    return kept


def _near(file: "_File", asked: Sequence[str], at: int) -> str:
    """Return the end of a sentence: what is missing, and where something like it stands."""
    if len(file.data) > _LARGEST:
        return "in a file of this size its lines must be exactly those of the file"
    line = file.line_of(at)
    where = f"from line {line + 1} on" if line else "in the file"
    near = nearest(file.lines, asked, line)
    if near is None:
        return f"{where} there is nothing like it"
    if folded(near.asked) == folded(near.text):
        return f"its lines do not stand together {where}; {near}"
    return f"there is no {shown(near.asked)} {where} where it belongs; {near}"


class _File:
    """A file's bytes, its lines, and where they begin."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.first = len(_MARK) if data.startswith(_MARK) else 0
        self._has_bare_feeds = data.count(b"\n") > data.count(b"\r\n")
        self._work = 0
        self._lines: list[str] | None = None
        self._starts: list[int] = []
        self._joined: list[tuple[str, list[int]] | None] = [None] * len(_READINGS)

    @property
    def lines(self) -> list[str]:
        """The lines as text, without their endings."""
        if self._lines is None:
            raw = self.data[self.first :].split(b"\n")
            if not raw[-1]:
                raw.pop()
            self._starts = list(accumulate((len(line) + 1 for line in raw), initial=self.first))
            self._lines = [line.decode("utf-8", "surrogateescape").removesuffix("\r") for line in raw]
        return self._lines

    def line_of(self, at: int) -> int:
        """Return the number (from 0) of the line that begins at a byte."""
        return self.data.count(b"\n", 0, at)

    def after(self, at: int) -> int:
        """Return where the line behind the one at `at` begins."""
        end = self.data.find(b"\n", at)
        return len(self.data) if end < 0 else end + 1

    def seek(self, wanted: Sequence[str], at: int, *, at_end: bool = False) -> tuple[int, bool] | None:
        """Return where these lines begin, at or behind a byte, and whether their indentation may be another one."""
        if self._has_bare_feeds or b"\n" not in self.data:  # else no line can be the same to the byte
            lines = "\n".join(wanted).encode("utf-8", "surrogateescape")
            exact = self._exact(lines, bool(wanted[-1]), at, at_end=at_end)
            if exact is not None:
                return exact, False
            self._worked(at)
        if len(self.data) > _LARGEST:
            return None
        count = len(self.lines)
        first = bisect_left(self._starts, at)
        if at_end:
            first = max(first, count - len(wanted))
        for number, (fold, indented) in enumerate(_READINGS):
            place = self._folded(number, [fold(line) for line in wanted], first, at_end=at_end)
            if place is not None:
                return self._starts[place], indented
            self._worked(at)
        return None

    def _worked(self, at: int) -> None:
        """Count what was searched in vain, and give up when it is too much."""
        self._work += len(self.data) - at
        if self._work > _WORK:
            raise ToolError("the patch has too many hunks that nearly fit; apply it in several", code="too_large")

    def _exact(self, wanted: bytes, is_whole: bool, at: int, *, at_end: bool) -> int | None:
        """Return where bytes stand as whole lines; what comes behind the last line ending is no blank line."""
        data = self.data
        if at_end:
            end = len(data) - data.endswith(b"\n")
            start = end - len(wanted)
            fits = (
                start >= at and data.endswith(wanted, start, end) and (start == self.first or data[start - 1] == 0x0A)
            )
            return start if fits and is_whole else None
        end = at + len(wanted)
        if data.startswith(wanted, at) and (data[end : end + 1] == b"\n" or (end == len(data) and is_whole)):
            return at
        found = data.find(b"\n" + wanted + b"\n", max(at - 1, 0))
        if found >= 0:
            return found + 1
        last = len(data) - len(wanted)
        return last if is_whole and last > at and data.endswith(b"\n" + wanted) else None

    def _folded(self, number: int, wanted: Sequence[str], first: int, *, at_end: bool) -> int | None:
        kept = self._joined[number]
        if kept is None:
            lines = [_READINGS[number][0](line) for line in self.lines]
            kept = "\n".join(["", *lines, ""]), list(accumulate((len(line) + 1 for line in lines), initial=0))
            self._joined[number] = kept
        joined, starts = kept
        if first >= len(self.lines):
            return None
        place = joined.find("\n".join(["", *wanted, ""]), starts[first])
        if place < 0:
            return None
        line = bisect_right(starts, place) - 1
        return line if not at_end or line + len(wanted) == len(self.lines) else None

    def walk(self, at: int, items: Iterable[Item], *, indented: bool) -> tuple[list[Splice], int]:
        """Return what these items change from a byte on, and the byte behind them."""
        listed = list(items)
        if indented:
            listed = self._indented(at, listed)
        splices: list[Splice] = []
        begin, added, endings = at, list[str](), list[bytes]()
        for item in [*listed, None]:
            if item is not None and item.mark == "+":
                added.append(item.text)
            elif item is not None and item.mark == "-":
                endings.append(self._ending(at))
                at = self.after(at)
            else:
                if added or endings:
                    splices.append(self._spliced(begin, at, added, endings))
                added, endings = [], []
                begin = at = at if item is None else self.after(at)
        return splices, at

    def insertion(self, at: int, added: Sequence[str]) -> Splice:
        """Return new lines at a byte."""
        return self._spliced(at, at, added, [])

    def _spliced(self, begin: int, end: int, added: Sequence[str], endings: Sequence[bytes]) -> Splice:
        ends = endings or [self._ending(begin)]
        data = b"".join(
            text.encode("utf-8", "surrogateescape") + ends[min(at, len(ends) - 1)] for at, text in enumerate(added)
        )
        is_open = begin == len(self.data) > self.first and not self.data.endswith(b"\n")
        return Splice(begin, end, ends[0] + data if is_open and added else data)

    def _ending(self, at: int) -> bytes:
        """Return how the line at a byte ends, or else the one before it."""
        end = self.data.find(b"\n", at)
        if end < 0:
            end = self.data.rfind(b"\n", 0, at)
        return b"\r\n" if end > 0 and self.data[end - 1] == 0x0D else b"\n"

    def _indented(self, at: int, items: Sequence[Item]) -> list[Item]:
        old = [item.text for item in items if item.mark != "+"]
        line = bisect_left(self._starts, at)
        indented = Indentation(zip(old, self.lines[line : line + len(old)], strict=True))
        return [Item("+", indented([item.text])[0]) if item.mark == "+" else item for item in items]
