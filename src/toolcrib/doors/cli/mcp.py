"""toolcrib mcp: your tools for MCP clients."""

from typing import Unpack

import click

from toolcrib.define.errors import CribError
from toolcrib.policy.resolve import mark_terminal_owner
from toolcrib.policy.settings import PROFILES

from ._options import CallerOptions, caller_from_options, caller_options, config_options, crib_from_options
from .mcp_servers import COMMANDS

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  toolcrib mcp serve
  toolcrib mcp serve --profile coding --http 8808
  toolcrib mcp list
  toolcrib mcp accept github create_issue
"""
_SERVE = """\b
Examples:
  toolcrib mcp serve
  toolcrib mcp serve --config crib.yaml --agent helper --profile coding
  TOOLCRIB_MCP_TOKEN=sixteen-characters-or-more toolcrib mcp serve --http 8808
"""


class _ServeOptions(CallerOptions):
    """What `serve` takes."""

    profile: str | None
    http: int | None
    ask: bool


@click.group("mcp", epilog=_EXAMPLES)
def command() -> None:
    """Give your tools to MCP clients, and use the tools of MCP servers."""


for each in COMMANDS:
    command.add_command(each)


@command.command("serve", epilog=_SERVE)
@config_options
@caller_options
@click.option("--profile", type=click.Choice(list(PROFILES)), help="Serve nothing that is not in this profile.")
@click.option("--http", type=click.IntRange(0, 65535), metavar="PORT", help="Serve on 127.0.0.1; 0 is a free port.")
@click.option("--ask", is_flag=True, help="Let calls that need a yes wait for `toolcrib approvals`.")
def serve(**options: Unpack[_ServeOptions]) -> int:
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
    token = None if options["http"] is None else token_from_environment()
    # what a plugin prints while it is loaded, and what a tool prints, is not part of the protocol
    with wire(options["http"]) as line:
        crib = crib_from_options(options, import_plugins=True, keeps=True)
        caller, profile = mark_terminal_owner(caller_from_options(crib, options)), options["profile"]
        serving = Serving(crib, lambda: crib.belt(caller, profile=profile), asks=options["ask"])
        return serving.run(line, token)
