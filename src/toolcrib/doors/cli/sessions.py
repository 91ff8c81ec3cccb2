"""toolcrib sessions: what is kept of conversations; to look at, to take along and to bring back."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, Unpack

import click

from toolcrib.agent.recall import Recalled, recall
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.log import SessionHead, SessionStore
from toolcrib.define.log_json import read_log, write_log
from toolcrib.define.mandate import is_called
from toolcrib.define.message import Message
from toolcrib.define.result import Image
from toolcrib.define.session import check_key
from toolcrib.define.shown import escaped

from ._options import ConfigOptions, config_options, crib_from_options, json_option, nearest_session
from ._show import columns, cut, print_json, print_table, visible

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  toolcrib sessions list
  toolcrib sessions show agent:main:main
  toolcrib sessions export agent:main:main > main.jsonl
  toolcrib sessions import main.jsonl --as agent:main:copy
  toolcrib sessions delete agent:main:copy
"""
_COLUMNS = ("session", "lines", "changed")
_EVERY = 1_000_000
_NARROW = 20  # columns of a title at least
_ROLE = 9  # columns of the longest role

T = TypeVar("T")


class _Options(ConfigOptions):
    """What every subcommand takes."""

    as_json: bool


@click.group("sessions", epilog=_EXAMPLES)
def command() -> None:
    """List, show, export and import what is kept of conversations."""


@command.command("list", epilog="\b\nExamples:\n  toolcrib sessions list --most 20 --json\n")
@click.option("--most", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many, newest first.")
@config_options
@json_option
def list_(most: int, **options: Unpack[_Options]) -> int:
    """List sessions, the latest first; those of subagents stand below whoever started them."""
    heads = _with_store(options, lambda store: store.list(most=most))
    if options["as_json"]:
        print_json({"sessions": [_head(head) for head in heads]})
        return 0
    if not heads:
        click.echo('nothing is kept yet; `toolcrib run "list the files"` begins a session')
        return 0
    placed = list(_placed(heads))
    rows = [(f"{mark}{escaped(head.key)}", str(head.count), _clock(head.changed_at)) for head, mark in placed]
    taken = sum(max(len(row[at]) for row in [*rows, _COLUMNS]) + 2 for at in range(3))
    titles = [cut(visible(" ".join(head.title.split())), max(columns() - taken, _NARROW)) for head, _ in placed]
    print_table((*_COLUMNS, "title"), [(*row, title) for row, title in zip(rows, titles, strict=True)])
    return 0


@command.command("show", epilog="\b\nExamples:\n  toolcrib sessions show agent:main:main\n")
@click.argument("key")
@config_options
@json_option
def show(key: str, **options: Unpack[_Options]) -> int:
    """Show a session as its model would be shown it."""
    head, found = _with_store(options, lambda store: _recalled(store, key))
    if options["as_json"]:
        usage = {"input": found.usage.input, "output": found.usage.output, "cost": found.cost}
        uncertain = [{"id": call.id, "tool": call.name} for call in found.uncertain]
        messages = [{"role": each.role, "text": _text(each), "calls": _calls(each)} for each in found.history]
        print_json({**_head(head), "usage": usage, "uncertain": uncertain, "messages": messages})
        return 0
    width = columns() - _ROLE - 2
    for message in found.history:
        click.echo(f"{click.style(message.role.rjust(_ROLE), bold=True)}  {cut(_line(message), width)}")
    spent = f"{found.usage.input + found.usage.output:,} tokens"
    click.echo(f"\n{escaped(head.key)}: {head.count} lines, {spent}, changed {_clock(head.changed_at)}")
    for call in found.uncertain:
        click.secho(f"{escaped(call.name)} began and never ended: nobody knows whether it took effect", fg="yellow")
    return 0


@command.command("export", epilog="\b\nExamples:\n  toolcrib sessions export agent:main:main > main.jsonl\n")
@click.argument("key")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@config_options
def export(key: str, file: Path | None, **options: Unpack[ConfigOptions]) -> int:
    """Write a session as JSON, one line each, to FILE or to stdout."""

    async def lines(store: SessionStore) -> list[str]:
        head = await _found(store, key)
        return [f"{line}\n" for line in write_log(head, await store.lines(key))]

    written = _with_store(options, lines)
    if file is None:
        sys.stdout.writelines(written)
        return 0
    try:
        with file.open("x", encoding="utf-8") as out:
            out.writelines(written)
    except FileExistsError:
        raise CribError(f"there is a file {str(file)!r} already; name another, or take it away first") from None
    click.echo(f"{len(written) - 1} lines are in {file}", err=True)
    return 0


@command.command("import", epilog="\b\nExamples:\n  toolcrib sessions import main.jsonl --as agent:main:copy\n")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "key", metavar="KEY", help="The session to make; else the one named in the file.")
@config_options
def import_(file: Path, key: str | None, **options: Unpack[ConfigOptions]) -> int:
    """Bring back a session that `export` wrote. All of it is checked before any of it is kept."""
    try:
        with file.open(encoding="utf-8") as texts:
            head, lines = read_log(texts)
        recall(lines)  # whatever is wrong with it is said before anything is kept
    except UnicodeDecodeError as error:
        raise CribError(f"{str(file)!r} is no text ({error.reason}); it should be what `export` wrote") from None
    except CribError as error:
        raise CribError(f"{str(file)!r}, {error}") from error
    name = check_key(key or head.key)
    _with_store(options, lambda store: store.add(replace(head, key=name), lines))
    click.echo(f"{len(lines)} lines are in {name}; go on with `toolcrib run ... --session {name}`", err=True)
    return 0


@command.command("delete", epilog="\b\nExamples:\n  toolcrib sessions delete agent:main:copy\n")
@click.argument("key")
@config_options
def delete(key: str, **options: Unpack[ConfigOptions]) -> int:
    """Forget a session, and the logs of agents that it called. The record of its calls stays."""

    async def gone(store: SessionStore) -> int:
        await _found(store, key)
        called = [head for head in await store.list(most=_EVERY) if key in head.parents and is_called(head.key)]
        for head in called:
            await store.delete(head.key)
        await store.delete(key)
        return len(called)

    many = _with_store(options, gone)
    also = f", and {many} {'log' if many == 1 else 'logs'} of agents that it called" if many else ""
    click.echo(f"{key} is gone{also}", err=True)
    return 0


def _placed(heads: Sequence[SessionHead]) -> Iterator[tuple[SessionHead, str]]:
    """Yield sessions in their order, each followed by those it started, and the mark that shows how deep they are."""
    known = {head.key for head in heads}
    below: dict[str, list[SessionHead]] = {}
    for head in heads:
        above = next((parent for parent in reversed(head.parents) if parent in known and parent != head.key), "")
        below.setdefault(above, []).append(head)
    waiting = [(head, 0) for head in reversed(below.pop("", []))]
    while waiting:
        head, depth = waiting.pop()
        yield head, f"{'  ' * (depth - 1)}└ " if depth else ""
        waiting += [(each, depth + 1) for each in reversed(below.pop(head.key, []))]
    for circle in below.values():  # parents that name one another: only a log that somebody wrote by hand has them
        yield from ((head, "") for head in circle)


def _with_store(options: ConfigOptions, work: Callable[[SessionStore], Awaitable[T]]) -> T:
    async def worked() -> T:
        async with crib_from_options(options, told=False, keeps=True) as crib:
            return await work(crib.sessions)

    try:
        return asyncio.run(worked())
    except ToolError as error:
        raise CribError(str(error)) from error


async def _found(store: SessionStore, key: str) -> SessionHead:
    head = await store.find(key)
    if head is None:
        near = nearest_session(key, await store.list(most=1000))
        hint = f"did you mean {near!r}?" if near else "`toolcrib sessions list` shows what there is"
        raise CribError(f"there is no session {key!r}; {hint}")
    return head


async def _recalled(store: SessionStore, key: str) -> tuple[SessionHead, Recalled]:
    head = await _found(store, key)
    return head, recall(await store.lines(key))


def _head(head: SessionHead) -> dict[str, Any]:
    return {
        "key": head.key,
        "lines": head.count,
        "madeAt": head.made_at,
        "changedAt": head.changed_at,
        "parents": list(head.parents),
        "title": head.title,
        "model": head.model,
    }


def _text(message: Message) -> str:
    return "\n".join(f"[{part.mime}]" if isinstance(part, Image) else part.text for part in message.content)


def _calls(message: Message) -> list[dict[str, Any]]:
    return [{"id": call.id, "tool": call.name, "args": dict(call.args)} for call in message.calls]


def _line(message: Message) -> str:
    words = [" ".join(_text(message).split()), *(f"→ {call.name}" for call in message.calls)]
    return visible("  ".join(word for word in words if word))


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
