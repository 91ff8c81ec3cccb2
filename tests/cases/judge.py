"""One case, judged: same, different on purpose, later, noted, new or failing."""

import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from toolcrib.define.errors import CribError

from . import MODULES
from .answers import NOTED, Answer, Answers, Approved, answer_of, is_equal, read_answers
from .load import HERE, Case, Folders, load, load_own
from .outcome import (
    Absent,
    Adapter,
    Form,
    Outcome,
    Refused,
    SaidError,
    Same,
    Theirs,
    UnknownWordError,
    answer_in,
    as_it_is,
    compare,
)
from .rows import Rows, read_rows
from .vocabulary import find_unknown
from .workers import in_processes

WORK_SECONDS = 60.0  # of a processor, for what takes ten at most
CASE_SECONDS = 600.0  # by the clock, for what waits: on a busy machine a minute of work takes many
PROCESSES = min((os.cpu_count() or 1) * 3 // 2 + 1, 4)
_MANY, _CHUNK = 200, 10
# what is measured by the clock goes one after another; and what shares a process with an internet starts one
_IN_A_ROW = ("attacks/resources", "attacks/ssrf")

Verdict = Literal["same", "different", "later", "noted", "new", "failing"]
Settling = Literal["", "approve", "drop"]
Find = Callable[[Case], Adapter | None]


@dataclass(frozen=True, slots=True)
class Known:
    """What cases are judged by: the approved answers, and the lists of what is later and what nothing calls."""

    answers: Answers = field(default_factory=lambda: Answers({}))
    rows: Rows = field(default_factory=Rows)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one case: our answer, what was recorded in its shape, and the answer that was approved.

    `settled_by` says what `--approve` does about it: approve our answer, or drop one where ours is as recorded.
    """

    case: Case
    verdict: Verdict
    why: str = ""
    ours: Answer | None = None
    theirs: Any = None
    approved: Approved | None = None
    settled_by: Settling = ""


@dataclass(frozen=True, slots=True)
class Run:
    """Every finding, the approved answers that no case asks for, and how many cases prove what nothing calls."""

    findings: Sequence[Finding]
    without_case: Sequence[tuple[str, str]]
    uncalled: Mapping[str, int]

    @property
    def is_good(self) -> bool:
        """Whether every case came out as recorded, or as somebody approved."""
        return not self.without_case and not any(each.verdict in ("new", "failing") for each in self.findings)


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
    case: Case, known: Known, find: Find = find_adapter, seconds: float = CASE_SECONDS, work: float = WORK_SECONDS
) -> Finding:
    """Run one case and say what became of it; one that demands what is not so must be found out."""
    finding = _judge(case, known, find, (seconds, work))
    if not case.fails:
        return finding
    if finding.verdict in ("new", "failing") and case.fails in finding.why:
        return Finding(case, "same")
    why = f"it was to be found out ({case.fails}), and is {finding.verdict}: {finding.why}"
    return replace(finding, verdict="failing", why=why, settled_by="")


def _judge(case: Case, known: Known, find: Find, limits: tuple[float, float]) -> Finding:
    if flaw := case.flaw or find_unknown(case):
        return Finding(case, "failing", flaw)
    adapter, is_later = find(case), known.rows.promise(case) is not None
    if adapter is None:
        why = f"{case.file} {case.fn} has neither an adapter nor a row in later.toml"
        return Finding(case, "later" if is_later else "failing", why)
    try:
        with _time_limit(*limits):
            outcome = adapter(case)
    except _TimeIsUp:
        return Finding(case, "failing", f"it was not done after {limits[0]:g} s, or {limits[1]:g} s of work")
    except UnknownWordError as words:
        return Finding(case, "failing", f"unknown word: {words}")
    except Exception as error:  # noqa: BLE001  a crash is one failing case, not the end of the run
        return Finding(case, "failing", f"crashed: {type(error).__name__}: {error}")
    if case.file.startswith("attacks/"):
        return _by_demand(case, outcome, is_later=is_later)
    approved = known.answers.of(case)
    if not outcome.ok and approved is None and is_later:
        return Finding(case, "later", outcome.why)
    try:
        ours, theirs = answer_of(outcome), None if outcome.ok else recorded_answer(case, outcome)
    except Exception as error:  # noqa: BLE001  an answer in no shape is one failing case
        return Finding(case, "failing", f"our answer cannot be told: {type(error).__name__}: {error}")
    verdict, why, settled_by = _by_answer(case, outcome, ours, approved)
    return Finding(case, verdict, why, ours, theirs, approved, settled_by)


def _by_demand(case: Case, outcome: Outcome, *, is_later: bool) -> Finding:
    """Say what became of an attack: nobody can approve that it comes out otherwise than it must."""
    if outcome.ok:
        return Finding(case, "same")
    verdict: Verdict = "later" if outcome.later and is_later else "noted" if case.is_noted else "failing"
    return Finding(case, verdict, outcome.why, {"ours": repr(outcome.seen)})


def _by_answer(case: Case, outcome: Outcome, ours: Answer, approved: Approved | None) -> tuple[Verdict, str, Settling]:
    """Return the verdict on a recorded case, why, and what approving does about it."""
    if outcome.ok and not case.is_noted:
        gone = "it is as recorded, and another answer is approved"
        return ("failing", gone, "drop") if approved else ("same", "", "")
    if approved and not is_equal(ours, approved.answer):
        return "failing", "ours is not the approved answer", "approve"
    if approved:
        verdict: Verdict = "same" if outcome.ok else "noted" if approved.because == (NOTED,) else "different"
        return verdict, "; ".join(approved.because), ""
    if outcome.ok:
        return "new", "the recording says that a better system differs, and we do not", "approve"
    return "noted" if case.is_noted else "new", outcome.why, "approve"


def run(cases: Sequence[Case], known: Known, find: Find = find_adapter, processes: int = PROCESSES) -> Run:
    """Judge every case; side by side in processes of their own when there are many, for most only wait."""
    if len(cases) < _MANY:
        findings = [judge(case, known, find) for case in cases]
    else:
        findings = side_by_side(cases, lambda case: judge(case, known, find), processes)
    uncalled = Counter(name for case in cases if (name := known.rows.uncalled_by(case)))
    return Run(findings, [], dict(sorted(uncalled.items())))


def side_by_side(cases: Sequence[Case], look: Callable[[Case], Finding], processes: int) -> list[Finding]:
    """Judge cases in processes; one that ends its process fails, and no other."""
    others = [at for at, case in enumerate(cases) if case.file not in _IN_A_ROW]
    others.sort(key=lambda at: not cases[at].file.startswith("attacks/"))  # what takes long is not left to the end
    chunks = [[at for at, case in enumerate(cases) if case.file == file] for file in _IN_A_ROW]
    chunks += [others[at : at + _CHUNK] for at in range(0, len(others), _CHUNK)]
    for file in {case.file for case in cases}:
        _modules(file)  # imported once, and there in every process

    def dead(at: int, status: int | None) -> Finding:
        return Finding(cases[at], "failing", f"the process that ran it ended with {status}")

    found = in_processes(lambda at: look(cases[at]), list(filter(None, chunks)), processes, dead)
    return [found[at] for at in range(len(cases))]


def read(folders: Folders) -> tuple[list[Case], Known]:
    """Read the cases of a run, and what they are judged by."""
    own = load_own() if folders.has_own else []
    return [*load(folders), *own], Known(read_answers(folders.answers), read_rows(folders.answers))


def recorded_answer(case: Case, outcome: Outcome) -> Any:
    """Return what was recorded in the shape of our answer; an error as it stands there."""
    expected = case.expected
    if isinstance(expected, Mapping) and expected.get("ok") is False:
        return expected
    return outcome.form(outcome.theirs())


@cache
def _modules(file: str) -> tuple[Any, ...]:
    return tuple(import_module(name) for name in MODULES.get(file, ()) if find_spec(name))


def _attack(judge_attack: Callable[[Mapping[str, Any], Mapping[str, Any]], Outcome]) -> Adapter:
    return lambda case: judge_attack(case.body, case.profiles)
