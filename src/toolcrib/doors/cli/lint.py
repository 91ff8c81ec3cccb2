"""toolcrib lint: rules that do not do what they seem to."""

from dataclasses import asdict
from pathlib import Path
from typing import Unpack

import click

from toolcrib.config.load import Loaded, load
from toolcrib.define.errors import CribError
from toolcrib.policy.lint import LEVELS, Level

from ._format import print_json, print_table
from ._options import ConfigOptions, JsonOptions, crib_from_options, json_options, load_tools, tools_option

_EXAMPLES = """\b
Examples:
  toolcrib lint --config crib.yaml
  toolcrib lint --config openclaw.json --json
  toolcrib lint --provider gemini
  toolcrib lint --tools shop.tools:TOOLS
  toolcrib lint --config openclaw.json --expect promises.yaml --level warning
"""


@click.command("lint", epilog=_EXAMPLES)
@json_options
@click.option("--provider", metavar="P", help="Also list what this provider cannot express of the tools' parameters.")
@tools_option
@click.option("--level", type=click.Choice(LEVELS), default="note", help="Leave out what weighs less than that.")
@click.option("--expect", metavar="FILE", help="A file of promises (`expect: [..]`) beside the configuration.")
def command(
    provider: str | None, tools: str | None, level: Level, expect: str | None, **options: Unpack[JsonOptions]
) -> int:
    """Find unknown, dead, shadowed, empty, plugin-only and widening rules, dropped denies and failed expectations.

    The heaviest come first. Leaves with 1 when there is an error or a warning; notes alone leave with 0.
    """
    crib = crib_from_options(
        ConfigOptions(config=options["config"], read_as=options["read_as"], ignore=None), warn=False, fills=True
    )  # findings report it
    shown = LEVELS[: LEVELS.index(level) + 1]
    found = crib.lint(provider, tools=load_tools(tools), expect=load_promises(expect))
    findings = sorted((each for each in found if each.level in shown), key=lambda each: LEVELS.index(each.level))
    failing = [finding for finding in findings if finding.level != "note"]
    counts = {each: count for each in shown if (count := sum(found.level == each for found in findings))}
    if options["as_json"]:
        print_json({"findings": [asdict(finding) for finding in findings], "failing": len(failing)})
    elif findings:
        rows = [(f.level, f.kind, f.origin, f"{f.message}; {f.remedy}") for f in findings]
        print_table(("level", "kind", "where", "what"), rows, colour=0)
        if len(findings) > 1:
            click.echo(", ".join(f"{count} {each}{'s' * (count > 1)}" for each, count in counts.items()))
    else:
        click.echo("nothing to complain about")
    return 1 if failing else 0


def load_promises(file: str | None) -> Loaded | None:
    """Return what a file of promises holds; CribError when it says anything else, which nobody would heed."""
    if file is None:
        return None
    found = load(Path(file), openclaw=False)
    if others := sorted(set(found.document.value) - {"expect"}):
        raise CribError(f"{file}: {others[0]} has no place in a file of promises; only expect is read there")
    return found
