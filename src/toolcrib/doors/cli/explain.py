"""toolcrib explain: who may use which tool, and why."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, get_args

import click

from toolcrib.client import GatewayClient
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError
from toolcrib.define.log import read_sources
from toolcrib.define.quota import MEASURES
from toolcrib.define.verdict import Decision, Verdict
from toolcrib.define.web import WayOut
from toolcrib.policy.explain import COLUMNS, explain_rows, explain_sentence
from toolcrib.policy.resolve import mark_terminal_owner
from toolcrib.services.effective import Asked
from toolcrib.services.toolbox import describe_tool

from ._format import format_time, print_json, print_table
from ._log import state_folder
from ._loop import run_loop
from ._options import (
    ABOUT_NOBODY,
    CallerOptions,
    caller_from_options,
    caller_options,
    crib_from_options,
    load_tools,
    parse_args,
    require_tool,
    service_options,
    tools_option,
)
from ._remote import find_answering
from .cron import ask_about_job

if TYPE_CHECKING:
    from toolcrib.app import Belt

_EXAMPLES = """\b
Examples:
  toolcrib explain --config crib.yaml
  toolcrib explain exec --config crib.yaml --sender id:7 --channel telegram --group -100123
  toolcrib explain --config crib.yaml --parent main --json
  toolcrib explain price --tools shop.tools:TOOLS
  toolcrib explain write --args '{"path": "docs/plan.md"}'
  toolcrib explain exec --job 3f9c2a7b10de
"""
_SHOWN = ("caller", "tools", "steps", "quota", "afterOutside", "taint", "later")
_CLOCK = "%Y-%m-%d %H:%M"
_RANKS = get_args(Decision)  # the strictest last


@click.command("explain", epilog=_EXAMPLES)
@click.argument("tool", required=False)
@service_options
@caller_options
@tools_option
@click.option("--args", "given", metavar="JSON", help="As if TOOL were called with these arguments.")
@click.option("--job", metavar="ID", help="What this job may use: what its author had, has today, and it leaves.")
def command(
    tool: str | None,
    tools: str | None,
    job: str | None,
    given: str | None,
    as_json: bool,
    **options: Unpack[CallerOptions],
) -> None:
    """Say for every tool (or one TOOL) whether a caller may use it, which layer decided, and what would change it.

    Without options the caller is the owner at this terminal. Routes of an OpenClaw file (bindings, dmScope), and whom
    it admits, are followed; what cannot be followed is listed.
    """
    args = None if given is None else parse_args(given)
    if args is not None and (tool is None or job is not None):
        raise CribError("--args is about a call of one TOOL; name it, and leave out --job")
    if job is not None:
        report = _explain_job(job, tool, options)
    else:
        report = _explain_far(tool, options, tools, args) or _explain_here(tool, options, tools, args)
    if as_json:
        print_json(report)
        return
    verdicts = [Verdict(**{each.name: row[each.name] for each in fields(Verdict)}) for row in report["tools"]]
    if tool is not None:
        click.echo(explain_sentence(verdicts[0]) + ".")
        if "later" in report:
            click.echo(f"A model gets it once {report['later']}.")
        _tell_conditions(report, has_args=args is not None)
    if "taint" in report:
        click.echo(f"This conversation holds content from {', '.join(map(escape, report['taint']))}.")
    for other in report.get("shadow", ()):
        click.secho(f"On trial (policy.shadow) {explain_sentence(Verdict(**other))}.", fg="yellow")
    if untried := report.get("shadowBeside"):
        click.secho(f"Not on trial, though other there: {', '.join(untried)}.", fg="yellow")
    doubts = [f"Not answered there: {why}." for why in filter(None, [report.get("why")])]
    for doubt in (*doubts, *(f"Not certain: {doubt}." for doubt in report.get("uncertain", ()))):
        click.secho(doubt, fg="yellow")
    if tool is None:
        print_table(COLUMNS, explain_rows(verdicts), colour=1)
    else:
        click.echo()
        rows = [(row["layer"], row["decision"], row["rule"] or "-", row["origin"] or "-") for row in report["steps"]]
        print_table(("layer", "says", "rule", "origin"), rows, colour=1)
        for quota in report.get("quota", ()):
            click.echo(_describe_quota(quota))


def _tell_conditions(report: Mapping[str, Any], *, has_args: bool) -> None:
    """Say on what else the verdict depends: on its arguments, and on what was read before."""
    for each in report["tools"][0].get("conditions", ()) if not has_args else ():
        click.echo(f"By its arguments: {each['decision']} by {each['rule']} ({each['origin']}).")
    for each in report.get("afterOutside", ()):
        word = "denied" if each["decision"] == "deny" else "asked about"
        click.echo(f"After content from {escape(each['taint'])} it is {word} ({each['origin']}).")


def _describe_quota(quota: dict[str, Any]) -> str:
    left = ", ".join(
        f"{quota[name]['left']:g} of {quota[name]['limit']:g} {name}" for name in MEASURES if name in quota
    )
    return f"{quota['origin']}: {left} left this {quota['per']}, all again at {format_time(quota['freeAt'], _CLOCK)}"


def _explain_job(job: str, tool: str | None, options: CallerOptions) -> dict[str, Any]:
    """Return the verdicts for a job."""
    if named := [name for name, value in options.items() if value and name not in ABOUT_NOBODY]:
        raise CribError(f"--job says who it is about; leave out --{named[0]}")
    report: dict[str, Any] = ask_about_job(options, job, "cron.explain")
    if tool is not None:
        name = require_tool(tool, [each["tool"] for each in report["tools"]], report["tools"])
        report = ask_about_job(options, job, "cron.explain", tool=name)
    return report


def _explain_far(
    tool: str | None, options: CallerOptions, tools: str | None, args: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return the answer of a gateway to its owner; None where there is none to ask."""
    found = find_answering({**options, "tools": tools}, here=True)
    if found is None:
        return None

    async def ask(client: GatewayClient) -> dict[str, Any]:
        async with client as gateway:
            asked = {"sessionKey": options["session"] or ""}
            report = await gateway.ask("tools.list", asked)
            if tool is not None:
                name = require_tool(tool, [each["tool"] for each in report["tools"]], report["tools"])
                called = {} if args is None else {"args": dict(args)}
                report = await gateway.ask("tools.explain", {**asked, "tool": name, **called})
            return {name: report[name] for name in _SHOWN if name in report}

    return run_loop(ask(found.client()))


def _explain_here(
    tool: str | None, options: CallerOptions, tools: str | None, args: Mapping[str, Any] | None
) -> dict[str, Any]:
    crib = crib_from_options(options, fills=True)
    route = crib.view().route(OWNER)

    def follow(asked: Caller) -> Caller:
        nonlocal route
        route = crib.view().route(asked)
        return route.caller

    caller = mark_terminal_owner(caller_from_options(crib, options, follow))
    handle = crib.belt(caller, load_tools(tools))
    rows = map(describe_tool, handle.catalog.tools.values())
    only = None if tool is None else require_tool(tool, handle.verdicts, rows)
    doubts = route.list_doubts(only or "")
    asked = Asked(partial(_read_sources, options, caller), only or "", args, route.judge)
    answer = run_loop(crib.standing.explain(handle, crib.loaded.policy, crib.way_out, asked))
    extras: dict[str, Any] = {"uncertain": list(doubts)}
    answer |= route.tell_silence()
    extras["later"] = crib.models.later_for(handle.selection, caller).get(only or "")
    if (shadow := handle.pipeline.shadow) is not None:
        verdicts = [handle.verdicts[name] for name in ([only] if only else handle.verdicts)]
        found = list(shadow.find_differences(caller, verdicts))
        if only and args is not None:
            trial = replace(handle, selection=shadow.belts.belt_for(caller, shadow.extra))
            found = run_loop(_compare_calls((handle, trial), only, asked, crib.way_out))
        extras["shadow"] = [asdict(other) for other in found]
        extras["shadowBeside"] = list(shadow.untried)
    return {**answer, **{name: value for name, value in extras.items() if value}}


async def _compare_calls(belts: "tuple[Belt, Belt]", tool: str, asked: Asked, way_out: WayOut) -> list[Verdict]:
    """Return what the second belt says of a call, by its arguments too, where that is another decision."""
    sources, verdicts = await asked.read_sources(), list[Verdict]()
    for belt in belts:
        if tool not in belt.verdicts:
            return []
        judged = await belt.judge_call(tool, asked.args or {}, way_out, sources)
        verdicts.append(max((belt.verdicts[tool], *judged.found), key=lambda each: _RANKS.index(each.decision)))
    return verdicts[1:] if verdicts[0].decision != verdicts[1].decision else []


async def _read_sources(options: CallerOptions, caller: Caller) -> dict[str, None]:
    """Return the outside sources in the named session, where it is kept here."""
    if not options["session"] or not state_folder().exists():
        return {}
    kept = crib_from_options(options, warn=False, fills=True, keeps=True)
    try:
        return await read_sources(kept.sessions, caller.session or "")
    finally:
        await kept.close()
