"""Names of tools: one canonical spelling, judged the same on both sides of every rule.

A name is folded (NFKC, case, surrounding blanks), aliases are replaced, and whatever then falls outside
`[a-z0-9_-]{1,64}` is no name: look-alikes and invisible characters are refused rather than guessed at.
"""

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["ALIASES", "canonical", "fold", "is_name", "nearest"]

ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}

_NAME = re.compile(r"[a-z0-9_-]{1,64}")


def fold(text: str) -> str:
    """Return `text` without the differences that must not matter: compatibility forms, case, outer blanks."""
    if text.isascii():
        return text.strip().lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def is_name(text: str) -> bool:
    """Tell whether `text`, already folded, can name a tool."""
    return _NAME.fullmatch(text) is not None


def canonical(text: str) -> str | None:
    """Return the canonical name meant by `text`, or None when it cannot name any tool."""
    folded = fold(text)
    name = ALIASES.get(folded, folded)
    return name if is_name(name) else None


def nearest(word: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return the known words a person most likely meant by `word`, the likeliest first."""
    return get_close_matches(fold(word), list(known), n=count, cutoff=0.6)
