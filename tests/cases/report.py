"""A run as a table with what has to be looked at, or as JSON. All of it is ASCII: some cases hold lone surrogates."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from .answers import diff
from .judge import Finding, Run, Verdict
from .milder import is_milder

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_HEADS = ("same", "different on purpose", "later", "noted", "new", "failing")
_WIDTH = 400


def lines(run: Run, *, verbose: bool = False) -> Iterator[str]:
    """Give the report line by line: the table, what is milder than recorded, what is new, what fails."""
    counts = _counts(run.findings)
    width = max(map(len, [*counts, "file"]))
    yield f"{'file':{width}}  {'  '.join(f'{head:>6}' for head in _HEADS)}"
    for file, count in [*counts.items(), ("all", _counts(run.findings, lambda _: "all").get("all", {}))]:
        cells = (
            f"{count.get(verdict, 0):>{max(6, len(head))}}" for verdict, head in zip(VERDICTS, _HEADS, strict=True)
        )
        yield f"{file:{width}}  {'  '.join(cells)}"
    if run.uncalled:
        yield f"of these, {sum(run.uncalled.values())} prove functions that nothing calls: {', '.join(run.uncalled)}"
    milder = list(filter(is_milder, run.findings))
    if milder:
        yield f"{len(milder)} are milder than recorded:"
        yield from (f"milder: {finding.case}: {ascii_text(finding.why)}" for finding in milder)
    if verbose:
        for finding in run.findings:
            if finding.verdict in ("different", "noted"):
                yield f"{finding.verdict}: {finding.case}: {ascii_text(finding.why)}"
    for file, id_ in run.without_case:
        yield f"failing: an answer is approved for {file}:{id_}, and there is no such case"
    for finding in run.findings:
        if finding.verdict in ("new", "failing"):
            yield from describe(finding)


def describe(finding: Finding) -> list[str]:
    """Say everything about one case that somebody has to look at."""
    case = finding.case
    told = [
        f"{finding.verdict}: {case}: {ascii_text(finding.why)}",
        f"  args      {shorten(case.args)}",
        f"  expected  {shorten(case.expected)}",
        f"  ours      {shorten(finding.ours)}",
    ]
    was = finding.approved.answer if finding.approved else {"ours": finding.theirs} if finding.theirs else None
    if was and finding.ours:
        told += [f"  {line}" for line in diff(was, finding.ours)]
    return told


def document(run: Run) -> str:
    """Return the run as one JSON document."""
    listed = {
        verdict: [_entry(finding) for finding in run.findings if finding.verdict == verdict]
        for verdict in ("failing", "new", "different")
    }
    milder = [str(finding.case) for finding in run.findings if is_milder(finding)]
    problems = [f"{file}:{id_} is approved and no case" for file, id_ in run.without_case]
    counts = _counts(run.findings)
    return json.dumps(
        {"files": counts, "problems": problems, "uncalled": run.uncalled, "milder": milder, **listed}, indent=2
    )


def shorten(value: Any) -> str:
    """Write a value in ASCII on one line of bounded length."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


def ascii_text(text: str) -> str:
    """Return `text` with everything outside ASCII escaped."""
    return text.encode("ascii", "backslashreplace").decode()


def _entry(finding: Finding) -> dict[str, str]:
    case = finding.case
    return {
        "case": str(case),
        "why": finding.why,
        "expected": shorten(case.expected),
        "ours": shorten(finding.ours),
    }


def _counts(findings: Sequence[Finding], key: Any = lambda finding: finding.case.file) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for finding in findings:
        count = counts.setdefault(key(finding), dict.fromkeys(VERDICTS, 0))
        count[finding.verdict] += 1
    return counts
