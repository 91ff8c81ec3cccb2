"""The command line's front door: subcommands are loaded when they are called, errors become one sentence."""

import os
import sys
from importlib import import_module

import click

from toolcrib import __version__
from toolcrib.define.errors import CribError
from toolcrib.define.names import nearest
from toolcrib.lazy import regex

from . import EXIT_INTERRUPTED

# each is a module of this name; its line of help stands here so that --help imports nothing
_COMMANDS = {
    "accept": "Accept programs, plugins and scripts of a workspace as they are.",
    "agents": "List and show subagents, and accept those of a workspace.",
    "approvals": "Answer questions about calls, and see what was granted.",
    "audit": "Check the record of calls, and see what is in it.",
    "channels": "See where people write to the assistant, let them in, write to them.",
    "chat": "Talk at the terminal, with the tools you may use.",
    "config": "Show the configuration in force, and its schema for editors.",
    "cron": "List, make, change and run jobs that a gateway runs later.",
    "demo": "Watch an agent build a landing page, check it and mend it.",
    "doctor": "Say what is missing on this machine, and how to get it.",
    "exec": "Say what would become of a command line.",
    "explain": "Say who may use which tool, and why.",
    "init": "Write a sample configuration to begin with.",
    "lint": "Find rules that do not do what they seem to.",
    "gateway": "Serve sessions and tools to terminals, pages and programs.",
    "mcp": "Give your tools to MCP clients, and use the tools of MCP servers.",
    "memory": "Look at what an agent remembers, and search in it.",
    "node": "Let a gateway use this machine: commands, camera, screen, notifications.",
    "nodes": "See, pair and use devices that do things for a gateway.",
    "plugins": "List, add and remove plugins.",
    "policy": "Try rules before they count: compare, test, prove.",
    "run": "Answer a message with the tools you may use.",
    "say": "Speak a text aloud, or into a file.",
    "sessions": "List, show, export and import what is kept of conversations.",
    "skills": "List, show, add and remove skills.",
    "tools": "List, show and call tools.",
    "tour": "A guided tour of explain on a sample configuration.",
    "who": "Say of every caller that a file tells apart whether a tool is theirs.",
}

_EXAMPLES = """\b
Examples:
  toolcrib chat
  toolcrib tour
  toolcrib run "list the files in src"
  toolcrib explain --config crib.yaml --channel telegram --group -100123 --sender id:7
  toolcrib explain exec --config crib.yaml --json
  toolcrib lint --config crib.yaml
  toolcrib tools call grep '{"pattern": "TODO"}'
  toolcrib exec explain "git status && rm -rf build"
"""


class _Lazy(click.Group):
    """A group that imports a subcommand only when it is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        home = {"plugins": "skills", "who": "policy"}.get(cmd_name, cmd_name)  # two commands of one module
        module = import_module(f".{home}", __package__)
        command: click.Command = getattr(module, cmd_name, module.command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_Lazy, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="toolcrib %(version)s")
def cli() -> None:
    """The tool system an agent needs: decide who may use which tool, and say why.

    Exit codes: 0 good; 1 findings, a denied or failed call; 2 bad input or configuration; 130 interrupted.
    """


def main() -> None:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a real stream, not a test's
    if any(not word.startswith("-") for word in sys.argv[1:2]):  # --version and --help keep nothing
        import_module("._log", __package__).keep_log()
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # whoever read our output is gone: keep the interpreter from complaining about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if code == EXIT_INTERRUPTED:
        os._exit(code)  # a tool's thread may still be busy, and nobody waits for it any more
    sys.exit(code)


_NO_COMMAND = regex(r"No such command '(.*)'")


def run(args: list[str]) -> int:
    """Run one command and return its exit code; an error is one sentence on stderr."""
    try:
        return _run(args)
    except BrokenPipeError:
        return 0  # whoever read our output has seen enough
    except OSError as error:
        what = ": ".join(str(part)[:200] for part in (error.filename, error.strerror) if part)
        click.echo(f"toolcrib: could not finish ({what or error})", err=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("toolcrib: interrupted", err=True)
        return EXIT_INTERRUPTED


def _run(args: list[str]) -> int:
    try:
        # no-color.org: any value but an empty one
        with cli.make_context("toolcrib", list(args), color=False if os.environ.get("NO_COLOR") else None) as ctx:
            code = cli.invoke(ctx)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        click.echo(f"toolcrib: {_usage(error)}", err=True)
        return error.exit_code
    except CribError as error:
        click.echo(f"toolcrib: {error}", err=True)
        return 2
    return code if isinstance(code, int) else 0


def _usage(error: click.UsageError) -> str:
    """Return what is wrong with the command's words in one sentence, with the nearest word that would work."""
    ctx = error.ctx
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        known = [name for param in ctx.command.get_params(ctx) for name in (*param.opts, *param.secondary_opts)]
        meant = nearest(error.option_name, [name for name in known if name.startswith("--")])
        what = f"there is no option {error.option_name!r}"
    elif (found := _NO_COMMAND.match(error.message)) and ctx is not None and isinstance(ctx.command, click.Group):
        meant = nearest(found[1], ctx.command.list_commands(ctx))
        what = f"there is no command {found[1]!r}"
    else:
        meant, what = [], error.format_message().rstrip(".")
        what = what[:1].lower() + what[1:]
    help = f"`{ctx.command_path if ctx else 'toolcrib'} --help` shows what it takes"
    return f"{what}; did you mean {meant[0]!r}?" if meant else f"{what}; {help}"


if __name__ == "__main__":
    main()
