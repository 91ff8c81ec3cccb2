"""sed: a script is read command by command; those that write, run or read another file are not in the list."""

import re

from .options import OddUseError

__all__ = ["check_sed_script"]

_ADDRESS = re.compile(r"(?:\d+(?:~\d+)?|\$|(?=[/\\]))")
_ALONE = "=dDFgGhHnNpPxz"
_NUMBER = re.compile(r"[ \t]*\d*")
_LABEL = re.compile(r"[ \t]*[A-Za-z0-9_.-]*[ \t]*")
_SECOND = re.compile(r"[+~]?\d+|\$|(?=[/\\])")
_FLAGS = re.compile(r"[gpiIm0-9M]*")
_TEXT = re.compile(r"(?:[^\n\\]|\\.)*", re.DOTALL)


def check_sed_script(script: str) -> None:
    """Raise OddUseError unless a script only edits what passes through."""
    at = 0
    while at < len(script):
        if script[at] in " \t\n;}":
            at += 1
        elif script[at] == "#":
            at = _line_end(script, at)
        else:
            at = _command(script, _addresses(script, at))


def _addresses(script: str, at: int) -> int:
    found = _ADDRESS.match(script, at)
    if found:
        at = _blanks(script, _pattern_end(script, found.end()) if found.end() == at else found.end())
        if script[at : at + 1] == ",":
            at = _blanks(script, at + 1)
            second = _SECOND.match(script, at)
            if second is None:
                raise OddUseError("its script holds an address that cannot be read")
            at = _blanks(script, _pattern_end(script, at) if second.end() == at else second.end())
    while script[at : at + 1] in ("!", " ", "\t"):
        at += 1
    return at


def _command(script: str, at: int) -> int:
    """Return where the command at `at` ends."""
    name = script[at : at + 1]
    at += 1
    if name == "{" or (name and name in _ALONE):
        return at
    if name in ("s", "y") and at < len(script):
        return _substitution(script, at, name)
    if name in ("q", "Q", "l", "L"):
        return _match(_NUMBER, script, at)
    if name in ("b", "t", "T", ":"):
        return _match(_LABEL, script, at)
    if name in ("a", "i", "c"):
        return _match(_TEXT, script, at)
    raise OddUseError(f"its script holds {name!r}, which is not a command that only edits what passes through")


def _substitution(script: str, at: int, name: str) -> int:
    mark = script[at]
    if mark in "\n\\":
        raise OddUseError("its script holds a substitution that cannot be read")
    at = _until(script, _until(script, at + 1, mark), mark)
    return at if name == "y" else _match(_FLAGS, script, at)


def _pattern_end(script: str, at: int) -> int:
    """Return where a pattern used as an address ends, with the letters that may follow it."""
    if script[at] == "\\":
        at += 1
    if at >= len(script) or script[at] in "\n\\":
        raise OddUseError("its script holds an address that cannot be read")
    at = _until(script, at + 1, script[at])
    while script[at : at + 1] in ("I", "M"):
        at += 1
    return at


def _until(script: str, at: int, mark: str) -> int:
    while at < len(script) and script[at] not in (mark, "\n"):
        at += 2 if script[at] == "\\" else 1
    if at >= len(script) or script[at] != mark:
        raise OddUseError("its script holds a pattern without an end")
    return at + 1


def _blanks(script: str, at: int) -> int:
    while script[at : at + 1] in (" ", "\t"):
        at += 1
    return at


def _line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end


def _match(pattern: re.Pattern[str], script: str, at: int) -> int:
    found = pattern.match(script, at)
    return found.end() if found else at
