"""Text made safe to show and to send: `escape` for people who decide, `strip` for models, `fold` for comparing looks.

`escape` hides nothing and lets nothing pass for something else: every control, direction mark, invisible and look-alike
character is written out, and a backslash is doubled, so that two different texts never look the same. Plain text in any
script stays readable: a letter is escaped where it could pass for another one, not wherever it comes from. `strip`
takes controls and invisible characters out, except where a script or an emoji is written with them.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from toolcrib.lazy import regex

_PLAIN = regex(r"[ -\[\]-~]*")  # ASCII but for controls and the backslash
_NAMED = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SEEN_AS_NOTHING = regex(f"[{_INVISIBLE}\u2800]")  # or as a blank, whatever Unicode calls them
# Letters that look like ASCII ones: Cyrillic, Greek, Armenian, Coptic, Cherokee, Lisu, syllabics.
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
_LATIN_LETTERS = frozenset(
    "ßẞæÆœŒøØðÐþÞđĐħĦıłŁŋŊŧŦəƏ"
)  # letters of living alphabets that are no ASCII letter with a mark
_WIDE = regex("[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]")
# What a terminal obeys or does not show: controls but for the tab and the end of a line, marks that turn the direction
# of writing, other ends of lines, invisible tags, halves of characters. Joiners stay: scripts and emoji need them.
_OBEYED = regex(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SHELL = regex(r"[/\\$&|<>;`~=]")
_MAX_MARKS = 3  # on one letter; more make a heap that hides its neighbours


def escape(text: str) -> str:
    """Return `text` with whatever could deceive a reader written as an escape; no two texts give the same."""
    return text if _PLAIN.fullmatch(text) else "".join(_escape_parts(text))


def escape_unprintable(text: str) -> str:
    """Return `text` with everything that could disturb a terminal, or cannot be encoded, written as an escape."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _write_out(char) for char in text)


def escape_controls(text: str) -> str:
    """Return `text` with whatever a terminal would obey or hide written out; ends of lines, tabs and joiners stay."""
    return _OBEYED.sub(lambda found: _write_out(found[0]), text.replace("\r", ""))


def quote(value: Any) -> str:
    """Return a JSON value as a person may be shown it; after the end of a text's line a new one begins."""
    if isinstance(value, str):
        lines = [escape(line).replace('"', '\\"') for line in value.split("\n")]
        return '"' + "\\n\n".join(lines) + '"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quote(key)}: {quote(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(quote, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else escape(repr(value))


def quote_short(text: str, max_chars: int = 120) -> str:
    """Return a text as a sentence may show it: quoted, escaped and short."""
    return repr(text if len(text) <= max_chars else f"{text[:max_chars]}…")


def _escape_parts(text: str) -> Iterator[str]:
    is_own = _is_own_script(text)
    is_bare = is_own and not _SHELL.search(text)
    at = 0
    for is_word, chars in groupby(text, _is_in_word):
        piece = "".join(chars)
        if is_word:
            yield from _escape_word(piece, is_own=is_own, is_bare=is_bare)
        else:
            for near, char in enumerate(piece, at):
                yield _escape_sign(char, text[:near][-1:], text[near + 1 : near + 2])
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


def _escape_sign(char: str, before: str, after: str) -> str:
    if char.isascii():
        return char if char.isprintable() and char != "\\" else _write_out(char)
    if char in _APOSTROPHES:
        is_inside = all(near.isalpha() and not near.isascii() for near in (before, after))
        return char if is_inside else _write_out(char)
    if char in _SIGNS or _is_hidden(char):
        return _write_out(char)
    if char in _IN_PROSE or not _imitates(char):
        return char
    return char if _WIDE.match(char) and _WIDE.match(before) else _write_out(char)


def _escape_word(word: str, *, is_own: bool, is_bare: bool) -> Iterator[str]:
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
            stays = marks <= _MAX_MARKS and _is_marked(base, char)
        else:
            base, marks = char, 0
            stays = char.isascii() or _is_seen(char, is_wide=is_wide, is_own=is_own, is_bare=is_bare)
            stays = stays and (char.isascii() or not passes or _is_accented(char) or bool(_WIDE.match(char)))
        yield char if stays and not _is_hidden(char) else _write_out(char)


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
    return char in _LATIN_LETTERS or (len(plain) > 1 and plain[0].isascii() and plain[0].isalpha())


def _imitates(char: str) -> bool:
    """Tell whether this is another form of something in ASCII: wide, raised, joined, styled."""
    return any(plain.isascii() for plain in unicodedata.normalize("NFKC", char))


def _is_hidden(char: str) -> bool:
    """Tell whether this cannot be seen, or is only another code of a character."""
    return not char.isprintable() or bool(_SEEN_AS_NOTHING.match(char)) or unicodedata.normalize("NFC", char) != char


def _write_out(char: str) -> str:
    return _NAMED.get(char) or ascii(char)[1:-1]


# Whole terminal sequences: taking only the ESC byte would leave "[31m" behind.
_TERMINAL = regex(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, when ended
    r"|\x1b[ -/]{0,16}[0-~]?"
)
_CONTROL = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
# The flag of a region is a black flag, its code in tags and an end tag; any other tag is hidden writing.
_FLAG = "\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,3}\U000e007f"
_ODD = regex(f"(?P<flag>{_FLAG})|[{_CONTROL}{_INVISIBLE}]+|\r(?!\n)")
# One look at each character is all that most texts cost.
_ANY_ODD = regex(f"[{_CONTROL}\r{_INVISIBLE}\ud800-\udfff]")
_ANY_ODD_ASCII = regex(f"[{_CONTROL}\r]")
_SURROGATE = regex("[\ud800-\udfff]")
_UNSEEN = regex(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
_BREAKS = regex("[\t\n\u2028\u2029]+")

_LINE_ENDS = "\x0b\x0c\r\x85"
_JOINERS = "\u034f\u180b\u180c\u180d\u180e\u180f\u200b\u200c\u200d"
_SOFT_MARKS = "\u00ad\u2061\u2062\u2063\u2064"
_DIRECTION_MARKS = "\u061c\u200e\u200f"


def strip(text: str) -> str:
    """Return `text` without terminal sequences, controls, hidden tags, direction overrides and stray invisibles."""
    if not (_ANY_ODD_ASCII if text.isascii() else _ANY_ODD).search(text):
        return text
    return _ODD.sub(_strip_run, _TERMINAL.sub("", replace_halves(text)))


def strip_to_line(text: str) -> str:
    """Return `text` cleaned, on one line."""
    return _BREAKS.sub(" ", strip(text).replace("\r", "")).strip()


def replace_halves(text: str) -> str:
    """Return `text` with lone surrogates replaced, so that every wire can carry it."""
    return text if is_encodable(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def strip_unseen(text: str) -> str:
    """Return `text` without controls and invisible characters, whatever they are for; tabs and ends of lines stay."""
    return _UNSEEN.sub("", text)


def strip_invisible(text: str) -> str:
    """Return `text` without whatever is not seen: controls, invisible characters, halves of characters."""
    return text if text.isascii() and text.isprintable() else _ANY_ODD.sub("", text)


def is_encodable(text: str) -> bool:
    """Tell whether every wire can carry `text`: it has no half of a character."""
    return text.isascii() or not _SURROGATE.search(text)


def _strip_run(found: re.Match[str]) -> str:
    """Return what stays of a run of odd characters."""
    if found["flag"]:
        return found["flag"]
    text, before = found.string, found.string[found.start() - 1 : found.start()]
    kept: list[str] = []
    for index in range(found.start(), found.end()):
        stays = _strip_char(text[index], before, text[index + 1 : index + 2])
        if stays:
            kept.append(stays)
            before = stays
    return "".join(kept)


def _strip_char(char: str, before: str, after: str) -> str:
    """Return what becomes of one odd character between its neighbours: itself, what stands for it, or nothing."""
    if char in _LINE_ENDS:
        return "\n"
    if char in "\u3164\uffa0":  # Hangul fillers are seen as blanks
        return " "
    if char in _JOINERS:
        return char if _is_joined(before) else ""
    if char in _SOFT_MARKS:
        return char if before.isalnum() and after.isprintable() and after.strip() else ""
    if char in _DIRECTION_MARKS:
        return char if _is_right_to_left(before) or _is_right_to_left(after) else ""
    if "\ufe00" <= char <= "\ufe0f":
        return char if _varies(char, before) else ""
    if "\U000e0100" <= char <= "\U000e01ef":
        is_ideograph = "\u3400" <= before <= "\U000323af" and unicodedata.category(before) == "Lo"
        return char if is_ideograph else ""
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


def _is_right_to_left(near: str) -> bool:
    return near != "" and near not in _DIRECTION_MARKS and unicodedata.bidirectional(near) in ("R", "AL", "AN")


# A letter or number that imitates nothing we know; a search may take it for any letter.
UNKNOWN = "\0"

_NO_LETTER = "\x01"
_MAX_REMEMBERED = 20_000

# Look-alikes from scripts whose names do not tell what they look like.
_LOOKS = {
    "a": "ΑαАаᎪᗅꓮ𐊠Ⲁⲁɑ", "b": "ΒВвᏴᗷꓐⲂᏏЬь", "c": "СсϹϲⲤⲥᏟꓚ𐊢ᑕ⊂ↄ", "d": "ᎠᗞᗪꓓԀԁժᑯ",
    "e": "ΕεЕеЄєЭэҼҽᎬꓰⴹⲈⲉ℮∈⋿𐊆ᕮΞξΣəɘɞ", "f": "ϜꓝᖴҒғ", "g": "ԌɡցᏀꓖ", "h": "ΗНнһҺᎻꓧⲎհ",
    "i": "ΙιІіӀӏᎥꓲⲒⵏاו", "j": "ЈјϳᎫꓙ", "k": "ΚκКкᏦꓗⲔⲕ", "l": "ԼլᏞꓡᒪⳐⳑן∟𐐛", "m": "ΜМмᎷꓟⲘ",
    "n": "ΝηոռпᏁꓠⲚⲛᑎ∩ИиՈՌท", "o": "ΟοОоՕօꓳⵔⵙⲞⲟσס〇○◯◌𐊒𐐄𐐬ዐ", "p": "ΡρРрᏢꓑⲢⲣ", "q": "ԚԛႭ", "r": "ᎡᏒꓣᖇЯягⲅ",
    "s": "ЅѕՏᏕᏚꓢႽ𐊖ᔕ", "t": "ΤτТтᎢꓔⲦⲧ𐊗⊤┬⟙ҬҭԵ", "u": "ՍսꓴⵡսπυЦц∪⋃ᑌպմ𐓎ሀ", "v": "νѴѵᏙꓦ", "w": "ωѠѡԜԝᎳꓪա",
    "x": "ΧχХхҲҳꓫⵝⲬⲭ×✕✖╳⨯᙭𐊐𐊴ᚷ", "y": "ΥУуγҮүᎩꓬⲨ", "z": "ΖζᏃꓜⲌ", "<": "ᐸᐊᚲ", ">": "ᐳᐅ", "_": "‗ˍ▁¯",
    " ": "⠀",
}  # fmt: skip
_LOOK_ALIKES = {char: ascii_char for ascii_char, chars in _LOOKS.items() for char in chars}

_LATIN_NAME = regex(
    r"(?:LATIN (?:CAPITAL |SMALL )?LETTER|SYMBOL LETTER)"
    r" (?:SMALL CAPITAL |OPEN |REVERSED |TURNED |LONG |SCRIPT |BARRED |INSULAR )*([A-Z])\b"
)
_OPENING_NAME = regex(
    r"\bLESS-THAN\b|\bLEFT\b.*\bANGLE\b|\bLEFT-POINTING\b|\bLEFT(WARDS)?\b.*\bARROWHEAD\b|\bPRECEDES\b"
)
_CLOSING_NAME = regex(
    r"\bGREATER-THAN\b|\bRIGHT\b.*\bANGLE\b|\bRIGHT-POINTING\b|\bRIGHT(WARDS)?\b.*\bARROWHEAD\b|\bSUCCEEDS\b"
)


class _Fold(dict[int, str]):
    """A table for `str.translate` that learns each character when it is first met, and remembers a bounded number."""

    def __missing__(self, code: int) -> str:
        looks = _fold_char(chr(code))
        if len(self) < _MAX_REMEMBERED:
            self[code] = looks
        return looks


FOLD = _Fold()


def fold(text: str) -> str:
    """Return what `text` looks like in lower-case ASCII: `_` for dashes, " " for blanks, nothing for the invisible."""
    return text.translate(FOLD)


def _fold_char(char: str) -> str:
    if char in _LOOK_ALIKES:
        return _LOOK_ALIKES[char]
    kind = unicodedata.category(char)
    if char.isascii():
        if char in "\n\t":
            return "\n" if char == "\n" else " "
        return "" if kind == "Cc" else "_" if char == "-" else char.lower()
    name = unicodedata.name(char, "")
    if kind[0] in "MC" and kind != "Co":
        return ""
    if kind[0] == "Z" or "FILLER" in name:
        return "\n" if kind in ("Zl", "Zp") else " "
    if kind in ("Pc", "Pd"):
        return "_"
    if latin := _LATIN_NAME.search(name):
        return latin[1].lower()
    if _OPENING_NAME.search(name):
        return "<"
    if _CLOSING_NAME.search(name):
        return ">"
    digit = unicodedata.digit(char, None)
    return str(digit) if digit is not None else _fold_plain(char, kind)


def _fold_plain(char: str, kind: str) -> str:
    """Fold the compatibility form, which is how styled, wide and accented characters come apart."""
    plain = unicodedata.normalize("NFKD", char)
    if plain != char and not 0xAC00 <= ord(char) <= 0xD7A3:  # a Hangul syllable is one letter
        return "".join(map(_fold_char, plain))
    return UNKNOWN if kind[0] in "LN" else _NO_LETTER
