"""What one word of a command line is, after the shell has taken its quotes away; None where it would do more."""

import re

from toolcrib.lazy import regex

_PLAIN = regex(r"[A-Za-z0-9_./:@%+,^-]+")
_QUOTED = regex(r"""'[^']*'|"[^"\\`$]*\"""")
_OPTION = regex(r"--[A-Za-z][A-Za-z0-9-]*=")
_GRAMMAR = r"""(?P<bare>[^\x00-\x20\x7f"'`$;&|<>()*?\[\\~={}]+)
      | \\(?P<escaped>[^\n])
      | (?P<continued>\\\n)
      | '(?P<single>[^']*)'
      | "(?P<double>(?:[^"\\`$]|\\.|\$(?![A-Za-z0-9_{(\['"@*\#?$!-]|\\\n|$)|\$(?="))*)"
      | \$'(?P<ansi>(?:[^'\\]|\\.)*)'
      | (?P<mark>[~={}\[])
      | (?P<dollar>\$$)
"""
_PIECES = regex(_GRAMMAR, re.VERBOSE | re.DOTALL)
_IN_OPTION = regex(_GRAMMAR.replace(r"*?\[", ""), re.VERBOSE | re.DOTALL)
_IN_DOUBLE = regex(r'\\([\\"$`]|\n)')


def literal(text: str) -> str | None:
    """Return what a shell makes of one word, or None when the word alone does not say."""
    if _PLAIN.fullmatch(text):
        return text
    if _QUOTED.fullmatch(text):
        return text[1:-1]
    if text.startswith("#"):
        return None  # a comment, wherever a word could begin
    # `--include=*.py` runs as it stands, without a shell that could look for such a file
    pieces = _IN_OPTION if _OPTION.match(text) else _PIECES
    value: list[str] = []
    marks: list[str] = []  # what is not quoted and could begin an expansion, in order
    pos = 0
    while pos < len(text):
        found = pieces.match(text, pos)
        if found is None:
            return None
        kind = found.lastgroup or ""
        piece: str | None = found[kind]
        if kind == "mark" or (kind == "bare" and piece):
            if not _means_itself(text, pos, piece or "", marks):
                return None
        elif kind == "double":
            piece = _IN_DOUBLE.sub(lambda escape: "" if escape[1] == "\n" else escape[1], piece or "")
        elif kind == "continued":
            piece = ""
        elif kind == "ansi":
            piece = _decode_ansi(piece or "")
        if piece is None:
            return None
        value.append(piece)
        pos = found.end()
    return "".join(value)


def quote_word(word: str) -> str:
    """Return a word as every shell reads it back."""
    return word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def _means_itself(text: str, pos: int, piece: str, marks: list[str]) -> bool:
    """Tell whether an unquoted piece means itself: no tilde, no braces with a list in them, no class of a glob."""
    match piece:
        case "~":
            return pos > 0 and text[pos - 1] not in "=:"
        case "[":
            return text == "["
        case "{":
            marks.append("{")
        case "}":
            return "{" not in marks or ("," not in marks and ".." not in marks)
        case _:
            marks += [mark for mark in (",", "..") if mark in piece and "{" in marks]
    return True


def _decode_ansi(text: str) -> str | None:
    """Return the value of $'...', or None where it depends on the locale or ends early."""
    try:
        return _ESCAPE.sub(_decode_escape, text)
    except ValueError:
        return None


_ESCAPE = regex(r"\\(?:(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_NAMED = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ASCII = 0x80


def _decode_escape(found: re.Match[str]) -> str:
    if found[3] is not None:
        if found[3] not in _NAMED:
            raise ValueError(found[3])
        return _NAMED[found[3]]
    code = int(found[1][1:], 16) if found[1] else int(found[2], 8)
    if not 0 < code < _ASCII:
        raise ValueError(found[0])
    return chr(code)
