"""Keys as tmux names them, to the bytes a terminal sends; pasted text; bytes in hex."""

import re
from collections.abc import Sequence

__all__ = ["encoded", "pasted"]

_ESC = "\x1b"
_ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D"}
_NUMBERED = {
    "home": 1, "insert": 2, "ic": 2, "delete": 3, "del": 3, "dc": 3, "end": 4, "pageup": 5, "pgup": 5, "ppage": 5,
    "pagedown": 6, "pgdn": 6, "npage": 6,
}  # fmt: skip
_PLAIN = {
    "enter": "\r", "return": "\r", "tab": "\t", "btab": f"{_ESC}[Z", "escape": _ESC, "esc": _ESC, "space": " ",
    "bspace": "\x7f", "backspace": "\x7f",
    **{f"f{number}": f"{_ESC}O{letter}" for number, letter in enumerate("PQRS", 1)},
    **{f"f{at}": f"{_ESC}[{code}~" for at, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)},
    **{f"kp{key}": f"{_ESC}O{letter}" for key, letter in zip("0123456789/*-+.", "pqrstuvwxyojmkn", strict=True)},
    "kpenter": f"{_ESC}OM",
}  # fmt: skip
_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,2})", re.IGNORECASE)


def encoded(keys: Sequence[str] = (), hex: Sequence[str] = (), literal: str = "") -> tuple[bytes, list[str]]:
    """Return what is typed, text first, then bytes, then keys; and a sentence about each that is not one."""
    warnings: list[str] = []
    data = literal.encode("utf-8", "replace")
    for each in hex:
        found = _HEX.fullmatch(each.strip())
        if found:
            data += bytes([int(found[1], 16)])
        else:
            warnings.append(f"{each[:32]!r} is no byte in hex; it was left out")
    return data + "".join(_key(key.strip(), warnings) for key in keys).encode("utf-8", "replace"), warnings


def pasted(text: str, *, bracketed: bool = True) -> bytes:
    """Return text as a terminal sends it when it is pasted."""
    return (f"{_ESC}[200~{text}{_ESC}[201~" if bracketed else text).encode("utf-8", "replace")


def _key(token: str, warnings: list[str]) -> str:
    if len(token) == 2 and token[0] == "^" and (control := _control(token[1])):
        return control
    modifiers, base = _parted(token)
    name = base.lower()
    if name == "tab" and "s" in modifiers:
        return _PLAIN["btab"]
    number = 1 + ("s" in modifiers) + 2 * ("m" in modifiers) + 4 * ("c" in modifiers)
    if name in _ARROWS:
        return f"{_ESC}[{_ARROWS[name]}" if number == 1 else f"{_ESC}[1;{number}{_ARROWS[name]}"
    if name in _NUMBERED:
        return f"{_ESC}[{_NUMBERED[name]}~" if number == 1 else f"{_ESC}[{_NUMBERED[name]};{number}~"
    alt = _ESC if "m" in modifiers else ""
    if name in _PLAIN:
        return alt + _PLAIN[name]
    if len(base) == 1:
        char = base.upper() if "s" in modifiers else base
        return alt + ((_control(char) or char) if "c" in modifiers else char)
    if modifiers:
        warnings.append(f"{base[:32]!r} is no key that takes modifiers; it was typed as text")
    return base


def _parted(token: str) -> tuple[set[str], str]:
    """Return the modifiers before a key, and the key: `C-M-a` is Control, Meta and a."""
    modifiers: set[str] = set()
    while len(token) > 2 and token[1] == "-" and token[0].lower() in "cms":
        modifiers.add(token[0].lower())
        token = token[2:]
    return modifiers, token


def _control(char: str) -> str:
    """Return the character that Control makes of one, empty when it makes none."""
    if char == "?":
        return "\x7f"
    code = ord(char.upper()) if len(char.upper()) == 1 else 0
    return chr(code & 0x1F) if 64 <= code <= 95 else ""
