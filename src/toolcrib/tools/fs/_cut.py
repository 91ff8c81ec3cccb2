"""Texts cut to whole lines: the first that fit, or the last; and single lines cut to a width."""

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Cut", "first_lines", "last_lines", "shortened"]

_ROW = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left of a text: `count` of its `total` lines, and what ended it. `partial` when it begins in a line."""

    text: str
    count: int
    total: int
    by: Literal["lines", "bytes"] | None = None
    partial: bool = False


def first_lines(text: str, most: int, size: int) -> Cut:
    """Return the first whole lines: at most `most`, at most `size` bytes of UTF-8 without the end of the last."""
    rows = _ROW.findall(text)
    count = _fitting(rows, most, size)
    if count == len(rows):
        return Cut(text, count, count)
    kept = "".join(rows[:count]).removesuffix("\n")
    return Cut(kept, count, len(rows), "lines" if count >= most else "bytes")


def last_lines(text: str, most: int, size: int) -> Cut:
    """Return the last whole lines that fit; of a last line that does not fit alone, its end."""
    rows = _ROW.findall(text)
    count = _fitting(rows[::-1], most, size)
    if count == len(rows):
        return Cut(text, count, count)
    if count or most < 1:
        return Cut("".join(rows[len(rows) - count :]), count, len(rows), "lines" if count >= most else "bytes")
    end = rows[-1].encode("utf-8", "surrogatepass")[-size:] if size > 0 else b""
    return Cut(end.decode("utf-8", "ignore"), 1, len(rows), "bytes", partial=True)


def shortened(line: str, width: int, mark: str) -> str:
    """Return the line, or so many of its characters and the mark."""
    return line if len(line) <= width else line[:width] + mark


def _fitting(rows: list[str], most: int, size: int) -> int:
    """Return how many of the rows fit, counted from the first."""
    left = size + 1  # the end of one line is free
    for at, row in enumerate(rows[: max(most, 0)]):
        left -= len(row.encode("utf-8", "surrogatepass")) + (not row.endswith("\n"))
        if left < 0:
            return at
    return min(len(rows), max(most, 0))
