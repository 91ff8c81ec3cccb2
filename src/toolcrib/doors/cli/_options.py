"""Options that several commands share: which configuration, and which caller."""

import contextlib
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar

import click

from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError
from toolcrib.define.names import canonical, nearest
from toolcrib.lazy import regex

from ._log import keep_log, state_folder
from ._loop import run_loop
from ._remote import find_answering

if TYPE_CHECKING:  # a command that goes through a gateway loads nothing of this
    from toolcrib.app import Crib
    from toolcrib.config.load import Loaded
    from toolcrib.define.caller import Caller
    from toolcrib.define.log import SessionHead
    from toolcrib.define.tool import Tool

ABOUT_NOBODY = ("config", "read_as", "ignore", "gateway", "token_file")  # options that describe no caller
T = TypeVar("T")
AskService = Callable[..., Awaitable[Any]]
_Command = TypeVar("_Command", bound=Callable[..., Any])


class ConfigOptions(TypedDict):
    """What `config_options` adds."""

    config: str | None
    read_as: str | None
    ignore: NotRequired[tuple[str, ...] | None]


class JsonOptions(ConfigOptions):
    """What `json_options` adds, and `service_options`."""

    as_json: bool
    gateway: NotRequired[str | None]
    token_file: NotRequired[str | None]


class CallerOptions(ConfigOptions):
    """What `config_options`, `caller_options` and `gateway_options` add."""

    gateway: NotRequired[str | None]
    token_file: NotRequired[str | None]

    session: str | None
    agent: str | None
    model: str | None
    channel: str | None
    account: str | None
    group: str | None
    sender: str | None
    owner: bool | None
    sandboxed: bool
    parent: str | None


def _check_text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an option that is there and says nothing: a caller who is left blank by mistake would get more."""
    if value is None:
        return None
    if not value.strip():
        raise CribError(f"{param.opts[0]} is blank; write a value, or leave it out")
    if param.opts[0] != "--config" and not value.isprintable():
        raise CribError(f"{param.opts[0]} holds a control character or is not UTF-8; write it without")
    return value


ignore_option = click.option(
    "--ignore", metavar="KEY", multiple=True,
    help="A key of an OpenClaw file that takes something away and may be left out; again for each.",
)  # fmt: skip


def config_options(command: _Command) -> _Command:
    """Add --config, --from and --ignore."""
    where, kinds = "Configuration file; else $TOOLCRIB_CONFIG, else the user's.", click.Choice(["openclaw"])
    read_as = click.option("--from", "read_as", type=kinds, help="Read the file as an OpenClaw configuration.")
    config = click.option("--config", metavar="FILE", callback=_check_text, help=where)
    return config(read_as(ignore_option(command)))


def caller_options(command: _Command) -> _Command:
    """Add the options that describe a caller."""
    for option in (
        click.option("--parent", metavar="CHAIN", callback=_check_text, help="Who started this caller: outer/inner."),
        click.option("--sandboxed", is_flag=True, help="The session runs in the sandbox."),
        click.option("--owner/--no-owner", default=None, help="Say that the caller is (not) the owner."),
    ):
        command = option(command)
    for name, metavar, help in reversed(_WORDS):
        command = click.option(f"--{name}", metavar=metavar, callback=_check_text, help=help)(command)
    return command


_WORDS = (
    ("session", "KEY", "Session key, e.g. agent:main:telegram:group:-100123."),
    ("agent", "ID", "Agent id; else the session key's, else main."),
    ("model", "P:M", "provider:model; else the one that a turn would use."),
    ("channel", "C", "Channel the message came through."),
    ("account", "A", "Account of the channel."),
    ("group", "G", "Group chat the message came from."),
    ("sender", "S", "id:123, e164:+380.., username:bob or name:Bob."),
)


tools_option = click.option(
    "--tools", metavar="MODULE:LIST", callback=_check_text,
    help="Judge a program's own tools, too: MODULE is imported, which runs its code; this folder is searched last.",
)  # fmt: skip


def load_tools(text: str | None) -> "Sequence[Tool | Callable[..., Any]]":
    """Import a module and return its list of tools, for `--tools`; its code runs, as the person here asked."""
    if text is None:
        return ()
    module, _, name = text.partition(":")
    if not module or not name:
        raise CribError(f"--tools {text!r} is not MODULE:LIST; write shop.tools:TOOLS, for example")
    here = str(Path.cwd())
    is_new = here not in sys.path
    sys.path.append(here)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = resolve_name(text)
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever it raises, it cannot be had
        words = escape_controls(str(error).partition("\n")[0])
        raise CribError(f"--tools {text}: cannot be imported ({type(error).__name__}: {words})") from None
    finally:
        if is_new:
            sys.path.remove(here)
    if not isinstance(found, list | tuple):
        raise CribError(f"--tools {text}: is of type {type(found).__name__}; name a list of tools or functions")
    return found


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


headed_option = click.option("--headed", is_flag=True, help="Show the window of the browser that tools use.")


def json_options(command: _Command) -> _Command:
    """Add --config, --from and --json."""
    return config_options(json_option(command))


def gateway_options(command: _Command) -> _Command:
    """Add --gateway and --token-file."""
    for option in (
        click.option("--token-file", metavar="F", callback=_check_text, help="Holds the token of --gateway."),
        click.option("--gateway", metavar="URL", callback=_check_text, help="Ask this gateway; else one that runs."),
    ):
        command = option(command)
    return command


def service_options(command: _Command) -> _Command:
    """Add --config, --from, --json and, for commands that ask services, --gateway."""
    return json_options(gateway_options(command))


def is_attended() -> bool:
    """Tell whether somebody sits at this terminal who could be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def show_examples(*lines: str) -> str:
    """Return what the help of a command ends with."""
    return "\n  toolcrib ".join(["\b\nExamples:", *lines])


class CommandGroup(click.Group):
    """Commands under one word; its help ends with the first example of each."""

    def declare(
        self, name: str, *examples: str, options: Callable[[Callable[..., Any]], Any] = service_options
    ) -> Callable[[Callable[..., Any]], click.Command]:
        """Declare a command with these options behind its own, and with examples below its help."""

        def declare(function: Callable[..., Any]) -> click.Command:
            own = function.__dict__.pop("__click_params__", [])  # click shows what was added first as the last
            options(function)
            function.__dict__["__click_params__"] += own
            return self.command(name, epilog=show_examples(*examples))(function)

        return declare

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        firsts = [_EXAMPLE.search(each.epilog or "") for each in self.commands.values()]
        self.epilog = show_examples(*(found[1] for found in firsts if found))
        super().format_epilog(ctx, formatter)


_EXAMPLE = regex(r"^  toolcrib (.*)", re.MULTILINE)


def load_from_options(options: ConfigOptions, *, fills: bool) -> "Loaded":
    """Return the configuration in force; `fills` looks at one whose secrets are not at hand."""
    from toolcrib.config.load import find_file, load  # noqa: PLC0415  as below

    path = Path(options["config"]) if options["config"] else find_file(os.environ)
    openclaw = True if path and options["read_as"] == "openclaw" else None
    return load(path, openclaw=openclaw, fills=fills, ignore=options.get("ignore", ()))


def crib_from_options(
    options: ConfigOptions, *, import_plugins: bool = False, warn: bool = True, keeps: bool = False, fills: bool = False
) -> "Crib":
    """Return the crib of the configuration in force; `warn` says on stderr what was left out of it, and why.

    One that `keeps` has its sessions and its record in the user's state folder. One that `fills` needs no secrets: it
    is good to explain, and for nothing else.
    """
    from toolcrib.app import open  # noqa: PLC0415  longer to load than a gateway takes to answer

    config = load_from_options(options, fills=fills)
    if config.unset and warn:
        click.echo(f"toolcrib: not set here, and taken as something unknown: {', '.join(config.unset)}", err=True)
    # what a plugin prints while it is loaded is not part of the answer
    with contextlib.redirect_stdout(sys.stderr):
        crib = open(config, import_plugins=import_plugins, state=state_folder() if keeps else None)
    if keeps:
        keep_log(crib.config.logging.level, crib.config.logging.path_in(state_folder()))
    for problem in crib.catalog.problems if warn else ():
        click.echo(f"toolcrib: {problem.sentence}", err=True)
    return crib


def ask_owner(options: ConfigOptions, method: str, params: Mapping[str, Any] | None = None, **how: bool) -> Any:
    """Return what a service answers to the owner at this terminal; `how` is what `crib_from_options` takes."""
    return with_owner(options, lambda ask: ask(method, params), **how)


def with_owner(
    options: ConfigOptions, talk: Callable[[AskService], Awaitable[T]], *, here: bool = False, **how: bool
) -> T:
    """Return what comes of a talk with the services of one crib; `talk` gets what asks as the owner here.

    The crib is that of the gateway, where one runs or is named, and one of our own otherwise; `here` it is about files.
    """

    from toolcrib.define.caller import OWNER  # noqa: PLC0415

    async def main() -> T:
        if found := find_answering(options, here=here):
            async with found.client() as client:
                return await talk(client.ask)
        crib = crib_from_options(options, **{"keeps": True, "warn": False, **how})
        try:  # not `async with`: that would start the MCP servers
            return await talk(partial(crib.ask, caller=OWNER))
        finally:
            await crib.close()

    return run_loop(main())


def require_tool(text: str, names: Collection[str], rows: Iterable[Mapping[str, Any]] = ()) -> str:
    """Return the canonical name meant by `text`, or raise CribError with the nearest ones.

    `rows` about tools may say what else the configuration calls them.
    """
    name = canonical(text)
    if name not in names:
        name = next((str(row.get("tool") or row["name"]) for row in rows if name in row.get("aliases", ())), None)
    if name is None or name not in names:
        close = nearest(text[:_SHOWN_CHARS], names, 3)
        hint = f"did you mean {', '.join(close)}?" if close else "`toolcrib tools list` shows what there is"
        raise CribError(f"there is no tool {text[:_SHOWN_CHARS]!r}; {hint}")
    return name


_SHOWN_CHARS = 64


def nearest_session(key: str, known: Sequence[str]) -> str | None:
    """Return the session that was most likely meant by `key`: one that it is a part of, else one that looks like it."""
    part = [each for each in known if len(key) >= _MIN_PART_CHARS and key in each]
    return next(iter(part or get_close_matches(key, known, n=1, cutoff=0.85)), None)


_MIN_PART_CHARS = 4


def caller_from_options(
    crib: "Crib", options: CallerOptions, route: "Callable[[Caller], Caller] | None" = None
) -> "Caller":
    """Return the caller that the options describe, with the model it would be served by; `route` knows its agent.

    Whether it is the owner at the terminal depends on its session; `mark_terminal_owner` says it once that is known.
    """
    from toolcrib.app import sender_from  # noqa: PLC0415  as above
    from toolcrib.app.models import split_model  # noqa: PLC0415
    from toolcrib.define import session  # noqa: PLC0415
    from toolcrib.define.caller import Caller  # noqa: PLC0415

    key = options["session"]
    if key is not None and not key.replace(":", "").strip():
        raise CribError(f"--session {key!r} is no session key; write one like agent:main:main")
    agent = options["agent"] or (session.agent_from_key(key) if key else None)
    asked = options["model"]
    provider, model = split_model(asked, "--model") if asked else (None, None)
    sender = options["sender"]
    caller = Caller(
        session=key,
        agent=agent,
        provider=provider,
        model=model,
        channel=options["channel"],
        account=options["account"],
        group=options["group"],
        sender=sender_from(sender) if sender else None,
        owner=options["owner"],
        sandboxed=options["sandboxed"],
        parents=_parse_chain(options["parent"]),
    )
    return crib.models.assign(route(caller) if route else caller, "" if asked else _session_model(key))


def _parse_chain(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    parts = tuple(part.strip() for part in text.split("/"))
    if not all(parts):
        raise CribError(f"--parent {text[:_SHOWN_CHARS]!r} has a blank in its chain; write outer/inner")
    return parts


def _session_model(key: str | None) -> str:
    """Return the model that a kept session was switched to, for its turns are answered by that; blank for none."""

    from toolcrib.app.stores import STATE_FILE, state_in  # noqa: PLC0415

    folder = state_folder()
    if not key or not (folder / STATE_FILE).exists():
        return ""

    async def find() -> "SessionHead | None":
        state = state_in(folder)
        try:
            return await state.sessions.find(key)
        finally:
            await state.close()

    head = run_loop(find())
    return head.model if head else ""


_SERVER_SECONDS = 5.0


async def wait_for_servers(crib: "Crib", say: Callable[[str], None], seconds: float = _SERVER_SECONDS) -> None:
    """Wait for servers of which nothing is known yet, a few seconds at most; say for whom, and who did not come.

    All others are not waited for: what they offer was kept when they were first seen.
    """
    service = crib.mcp
    names = service.unmet()
    if not names:
        return
    shown = ", ".join(map(escape_controls, names))
    say(f"meeting the MCP server{'s' if len(names) > 1 else ''} {shown}, {seconds:g} seconds at most")
    await service.ready(seconds, names)
    late = service.unmet()
    for name in names:
        if name in late:
            say(f"{escape_controls(name)} has not answered yet; its tools are there when it has")
        elif why := service.servers[name].why:
            say(escape_controls(why))


def parse_args(text: str) -> dict[str, Any]:
    """Return the arguments of a call as they were typed."""
    import orjson  # noqa: PLC0415  few commands take any

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CribError(f'the arguments are no JSON ({error}); write them like \'{{"path": "README.md"}}\'') from None
    if not isinstance(value, dict):
        raise CribError('the arguments must be a JSON object, like \'{"path": "README.md"}\'')
    return value
