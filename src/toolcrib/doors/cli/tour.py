"""toolcrib tour: what explain answers, shown on a sample configuration or on one's own."""

import shlex
from importlib.resources import as_file, files
from typing import Unpack

import click

from toolcrib.app import Crib, open
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.policy.explain import COLUMNS, explain_rows, explain_sentence

from ._format import print_table
from ._options import ConfigOptions, config_options, crib_from_options, show_examples

_STRANGER, _OWNER = Sender(id="7"), Sender(id="1000")

# who asks, what the sample says to that, as whom, about which tools, and the options that ask the same
_STOPS: tuple[tuple[str, str, Caller, tuple[str, ...], str], ...] = (
    (
        "You, at this terminal: the owner.",
        "Writing and running ask first.",
        OWNER,
        ("read", "write", "exec", "gateway", "nodes"),
        "",
    ),
    (
        "A stranger who mentions the bot in some group.",
        "",
        Caller(channel="telegram", group="-1", sender=_STRANGER),
        ("web_search", "read", "exec", "gateway"),
        "--channel telegram --group -1 --sender id:7",
    ),
    (
        "The owner, in the same group:",
        "recognised by id, never by name.",
        Caller(channel="telegram", group="-1", sender=_OWNER),
        ("web_search", "read", "exec", "gateway"),
        "--channel telegram --group -1 --sender id:1000",
    ),
    (
        "A group called -100ops:",
        "operations may run commands ...",
        Caller(channel="telegram", group="-100ops", sender=_STRANGER),
        ("exec", "message", "gateway"),
        "--channel telegram --group -100ops --sender id:7",
    ),
    (
        "A group called -100help:",
        "... and customers only get answers.",
        Caller(channel="telegram", group="-100help", sender=_STRANGER),
        ("exec", "message", "web_fetch"),
        "--channel telegram --group -100help --sender id:7",
    ),
    (
        "A subagent:",
        "never more than its parent, and nothing that steers it.",
        Caller(owner=True, parents=("main",)),
        ("read", "sessions_send", "cron", "memory_search"),
        "--parent main",
    ),
    (
        "In the sandbox:",
        "files and commands, nothing that reaches out.",
        Caller(owner=True, sandboxed=True),
        ("read", "exec", "browser", "cron"),
        "--sandboxed",
    ),
    (
        "A small model:",
        "not trusted with a browser or a shell.",
        Caller(owner=True, provider="ollama", model="tiny"),
        ("read", "browser", "exec"),
        "--model ollama:tiny",
    ),
)


@click.command("tour", epilog=show_examples("tour", "tour | less -R", "tour --config crib.yaml"))
@config_options
def command(**options: Unpack[ConfigOptions]) -> None:
    """Walk through `toolcrib explain`: eight callers, every answer with its reason.

    The rules are those of a sample, or with --config your own.
    """
    if options["config"] is not None:
        _walk(crib_from_options(options), options["config"], is_sample=False)
        return
    with as_file(files("toolcrib.doors.cli") / "sample.yaml") as sample:
        click.secho("toolcrib decides who may use which tool, and says why.", bold=True)
        click.echo(f"The rules of this tour stand in {sample}\n")
        _walk(open(sample), sample.name, is_sample=True)
    click.echo("\nNext: copy that file, change a line, and ask again:")
    click.echo("   toolcrib explain --config crib.yaml --channel telegram --group -1 --sender id:7")
    click.echo("   toolcrib lint --config crib.yaml")


def _walk(crib: Crib, file: str, *, is_sample: bool) -> None:
    for number, (who, remark, caller, tools, options) in enumerate(_STOPS, 1):
        words = f"{who} {remark}".strip() if is_sample else who.rstrip(":")
        click.secho(f"{number}. {words}", bold=True)
        verdicts = crib.belt(caller).verdicts
        print_table(COLUMNS, explain_rows(verdicts[name] for name in tools), colour=1)
        click.secho(f"   toolcrib explain --config {shlex.quote(file)} {options}".rstrip() + "\n", dim=True)
    click.secho("One tool in full:", bold=True)
    stranger = crib.belt(_STOPS[1][2])
    click.echo(f"   {explain_sentence(stranger.verdicts['exec'])}.\n")
    findings = [finding for finding in crib.lint() if finding.level != "note"]
    broken = sum(finding.kind == "expect" for finding in findings)
    holding = len(crib.config.expect) - broken
    click.echo(f"lint: {holding} expectations hold, {len(findings)} findings.")
