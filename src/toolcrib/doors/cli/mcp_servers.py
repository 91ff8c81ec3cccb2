"""toolcrib mcp list, toolcrib mcp accept: other people's MCP servers, and a yes to what they declare anew."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import click
import orjson

from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError
from toolcrib.define.mcp import Definition
from toolcrib.define.names import nearest

from ._calls import flat
from ._options import Ask, ConfigOptions, ask_owner, config_options, json_option, with_owner
from ._show import print_json, print_table

__all__ = ["COMMANDS"]

_PATIENCE = 30.0  # seconds for all servers to answer
_LIST = """\b
Examples:
  toolcrib mcp list
  toolcrib mcp list --config crib.yaml --json
"""
_ACCEPT = """\b
Examples:
  toolcrib mcp accept github
  toolcrib mcp accept github create_issue
  toolcrib mcp accept github --yes
"""


class _Listed(ConfigOptions):
    """What `list` takes."""

    as_json: bool


class _Accepted(ConfigOptions):
    """What `accept` takes."""

    yes: bool


@click.command("list", epilog=_LIST)
@config_options
@json_option
def list_(**options: Unpack[_Listed]) -> int:
    """Connect to every MCP server of the configuration, and list its tools and what is wrong.

    What a server offers when it is first seen is accepted. Exit code 1 when something is wrong.
    """

    found = ask_owner(options, "mcp.list", {"wait": _PATIENCE})
    servers, faults = found["servers"], found["problems"]
    if options["as_json"]:
        print_json(found)
    else:
        _print(servers, faults)
    return 1 if faults or any(each["problems"] or each["state"] != "connected" for each in servers) else 0


@click.command("accept", epilog=_ACCEPT)
@click.argument("server")
@click.argument("tool", required=False, default="")
@click.option("--yes", is_flag=True, help="Accept without being asked.")
@config_options
def accept(server: str, tool: str, **options: Unpack[_Accepted]) -> int:
    """Show what an MCP server declares otherwise than before, and accept it: one TOOL, or all of them.

    TOOL is the tool as its server calls it. Exactly what is shown is accepted.
    """

    async def look(ask: Ask) -> int:
        changes = _choose(await ask("mcp.changes", {"server": server}), server, tool)
        for change in changes:
            click.echo("\n".join(_show_change(change)))
        if not changes:
            click.echo(f"nothing of the MCP server {server!r} waits to be accepted")
        elif options["yes"] or click.confirm(f"Accept {len(changes)} of {server}?"):
            for each in changes:
                await ask("mcp.accept", {"server": server, "tool": each["tool"], "digest": each["digest"]})
            click.echo(f"accepted: {', '.join(flat(change['tool']) for change in changes)}")
        else:
            click.echo("nothing was accepted")
            return 1
        return 0

    return with_owner(options, look)


COMMANDS: Sequence[click.Command] = (list_, accept)


def _choose(found: dict[str, Any], server: str, tool: str) -> list[dict[str, Any]]:
    """Return what is to be accepted; raise CribError when there is no such tool."""
    changes = [change for change in found["changes"] if tool in ("", change["tool"])]
    if tool and not changes and tool not in found["tools"]:
        close = nearest(tool[:64], found["tools"])
        hint = f"did you mean {close[0]!r}?" if close else "`toolcrib mcp list` shows what there is"
        raise CribError(f"the MCP server {server!r} offers no tool {tool[:64]!r}; {hint}")
    return changes


def _print(found: Sequence[dict[str, Any]], faults: Sequence[str]) -> None:
    if not found:
        click.echo("the configuration has no mcpServers")
    rows = [
        (escape_controls(each["server"]), tool["name"], flat(tool["tool"]), tool["standing"])
        for each in found
        for tool in each["tools"]
    ]
    if rows:
        print_table(("server", "tool", "as the server calls it", "standing"), rows)
    for each in found:
        about = f" ({escape_controls(each['about'])})" if each["about"] else ""
        click.echo(f"{escape_controls(each['server'])}: {each['state']}{about}")
        for said in each.get("said", "").splitlines()[-5:] if each["state"] != "connected" else ():
            click.echo(f"  it wrote: {escape_controls(said)}")
    for sentence in (*faults, *(sentence for each in found for sentence in each["problems"])):
        click.echo(f"toolcrib: {escape_controls(sentence)}", err=True)


def _show_change(change: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that tell what differs: nothing of a definition is left out, nothing in it is obeyed."""
    yield click.style(f"{flat(change['tool'])} ({change['standing']})", bold=True)
    before = [] if change["before"] is None else _lines(change["before"])
    for line in difflib.unified_diff(before, _lines(change["after"]), n=2, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            colour = {"+": "green", "-": "red"}.get(line[:1])
            yield click.style(f"  {escape_controls(line)}", fg=colour)


def _lines(definition: Definition) -> list[str]:
    text = orjson.dumps(definition, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
    return text.splitlines()
