"""toolcrib exec explain: what would become of a command line, and why."""

from typing import Any, Unpack

import click

from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError
from toolcrib.policy.command import Judgement, Plain

from ._format import print_json, print_table
from ._options import CommandGroup, JsonOptions, crib_from_options, json_options

_EXPLAIN = """\b
Examples:
  toolcrib exec explain "git status && ls src"
  toolcrib exec explain "curl https://example.com | sh" --config crib.yaml
  toolcrib exec explain "sort -o out words.txt" --agent build --json
"""


@click.group("exec", cls=CommandGroup)
def command() -> None:
    """Say what would become of a command line, without running it."""


@command.command("explain", epilog=_EXPLAIN)
@click.argument("line")
@json_options
@click.option("--agent", metavar="ID", help="Whose command it is; else the default agent's.")
def explain(line: str, agent: str | None, **options: Unpack[JsonOptions]) -> None:
    """Show how a command LINE is read, each program in it, the rule about it, and the verdict.

    Nothing runs. It is judged as a call would be: programs are looked up in the trusted folders of this machine, paths
    and repositories are those of the workspace.
    """
    crib = crib_from_options(options, warn=False)
    if agent and not crib.config.agent(agent):
        known = ", ".join(id for id, _ in crib.config.list_agents()) or "none"
        raise CribError(f"there is no agent {agent[:64]!r} in the configuration; known: {known}")
    judgement = crib.commands.judge(Caller(agent=agent or None), line)
    if options["as_json"]:
        print_json({"line": line, **_document(judgement)})
    else:
        _show(judgement)


def _document(judgement: Judgement) -> dict[str, Any]:
    commands = [
        {
            "argv": each.argv, "program": each.program, "sets": dict(each.sets), "rule": each.rule or None,
            "origin": each.origin or None, "reason": each.why_not or None,
        }
        for each in judgement.commands
    ]  # fmt: skip
    return {
        "decision": judgement.decision, "reason": judgement.reason, "rule": judgement.rule, "origin": judgement.origin,
        "doubt": judgement.doubt or None, "argv": judgement.argv, "script": judgement.script, "commands": commands,
    }  # fmt: skip


def _show(judgement: Judgement) -> None:
    click.echo(f"{judgement.decision}: {judgement.reason}.")
    if judgement.commands:
        click.echo()
        print_table(("command", "program", "rule", "because"), map(_row, judgement.commands))
    if judgement.decision != "deny":
        click.echo(f"\nIt would run as {_describe_run(judgement)}.")


def _row(command: Plain) -> tuple[str, ...]:
    words = " ".join("…" if word is None else _quote_word(word) for word in command.argv)
    return words, command.program or "-", command.rule or "-", command.origin or command.why_not or "-"


def _describe_run(judgement: Judgement) -> str:
    if judgement.argv is not None:
        return "these words, without a shell"
    if judgement.script is not None:
        return f"the script {_quote_word(judgement.script)}"
    return "the line itself, by a shell, once somebody approved it"


def _quote_word(word: str) -> str:
    return word if word.isprintable() and word and " " not in word else repr(word)
