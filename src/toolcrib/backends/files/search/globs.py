"""Globs for the names of files: one language for `find`, for `grep` and for ignore files, matched in linear time.

`*` and `?` stay within a name, `**` spans folders, `[a-z]` and `[!a-z]` are sets, `{a,b}` a choice; a backslash takes
the next character as it is.

Ignore files are read as ripgrep reads `.gitignore`, `.ignore` and `.rgignore`. Later lines win over earlier ones,
deeper files over those above, and every `.rgignore` over every `.ignore` over every `.gitignore`. A folder that is
passed over is not entered, so nothing in it can be taken back by `!`. Only files of the workspace count: not the user's
own rules, not those of folders above the root.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import re2

from toolcrib.define.errors import ArgumentError
from toolcrib.lazy import dataclass, regex

GlobMatcher = Callable[[str, Sequence[str]], Collection[str]]
"""Takes a folder (with `/` at its end, "" for where the search begins) and names in it; returns those that match."""

IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")  # the first that has something to say decides

_GLOB_CHARS, _CHOICE_DEPTH = 1_000, 16
_GLOB_SIGNS = frozenset("*?[]{}\\/")
_RULES_AT_ONCE = 100  # in one compiled expression
_NOT = r"^/\n"
_SPECIAL = regex(r"[*?\[\]{}\\/]")


@lru_cache(maxsize=64)
def glob_matcher(glob: str, *, smart_case: bool = False) -> GlobMatcher:
    """Return what matches the end of a path from a whole name on, or the whole path when the glob begins with `/`.

    With `smart_case` a glob without capitals matches capitals too. A glob that cannot be read is an ArgumentError.
    """
    fold = smart_case and not any(char.isupper() for char in glob)
    plain = glob.removeprefix("./")
    if plain.startswith("**/") and "/" not in plain[3:]:
        plain = plain[3:]
    if plain.startswith("*") and not _SPECIAL.search(plain[1:]):
        return _suffix_matcher(plain[1:].lower() if fold else plain[1:], fold)
    if not fold and not _SPECIAL.search(plain):
        return lambda _, names: (plain,) if plain in names else ()
    named = "/" not in plain
    expression = _to_expression(plain.lstrip("/"))
    if not named and not plain.startswith("/"):
        expression = f"(?:[^\\n]*/)?{expression}"
    compiled = _compile(f"(?i){expression}" if fold else expression)
    if compiled is None:
        raise ArgumentError("the glob is too large, or no glob; make it simpler")
    return lambda folder, names: _select(compiled, "" if named else folder, names)


def _suffix_matcher(suffix: str, fold: bool) -> GlobMatcher:
    if fold:
        from_end = -len(suffix) or None
        return lambda _, names: [name for name in names if name[from_end:].lower() == suffix or not suffix]
    return lambda _, names: [name for name in names if name.endswith(suffix)]


def _compile(expression: str) -> Any:
    """Return the compiled expression, each match a whole line; None when it is none."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(f"(?m)^(?:{expression})$", options)
    except (re2.error, UnicodeEncodeError):
        return None


def _select(compiled: Any, folder: str, names: Sequence[str]) -> Collection[str]:
    """Return the names whose path matches. All of a folder are looked at in one go: that is five times as fast."""
    text = "\n".join([folder + name for name in names] if folder else names)
    if text.count("\n") != len(names) - 1 or not _is_text(text):
        return {name for name in names if compiled.fullmatch(_encode_path(folder + name)) is not None}
    cut = len(folder.encode())
    return {path[cut:].decode() for path in compiled.findall(text.encode())}


def _encode_path(path: str) -> bytes:
    """Return one path as expressions for lines take it: a line end or an undecodable byte is one character of it."""
    return path.replace("\n", "\r").encode("utf-8", "replace")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _to_expression(glob: str) -> str:
    """Return the regular expression of a glob that stands for a whole path; ArgumentError when it cannot be read."""
    if len(glob) > _GLOB_CHARS:
        raise ArgumentError(f"the glob has {len(glob)} characters; {_GLOB_CHARS} is the most")
    return _Reader(glob).read()


class _Reader:
    """Reads a glob from left to right."""

    def __init__(self, glob: str) -> None:
        self._glob, self._at, self._depth = glob, 0, 0

    def read(self) -> str:
        out = []
        while self._at < len(self._glob):
            out.append(self._step())
        if self._depth:
            self._fail("a { that nothing closes; write \\{ for the character itself")
        return "".join(out)

    def _step(self) -> str:
        glob, at = self._glob, self._at
        char = glob[at]
        self._at += 1
        match char:
            case "*":
                return self._stars()
            case "?":
                return r"[^/\n]"
            case "[":
                return self._set()
            case "{":
                self._depth += 1
                if self._depth > _CHOICE_DEPTH:
                    self._fail("choices nested too deep")
                return "(?:"
            case "}" if self._depth:
                self._depth -= 1
                return ")"
            case "," if self._depth:
                return "|"
            case "\\":
                if self._at >= len(glob):
                    self._fail("a backslash at its end")
                self._at += 1
                return _quote(glob[self._at - 1])
        return _quote(char)

    def _stars(self) -> str:
        """Read one or more stars: two that stand for whole names span folders."""
        glob, begin = self._glob, self._at - 1
        while glob[self._at : self._at + 1] == "*":
            self._at += 1
        starts = begin == 0 or glob[begin - 1] == "/"
        if self._at - begin != 2 or not starts:
            return r"[^/\n]*"
        if self._at >= len(glob):
            return r"[^\n]*"
        if glob[self._at] != "/":
            return r"[^/\n]*"
        self._at += 1
        while glob[self._at : self._at + 3] == "**/":  # several in a row are one
            self._at += 3
        return r"(?:[^\n]*/)?"

    def _set(self) -> str:
        glob, members = self._glob, []
        negated = glob[self._at : self._at + 1] in ("!", "^")
        self._at += negated
        begin = self._at
        while self._at < len(glob) and (glob[self._at] != "]" or self._at == begin):
            low = self._member()
            if glob[self._at : self._at + 1] == "-" and glob[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member()
                if high < low:
                    self._fail("a range whose ends are the wrong way round")
                members.append(f"{_quote(low)}-{_quote(high)}")
            else:
                members.append(_quote(low))
        if self._at >= len(glob):
            self._fail("a [ that nothing closes; write \\[ for the character itself")
        self._at += 1
        return f"[{_NOT if negated else ''}{''.join(members)}]"

    def _member(self) -> str:
        self._at += 1
        return self._glob[self._at - 1]

    def _fail(self, what: str) -> NoReturn:
        raise ArgumentError(f"the glob {self._glob!r} has {what}")


def _quote(char: str) -> str:
    if char.isalnum() or char in "_/" or not char.isascii():
        return char
    return f"\\{char}" if char.isprintable() else f"\\x{{{ord(char):x}}}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line: a bare name, the end of a name, or an expression for the path."""

    taken_back: bool
    only_folders: bool
    name: str = ""
    suffix: str = ""
    expression: str = ""
    match: Any = None

    def matches(self, path: str, name: str) -> bool:
        if self.match is not None:
            return self.match(_encode_path(path)) is not None
        return name == self.name if self.name else name.endswith(self.suffix)


class _IgnoreFile:
    """The rules of one file. `base` is the folder it lies in, with `/` at the end, "" for the root."""

    __slots__ = ("base", "expressions", "lines", "names", "rules", "suffixes")

    def __init__(self, base: str, text: str) -> None:
        self.base = base
        read = [(line, _parse_rule(line)) for line in text.removeprefix("\ufeff").split("\n")]
        self.lines = tuple(line for line, rule in read if rule is not None)
        rules = [rule for _, rule in read if rule is not None]
        self.rules = rules[::-1]  # the last one that fits decides
        self.names = frozenset(rule.name for rule in rules if rule.name)
        self.suffixes = tuple({rule.suffix for rule in rules if rule.suffix})
        general = [rule.expression for rule in rules if rule.match is not None]
        self.expressions = tuple(
            _compile("|".join(f"(?:{each})" for each in general[index : index + _RULES_AT_ONCE]))
            for index in range(0, len(general), _RULES_AT_ONCE)
        )

    def ignores(self, path: str, name: str, *, folder: bool) -> bool | None:
        """Tell whether a path beneath the folder is passed over (True), kept (False), or not spoken of (None)."""
        inner = path[len(self.base) :]
        for rule in self.rules:
            if (folder or not rule.only_folders) and rule.matches(inner, name):
                return not rule.taken_back
        return None


class IgnoreRules:
    """The ignore files that hold in a folder: for each kind, the deepest first."""

    __slots__ = ("_general", "_levels", "_names", "_suffixes")

    def __init__(self, levels: tuple[tuple[_IgnoreFile, ...], ...] = ((), (), ())) -> None:
        files = [file for level in levels for file in level]
        self._levels = levels
        self._names = frozenset().union(*(file.names for file in files))
        self._suffixes = tuple({suffix for file in files for suffix in file.suffixes})
        self._general = [(len(file.base), each) for file in files for each in file.expressions]

    def below(self, base: str, texts: Mapping[str, str]) -> "IgnoreRules":
        """Return the rules that hold in a folder with these ignore files of its own."""
        return IgnoreRules(
            tuple(
                (_IgnoreFile(base, texts[name]), *level) if name in texts else level
                for name, level in zip(IGNORE_FILES, self._levels, strict=True)
            )
        )

    @property
    def anywhere(self) -> tuple[str, ...]:
        """The lines that hold at any depth; none when some are taken back, for then they do not stand alone."""
        lines = [line for level in self._levels for file in level for line in file.lines]
        if any(line.startswith("!") for line in lines):
            return ()
        return tuple(line for line in lines if "/" not in line.rstrip().removesuffix("/"))

    def keep(self, prefix: str, names: list[str], *, folders: bool) -> list[str]:
        """Return the names in a folder that are not passed over."""
        if not names:
            return names
        known, suffixes = self._names, self._suffixes
        # no rule matches most names, and nearly all of those are excluded here
        spoken_of = {name for name in names if name in known or name.endswith(suffixes)}
        for cut, expression in self._general:
            spoken_of.update(names if expression is None else _select(expression, prefix[cut:], names))
        if not spoken_of:
            return names
        return [
            name for name in names if name not in spoken_of or not self.ignores(prefix + name, name, folder=folders)
        ]

    def ignores(self, path: str, name: str, *, folder: bool) -> bool:
        """Tell whether a search passes over a path."""
        for level in self._levels:
            for file in level:
                verdict = file.ignores(path, name, folder=folder)
                if verdict is not None:
                    return verdict
        return False


NO_RULES = IgnoreRules()


def _parse_rule(line: str) -> _Rule | None:
    """Read one line; None for a blank one, a comment, and one that makes no sense."""
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    taken_back = line.startswith("!")
    body = line[1:] if taken_back or line.startswith(("\\!", "\\#")) else line
    anchored = body.startswith("/")
    body = body[1:] if anchored else body
    only_folders = body.endswith("/")
    if only_folders:
        body = body[:-1].removesuffix("\\")
    if not body:
        return None
    if not anchored and "/" not in body:
        if not _GLOB_SIGNS & set(body):
            return _Rule(taken_back, only_folders, name=body)
        if body.startswith("*") and not _GLOB_SIGNS & set(body[1:]) and len(body) > 1:
            return _Rule(taken_back, only_folders, suffix=body[1:])
        body = body if body.startswith("**/") else f"**/{body}"
    if body.endswith("/**"):  # what is in the folder, not the folder itself
        body = f"{body}/*"
    try:
        expression = _to_expression(body)
    except ArgumentError:
        return None
    compiled = _compile(expression)
    if compiled is None:
        return None
    return _Rule(taken_back, only_folders, expression=expression, match=compiled.fullmatch)
