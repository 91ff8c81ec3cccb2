"""What is said about a file that was read: its text, or what can be told of it by rules."""

import re
from collections.abc import Sequence
from textwrap import fill

from toolcrib.backends.providers.offline.answers import MOST, Outcome, counted, fenced, listing, passage
from toolcrib.backends.providers.offline.digest import (
    dependencies,
    first_paragraph,
    first_remark,
    headings,
    measures,
    outline,
    version,
)
from toolcrib.backends.providers.offline.tasks import Read

__all__ = ["MANIFESTS", "viewed"]

_PROSE = frozenset({"md", "markdown", "rst", "txt", "text", "adoc", "org", "tex", "html", "htm"})
MANIFESTS = ("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "requirements.txt", "Gemfile")


def viewed(task: Read, path: str, outcome: Outcome) -> str:
    """Return what was asked about a file."""
    text = passage(outcome)
    part = "" if text.whole else " (of what was read; the file is longer)"
    match task.view:
        case "lines":
            total = text.total if text.total is not None else len(text.text.splitlines())
            return f"`{path}` has {counted(total, 'line')}."
        case "words" | "characters":
            return f"`{path}` has {measures(text.text)}{part}."
        case "headings":
            found = _titles(path, text.text) or outline(text.text)
            return (
                f"`{path}` has {counted(len(found), 'heading')}{part}:\n\n{_indented(found)}"
                if found
                else f"`{path}` has no headings{part}."
            )
        case "dependencies":
            return _depends(path, text.text)
        case "version":
            stated = version(text.text)
            return f"`{path}` says version {stated}." if stated else f"`{path}` states no version."
        case "summary":
            return _digest(path, text.text, part)
    return _quoted(task, path, outcome)


def _is_prose(path: str) -> bool:
    name = path.rpartition("/")[2]
    return "." not in name[1:] or name.rpartition(".")[2].lower() in _PROSE


def _titles(path: str, text: str) -> list[str]:
    """Return the headings of a text; in code, what looks like one is a remark."""
    return headings(text) if _is_prose(path) else []


def _indented(rows: Sequence[str]) -> str:
    shown = [f"{row[: len(row) - len(row.lstrip())]}- {row.strip()}" for row in rows[:MOST]]
    left = len(rows) - len(shown)
    return "\n".join([*shown, *([f"- ... and {left} more"] if left else [])])


def _depends(path: str, text: str) -> str:
    found = dependencies(path, text)
    if found is None:
        return f"I cannot tell dependencies from `{path}`; I know {', '.join(MANIFESTS)}."
    return (
        f"`{path}` names {counted(len(found), 'dependency')}:\n\n{listing(found)}"
        if found
        else f"`{path}` names no dependencies."
    )


def _digest(path: str, text: str, part: str) -> str:
    if not text.strip():
        return f"`{path}` is empty."
    titles, defined = _titles(path, text), outline(text)
    first = first_paragraph(text) if _is_prose(path) else first_remark(text)
    said = [f"`{path}`: {measures(text)}{part}."]
    if first:
        said.append(fill(f"It begins: {first}", 78, break_long_words=False))
    if titles:
        said.append(f"Headings:\n\n{_indented(titles[:15])}")
    elif defined:
        said.append(f"It defines:\n\n{_indented(defined[:15])}")
    said.append("(A digest made by rules: headings, first paragraph and counts, nothing understood.)")
    return "\n\n".join(said)


def _quoted(task: Read, path: str, outcome: Outcome) -> str:
    text = passage(outcome)
    if not text.text.strip():
        return f"`{path}` is empty." if text.whole else f"`{path}`: nothing to show there.\n\n{outcome.text.strip()}"
    if re.fullmatch(r"\[[^\n]* not text;[^\n]*\]", text.text.strip()):
        return text.text.strip()[1:-1]
    count = len(text.text.removesuffix("\n").split("\n"))
    if task.last:
        head = f"The last {counted(count, 'line')} of `{path}`"
    elif task.start:
        head = (
            f"`{path}`, lines {task.start} to {task.start + count - 1}" if count > 1 else f"`{path}`, line {task.start}"
        )
    elif task.first:
        head = f"The first {counted(count, 'line')} of `{path}`"
    else:
        head = f"`{path}`, {counted(text.total or count, 'line')}"
    return f"{head}:\n\n{fenced(text.text, max(MOST, min(task.first or task.last or task.end - task.start, 200)))}"
