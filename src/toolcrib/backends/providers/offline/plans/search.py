"""Plans that look for lines: a text, a word, where something is defined or imported."""

import re
from collections.abc import Sequence
from dataclasses import replace

from toolcrib.backends.providers.offline.answers import (
    Answer,
    Found,
    clipped,
    counted,
    found_in,
    listing,
    quoted,
    rows_of,
)
from toolcrib.backends.providers.offline.patterns import Pattern
from toolcrib.backends.providers.offline.tasks import Search

from .desk import Asking, Desk, Plan, call, failure, resolved

__all__ = ["definition_pattern", "escaped", "search"]

_SPECIAL = r"[\\.^$*+?()\[\]{}|]"
_MOST = 10_000  # lines that are counted
_KEYWORDS = "def|class|fn|func|function|const|let|var|val|type|struct|enum|trait|interface|mod|module|static|#define"
_ANY_DEFINITION = (
    r"^\s*(?:export\s+)?(?:default\s+)?(?:pub(?:\([a-z]+\))?\s+)?(?:async\s+)?(?:def|class|fn|func|function|"
    r"struct|enum|trait|interface|type)\s+\w"
)
_ANY_IMPORT = r"^\s*(?:import|from|use|require|include|#include|using)\b|\brequire\("
_LIKELY_TEST = Pattern(r"(?:^|/)(?:tests?|spec|__tests__|examples?)/|(?:^|/)test_|_test\.|\.(?:test|spec)\.")
_STRONG = Pattern(rf"\b(?:{_KEYWORDS})\b")


def search(task: Search, desk: Desk) -> Plan:
    path = resolved(task.path, desk) or "."
    pattern = _pattern(task)
    scope = {"path": None if path == "." else path, "glob": task.glob or None}
    outcome = yield from call(
        "grep", pattern=pattern, **scope, ignoreCase=task.any_case, limit=_MOST if task.counted else None
    )
    if not outcome.ok and "does not exist" in outcome.text and (near := (yield from _nearest(path, desk))):
        return (yield from search(replace(task, path=near), desk))
    if not outcome.ok:
        return failure(f"search for `{task.text or pattern}`", outcome)
    found, note = found_in(outcome, path)
    if not found and task.way == "defined":
        return (yield from _used_at_least(task, path))
    loose = ""
    if not found and not task.any_case and task.way in ("text", "word"):
        outcome = yield from call(
            "grep", pattern=pattern, **scope, ignoreCase=True, limit=_MOST if task.counted else None
        )
        found, note = found_in(outcome, path) if outcome.ok else ([], "")
        loose = " (in other capitals)" if found else ""
    return _told(task, path, found, note, loose)


def _nearest(path: str, desk: Desk) -> Asking[str]:
    """Return the file that a name stands for: README is README.md, and app.py the only one of that name."""
    if not desk.has("find"):
        return ""
    is_whole = "." in path.rpartition("/")[2]
    outcome = yield from call("find", pattern=path if is_whole else f"{path.lower()}.*")
    rows = [row for row in rows_of(outcome)[0] if row != path] if outcome.ok else []
    if is_whole and len(rows) > 1:
        return ""  # nobody knows which
    return min(rows, key=len, default="").rstrip("/")


def escaped(text: str) -> str:
    """Return a text as a regular expression that matches it and nothing else."""
    return re.sub(_SPECIAL, r"\\\g<0>", text)


def definition_pattern(symbol: str) -> str:
    """Return what the lines look like that define a symbol, in most languages."""
    name = escaped(symbol.rpartition(".")[2].rpartition("::")[2] or symbol)
    forms = (  # the plainest first, so that whoever looks at the call sees the name
        rf"^\s*(?:export\s+)?{name}\s*(?::[^=]+)?=[^=]",
        rf"(?:^|[^\w.])(?:{_KEYWORDS})\s+(?:\w+[\s.]+)?{name}\b",
        rf"\bfunc\s*\([^)]*\)\s*{name}\b",
        rf"^[\w*&<>:, ]+\s[*&]?{name}\s*\([^;]*\)\s*\{{",
    )
    return "|".join(forms)


def _pattern(task: Search) -> str:
    match task.way:
        case "regex":
            return task.text
        case "word":
            return rf"\b{escaped(task.text)}\b" if re.fullmatch(r"\w[\w.]*", task.text) else escaped(task.text)
        case "defined":
            return definition_pattern(task.text)
        case "imported":
            return rf"\b(?:import|from|require|use|include|using)\b.*\b{escaped(task.text)}\b"
        case "definitions":
            return _ANY_DEFINITION
        case "imports":
            return _ANY_IMPORT
    return escaped(task.text)


def _used_at_least(task: Search, path: str) -> Plan:
    """Say that nothing defines a symbol, and where it stands all the same, or which files are named so."""
    scope = {"path": None if path == "." else path, "glob": task.glob or None}
    outcome = yield from call("grep", pattern=_pattern(Search(text=task.text, way="word")), **scope)
    found, _ = found_in(outcome, path) if outcome.ok else ([], "")
    head = f"I found no line that defines `{task.text}`"
    if found:
        return Answer(f"{head}; it stands in {counted(len(found), 'line')}:\n\n{_rows(found, 10)}", tuple(found[:10]))
    outcome = yield from call("find", pattern=f"*{task.text.lower()}*")
    names = [row for row in outcome.text.splitlines() if row and not row.startswith("[")] if outcome.ok else []
    if names:
        return Answer(f"{head}, and none that has it. Files of such a name:\n\n{listing(names, 10)}")
    return Answer(f"{head}, and it stands nowhere else {_where(task, path)}.")


def _told(task: Search, path: str, found: Sequence[Found], note: str, loose: str) -> Answer:
    where = _where(task, path)
    files = list(dict.fromkeys(each.path for each in found))
    if task.way in ("definitions", "imports"):
        what = "definition" if task.way == "definitions" else "import"
        head = f"{'This folder' if path == '.' else f'`{path}`'} has {counted(len(found), what)}"
        if task.counted or not found:
            return Answer(f"{head}.")
        rows = [f"{each.line}: {each.text.rstrip()}" for each in found] if path != "." else None
        return Answer(f"{head}:\n\n{listing(rows) if rows else _rows(found)}", tuple(found))
    if not found:
        return Answer(f"No line {where} has `{task.text}`.")
    if task.way == "defined":
        return _defined(task, found)
    more = " at least" if "there are more" in note else ""
    sums = (
        f"`{task.text}`{loose} stands in{more} {counted(len(found), 'line')} of {counted(len(files), 'file')} {where}"
    )
    if task.counted:
        times = sum(
            max(1, len(re.findall(re.escape(task.text), each.text, re.IGNORECASE if loose else 0))) for each in found
        )
        return Answer(f"{sums}, {counted(times, 'time')} in all." if times != len(found) else f"{sums}.", tuple(found))
    if task.files:
        rows = [f"{name} ({counted(sum(each.path == name for each in found), 'line')})" for name in files]
        return Answer(f"{sums}:\n\n{listing(rows)}", tuple(found))
    noted = f"\n\n({note})" if note else ""
    return Answer(f"{sums}:\n\n{_rows(found)}{noted}", tuple(found))


def _defined(task: Search, found: Sequence[Found]) -> Answer:
    """Say where a symbol is defined: what is written with a keyword first, tests last."""
    best = sorted(found, key=lambda each: (bool(_LIKELY_TEST.search(each.path)), not _STRONG.search(each.text)))
    if len(best) == 1:
        return Answer(
            f"`{task.text}` is defined in `{best[0].path}`, line {best[0].line}:\n\n{_rows(best)}", tuple(best)
        )
    head = f"`{task.text}` is defined in `{best[0].path}`, line {best[0].line}"
    return Answer(f"{head}; {counted(len(best), 'line')} look like definitions:\n\n{_rows(best, 15)}", tuple(best))


def _rows(found: Sequence[Found], most: int = 40) -> str:
    rows = [clipped(f"{each.path}:{each.line}: {each.text.strip()}") for each in found]
    return listing(rows, most)


def _where(task: Search, path: str) -> str:
    names = [name for name in (task.glob, "" if path == "." else path) if name]
    return f"in {quoted(names)}" if names else "here"
