"""What could pass for a mark around outside text, or for a token of a chat template, and how it is made harmless."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from toolcrib.lazy import regex

from .display import FOLD, UNKNOWN, fold

MARK = "EXTERNAL_UNTRUSTED_CONTENT"

_START, _END = "[[MARKER_SANITIZED]]", "[[END_MARKER_SANITIZED]]"


def defuse(text: str) -> str:
    """Return `text` without anything that looks like a mark, and with tokens of chat templates made plain words."""
    looks = text if text.isascii() else fold(text)
    if not _SIGN.search(looks) and "\nHuman:" not in text and "\nAssistant:" not in text:
        return text
    looks = fold(text)
    harmful = _HARMFUL if _NAME.search(looks) else _TOKEN_OR_TURN
    if not harmful.search(looks):
        return text
    pieces: list[str] = []
    done = 0
    for start, end, instead in _edits(text, looks, harmful):
        pieces += text[done:start], instead
        done = end
    return "".join((*pieces, text[done:]))


# What follows reads the folded text: lower case, `_` for dashes, nothing invisible, every angle a < or >. No pattern
# may look twice at the same characters (hence the possessive *+): outside text is chosen to make it slow.

_OPEN = r"(?:<|&lt;?|&#0*+60;?|&#x0*+3c;?|%3c|\\u003c|\\x3c)"
_CLOSE = r"(?:>|&gt;?|&#0*+62;?|&#x0*+3e;?|%3e|\\u003e|\\x3e)"
_BLANK = r"[\s_]*+"
_BETWEEN = r"[^a-z0-9\0<>]*+"
_ALSO = {"a": "4@", "e": "3", "i": "1", "l": "1i|", "o": "0", "s": "5$", "t": "7"}


def _spell(word: str) -> str:
    return _BLANK.join(f"[{letter}{_ALSO.get(letter, '')}{UNKNOWN}]" for letter in word.lower())


def _name_pattern(way: str) -> str:
    """Return the pattern of the mark's name, its words in groups that end with `way`."""
    words = (f"(?P<word{number}{way}>{_spell(word)})" for number, word in enumerate(MARK.split("_")))
    return _BETWEEN.join(words)


def _mark_pattern(way: str) -> str:
    return f"(?:(?P<end{way}>{_spell('end')}){_BETWEEN})?{_name_pattern(way)}"


# <<<END_NAME attributes>>> with at most three brackets a side (more do no harm); brackets on one side are enough.
_OPENED = rf"(?:{_OPEN}[\s_/!]*+){{1,3}}{_mark_pattern('_o')}"
_CLOSED = rf"{_mark_pattern('_c')}(?={_BLANK}{_CLOSE})"
_REST = regex(rf"(?:[^<>\n]{{0,160}}(?=>))?+(?:{_BLANK}{_CLOSE}){{0,3}}")

# Tokens that the chat templates of model families are made of, and the tags of their tool calls.
_BARRED = r"\|[a-z0-9_./:\0]{1,40}+\|?>|[a-z0-9_./:\0]{1,40}+\|>"
_SQUARE = r"/?(?:inst|system_prompt|available_tools|tool_calls|tool_results|tool_content|think)\]"
_ANGLED = (
    r"</?sys>>"
    r"|/?(?:(?:start|end)_of_turn|[be]os(?:_token)?|think|system(?:_reminder|_prompt|_instructions?)?)>"
    r"|/?(?:tool_(?:call|response)s?|function_(?:call|result|response)s?|antml:[a-z_]{1,40}+)(?:[\s/][^<>]{0,200})?>"
)
_TEMPLATE = rf"(?<=<)(?:{_BARRED}|{_ANGLED})|(?<=\[){_SQUARE}"
_TURN = r"(?<=\n) *+\n(?:human|assistant):"
_TOKENS = rf"[<\[\n](?:(?P<token>{_TEMPLATE})|(?P<sequence>(?<=<)/?s>)|(?P<turn>{_TURN}))"

_SIGN = regex(r"[<>\[&%\\]")
_NAME = regex(_name_pattern(""))
_TOKEN_OR_TURN = regex(_TOKENS)
_HARMFUL = regex(f"(?P<opened>{_OPENED})|(?P<closed>{_CLOSED})|{_TOKENS}")
# <s>struck out</s> is HTML; <s> alone, or with a template's token behind it, begins a sequence.
_STRUCK = regex(rf"<s>(?:(?!</?s>|[<\[](?:{_TEMPLATE}))[\s\S]){{1,500}}</s>")
_ROUND = {"<": "(", ">": ")", "[": "(", "]": ")"}
_MAX_UNKNOWN = 10


def _places(text: str) -> Sequence[int]:
    """Return for each character of the folded text its place in `text`, and the place behind the last."""
    if text.isascii() and "\r" not in text:
        return range(len(text) + 1)
    places: list[int] = []
    for place, char in enumerate(text):
        places += [place] * len(FOLD[ord(char)])
    return [*places, len(text)]


def _edits(text: str, looks: str, harmful: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    """Give what to change in `text`, in order: from where, to where, and what instead."""
    places, struck, passed = _places(text), 0, 0
    for found in harmful.finditer(looks):
        start, end = places[found.start()], places[found.end()]
        match found.lastgroup:
            case _ if found.start() < passed:
                continue
            case "opened" | "closed":
                way = f"_{found.lastgroup[0]}"
                if _is_mark(found, way) and (rest := _REST.match(looks, found.end())):
                    passed = rest.end()
                    yield start, places[passed], _END if found[f"end{way}"] else _START
            case "turn":
                newline = places[looks.rindex("\n", found.start(), found.end())]
                if text.startswith(("Human:", "Assistant:"), newline + 1):
                    yield newline, newline + 1, "|"
            case "sequence":
                pair = _STRUCK.match(looks, found.start())
                struck = pair.end() if pair else struck
                if found.end() > struck:
                    yield start, end, _in_round_brackets(text[start:end])
            case _:
                token = text[start:end]
                if token[0] != "[" or token == token.upper():
                    yield start, end, _in_round_brackets(token)


def _is_mark(found: re.Match[str], way: str) -> bool:
    """Tell a mark in unknown letters from a row of letters: most of them are known, or its words stand apart."""
    words = [f"word{number}{way}" for number in range(MARK.count("_") + 1)]
    if sum(found[word].count(UNKNOWN) for word in words) <= _MAX_UNKNOWN:
        return True
    return all("_" in found.string[found.end(one) : found.start(two)] for one, two in pairwise(words))


def _in_round_brackets(token: str) -> str:
    """Return a token in round brackets, which no template knows, without accents: (|im_start|), (INST)."""
    return "".join(_ROUND.get(look, char) for char in token if (look := FOLD[ord(char)]))
