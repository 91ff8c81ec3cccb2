"""Plans for folders: what is in them, and files by their names, sizes and dates."""

import shlex

from toolcrib.backends.providers.offline.answers import MOST, Answer, counted, fenced, joined, listing, passage, rows_of
from toolcrib.backends.providers.offline.tasks import List, Names

from .desk import Desk, Plan, call, failure, resolved

__all__ = ["list_folder", "names"]


def list_folder(task: List, desk: Desk) -> Plan:
    path = resolved(task.path, desk) or "."
    if task.by:
        return (yield from _ordered(task, path, desk))
    if task.glob or task.deep:
        outcome = yield from call("find", pattern=task.glob or "*", path=None if path == "." else path)
    else:
        outcome = yield from call("ls", path=path)
        if not outcome.ok and "is not a folder" in outcome.text:
            return (yield from _file_after_all(path))
    if not outcome.ok:
        return failure(f"list `{path}`", outcome)
    rows, note = rows_of(outcome)
    folders = [row for row in rows if row.endswith("/")]
    files = [row for row in rows if not row.endswith("/")]
    if task.only == "folders":
        rows = folders
    elif task.glob or task.only == "files":
        rows = files or rows
    where = "this folder" if path == "." else f"`{path}`"
    below = " and below" if task.deep or task.glob else ""
    what = f"files matching `{task.glob}`" if task.glob else "folders" if task.only == "folders" else "entries"
    if not rows:
        return Answer(f"There are no {what} in {where}{below}.")
    sums = _sums(len(files), len(folders), task)
    head = f"{where[0].upper()}{where[1:]}{below} holds {sums}" + (f" matching `{task.glob}`" if task.glob else "")
    if task.counted:
        return Answer(f"{head}.{_noted(note)}")
    most = task.most or MOST
    return Answer(f"{head}:\n\n{listing(rows, most)}{_noted(note)}")


def _file_after_all(path: str) -> Plan:
    outcome = yield from call("read", path=path)
    if not outcome.ok:
        return failure(f"read `{path}`", outcome)
    return Answer(f"`{path}` is a file:\n\n{fenced(passage(outcome).text)}")


def _sums(files: int, folders: int, task: List) -> str:
    if task.only == "folders":
        return counted(folders, "folder")
    if task.glob or not folders:
        return counted(files or folders, "file" if files else "folder")
    return f"{counted(files, 'file')} and {counted(folders, 'folder')}"


def _noted(note: str) -> str:
    return f"\n\n({note})" if note else ""


def _ordered(task: List, path: str, desk: Desk) -> Plan:
    """The tools for files tell neither sizes nor dates; a command does."""
    fields = "%s" if task.by == "size" else "%T@ %TY-%Tm-%Td %TH:%TM"
    name = f" -name {shlex.quote(task.glob)}" if task.glob else ""
    most = max(1, min(task.most or 10, MOST))
    command = (
        f"find {shlex.quote(path)} -type f -not -path '*/.*'{name} -printf '{fields} %P\\n' | sort -rn | head -n {most}"
    )
    outcome = yield from call("exec", command=command)
    what = "biggest" if task.by == "size" else "newest"
    if not outcome.ok:
        answer = failure(
            f"find the {what} files, for which I need a command (`ls`, `find` and `read` tell no sizes or dates)",
            outcome,
        )
        return Answer(answer.text)
    found = [_size_or_date(row, task.by) for row in outcome.text.splitlines() if " " in row]
    if not found:
        return Answer("There are no such files.")
    desk.seen.files = tuple(joined(path, name) for name, _ in found)
    desk.seen.file, desk.seen.places = desk.seen.files[0], ()
    where = "this folder" if path == "." else f"`{path}`"
    rows = [f"`{name}`, {told}" for name, told in found]
    return Answer(f"The {what} {'file' if len(rows) == 1 else 'files'} in {where} and below:\n\n{listing(rows)}")


def _size_or_date(row: str, by: str) -> tuple[str, str]:
    """Return a name, and what the command told about it."""
    if by == "size":
        size, _, name = row.partition(" ")
        return name, f"{int(size):,} bytes" if size.isdigit() else size
    _, date, time, name = (*row.split(" ", 3), "", "", "")[:4]
    return name, f"{date} {time[:5]}"


def names(task: Names, desk: Desk) -> Plan:
    path = resolved(task.path, desk) or "."
    outcome = yield from call("find", pattern=task.pattern, path=None if path == "." else path)
    if not outcome.ok:
        return failure(f"look for `{task.pattern}`", outcome)
    rows, note = rows_of(outcome)
    if not rows and not any(mark in task.pattern for mark in "*?["):
        stem = task.pattern.rpartition("/")[2].rpartition(".")[0] or task.pattern
        near = yield from call("find", pattern=f"*{stem.lower()}*", path=None if path == "." else path)
        rows, _ = rows_of(near) if near.ok else ([], "")
        hint = f" These come near:\n\n{listing([joined(path, row) for row in rows], 10)}" if rows else ""
        return Answer(f"Nothing here is named `{task.pattern}`.{hint}")
    if not rows:
        return Answer(f"Nothing here is named `{task.pattern}`.")
    found = [joined(path, row) for row in rows]
    if len(found) == 1:
        return Answer(f"`{found[0]}`{_noted(note)}")
    return Answer(f"{counted(len(found), 'match')} for `{task.pattern}`:\n\n{listing(found)}{_noted(note)}")
