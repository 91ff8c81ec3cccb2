"""What a command printed, as text that a model can read: no terminal codes, whole lines, bounded."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.define.display import strip_unseen

__all__ = ["Cut", "Lines", "draws", "last_lines", "log_lines", "pieces", "plain", "unfinished"]

# Whole sequences: taking only the ESC away would leave "[31m" behind.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"  # colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]{0,16}[0-~]?"
)
# Moves of the cursor and clearing: a program that sends them draws a screen.
_DRAWING = re.compile(rb"\x1b\[[0-9;?]*[A-HJSTfr]|\x1b\[\?(?:1049|1047|47)h")
# The beginning of a sequence or of a character whose rest has not come yet.
_BEGUN = re.compile(
    rb"(?:\x1b(?:\[[0-?]{0,64}[ -/]{0,16})?|\x1b[\]PX^_][^\x07\x1b]{0,255}|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?"
    rb"|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_INSIDE = re.compile(rb"\A[\x80-\xbf]{1,3}")


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a text; `left` counts the characters before it that are not shown."""

    text: str
    left: int = 0


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a text: the first is number `first`, counted from 0, of `total`."""

    text: str
    first: int
    count: int
    total: int


def plain(data: bytes, *, inside: bool = False) -> str:
    """Return printed bytes as text. `inside` says that something was printed before them, and is not here."""
    if inside:
        data = _INSIDE.sub(b"", data)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return strip_unseen(_SEQUENCE.sub("", text) if "\x1b" in text or not text.isascii() else text)


def pieces(data: bytes, size: int = 1 << 16) -> Iterator[bytes]:
    """Cut what was printed where nothing is torn: behind the end of a line, else before something unfinished."""
    at = 0
    while at < len(data):
        piece = data[at : at + size]
        if at + size < len(data):
            end = piece.rfind(b"\n") + 1
            piece = piece[: end or len(piece) - unfinished(piece)]
        yield piece
        at += len(piece)


def draws(data: bytes) -> bool:
    """Tell whether the program draws a screen instead of printing lines."""
    return _DRAWING.search(data) is not None


def unfinished(data: bytes) -> int:
    """Return how many bytes at the end are the beginning of something whose rest has not come yet."""
    found = _BEGUN.search(data, max(0, len(data) - 260))
    return len(data) - found.start() if found else 0


def last_lines(text: str, most: int, size: int) -> Cut:
    """Return the last whole lines that fit: at most `most`, at most `size` characters; of one long line, its end."""
    if not text or size < 1 or most < 1:
        return Cut("", len(text))
    start = max(0, len(text) - size)
    if start and text[start - 1] != "\n":
        following = text.find("\n", start) + 1
        if 0 < following < len(text):
            start = following
    rows = text.count("\n", start) + (not text.endswith("\n"))
    for _ in range(rows - most):
        start = text.index("\n", start) + 1
    return Cut(text[start:], start)


def log_lines(text: str, offset: float | None = None, limit: float | None = None) -> Lines:
    """Return lines from `offset`, counted from 0; with a limit alone, the last so many."""
    rows = text.replace("\r\n", "\n").split("\n")
    if rows[-1] == "":
        rows.pop()
    total = len(rows)
    most = total if limit is None else max(0, int(limit))
    first = max(0, total - most) if offset is None and limit is not None else max(0, int(offset or 0))
    shown = rows[first : first + most]
    return Lines("\n".join(shown), min(first, total), len(shown), total)
