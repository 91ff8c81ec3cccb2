"""The rows of differences/*.toml and later.toml: where we differ on purpose, and what a later step builds.

A file of differences names the recorded `file` once, at its head, for all of its rows; and under `let` expressions that
its rows use by name. `when` is a Python expression over `args` and `case` (a case without its id, its note and what was
recorded): the behaviour that the row is about. What our answer is then, a row says in one of two ways:

    ours    the answer itself, or `error("word", ...)` for an error that mentions the words, or `nothing("word", ...)`
            where we have nothing of the kind and the adapter says so in those words
    but     the places in which ours may differ from `recorded`, such as `messages.*.content`; `*` is all of it
    holds   with `but`: an expression over `ours` and `recorded` besides, true of our real answer

Of several rows with `but` that are about one case each holds, and ours may differ in the places of all of them.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from .load import BadInputError, Case
from .outcome import Absent, Refusal, Refused, changes
from .schema_rules import schemas_in, told_as_one, told_plainly

DOCUMENTS = ("interfaces.md", "design.md", "guarantees.md")

_STEPS = (2, 3, 4, 5, 6, 7, "after 7")
_BUILTINS = (
    all,
    any,
    bool,
    dict,
    enumerate,
    float,
    int,
    isinstance,
    len,
    list,
    max,
    min,
    range,
    round,
    set,
    sorted,
    str,
)


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error as error:
        raise ValueError(f"{pattern!r} is no expression") from error


_NAMES: dict[str, Any] = {each.__name__: each for each in (*_BUILTINS, sum, tuple, zip)} | {
    "__builtins__": {},
    "as_json": lambda value: json.dumps(value, ensure_ascii=False),
    "error": lambda *words: Refusal(words),
    "nothing": lambda *words: Refusal(words, nothing=True),
    "find_all": re.findall,
    "matches": _matches,
    "schemas_in": schemas_in,
    "told_as_one": told_as_one,
    "told_plainly": told_plainly,
    "strictness": ("allow", "ask_user", "deny").index,
}
_Let = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """We answer differently, on purpose, and this is what we answer."""

    file: str
    fn: str | Sequence[str]
    when: str
    guarantee: str
    because: str
    ours: str = ""
    but: Sequence[str] = ()
    holds: str = ""
    sentence: str = ""
    let: _Let = field(default_factory=dict)

    def __str__(self) -> str:
        return f"differences: {self.file} {self.fn} ({self.because})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """A later step builds this; `step` is its number, or `after 7`."""

    file: str
    fn: Sequence[str]
    step: int | str
    because: str
    when: str = "True"
    let: _Let = field(default_factory=dict)

    def __str__(self) -> str:
        return f"later.toml: {self.file} {self.fn} (step {self.step})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """We answer as recorded although the recording doubts itself; `holds` says of our answer why that is right."""

    file: str
    fn: str
    holds: str
    because: str
    let: _Let = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncalled:
    """Recorded functions whose cases prove functions of ours (`define/session.py::to_peer_key`) that nothing calls."""

    file: str
    functions: Mapping[str, str]
    because: str
    let: _Let = field(default_factory=dict)


Row = TypeVar("Row", Difference, Later, Agreed, Uncalled)


@dataclass(frozen=True, slots=True)
class Rows:
    """Both tables."""

    differences: Sequence[Difference] = ()
    later: Sequence[Later] = ()
    agreed: Sequence[Agreed] = ()
    uncalled: Sequence[Uncalled] = ()

    def differences_in(self, case: Case) -> list[Difference]:
        """Return the rows that say how we differ in this case: the first, and if it names places all that do."""
        caught = [row for row in self.differences if catches(row, case)]
        return caught[:1] if caught and caught[0].ours else [row for row in caught if not row.ours]

    def is_agreed(self, case: Case, answer: Any) -> bool:
        """Tell whether a row says why we answer as a recording that doubts itself."""
        rows = (row for row in self.agreed if (row.file, row.fn) == (case.file, case.fn))
        return any(_evaluate(row.holds, row.let, case, ours=answer) for row in rows)

    def uncalled_by(self, case: Case) -> str:
        """Return the function that a case proves and nothing calls, "" where it proves one that is used."""
        return next(
            (row.functions[case.fn] for row in self.uncalled if row.file == case.file and case.fn in row.functions), ""
        )

    def promise(self, case: Case) -> Later | None:
        """Return the first row that leaves this case to a later step."""
        return next((row for row in self.later if catches(row, case)), None)


def read_rows(folder: Path) -> Rows:
    """Read both tables; raise BadInputError at the first row that is not one."""
    files = sorted((folder / "differences").glob("*.toml"))
    differences = [row for path in files for row in _table(path, "difference", Difference)]
    agreed, uncalled = folder / "agreed.toml", folder / "uncalled.toml"
    return Rows(
        differences,
        _table(folder / "later.toml", "later", Later),
        _table(agreed, "agreed", Agreed) if agreed.is_file() else (),
        _table(uncalled, "uncalled", Uncalled) if uncalled.is_file() else (),
    )


def catches(row: Difference | Later, case: Case) -> bool:
    """Tell whether a row is about this case."""
    if not _is_about(row, case):
        return False
    try:
        return bool(_evaluate(row.when, row.let, case))
    except (LookupError, TypeError, AttributeError, ValueError):
        return False  # the predicate speaks of arguments that this case does not have


def _is_about(row: Difference | Later, case: Case) -> bool:
    return row.file == case.file and (row.fn == "*" or case.fn in ([row.fn] if isinstance(row.fn, str) else row.fn))


def ours(row: Difference, case: Case, recorded: Any) -> Any:
    """Return what a row says that we answer."""
    return _evaluate(row.ours, row.let, case, recorded=recorded)


def complaint(rows: Sequence[Difference], case: Case, recorded: Any, answer: Any, *, is_same: bool) -> str:
    """Return how our answer is not what rows with `but` say of it, "" when it is; `is_same` has no other places."""
    if isinstance(answer, Refused | Absent):
        return f"ours is an error: {answer.message}"
    left = () if is_same else [at for at in changes(answer, recorded) if not any(_is_in(at, row.but) for row in rows)]
    if left:
        return f"ours differs besides in {', '.join(left)}"
    for row in rows:
        if row.holds and not _evaluate(row.holds, row.let, case, recorded=recorded, ours=answer):
            return f"it does not hold that {row.because}"
    return ""


def _is_in(place: str, patterns: Sequence[str]) -> bool:
    """Tell whether a place is one of these, or inside of one."""
    steps = place.split(".")
    return any(
        pattern == "*" or (all(map(fnmatchcase, steps, parts)) and len(steps) >= len(parts))
        for pattern in patterns
        for parts in [pattern.split(".")]
    )


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
        if row.sentence and not any(_plain(row.sentence) in text for text in texts):
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
        if _is_about(row, case):
            functions.setdefault(case.fn, []).append(case)
    return list(functions.items())


def _table(path: Path, name: str, kind: Callable[..., Row]) -> list[Row]:
    if not path.is_file():
        raise BadInputError(f"no file {str(path)!r} with rows")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInputError(f"{path} is not TOML: {error}") from error
    head = {key: content[key] for key in ("file", "let") if key in content}
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


def _check(row: Difference | Later | Agreed | Uncalled) -> None:
    if isinstance(row, Uncalled):
        return
    for expression in (row.holds if isinstance(row, Agreed) else row.when, *row.let.values()):
        _compiled(expression)
    if isinstance(row, Agreed):
        return
    if isinstance(row, Later):
        if not row.fn or isinstance(row.fn, str) or "*" in row.fn:
            raise ValueError("fn is a list of the functions, or classes of attacks, that are later")
        if row.step not in _STEPS:
            raise ValueError(f"step is one of {', '.join(map(str, _STEPS))}, not {row.step!r}")
        return
    if bool(row.ours) is bool(row.but):
        raise ValueError("a row has either `ours` or `but`")
    _compiled(row.ours or "None")
    _compiled(row.holds or "None")
    if not re.fullmatch(r"G([1-9]|[12][0-9]|3[0-3])", row.guarantee):
        raise ValueError(f"guarantee is G1 to G33, not {row.guarantee!r}")
    if not row.because:
        raise ValueError("because says in one sentence why we differ")


@cache
def _compiled(expression: str) -> CodeType:
    return compile(f"({expression}\n)", "<row>", "eval")


def _named(expression: str, let: _Let) -> list[str]:
    """Return what an expression uses of `let`, and what that uses, first what others need."""
    names = [name for name in let if name in _names_in(_compiled(expression))]
    return list(dict.fromkeys(each for name in names for each in (*_named(let[name], let), name)))


def _names_in(code: CodeType) -> set[str]:
    inside = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names_in, inside))


def _evaluate(expression: str, let: _Let, case: Case, **more: Any) -> Any:
    known = {**_NAMES, "args": case.args, "case": case.facts, **more}
    for name in _named(expression, let):
        known[name] = eval(_compiled(let[name]), known)
    return eval(_compiled(expression), known)


def _plain(text: str) -> str:
    return " ".join(text.split())
