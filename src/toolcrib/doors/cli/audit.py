"""toolcrib audit: whether the record of calls is whole and true, and what it says."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import click

from toolcrib.app.stores import verify_file
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError

from ._format import format_time, print_json, print_table
from ._options import JsonOptions, ask_owner, config_options, json_option

_EXAMPLES = """\b
Examples:
  toolcrib audit verify
  toolcrib audit verify --replay
  toolcrib audit verify --file /var/log/toolcrib.jsonl --expect 9f86d081884c7d65...
  toolcrib audit show --last 5
  toolcrib audit show --session agent:main:main --tool exec --json
"""
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
  toolcrib audit show --session agent:main:main --json
"""
_HASH = re.compile(r"[0-9a-f]{64}")
_COLUMNS = ("row", "time", "session", "tool", "verdict", "because", "outcome")
_SHOWN_CALLS = 50


@click.group("audit", epilog=_EXAMPLES)
def command() -> None:
    """Check the record of calls, and see what is in it."""


@command.command("verify", epilog=_VERIFY)
@click.option("--file", metavar="FILE", help="Check this file of lines, as audit.file names one, not the store.")
@click.option("--expect", metavar="HASH", default="", help="A hash printed earlier; some row must still have it.")
@click.option("--replay", is_flag=True, help="Derive every decision again from what it was made from.")
@config_options
@json_option
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
@config_options
@json_option
def show(session: str, tool: str, last: int, **options: Unpack[JsonOptions]) -> int:
    """List the last calls: who asked, what was decided by which rule, and what came of it."""
    calls = ask_owner(options, "audit.tail", {"session": session, "tool": tool, "most": last})
    if options["as_json"]:
        print_json({"calls": calls})
    elif calls:
        print_table(_COLUMNS, map(_row, calls), colour=4)
    else:
        click.echo("no such call was recorded" if session or tool else "nothing was recorded yet")
    return 0


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
    shown = (call["session"] or "-", call["tool"], call["decision"], call["reason"], outcome)
    return (str(call["row"]), format_time(call["at"], "%Y-%m-%d %H:%M:%S"), *(escape(str(each)) for each in shown))
