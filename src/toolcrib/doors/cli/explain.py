"""toolcrib explain: who may use which tool, and why."""

from typing import Unpack

import click

from toolcrib.policy.explain import COLUMNS, caller_json, explain_json, explain_rows, explain_sentence
from toolcrib.policy.resolve import mark_terminal_owner, resolve

from ._format import print_json, print_table
from ._options import (
    CallerOptions,
    caller_from_options,
    caller_options,
    config_options,
    crib_from_options,
    json_option,
    load_tools,
    require_tool,
    tools_option,
)

_EXAMPLES = """\b
Examples:
  toolcrib explain --config crib.yaml
  toolcrib explain exec --config crib.yaml --sender id:7 --channel telegram --group -100123
  toolcrib explain --config crib.yaml --parent main --json
  toolcrib explain price --tools shop.tools:TOOLS
"""


class _Options(CallerOptions):
    tools: str | None


@click.command("explain", epilog=_EXAMPLES)
@click.argument("tool", required=False)
@config_options
@caller_options
@tools_option
@json_option
def command(tool: str | None, **options: Unpack[_Options]) -> int:
    """Say for every tool (or one TOOL) whether a caller may use it, which layer decided, and what would change it.

    Without options the caller is the owner at this terminal.
    """
    crib = crib_from_options(options, fills=True)
    caller = mark_terminal_owner(caller_from_options(crib, options))
    handle = crib.belt(caller, load_tools(options["tools"]))
    only = require_tool(tool, handle.verdicts) if tool is not None else None
    if options["as_json"]:
        who = resolve(crib.loaded.policy, caller)
        told = caller_json(caller, owner=who.is_owner, sandboxed=who.is_sandboxed, agent=who.agent)
        print_json(explain_json(told, handle.selection, handle.catalog.tools, only))
    elif only is None:
        print_table(COLUMNS, explain_rows(handle.verdicts.values()), colour=1)
    else:
        click.echo(explain_sentence(handle.verdicts[only]) + ".\n")
        rows = [(step.layer, step.decision, step.rule or "-", step.origin or "-") for step in handle.steps(only)]
        print_table(("layer", "says", "rule", "origin"), rows, colour=1)
    return 0
