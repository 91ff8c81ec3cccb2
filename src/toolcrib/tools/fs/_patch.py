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

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from toolcrib import ToolError

from ._near import shown

__all__ = ["Hunk", "Item", "Mark", "Section", "read_patch"]

Mark = Literal[" ", "-", "+"]

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_NUMBERS = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)? @@")
_HEADERS = "a section begins with '*** Add File: path', '*** Delete File: path' or '*** Update File: path'"
_MOST = 1_000  # sections of one patch


class Item(NamedTuple):
    """One line of a hunk: kept, removed or added."""

    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """One change: the lines to look for first, then what is there and what comes; `line` is its place in the patch."""

    line: int
    contexts: tuple[str, ...]
    items: tuple[Item, ...]
    at_end: bool


@dataclass(frozen=True, slots=True)
class Section:
    """What becomes of one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    lines: tuple[str, ...] = ()
    to: str | None = None
    hunks: tuple[Hunk, ...] = ()


def read_patch(text: str) -> tuple[Section, ...]:
    """Return the sections of a patch; raise ToolError that names the line where it is broken."""
    lines = _unwrapped([line.removesuffix("\r") for line in text.strip().split("\n")])
    if not any(line.strip() for line in lines):
        raise ToolError("the patch is empty; write one from '*** Begin Patch' to '*** End Patch'", code="bad_patch")
    if lines[0].strip() != _BEGIN:
        raise ToolError(f"the first line of the patch must be {_BEGIN!r}, not {shown(lines[0])}", code="bad_patch")
    if lines[-1].strip() != _END or len(lines) < 2:
        raise ToolError(f"the last line of the patch must be {_END!r}, not {shown(lines[-1])}", code="bad_patch")
    reader = _Reader(lines[:-1])
    sections = tuple(iter(reader.section, None))
    if not sections:
        raise ToolError("the patch changes no files; add a section between its first and last line", code="bad_patch")
    return sections


def _unwrapped(lines: list[str]) -> list[str]:
    """Return the lines without the here-document of a shell around them."""
    if len(lines) >= 4 and lines[0].strip() in _HEREDOCS and lines[-1].strip().endswith("EOF"):
        return lines[1:-1]
    return lines


class _Reader:
    """The lines of a patch, read from the second on."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 1
        self._read = 0

    def section(self) -> Section | None:
        """Return the next section, None at the end."""
        self._skip_blank()
        if self._at >= len(self._lines):
            return None
        self._read += 1
        if self._read > _MOST:
            raise self._broken(f"a patch has at most {_MOST} sections; apply it in several")
        header = self._lines[self._at].strip()
        for prefix in (_ADD, _DELETE, _UPDATE):
            if header.startswith(prefix):
                self._at += 1
                return self._body(prefix, header.removeprefix(prefix))
        raise self._broken(f"{shown(self._lines[self._at])} is not the beginning of a section; {_HEADERS}")

    def _body(self, prefix: str, path: str) -> Section:
        if prefix == _DELETE:
            return Section("delete", path)
        if prefix == _UPDATE:
            return self._update(path)
        begin = self._at
        while self._at < len(self._lines) and self._lines[self._at].startswith("+"):
            self._at += 1
        return Section("add", path, tuple(line[1:] for line in self._lines[begin : self._at]))

    def _update(self, path: str) -> Section:
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
        return Section("update", path, to=to, hunks=tuple(hunks))

    def _hunk(self, *, first: bool) -> Hunk:
        began, contexts = self._at, self._contexts()
        if self._at == began and not first:
            raise self._broken(f"a hunk behind another begins with a line @@, not {shown(self._lines[self._at])}")
        items: list[Item] = []
        at_end = False
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
        if not items:
            raise self._empty()
        return Hunk(began + 1, contexts, tuple(items), at_end)

    def _contexts(self) -> tuple[str, ...]:
        contexts = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.rstrip() != "@@" and not line.startswith("@@ "):
                break
            context = line[3:]
            if _NUMBERS.match(context):
                raise self._broken(f"{shown(line)} has line numbers; write @@ alone, or @@ and a line of the file")
            if context.strip():
                contexts.append(context)
            self._at += 1
        return tuple(contexts)

    def _empty(self) -> ToolError:
        if self._at >= len(self._lines):
            return self._broken("the hunk at the end of the patch is empty", len(self._lines) - 1)
        return self._broken(
            f"{shown(self._lines[self._at])} is no line of a hunk; each begins with ' ' (kept), '-' (removed) or "
            "'+' (added)"
        )

    def _skip_blank(self) -> None:
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1

    def _broken(self, what: str, at: int | None = None) -> ToolError:
        return ToolError(
            f"the patch is broken at line {(self._at if at is None else at) + 1}: {what}", code="bad_patch"
        )
