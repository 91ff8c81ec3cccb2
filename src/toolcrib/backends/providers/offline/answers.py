"""What tools answered, put into words: short, in Markdown, fit for eighty columns, and never more than was found."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .patterns import Pattern

__all__ = [
    "MOST", "Answer", "Found", "Outcome", "Passage", "clipped", "counted", "fenced", "found_in", "joined", "listing",
    "passage", "quoted", "rows_of",
]  # fmt: skip

MOST = 40  # entries of a list, and lines of a file or of what a command printed
_WIDTH = 78
_NOTE = Pattern(
    r"\[(?:(?:lines \d+-\d+|no lines) of (?P<total>\d+|many) shown|line \d+ alone has|the file is UTF|\ufffd "
    r"stands for).*\]"
)
_MORE = Pattern(r"\n\n\[(?P<note>[^\n]*(?:shown|cut after|left out|could not be read)[^\n]*)\]$")
_ROW = Pattern(r"(?P<path>[^\n]+?):(?P<line>\d+): (?P<text>[^\n]*)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call, as the history tells it."""

    text: str
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """A line of a file."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of a file as `read` gives them: how many the file has if that is known, and whether these are all."""

    text: str
    total: int | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said in the end, and the places it is about."""

    text: str
    places: tuple[Found, ...] = ()


def passage(outcome: Outcome) -> Passage:
    """Return the lines of a file without the notes behind them."""
    lines = outcome.text.split("\n")
    total: int | None = None
    whole, end = True, len(lines)
    while end and (note := _NOTE.fullmatch(lines[end - 1])):
        whole, end = False, end - 1
        total = int(note["total"]) if (note["total"] or "").isdigit() else total
    text = "\n".join(lines[:end])
    if not whole:
        return Passage(text.removesuffix("\n"), total, whole=False)
    return Passage(text, len(text.splitlines()), whole=True)


def rows_of(outcome: Outcome) -> tuple[list[str], str]:
    """Return the rows of a listing, and the note behind them."""
    text, note = outcome.text, ""
    if more := _MORE.search(text):
        text, note = text[: more.start()], more["note"]
    if re.fullmatch(r"\[[^\n]*\]", text):
        return [], note
    return [row for row in text.split("\n") if row], note


def found_in(outcome: Outcome, path: str) -> tuple[list[Found], str]:
    """Return the lines that grep found in a file or folder, and the note behind them.

    Paths are told relative to the folder that was searched; a file that was searched is told by its name alone.
    """
    rows, note = rows_of(outcome)
    found = [each for each in map(_ROW.fullmatch, rows) if each]
    folder, _, name = path.rpartition("/")
    below = folder if found and all(each["path"] == name for each in found) else path
    return [Found(joined(below, each["path"]), int(each["line"]), each["text"]) for each in found], note


def joined(folder: str, name: str) -> str:
    """Return a path below a folder of the workspace."""
    return name if folder in (".", "") else f"{folder.rstrip('/')}/{name}"


def listing(rows: Sequence[str], most: int = MOST) -> str:
    """Return the rows as a list, cut, with how many more there are."""
    shown = [clipped(f"- {row}") for row in rows[:most]]
    left = len(rows) - len(shown)
    return "\n".join([*shown, *([f"- ... and {left} more"] if left else [])])


def fenced(text: str, most: int = MOST, *, tail: bool = False) -> str:
    """Return a text as a block that it cannot end itself, cut to its first lines, or to its last."""
    lines = text.removesuffix("\n").split("\n")
    kept = lines[-most:] if tail else lines[:most]
    left = len(lines) - len(kept)
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`{3,}", text)), 3)
    block = "\n".join([fence, *(line if len(line) <= 2 * _WIDTH else f"{line[: 2 * _WIDTH]}…" for line in kept), fence])
    if not left:
        return block
    note = f"({counted(left, 'line')} {'before these' if tail else 'more'} not shown here)"
    return f"{note}\n{block}" if tail else f"{block}\n{note}"


def clipped(text: str) -> str:
    """Return a line that fits."""
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 file`, `2 files`, `no matches`."""
    many = f"{noun}es" if noun.endswith("ch") else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {many}" if number else f"no {many}"


def quoted(names: Iterable[str]) -> str:
    """Return names in a row."""
    return ", ".join(f"`{name}`" for name in names)
