"""Output and input of commands: printed bytes as text a model can read, whole lines, bounded; keys as bytes.

Keys have the names that tmux gives them; pasted text and bytes in hex are typed as well.
"""

import json
import re
import signal as signals
from collections.abc import Iterator, Sequence
from itertools import chain

from toolcrib.define.display import strip_unseen
from toolcrib.define.errors import ArgumentError
from toolcrib.define.taint import join_sources
from toolcrib.lazy import dataclass, regex

# Whole sequences: taking only the ESC away would leave "[31m" behind.
_SEQUENCE = regex(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"  # colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]{0,16}[0-~]?"
)
# Moves of the cursor and clearing: a program that sends them draws a screen.
_DRAWING = regex(rb"\x1b\[[0-9;?]*[A-HJSTfr]|\x1b\[\?(?:1049|1047|47)h")
# The beginning of a sequence or of a character whose rest has not come yet.
_TORN_END = regex(
    rb"(?:\x1b(?:\[[0-?]{0,64}[ -/]{0,16})?|\x1b[\]PX^_][^\x07\x1b]{0,255}|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?"
    rb"|[\xf0-\xf4][\x80-\xbf]{0,2})\Z"
)
_TORN_START = regex(rb"\A[\x80-\xbf]{1,3}")

_ESC = "\x1b"
_ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D"}
_NUMBERED = {
    "home": 1, "insert": 2, "ic": 2, "delete": 3, "del": 3, "dc": 3, "end": 4, "pageup": 5, "pgup": 5, "ppage": 5,
    "pagedown": 6, "pgdn": 6, "npage": 6,
}  # fmt: skip
_NAMED = {
    "enter": "\r", "return": "\r", "tab": "\t", "btab": f"{_ESC}[Z", "escape": _ESC, "esc": _ESC, "space": " ",
    "bspace": "\x7f", "backspace": "\x7f",
    **{f"f{number}": f"{_ESC}O{letter}" for number, letter in enumerate("PQRS", 1)},
    **{f"f{at}": f"{_ESC}[{code}~" for at, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)},
    **{f"kp{key}": f"{_ESC}O{letter}" for key, letter in zip("0123456789/*-+.", "pqrstuvwxyojmkn", strict=True)},
    "kpenter": f"{_ESC}OM",
}  # fmt: skip
_HEX_BYTE = regex(r"(?:0x)?([0-9a-f]{1,2})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextTail:
    """The end of a text; `left` counts the characters before it that are not shown."""

    text: str
    left: int = 0


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some lines of a text: the first is number `first`, counted from 0, of `total`."""

    text: str
    first: int
    count: int
    total: int


def decode_output(data: bytes, *, inside: bool = False) -> str:
    """Return printed bytes as text. `inside` says that something was printed before them, and is not here."""
    if inside:
        data = _TORN_START.sub(b"", data)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return strip_unseen(_SEQUENCE.sub("", text) if "\x1b" in text or not text.isascii() else text)


def split_output(data: bytes, size: int = 1 << 16) -> Iterator[bytes]:
    """Split what was printed where nothing is torn: behind the end of a line, else before something unfinished."""
    at = 0
    while at < len(data):
        piece = data[at : at + size]
        if at + size < len(data):
            end = piece.rfind(b"\n") + 1
            piece = piece[: end or len(piece) - count_unfinished(piece)]
        yield piece
        at += len(piece)


def draws_screen(data: bytes) -> bool:
    """Tell whether the program draws a screen instead of printing lines."""
    return _DRAWING.search(data) is not None


def count_unfinished(data: bytes) -> int:
    """Return how many bytes at the end are the beginning of something whose rest has not come yet."""
    found = _TORN_END.search(data, max(0, len(data) - 260))
    return len(data) - found.start() if found else 0


def last_lines(text: str, max_lines: int, size: int) -> TextTail:
    """Return the last whole lines that fit: at most `most`, at most `size` characters; of one long line, its end."""
    if not text or size < 1 or max_lines < 1:
        return TextTail("", len(text))
    start = max(0, len(text) - size)
    if start and text[start - 1] != "\n":
        following = text.find("\n", start) + 1
        if 0 < following < len(text):
            start = following
    rows = text.count("\n", start) + (not text.endswith("\n"))
    for _ in range(rows - max_lines):
        start = text.index("\n", start) + 1
    return TextTail(text[start:], start)


def page_log(text: str, offset: float | None = None, limit: float | None = None) -> LogPage:
    """Return lines from `offset`, counted from 0; with a limit alone, the last so many."""
    rows = text.replace("\r\n", "\n").split("\n")
    if rows[-1] == "":
        rows.pop()
    total = len(rows)
    count = total if limit is None else max(0, int(limit))
    first = max(0, total - count) if offset is None and limit is not None else max(0, int(offset or 0))
    shown = rows[first : first + count]
    return LogPage("\n".join(shown), min(first, total), len(shown), total)


# what is typed


def encode_keys(keys: Sequence[str] = (), hex: Sequence[str] = (), literal: str = "") -> tuple[bytes, list[str]]:
    """Return what is typed, text first, then bytes, then keys; and a sentence about each that is not one."""
    warnings: list[str] = []
    data = literal.encode("utf-8", "replace")
    for each in hex:
        found = _HEX_BYTE.fullmatch(each.strip())
        if found:
            data += bytes([int(found[1], 16)])
        else:
            warnings.append(f"{each[:32]!r} is no byte in hex; it was left out")
    return data + "".join(_encode_key(key.strip(), warnings) for key in keys).encode("utf-8", "replace"), warnings


def encode_paste(text: str, *, bracketed: bool = True) -> bytes:
    """Return text as a terminal sends it when it is pasted."""
    return (f"{_ESC}[200~{text}{_ESC}[201~" if bracketed else text).encode("utf-8", "replace")


def _encode_key(token: str, warnings: list[str]) -> str:
    if len(token) == 2 and token[0] == "^" and (control := _encode_control(token[1])):
        return control
    modifiers, base = _split_modifiers(token)
    name = base.lower()
    if name == "tab" and "s" in modifiers:
        return _NAMED["btab"]
    number = 1 + ("s" in modifiers) + 2 * ("m" in modifiers) + 4 * ("c" in modifiers)
    if name in _ARROWS:
        return f"{_ESC}[{_ARROWS[name]}" if number == 1 else f"{_ESC}[1;{number}{_ARROWS[name]}"
    if name in _NUMBERED:
        return f"{_ESC}[{_NUMBERED[name]}~" if number == 1 else f"{_ESC}[{_NUMBERED[name]};{number}~"
    alt = _ESC if "m" in modifiers else ""
    if name in _NAMED:
        return alt + _NAMED[name]
    if len(base) == 1:
        char = base.upper() if "s" in modifiers else base
        return alt + ((_encode_control(char) or char) if "c" in modifiers else char)
    if modifiers:
        warnings.append(f"{base[:32]!r} is no key that takes modifiers; it was typed as text")
    return base


def _split_modifiers(token: str) -> tuple[set[str], str]:
    """Return the modifiers before a key, and the key: `C-M-a` is Control, Meta and a."""
    modifiers: set[str] = set()
    while len(token) > 2 and token[1] == "-" and token[0].lower() in "cms":
        modifiers.add(token[0].lower())
        token = token[2:]
    return modifiers, token


def _encode_control(char: str) -> str:
    """Return the character that Control makes of one, empty when it makes none."""
    if char == "?":
        return "\x7f"
    code = ord(char.upper()) if len(char.upper()) == 1 else 0
    return chr(code & 0x1F) if 64 <= code <= 95 else ""


def pack_output(data: bytes, missing: int, sources: Sequence[str] = ()) -> bytes:
    """Return output as `result_get` reads it. Piece by piece: as text, much of it is several times its size."""
    rest = f"\n[{missing:,} more bytes were not kept]" if missing else ""
    packed = bytearray(b'{"source": %b, "text": "' % json.dumps(join_sources(sources) or None).encode())
    for text in chain(map(decode_output, split_output(data)), (rest,)):
        packed += json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
    return bytes(packed + b'"}')


def parse_signal(name: str) -> int:
    """Return the number of a signal by its name or number; ArgumentError where there is none."""
    wanted = name.strip().upper().removeprefix("SIG")
    known = {each.name.removeprefix("SIG"): each.value for each in signals.Signals}
    if wanted in known:
        return known[wanted]
    if wanted.isdigit() and int(wanted) in known.values():
        return int(wanted)
    raise ArgumentError(f"there is no signal {name[:32]!r}; use INT, TERM, KILL, HUP, STOP, CONT or the like")
