"""One case, judged: same, different on purpose, later, noted or failing."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from toolcrib.define.errors import CribError

from . import MODULES
from .load import Case, Folders, load
from .outcome import Adapter, Alike, Outcome, Refused, Same, compare, fits
from .rows import Difference, Later, Rows, ours, problems, read_rows

_MANY, _CHUNK, _WORKERS = 200, 10, 4
_TIMED = "attacks/resources"
_kept: list[Rows] = []

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
            same, alike = (getattr(module, name, {}).get(case.fn) for name in ("SAME", "ALIKE"))
            return recorded(module.ADAPTERS[case.fn], same or compare, alike)
    return None


def recorded(answer: Callable[[dict[str, Any]], Any], same: Same = compare, alike: Alike | None = None) -> Adapter:
    """Make an adapter of a function that answers in the recorded shape or raises one of our errors."""

    def adapter(case: Case) -> Outcome:
        try:
            seen = answer(case.args)
        except CribError as error:
            seen = Refused(str(error))
        why = same(case, seen)
        return Outcome(ok=not why, seen=seen, why=why, alike=alike)

    return adapter


def judge(case: Case, rows: Rows, find: Find = find_adapter) -> Finding:
    """Run one case and say what became of it."""
    if case.flaw:
        return Finding(case, "failing", case.flaw)
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
    try:
        difference = None if outcome.later else rows.difference(case)
    except Exception as error:  # noqa: BLE001  a row that cannot be evaluated is one failing case
        return Finding(case, "failing", f"`when` of a row cannot be evaluated: {error!r}", outcome.seen)
    if difference is not None:
        return _by_row(case, outcome, difference)
    if outcome.ok:
        return Finding(case, "same", seen=outcome.seen)
    # an attack on what is built is no promise any more, whatever a row says of its kind
    promise = rows.promise(case) if outcome.later or not case.file.startswith("attacks/") else None
    verdict = "later" if promise else "noted" if case.is_noted else "failing"
    return Finding(case, verdict, outcome.why, outcome.seen, promise)


def run(cases: Sequence[Case], rows: Rows, folders: Folders, find: Find = find_adapter) -> Run:
    """Judge every case and the rows; side by side in processes of their own when there are many, for most only wait."""
    measured = cases if folders.known is None else load(folders.known)
    if find is not find_adapter or len(cases) < _MANY:
        findings = [judge(case, rows, find) for case in cases]
    else:
        findings = _side_by_side(cases, rows)
    return Run(findings, problems(rows, measured, folders.documents))


def _side_by_side(cases: Sequence[Case], rows: Rows) -> list[Finding]:
    # what is measured by the clock goes one after another and first; the others share what is left of the machine
    timed = [at for at, case in enumerate(cases) if case.file == _TIMED]
    others = [at for at, case in enumerate(cases) if case.file != _TIMED]
    chunks = [timed, *[others[at : at + _CHUNK] for at in range(0, len(others), _CHUNK)]]
    with ProcessPoolExecutor(min(max(os.cpu_count() or 1, 2), _WORKERS), initializer=_keep, initargs=(rows,)) as pool:
        judged = pool.map(_judge_all, [[cases[at] for at in chunk] for chunk in chunks])
        found = {
            at: each for chunk, told in zip(chunks, judged, strict=True) for at, each in zip(chunk, told, strict=True)
        }
    return [found[at] for at in range(len(cases))]


def _keep(rows: Rows) -> None:
    """Keep the rows in a process that judges many times by them."""
    _kept.append(rows)


def _judge_all(cases: Sequence[Case]) -> list[Finding]:
    return [judge(case, _kept[-1]) for case in cases]


def read(folders: Folders) -> tuple[list[Case], Rows]:
    """Read the cases and the rows of a run."""
    return load(folders), read_rows(folders.rows)


def _by_row(case: Case, outcome: Outcome, row: Difference) -> Finding:
    try:
        asserted = ours(row, case)
    except Exception as error:  # noqa: BLE001  a row that cannot be evaluated is one failing case
        return Finding(case, "failing", f"`ours` of the row cannot be evaluated: {error!r}", outcome.seen, row)
    alike = outcome.alike and not isinstance(outcome.seen, Refused) and outcome.alike(outcome.seen, asserted)
    if not alike and not fits(outcome.seen, asserted):
        return Finding(case, "failing", f"the row says that ours is {asserted!r}", outcome.seen, row)
    return Finding(case, "same" if outcome.ok else "different", row.because, outcome.seen, row)


@cache
def _modules(file: str) -> tuple[Any, ...]:
    return tuple(import_module(name) for name in MODULES.get(file, ()) if find_spec(name))


def _attack(judge_attack: Callable[[Mapping[str, Any], Mapping[str, Any]], Outcome]) -> Adapter:
    return lambda case: judge_attack(case.body, case.profiles)
