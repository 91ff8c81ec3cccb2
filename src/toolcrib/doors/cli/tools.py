"""toolcrib tools: list, show and call tools."""

import contextlib
import sys
from collections.abc import Mapping
from typing import Any, Unpack

import click
import orjson

from toolcrib.define.display import escape
from toolcrib.define.errors import ToolError

from ._format import print_json, print_table
from ._loop import run_loop
from ._options import (
    CallerOptions,
    CommandGroup,
    JsonOptions,
    ask_owner,
    caller_from_options,
    caller_options,
    crib_from_options,
    is_attended,
    parse_args,
    require_tool,
    service_options,
)
from ._remote import describe_missing, find_answering, show_words

_CALL = """\b
Examples:
  toolcrib tools call dice '{"sides": 20}' --config examples/crib.yaml
  toolcrib tools call dice --config examples/crib.yaml --channel telegram --sender id:7
"""


@click.group("tools", cls=CommandGroup)
def command() -> None:
    """List, show and call tools."""


@command.declare("list", "tools list", "tools list --config examples/crib.yaml --json")
def list_(**options: Unpack[JsonOptions]) -> None:
    """List every tool that exists, whoever may use it."""
    found = _list_registered(options)
    if options["as_json"]:
        for tool in found["tools"]:
            del tool["parameters"]
        print_json(found)
        return
    rows = [
        (each["name"], each["group"] or "-", each["kind"], each["source"], "yes" if each["runs"] else "not yet", line)
        for each in found["tools"]
        for title in ("" if each["label"] == each["name"] else f"{each['label']}: ",)
        for line in (title + (each["description"].splitlines() or [""])[0],)
    ]
    print_table(("tool", "group", "kind", "source", "runs", "description"), rows)


@command.declare("show", "tools show exec", "tools show dice --config examples/crib.yaml --json")
@click.argument("name")
def show(name: str, **options: Unpack[JsonOptions]) -> None:
    """Show one tool: description, effects and parameters."""
    known = {tool["name"]: tool for tool in _list_registered(options)["tools"]}
    tool = known[require_tool(name, known, known.values())]
    if options["as_json"]:
        print_json(tool)
        return
    click.secho(tool["name"], bold=True)
    click.echo(tool["description"])
    effects = ", ".join(tool["effects"]) or "none"
    click.echo(f"\ngroup: {tool['group'] or '-'}   effects: {effects}   source: {tool['source']}")
    if not tool["runs"]:
        click.echo("It is declared, but this installation does not carry it yet.")
    click.echo("\nparameters:")
    click.echo(orjson.dumps(tool["parameters"], option=orjson.OPT_INDENT_2).decode())


def _list_registered(options: JsonOptions) -> Any:
    return ask_owner(options, "tools.registered", here=True, import_plugins=True, warn=True, keeps=False)


@command.command("call", epilog=_CALL)
@click.argument("name")
@click.argument("args", metavar="[JSON]", default="{}")
@service_options
@caller_options
def call_by_name(name: str, args: str, as_json: bool, **options: Unpack[CallerOptions]) -> int:
    """Call the tool NAME with arguments in JSON, through the same gate as a model's call."""
    parsed, is_asked = parse_args(args), is_attended() and not as_json
    answer = _call_far(name, parsed, options, attended=is_asked)
    is_far = answer is not None
    if answer is None:
        # what a tool prints is not its answer
        with contextlib.redirect_stdout(sys.stderr):
            answer = _call_here(name, parsed, options, attended=is_asked)
    if as_json:
        print_json(answer)
        return 0 if answer["status"] != "error" else 1
    show_words(answer)
    if not is_far and isinstance(answer["details"], Mapping) and answer["details"].get("status") == "running":
        click.echo("toolcrib: it has ended with this command line, which was the crib it ran in", err=True)
    return 0 if answer["status"] != "error" else 1


@command.declare("complete", "tools complete job-17 'it is 42'")
@click.argument("handle")
@click.argument("text")
@click.option("--error", "is_error", is_flag=True, help="It failed, and TEXT says why.")
@click.option("--session", default="", help="Where the call was made, where several wait under one handle.")
def complete(handle: str, text: str, is_error: bool, session: str, **options: Unpack[JsonOptions]) -> None:
    """Complete the call that is pending under HANDLE: its turn goes on with TEXT."""
    params = {"handle": handle, "content": text, "isError": is_error, "sessionKey": session}
    answer = ask_owner(options, "calls.complete", params, import_plugins=True)
    if options["as_json"]:
        print_json(answer)
        return
    where = f" in {escape(answer['sessionKey'])}" if answer["sessionKey"] else ""
    click.echo(f"{escape(answer['tool'])}{where} is completed")


def _call_far(name: str, args: dict[str, Any], options: CallerOptions, *, attended: bool) -> dict[str, Any] | None:
    """Return what a gateway says, while a person here answers its questions; None where there is none to ask."""
    gateway, session = find_answering(options, here=True), options["session"] or ""
    if gateway is None or not attended:
        return gateway.invoke(name, args, session) if gateway else None

    from .approvals import RemoteApprovals, ask_at_terminal  # noqa: PLC0415

    async def call() -> dict[str, Any]:
        async with gateway.client() as client, ask_at_terminal(RemoteApprovals(client)):
            return await client.call(name, args, session=session)

    try:
        return run_loop(call())
    except ToolError as error:
        if error.code != "not_found":
            raise
        return describe_missing(name, str(error))


def _call_here(name: str, args: dict[str, Any], options: CallerOptions, *, attended: bool) -> dict[str, Any]:
    import asyncio  # noqa: PLC0415  all of it takes longer to load than a gateway takes to answer
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    from toolcrib.policy.explain import verdict_json  # noqa: PLC0415
    from toolcrib.policy.resolve import mark_terminal_owner  # noqa: PLC0415

    from .approvals import ask_at_terminal  # noqa: PLC0415

    class AbandonedThreads(ThreadPoolExecutor):
        """Threads that nobody waits for when the call is interrupted."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=True)

    crib = crib_from_options(options, import_plugins=True, keeps=True)
    caller = mark_terminal_owner(caller_from_options(crib, options))

    async def call() -> dict[str, Any]:
        asyncio.get_running_loop().set_default_executor(AbandonedThreads())
        try:
            if why := await crib.mcp.meet(name):
                return describe_missing(name, escape(why), "unavailable")
            belt = crib.belt(caller)
            async with ask_at_terminal(crib.approvals) if attended else contextlib.nullcontext():
                answer = (await belt.call(name, args)).to_json()
                await crib.subagents.idle()  # what the call began would end with this command
            verdict = belt.verdicts.get(belt.selection.find(name) or "")
            return {**answer, "verdict": verdict_json(verdict, belt.catalog[verdict.tool]) if verdict else None}
        finally:
            await crib.close()

    return run_loop(call())
