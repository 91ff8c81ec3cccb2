"""`toolcrib nodes`: the devices that a gateway has do things."""

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any, Unpack

import click

from toolcrib.define.display import escape
from toolcrib.define.errors import CribError

from ._format import print_json, print_table
from ._options import CommandGroup, JsonOptions, ask_owner
from .approvals import seconds_from


@click.group("nodes", cls=CommandGroup)
def command() -> None:
    """See, pair and use devices that do things for a gateway."""


@command.declare("list", "nodes list", "nodes list --json")
def list_nodes(**options: Unpack[JsonOptions]) -> None:
    """List the nodes, and the devices that wait to become one."""
    answer = {**ask_owner(options, "node.list"), **_pending(options)}
    if options["as_json"]:
        return print_json(answer)
    rows = [(each["nodeId"][:12], *_describe(each)) for each in answer["nodes"]]
    if rows:
        print_table(("id", "name", "platform", "", "can"), rows)
    for each in answer["pending"]:
        shown = escape(each.get("displayName") or each["deviceId"][:12])
        click.echo(f"{shown} at {each.get('remoteIp', '?')} waits: toolcrib nodes approve {each['requestId']}")
    if not rows and not answer["pending"]:
        click.echo("there is no node; `toolcrib nodes pair` makes a code for one")
    return None


@command.declare("pair", "nodes pair")
def pair(**options: Unpack[JsonOptions]) -> None:
    """Make a code that pairs one device, once and within ten minutes."""
    answer = ask_owner(options, "node.pair.code")
    if options["as_json"]:
        return print_json(answer)
    minutes = max(1, round((answer["expiresAtMs"] / 1000 - time.time()) / 60))
    click.echo(answer["code"])
    click.echo(
        f"on the device, within {minutes} minutes: toolcrib node --gateway URL --code {answer['code']}", err=True
    )
    return None


@command.declare("approve", "nodes approve 5f1c9a")
@click.argument("request")
def approve(request: str, **options: Unpack[JsonOptions]) -> None:
    """Pair the device that waits as REQUEST; the first letters of its id will do."""
    answer = ask_owner(options, "node.pair.approve", {"requestId": _find_request(options, request)})
    print_json(answer) if options["as_json"] else click.echo(f"{_name_of(answer['node'])} is paired")


@command.declare("reject", "nodes reject 5f1c9a")
@click.argument("request")
def reject(request: str, **options: Unpack[JsonOptions]) -> None:
    """Turn away the device that waits as REQUEST."""
    answer = ask_owner(options, "node.pair.reject", {"requestId": _find_request(options, request)})
    print_json(answer) if options["as_json"] else click.echo("it is turned away")


@command.declare("rename", "nodes rename laptop 'the old laptop'")
@click.argument("node")
@click.argument("name")
def rename(node: str, name: str, **options: Unpack[JsonOptions]) -> None:
    """Give NODE another name."""
    answer = ask_owner(options, "node.rename", {"nodeId": node, "displayName": name})
    print_json(answer) if options["as_json"] else click.echo(f"it is called {answer['displayName']}")


@command.declare("revoke", "nodes revoke laptop")
@click.argument("node")
def revoke(node: str, **options: Unpack[JsonOptions]) -> None:
    """Let NODE in no more: its connection ends at once."""
    found = ask_owner(options, "node.describe", {"nodeId": node})
    answer = ask_owner(options, "device.token.revoke", {"deviceId": found["nodeId"], "role": "node"})
    print_json(answer) if options["as_json"] else click.echo(f"{_name_of(found)} is a node no more")


@command.declare("invoke", 'nodes invoke laptop system.which \'{"bins": ["git"]}\'')
@click.argument("node")
@click.argument("name", metavar="COMMAND")
@click.argument("params", default="{}")
@click.option("--timeout", default="30s", help="How long to wait, like 30s or 2m.", show_default=True)
def invoke(node: str, name: str, params: str, timeout: str, **options: Unpack[JsonOptions]) -> None:
    """Have NODE do COMMAND with PARAMS, a JSON object, and print what it answers.

    A command line that needs a person's yes is asked for by the tool nodes, with the action run.
    """
    try:
        given = json.loads(params)
    except ValueError as error:
        raise CribError(f"PARAMS is no JSON ({error}); write an object like {{}}") from None
    if not isinstance(given, dict):
        raise CribError("PARAMS is no object; write one like {}")
    asked = {"nodeId": node, "command": name, "params": given, "timeoutMs": seconds_from(timeout) * 1000}
    answer = ask_owner(options, "node.invoke", {**asked, "idempotencyKey": secrets.token_hex(8)})
    print_json(answer if options["as_json"] else answer["payload"])


def _pending(options: JsonOptions) -> Mapping[str, Any]:
    return {"pending": ask_owner(options, "node.pair.list")["pending"]}


def _find_request(options: JsonOptions, word: str) -> str:
    """Return the id of the request that begins so; the word itself where that is none, for the service to refuse."""
    found = [each["requestId"] for each in _pending(options)["pending"] if each["requestId"].startswith(word)]
    return str(found[0]) if len(found) == 1 else word


def _name_of(row: Mapping[str, Any]) -> str:
    return escape(str(row.get("displayName") or row["nodeId"][:12]))


def _describe(row: Mapping[str, Any]) -> tuple[str, ...]:
    caps = ", ".join(dict.fromkeys(each.partition(".")[0] for each in row["commands"])) or "-"
    state = "connected" if row["connected"] else "away"
    return row.get("displayName", ""), row.get("platform", ""), state, caps
