"""Where a key stands: key paths, their dotted names, and what a scan of a text found out about its keys."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from toolcrib.define.errors import ConfigError, Place

__all__ = [
    "MAX_DEPTH",
    "Fault",
    "KeyPath",
    "Places",
    "Scan",
    "ScanError",
    "Scanner",
    "Spot",
    "deep",
    "dotted",
    "line_finder",
    "place",
    "printable",
    "scanned",
    "twice",
]

KeyPath = tuple[str | int, ...]
Spot = tuple[str, int | None]  # file and line

MAX_DEPTH = 32
_SHOWN = 200  # characters of a key path in an error; a key may be as long as the file

_LINE_END = re.compile(r"\r\n|\n|\r")


def dotted(path: KeyPath) -> str:
    """The name of a key path as people write it: `tools.deny[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def place(file: str, line: int | None, path: KeyPath) -> Place:
    """A place fit for an error message: the key path is cut to a readable length and holds nothing unprintable."""
    name = dotted(tuple(part if isinstance(part, int) else part[:_SHOWN] for part in path))
    return Place(file, line, printable(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"))


def printable(text: str) -> str:
    """`text` with everything that could disturb a terminal, or cannot be encoded, written as an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a scan cannot accept; `twice` is a duplicate key, `deep` nesting over 32, `lost` anything else."""

    kind: Literal["twice", "deep", "lost"]
    path: KeyPath
    line: int
    message: str

    def error(self, file: str) -> ConfigError:
        """The fault as the error that a reader of `file` raises."""
        return ConfigError(self.message, place(file, self.line, self.path))


def deep(path: KeyPath, line: int) -> Fault:
    """The fault of nesting over the limit."""
    return Fault("deep", path, line, f"nested more than {MAX_DEPTH} levels deep; flatten it")


def twice(path: KeyPath, line: int, first: int | None) -> Fault:
    """The fault of a key that was already there, on line `first`."""
    return Fault("twice", path, line, f"this key stands twice, first on line {first}; keep one of them")


class ScanError(Exception):
    """Ends a scan from within; never leaves the scanner."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Scan:
    """The line of every key and list item up to the first fault, and that fault."""

    lines: Mapping[KeyPath, int]
    fault: Fault | None = None


class Scanner(Protocol):
    """Walks a text once, filling in `lines`; raises ScanError where it loses its way."""

    lines: dict[KeyPath, int]

    def run(self) -> None: ...


def scanned(scanner: Scanner) -> Scan:
    """Return what a scanner finds, as far as it gets."""
    try:
        scanner.run()
    except ScanError as stop:
        return Scan(scanner.lines, stop.fault)
    return Scan(scanner.lines)


def line_finder(text: str) -> Callable[[int], int]:
    """A function from an offset in `text` to its line, counted from 1."""
    starts = [match.end() for match in _LINE_END.finditer(text)]
    return lambda offset: bisect_right(starts, offset) + 1


class Places(Mapping[KeyPath, Place]):
    """The place of every key path, named when it is asked for.

    Names are not kept: beneath one very long key they would take far more room than the file.
    """

    def __init__(self, spots: Mapping[KeyPath, Spot]) -> None:
        self._spots = spots

    def __getitem__(self, path: KeyPath) -> Place:
        file, line = self._spots[path]
        return Place(file, line, dotted(path))

    def __iter__(self) -> Iterator[KeyPath]:
        return iter(self._spots)

    def __len__(self) -> int:
        return len(self._spots)
