"""toolcrib doctor: what is missing on this machine, which tools that costs, and how to get it."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import click

from toolcrib.app import open
from toolcrib.app.doctor import Check, examine
from toolcrib.config.load import find_file
from toolcrib.define.errors import CribError

from ._options import ConfigOptions, config_options, crib_from_options, json_option, state_folder
from ._show import print_json, visible

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  toolcrib doctor
  toolcrib doctor --config crib.yaml
  toolcrib doctor --json
"""
_COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}


class _Options(ConfigOptions):
    """Everything `doctor` takes."""

    as_json: bool


@click.command("doctor", epilog=_EXAMPLES)
@config_options
@json_option
def command(**options: Unpack[_Options]) -> int:
    """Say what is missing on this machine, which tools that costs, and how to get it.

    Takes a few seconds at most. Only servers on this machine are asked, and no key is sent. Leaves with 1 when
    something that is needed does not work.
    """
    checks = asyncio.run(_examined(options))
    checks.append(_terminal())
    failing = [check for check in checks if check.fails]
    if options["as_json"]:
        print_json({"checks": list(map(_row, checks)), "failing": len(failing)})
    else:
        _print(checks)
        many = f"{len(failing)} things that are needed do not work" if len(failing) > 1 else "one thing does not work"
        click.echo(many if failing else "everything that is needed works")
    return 1 if failing else 0


async def _examined(options: _Options) -> list[Check]:
    fault: CribError | None = None
    file: Path | None = None
    try:
        file = Path(options["config"]) if options["config"] else find_file(os.environ)
        crib = crib_from_options(options, told=False)
    except CribError as error:
        crib, fault = open({}, import_plugins=False), error
    try:  # not `async with`: that would start the MCP servers
        return await examine(crib, file=file, fault=fault, state=state_folder(), env=os.environ)
    finally:
        await crib.close()


def _terminal() -> Check:
    """Say what the terminal shows; one without colours or size is a choice, one without UTF-8 mostly a mistake."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    shows = [f"{_columns()} columns", "no colours" if plain else "colours"] if is_terminal else ["no terminal"]
    found = ", ".join([*shows, encoding.upper()])
    if encoding.replace("-", "") != "utf8":
        less = "letters and signs beyond ASCII are written as escapes"
        return Check(what="terminal", state="missing", found=found, less=less, remedy="export LANG=C.UTF-8")
    return Check(what="terminal", found=found)


def _columns() -> int:
    return os.get_terminal_size(sys.stdout.fileno()).columns or 80


def _row(check: Check) -> dict[str, object]:
    return {
        "what": check.what,
        "state": check.state,
        "found": check.found,
        "tools": list(check.tools),
        "less": check.less,
        "remedy": check.remedy,
    }


def _print(checks: Sequence[Check]) -> None:
    width = max(len(check.what) for check in checks)
    indent = " " * (width + 2 + len("missing") + 2)
    for check in checks:
        state = click.style(check.state.ljust(len("missing")), fg=_COLOURS[check.state])
        click.echo(f"{visible(check.what).ljust(width)}  {state}  {visible(check.found)}".rstrip())
        tools = "every tool" if check.tools == ("*",) else ", ".join(check.tools)
        if costs := "; ".join(part for part in (tools, check.less) if part):
            click.echo(f"{indent}costs: {visible(costs)}")
        if check.remedy:
            click.echo(f"{indent}do:    {visible(check.remedy)}")
