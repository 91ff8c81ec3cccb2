"""A run as a table with what failed, or as JSON. All of it is ASCII: some cases hold lone surrogates."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from .judge import Finding, Run, Verdict
from .outcome import Absent, Refused

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_WIDTH = 400


def lines(run: Run, *, verbose: bool = False) -> Iterator[str]:
    """Give the report line by line: the table, the reasons when asked for, the failures."""
    counts = _counts(run.findings)
    width = max(map(len, [*counts, "file"]))
    yield f"{'file':{width}}  {'same':>6} {'different on purpose':>21} {'later':>6} {'noted':>6} {'failing':>8}"
    for file, count in [*counts.items(), ("all", _counts(run.findings, lambda _: "all").get("all", {}))]:
        same, different, later, noted, failing = (count.get(verdict, 0) for verdict in VERDICTS)
        yield f"{file:{width}}  {same:>6} {different:>21} {later:>6} {noted:>6} {failing:>8}"
    if run.uncalled:
        yield f"of these, {sum(run.uncalled.values())} prove functions that nothing calls: {', '.join(run.uncalled)}"
    if verbose:
        for finding in run.findings:
            if finding.verdict in ("different", "noted"):
                yield f"{finding.verdict}: {finding.case}: {ascii_text(finding.why)}"
    for problem in run.problems:
        yield f"wrong row: {ascii_text(problem)}"
    for finding in run.failing:
        yield from describe(finding)


def describe(finding: Finding) -> list[str]:
    """Say everything about one failing case."""
    case = finding.case
    return [
        f"failing: {case}: {ascii_text(finding.why)}",
        f"  args      {shorten(case.args)}",
        f"  expected  {shorten(case.expected)}",
        f"  ours      {shorten(finding.seen)}",
    ]


def document(run: Run) -> str:
    """Return the run as one JSON document."""
    return json.dumps(
        {
            "files": _counts(run.findings),
            "problems": list(run.problems),
            "uncalled": run.uncalled,
            "failing": [_entry(finding) for finding in run.failing],
            "different": [_entry(finding) for finding in run.findings if finding.verdict == "different"],
        },
        indent=2,
    )


def shorten(value: Any) -> str:
    """Write a value in ASCII on one line of bounded length."""
    is_error = isinstance(value, Refused | Absent)
    text = ascii_text(f"error: {value.message}") if is_error else json.dumps(value, default=repr)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


def ascii_text(text: str) -> str:
    """Return `text` with everything outside ASCII escaped."""
    return text.encode("ascii", "backslashreplace").decode()


def _entry(finding: Finding) -> dict[str, str]:
    return {"case": str(finding.case), "why": finding.why, "ours": shorten(finding.seen)}


def _counts(findings: Sequence[Finding], key: Any = lambda finding: finding.case.file) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for finding in findings:
        count = counts.setdefault(key(finding), dict.fromkeys(VERDICTS, 0))
        count[finding.verdict] += 1
    return counts
