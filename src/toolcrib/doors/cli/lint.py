"""toolcrib lint: rules that do not do what they seem to."""

from dataclasses import asdict
from typing import Unpack

import click

from ._format import print_json, print_table
from ._options import JsonOptions, config_options, crib_from_options, json_option, load_tools, tools_option

_EXAMPLES = """\b
Examples:
  toolcrib lint --config crib.yaml
  toolcrib lint --config openclaw.json --json
  toolcrib lint --provider gemini
  toolcrib lint --tools shop.tools:TOOLS
"""


class _Options(JsonOptions):
    provider: str | None
    tools: str | None


@click.command("lint", epilog=_EXAMPLES)
@config_options
@click.option(
    "--provider", metavar="P", help="Also tell what this provider cannot be told about the tools' parameters."
)
@tools_option
@json_option
def command(**options: Unpack[_Options]) -> int:
    """Find unknown, dead, shadowed, empty, plugin-only and widening rules, dropped denies and failed expectations.

    Leaves with 1 when there is an error or a warning; notes alone leave with 0.
    """
    crib = crib_from_options(options, told=False, fills=True)
    findings = crib.lint(options["provider"], tools=load_tools(options["tools"]))
    failing = [finding for finding in findings if finding.level != "note"]
    if options["as_json"]:
        print_json({"findings": [asdict(finding) for finding in findings], "failing": len(failing)})
    elif findings:
        rows = [(f.level, f.kind, f.origin, f"{f.message}; {f.remedy}") for f in findings]
        print_table(("level", "kind", "where", "what"), rows, colour=0)
    else:
        click.echo("nothing to complain about")
    return 1 if failing else 0
