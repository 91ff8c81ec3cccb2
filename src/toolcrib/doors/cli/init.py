"""toolcrib init: a commented sample configuration to begin with, never in the place of another."""

import os
import shlex
from importlib.resources import files
from pathlib import Path

import click
import platformdirs

from toolcrib.app import open
from toolcrib.config.load import find_file, load
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError

from ._format import print_json
from ._options import json_option

_EXAMPLES = """\b
Examples:
  toolcrib init
  toolcrib init --for me
  toolcrib init --config crib.yaml --for team
  toolcrib init --for openclaw --config promises.yaml
"""
_FOR = ("me", "team", "openclaw")
_SUFFIXES = (".yaml", ".yml")
_ASK_ALWAYS = "  # writing and executing need a human's yes\n  ask: [effect:write, effect:execute]\n  # so do sending"
_ASK_AFTER_OUTSIDE = """\
  # before every change of a file and every command a human is asked with `ask: [effect:write, effect:execute]`
  ask: [{ tool: effect:write, taint: "*", when: { path: { in: [MEMORY.md, "memory/**"] } } }]
  # so it is before commands, sending"""
_NEXT = (
    ("lint", "", "after every change: whether the promises at its end still hold"),
    ("explain", " --channel telegram --group -1 --sender id:7", "what a stranger in a group may use, and why"),
    ("doctor", "", "what this machine lacks, and how to get it"),
    ("chat", "", "talk, with the tools you may use"),
    ("gateway", "", "serve programs and devices; `gateway install` keeps it running"),
)


@click.command("init", epilog=_EXAMPLES)
@click.option("--config", metavar="FILE", help="Where to write it; else $TOOLCRIB_CONFIG, else the user's folder.")
@click.option("--from", "read_as", type=click.Choice(["openclaw"]), help="Say how an OpenClaw file is used as it is.")
@click.option("--for", "whom", type=click.Choice(_FOR), default="team", show_default=True, help="Who will use it.")
@json_option
def command(config: str | None, read_as: str | None, whom: str, as_json: bool) -> int:
    """Write a commented sample configuration, with promises at its end that lint keeps an eye on.

    For `me` at this terminal, for a `team` with groups and a subagent; for `openclaw` it is promises alone, for a file
    that stays as it is. A file that is there is never touched.
    """
    if read_as is not None:
        raise CribError(
            "an OpenClaw file needs no init: `toolcrib lint --from openclaw --config FILE` reads it as it is"
        )
    if whom == "openclaw":
        return _write_promises(Path(config or "openclaw.expect.yaml"), as_json=as_json)
    path = _choose_path(config)
    _write(path, sample_configuration(whom))
    crib = open(path, import_plugins=False)
    findings = crib.lint()
    holding = len(crib.config.expect) - sum(finding.kind == "expect" for finding in findings)
    if as_json:
        print_json({"wrote": str(path), "promises": len(crib.config.expect), "holding": holding})
        return 0
    click.echo(f"wrote {escape_controls(str(path))}; {holding} of {len(crib.config.expect)} promises in it hold\n")
    click.echo("Next:")
    named = f" --config {shlex.quote(config)}" if config else ""
    for word, more, why in _NEXT:
        if not more or whom != "me":
            click.echo(f"  toolcrib {word}{named}{more}\n      {why}")
    return 0


def _write_promises(path: Path, *, as_json: bool) -> int:
    """Write what one expects of an OpenClaw file."""
    if path.suffix not in _SUFFIXES:
        raise CribError(f"{str(path)!r} should end in .yaml: that is what init writes")
    _write(path, (files("toolcrib.doors.cli") / "openclaw.yaml").read_text("utf-8"))
    promises = len(load(path).config.expect)
    if as_json:
        print_json({"wrote": str(path), "promises": promises})
    else:
        check = f"toolcrib lint --config openclaw.json --expect {shlex.quote(str(path))}"
        click.echo(f"wrote {escape_controls(str(path))} with {promises} promises; change them, then:\n  {check}")
    return 0


def sample_configuration(whom: str = "team") -> str:
    """Return the text: what to know first, then the rules for one person, or those `toolcrib tour` walks through."""
    here = files("toolcrib.doors.cli")
    head = (here / "init.yaml").read_text("utf-8")
    if whom == "me":
        return head[: head.index("\n# Who you are")] + (here / "me.yaml").read_text("utf-8")
    _, _, rules = (here / "sample.yaml").read_text("utf-8").partition("\n\n")  # its own remarks are about the tour
    return f"{head}{rules.replace(_ASK_ALWAYS, _ASK_AFTER_OUTSIDE)}"


def _choose_path(config: str | None) -> Path:
    """Return where the file goes; CribError when a configuration is in force already."""
    if config is not None:
        if not config.strip() or not config.isprintable():
            raise CribError("--config is blank or holds a control character; write a name, or leave it out")
        path = Path(config)
    elif (found := find_file(os.environ)) is not None:
        path = found  # the one that $TOOLCRIB_CONFIG names may not be there yet
        if os.path.lexists(path):
            raise CribError(f"{path} is your configuration already; change that one, or write another with --config")
    else:
        path = Path(platformdirs.user_config_dir("toolcrib", appauthor=False), "toolcrib.yaml")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from None
    if path.suffix not in _SUFFIXES:
        raise CribError(f"{str(path)!r} should end in .yaml: that is what init writes")
    return path


def _write(path: Path, text: str) -> None:
    """Put the text there, for this user alone; CribError when something is there, or it cannot be."""
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CribError(f"{path} is there already, and init overwrites nothing; name another with --config") from None
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(made, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)  # half a configuration is worse than none
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> CribError:
    return CribError(f"{path} cannot be written ({error.strerror}); name another place with --config")
