"""What can be told of a text without understanding it: headings, counts, first paragraph, dependencies, version."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from .answers import clipped, counted
from .patterns import Pattern

__all__ = [
    "dependencies", "difference_counts", "first_paragraph", "first_remark", "headings", "measures", "outline",
    "version",
]  # fmt: skip

_HASH = Pattern(r"(#{1,6})\s+(.*?)\s*#*")
_UNDER = Pattern(r"(=+|-+|~+|\^+)\s*")
_FENCE = Pattern(r"\s*(?:```|~~~)")
_DEFINES = Pattern(
    r"\s*(?:export\s+)?(?:default\s+)?(?:pub(?:\(\w+\))?\s+)?(?:async\s+)?(?:def|class|fn|func|function|"
    r"struct|enum|trait|interface|impl|type)\s+[\w.<>]+"
)
_REMARK = Pattern(
    r"(?:#![^\n]*\n)?\s*(?:\"\"\"|'''|//+!?|#+|/\*+|--|;+)[ \t]*(?P<words>\w[^\n]*?)(?:\"\"\"|'''|\*/|\n|$)"
)
_REQUIREMENT = Pattern(r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?[^#;]*")


def headings(text: str) -> list[str]:
    """Return the headings of a Markdown or reStructuredText file, indented by level."""
    found: list[tuple[int, str]] = []
    lines = text.splitlines()
    inside = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            inside = not inside
        elif not inside and (hashed := _HASH.fullmatch(line)):
            found.append((len(hashed[1]), hashed[2]))
        elif (
            not inside
            and at
            and _UNDER.fullmatch(line)
            and len(line.strip()) >= 3
            and _is_title(lines, at - 1, len(line.strip()))
        ):
            found.append((1 if line[0] == "=" else 2, lines[at - 1].strip()))
    top = min((level for level, _ in found), default=1)
    return ["  " * (level - top) + title for level, title in found if title]


def _is_title(lines: list[str], at: int, length: int) -> bool:
    title = lines[at].strip()
    alone = at == 0 or not lines[at - 1].strip() or bool(_UNDER.fullmatch(lines[at - 1]))
    return bool(title) and alone and length >= min(len(title), 3) and not title.startswith(("|", "-", "*", ">"))


def first_paragraph(text: str) -> str:
    """Return the first lines of plain prose."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in block.splitlines()]
        lines = [
            line for line in lines if not re.match(r"#{1,6} |[=~^-]{3,}$|!?\[.*\]\(.*\)$|<|```|\[!\[|#!|\.\. ", line)
        ]
        if lines and re.search(r"[A-Za-z]{3}", " ".join(lines)):
            return " ".join(" ".join(lines).strip("\"'# ").split())[:400]
    return ""


def first_remark(text: str) -> str:
    """Return the first line of the remark that a source file begins with, empty when it begins with code."""
    found = _REMARK.match(text)
    return found["words"].strip() if found else ""


def outline(text: str) -> list[str]:
    """Return what a source file defines, as its lines say it."""
    return [clipped(line.rstrip().rstrip("{:")) for line in text.splitlines() if _DEFINES.match(line)]


def dependencies(path: str, text: str) -> list[str] | None:
    """Return what a project's file says it depends on, None when the file is of no kind that is known."""
    name = path.rpartition("/")[2].lower()
    reader = next(
        (
            read
            for ending, read in _READERS.items()
            if name == ending or (ending[0] == "*" and re.fullmatch(ending[1:], name))
        ),
        None,
    )
    if reader is None:
        return None
    try:
        return list(dict.fromkeys(each for each in reader(text) if each))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def version(text: str) -> str:
    """Return the version that a project's file states, empty when it does not."""
    found = re.search(r"(?m)^\s*\"?version\"?\s*[=:]\s*[\"']?([\w.+-]+)", text)
    return found[1] if found else ""


def difference_counts(lines: Iterable[str]) -> tuple[int, int]:
    """Return how many lines of a unified diff came and went."""
    kept = [line for line in lines if not line.startswith(("+++", "---"))]
    return sum(line.startswith("+") for line in kept), sum(line.startswith("-") for line in kept)


def _pyproject(text: str) -> Iterable[str]:
    read = tomllib.loads(text)
    project, poetry = read.get("project", {}), read.get("tool", {}).get("poetry", {})
    yield from map(str, project.get("dependencies", ()))
    for group, entries in chain(
        project.get("optional-dependencies", {}).items(), read.get("dependency-groups", {}).items()
    ):
        yield from (f"{entry} ({group})" for entry in entries if isinstance(entry, str))
    yield from _pairs(poetry.get("dependencies", {}))


def _package(text: str) -> Iterable[str]:
    read = json.loads(text)
    yield from _pairs(read.get("dependencies", {}))
    yield from (f"{each} (dev)" for each in _pairs(read.get("devDependencies", {})))


def _cargo(text: str) -> Iterable[str]:
    read = tomllib.loads(text)
    yield from _pairs(read.get("dependencies", {}))
    yield from (f"{each} (dev)" for each in _pairs(read.get("dev-dependencies", {})))


def _pairs(entries: Mapping[str, Any]) -> Iterable[str]:
    for name, wanted in entries.items():
        stated = wanted if isinstance(wanted, str) else wanted.get("version", "") if isinstance(wanted, Mapping) else ""
        yield f"{name} {stated}".strip()


def _requirements(text: str) -> Iterable[str]:
    for line in text.splitlines():
        if found := _REQUIREMENT.match(line.strip()):
            yield found[0].strip()


def _go(text: str) -> Iterable[str]:
    yield from re.findall(r"(?m)^(?:require\s+|\t)([\w./-]+ v[\w.+-]+)", text)


def _gems(text: str) -> Iterable[str]:
    yield from re.findall(r"(?m)^\s*gem\s+[\"']([\w-]+)", text)


_READERS: Mapping[str, Callable[[str], Iterable[str]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package,
    "cargo.toml": _cargo,
    "*requirements[\\w-]*\\.(?:txt|in)": _requirements,
    "go.mod": _go,
    "gemfile": _gems,
}


def measures(text: str) -> str:
    """Return how long a text is."""
    return (
        f"{counted(len(text.splitlines()), 'line')}, {counted(len(text.split()), 'word')}, "
        f"{counted(len(text), 'character')}"
    )
