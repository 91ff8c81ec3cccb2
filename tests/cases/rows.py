"""The rows of differences/*.toml and later.toml: where we differ on purpose, and what a later step builds.

A file of differences names the recorded `file` once, at its head, for all of its rows; and `words`, a module here whose
public functions its expressions may use: the rule that we follow, told a second time and in a few lines.

`when` is a Python expression over `args` and `case` (a case without its id, its note and what was recorded); `ours`
one over `args`, `case` and `recorded`, giving our answer, or `error("word", ...)` for an error that mentions the words.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from .load import BadInputError, Case
from .outcome import Refusal

DOCUMENTS = ("interfaces.md", "design.md", "guarantees.md")

_STEPS = (2, 3, 4, 5, 6, 7, "after 7")
_NAMES: dict[str, Any] = {
    name: value
    for value in (all, any, bool, dict, float, int, isinstance, len, list, max, min, set, sorted, str, sum, tuple)
    for name in (value.__name__,)
} | {
    "__builtins__": {},
    "as_json": lambda value: json.dumps(value, ensure_ascii=False),
    "error": lambda *words: Refusal(words),
    "matches": lambda pattern, text: re.search(pattern, text) is not None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """We answer differently, on purpose, and this is what we answer."""

    file: str
    fn: str
    when: str
    ours: str
    guarantee: str
    because: str
    sentence: str = ""
    words: str = ""

    def __str__(self) -> str:
        return f"differences: {self.file} {self.fn} ({self.because})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """A later step builds this; `step` is its number, or `after 7`."""

    file: str
    step: int | str
    because: str
    fn: str = "*"
    when: str = "True"
    words: str = ""

    def __str__(self) -> str:
        return f"later.toml: {self.file} {self.fn} (step {self.step})"


Row = TypeVar("Row", Difference, Later)


@dataclass(frozen=True, slots=True)
class Rows:
    """Both tables."""

    differences: Sequence[Difference] = ()
    later: Sequence[Later] = ()

    def difference(self, case: Case) -> Difference | None:
        """Return the first row that says we differ in this case."""
        return next((row for row in self.differences if catches(row, case)), None)

    def promise(self, case: Case) -> Later | None:
        """Return the first row that leaves this case to a later step."""
        return next((row for row in self.later if catches(row, case)), None)


def read_rows(folder: Path) -> Rows:
    """Read both tables; raise BadInputError at the first row that is not one."""
    files = sorted((folder / "differences").glob("*.toml"))
    differences = [row for path in files for row in _table(path, "difference", Difference)]
    return Rows(differences, _table(folder / "later.toml", "later", Later))


def catches(row: Difference | Later, case: Case) -> bool:
    """Tell whether a row is about this case."""
    if row.file != case.file or row.fn not in ("*", case.fn):
        return False
    try:
        return bool(_evaluate(row.when, row.words, case))
    except (LookupError, TypeError, AttributeError, ValueError):
        return False  # the predicate speaks of arguments that this case does not have


def ours(row: Difference, case: Case) -> Any:
    """Return what a row says that we answer."""
    expected = case.expected
    recorded = expected.get("result", expected) if isinstance(expected, Mapping) else expected
    return _evaluate(row.ours, row.words, case, recorded=recorded)


def problems(rows: Rows, cases: Sequence[Case], documents: Path) -> list[str]:
    """Return what is wrong with the rows: too broad without a sentence that asks for it, or a sentence nobody wrote."""
    found: list[str] = []
    texts = [_plain((documents / name).read_text()) for name in DOCUMENTS if (documents / name).is_file()]
    for row in rows.differences:
        for fn, of_function in _by_function(cases, row):
            caught, all_cases = sum(_is_caught(row, case) for case in of_function), len(of_function)
            if row.sentence or not caught:
                continue
            if all_cases < 10:
                found.append(f"{row}: {fn} has {all_cases} cases; below ten a row names the sentence that asks for it")
            elif caught * 5 > all_cases:
                found.append(
                    f"{row}: catches {caught} of {all_cases} cases of {fn}, more than a fifth, without a sentence"
                )
        if row.sentence and texts and not any(_plain(row.sentence) in text for text in texts):
            found.append(f"{row}: {row.sentence!r} stands in none of {', '.join(DOCUMENTS)}")
    return found


def _is_caught(row: Difference, case: Case) -> bool:
    try:
        return catches(row, case)
    except Exception:  # noqa: BLE001  that case fails by it already
        return False


def _by_function(cases: Sequence[Case], row: Difference) -> list[tuple[str, list[Case]]]:
    functions: dict[str, list[Case]] = {}
    for case in cases:
        if case.file == row.file and row.fn in ("*", case.fn):
            functions.setdefault(case.fn, []).append(case)
    return list(functions.items())


def _table(path: Path, name: str, kind: Callable[..., Row]) -> list[Row]:
    if not path.is_file():
        raise BadInputError(f"no file {str(path)!r} with rows")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInputError(f"{path} is not TOML: {error}") from error
    head = {key: content[key] for key in ("file", "words") if key in content}
    rows = []
    for number, each in enumerate(content.get(name, ()), 1):
        entry = head | each
        try:
            row = kind(**entry)
            _check(row)
        except (TypeError, ValueError, SyntaxError) as error:
            raise BadInputError(
                f"{path.name}: row {number} ({entry.get('file')} {entry.get('fn')}): {error}"
            ) from error
        rows.append(row)
    return rows


def _check(row: Difference | Later) -> None:
    _compiled(row.when)
    _words(row.words)
    if isinstance(row, Later):
        if row.step not in _STEPS:
            raise ValueError(f"step is one of {', '.join(map(str, _STEPS))}, not {row.step!r}")
        return
    _compiled(row.ours)
    if not re.fullmatch(r"G([1-9]|[12][0-9]|3[0-3])", row.guarantee):
        raise ValueError(f"guarantee is G1 to G33, not {row.guarantee!r}")
    if not row.because:
        raise ValueError("because says in one sentence why we differ")


@cache
def _compiled(expression: str) -> CodeType:
    return compile(f"({expression}\n)", "<row>", "eval")


@cache
def _words(module: str) -> dict[str, Any]:
    """Return the public names of a module of this package."""
    if not module:
        return {}
    try:
        known = import_module(f"{__package__}.{module}")
    except ImportError as error:
        raise ValueError(f"no words in {module!r}: {error}") from error
    return {name: getattr(known, name) for name in known.__all__}


def _evaluate(expression: str, words: str, case: Case, **more: Any) -> Any:
    known = {**_NAMES, **_words(words), "args": case.args, "case": case.facts, **more}
    return eval(_compiled(expression), known)


def _plain(text: str) -> str:
    return " ".join(text.split())
