"""Where a text may be cut: at a number of characters, and never through what a reader takes for one."""

import unicodedata

# No honest character is longer; a hostile one (a letter under a thousand accents) is cut through.
_MAX_CLUSTER_CHARS = 32
_VIRAMA = 9


def cut(text: str, limit: int) -> str:
    """Return the first `limit` characters at most, fewer where the last would be cut through."""
    if len(text) <= limit:
        return text
    end = max(limit, 0)
    for index in range(end, max(end - _MAX_CLUSTER_CHARS, -1), -1):
        if not _is_within(text, index):
            return text[:index]
    return text[:end]


def shorten(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, the last of them an ellipsis where something was left out."""
    return text if len(text) <= limit else f"{cut(text, limit - 1)}…"


def page(text: str, start: int, limit: int) -> str:
    """Return the piece of `text` from `start` on, at most `limit` characters; whole characters only."""
    first = min(max(start, 0), len(text))
    for index in range(first, min(first + _MAX_CLUSTER_CHARS, len(text) + 1)):
        if not _is_within(text, index):
            first, limit = index, limit - (index - first)
            break
    return cut(text[first : first + max(limit, 0) + 1], limit)


def _is_within(text: str, at: int) -> bool:
    """Tell whether the place before `text[at]` lies inside one character as readers see it."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    if unicodedata.category(after)[0] == "M" or _extends(after) or before == "\u200d":
        return True
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    if _is_flag_letter(before) and _is_flag_letter(after):
        return _flag_letters_before(text, at) % 2 == 1
    if "\u1100" <= before <= "\u11ff" and "\u1160" <= after <= "\u11ff":  # a Hangul syllable in pieces
        return True
    return unicodedata.combining(before) == _VIRAMA and after.isalpha()


def _extends(char: str) -> bool:
    """Joiners, skin tones and tags belong to what stands before them."""
    return char in "\u200c\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f"


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, at: int) -> int:
    start = at
    while start > 0 and _is_flag_letter(text[start - 1]):
        start -= 1
    return at - start
