"""toolcrib tools: list, show and call tools."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Unpack

import click
import orjson

from toolcrib.app import Belt, Crib
from toolcrib.define.errors import CribError
from toolcrib.define.names import canonical
from toolcrib.define.result import Image, Result
from toolcrib.define.tool import Tool
from toolcrib.policy.explain import verdict_json
from toolcrib.policy.resolve import mark_terminal_owner

from ._format import print_json, print_table
from ._options import (
    CallerOptions,
    CommandGroup,
    JsonOptions,
    caller_from_options,
    caller_options,
    crib_from_options,
    json_options,
    require_tool,
    show_examples,
)
from .approvals import ask_at_terminal, is_attended

_CALL = """\b
Examples:
  toolcrib tools call dice '{"sides": 20}' --config examples/crib.yaml
  toolcrib tools call dice --config examples/crib.yaml --channel telegram --sender id:7
"""


@click.group("tools", cls=CommandGroup)
def command() -> None:
    """List, show and call tools."""


@command.command("list", epilog=show_examples("tools list", "tools list --config examples/crib.yaml --json"))
@json_options
def list_(**options: Unpack[JsonOptions]) -> None:
    """List every tool that exists, whoever may use it."""
    catalog = crib_from_options(options, import_plugins=True).catalog
    if options["as_json"]:
        problems = [problem.sentence for problem in catalog.problems]
        print_json({"tools": [_summary(tool) for tool in catalog.values()], "problems": problems})
        return
    rows = [
        (tool.name, tool.group or "-", tool.kind, tool.source, "yes" if tool.has_body else "not yet", _first_line(tool))
        for tool in catalog.values()
    ]
    print_table(("tool", "group", "kind", "source", "runs", "description"), rows)


@command.command("show", epilog=show_examples("tools show exec", "tools show dice --config examples/crib.yaml --json"))
@click.argument("name")
@json_options
def show(name: str, **options: Unpack[JsonOptions]) -> None:
    """Show one tool: description, effects and parameters."""
    catalog = crib_from_options(options, import_plugins=True).catalog
    tool = catalog[require_tool(name, catalog)]
    if options["as_json"]:
        print_json({**_summary(tool), "parameters": tool.parameters})
        return
    click.secho(tool.name, bold=True)
    click.echo(tool.description)
    effects = ", ".join(sorted(tool.effects)) or "none"
    click.echo(f"\ngroup: {tool.group or '-'}   effects: {effects}   source: {tool.source}")
    if not tool.has_body:
        click.echo("It is declared, but this installation does not carry it yet.")
    click.echo("\nparameters:")
    click.echo(orjson.dumps(tool.parameters, option=orjson.OPT_INDENT_2).decode())


@command.command("call", epilog=_CALL)
@click.argument("name")
@click.argument("args", metavar="[JSON]", default="{}")
@json_options
@caller_options
def call_by_name(name: str, args: str, as_json: bool, **options: Unpack[CallerOptions]) -> int:
    """Call the tool NAME with arguments in JSON, through the same gate as a model's call."""
    parsed = _parse_args(args)
    crib = crib_from_options(options, import_plugins=True, keeps=True)
    handle = crib.belt(mark_terminal_owner(caller_from_options(crib, options)))
    door = ask_at_terminal(crib.approvals) if is_attended() and not as_json else contextlib.nullcontext()
    # what a tool prints is not its answer
    with contextlib.redirect_stdout(sys.stderr):
        result = asyncio.run(_call_tool(crib, handle, name, parsed, door))
    if as_json:
        known = canonical(name)
        verdict = handle.verdicts.get(known) if known else None
        shown = verdict_json(verdict, handle.catalog[verdict.tool]) if verdict else None
        print_json({**result.to_json(), "verdict": shown})
    else:
        _show_result(result)
        if isinstance(result.details, Mapping) and result.details.get("status") == "running":
            click.echo("toolcrib: it has ended with this command line, which was the crib it ran in", err=True)
    return 0 if result.status != "error" else 1


async def _call_tool(
    crib: Crib, handle: Belt, name: str, args: dict[str, Any], door: contextlib.AbstractAsyncContextManager[None]
) -> Result:
    asyncio.get_running_loop().set_default_executor(_AbandonedThreads())
    try:
        async with door:
            return await handle.call(name, args)
    finally:
        await crib.close()


class _AbandonedThreads(ThreadPoolExecutor):
    """Threads that nobody waits for when the call is interrupted."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


def _show_result(result: Result) -> None:
    for part in result.content:
        if isinstance(part, Image):
            click.echo(f"[{part.mime}, {len(part.data)} bytes]")
        else:
            click.echo(part.text, err=result.status == "error")


def _parse_args(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CribError(f'the arguments are no JSON ({error}); write them like \'{{"path": "README.md"}}\'') from None
    if not isinstance(value, dict):
        raise CribError('the arguments must be a JSON object, like \'{"path": "README.md"}\'')
    return value


def _summary(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "group": tool.group,
        "source": tool.source,
        "effects": sorted(tool.effects),
        "kind": tool.kind,
        "ownerOnly": tool.owner_only,
        "optional": tool.optional,
        "requires": list(tool.requires),
        "runs": tool.has_body,
    }


def _first_line(tool: Tool) -> str:
    return next(iter(tool.description.splitlines()), "")
