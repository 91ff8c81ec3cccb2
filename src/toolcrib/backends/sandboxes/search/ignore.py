"""Ignore files: which names a search passes over, as ripgrep reads `.gitignore`, `.ignore` and `.rgignore`.

Later lines win over earlier ones, deeper files over those above, and every `.rgignore` over every `.ignore` over every
`.gitignore`. A folder that is passed over is not entered, so nothing in it can be taken back by `!`. Only files of the
workspace count: not the user's own rules, not those of folders above the root.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.define.errors import ArgumentError

from .globs import expression_for_lines, for_matching, path_expression, select

__all__ = ["IGNORE_FILES", "NO_RULES", "IgnoreFile", "Rules"]

IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")  # the first that has something to say decides

_SPECIAL = frozenset("*?[]{}\\/")
_AT_ONCE = 100  # rules in one compiled expression


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line: a bare name, the end of a name, or an expression for the path."""

    taken_back: bool
    only_folders: bool
    name: str = ""
    suffix: str = ""
    expression: str = ""
    match: Any = None

    def meets(self, path: str, name: str) -> bool:
        if self.match is not None:
            return self.match(for_matching(path)) is not None
        return name == self.name if self.name else name.endswith(self.suffix)


class IgnoreFile:
    """The rules of one file. `base` is the folder it lies in, with `/` at the end, "" for the root."""

    __slots__ = ("base", "expressions", "lines", "names", "rules", "suffixes")

    def __init__(self, base: str, text: str) -> None:
        self.base = base
        read = [(line, _rule(line)) for line in text.removeprefix("\ufeff").split("\n")]
        self.lines = tuple(line for line, rule in read if rule is not None)
        rules = [rule for _, rule in read if rule is not None]
        self.rules = rules[::-1]  # the last one that fits decides
        self.names = frozenset(rule.name for rule in rules if rule.name)
        self.suffixes = tuple({rule.suffix for rule in rules if rule.suffix})
        general = [rule.expression for rule in rules if rule.match is not None]
        self.expressions = tuple(
            expression_for_lines("|".join(f"(?:{each})" for each in general[at : at + _AT_ONCE]))
            for at in range(0, len(general), _AT_ONCE)
        )

    def ignores(self, path: str, name: str, *, folder: bool) -> bool | None:
        """Tell whether a path beneath the folder is passed over (True), kept (False), or not spoken of (None)."""
        inner = path[len(self.base) :]
        for rule in self.rules:
            if (folder or not rule.only_folders) and rule.meets(inner, name):
                return not rule.taken_back
        return None


class Rules:
    """The ignore files that hold in a folder: for each kind, the deepest first."""

    __slots__ = ("_general", "_levels", "_names", "_suffixes")

    def __init__(self, levels: tuple[tuple[IgnoreFile, ...], ...] = ((), (), ())) -> None:
        files = [file for level in levels for file in level]
        self._levels = levels
        self._names = frozenset().union(*(file.names for file in files))
        self._suffixes = tuple({suffix for file in files for suffix in file.suffixes})
        self._general = [(len(file.base), each) for file in files for each in file.expressions]

    def below(self, base: str, texts: Mapping[str, str]) -> "Rules":
        """Return the rules that hold in a folder with these ignore files of its own."""
        return Rules(
            tuple(
                (IgnoreFile(base, texts[name]), *level) if name in texts else level
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

    def kept(self, prefix: str, names: list[str], *, folders: bool) -> list[str]:
        """Return the names in a folder that are not passed over."""
        if not names:
            return names
        known, suffixes = self._names, self._suffixes
        # most names are not spoken of by any rule, and nearly all of those are told apart here
        spoken_of = {name for name in names if name in known or name.endswith(suffixes)}
        for cut, expression in self._general:
            spoken_of.update(names if expression is None else select(expression, prefix[cut:], names))
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


NO_RULES = Rules()


def _rule(line: str) -> _Rule | None:
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
        if not _SPECIAL & set(body):
            return _Rule(taken_back, only_folders, name=body)
        if body.startswith("*") and not _SPECIAL & set(body[1:]) and len(body) > 1:
            return _Rule(taken_back, only_folders, suffix=body[1:])
        body = body if body.startswith("**/") else f"**/{body}"
    if body.endswith("/**"):  # what is in the folder, not the folder itself
        body = f"{body}/*"
    try:
        expression = path_expression(body)
    except ArgumentError:
        return None
    compiled = expression_for_lines(expression)
    if compiled is None:
        return None
    return _Rule(taken_back, only_folders, expression=expression, match=compiled.fullmatch)
