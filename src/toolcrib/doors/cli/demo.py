"""toolcrib demo: an agent at work from beginning to end, with no key: it builds a landing page, checks and mends it."""

import asyncio
import contextlib
import json
import runpy
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import click

import toolcrib
from toolcrib.app import open
from toolcrib.app.models import OFFLINE
from toolcrib.define.caller import OWNER
from toolcrib.define.errors import CribError
from toolcrib.define.event import ToolFinished, TurnFinished

from ._loop import run_loop
from ._options import CommandGroup, JsonOptions, is_attended, json_options, load_from_options, show_examples
from ._turn import RunScreen

_AGENT, _SESSION = "landing-builder", "agent:landing-builder:demo"
_TOOLS = ("write_html", "preview_screenshot", "validate_page", "deploy_preview")
_WISH = "Nightjar: a quiet alarm clock that wakes you with light"
_KEPT = ("models", "secrets", "browser", "web")  # of the user's configuration: who answers, and by which way out


@click.group("demo", cls=CommandGroup)
def command() -> None:
    """Watch an agent at work, from beginning to end."""


@command.command("landing", epilog=show_examples("demo landing", 'demo landing "Kiln: pottery for beginners" --json'))
@click.argument("words", metavar="[DESCRIPTION]", nargs=-1)
@json_options
@click.option("--model", metavar="P:M", help="provider:model; else the configured one, else a model by rules.")
@click.option("--folder", metavar="DIR", type=click.Path(path_type=Path), help="Where it is built; else a new folder.")
@click.option("--serve/--no-serve", default=None, help="Serve the page until Ctrl-C; else only at a terminal.")
def landing(
    words: tuple[str, ...], model: str | None, folder: Path | None, serve: bool | None, **options: Unpack[JsonOptions]
) -> int:
    """Build a landing page, look at it in a real browser, check it, mend it and serve it.

    Exit codes: 0 served without a serious issue; 1 not; 2 bad input or configuration; 130 interrupted.
    """
    example, loaded = _find_example(), load_from_options(options, fills=False)
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CribError(f"--folder {folder} is there already; name a new or an empty one")
    folder = folder.absolute() if folder else Path(tempfile.mkdtemp(prefix="toolcrib-landing-"))
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in loaded.translated.value.items() if key in _KEPT} | {
        "plugins": {"folders": [str(example)], _AGENT: {"enabled": True}},
        "agents": {_AGENT: {"tools": {"allow": list(_TOOLS)}}},
        "workspace": {"root": str(folder)},
    }
    serves = (is_attended() and not options["as_json"]) if serve is None else serve
    return run_loop(_build(config, folder, " ".join(words), model, as_json=options["as_json"], serves=serves))


async def _build(
    config: dict[str, Any], folder: Path, wish: str, model: str | None, *, as_json: bool, serves: bool
) -> int:
    since = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
        screen = RunScreen()
    async with open(config) as crib:
        name = model or crib.models.name_for(_AGENT)
        facts: dict[str, Any] = {"url": "", "until": "", "folder": str(folder), "screenshots": {}, "score": 0}
        facts |= {"issues": [], "validations": 0, "css": "", "model": name, "seconds": 0}
        answering: Any = name
        if name == OFFLINE:  # rules that react to what the tools return; the path is that of any other model
            answering = runpy.run_path(config["plugins"]["folders"][0] + "/script.py")["make_model"]()
            facts["model"] = answering.card.name
        caller = replace(OWNER, agent=_AGENT, session=_SESSION)
        async with crib.turn(wish.strip() or _WISH, caller=caller, session=_SESSION, model=answering) as turn:
            async for event in turn:
                if isinstance(event, TurnFinished):
                    screen.break_line()
                    if event.sentence:
                        screen.say(f"toolcrib: {event.sentence}", "bad")
                else:
                    screen.show(event)
                if isinstance(event, ToolFinished) and event.result.status == "ok":
                    _note(facts, event.call.name, event.result.details)
        facts["seconds"] = round(time.monotonic() - since, 1)
        click.echo(json.dumps(facts, indent=2) if as_json else _summarize(facts))
        if serves and facts["url"]:
            click.echo("Serving it until Ctrl-C.", err=True)
            with contextlib.suppress(asyncio.CancelledError):  # Ctrl-C, which is how this ends
                await asyncio.Event().wait()
    serious = [each for each in facts["issues"] if each["impact"] in ("serious", "critical")]
    return 0 if facts["url"] and facts["validations"] and not serious else 1


def _note(facts: dict[str, Any], tool: str, details: Any) -> None:
    """Note the results of a call."""
    match tool, details:
        case "write_html", {"css": {"by": by}}:
            facts["css"] = by
        case "preview_screenshot", {"viewport": viewport, "path": path}:
            facts["screenshots"][viewport] = f"{facts['folder']}/{path}"
        case "validate_page", {"score": score, "issues": issues}:
            facts |= {"score": score, "issues": issues, "validations": facts["validations"] + 1}
        case "deploy_preview", {"previewUrl": url}:
            facts |= {"url": url, "until": "this command ends"}


def _summarize(facts: dict[str, Any]) -> str:
    scored = f"{facts['score']} of 100, {len(facts['issues'])} issues left after {facts['validations']} validations"
    page = f"{facts['url']} (until {facts['until']})" if facts["url"] else "none was deployed"
    rows = {"page": page, "files": facts["folder"], "styles by": facts["css"]}
    rows |= {**facts["screenshots"], "score": scored, "took": f"{facts['seconds']:g} s with {facts['model']}"}
    return "\n".join(["", *(f"{name:<10}{value}" for name, value in rows.items())])


def _find_example() -> Path:
    """Return the example: among the files of an installed package, or in the source tree."""
    package = Path(toolcrib.__file__).parent
    for place in (package, package.parents[1]) if package.parent.name == "src" else (package,):
        if (found := place / "examples" / "landing_builder").joinpath("toolcrib.plugin.json").is_file():
            return found
    raise CribError("the example landing_builder is not installed; it is in the folder examples of toolcrib's source")
