"""How a program reads its words: options with and without a value, and what is left over.

A grammar names every option that only reads or only shapes the output. An option it does not name (also one that is
spelled short of its whole name) counts as one that writes, runs or reads something.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from toolcrib.lazy import dataclass

IsWithin = Callable[[str], bool]


class UnsafeUsageError(Exception):
    """A use of a program that is not plain reading; the message says which, in half a sentence."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The options that a program may be given unasked. `number` permits -5; a path is checked, a value is not."""

    flags: str = ""
    values: str = ""
    paths: str = ""
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    long_maybe: frozenset[str] = frozenset()  # --name or --name=value
    long_paths: frozenset[str] = frozenset()
    number: bool = False
    permutes: bool = True  # options may follow operands
    glued: bool = False  # a value counts only when it is glued to its option
    apart: str = ""  # where values are glued: the letters whose value may be the next word, a number (or a pattern, -e)


class Use(NamedTuple):
    """The options as (name, value) in order, and the operands."""

    options: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]

    def has(self, *wanted: str) -> bool:
        """Tell whether one of these options is given."""
        return any(name in wanted for name, _ in self.options)


def read_use(args: Sequence[str], grammar: Grammar, within: IsWithin | None) -> Use:
    """Return how these arguments are read, or raise UnsafeUsageError. `within` None permits no file at all."""
    options: list[tuple[str, str]] = []
    operands: list[str] = []
    only_operands = False
    index = 0
    while index < len(args):
        word = args[index]
        index += 1
        if only_operands or word == "-" or not word.startswith("-"):
            operands.append(word)
            only_operands = only_operands or not grammar.permutes
        elif word == "--":
            only_operands = True
        elif word.startswith("--"):
            index = _read_long(word, args, index, grammar, options)
        elif grammar.number and word[1:].isdigit() and word.isascii():
            options.append(("number", word[1:]))
        else:
            index = _read_short(word, args, index, grammar, options)
    if grammar.paths or grammar.long_paths:
        for name, value in options:
            if name in grammar.long_paths or (len(name) == 1 and name in grammar.paths):
                check_path(value, within)
    return Use(tuple(options), tuple(operands))


def _read_long(word: str, args: Sequence[str], index: int, grammar: Grammar, options: list[tuple[str, str]]) -> int:
    name, mark, value = word[2:].partition("=")
    takes = name in grammar.long_values or name in grammar.long_paths
    if takes and not mark:
        value = _take_next(f"--{name}", args, index, grammar)
        index += 1
    elif not takes and not (name in grammar.long_maybe or (name in grammar.long_flags and not mark)):
        raise UnsafeUsageError(f"its option --{name} is not one that only reads")
    options.append((name, value))
    return index


def _read_short(word: str, args: Sequence[str], index: int, grammar: Grammar, options: list[tuple[str, str]]) -> int:
    for place, letter in enumerate(word[1:], 2):
        if letter in grammar.values or letter in grammar.paths:
            value = word[place:]
            if not value:
                value = _take_next(f"-{letter}", args, index, grammar)
                index += 1
            options.append((letter, value))
            return index
        if letter not in grammar.flags:
            raise UnsafeUsageError(f"its option -{letter} is not one that only reads")
        options.append((letter, ""))
    return index


def _take_next(option: str, args: Sequence[str], index: int, grammar: Grammar) -> str:
    """Return the next word as the value of an option; a word that the program could take for an option is none."""
    if index >= len(args):
        raise UnsafeUsageError(f"{option} has no value")
    value = args[index]
    if grammar.glued and (option[1:] not in tuple(grammar.apart) or not (value[:1].isdecimal() or option == "-e")):
        raise UnsafeUsageError(f"{option} may take no value from the next word; glue it to the option")
    is_option = value.startswith("--") or (value[:1] == "-" and value[1:] in (*grammar.paths,))
    if option == "-e" and not (grammar.glued or is_option):  # a pattern is the next word, whatever it begins with
        return value
    # -5 may stand behind a program that takes such a number: read either way it is harmless
    if value.startswith("-") and value != "-" and not (grammar.number and value[1:].isdecimal() and value.isascii()):
        raise UnsafeUsageError(f"the value of {option} begins with a dash; glue it to the option")
    return value


def check_path(path: str, within: IsWithin | None) -> None:
    """Raise UnsafeUsageError unless a path names the standard input, nothing at all, or something in the workspace."""
    if path in ("-", "/dev/null", "/dev/stdin"):
        return
    if within is None:
        raise UnsafeUsageError(f"{path!r} may be a file, and it may only read its standard input")
    if not within(path):
        raise UnsafeUsageError(f"{path!r} leads out of the workspace")


def check_paths(paths: Sequence[str], within: IsWithin | None) -> None:
    """Raise UnsafeUsageError unless all of these paths may be read."""
    if within is not None and all(map(within, paths)):
        return
    for path in paths:
        check_path(path, within)


def is_beneath(path: str) -> bool:
    """Tell whether a relative path stays beneath where it starts, as far as its spelling tells."""
    if path.startswith(("/", "~")) or "\0" in path:
        return False
    if ".." not in path:
        return True
    depth = 0
    for part in path.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return False
        elif part not in ("", "."):
            depth += 1
    return True
