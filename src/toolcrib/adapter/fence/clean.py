"""Control and invisible characters out, except where a script or an emoji is written with them."""

import re
import unicodedata

__all__ = ["clean", "is_writable", "one_line", "writable"]

# Whole terminal sequences: taking only the ESC byte would leave "[31m" behind.
_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, when ended
    r"|\x1b[ -/]{0,16}[0-~]?"
)
_CONTROL = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# The flag of a region is a black flag, its code in tags and an end tag; any other tag is hidden writing.
_FLAG = "\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,3}\U000e007f"
_ODD = re.compile(f"(?P<flag>{_FLAG})|[{_CONTROL}{_INVISIBLE}]+|\r(?!\n)")
# One look at each character is all that most texts cost.
_ANY = re.compile(f"[{_CONTROL}\r{_INVISIBLE}\ud800-\udfff]")
_ANY_ASCII = re.compile(f"[{_CONTROL}\r]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAKS = re.compile("[\t\n\u2028\u2029]+")

_LINES = "\x0b\x0c\r\x85"
_JOINERS = "\u034f\u180b\u180c\u180d\u180e\u180f\u200b\u200c\u200d"
_SOFT = "\u00ad\u2061\u2062\u2063\u2064"
_DIRECTIONS = "\u061c\u200e\u200f"


def clean(text: str) -> str:
    """Return `text` without terminal sequences, controls, hidden tags, direction overrides and stray invisibles."""
    if not (_ANY_ASCII if text.isascii() else _ANY).search(text):
        return text
    return _ODD.sub(_kept, _TERMINAL.sub("", writable(text)))


def one_line(text: str) -> str:
    """Return `text` cleaned, on one line."""
    return _BREAKS.sub(" ", clean(text).replace("\r", "")).strip()


def writable(text: str) -> str:
    """Return `text` with lone surrogates replaced, so that every wire can carry it."""
    return text if is_writable(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_writable(text: str) -> bool:
    """Tell whether every wire can carry `text`: it has no half of a character."""
    return text.isascii() or not _SURROGATE.search(text)


def _kept(found: re.Match[str]) -> str:
    """Return what stays of a run of odd characters."""
    if found["flag"]:
        return found["flag"]
    text, before = found.string, found.string[found.start() - 1 : found.start()]
    kept: list[str] = []
    for at in range(found.start(), found.end()):
        stays = _stays(text[at], before, text[at + 1 : at + 2])
        if stays:
            kept.append(stays)
            before = stays
    return "".join(kept)


def _stays(char: str, before: str, after: str) -> str:
    """Return what becomes of one odd character between its neighbours: itself, what stands for it, or nothing."""
    if char in _LINES:
        return "\n"
    if char in "\u3164\uffa0":  # Hangul fillers are seen as blanks
        return " "
    if char in _JOINERS:
        return char if _is_joined(before) else ""
    if char in _SOFT:
        return char if before.isalnum() and after.isprintable() and after.strip() else ""
    if char in _DIRECTIONS:
        return char if _is_right_to_left(before) or _is_right_to_left(after) else ""
    if "\ufe00" <= char <= "\ufe0f":
        return char if _varies(char, before) else ""
    if "\U000e0100" <= char <= "\U000e01ef":
        return char if _is_ideograph(before) else ""
    if char in "\u115f\u1160":
        return char if any("\u1100" <= near <= "\u11ff" for near in (before, after)) else ""
    return char if char in "\u17b4\u17b5" and "\u1780" <= before <= "\u17ff" else ""


def _is_joined(before: str) -> bool:
    """Tell whether scripts and emoji use joiners after this character; Latin letters and brackets do not."""
    if before < "\u0590" or before in _JOINERS:
        return False
    return unicodedata.category(before) in ("Lo", "Lm", "Mn", "Mc", "So", "Sk")


def _varies(char: str, before: str) -> bool:
    if before in tuple("0123456789#*©®"):  # keycaps, and signs that are older than emoji
        return char in "\ufe0e\ufe0f"
    return before >= "\u2000" and unicodedata.category(before)[0] in "LPS"


def _is_ideograph(before: str) -> bool:
    return "\u3400" <= before <= "\U000323af" and unicodedata.category(before) == "Lo"


def _is_right_to_left(near: str) -> bool:
    return near != "" and near not in _DIRECTIONS and unicodedata.bidirectional(near) in ("R", "AL", "AN")
