"""`toolcrib channels`: where people write to the assistant, and who may."""

import secrets
import sys
from typing import Unpack

import click

from toolcrib.define.display import escape

from ._format import print_json, print_table
from ._options import CommandGroup, JsonOptions, ask_owner, service_options, show_examples


@click.group("channels", cls=CommandGroup)
def command() -> None:
    """See the channels of a gateway, let people in, and write to them."""


@command.command("status", epilog=show_examples("channels status", "channels status --json"))
@service_options
def status(**options: Unpack[JsonOptions]) -> None:
    """Show every channel of the configuration, and what is wrong with it."""
    told = ask_owner(options, "channels.status")
    if options["as_json"]:
        return print_json(told)
    if not told["channels"]:
        click.echo("no channel is configured; write one: channels: {irc: {host: irc.example.org, nick: crib}}")
        return None
    rows = [(row["channel"], row["state"], row["dmPolicy"], row.get("problem", "")) for row in told["channels"]]
    print_table(("channel", "", "who may write", "problem"), rows)
    for row in told["channels"]:
        for each in row.get("invitations", ()):
            click.echo(
                f"{row['channel']}: {escape(each['sender'])} invites to {escape(each['chat'])}; {each['problem']}"
            )
    return None


command.add_command(click.Command("list", params=status.params, callback=status.callback, help=status.help))


@command.command("pair", epilog=show_examples("channels pair", "channels pair 745GZQKG"))
@click.argument("code", required=False)
@service_options
def pair(code: str | None, **options: Unpack[JsonOptions]) -> None:
    """Let in whoever was told CODE; without one, list who waits and who was let in."""
    if code:
        known = ask_owner(options, "channels.pair", {"code": code})
        if options["as_json"]:
            return print_json(known)
        click.echo(f"{escape(known['name'] or known['sender'])} is let in on {known['channel']}")
        return None
    told = ask_owner(options, "channels.people")
    if options["as_json"]:
        return print_json(told)
    if not told["people"]:
        click.echo("nobody waits, and nobody was let in by a code")
        return None
    rows = [(row["channel"], row["sender"], row["name"], row["code"] or "let in") for row in told["people"]]
    return print_table(("channel", "id", "name", "code"), rows)


@command.command("unpair", epilog=show_examples("channels unpair irc '~ann!~ann@example.org'"))
@click.argument("channel")
@click.argument("sender")
@service_options
def unpair(channel: str, sender: str, **options: Unpack[JsonOptions]) -> None:
    """Let SENDER in no more."""
    told = ask_owner(options, "channels.unpair", {"channel": channel, "sender": sender})
    print_json(told) if options["as_json"] else click.echo(f"{escape(sender)} is let in no more")


@command.command(
    "send", epilog=show_examples("channels send '#shop' 'We open at nine.'", "channels send ann - < letter")
)
@click.argument("to")
@click.argument("text")
@click.option("--channel", default="", help="Which channel, where there are several.")
@service_options
def send(to: str, text: str, channel: str, **options: Unpack[JsonOptions]) -> None:
    """Write TEXT to a chat; - reads it from standard input."""
    words = sys.stdin.read() if text == "-" else text
    asked = {"to": to, "message": words, "channel": channel, "idempotencyKey": secrets.token_hex(8)}
    told = ask_owner(options, "send", asked)
    print_json(told) if options["as_json"] else click.echo(f"{told['status']} on {told['channel']}")
