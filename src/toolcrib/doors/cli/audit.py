"""toolcrib audit: whether the record of calls is whole and true, and what it says."""

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

import click

from toolcrib.app.stores import verify_file
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError
from toolcrib.define.message import Call
from toolcrib.lazy import regex

from ._format import format_time, print_json, print_table, truncate
from ._options import CommandGroup, JsonOptions, ask_owner, service_options
from ._turn import label_call
from .approvals import seconds_from

_VERIFY = """\b
Examples:
  toolcrib audit verify
  toolcrib audit verify --replay --json
  toolcrib audit verify --file /var/log/toolcrib.jsonl

Keep the hash that it prints somewhere else, and give it back with --expect: only that tells a record that was written
anew from the first row on.
"""
_SHOW = """\b
Examples:
  toolcrib audit show
  toolcrib audit show --tool exec --last 50
  toolcrib audit show --since 2h --verdict deny
  toolcrib audit show --sender id:7 --since 2026-11-01
  toolcrib audit show --session agent:main:main --json
"""
_HASH = regex(r"[0-9a-f]{64}")
_COLUMNS = ("row", "time", "who", "tool", "arguments", "verdict", "because", "outcome")
_ARGUMENT_CHARS = 40
_SHOWN_CALLS = 50


@click.group("audit", cls=CommandGroup)
def command() -> None:
    """Check the record of calls, and see what is in it."""


@command.command("verify", epilog=_VERIFY)
@click.option("--file", metavar="FILE", help="Check this file of lines, as audit.file names one, not the store.")
@click.option("--expect", metavar="HASH", default="", help="A hash printed earlier; some row must still have it.")
@click.option("--replay", is_flag=True, help="Derive every decision again from what it was made from.")
@service_options
def verify(file: str | None, expect: str, replay: bool, **options: Unpack[JsonOptions]) -> int:
    """Find rows that were altered, dropped, moved or put in, and calls whose outcome nobody knows."""
    wanted = expect.strip().lower()
    if wanted and not _HASH.fullmatch(wanted):
        raise CribError(f"--expect {expect[:80]!r} is no hash; give the 64 characters that verify printed")
    if file is not None:
        report = verify_file(Path(file), expect=wanted, replay=replay).to_json()
    else:
        report = ask_owner(options, "audit.verify", {"expect": wanted, "replay": replay})
    if options["as_json"]:
        print_json(report)
    else:
        _print(report, replay=replay)
    return 1 if report["findings"] else 0


@command.command("show", epilog=_SHOW)
@click.option("--session", metavar="KEY", default="", help="Only calls of this session.")
@click.option("--tool", metavar="NAME", default="", help="Only calls of this tool.")
@click.option("--last", metavar="N", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@click.option("--since", metavar="TIME", help="Only calls since then: 2h ago, 3d, or 2026-11-01T09:30.")
@click.option("--verdict", type=click.Choice(["allow", "ask", "deny", "unknown"]), help="Only calls decided so.")
@click.option("--sender", metavar="S", default="", help="Only calls of this sender, like id:7.")
@service_options
def show(
    session: str, tool: str, last: int, since: str | None, verdict: str | None, sender: str,
    **options: Unpack[JsonOptions],
) -> None:  # fmt: skip
    """List the last calls: who asked for what, what was decided by which rule, and what came of it."""
    chosen = {"session": session, "tool": tool, "decision": verdict or "", "sender": sender}
    wanted = {**chosen, "most": last, "since": _parse_since(since) if since else 0.0}
    calls = ask_owner(options, "audit.tail", wanted)
    if options["as_json"]:
        print_json({"calls": calls})
    elif calls:
        print_table(_COLUMNS, map(_row, calls), colour=5)
    else:
        click.echo("no such call was recorded" if since or any(chosen.values()) else "nothing was recorded yet")


def _parse_since(text: str) -> float:
    """Return the time meant by a length of time until now, or by a date."""
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        try:
            return time.time() - seconds_from(text.removesuffix("ago"))
        except CribError:
            raise CribError(f"--since {text[:64]!r} is no time; write one like 2h, 3d or 2026-11-01T09:30") from None


def _print(report: Mapping[str, Any], *, replay: bool) -> None:
    findings = report["findings"]
    for finding in findings[:_SHOWN_CALLS]:
        click.secho(f"{finding['wrong']}: {escape(finding['sentence'])}", fg="red")
    if len(findings) > _SHOWN_CALLS:
        click.echo(f"and {len(findings) - _SHOWN_CALLS} more; --json shows all")
    for call in report["uncertain"]:
        what = f"{escape(call['tool'])} in call {escape(call['call'])} started in row {call['row']} and has no outcome"
        click.secho(f"uncertain: {what}: it runs still, or was cut off", fg="yellow")
    if not report["rows"] and not findings:
        click.echo("nothing was recorded yet")
        return
    if replay:
        click.echo(f"{report['derived']} of {report['decisions']} decisions derived again")
    begins = f", the first is row {report['first']}" if report["first"] != 1 else ""
    click.echo(f"{report['rows']} rows{begins}; {len(findings)} findings")
    click.echo(f"hash of the last row: {escape(report['hash'])}")


def _row(call: Mapping[str, Any]) -> tuple[str, ...]:
    outcome = call["outcome"] if call["outcome"] != "error" else f"{call['code'] or 'error'}"
    if call["answered"] is not None:
        outcome += f" ({'yes' if call['answered']['yes'] else 'no'} by {call['answered']['by']})"
    args = call["args"] if isinstance(call["args"], Mapping) else {}
    words = truncate(label_call(Call("", "", args)), _ARGUMENT_CHARS)
    because = call["reason"]
    if shadow := call.get("shadow"):
        because += f"; on trial it would be {shadow['decision']}: {shadow['reason']}"
    shown = (_name_caller(call), call["tool"], words, call["decision"], because, outcome)
    return (str(call["row"]), format_time(call["at"], "%Y-%m-%d %H:%M:%S"), *(escape(str(each)) for each in shown))


def _name_caller(call: Mapping[str, Any]) -> str:
    """Return who asked, in one line: the sender and where they wrote, else the session."""
    caller = call["caller"]
    sender = caller.get("sender") or {}
    who = [f"{kind}:{sender[kind]}" for kind in ("id", "e164", "username", "name") if sender.get(kind)][:1]
    where = [str(caller[key]) for key in ("channel", "group") if caller.get(key)]
    started = [f"started by {'/'.join(map(str, caller['parents']))}"] if caller.get("parents") else []
    return " ".join([*who, *where, *started]) or call["session"] or "the terminal"
