"""`./check cases --approve`: our answers of a run become the approved ones, and all that changes is told."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from .answers import NOTED, Answers, Approved, diff, write_answers
from .judge import Finding
from .milder import is_milder
from .report import ascii_text

Key = tuple[str, str]


class Approval:
    """The approved answers, changed by the findings of a run."""

    def __init__(self, answers: Answers, reason: str) -> None:
        self._answers = dict(answers.approved)
        self._reason = reason
        self.changed = 0
        self.left = 0  # what is wrong and stays so

    def take(self, findings: Sequence[Finding], without_case: Sequence[Key]) -> Iterator[str]:
        """Approve what can be; yield a line for everything that changes, and for everything that cannot."""
        for file, id_ in without_case:
            del self._answers[file, id_]
            self.changed += 1
            yield f"dropped: {file}:{id_}: there is no such case"
        for finding in findings:
            if finding.settled_by:
                yield from map(ascii_text, self._settle(finding))
            elif finding.verdict in ("new", "failing"):
                self.left += 1
                yield f"not approved: {finding.case}: {ascii_text(finding.why)}"

    def _settle(self, finding: Finding) -> Iterator[str]:
        case, was = finding.case, self._answers.get((finding.case.file, finding.case.id))
        because = was.because if was else self._reason_for(finding)
        if finding.settled_by == "drop":
            del self._answers[case.file, case.id]
            yield f"dropped: {case}: it is as recorded now"
        elif because and finding.ours is not None:
            self._answers[case.file, case.id] = Approved(case.digest, finding.ours, because)
            how = "approved, MILDER than recorded" if is_milder(finding) else "approved"
            yield f"{how}: {case}: {'; '.join(because)}"
            yield from (f"  {line}" for line in diff(was.answer if was else {}, finding.ours))
        else:
            self.left += 1
            yield f"not approved: {case}: say why with --because 'G2: one sentence'"
            return
        self.changed += 1

    def _reason_for(self, finding: Finding) -> tuple[str, ...]:
        if finding.verdict == "noted":
            return (NOTED,)
        return (self._reason,) if self._reason else ()

    def write(self, folder: Path) -> None:
        """Write the answers back."""
        write_answers(Answers(self._answers), folder)
