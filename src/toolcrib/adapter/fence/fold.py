"""What a character looks like: letters, brackets and blanks of every script folded onto the ASCII they imitate."""

import re
import unicodedata

__all__ = ["FOLD", "UNKNOWN", "fold"]

# A letter or number that imitates nothing we know; a search may take it for any letter.
UNKNOWN = "\0"

_OTHER = "\x01"
_REMEMBERED = 20_000

# Look-alikes from scripts whose names do not tell what they look like.
_LETTERS = {
    "a": "ΑαАаᎪᗅꓮ𐊠Ⲁⲁɑ",
    "b": "ΒВвᏴᗷꓐⲂᏏЬь",
    "c": "СсϹϲⲤⲥᏟꓚ𐊢ᑕ⊂ↄ",
    "d": "ᎠᗞᗪꓓԀԁժᑯ",
    "e": "ΕεЕеЄєЭэҼҽᎬꓰⴹⲈⲉ℮∈⋿𐊆ᕮΞξΣəɘɞ",
    "f": "ϜꓝᖴҒғ",
    "g": "ԌɡցᏀꓖ",
    "h": "ΗНнһҺᎻꓧⲎհ",
    "i": "ΙιІіӀӏᎥꓲⲒⵏاו",
    "j": "ЈјϳᎫꓙ",
    "k": "ΚκКкᏦꓗⲔⲕ",
    "l": "ԼլᏞꓡᒪⳐⳑן∟𐐛",
    "m": "ΜМмᎷꓟⲘ",
    "n": "ΝηոռпᏁꓠⲚⲛᑎ∩ИиՈՌท",
    "o": "ΟοОоՕօꓳⵔⵙⲞⲟσס〇○◯◌𐊒𐐄𐐬ዐ",
    "p": "ΡρРрᏢꓑⲢⲣ",
    "q": "ԚԛႭ",
    "r": "ᎡᏒꓣᖇЯягⲅ",
    "s": "ЅѕՏᏕᏚꓢႽ𐊖ᔕ",
    "t": "ΤτТтᎢꓔⲦⲧ𐊗⊤┬⟙ҬҭԵ",
    "u": "ՍսꓴⵡսπυЦц∪⋃ᑌպմ𐓎ሀ",
    "v": "νѴѵᏙꓦ",
    "w": "ωѠѡԜԝᎳꓪա",
    "x": "ΧχХхҲҳꓫⵝⲬⲭ×✕✖╳⨯᙭𐊐𐊴ᚷ",
    "y": "ΥУуγҮүᎩꓬⲨ",
    "z": "ΖζᏃꓜⲌ",
    "<": "ᐸᐊᚲ",
    ">": "ᐳᐅ",
    "_": "‗ˍ▁¯",
    " ": "⠀",
}
_TABLE = {char: ascii_char for ascii_char, chars in _LETTERS.items() for char in chars}

_LATIN = re.compile(
    r"(?:LATIN (?:CAPITAL |SMALL )?LETTER|SYMBOL LETTER)"
    r" (?:SMALL CAPITAL |OPEN |REVERSED |TURNED |LONG |SCRIPT |BARRED |INSULAR )*([A-Z])\b"
)
_OPENING = re.compile(
    r"\bLESS-THAN\b|\bLEFT\b.*\bANGLE\b|\bLEFT-POINTING\b|\bLEFT(WARDS)?\b.*\bARROWHEAD\b|\bPRECEDES\b"
)
_CLOSING = re.compile(
    r"\bGREATER-THAN\b|\bRIGHT\b.*\bANGLE\b|\bRIGHT-POINTING\b|\bRIGHT(WARDS)?\b.*\bARROWHEAD\b|\bSUCCEEDS\b"
)


class _Fold(dict[int, str]):
    """A table for `str.translate` that learns each character when it is first met, and remembers a bounded number."""

    def __missing__(self, code: int) -> str:
        looks = _looks(chr(code))
        if len(self) < _REMEMBERED:
            self[code] = looks
        return looks


FOLD = _Fold()


def fold(text: str) -> str:
    """Return what `text` looks like in lower-case ASCII: `_` for dashes, " " for blanks, nothing for the invisible."""
    return text.translate(FOLD)


def _looks(char: str) -> str:
    if char in _TABLE:
        return _TABLE[char]
    kind = unicodedata.category(char)
    if char.isascii():
        return _looks_ascii(char, kind)
    name = unicodedata.name(char, "")
    if kind[0] in "MC" and kind != "Co":
        return ""
    if kind[0] == "Z" or "FILLER" in name:
        return "\n" if kind in ("Zl", "Zp") else " "
    if kind in ("Pc", "Pd"):
        return "_"
    if latin := _LATIN.search(name):
        return latin[1].lower()
    if _OPENING.search(name):
        return "<"
    if _CLOSING.search(name):
        return ">"
    digit = unicodedata.digit(char, None)
    return str(digit) if digit is not None else _looks_plain(char, kind)


def _looks_ascii(char: str, kind: str) -> str:
    if char in "\n\t":
        return "\n" if char == "\n" else " "
    return "" if kind == "Cc" else "_" if char == "-" else char.lower()


def _looks_plain(char: str, kind: str) -> str:
    """Fold the compatibility form, which is how styled, wide and accented characters come apart."""
    plain = unicodedata.normalize("NFKD", char)
    if plain != char and not 0xAC00 <= ord(char) <= 0xD7A3:  # a Hangul syllable is one letter
        return "".join(map(_looks, plain))
    return UNKNOWN if kind[0] in "LN" else _OTHER
