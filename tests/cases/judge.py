"""One case, judged: same, different on purpose, later, noted or failing."""

import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from toolcrib.define.errors import CribError

from . import MODULES
from .load import HERE, Case, Folders, load, load_own
from .outcome import (
    Absent,
    Adapter,
    Form,
    Outcome,
    Refusal,
    Refused,
    SaidError,
    Same,
    Theirs,
    answer_in,
    as_it_is,
    compare,
    fits,
)
from .rows import Difference, Later, Rows, complaint, ours, problems, read_rows
from .vocabulary import find_unknown

WORK_SECONDS = 60.0  # of a processor, for what takes ten at most
CASE_SECONDS = 600.0  # by the clock, for what waits: on a busy machine a minute of work takes many
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
    uncalled: Mapping[str, int]  # how many cases prove a function that nothing calls

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
            more = {name.lower(): getattr(module, name, {}).get(case.fn) for name in ("SAME", "THEIRS", "FORM")}
            return recorded(module.ADAPTERS[case.fn], **{name: each for name, each in more.items() if each})
    return None


def recorded(
    answer: Callable[[dict[str, Any]], Any],
    same: Same | None = None,
    theirs: Theirs = answer_in,
    form: Form = as_it_is,
) -> Adapter:
    """Make an adapter of a function that answers in the recorded shape or raises one of our errors."""

    def adapter(case: Case) -> Outcome:
        try:
            seen = answer(case.args)
        except CribError as error:
            if _is_ours_alone(error):
                return Outcome(ok=False, seen=Absent(str(error)), why=f"the adapter alone refuses it: {error}")
            seen = Refused(str(error))
        except SaidError as words:
            seen = Refused(str(words))
        why = same(case, seen) if same else compare(case, seen, theirs, form)
        return Outcome(ok=not why, seen=seen, why=why, theirs=lambda: theirs(case), form=form)

    return adapter


def _is_ours_alone(error: BaseException) -> bool:
    """Tell whether an error was raised by an adapter, and not by what it is there to try."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and Path(trace.tb_frame.f_code.co_filename).is_relative_to(HERE.parent)


class _TimeIsUp(BaseException):
    """Not an Exception: what is judged may catch those."""


@contextmanager
def _time_limit(seconds: float, work: float) -> Iterator[None]:
    """Raise where the main thread stands when the time is up, and again each second, whoever swallows it.

    The time is up after so much work of a processor, which others on the machine cannot take from a case; and after
    so many seconds by the clock, for what only waits.
    """
    began, worked = time.monotonic(), _worked()

    def stop(*_: Any) -> None:
        if time.monotonic() - began >= seconds or _worked() - worked >= work:
            raise _TimeIsUp

    beat = min(seconds, work, 1.0)
    handler, timer = signal.signal(signal.SIGALRM, stop), signal.setitimer(signal.ITIMER_REAL, beat, beat)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _worked() -> float:
    """Return the seconds of a processor that this process and the children it saw end have used."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def judge(
    case: Case, rows: Rows, find: Find = find_adapter, seconds: float = CASE_SECONDS, work: float = WORK_SECONDS
) -> Finding:
    """Run one case and say what became of it; one that demands what is not so must be found out."""
    finding = _judge(case, rows, find, (seconds, work))
    if not case.fails:
        return finding
    if finding.verdict == "failing" and case.fails in finding.why:
        return replace(finding, verdict="same", why="")
    why = f"it was to be found out ({case.fails}), and is {finding.verdict}: {finding.why}"
    return replace(finding, verdict="failing", why=why)


def _judge(case: Case, rows: Rows, find: Find, limits: tuple[float, float]) -> Finding:
    if flaw := case.flaw or find_unknown(case):
        return Finding(case, "failing", flaw)
    adapter = find(case)
    if adapter is None:
        promise = rows.promise(case)
        verdict: Verdict = "later" if promise else "failing"
        return Finding(
            case, verdict, f"{case.file} {case.fn} has neither an adapter nor a row in later.toml", row=promise
        )
    try:
        with _time_limit(*limits):
            outcome = adapter(case)
    except _TimeIsUp:
        return Finding(case, "failing", f"it was not done after {limits[0]:g} s, or {limits[1]:g} s of work")
    except Exception as error:  # noqa: BLE001  a crash is one failing case, not the end of the run
        return Finding(case, "failing", f"crashed: {type(error).__name__}: {error}")
    try:
        differences = [] if outcome.later else rows.differences_in(case)
    except Exception as error:  # noqa: BLE001  a row that cannot be evaluated is one failing case
        return Finding(case, "failing", f"`when` of a row cannot be evaluated: {error!r}", outcome.seen)
    if differences:
        return _by_rows(case, outcome, differences)
    if outcome.ok and case.is_noted and not rows.is_agreed(case, outcome.seen):
        return Finding(case, "failing", "the recording says that a better system differs, and we do not", outcome.seen)
    if outcome.ok:
        return Finding(case, "same", seen=outcome.seen)
    # an attack on what is built is no promise any more, whatever a row says of its kind
    promise = rows.promise(case) if outcome.later or not case.file.startswith("attacks/") else None
    verdict = "later" if promise else "noted" if case.is_noted else "failing"
    return Finding(case, verdict, outcome.why, outcome.seen, promise)


def run(cases: Sequence[Case], rows: Rows, folders: Folders, find: Find = find_adapter) -> Run:
    """Judge every case and the rows; side by side in processes of their own when there are many, for most only wait."""
    measured = load(folders) if folders.known is None else load(folders.known)
    if find is not find_adapter or len(cases) < _MANY:
        findings = [judge(case, rows, find) for case in cases]
    else:
        findings = _side_by_side(cases, rows)
    uncalled = Counter(name for case in cases if (name := rows.uncalled_by(case)))
    return Run(findings, problems(rows, measured, folders.documents), dict(sorted(uncalled.items())))


def _side_by_side(cases: Sequence[Case], rows: Rows) -> list[Finding]:
    # what is measured by the clock goes one after another and first; the others share what is left of the machine
    timed = [at for at, case in enumerate(cases) if case.file == _TIMED]
    others = [at for at, case in enumerate(cases) if case.file != _TIMED]
    chunks = [timed, *[others[at : at + _CHUNK] for at in range(0, len(others), _CHUNK)]]
    with ProcessPoolExecutor(
        min((os.cpu_count() or 1) * 3 // 2 + 1, _WORKERS), initializer=_keep, initargs=(rows,)
    ) as pool:
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
    own = load_own() if folders.has_own else []
    return [*load(folders), *own], read_rows(folders.rows)


def _by_rows(case: Case, outcome: Outcome, rows: Sequence[Difference]) -> Finding:
    row, seen, form = rows[0], outcome.seen, outcome.form
    answer = seen if isinstance(seen, Refused | Absent) else form(seen)
    try:
        if row.but:
            is_refused_alike = outcome.ok and isinstance(seen, Refused)
            theirs = form(outcome.theirs())
            wrong = "" if is_refused_alike else complaint(rows, case, theirs, answer, is_same=outcome.ok)
        else:
            asserted = ours(row, case, outcome.theirs())
            formed = asserted if isinstance(asserted, Refusal) else form(asserted)
            wrong = "" if fits(answer, formed) else f"the row says that ours is {asserted!r}"
    except Exception as error:  # noqa: BLE001  a row that cannot be evaluated is one failing case
        wrong = f"the row cannot be evaluated: {error!r}"
    if wrong:
        return Finding(case, "failing", wrong, seen, row)
    return Finding(case, "same" if outcome.ok else "different", "; ".join(each.because for each in rows), seen, row)


@cache
def _modules(file: str) -> tuple[Any, ...]:
    return tuple(import_module(name) for name in MODULES.get(file, ()) if find_spec(name))


def _attack(judge_attack: Callable[[Mapping[str, Any], Mapping[str, Any]], Outcome]) -> Adapter:
    return lambda case: judge_attack(case.body, case.profiles)
