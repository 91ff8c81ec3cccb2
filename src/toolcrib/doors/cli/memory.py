"""toolcrib memory: what an agent remembers; how it is searched, a search of it, and reading all of it anew."""

import sys
from typing import Any, Unpack

import click

from toolcrib.define.display import escape, escape_controls

from ._format import columns, print_json, truncate
from ._options import AskService, CommandGroup, JsonOptions, ask_owner, with_owner

_agent_option = click.option("--agent", metavar="ID", help="Whose memory; else main's.")


@click.group("memory", cls=CommandGroup)
def command() -> None:
    """Look at what an agent remembers, and search in it."""


@command.declare("status", "memory status", "memory status --agent ops --json")
@_agent_option
def status(agent: str | None, **options: Unpack[JsonOptions]) -> None:
    """Say where memory lies, how much there is, and how it is searched."""
    answer = ask_owner(options, "memory.status", _params(agent), here=True)
    print_json(answer) if options["as_json"] else _show(answer)


@command.declare("search", 'memory search "what does Olena drink"', "memory search tea --most 3 --json")
@click.argument("query")
@click.option("--most", default=6, show_default=True, type=click.IntRange(1, 50), help="How many, the best first.")
@_agent_option
def search(query: str, most: int, agent: str | None, **options: Unpack[JsonOptions]) -> int:
    """Search memory for QUERY, by words and by meaning."""
    answer = ask_owner(options, "memory.search", {"query": query, "maxResults": most, **_params(agent)}, here=True)
    if options["as_json"]:
        print_json(answer)
        return 0 if answer["results"] else 1
    for each in answer["results"]:
        place = f"{escape(each['path'])}:{each['startLine']}-{each['endLine']}"
        click.echo(f"{click.style(place, bold=True)}  {each['score']:.2f}")
        for line in each["snippet"].splitlines():
            click.echo(f"  {truncate(escape_controls(line), columns() - 2)}".rstrip())
    if not answer["results"]:
        click.echo("nothing was found", err=True)
    if "fallback" in answer:
        click.echo(f"toolcrib: {escape_controls(answer['fallback'])}", err=True)
    return 0 if answer["results"] else 1


@command.declare("reindex", "memory reindex", "memory reindex --agent ops --json")
@_agent_option
def reindex(agent: str | None, **options: Unpack[JsonOptions]) -> None:
    """Read every file of a memory anew; a search takes in by itself what has changed."""

    async def talk(ask: AskService) -> Any:
        shown: Any = click.progressbar(length=1, label="reading", file=sys.stderr)
        with shown as bar:

            def tell(part: dict[str, int]) -> None:
                bar.length = part["of"]
                bar.update(part["done"] - bar.pos)

            return await ask("memory.reindex", _params(agent), progress=tell)

    answer = with_owner(options, talk, here=True)
    print_json(answer) if options["as_json"] else _show(answer)


def _params(agent: str | None) -> dict[str, str]:
    return {"agentId": agent} if agent else {}


def _show(answer: dict[str, Any]) -> None:
    """Print what a memory holds, for people."""
    how = f"by words and by vectors of {answer['provider']} ({answer['model']})"
    rows = [
        ("folder", escape(answer["folder"])),
        ("holds", f"{answer['files']:,} files, {answer['chunks']:,} passages"),
        ("searched", "by words alone" if answer["provider"] == "none" else how),
    ]
    if "problem" in answer:
        rows.append(("problem", escape_controls(answer["problem"])))
    rows += [("also", f"{escape(each['name'])}  {escape(each['folder'])}") for each in answer.get("people", ())]
    for name, words in rows:
        click.echo(f"{name.rjust(8)}  {words}")
