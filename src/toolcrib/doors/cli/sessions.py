"""toolcrib sessions: what is kept of conversations; to look at, to take along and to bring back."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import click

from toolcrib.define.display import escape, escape_controls
from toolcrib.define.errors import CribError, ToolError

from ._format import columns, format_time, print_json, print_table, truncate
from ._options import (
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    ask_owner,
    config_options,
    nearest_session,
)

_COLUMNS = ("session", "lines", "changed")
_HEAD = ("key", "lines", "madeAt", "changedAt", "parents", "title", "model")
_MINUTE = "%Y-%m-%d %H:%M"
_NARROW = 20  # columns of a title at least
_ROLE = 9  # columns of the longest role


@click.group("sessions", cls=CommandGroup)
def command() -> None:
    """List, show, export and import what is kept of conversations."""


@command.declare("list", "sessions list --most 20 --json")
@click.option("--most", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many, newest first.")
def list_(most: int, **options: Unpack[JsonOptions]) -> None:
    """List sessions, the latest first; those of subagents stand below whoever started them."""
    rows = ask_owner(options, "sessions.list", {"limit": most})["sessions"]
    if options["as_json"]:
        heads = (
            {**{key: row[key] for key in (*_HEAD, "pending") if key in row}, "model": row["switched"]} for row in rows
        )
        print_json({"sessions": list(heads)})
        return
    if not rows:
        click.echo('nothing is kept yet; `toolcrib run "list the files"` begins a session')
        return
    placed = list(_nest(rows))
    cells = [
        (f"{mark}{escape(row['key'])}", str(row["lines"]), format_time(row["changedAt"], _MINUTE))
        for row, mark in placed
    ]
    taken = sum(max(len(cell[index]) for cell in [*cells, _COLUMNS]) + 2 for index in range(3))
    titles = [
        truncate(_pending(row) + escape_controls(" ".join(row["title"].split())), max(columns() - taken, _NARROW))
        for row, _ in placed
    ]
    print_table((*_COLUMNS, "title"), [(*cell, title) for cell, title in zip(cells, titles, strict=True)])


@command.declare("show", "sessions show agent:main:main")
@click.argument("key")
def show(key: str, **options: Unpack[JsonOptions]) -> None:
    """Show a session as its model would be shown it."""
    found = _ask_about(options, key, "sessions.show")
    if options["as_json"]:
        print_json(found)
        return
    width = columns() - _ROLE - 2
    for message in found["messages"]:
        click.echo(f"{click.style(message['role'].rjust(_ROLE), bold=True)}  {truncate(_summarize(message), width)}")
    spent = f"{found['usage']['input'] + found['usage']['output']:,} tokens"
    click.echo(f"\n{escape(key)}: {found['lines']} lines, {spent}, changed {format_time(found['changedAt'], _MINUTE)}")
    if waits := _pending(found):
        click.secho(f"the turn {waits.rstrip(': ')}", fg="yellow")
    for call in found["uncertain"]:
        click.secho(f"{escape(call['tool'])} began and never ended: nobody knows whether it took effect", fg="yellow")


def _pending(row: Mapping[str, Any]) -> str:
    """Return which handles a session waits for, before its title; "" for none."""
    handles = ", ".join(escape_controls(each["handle"]) for each in row.get("pending", ()))
    return f"waits for {handles}: " if handles else ""


@command.declare("export", "sessions export agent:main:main > main.jsonl", options=config_options)
@click.argument("key")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def export(key: str, file: Path | None, **options: Unpack[ConfigOptions]) -> None:
    """Write a session as JSON, one line each, to FILE or to stdout."""
    written = [f"{line}\n" for line in _ask_about(options, key, "sessions.export")]
    if file is None:
        sys.stdout.writelines(written)
        return
    try:
        with file.open("x", encoding="utf-8") as out:
            out.writelines(written)
    except FileExistsError:
        raise CribError(f"there is a file {str(file)!r} already; name another, or take it away first") from None
    click.echo(f"{len(written) - 1} lines are in {file}", err=True)


@command.declare("import", "sessions import main.jsonl --as agent:main:copy", options=config_options)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "key", metavar="KEY", help="The session to make; else the one named in the file.")
def import_(file: Path, key: str | None, **options: Unpack[ConfigOptions]) -> None:
    """Bring back a session that `export` wrote. All of it is checked before any of it is kept."""
    try:
        with file.open(encoding="utf-8") as lines:
            texts = list(lines)
    except UnicodeDecodeError as error:
        raise CribError(f"{str(file)!r} is no text ({error.reason}); it should be what `export` wrote") from None
    try:
        made = ask_owner(options, "sessions.import", {"texts": texts, "key": key or ""})
    except ToolError as error:
        raise CribError(f"{str(file)!r}, {error}" if error.code == "bad_log" else str(error)) from error
    name = made["key"]
    click.echo(f"{made['lines']} lines are in {name}; go on with `toolcrib run ... --session {name}`", err=True)


@command.declare("switch", "sessions switch agent:main:main openai:gpt-5", options=config_options)
@click.argument("key")
@click.argument("model")
def switch(key: str, model: str, **options: Unpack[ConfigOptions]) -> None:
    """Let MODEL answer in a session from its next turn on; `default` goes back to the configured one."""
    answer = _ask_about(options, key, "sessions.switch", model=model)
    when = "from the next turn on" if answer["changed"] else "already"
    click.echo(f"{answer['model']} answers in {answer['key']} {when}", err=True)


@command.declare("delete", "sessions delete agent:main:copy", options=config_options)
@click.argument("key")
def delete(key: str, **options: Unpack[ConfigOptions]) -> None:
    """Forget a session, and the logs of agents that it called. The record of its calls stays."""
    many = len(_ask_about(options, key, "sessions.delete")["called"])
    also = f", and {many} {'log' if many == 1 else 'logs'} of agents that it called" if many else ""
    click.echo(f"{key} is gone{also}", err=True)


def _nest(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield sessions in their order, each followed by those it started, and the mark that shows how deep they are."""
    known = {row["key"] for row in rows}
    below: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        above = next((each for each in reversed(row["parents"]) if each in known and each != row["key"]), "")
        below.setdefault(above, []).append(row)
    waiting = [(row, 0) for row in reversed(below.pop("", []))]
    while waiting:
        row, depth = waiting.pop()
        yield row, f"{'  ' * (depth - 1)}└ " if depth else ""
        waiting += [(each, depth + 1) for each in reversed(below.pop(row["key"], []))]
    for circle in below.values():  # parents that name one another: only a log that somebody wrote by hand has them
        yield from ((row, "") for row in circle)


def _ask_about(options: ConfigOptions, key: str, method: str, **more: str) -> Any:
    """Return what a method says about one session; raise CribError with the nearest key when there is none."""
    try:
        return ask_owner(options, method, {"key": key, **more})
    except ToolError as error:
        if error.code != "not_found" or "session" not in str(error):
            raise
        known = ask_owner(options, "sessions.list", {"limit": 1000})["sessions"]
        near = nearest_session(key, [row["key"] for row in known])
        hint = f"did you mean {near!r}?" if near else "`toolcrib sessions list` shows what there is"
        raise CribError(f"there is no session {key!r}; {hint}") from None


def _summarize(message: dict[str, Any]) -> str:
    words = [" ".join(message["text"].split()), *(f"→ {call['tool']}" for call in message["calls"])]
    return escape_controls("  ".join(word for word in words if word))
