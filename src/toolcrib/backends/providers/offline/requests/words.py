"""Words of a request: quotes, paths and numbers are masked, so that rules can be plain patterns over what is left.

`Find "a b" in src/*.py, please` is masked as `find Q0 in G2 , please`: words in small letters, and capitals with the
place of the token for what has to be taken as it is. Q is quoted, P a path, G a glob, N a number, R a range of numbers.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from toolcrib.backends.providers.offline.patterns import Pattern

__all__ = ["FILE_ENDINGS", "Clause", "Token", "corrected", "number_of", "range_of", "tokens_of", "words"]


def words(text: str) -> frozenset[str]:
    """Return the words of a text, as a set to look them up in."""
    return frozenset(text.split())


FILE_ENDINGS = words(
    "py pyi ipynb md markdown rst txt text toml yaml yml json jsonl json5 ini cfg conf env lock csv tsv xml html htm "
    "css scss js mjs cjs jsx ts tsx vue rs go c h cc cpp hpp java kt swift rb php pl lua sh bash zsh fish ps1 bat sql "
    "r jl ex exs hs ml scala clj dart zig proto graphql tf gradle log diff patch svg png jpg jpeg gif webp pdf db "
    "sqlite tex in out bak tmp dat example sample template j2"
)
_BARE = words(
    "readme license licence changelog changes makefile dockerfile contributing authors notice gemfile rakefile "
    "procfile justfile vagrantfile todo.txt copying install security codeowners"
)
_NOT_FILES = frozenset({"changes", "install", "security", "notice", "authors"})  # unless in capitals
_SHORT = {
    "what's": "what is", "whats": "what is", "where's": "where is", "wheres": "where is", "who's": "who is",
    "how's": "how is", "let's": "let us", "i'd": "i would", "i'm": "i am", "it's": "it is", "that's": "that is",
    "there's": "there is", "pls": "please", "plz": "please", "dir's": "dir", "&": "and", "gimme": "give me",
}  # fmt: skip
_COUNTS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100,
}  # fmt: skip
_TOKEN = Pattern(
    r"```[^\n`]*\n(?P<block>.*?)\n?```"
    r"|`(?P<code>[^`\n]+)`"
    r'|"(?P<double>[^"\n]*)"|“(?P<curly>[^”\n]*)”|«(?P<angle>[^»\n]*)»'
    r"|(?<![^\s(:=])'(?P<single>[^'\n]+)'(?=[\s,.;:!?)]|$)|‘(?P<inner>[^’\n]*)’"
    r"|(?P<line>[^\S\n]*\n\s*)"
    r"|(?P<word>\S+)",
    re.DOTALL,
)
_WRITES = Pattern(r"\b(?:create|write|append|add|save|put|make|overwrite|fill)\b", re.IGNORECASE)
_QUOTES = ("block", "code", "double", "curly", "angle", "single", "inner")
_DOTTED = Pattern(r"\.?[\w+@-]+(?:\.[\w+-]+)*\.([A-Za-z][\w+-]{0,9})(?::\d+(?:-\d+)?)?")
_NUMBER, _RANGE = Pattern(r"\d{1,9}"), Pattern(r"(\d{1,9})(?:-|–|\.\.|:)(\d{1,9})")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "etc", "vs"})


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a request: where it stands, what it says, and what rules see of it."""

    start: int
    end: int
    text: str
    mask: str


@dataclass(frozen=True)
class Clause:
    """A part of a request that asks for one thing."""

    whole: str
    tokens: tuple[Token, ...]

    @cached_property
    def masked(self) -> str:
        return " ".join(token.mask for token in self.tokens)

    def within(self, start: int, end: int) -> "Clause":
        """Return the part between two places of the masked text."""
        kept, at = [], 0
        for token in self.tokens:
            if start <= at < end:
                kept.append(token)
            at += len(token.mask) + 1
        return Clause(self.whole, tuple(kept))

    def group(self, found: re.Match[str], name: str) -> str:
        """Return what a person wrote there, without quotes around it."""
        return "" if found[name] is None else self.within(*found.span(name)).raw

    @property
    def raw(self) -> str:
        """What a person wrote, as it is; without its quotes when it is one quotation."""
        if not self.tokens:
            return ""
        return self.tokens[0].text if len(self.tokens) == 1 else self.whole[self.tokens[0].start : self.tokens[-1].end]

    def marked(self, kinds: str) -> list[Token]:
        """Return the tokens of these kinds, such as `PQ`."""
        return [token for token in self.tokens if token.mask[:1] in kinds and token.mask[1:].isdigit()]

    def __bool__(self) -> bool:
        return bool(self.tokens)


def tokens_of(text: str) -> list[Token]:
    """Return the words and marks of a text; a quotation is one word."""
    found: list[Token] = []
    for each in _TOKEN.finditer(text):
        kind = each.lastgroup or ""
        if kind in _QUOTES:
            found.append(Token(each.start(), each.end(), each[kind], f"Q{len(found)}"))
        elif kind == "line" and found and found[-1].mask == ":" and _WRITES.search(text[: each.start()]):
            if not text.startswith("```", each.end()):
                # what follows `write to x.txt:` on lines of its own is what is written
                found.append(Token(each.end(), len(text), text[each.end() :].rstrip("\n"), f"Q{len(found)}"))
                break
        elif kind == "line" and not text.startswith("```", each.end()):
            found.append(Token(each.start(), each.end(), ";", ";"))
        elif kind == "line":
            continue
        else:
            found += _words(each["word"], each.start(), len(found))
    return found


def _words(text: str, start: int, at: int) -> list[Token]:
    """Return a word with the marks around it as words of their own."""
    end = start + len(text)
    while text[:1] in "([" and len(text) > 1 and not _closes(text):
        text, start = text[1:], start + 1
    core = text.rstrip(",;:!?") if not text.endswith("..") else text
    if core.endswith(")") and "(" not in core:
        core = core.rstrip(")")
    if core.endswith(".") and core.strip("."):
        core = core.rstrip(".")
    if not core:
        core = text[:1]
    marks = [mark for mark in text[len(core) :] if mark in ",;:!?."]
    found = [Token(start, start + len(core), core, _mask(core, at))]
    found += (Token(end, end, mark, mark) for mark in marks[:1])
    return found


def _closes(text: str) -> bool:
    return text.rstrip(",;:!?.").endswith((")", "]"))


def _mask(word: str, at: int) -> str:
    low = word.lower()
    if low in _SHORT:
        return _SHORT[low]
    if low in _COUNTS or _NUMBER.fullmatch(word):
        return f"N{at}"
    if _RANGE.fullmatch(word):
        return f"R{at}"
    if "://" in word or low in _ABBREVIATIONS:
        return low
    if ("*" in word and word.strip("*")) or (re.search(r"[\[{?]", word) and "." in word and "(" not in word):
        return f"G{at}" if not re.fullmatch(r"[\d.*+/()-]+", word) else low
    return f"P{at}" if _is_path(word, low) else low


def _is_path(word: str, low: str) -> bool:
    if low in _BARE:
        return word.isupper() or low not in _NOT_FILES
    if word in (".", "..") or low.startswith(("./", "../", "~/")):
        return True
    if "/" in word.strip("/") or (word.endswith("/") and len(word) > 1) or (word.startswith("/") and len(word) > 1):
        return low not in ("and/or", "either/or", "i/o") and not re.fullmatch(r"[\d./*()+-]+", word)
    return bool(_DOTTED.fullmatch(word)) or (word.startswith(".") and word[1:2].isalpha())


def number_of(text: str) -> int:
    """Return the number that a token of kind N says."""
    return _COUNTS.get(text.lower()) or int(text)


def range_of(text: str) -> tuple[int, int]:
    """Return the two numbers that a token of kind R says."""
    found = _RANGE.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def corrected(word: str, verbs: Sequence[str], cutoff: float = 0.75) -> str:
    """Return the verb that a word was meant to be, else the word: a slip keeps the first letter and most others."""
    if len(word) < 3 or not word.isalpha():
        return word
    near = difflib.get_close_matches(word, [verb for verb in verbs if verb[0] == word[0]], n=1, cutoff=cutoff)
    return near[0] if near else word
