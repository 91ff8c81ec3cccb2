"""codebase_investigator: finds out where things are in a code base and how they work, by reading it."""

from typing import Annotated

from pydantic import Field

from toolcrib import Agent
from toolcrib.lazy import dataclass, field

_PROMPT = """\
You read code to answer a question about it. You change nothing and you run nothing.

How to go about it:
1. Start wide. Search for the words of the question and for the names they could have in code: whole words first,
   then parts of them, then other spellings. Look at the folders before you guess at paths.
2. Go deep where it counts. Open a file at the lines that matched, read what is around them, and follow what it calls
   and who calls it until you could explain it to somebody else.
3. Check yourself. A definition is not a use, and a test or a document is not the code. Report no line that you have
   not read.

Look into ${max_files} files at the most. Stop earlier when the question is answered; say what is still open when it is
not.

Then call complete_task once. `summary` answers the question in a few sentences that can be read alone. `locations`
names the places that carry the answer, the most important first, each with a path as the tools gave it, a line, and why
it matters. `trace` is what you searched and read, one step each, in order, dead ends included."""


@dataclass(frozen=True, slots=True)
class InvestigatorBrief:
    """What it is asked."""

    objective: Annotated[str, "the question, and what you know"]
    max_files: Annotated[int, "files to look into at most", Field(ge=1, le=200)] = 20


@dataclass(frozen=True, slots=True)
class Location:
    """A place that carries the answer."""

    path: Annotated[str, "path of the file"]
    line: Annotated[int, "line, counted from 1", Field(ge=1)]
    why: Annotated[str, "what stands there and why it matters"]


@dataclass(frozen=True, slots=True)
class InvestigatorReport:
    """What it found."""

    summary: Annotated[str, "the answer, in a few sentences"]
    locations: Annotated[list[Location], "the places that carry it, the most important first"] = field(
        default_factory=list
    )
    trace: Annotated[list[str], "what was searched and read, step by step"] = field(default_factory=list)


def _markdown(report: InvestigatorReport) -> str:
    parts = [report.summary]
    if report.locations:
        parts.append("\n".join(f"- `{each.path}:{each.line}` {each.why}" for each in report.locations))
    if report.trace:
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(report.trace, 1))
        parts.append(f"How it was found:\n\n{steps}")
    return "\n\n".join(parts)


codebase_investigator = Agent(
    name="codebase_investigator",
    label="Codebase Investigator",
    description=(
        "Another agent that answers a hard question about a large code base from many files: a summary and the places. "
        "It only reads."
    ),
    prompt=_PROMPT,
    query="${objective}",
    inputs=InvestigatorBrief,
    output=InvestigatorReport,
    output_name="report",
    render=_markdown,
    tools=("read", "grep", "find", "ls"),
    max_turns=40,
)
