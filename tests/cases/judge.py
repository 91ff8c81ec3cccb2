"""One case, judged: same, different on purpose, later, noted or failing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from toolcrib.define.errors import CribError

from . import MODULES
from .load import Case, Folders, load
from .outcome import Adapter, Outcome, Refused, Same, compare, fits
from .rows import Difference, Later, Rows, ours, problems, read_rows

Verdict = Literal["same", "different", "later", "noted", "failing"]
Find = Callable[[Case], Adapter | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one case, with the row that explains it."""

    case: Case
    verdict: Verdict
    why: str = ""
    seen: Any = None
    row: Difference | Later | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Every finding, and what is wrong with the rows themselves."""

    findings: Sequence[Finding]
    problems: Sequence[str]

    @property
    def failing(self) -> list[Finding]:
        """The findings that must not be."""
        return [finding for finding in self.findings if finding.verdict == "failing"]


def find_adapter(case: Case) -> Adapter | None:
    """Return the adapter of a case from the modules of its file, or None when nobody wrote one."""
    if case.file.startswith("attacks/"):
        return next((_attack(module.judge) for module in _modules(case.file)), None)
    for module in _modules(case.file):
        if case.fn in module.ADAPTERS:
            return recorded(module.ADAPTERS[case.fn], getattr(module, "SAME", {}).get(case.fn, compare))
    return None


def recorded(answer: Callable[[dict[str, Any]], Any], same: Same = compare) -> Adapter:
    """Make an adapter of a function that answers in the recorded shape or raises one of our errors."""

    def adapter(case: Case) -> Outcome:
        try:
            seen = answer(case.args)
        except CribError as error:
            seen = Refused(str(error))
        why = same(case, seen)
        return Outcome(ok=not why, seen=seen, why=why)

    return adapter


def judge(case: Case, rows: Rows, find: Find = find_adapter) -> Finding:
    """Run one case and say what became of it."""
    adapter = find(case)
    if adapter is None:
        promise = rows.promise(case)
        verdict: Verdict = "later" if promise else "failing"
        return Finding(
            case, verdict, f"{case.file} {case.fn} has neither an adapter nor a row in later.toml", row=promise
        )
    try:
        outcome = adapter(case)
    except Exception as error:  # noqa: BLE001  a crash is one failing case, not the end of the run
        return Finding(case, "failing", f"crashed: {type(error).__name__}: {error}")
    difference = None if outcome.later else rows.difference(case)
    if difference is not None:
        return _by_row(case, outcome, difference)
    if outcome.ok:
        return Finding(case, "same", seen=outcome.seen)
    promise = rows.promise(case)
    verdict = "later" if promise else "noted" if case.is_noted else "failing"
    return Finding(case, verdict, outcome.why, outcome.seen, promise)


def run(cases: Sequence[Case], rows: Rows, folders: Folders, find: Find = find_adapter) -> Run:
    """Judge every case and the rows."""
    return Run([judge(case, rows, find) for case in cases], problems(rows, cases, folders.documents))


def read(folders: Folders) -> tuple[list[Case], Rows]:
    """Read the cases and the rows of a run."""
    return load(folders), read_rows(folders.rows)


def _by_row(case: Case, outcome: Outcome, row: Difference) -> Finding:
    try:
        asserted = ours(row, case)
    except Exception as error:  # noqa: BLE001  a row that cannot be evaluated is one failing case
        return Finding(case, "failing", f"`ours` of the row cannot be evaluated: {error!r}", outcome.seen, row)
    if not fits(outcome.seen, asserted):
        return Finding(case, "failing", f"the row says that ours is {asserted!r}", outcome.seen, row)
    return Finding(case, "same" if outcome.ok else "different", row.because, outcome.seen, row)


@cache
def _modules(file: str) -> tuple[Any, ...]:
    return tuple(import_module(name) for name in MODULES.get(file, ()) if find_spec(name))


def _attack(judge_attack: Callable[[Mapping[str, Any], Mapping[str, Any]], Outcome]) -> Adapter:
    return lambda case: judge_attack(case.body, case.profiles)
