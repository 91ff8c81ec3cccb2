"""The matching lines of one open file, with the lines around them. Never more of it than a block is held in memory.

A file with a NUL byte is binary and has no lines. UTF-16 is read when its byte-order mark says so, everything else as
UTF-8, undecodable bytes shown as U+FFFD. Of a line longer than a block only the first block is searched.
"""

import codecs
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from toolcrib.define.files import Line

from .pattern import Pattern

__all__ = ["BLOCK", "Hits", "hits_in"]

BLOCK = 8 << 20  # bytes of a file that are searched at once
_LONGEST_TEXT = 4_000  # bytes of a line that are kept; what is shown is cut again, and told

Check = Callable[[], None]
"""Raises when the work should end."""

_Block = tuple[int, bytes]  # the number of its first line, and whole lines

_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, ""))


@dataclass(frozen=True, slots=True)
class Hits:
    """Lines in order, at most as many matches as asked for; `more` when there are others."""

    lines: tuple[Line, ...] = ()
    matches: int = 0
    more: bool = False


_NONE = Hits()


def hits_in(fd: int, size: int, path: str, pattern: Pattern, context: int, most: int, check: Check) -> Hits:  # noqa: PLR0913
    """Return the first `most` matching lines of an open file of about `size` bytes."""
    if size < BLOCK:
        data = _whole(fd)
        if data is None:  # it has grown meanwhile
            return hits_in(fd, BLOCK, path, pattern, context, most, check)
        return _from_blocks(lambda: iter(((1, data),)), path, pattern, context, most)
    return _from_blocks(lambda: _blocks(fd, check), path, pattern, context, most)


def _from_blocks(blocks: Callable[[], Iterator[_Block]], path: str, pattern: Pattern, context: int, most: int) -> Hits:
    numbers: list[int] = []
    for first, block in blocks():
        if b"\0" in block:
            return _NONE
        _number_lines(block, first, pattern, most, numbers)
        if len(numbers) > most:
            break
    more = len(numbers) > most
    del numbers[most:]
    if not numbers:
        return Hits(more=more)
    return Hits(_lines_at(blocks, path, numbers, context), len(numbers), more)


def _number_lines(block: bytes, first: int, pattern: Pattern, most: int, numbers: list[int]) -> None:
    """Add the numbers of the lines that match, until there is one more than enough."""
    at, number = 0, first
    while len(numbers) <= most:
        found = pattern.next_line(block, at)
        if found is None:
            return
        start, end = found
        number += block.count(b"\n", at, start)
        numbers.append(number)
        at, number = end + 1, number + 1


def _lines_at(blocks: Callable[[], Iterator[_Block]], path: str, numbers: list[int], context: int) -> tuple[Line, ...]:
    """Return the lines with these numbers and those around them, each once."""
    matched = set(numbers)
    wanted = matched if not context else {n for hit in numbers for n in range(hit - context, hit + context + 1)}
    last = max(wanted)
    found: list[Line] = []
    for first, block in blocks():
        rows = block.split(b"\n")
        if rows and not rows[-1]:
            rows.pop()
        found += [
            Line(path=path, number=n, text=_text(rows[n - first]), matched=n in matched)
            for n in sorted(wanted)
            if 0 <= n - first < len(rows)
        ]
        if first + len(rows) > last:
            break
    return tuple(found)


def _text(row: bytes) -> str:
    return row[:_LONGEST_TEXT].decode("utf-8", "replace").removesuffix("\r")


def _whole(fd: int) -> bytes | None:
    """Return a small file as UTF-8; None when it is not small after all."""
    data = os.read(fd, BLOCK + 1)
    if not data:
        return data
    pieces = [data]
    length = len(data)
    while length <= BLOCK and (piece := os.read(fd, BLOCK + 1 - length)):
        pieces.append(piece)
        length += len(piece)
    if length > BLOCK:
        return None
    data = data if len(pieces) == 1 else b"".join(pieces)
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            rest = data[len(mark) :]
            return rest if not encoding else data.decode(encoding, "replace").encode("utf-8", "replace")
    return data


def _blocks(fd: int, check: Check) -> Iterator[_Block]:
    """Give whole lines, a block at a time, as UTF-8."""
    os.lseek(fd, 0, os.SEEK_SET)
    number, kept, passing = 1, b"", False
    for piece in _decoded(fd, check):
        fresh = piece
        if passing:  # the rest of a line whose beginning was a block of its own
            end = piece.find(b"\n") + 1
            if not end:
                continue
            fresh, passing, number = piece[end:], False, number + 1
        kept += fresh
        cut = kept.rfind(b"\n") + 1
        if cut:
            yield number, kept[:cut]
            number += kept.count(b"\n", 0, cut)
            kept = kept[cut:]
        if len(kept) >= BLOCK:
            yield number, kept[:BLOCK]
            kept, passing = b"", True
    if kept:
        yield number, kept


def _decoded(fd: int, check: Check) -> Iterator[bytes]:
    decoder = None
    first = True
    while piece := os.read(fd, BLOCK):
        check()
        if first:
            first = False
            mark, encoding = next(((mark, name) for mark, name in _MARKS if piece.startswith(mark)), (b"", ""))
            decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
            piece = piece if decoder else piece[len(mark) :]
        yield decoder.decode(piece).encode("utf-8", "replace") if decoder else piece
