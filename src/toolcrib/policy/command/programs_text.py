"""Programs whose arguments are a language of their own: what find, jq and sed are given, read as each reads it."""

import re
from collections.abc import Sequence

from toolcrib.lazy import regex

from .options import IsWithin, UnsafeUsageError, check_path, names

# find: starting points, then tests and actions; those that only test and print are named here

_FIND_ALONE = names(
    """! ( ) , -a -and -o -or -not -print -print0 -ls -prune -quit -depth -d -mount -xdev -empty -true -false -daystart
    -nouser -nogroup -readable -writable -executable -noleaf -nowarn -warn -ignore_readdir_race -noignore_readdir_race
    -help --help -version --version"""
)
_FIND_VALUE = names(
    """-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -maxdepth -mindepth
    -mtime -mmin -atime -amin -ctime -cmin -perm -user -group -uid -gid -links -inum -used -fstype -lname -ilname
    -context -printf"""
)
_FIND_LESS = regex(r"-(?:[0-9]+[a-zA-Z]?|[ugoa]*[+=][rwxXst,ugoa+=]*)")  # less than so much, these bits at least
_FIND_PATH = names("-newer -anewer -cnewer -samefile")


def check_find(args: Sequence[str], within: IsWithin | None) -> None:
    """Raise UnsafeUsageError unless find would only list what lies in the workspace."""
    if within is None:
        raise UnsafeUsageError("it reads folders, not its standard input")
    index = 0
    while index < len(args) and args[index] in ("-P", "--"):
        index += 1
    while index < len(args):
        word = args[index]
        index += 1
        if word in _FIND_ALONE:
            continue
        if word in _FIND_VALUE:
            if index < len(args) and args[index].startswith("-") and not _FIND_LESS.fullmatch(args[index]):
                raise UnsafeUsageError(f"the value of its {word!r} begins with a dash and may be an action")
            index += 1
        elif word in _FIND_PATH:
            check_path(args[index] if index < len(args) else "", within)
            index += 1
        elif word.startswith("-newer") and len(word) == len("-newerXY"):
            if word[-1] != "t":
                check_path(args[index] if index < len(args) else "", within)
            index += 1
        elif word.startswith("-"):
            raise UnsafeUsageError(f"its {word!r} is not one that only lists")
        else:
            check_path(word, within)


# jq: a program is read word by word; what looks at the environment or loads a module is found by its name

_READS_ELSEWHERE = frozenset({"env", "ENV", "import", "include", "modulemeta", "get_search_list"})
_JQ_WORDS = regex(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<comment>\#[^\n]*)|(?P<bracket>[][(){}])|(?P<field>\.\s*)?(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL,
)


def check_jq_program(program: str) -> None:
    """Raise UnsafeUsageError when a program looks at more than its input."""
    # a string may hold code, and what follows one that is left open is unknown: then nothing is skipped
    skips = "\\(" not in program and program.count('"') % 2 == 0 and "\\" not in program
    around: list[str] = []  # the brackets that are open
    for found in _JQ_WORDS.finditer(program):
        if found["bracket"] in ("[", "(", "{"):
            around.append(found["bracket"])
        elif found["bracket"]:
            around = around[:-1]
        elif found["string"] or found["comment"]:
            odd = [] if skips else [word for word in re.findall(r"[A-Za-z_]\w*", found[0]) if word in _READS_ELSEWHERE]
            if odd:
                raise UnsafeUsageError(f"its program may use {odd[0]!r}")
        elif found["name"] in _READS_ELSEWHERE and not _is_field(
            program, found, in_object=skips and around[-1:] == ["{"]
        ):
            raise UnsafeUsageError(f"its program uses {found['name']!r}, which is more than its input")


def _is_field(program: str, found: re.Match[str], *, in_object: bool) -> bool:
    """Tell whether a name is a field: `.env`, or the key of an object that is written out, `{env: 1}`."""
    if found["field"] == ".":
        return not program[: found.start()].endswith(".")
    rest = program[found.end() :].lstrip()
    before = program[: found.start()].rstrip()
    return in_object and rest.startswith(":") and before.endswith(("{", ",")) and not before.endswith("$")


# sed: a script is read command by command; those that write, run or read another file are not in the list

_SED_ADDRESS = regex(r"(?:\d+(?:~\d+)?|\$|(?=[/\\]))")
_SED_ALONE = "=dDFgGhHnNpPxz"
_SED_NUMBER = regex(r"[ \t]*\d*")
# a label ends at `;` or a blank, for some versions at `}`: what follows must end it for all of them
_SED_LABEL = regex(r"[ \t]*[A-Za-z0-9_.-]*[ \t]*(?=[;\n]|(?:[ \t]*\})+(?:[ \t;\n]|\Z)|\Z)")
_SED_SECOND = regex(r"[+~]?\d+|\$|(?=[/\\])")
_SED_FLAGS = regex(r"[gpiIm0-9M]*")
_SED_TEXT = regex(r"(?:[^\n\\]|\\.)*", re.DOTALL)


def check_sed_script(script: str) -> None:
    """Raise UnsafeUsageError unless a script only edits what passes through."""
    pos = 0
    while pos < len(script):
        if script[pos] in " \t\n;}":
            pos += 1
        elif script[pos] == "#":
            pos = _skip_line(script, pos)
        else:
            pos = _skip_command(script, _skip_addresses(script, pos))


def _skip_addresses(script: str, pos: int) -> int:
    found = _SED_ADDRESS.match(script, pos)
    if found:
        pos = _skip_blanks(script, _skip_pattern(script, found.end()) if found.end() == pos else found.end())
        if script[pos : pos + 1] == ",":
            pos = _skip_blanks(script, pos + 1)
            second = _SED_SECOND.match(script, pos)
            if second is None:
                raise UnsafeUsageError("its script holds an address that cannot be read")
            pos = _skip_blanks(script, _skip_pattern(script, pos) if second.end() == pos else second.end())
    while script[pos : pos + 1] in ("!", " ", "\t"):
        pos += 1
    return pos


def _skip_command(script: str, pos: int) -> int:
    """Return where the command at `at` ends."""
    name = script[pos : pos + 1]
    pos += 1
    if name == "{" or (name and name in _SED_ALONE):
        return pos
    if name in ("s", "y") and pos < len(script):
        return _skip_substitution(script, pos, name)
    if name in ("q", "Q", "l", "L"):
        return _skip_match(_SED_NUMBER, script, pos)
    if name in ("b", "t", "T", ":"):
        if (label := _SED_LABEL.match(script, pos)) is None:
            raise UnsafeUsageError("its script holds a label that cannot be read")
        return label.end()
    if name in ("a", "i", "c"):
        return _skip_match(_SED_TEXT, script, pos)
    raise UnsafeUsageError(f"its script holds {name!r}, which is not a command that only edits what passes through")


def _skip_substitution(script: str, pos: int, name: str) -> int:
    mark = script[pos]
    if mark in "\n\\":
        raise UnsafeUsageError("its script holds a substitution that cannot be read")
    pos = _skip_until(script, _skip_until(script, pos + 1, mark), mark)
    return pos if name == "y" else _skip_match(_SED_FLAGS, script, pos)


def _skip_pattern(script: str, pos: int) -> int:
    """Return where a pattern used as an address ends, with the letters that may follow it."""
    if script[pos] == "\\":
        pos += 1
    if pos >= len(script) or script[pos] in "\n\\":
        raise UnsafeUsageError("its script holds an address that cannot be read")
    pos = _skip_until(script, pos + 1, script[pos])
    while script[pos : pos + 1] in ("I", "M"):
        pos += 1
    return pos


def _skip_until(script: str, pos: int, mark: str) -> int:
    while pos < len(script) and script[pos] not in (mark, "\n"):
        pos += 2 if script[pos] == "\\" else 1
    if pos >= len(script) or script[pos] != mark:
        raise UnsafeUsageError("its script holds a pattern without an end")
    return pos + 1


def _skip_blanks(script: str, pos: int) -> int:
    while script[pos : pos + 1] in (" ", "\t"):
        pos += 1
    return pos


def _skip_line(script: str, pos: int) -> int:
    end = script.find("\n", pos)
    return len(script) if end < 0 else end


def _skip_match(pattern: re.Pattern[str], script: str, pos: int) -> int:
    found = pattern.match(script, pos)
    return found.end() if found else pos
