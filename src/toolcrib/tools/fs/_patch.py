"""The text of a patch, read: which files are added, deleted, updated and moved, and how.

*** Begin Patch
*** Add File: new.txt                  then its lines, each behind a +
*** Delete File: old.txt
*** Update File: a.py
*** Move to: b.py                      where it has a new name
@@ class A                             a line to look for first; several narrow it down; @@ alone begins a hunk
 kept                                  context, as it is in the file
-removed
+added
*** End of File                        where the hunk stands at the end of the file
*** End Patch
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from toolcrib import ToolError
from toolcrib.lazy import dataclass, regex

from ._diff import Splice, line_ending
from ._match import BLANKS, MAX_TOLERANT_BYTES, Indentation, find_nearest, fold_line, quote_line

LineSign = Literal[" ", "-", "+"]

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_NUMBERS = regex(r"-\d+(,\d+)? \+\d+(,\d+)? @@")
_HEADERS = "a section begins with '*** Add File: path', '*** Delete File: path' or '*** Update File: path'"
_MAX_SECTIONS = 1_000  # sections of one patch


class Item(NamedTuple):
    """One line of a hunk: kept, removed or added."""

    mark: LineSign
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change: the lines to look for first, then what is there and what comes; `line` is its place in the patch."""

    line: int
    contexts: tuple[str, ...]
    items: tuple[Item, ...]
    at_end: bool


@dataclass(frozen=True, slots=True)
class PatchSection:
    """What becomes of one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    lines: tuple[str, ...] = ()
    to: str | None = None
    hunks: tuple[Hunk, ...] = ()


def read_patch(text: str) -> tuple[PatchSection, ...]:
    """Return the sections of a patch; raise ToolError that names the line where it is broken."""
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    if len(lines) >= 4 and lines[0].strip() in _HEREDOCS and lines[-1].strip().endswith("EOF"):
        lines = lines[1:-1]  # it came in a here-document of a shell
    if not any(line.strip() for line in lines):
        raise ToolError("the patch is empty; write one from '*** Begin Patch' to '*** End Patch'", code="bad_patch")
    if lines[0].strip() != _BEGIN:
        raise ToolError(f"the first line of the patch must be {_BEGIN!r}, not {quote_line(lines[0])}", code="bad_patch")
    if lines[-1].strip() != _END or len(lines) < 2:
        raise ToolError(f"the last line of the patch must be {_END!r}, not {quote_line(lines[-1])}", code="bad_patch")
    reader = _PatchReader(lines[:-1])
    sections = tuple(iter(reader.section, None))
    if not sections:
        raise ToolError("the patch changes no files; add a section between its first and last line", code="bad_patch")
    return sections


class _PatchReader:
    """The lines of a patch, read from the second on."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 1
        self._read = 0

    def section(self) -> PatchSection | None:
        """Return the next section, None at the end."""
        self._skip_blank()
        if self._at >= len(self._lines):
            return None
        self._read += 1
        if self._read > _MAX_SECTIONS:
            raise self._broken(f"a patch has at most {_MAX_SECTIONS} sections; apply it in several")
        header = self._lines[self._at].strip()
        for prefix in (_ADD, _DELETE, _UPDATE):
            if header.startswith(prefix):
                self._at += 1
                return self._body(prefix, header.removeprefix(prefix))
        raise self._broken(f"{quote_line(self._lines[self._at])} is not the beginning of a section; {_HEADERS}")

    def _body(self, prefix: str, path: str) -> PatchSection:
        if prefix == _DELETE:
            return PatchSection("delete", path)
        if prefix == _UPDATE:
            return self._update(path)
        begin = self._at
        while self._at < len(self._lines) and self._lines[self._at].startswith("+"):
            self._at += 1
        return PatchSection("add", path, tuple(line[1:] for line in self._lines[begin : self._at]))

    def _update(self, path: str) -> PatchSection:
        began = self._at - 1
        to = None
        if self._at < len(self._lines) and self._lines[self._at].strip().startswith(_MOVE):
            to = self._lines[self._at].strip().removeprefix(_MOVE)
            self._at += 1
        hunks: list[Hunk] = []
        self._skip_blank()
        while self._at < len(self._lines) and not self._lines[self._at].startswith("***"):
            hunks.append(self._hunk(first=not hunks))
            self._skip_blank()
        if not hunks and to is None:
            raise self._broken(f"the update of {path!r} is empty; give it a hunk, or a line {_MOVE.strip()!r}", began)
        return PatchSection("update", path, to=to, hunks=tuple(hunks))

    def _hunk(self, *, first: bool) -> Hunk:
        began, contexts = self._at, self._contexts()
        if self._at == began and not first:
            raise self._broken(f"a hunk behind another begins with a line @@, not {quote_line(self._lines[self._at])}")
        items: list[Item] = []
        begin, at_end = self._at, False
        while self._at < len(self._lines) and not at_end:
            line = self._lines[self._at]
            if line == _END_OF_FILE and items:
                at_end = True
            elif line[:1] in (" ", "-", "+"):
                items.append(Item(line[0], line[1:]))  # type: ignore[arg-type]  # one of the three, just seen
            elif not line:
                items.append(Item(" ", ""))
            else:
                break
            self._at += 1
        if not items and self._at >= len(self._lines):
            raise self._broken("the hunk at the end of the patch is empty", len(self._lines) - 1)
        if not items:
            raise self._broken(
                f"{quote_line(self._lines[self._at])} is no line of a hunk; each begins with ' ' (kept), '-' (removed) "
                "or '+' (added)"
            )
        added = next((at for at, item in enumerate(items) if item.mark != "+"), len(items))
        if added and not any(self._lines[begin + added : begin + len(items)]):
            items = items[:added]  # empty lines behind what is added only separate it from what follows
        return Hunk(began + 1, contexts, tuple(items), at_end)

    def _contexts(self) -> tuple[str, ...]:
        contexts = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.rstrip() != "@@" and not line.startswith("@@ "):
                break
            context = line[3:]
            if _NUMBERS.match(context):
                raise self._broken(f"{quote_line(line)} has line numbers; write @@ alone, or @@ and a line of the file")
            if context.strip():
                contexts.append(context)
            self._at += 1
        return tuple(contexts)

    def _skip_blank(self) -> None:
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1

    def _broken(self, what: str, at: int | None = None) -> ToolError:
        return ToolError(
            f"the patch is broken at line {(self._at if at is None else at) + 1}: {what}", code="bad_patch"
        )


_MARK = b"\xef\xbb\xbf"  # of a byte order; not part of the first line
_MAX_SEARCHED_BYTES = 1024 * 1024 * 1024  # bytes that are searched in vain for all hunks of a file; about a second

# What two lines are compared by, in the order of the attempts that come after the exact one.
_READINGS: tuple[tuple[Callable[[str], str], bool], ...] = (
    (lambda line: line, False),
    (lambda line: line.rstrip(BLANKS), False),
    (lambda line: line.strip(BLANKS), True),
    (fold_line, True),
)


def find_splices(path: str, data: bytes, hunks: Sequence[Hunk]) -> list[Splice]:
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
        splices, at = _place_hunk(file, hunk, at, where)
        found += splices
    return sorted(found, key=lambda splice: splice.start)


def _place_hunk(file: "_File", hunk: Hunk, at: int, where: str) -> tuple[list[Splice], int]:
    items = list(hunk.items)
    old = [item.text for item in items if item.mark != "+"]
    while old:
        found = file.seek(old, at, at_end=hunk.at_end)
        if found is not None:
            return file.walk(found[0], items, indented=found[1])
        if old[-1]:
            break
        items, old = _without_last_blank(items), old[:-1]
    if old:
        asked = [item.text for item in hunk.items if item.mark != "+"]
        raise ToolError(f"{where} does not fit: {_near(file, asked, at)}", code="no_match")
    added = [item.text for item in items if item.mark == "+"]
    place = at if hunk.contexts and not hunk.at_end else len(file.data)
    return [file.make_splice(place, place, added)], at


def _without_last_blank(items: Sequence[Item]) -> list[Item]:
    """Return the items without the last old line, which is blank, and without a blank line that ends what is added."""
    last = max(at for at, item in enumerate(items) if item.mark != "+")
    kept = [item for at, item in enumerate(items) if at != last]
    if items[last].mark == "-" and kept and kept[-1] == Item("+", ""):
        kept.pop()
    return kept


def _near(file: "_File", asked: Sequence[str], at: int) -> str:
    """Return the end of a sentence: what is missing, and where something like it stands."""
    if len(file.data) > MAX_TOLERANT_BYTES:
        return "in a file of this size its lines must be exactly those of the file"
    line = file.line_of(at)
    where = f"from line {line + 1} on" if line else "in the file"
    near = find_nearest(file.lines, asked, line)
    if near is None:
        return f"{where} there is nothing like it"
    if fold_line(near.asked) == fold_line(near.text):
        return f"its lines do not stand together {where}; {near}"
    return f"there is no {quote_line(near.asked)} {where} where it belongs; {near}"


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
            exact = self._seek_exact(lines, bool(wanted[-1]), at, at_end=at_end)
            if exact is not None:
                return exact, False
            self._count_work(at)
        if len(self.data) > MAX_TOLERANT_BYTES:
            return None
        count = len(self.lines)
        first = bisect_left(self._starts, at)
        if at_end:
            first = max(first, count - len(wanted))
        for number, (fold, indented) in enumerate(_READINGS):
            place = self._seek_folded(number, [fold(line) for line in wanted], first, at_end=at_end)
            if place is not None:
                return self._starts[place], indented
            self._count_work(at)
        return None

    def _count_work(self, at: int) -> None:
        """Count what was searched in vain, and give up when it is too much."""
        self._work += len(self.data) - at
        if self._work > _MAX_SEARCHED_BYTES:
            raise ToolError("the patch has too many hunks that nearly fit; apply it in several", code="too_large")

    def _seek_exact(self, wanted: bytes, is_whole: bool, at: int, *, at_end: bool) -> int | None:
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

    def _seek_folded(self, number: int, wanted: Sequence[str], first: int, *, at_end: bool) -> int | None:
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

    def walk(self, at: int, items: Sequence[Item], *, indented: bool) -> tuple[list[Splice], int]:
        """Return what these items change from a byte on, and the byte behind them."""
        listed = self._indent(at, items) if indented else items
        splices: list[Splice] = []
        begin, added, endings = at, list[str](), list[bytes]()
        for item in [*listed, None]:
            if item is not None and item.mark == "+":
                added.append(item.text)
            elif item is not None and item.mark == "-":
                endings.append(line_ending(self.data, at, at))
                at = self.after(at)
            else:
                if added or endings:
                    splices.append(self.make_splice(begin, at, added, endings))
                added, endings = [], []
                begin = at = at if item is None else self.after(at)
        return splices, at

    def make_splice(self, begin: int, end: int, added: Sequence[str], endings: Sequence[bytes] = ()) -> Splice:
        """Return new lines in the place of bytes, with these endings, else with those around them."""
        ends = endings or [line_ending(self.data, begin, begin)]
        data = b"".join(
            text.encode("utf-8", "surrogateescape") + ends[min(at, len(ends) - 1)] for at, text in enumerate(added)
        )
        is_open = begin == len(self.data) > self.first and not self.data.endswith(b"\n")
        return Splice(begin, end, ends[0] + data if is_open and added else data)

    def _indent(self, at: int, items: Sequence[Item]) -> list[Item]:
        old = [item.text for item in items if item.mark != "+"]
        line = bisect_left(self._starts, at)
        indented = Indentation(zip(old, self.lines[line : line + len(old)], strict=True))
        return [Item("+", indented([item.text])[0]) if item.mark == "+" else item for item in items]
