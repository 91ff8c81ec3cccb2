"""`toolcrib channels`: where people write to the assistant, and who may."""

import secrets
import sys
from typing import Unpack

import click

from toolcrib.define.display import escape
from toolcrib.define.errors import CribError

from ._format import print_json, print_table
from ._options import CommandGroup, JsonOptions, ask_owner


@click.group("channels", cls=CommandGroup)
def command() -> None:
    """See the channels of a gateway, let people in, and write to them."""


@command.declare("status", "channels status", "channels status --json")
def status(**options: Unpack[JsonOptions]) -> None:
    """Show every channel of the configuration, and what is wrong with it."""
    answer = ask_owner(options, "channels.status")
    if why := ask_owner(options, "status").get("notInForce"):
        answer["notInForce"] = why
    if options["as_json"]:
        return print_json(answer)
    if why:
        click.echo(f"the configuration as it stands now is not in force: {why}", err=True)
    if not answer["channels"]:
        click.echo("no channel is configured; write one: channels: {irc: {host: irc.example.org, nick: crib}}")
        return None
    rows = [(row["channel"], row["state"], row["dmPolicy"], row.get("problem", "")) for row in answer["channels"]]
    print_table(("channel", "", "who may write", "problem"), rows)
    for row in answer["channels"]:
        for each in row.get("invitations", ()):
            click.echo(
                f"{row['channel']}: {escape(each['sender'])} invites to {escape(each['chat'])}; {each['problem']}"
            )
    return None


@command.declare("list", "channels list", "channels list --json")
def list_kinds(**options: Unpack[JsonOptions]) -> None:
    """Show which channels there are, which are configured, and what each can do."""
    answer = ask_owner(options, "channels.list")
    if options["as_json"]:
        return print_json(answer)
    rows = []
    for row in answer["channels"]:
        shows = [word for word in ("buttons", "cards", "media", "typing") if row.get(word)]
        rows.append((row["channel"], "yes" if row["configured"] else "", ", ".join([*row.get("actions", ()), *shows])))
    return print_table(("channel", "configured", "can"), rows)


@command.declare(
    "login", "channels login telegram", "channels login whatsapp", "channels login whatsapp --code 123456 --pin 246810"
)
@click.argument("channel")
@click.option("--request-code", type=click.Choice(["sms", "voice"]), help="Have a code sent to the number (whatsapp).")
@click.option("--code", default="", help="The code that came (whatsapp).")
@click.option("--pin", default="", help="Six digits of your own, asked for when the number is registered again.")
def login(channel: str, request_code: str | None, code: str, pin: str, **options: Unpack[JsonOptions]) -> None:
    """Check the credentials of CHANNEL now, and say as whom; for whatsapp, also prove the number by a code."""
    if (request_code or code or pin) and channel != "whatsapp":
        raise CribError(f"--request-code, --code and --pin are for whatsapp; {channel} is checked without them")
    if code:
        answer = ask_owner(options, "web.login.wait", {"code": code, "pin": pin})
    elif request_code:
        answer = ask_owner(options, "web.login.start", {"method": request_code, "force": True})
    else:
        answer = ask_owner(options, "channels.login", {"channel": channel})
    if options["as_json"]:
        return print_json(answer)
    known = f"{channel}: the credentials are good{answer.get('as') and ', you are ' + escape(answer['as'])}"
    click.echo(escape(answer["message"]) if "message" in answer else known)
    return None


@command.declare("logout", "channels logout matrix")
@click.argument("channel")
def logout(channel: str, **options: Unpack[JsonOptions]) -> None:
    """End CHANNEL, and forget how far it was heard; `login`, or a new start of the gateway, begins it again."""
    answer = ask_owner(options, "channels.logout", {"channel": channel})
    if options["as_json"]:
        return print_json(answer)
    what = "is ended" if answer["loggedOut"] else "was not at work"
    click.echo(f"{channel} {what}{'; ' + escape(answer['problem']) if 'problem' in answer else ''}")
    return None


@command.declare("pair", "channels pair", "channels pair 745GZQKG")
@click.argument("code", required=False)
def pair(code: str | None, **options: Unpack[JsonOptions]) -> None:
    """Admit the sender who was given CODE; without one, list who waits and who was admitted."""
    if code:
        known = ask_owner(options, "channels.pair", {"code": code})
        if options["as_json"]:
            return print_json(known)
        click.echo(f"{escape(known['name'] or known['sender'])} is let in on {known['channel']}")
        return None
    answer = ask_owner(options, "channels.people")
    if options["as_json"]:
        return print_json(answer)
    if not answer["people"]:
        click.echo("nobody waits, and nobody was let in by a code")
        return None
    rows = [(row["channel"], row["sender"], row["name"], row["code"] or "let in") for row in answer["people"]]
    return print_table(("channel", "id", "name", "code"), rows)


@command.declare("unpair", "channels unpair irc '~ann!~ann@example.org'")
@click.argument("channel")
@click.argument("sender")
def unpair(channel: str, sender: str, **options: Unpack[JsonOptions]) -> None:
    """Let SENDER in no more."""
    answer = ask_owner(options, "channels.unpair", {"channel": channel, "sender": sender})
    print_json(answer) if options["as_json"] else click.echo(f"{escape(sender)} is let in no more")


@command.declare("send", "channels send '#shop' 'We open at nine.'", "channels send ann - < letter")
@click.argument("to")
@click.argument("text")
@click.option("--channel", default="", help="Which channel, where there are several.")
def send(to: str, text: str, channel: str, **options: Unpack[JsonOptions]) -> None:
    """Write TEXT to a chat; - reads it from standard input."""
    words = sys.stdin.read() if text == "-" else text
    asked = {"to": to, "message": words, "channel": channel, "idempotencyKey": secrets.token_hex(8)}
    answer = ask_owner(options, "send", asked)
    print_json(answer) if options["as_json"] else click.echo(f"{answer['status']} on {answer['channel']}")
