"""Text as a person may be shown it who has to decide about it: nothing hidden, nothing that passes for something else.

Every control, direction mark, invisible and look-alike character is written as an escape, and a backslash is doubled,
so that two different texts never look the same. Plain text in any script stays readable: a letter is escaped where it
could pass for another one, not wherever it comes from.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

__all__ = ["escaped", "quoted"]

_PLAIN = re.compile(r"[ -\[\]-~]*")  # ASCII but for controls and the backslash
_NAMED = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}

# Seen as nothing, or as a blank, though Unicode calls them letters, marks and symbols.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Letters that cannot be told from ASCII ones: Cyrillic, Greek, Armenian, Coptic, Cherokee, Lisu, syllabics.
_TWINS = frozenset(
    "АВЕЅІЈКМНОРСТХҮԚԜЗаеѕіјорсухԁһӏԛԝгүѵ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺϜονρυιαϲϳκγ"
    "ՕՍԼՏօոսցհզյⲞⲢⲤⲀⲂⲈⲎⲒⲔⲘⲚⲦⲨⲬⲟⲣⲥ"
    "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏎᏏᏒᏔᏙᏚᏞᏟᏢᏦᏧᏴꓐꓑꓒꓓꓔꓖꓗꓘꓙꓚꓜꓝꓞꓟꓠꓡꓢꓣꓤꓦꓧꓨꓩꓪꓫꓬꓮꓰꓲꓳꓴꓵ"
    "ᐯᑌᑭᑯᒍᒪᕁᕼᖇᗅᗞᗪᗷ᙭"
)
# Signs that pass for dashes, quotes, slashes, bars, dots, stars, brackets, tildes and the like.
_SIGNS = frozenset("‐‑‒–−⁃˗‘‛′ʹʻʽˈ‵“”‟″⁄∕⧸∣ǀ❘⏐․∙∶ː։׃‚٬⁎∗⟨⟩‹›˂˃⧵∖⧹∼˜‗ǃ❨❩ꓸꓹꓽ꞉⸴⹀⩵᚛᚜ᐸᐳ〈〉丨丶丿〳〵")
_APOSTROPHES = frozenset("’ʼ")  # part of many words, and a quote elsewhere
_STROKES = frozenset("一ー〇ノ二ニ口ロ工エ卜ト")  # plain strokes: fine among their own kind
_IN_PROSE = frozenset("…№™")  # distinct enough
_LATIN = frozenset("ßẞæÆœŒøØðÐþÞđĐħĦıłŁŋŊŧŦəƏ")  # letters of living alphabets that are no ASCII letter with a mark
_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)
_SHELL = re.compile(r"[/\\$&|<>;`~=]")
_MOST_MARKS = 3  # on one letter; more make a heap that hides its neighbours


def escaped(text: str) -> str:
    """Return `text` with whatever could deceive a reader written as an escape; no two texts give the same."""
    return text if _PLAIN.fullmatch(text) else "".join(_shown(text))


def quoted(value: Any) -> str:
    """Return a JSON value as a person may be shown it; after the end of a text's line a new one begins."""
    if isinstance(value, str):
        lines = [escaped(line).replace('"', '\\"') for line in value.split("\n")]
        return '"' + "\\n\n".join(lines) + '"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(key)}: {quoted(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(quoted, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else escaped(repr(value))


def _shown(text: str) -> Iterator[str]:
    is_own = _is_own_script(text)
    is_bare = is_own and not _SHELL.search(text)
    at = 0
    for is_word, chars in groupby(text, _is_in_word):
        piece = "".join(chars)
        if is_word:
            yield from _word(piece, is_own=is_own, is_bare=is_bare)
        else:
            for near, char in enumerate(piece, at):
                yield _sign(char, text[:near][-1:], text[near + 1 : near + 2])
        at += len(piece)


def _is_in_word(char: str) -> bool:
    return (char.isalnum() and char not in _APOSTROPHES) or unicodedata.category(char)[0] == "M"


def _is_own_script(text: str) -> bool:
    """Tell whether the text is plainly written in one script that is not ASCII's: nothing in it passes for ASCII."""
    letters = [char for char in text if char.isalpha() and char not in _APOSTROPHES]
    scripts = _scripts(letters)
    return len(scripts) <= 1 and "LATIN" not in scripts and any(char not in _TWINS for char in letters)


def _scripts(letters: Iterable[str]) -> set[str]:
    """Return the alphabets that letters come from; wide ones stand beside any of them and pass for none."""
    return {_script(char) for char in letters if not _WIDE.match(char)}


def _script(letter: str) -> str:
    return "LATIN" if letter.isascii() else unicodedata.name(letter, "?").partition(" ")[0]


def _sign(char: str, before: str, after: str) -> str:
    if char.isascii():
        return char if char.isprintable() and char != "\\" else _escape(char)
    if char in _APOSTROPHES:
        is_inside = all(near.isalpha() and not near.isascii() for near in (before, after))
        return char if is_inside else _escape(char)
    if char in _SIGNS or _is_hidden(char):
        return _escape(char)
    if char in _IN_PROSE or not _imitates(char):
        return char
    return char if _WIDE.match(char) and _WIDE.match(before) else _escape(char)


def _word(word: str, *, is_own: bool, is_bare: bool) -> Iterator[str]:
    if word.isascii():
        yield word
        return
    letters = [char for char in word if char.isalpha()]
    passes = len(_scripts(letters)) > 1 or (not is_own and all(char in _TWINS for char in letters))
    is_wide = all(_WIDE.match(char) for char in word) and any(char not in _STROKES for char in word)
    base, marks = "", 0
    for char in word:
        if unicodedata.category(char)[0] == "M":
            marks += 1
            stays = marks <= _MOST_MARKS and _is_marked(base, char)
        else:
            base, marks = char, 0
            stays = char.isascii() or _is_seen(char, is_wide=is_wide, is_own=is_own, is_bare=is_bare)
            stays = stays and (char.isascii() or not passes or _is_accented(char) or bool(_WIDE.match(char)))
        yield char if stays and not _is_hidden(char) else _escape(char)


def _is_marked(base: str, mark: str) -> bool:
    """Tell whether a mark on this letter is how its script is written, and not another spelling of one character."""
    return base != "" and not base.isascii() and len(unicodedata.normalize("NFC", base + mark)) > 1


def _is_seen(char: str, *, is_wide: bool, is_own: bool, is_bare: bool) -> bool:
    """Tell whether a letter or digit that is not ASCII's can be seen for what it is."""
    if char in _SIGNS or _imitates(char):
        return False
    if unicodedata.bidirectional(char) in ("R", "AL", "AN"):  # turns round what stands beside it
        return is_bare
    if not char.isalpha():
        return is_own
    if _WIDE.match(char):
        return char not in _STROKES or is_wide
    return _is_accented(char) if _script(char) == "LATIN" else True


def _is_accented(char: str) -> bool:
    """Tell whether this is a Latin letter that living alphabets use: one of ASCII's with marks, or of a short list."""
    plain = unicodedata.normalize("NFD", char)
    return char in _LATIN or (len(plain) > 1 and plain[0].isascii() and plain[0].isalpha())


def _imitates(char: str) -> bool:
    """Tell whether this is another form of something in ASCII: wide, raised, joined, styled."""
    return any(plain.isascii() for plain in unicodedata.normalize("NFKC", char))


def _is_hidden(char: str) -> bool:
    """Tell whether this cannot be seen, or is only another code of a character."""
    return not char.isprintable() or bool(_INVISIBLE.match(char)) or unicodedata.normalize("NFC", char) != char


def _escape(char: str) -> str:
    return _NAMED.get(char) or ascii(char)[1:-1]
