"""toolcrib mcp: your tools for MCP clients, other people's MCP servers, and a yes to what they declare anew."""

import difflib
import os
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

import click
import orjson

from toolcrib.app.belt import Belt
from toolcrib.app.terms import terms_of
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError
from toolcrib.define.mcp import Definition
from toolcrib.define.names import suggest
from toolcrib.define.tool import Tool
from toolcrib.policy.resolve import mark_terminal_owner
from toolcrib.policy.settings import PROFILES
from toolcrib.services.mcp import ServerTools

from ._format import flatten, print_json, print_table
from ._loop import run_loop
from ._options import (
    AskService,
    CallerOptions,
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    ask_owner,
    caller_from_options,
    caller_options,
    config_options,
    crib_from_options,
    is_attended,
    with_owner,
)

T = TypeVar("T")
_SERVE = """\b
Examples:
  toolcrib mcp serve
  toolcrib mcp serve --config crib.yaml --agent helper --profile coding
  TOOLCRIB_MCP_TOKEN=sixteen-characters-or-more toolcrib mcp serve --http 8808
"""
_SERVER_SECONDS = 30.0  # seconds for all servers to answer
_ACCEPT = """\b
Examples:
  toolcrib mcp accept github
  toolcrib mcp accept github create_issue
  toolcrib mcp accept github --yes
"""


@click.group("mcp", cls=CommandGroup)
def command() -> None:
    """Give your tools to MCP clients, and use the tools of MCP servers."""


@command.declare("list", "mcp list", "mcp list --config crib.yaml --json")
def list_(**options: Unpack[JsonOptions]) -> int:
    """Connect to every MCP server of the configuration, and list its tools and what is wrong.

    What a server offers when it is first seen is accepted. Exit code 1 when something is wrong.
    """

    found = ask_owner(options, "mcp.list", {"wait": _SERVER_SECONDS})
    servers, faults = found["servers"], found["problems"]
    if options["as_json"]:
        print_json(found)
    else:
        _print(servers, faults)
    return 1 if faults or any(each["problems"] or each["state"] != "connected" for each in servers) else 0


@command.command("accept", epilog=_ACCEPT)
@click.argument("server")
@click.argument("tool", required=False, default="")
@click.option("--yes", is_flag=True, help="Accept without being asked.")
@config_options
def accept(server: str, tool: str, yes: bool, **options: Unpack[ConfigOptions]) -> int:
    """Show what an MCP server declares otherwise than before, and accept it: one TOOL, or all of them.

    TOOL is the tool as its server calls it. Exactly what is shown is accepted.
    """

    async def look(ask: AskService) -> int:
        changes = _choose(await ask("mcp.changes", {"server": server}), server, tool)
        for change in changes:
            click.echo("\n".join(_show_change(change)))
        if not changes:
            click.echo(f"nothing of the MCP server {server!r} waits to be accepted")
        elif yes or click.confirm(f"Accept {len(changes)} of {server}?"):
            for each in changes:
                await ask("mcp.accept", {"server": server, "tool": each["tool"], "digest": each["digest"]})
            click.echo(f"accepted: {', '.join(flatten(change['tool']) for change in changes)}")
        else:
            click.echo("nothing was accepted")
            return 1
        return 0

    return with_owner(options, look)


@command.declare("login", "mcp login weather", "mcp logout weather", options=config_options)
@click.argument("server")
def login(server: str, **options: Unpack[ConfigOptions]) -> int:
    """Sign in to an MCP server that the configuration names with auth: oauth.

    You are sent to a page of the server's, in a browser where there is one here. What it gives is kept in the state
    folder, for this server alone, and renewed by itself.
    """

    def show(url: str) -> None:
        click.echo(f"Sign in here (waiting five minutes; Ctrl-C stops it):\n  {escape_controls(url)}", err=True)
        if is_attended() and (sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()):
            webbrowser.open(url)

    about = _with_server_tools(options, lambda tools: tools.sign_in(server, show))
    click.echo(f"{escape_controls(server)}: signed in ({escape_controls(about)})")
    return 0


@command.declare("logout", "mcp logout weather", options=config_options)
@click.argument("server")
def logout(server: str, **options: Unpack[ConfigOptions]) -> int:
    """Forget the token for an MCP server. It stays valid elsewhere until it expires: nothing is sent to the server."""

    async def forget(tools: ServerTools) -> bool:
        return tools.sign_out(server)

    had = _with_server_tools(options, forget)
    click.echo(f"{escape_controls(server)}: {'signed out' if had else 'nobody was signed in'}")
    return 0


def _with_server_tools(options: ConfigOptions, talk: Callable[[ServerTools], Awaitable[T]]) -> T:
    async def main() -> T:
        crib = crib_from_options(options, keeps=True, warn=False)
        try:  # not `async with`: that would start the MCP servers
            return await talk(crib.mcp_tools)
        finally:
            await crib.close()

    return run_loop(main())


def _choose(found: dict[str, Any], server: str, tool: str) -> list[dict[str, Any]]:
    """Return what is to be accepted; raise CribError when there is no such tool."""
    changes = [change for change in found["changes"] if tool in ("", change["tool"])]
    if tool and not changes and tool not in found["tools"]:
        hint = suggest(tool, found["tools"], "`toolcrib mcp list` shows what there is")
        raise CribError(f"the MCP server {server!r} offers no tool {tool[:64]!r}{hint}")
    return changes


def _print(found: Sequence[dict[str, Any]], faults: Sequence[str]) -> None:
    if not (found or faults):
        click.echo("the configuration has no mcpServers")
    rows = [
        (escape_controls(each["server"]), tool["name"], flatten(tool["tool"]), tool["standing"])
        for each in found
        for tool in each["tools"]
    ]
    if rows:
        print_table(("server", "tool", "as the server calls it", "standing"), rows)
    for each in found:
        about = f" ({escape_controls(each['about'])})" if each["about"] else ""
        click.echo(f"{escape_controls(each['server'])}: {each['state']}{about}")
        for line in each.get("said", "").splitlines()[-5:] if each["state"] != "connected" else ():
            click.echo(f"  it wrote: {escape_controls(line)}")
    for sentence in (*faults, *(sentence for each in found for sentence in each["problems"])):
        click.echo(f"toolcrib: {escape_controls(sentence)}", err=True)


def _show_change(change: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that tell what differs: nothing of a definition is left out, nothing in it is obeyed."""
    yield click.style(f"{flatten(change['tool'])} ({change['standing']})", bold=True)
    before = [] if change["before"] is None else _lines(change["before"])
    for line in difflib.unified_diff(before, _lines(change["after"]), n=2, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            colour = {"+": "green", "-": "red"}.get(line[:1])
            yield click.style(f"  {escape_controls(line)}", fg=colour)


def _lines(definition: Definition) -> list[str]:
    text = orjson.dumps(definition, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
    return text.splitlines()


@command.command("serve", epilog=_SERVE)
@config_options
@caller_options
@click.option("--profile", type=click.Choice(list(PROFILES)), help="Serve nothing that is not in this profile.")
@click.option("--http", type=click.IntRange(0, 65535), metavar="PORT", help="Serve on 127.0.0.1; 0 is a free port.")
@click.option("--ask", is_flag=True, help="Let calls that need a yes wait for `toolcrib approvals`.")
def serve(profile: str | None, http: int | None, ask: bool, **options: Unpack[CallerOptions]) -> int:
    """Serve the tools that a caller may use to MCP clients, over stdin and stdout or over HTTP.

    The caller is you, the owner, unless the options say who. A call that needs a person's yes is refused where nobody
    can be asked; with --ask it waits until `toolcrib approvals` answers it, and over HTTP you are asked at the terminal
    this runs in. Every client over HTTP has to show the token in $TOOLCRIB_MCP_TOKEN; where that is not set, one is
    made up and printed.

    Exit codes: 0 the client is gone; 2 bad input or configuration; 130 interrupted.
    """
    try:
        from ._mcp_serving import Serving, token_from_environment, wire  # noqa: PLC0415  the SDK takes a second to load
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "toolcrib":
            raise
        needs = f"`toolcrib mcp serve` needs the package {package}"
        raise CribError(f"{needs}; install it with: pip install 'toolcrib[mcp]'") from None
    token = None if http is None else token_from_environment()
    # what a plugin prints while it is loaded, and what a tool prints, is not part of the protocol
    with wire(http) as line:
        crib = crib_from_options(options, import_plugins=True, keeps=True)
        caller = mark_terminal_owner(caller_from_options(crib, options))
        refusal = terms_of(crib.loaded)(caller).refusal
        if refusal:
            click.echo(f"toolcrib: {refusal}. Tools for files and commands are not served.", err=True)

        def find_belt(extra: Sequence[Tool]) -> Belt:
            belt = crib.belt(caller, extra, profile=profile)
            tools = {each: tool for each, tool in belt.tools.items() if tool.group not in ("fs", "runtime")}
            return replace(belt, selection=replace(belt.selection, tools=tools)) if refusal else belt

        serving = Serving(crib, find_belt, asks=ask)
        return run_loop(serving.run(line, token))
