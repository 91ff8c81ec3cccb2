"""Whole lines from anywhere in a file, without holding it: newlines are counted block by block."""

import os

from toolcrib.define.files import Entry, Passage

__all__ = ["Mark", "passage"]

Mark = tuple[int, int]  # a line, counted from 1, and the byte it begins at

_BLOCK = 1 << 20
_COUNTED = 8 << 20  # files up to this size are counted to their end


def passage(fd: int, entry: Entry, asked: tuple[int, int, int], known: Mark = (1, 0)) -> tuple[Passage, Mark]:
    """Return the lines asked for (first, most, size), and where the line after them begins.

    `known` is a mark from an earlier passage of this version of the file: the count goes on from there.
    """
    first, most, size = asked
    at, before = _seek(fd, first, known if known[0] <= first else (1, 0))
    if before < first - 1:
        return Passage(data=b"", first=first, count=0, more=False, total=before, entry=entry), (1, 0)
    data = _pread(fd, size + 1, at)  # the end of the last line does not count
    taken, count = _whole_lines(data, most, at_end=at + len(data) >= entry.size and data[size:] in (b"", b"\n"))
    end = at + taken
    more = end < entry.size
    long = None
    if more and most and not count:
        long = _to_newline(fd, at) - at
    total = first - 1 + count if not more else None
    if more and entry.size <= _COUNTED:
        total = first - 1 + count + _count(fd, end)
    found = Passage(data=data[:taken], first=first, count=count, more=more, total=total, entry=entry, long=long)
    return found, (first + count, end)


def _seek(fd: int, first: int, known: Mark) -> tuple[int, int]:
    """Return where line `first` begins and how many lines come before: fewer than asked where the file ends."""
    line, at = known
    block = bytearray(_BLOCK)
    while line < first and (read := os.preadv(fd, [block], at)):
        here = block.count(b"\n", 0, read)
        if line + here >= first:
            return at + _after(block, first - line, read), first - 1
        line, at = line + here, at + read
    if line == first:
        return at, first - 1
    return at, line - 1 + (at > 0 and os.pread(fd, 1, at - 1) != b"\n")


def _after(block: bytearray, wanted: int, end: int) -> int:
    """Return the place behind the `wanted`-th newline, halving the block instead of going from one to the next."""
    start = 0
    while end - start > 4_096:
        middle = (start + end) // 2
        here = block.count(b"\n", start, middle)
        if here >= wanted:
            end = middle
        else:
            start, wanted = middle, wanted - here
    for _ in range(wanted):
        start = block.index(b"\n", start) + 1
    return start


def _whole_lines(data: bytes, most: int, *, at_end: bool) -> tuple[int, int]:
    """Return how many bytes of the data are whole lines, at most `most`, and how many lines."""
    end = len(data) if at_end else data.rfind(b"\n") + 1
    count = data.count(b"\n", 0, end) + (end > 0 and data[end - 1 : end] != b"\n")
    if count <= most:
        return end, count
    end = _after(bytearray(data[:end]), most, end) if most > 0 else 0
    return end, max(most, 0)


def _count(fd: int, at: int) -> int:
    """Return the number of lines from here to the end."""
    block, found, last = bytearray(_BLOCK), 0, b"\n"
    while read := os.preadv(fd, [block], at):
        found += block.count(b"\n", 0, read)
        last = bytes(block[read - 1 : read])
        at += read
    return found + (last != b"\n")


def _to_newline(fd: int, at: int) -> int:
    """Return the place behind the next newline, or the end."""
    block = bytearray(_BLOCK)
    while read := os.preadv(fd, [block], at):
        found = block.find(b"\n", 0, read)
        if found >= 0:
            return at + found + 1
        at += read
    return at


def _pread(fd: int, size: int, at: int) -> bytes:
    """Read so many bytes, fewer only at the end."""
    parts = []
    while size and (part := os.pread(fd, min(size, _BLOCK), at)):
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return b"".join(parts)
