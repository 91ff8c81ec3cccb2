"""The rows of later.toml, what a later step builds, and of uncalled.toml, what nothing in the product calls."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from .load import BadInputError, Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """Functions, or classes of attacks, that a later step builds; with `args` only where these arguments fit."""

    file: str
    fn: Sequence[str]
    step: int | str
    because: str
    args: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.fn or isinstance(self.fn, str) or "*" in self.fn:
            raise ValueError("fn is a list of the functions, or classes of attacks, that are later")

    def is_about(self, case: Case) -> bool:
        """Tell whether a case is left to that step."""
        given = case.args if isinstance(case.args, Mapping) else {}
        return (
            self.file == case.file
            and case.fn in self.fn
            and all(any(fnmatchcase(str(given.get(key)), one) for one in fits) for key, fits in self.args.items())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncalled:
    """Recorded functions whose cases prove functions of ours (`define/session.py::to_peer_key`) that nothing calls."""

    file: str
    functions: Mapping[str, str]
    because: str


Row = TypeVar("Row", Later, Uncalled)


@dataclass(frozen=True, slots=True)
class Rows:
    """Both lists."""

    later: Sequence[Later] = ()
    uncalled: Sequence[Uncalled] = ()

    def promise(self, case: Case) -> Later | None:
        """Return the first row that leaves this case to a later step."""
        return next((row for row in self.later if row.is_about(case)), None)

    def uncalled_by(self, case: Case) -> str:
        """Return the function that a case proves and nothing calls, "" where it proves one that is used."""
        return next(
            (row.functions[case.fn] for row in self.uncalled if row.file == case.file and case.fn in row.functions), ""
        )


def read_rows(folder: Path) -> Rows:
    """Read both lists; raise BadInputError at the first row that is not one."""
    return Rows(
        _table(folder / "later.toml", "later", Later),
        _table(folder / "uncalled.toml", "uncalled", Uncalled),
    )


def _table(path: Path, name: str, kind: Callable[..., Row]) -> list[Row]:
    if not path.is_file():
        return []
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInputError(f"{path} is not TOML: {error}") from error
    rows = []
    for number, entry in enumerate(content.get(name, ()), 1):
        try:
            rows.append(kind(**entry))
        except (TypeError, ValueError) as error:
            raise BadInputError(
                f"{path.name}: row {number} ({entry.get('file')} {entry.get('fn')}): {error}"
            ) from error
    return rows
