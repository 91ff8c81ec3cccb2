"""toolcrib cron: jobs that run later, again and again, or now; a gateway runs them."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, cast

import click

from toolcrib.define.display import escape, escape_controls
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.names import nearest
from toolcrib.define.schedule import parse_time

from ._format import format_time, print_json, print_table
from ._options import (
    ABOUT_NOBODY,
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    ask_owner,
    require_tool,
    service_options,
)
from ._remote import find_gateway
from .approvals import seconds_from

_MINUTE = "%Y-%m-%d %H:%M:%S"
_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group("cron", cls=CommandGroup)
def command() -> None:
    """List, make, change and run jobs. A gateway runs those that are due."""


def _job_options(command: _Command) -> _Command:
    for option in (
        click.option("--at", metavar="TIME", help="Once, like 2030-01-01T09:00+02:00; UTC without a zone."),
        click.option("--every", metavar="TIME", help="Again and again, like 30s, 10m, 2h or 1d."),
        click.option("--cron", "expr", metavar="EXPR", help="As a crontab says it, like '0 9 * * 1-5'."),
        click.option("--tz", metavar="ZONE", help="The zone of --cron, like Europe/Kyiv; else this machine's."),
        click.option("--message", metavar="TEXT", help="Answer this in a session of its own."),
        click.option("--event", metavar="TEXT", help="Add this to the main session."),
        click.option("--deliver/--no-deliver", "delivers", default=None, help="Whether its outcome goes to a chat."),
        click.option("--channel", metavar="NAME", help="On which channel; else where it was made."),
        click.option("--to", metavar="CHAT", help="In which chat there, by its id."),
        click.option("--now/--next", "wakes", default=None, help="Answer --event at once, or by the next beat."),
        click.option("--name", metavar="NAME", help="What it is called; else how its text begins."),
        click.option("--agent", metavar="ID", help="Whose job it is; else main's."),
        click.option("--model", metavar="P:M", help="Which model answers --message."),
        click.option("--timeout", metavar="TIME", help="How long --message may take."),
        click.option(
            "--allow", metavar="TOOL", multiple=True, help="It has these tools and no others; may be repeated."
        ),
        click.option("--deny", metavar="TOOL", multiple=True, help="It does not have these; may be repeated."),
        click.option("--catch-up/--skip-missed", "catches_up", default=None, help="Whether a missed time counts."),
        click.option("--delete/--keep", "deletes", default=None, help="Whether it goes once it has run --at its time."),
    ):
        command = option(command)
    return service_options(command)


@command.declare("list", "cron list --all --json")
@click.option("--all", "all_", is_flag=True, help="Those that are off, too.")
def list_(all_: bool, **options: Unpack[JsonOptions]) -> None:
    """List jobs, the next first."""
    jobs = ask_owner(options, "cron.list", {"includeDisabled": all_})["jobs"]
    if options["as_json"]:
        print_json({"jobs": jobs})
        return
    if not jobs:
        click.echo("there are no jobs; `toolcrib cron add --every 1h --message 'list the files'` makes one")
        return
    print_table(("id", "name", "schedule", "next", "last"), [_row(job) for job in jobs])
    _tell_clock(options)


@command.declare(
    "add",
    "cron add --every 1h --message 'list the files' --allow ls",
    "cron add --cron '0 9 * * 1-5' --tz Europe/Kyiv --event 'the day begins' --now",
    "cron add --at 2030-01-01T09:00+02:00 --message 'wish me a good year'",
    options=_job_options,
)
def add(**options: Any) -> None:
    """Make a job. It runs as the owner here, with no more than the owner has now."""
    job = _read(options)
    if "schedule" not in job or "payload" not in job:
        raise CribError("say when, with --at, --every or --cron, and what, with --message or --event")
    made = ask_owner(_plain(options), "cron.add", job)
    _show(options, made, "is there")
    if not options["as_json"]:
        _tell_clock(options)


@command.declare("edit", "cron edit 3f9c2a7b10de --every 2h --deny exec", options=_job_options)
@click.argument("id")
def edit(id: str, **options: Any) -> None:
    """Change the job ID; what is not named stays as it is."""
    patch = _read(options)
    if not patch:
        raise CribError("say what is to change; `toolcrib cron edit --help` shows what can")
    _show(options, ask_about_job(options, id, "cron.update", patch=patch), "is changed")


@command.declare("enable", "cron enable 3f9c2a7b10de")
@click.argument("id")
def enable(id: str, **options: Unpack[JsonOptions]) -> None:
    """Turn the job ID on; what it missed meanwhile is not done."""
    _show(options, ask_about_job(options, id, "cron.update", patch={"enabled": True}), "is on")


@command.declare("disable", "cron disable 3f9c2a7b10de")
@click.argument("id")
def disable(id: str, **options: Unpack[JsonOptions]) -> None:
    """Turn the job ID off, and keep it."""
    _show(options, ask_about_job(options, id, "cron.update", patch={"enabled": False}), "is off")


@command.declare("rm", "cron rm 3f9c2a7b10de")
@click.argument("id")
def remove(id: str, **options: Unpack[JsonOptions]) -> int:
    """Take the job ID away, with what is kept of its runs."""
    answer = ask_about_job(options, id, "cron.remove")
    if options["as_json"]:
        print_json(answer)
    else:
        click.echo(f"{escape(id)} is gone" if answer["removed"] else f"there is no job {escape(id)!r}", err=True)
    return 0 if answer["removed"] else 1


@command.declare("run", "cron run 3f9c2a7b10de")
@click.argument("id")
def run_now(id: str, **options: Unpack[JsonOptions]) -> int:
    """Run the job ID now, whatever its schedule says, and wait for its end."""
    answer = ask_about_job(options, id, "cron.run", mode="force", wait=True, import_plugins=True)
    if options["as_json"]:
        print_json(answer)
    elif not answer["ran"]:
        click.echo(f"it does not run: {answer['reason']}", err=True)
    elif answer["status"] == "ok":
        click.echo(escape_controls(answer.get("summary", "")))
    else:
        click.echo(f"toolcrib: {escape_controls(answer.get('error', answer['status']))}", err=True)
    return 0 if answer["ran"] and answer["status"] == "ok" else 1


@command.declare("runs", "cron runs 3f9c2a7b10de --most 5")
@click.argument("id", required=False)
@click.option("--most", default=20, show_default=True, type=click.IntRange(1, 5_000), help="How many, newest first.")
def runs(id: str | None, most: int, **options: Unpack[JsonOptions]) -> None:
    """List the runs of the job ID, or of all jobs, the latest first."""
    answer = (
        ask_about_job(options, id, "cron.runs", limit=most) if id else ask_owner(options, "cron.runs", {"limit": most})
    )
    if options["as_json"]:
        print_json(answer)
        return
    rows = [
        (each["jobId"], format_time(each["runAtMs"] / 1000, _MINUTE), each["status"],
         escape_controls(" ".join((each.get("error") or each.get("summary") or "").split())[:80]))
        for each in answer["entries"]
    ]  # fmt: skip
    print_table(("job", "began", "status", "what"), rows) if rows else click.echo("nothing has run yet")


def _read(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job that the options describe."""
    every = options["every"] and seconds_from(options["every"]) * 1000
    if options["at"] is not None and parse_time(options["at"]) is None:
        raise CribError(f"{options['at'][:64]!r} is no time; write one like 2030-01-01T09:00+02:00")
    if options["tz"] is not None and options["expr"] is None:
        raise CribError("--tz is the zone of --cron; write both")
    given: dict[str, Any] = {"at": options["at"], "everyMs": every, "expr": options["expr"]}
    whens = {name: value for name, value in given.items() if value is not None}
    if len(whens) > 1 or None not in (options["message"], options["event"]):
        raise CribError("a job has one schedule and one text; leave the others out")
    job: dict[str, Any] = {"name": options["name"], "agentId": options["agent"], "catchUp": options["catches_up"]}
    job["deleteAfterRun"] = options["deletes"]
    if whens:
        job["schedule"] = {**whens, **({"tz": options["tz"]} if options["tz"] else {})}
    more = {"model": options["model"], "timeoutSeconds": options["timeout"] and seconds_from(options["timeout"])}
    details = {name: value for name, value in more.items() if value is not None}
    whither = {"deliver": options["delivers"], "channel": options["channel"], "to": options["to"]}
    where = {name: value for name, value in whither.items() if value is not None}
    if options["event"] is not None:
        job |= {"payload": {"kind": "systemEvent", "text": options["event"], **where}, "sessionTarget": "main"}
    elif options["message"] is not None or details:
        message = {} if options["message"] is None else {"message": options["message"]}
        job |= {"payload": {"kind": "agentTurn", **message, **details, **where}, "sessionTarget": "isolated"}
    elif where:
        job["payload"] = where
    if options["wakes"] is not None:
        job["wakeMode"] = "now" if options["wakes"] else "next-heartbeat"
    if named := [*options["allow"], *options["deny"]]:
        known = [tool["name"] for tool in ask_owner(_plain(options), "tools.registered", import_plugins=True)["tools"]]
        for entry in named:
            if "*" not in entry and ":" not in entry:
                require_tool(entry, known)
        job["tools"] = {
            **({"allow": list(options["allow"])} if options["allow"] else {}),
            "deny": list(options["deny"]),
        }
    return {name: value for name, value in job.items() if value is not None}


def _plain(options: Mapping[str, Any]) -> ConfigOptions:
    """Return the options without those that describe a job: they describe nobody who asks."""
    kept = {name: value for name, value in options.items() if name in ABOUT_NOBODY}
    return cast("ConfigOptions", kept)


def ask_about_job(
    options: Mapping[str, Any], id: str, method: str, *, import_plugins: bool = False, **more: Any
) -> Any:
    """Return what a method says of one job; raise CribError with the nearest id when there is none."""
    plain = _plain(options)
    try:
        return ask_owner(plain, method, {"id": id, **more}, import_plugins=import_plugins)
    except ToolError as error:
        if "unknown cron job id" not in str(error):
            raise
        known = [job["id"] for job in ask_owner(plain, "cron.list", {"includeDisabled": True})["jobs"]]
        near = [each for each in known if each.startswith(id)] or nearest(id, known)
        hint = f"did you mean {near[0]!r}?" if near else "`toolcrib cron list --all` shows what there is"
        raise CribError(f"there is no job {id!r}; {hint}") from None


def _show(options: Mapping[str, Any], job: dict[str, Any], what: str) -> None:
    if options["as_json"]:
        print_json(job)
        return
    at = job["state"].get("nextRunAtMs")
    when = "" if at is None else f", and runs {format_time(at / 1000, _MINUTE)}"
    click.echo(f"{job['id']} {what}{when}", err=True)


def _tell_clock(options: Mapping[str, Any]) -> None:
    if find_gateway(_plain(options)) is None:
        click.echo("no gateway runs here that would run them; `toolcrib gateway` starts one", err=True)


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    schedule, state = job["schedule"], job["state"]
    match schedule["kind"]:
        case "at":
            when = f"at {format_time(schedule['atMs'] / 1000, _MINUTE)}"
        case "every":
            when = f"every {schedule['everyMs'] / 1000:,g} s"
        case _:
            when = f"{schedule['expr']} {schedule.get('tz', 'UTC')}"
    coming = state.get("nextRunAtMs")
    then = "running" if "runningAtMs" in state else "off" if coming is None else format_time(coming / 1000, _MINUTE)
    return job["id"], escape(job["name"]), escape(when), then, state.get("lastStatus", "-")
