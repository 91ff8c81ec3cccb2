"""The approved answers, `answers/<file>.json`: what we answer where it is not what was recorded, a line for each case.

Cases that differ for one reason stand together under it, and a reason begins with the guarantee that asks for it. `row`
is a digest of the recorded row: an answer is approved for that row and for no other of its id.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any

from .load import BadInputError, Case
from .outcome import Absent, Outcome, Refused

Answer = Mapping[
    str, Any
]  # {"ours": value}, {"error": sentence} or, where we have nothing of the kind, {"absent": sentence}

NOTED = "the recording says that a better system differs"
_REASON = re.compile(r"G([1-9]|[12][0-9]|3[0-7]): \S.*")
_WIDTH = 160  # of a line of a difference


@dataclass(frozen=True, slots=True)
class Approved:
    """Our answer to one recorded row, and why it is another than the recorded one."""

    row: str
    answer: Answer
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """Every approved answer, by the file and the id of its case."""

    approved: Mapping[tuple[str, str], Approved]

    def of(self, case: Case) -> Approved | None:
        """Return what was approved for exactly this row."""
        found = self.approved.get((case.file, case.id))
        return found if found and found.row == case.digest else None

    def without_case(self, cases: Iterable[Case]) -> list[tuple[str, str]]:
        """Return what was approved for rows that are not there."""
        rows = {(case.file, case.id) for case in cases}
        return [key for key in self.approved if key not in rows]


def answer_of(outcome: Outcome) -> Answer:
    """Return our answer as JSON, the same on every machine and in every run."""
    seen = outcome.seen
    if isinstance(seen, Refused):
        return _steady({"error": seen.message})
    if isinstance(seen, Absent):
        return _steady({"absent": seen.message})
    return _steady({"ours": outcome.form(seen)})


def _steady(answer: Answer) -> Answer:
    """Give what is drawn by lot in an answer, the ids of marks around outside text, names in their order."""
    text = json.dumps(answer)
    for at, mark in enumerate(dict.fromkeys(re.findall(r"EXTERNAL_UNTRUSTED_CONTENT id=\\\"([0-9a-f]{16})", text))):
        text = text.replace(mark, f"<mark{at}>")
    steady: Answer = json.loads(text)
    return steady


def is_equal(one: Answer, other: Answer) -> bool:
    """Tell whether two answers are written the same: true is not 1, and the order of keys says nothing."""
    return _line(one) == _line(other)


def read_answers(folder: Path) -> Answers:
    """Read every approved answer; raise BadInputError at the first that is none."""
    found: dict[tuple[str, str], Approved] = {}
    for path in sorted((folder / "answers").glob("*.json")):
        try:
            for group in json.loads(path.read_bytes()):
                because = tuple(map(check_reason, group["because"]))
                for id_, answer in group["answers"].items():
                    if (path.stem, id_) in found:
                        raise ValueError(f"{id_} stands there twice")
                    found[path.stem, id_] = Approved(answer.pop("row"), answer, because)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BadInputError(f"{path} holds no approved answers: {error!r}") from error
    return Answers(found)


def check_reason(reason: str) -> str:
    """Return a reason; raise ValueError where it names no guarantee or says nothing."""
    if reason != NOTED and not _REASON.fullmatch(reason):
        raise ValueError(f"a reason is `G2: one sentence`, not {reason!r}")
    return reason


def write_answers(answers: Answers, folder: Path) -> None:
    """Write every approved answer where it was read; the same answers are the same bytes."""
    files: dict[str, dict[tuple[str, ...], dict[str, Approved]]] = {}
    for (file, id_), each in sorted(answers.approved.items()):
        files.setdefault(file, {}).setdefault(each.because, {})[id_] = each
    (folder / "answers").mkdir(exist_ok=True)
    for path in (folder / "answers").glob("*.json"):
        if path.stem not in files:
            path.unlink()
    for file, groups in files.items():
        (folder / "answers" / f"{file}.json").write_text("\n".join(_written(groups)) + "\n")


def _written(groups: Mapping[tuple[str, ...], Mapping[str, Approved]]) -> Iterator[str]:
    yield "["
    for at, (because, answers) in enumerate(sorted(groups.items()), 1):
        yield f'{{"because": {json.dumps(because)}, "answers": {{'
        lines = [f"  {json.dumps(id_)}: {_line({'row': each.row, **each.answer})}" for id_, each in answers.items()]
        yield ",\n".join(lines)
        yield "}}," if at < len(groups) else "}}"
    yield "]"


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def diff(was: Answer, now: Answer) -> Iterator[str]:
    """Yield the lines in which two answers differ, in ASCII; nothing of a difference is cut."""
    lines = unified_diff(_lines_of(was), _lines_of(now), n=1, lineterm="")
    return (line for line in islice(lines, 2, None) if not line.startswith("@@"))


def _lines_of(answer: Answer) -> list[str]:
    text = json.dumps(answer, indent=1, sort_keys=True, default=repr).replace("\\n", "\\n\n")
    return [line[at : at + _WIDTH] for line in text.splitlines() for at in range(0, len(line), _WIDTH)]
