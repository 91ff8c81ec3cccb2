"""toolcrib agents: which subagents there are, what one is made of, and a yes to a file in a workspace."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import click
import orjson

from toolcrib.app.sources import file_at, open_accepted
from toolcrib.backends.stores.accepted import Accepted
from toolcrib.define.agent import Agent, list_inputs, placeholders
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError
from toolcrib.define.names import nearest

from ._format import print_json, print_table, truncate
from ._options import (
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    ask_owner,
    config_options,
)

_HEAD = 12  # lines of a prompt that are shown before a yes is kept
_WIDE, _SHOWN = 100, 60


@click.group("agents", cls=CommandGroup)
def command() -> None:
    """List and show subagents; accept those that a workspace brings, or take that back."""


@command.declare("list", "agents list --json")
def list_(**options: Unpack[JsonOptions]) -> None:
    """List every agent that may be used; stderr says what was left out, and why."""
    found = ask_owner(options, "agents.registered", here=True, import_plugins=True, warn=not options["as_json"])
    if options["as_json"]:
        print_json(found)
        return
    rows = [
        (each["name"], each["source"], _list_tools(each["tools"]), str(each["maxTurns"]), line)
        for each in found["agents"]
        for line in [truncate(escape_controls(each["description"]).split("\n", 1)[0], _SHOWN)]
    ]
    print_table(("agent", "source", "tools", "turns", "description"), rows)


@command.declare("show", "agents show generalist --json")
@click.argument("name")
def show(name: str, **options: Unpack[JsonOptions]) -> None:
    """Show one agent: what it takes and gives, its tools and limits, and its prompt."""
    agent = ask_owner(options, "agents.show", {"name": name}, here=True, import_plugins=True)
    output_name = agent.pop("outputName")
    if options["as_json"]:
        print_json(agent)
        return
    click.secho(agent["name"], bold=True)
    click.echo(escape_controls(agent["description"]))
    source = escape_controls(agent["file"] or agent["source"])
    click.echo(f"\nsource: {source}   model: {escape_controls(agent['model'])}")
    click.echo(f"tools: {escape_controls(_list_tools(agent['tools']))}")
    tokens = f"   tokens: {agent['maxTokens']}" if agent["maxTokens"] else ""
    click.echo(f"turns: {agent['maxTurns']}   minutes: {agent['timeoutSec'] / 60:g}{tokens}")
    click.echo(f"\ntakes:\n{_indent(agent['inputs'])}")
    if agent["output"] is not None:
        click.echo(f"\ngives {output_name}:\n{_indent(agent['output'])}")
    click.echo(f"\nprompt:\n{escape_controls(agent['prompt'])}")


@command.declare("accept", "agents accept .toolcrib/agents/reviewer.md", options=config_options)
@click.argument("file", type=click.Path(path_type=Path))
def accept(file: Path, **options: Unpack[ConfigOptions]) -> None:
    """Say yes to an agent in a file of a workspace, as it is now. When it changes, it is withheld again."""
    found = file_at(file)
    if found.agent is None:
        more = f" (and {len(found.complaints) - 1} more)" if len(found.complaints) > 1 else ""
        raise CribError(f"{found.complaints[0]}{more}")
    _print_head(found.agent)
    taken = Accepted(digest=found.digest, name=found.agent.name, file=str(file.absolute()), at=time.time())
    open_accepted(os.environ, None).accept(taken)
    click.echo(f"{escape_controls(str(file))} is accepted as it is now ({found.digest[:12]})", err=True)
    # now that it counts, whatever else stands in its way is found where it is put beside the others
    listed = ask_owner(options, "agents.registered", import_plugins=True)
    if not any(each["file"] and Path(each["file"]).absolute() == file.absolute() for each in listed["agents"]):
        # something is wrong with it, or nobody looks there
        own = [each for each in listed["problems"] if each.startswith((f"{file}:", f"{file.absolute()}:"))]
        nowhere = f"{file}: nobody looks for agents there; put it into .toolcrib/agents of the workspace"
        for sentence in own or [nowhere]:
            click.echo(f"toolcrib: {escape_controls(sentence)}", err=True)


@command.declare("forget", "agents forget .toolcrib/agents/reviewer.md", options=config_options)
@click.argument("file", type=click.Path(path_type=Path))
def forget(file: Path, **_: Unpack[ConfigOptions]) -> None:
    """Take back the yes to an agent in a file of a workspace: to what is in it now, and to whatever was before.

    It works whatever the configuration says, also when it cannot be read.
    """
    gone = open_accepted(os.environ, None).forget(file)
    names = ", ".join(dict.fromkeys(each.name for each in gone))
    click.echo(f"toolcrib: {escape_controls(str(file))} ({escape_controls(names)}) is not accepted any more", err=True)


def _print_head(agent: Agent) -> None:
    """Print what a person should see of an agent before they accept it."""
    click.secho(agent.name, bold=True)
    click.echo(escape_controls(agent.description))
    click.echo(
        f"tools: {escape_controls(_list_tools(agent.tools))}   model: {escape_controls(agent.model or 'inherit')}"
    )
    click.echo(f"takes: {escape_controls(', '.join(list_inputs(agent))) or 'nothing'}")
    lines = escape_controls(agent.prompt).splitlines()
    click.echo("\n".join(f"  {truncate(line, _WIDE)}" for line in lines[:_HEAD]))
    if len(lines) > _HEAD:
        click.echo(f"  … and {len(lines) - _HEAD} lines more")
    declared = list_inputs(agent)
    for name in placeholders(f"{agent.prompt}\n{agent.query}"):
        if name not in declared and (close := nearest(name[:64], declared)):
            hint = f"${{{name[:64]}}} is taken literally, no input is called so; did you mean ${{{close[0]}}}?"
            click.echo(f"toolcrib: {escape_controls(hint)}", err=True)


def _list_tools(tools: Sequence[str] | None) -> str:
    if tools is None:
        return "those of its parent"
    return ", ".join(tools) or "none"


def _indent(schema: Any) -> str:
    return escape_controls(orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode())
