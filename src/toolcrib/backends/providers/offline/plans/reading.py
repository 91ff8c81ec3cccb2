"""Plans for files: the ones that are meant, found where they are, read as far as is asked, told or compared."""

import difflib
from collections.abc import Sequence

from toolcrib.backends.providers.offline.answers import Answer, Outcome, counted, fenced, listing, passage, rows_of
from toolcrib.backends.providers.offline.digest import difference_counts
from toolcrib.backends.providers.offline.tasks import Compare, List, Pointing, Read

from .desk import Asking, Desk, Plan, call, failure, place_of, resolved, step, together
from .folders import list_folder
from .views import MANIFESTS, viewed

__all__ = ["compare", "read"]

_AROUND, _DEFINITION = 3, 30  # lines shown before a place that was found, and in all
_AT_ONCE = 5  # files that are read for one request
_BARE = frozenset({"makefile", "dockerfile", "gemfile", "rakefile", "procfile", "justfile", "codeowners"})
_WHOSE = "I do not know which file you mean; name it, please."


def read(task: Read, desk: Desk) -> Plan:
    if (
        (place := place_of(task.targets[0], desk) if task.targets else None)
        and task.view == "text"
        and not _parted(task)
    ):
        first = max(1, place.line - _AROUND)
        outcome = yield from call("read", path=place.path, offset=first, limit=_DEFINITION)
        if not outcome.ok:
            return failure(f"read `{place.path}`", outcome)
        return Answer(f"`{place.path}`, from line {first}:\n\n{fenced(passage(outcome).text)}", (place,))
    paths = yield from _paths(task, desk)
    if isinstance(paths, Answer):
        return paths
    if paths[0].endswith("/"):
        return (yield from list_folder(List(path=paths[0].rstrip("/")), desk))
    if task.view == "lines":
        outcomes = yield from together(*(step("read", path=path, limit=0) for path in paths))
    elif task.last:
        outcomes = yield from _ends(paths, task.last)
    else:
        limit = task.first or (task.end - task.start + 1 if task.start else None)
        outcomes = yield from together(
            *(step("read", path=path, offset=task.start or None, limit=limit) for path in paths)
        )
    answers = []
    for path, outcome in zip(paths, outcomes, strict=True):
        if not outcome.ok and "is a folder" in outcome.text:
            answers.append((yield from list_folder(List(path=path), desk)))
        elif not outcome.ok:
            answers.append((yield from _elsewhere(task, path, outcome, desk)))
        else:
            answers.append(Answer(viewed(task, path, outcome)))
    return Answer("\n\n".join(answer.text for answer in answers))


def _parted(task: Read) -> bool:
    return bool(task.first or task.last or task.start)


def _paths(task: Read, desk: Desk) -> Asking[Sequence[str] | Answer]:
    """Return the files that are meant: as they are named, found by a name without its ending, or chosen by the view."""
    if not task.targets:
        return (yield from _chosen(task, desk))
    paths: list[str] = []
    for target in task.targets[:_AT_ONCE]:
        if isinstance(target, Pointing) and target.everything:
            paths += desk.seen.files[:_AT_ONCE]
            continue
        name = resolved(target, desk)
        if not name:
            return Answer(_WHOSE)
        if isinstance(target, Pointing) or not _is_vague(name) or not desk.has("find"):
            paths.append(name)
            continue
        found = yield from _found(name)
        if isinstance(found, Answer):
            return found
        paths += found
    return paths or Answer(_WHOSE)


def _is_vague(name: str) -> bool:
    last = name.rpartition("/")[2]
    return any(mark in name for mark in "*?[{") or ("." not in last and last.lower() not in _BARE)


def _found(name: str) -> Asking[list[str] | Answer]:
    """Return the files that a vague name stands for: all of a glob, else the one that lies highest."""
    is_glob = any(mark in name for mark in "*?[{")
    low = name.lower()
    outcome = yield from call("find", pattern=name if is_glob else f"{{{low},{low}.*}}")
    if not outcome.ok:
        return failure(f"look for `{name}`", outcome)
    rows, _ = rows_of(outcome)
    files = [row for row in rows if not row.endswith("/")]
    if is_glob:
        return files[:_AT_ONCE] or Answer(f"There are no files matching `{name}`.")
    rows.sort(key=lambda row: (row.count("/") - row.endswith("/"), row.endswith("/"), len(row)))
    return [rows[0]] if rows else Answer(f"There is no file `{name}` here, and none that begins like it.")


def _chosen(task: Read, desk: Desk) -> Asking[Sequence[str] | Answer]:
    """Return the file that tells about a whole project."""
    outcome = yield from call("ls", path=".")
    rows, _ = rows_of(outcome) if outcome.ok else ([], "")
    if task.view == "summary":
        readme = [row for row in rows if row.lower().startswith("readme") and not row.endswith("/")]
        if readme:
            return [min(readme, key=len)]
        if not outcome.ok:
            return failure("look at this folder", outcome)
        return Answer(f"There is no README that would say what this is about. The folder holds:\n\n{listing(rows)}")
    known = [name for name in MANIFESTS if name in rows]
    if known:
        return known[:1]
    return Answer(f"I see no file that says so; I know {', '.join(MANIFESTS[:-1])} and {MANIFESTS[-1]}.")


def _ends(paths: Sequence[str], count: int) -> Asking[tuple[Outcome, ...]]:
    """Return the last lines of files, for which their lengths have to be known first."""
    lengths = yield from together(*(step("read", path=path, limit=0) for path in paths))
    wanted = []
    for path, length in zip(paths, lengths, strict=True):
        total = passage(length).total if length.ok else None
        wanted.append(step("read", path=path, offset=max(1, (total or 1) - count + 1), limit=count))
    return (yield from together(*wanted))


def _elsewhere(task: Read, path: str, outcome: Outcome, desk: Desk) -> Plan:
    """Look for a file of that name in other folders before giving up."""
    name = path.rpartition("/")[2]
    if "does not exist" not in outcome.text or not desk.has("find") or not name:
        return failure(f"read `{path}`", outcome)
    other = yield from call("find", pattern=name)
    rows = [row for row in rows_of(other)[0] if not row.endswith("/")] if other.ok else []
    if len(rows) != 1:
        found = f"\nFiles of that name:\n\n{listing(rows, 10)}" if rows else ""
        return Answer(failure(f"read `{path}`", outcome).text + found)
    limit = task.first or (task.end - task.start + 1 if task.start else None)
    again = yield from call("read", path=rows[0], offset=task.start or None, limit=limit)
    if not again.ok:
        return failure(f"read `{rows[0]}`", again)
    return Answer(f"There is no `{path}`, but there is `{rows[0]}`.\n\n{viewed(task, rows[0], again)}")


def compare(task: Compare, desk: Desk) -> Plan:
    paths: list[str] = []
    for target in task.targets:
        paths += desk.seen.files[:2] if isinstance(target, Pointing) and target.everything else [resolved(target, desk)]
    paths = [path for path in paths if path][:2]
    if len(paths) < 2:
        return Answer("I need two files to compare; name both, please.")
    one, other = yield from together(*(step("read", path=path) for path in paths))
    for path, outcome in zip(paths, (one, other), strict=True):
        if not outcome.ok:
            return failure(f"read `{path}`", outcome)
    first, second = passage(one), passage(other)
    if first.text == second.text and first.whole and second.whole:
        return Answer(f"`{paths[0]}` and `{paths[1]}` are the same, {counted(first.total or 0, 'line')} each.")
    diff = list(
        difflib.unified_diff(first.text.splitlines(), second.text.splitlines(), paths[0], paths[1], n=1, lineterm="")
    )
    came, went = difference_counts(diff)
    part = "" if first.whole and second.whole else " (as far as they were read)"
    head = (
        f"`{paths[0]}` and `{paths[1]}` differ{part}: {counted(went, 'line')} only in the first, "
        f"{counted(came, 'line')} only in the second."
    )
    return Answer(f"{head}\n\n{fenced(chr(10).join(diff))}")
