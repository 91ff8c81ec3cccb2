"""toolcrib gateway: one process in which terminals, pages and programs share the same sessions; and its service."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import click

from toolcrib.config.foreign import refuse_unfollowed
from toolcrib.config.people import list_connecting
from toolcrib.config.services import GatewaySettings
from toolcrib.config.values import is_address, is_local
from toolcrib.define.errors import CribError, NoAnswerError

from . import EXIT_INTERRUPTED
from ._format import print_json
from ._log import keep_log, open_log, state_folder
from ._loop import run_loop
from ._options import (
    ConfigOptions,
    JsonOptions,
    ask_owner,
    config_options,
    crib_from_options,
    headed_option,
    load_from_options,
    service_options,
    show_examples,
)
from ._remote import (
    TOKEN_FILE,
    GatewayAddress,
    find_gateway,
    is_answering,
    make_token,
    read_address,
    read_token,
    write_address,
)
from ._unit import install_unit, remove_unit, render_unit, unit_path

if TYPE_CHECKING:
    from toolcrib.doors.gateway.server import GatewayServer

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FIRST = ("gateway", "gateway --port 8789 --token-file ~/gateway.token", "gateway install", "gateway status --json")


class ServeOptions(ConfigOptions):
    """What `_serve_options` adds."""

    bind: str | None
    port: int | None
    token_file: Path | None


def _serve_options(command: _Command) -> _Command:
    file, ports = click.Path(path_type=Path), click.IntRange(0, 65535)
    command = click.option("--token-file", metavar="F", type=file, help="Holds the token that clients show.")(command)
    command = click.option("--port", metavar="N", type=ports, help="0 for any; else gateway.port.")(command)
    where = "Where to listen: loopback, lan or an address; else gateway.bind."
    return config_options(click.option("--bind", metavar="ADDRESS", help=where)(command))


@click.group("gateway", invoke_without_command=True, epilog=show_examples(*_FIRST))
@_serve_options
@headed_option
@click.pass_context
def command(ctx: click.Context, headed: bool, **options: Unpack[ServeOptions]) -> int:
    """Serve sessions, tools and services over WebSocket and HTTP, to whoever shows a credential.

    Without one in the configuration a token is made at the first start, and kept in the state folder, where the other
    commands find it.
    """
    if ctx.invoked_subcommand is None:
        return _start(options, headed=headed)
    if headed or any(value not in (None, ()) for value in options.values()):
        raise click.UsageError(f"options stand behind {ctx.invoked_subcommand}", ctx)
    return 0


@command.command("install", epilog=show_examples("gateway install", "gateway install --port 8789 --print"))
@click.option("--print", "--dry-run", "prints", is_flag=True, help="Show the unit, and change nothing.")
@_serve_options
def install(prints: bool, **options: Unpack[ServeOptions]) -> None:
    """Let systemd run the gateway for this user, as it would run here: in this folder, with these options."""
    load_from_options(options, fills=True)
    config, file = options["config"] or os.environ.get("TOOLCRIB_CONFIG"), options["token_file"]
    choices: dict[str, Any] = {"--bind": options["bind"], "--port": options["port"], "--from": options["read_as"]}
    choices |= {"--config": config and Path(config).absolute(), "--token-file": file and file.expanduser().absolute()}
    # -P: what lies in the folder it runs in is no code of ours
    words = [sys.executable, "-P", "-m", "toolcrib", "gateway"]
    words += [str(word) for name, value in choices.items() if value is not None for word in (name, value)]
    words += [word for key in options.get("ignore") or () for word in ("--ignore", key)]
    environment = {"TOOLCRIB_STATE": str(state_folder().absolute()), "PATH": os.environ.get("PATH", os.defpath)}
    unit = render_unit(words, environment, Path.cwd())
    if prints:
        click.echo(unit, nl=False)
        return
    click.echo(f"{install_unit(unit)} is there, and the gateway is started now and at every login")
    click.echo(
        "`toolcrib gateway status` says how it stands, `loginctl enable-linger` keeps it while you are logged out"
    )


@command.command("uninstall", epilog=show_examples("gateway uninstall"))
@config_options
def uninstall(**options: Unpack[ConfigOptions]) -> None:
    """Stop the gateway that systemd runs for this user, and take its unit away. What was kept stays."""
    click.echo(remove_unit())


@command.command("status", epilog=show_examples("gateway status", "gateway status --json"))
@service_options
def status(**options: Unpack[JsonOptions]) -> int:
    """Say whether a gateway runs, and how it stands. Leaves with 1 when none does."""
    try:
        info = run_loop(_look(options))
    except NoAnswerError as error:
        info = {"running": False, "why": str(error)}
    info["unit"] = str(unit_path()) if unit_path().exists() else None
    if options["as_json"]:
        print_json(info)
    else:
        shown = {name: "yes" if value is True else value for name, value in info.items() if value is not None}
        click.echo("\n".join(f"{name:12} {value}" for name, value in shown.items()) if info["running"] else info["why"])
    return 0 if info["running"] else 1


@command.command("restart", epilog=show_examples("gateway restart"))
@service_options
def restart(**options: Unpack[JsonOptions]) -> None:
    """Start the gateway that runs anew: sessions are kept, and what runs has a few seconds to end."""
    answer = ask_owner(options, "gateway.restart")
    when = "the gateway starts anew; `toolcrib gateway status` says when it is there"
    print_json(answer) if options["as_json"] else click.echo(when)


@command.command("page", epilog=show_examples("gateway page", "gateway page --json"))
@service_options
def page(**options: Unpack[JsonOptions]) -> None:
    """Print an address that opens the gateway's page in a browser, once and within five minutes."""
    found = find_gateway({**options, "config": None})
    if found is None:
        if (url := read_address()[0]) is not None and is_answering(url):
            raise NoAnswerError(
                f"{url} needs a token: name a file that holds it with --token-file, or set TOOLCRIB_TOKEN"
            )
        raise NoAnswerError("no gateway runs here; `toolcrib gateway` starts one")
    code = run_loop(_ask_code(found))
    url = _page_url(found.url, code)
    shown = {"url": url, "expiresAtMs": code["expiresAtMs"]}
    print_json(shown) if options["as_json"] else click.echo(url)


async def _ask_code(found: GatewayAddress) -> dict[str, Any]:
    async with found.client() as client:
        return dict(await client.ask("page.code"))


async def _look(options: JsonOptions) -> dict[str, Any]:
    """Return how the gateway stands that is named, or runs; less of one whose token is not at hand."""
    found, url = find_gateway({**options, "config": None}), read_address()[0]
    if found is None and url is not None and is_answering(url):
        return {"running": True, "url": url, "more": "set TOOLCRIB_TOKEN, or name a file with --token-file"}
    if found is None:
        raise NoAnswerError("no gateway runs here; `toolcrib gateway` starts one, `toolcrib gateway install` keeps one")
    async with found.client() as client:
        status = await client.ask("status")
    kept = {name: status.get(name) for name in ("version", "uptimeMs", "connections", "logFile")}
    why = {"notInForce": status["notInForce"]} if "notInForce" in status else {}  # the file, as it stands now
    return {"running": True, "url": found.url, **kept, **why}


def _start(options: ServeOptions, *, headed: bool) -> int:
    bind, port, token_file = options["bind"], options["port"], options["token_file"]
    try:
        from toolcrib.doors.gateway.credentials import Credentials, Mode  # noqa: PLC0415  needs the extra
        from toolcrib.doors.gateway.server import GatewayServer  # noqa: PLC0415
        from toolcrib.doors.listener import listen_on  # noqa: PLC0415
    except ImportError as error:
        raise CribError(f"the gateway needs the extra `gateway`: pip install 'toolcrib[gateway]' ({error})") from None
    crib = crib_from_options(options, import_plugins=True, keeps=True)
    crib.browser.is_headed = headed
    if crib.loaded.foreign and list_connecting(crib.config.channels):
        refuse_unfollowed(crib.loaded.document, crib.loaded.translated.ignored, crib.loaded.ignore or (), serves=True)
    settings, log_file = crib.config.gateway or GatewaySettings(), crib.config.logging.path_in(state_folder())
    os.close(open_log(log_file))
    where = settings.bind if bind is None else bind
    if not (where in ("loopback", "lan") or is_address(where)):
        raise CribError(f"--bind {where!r} is no address; write loopback, lan, or an address of this machine")
    mode: Mode = settings.auth.mode if settings.auth else "token"
    secret = getattr(settings.auth, mode) if settings.auth else None
    file, read = token_file and token_file.expanduser(), read_token
    if file is not None:
        mode, secret = "token", read(file)
    if secret is None:
        if not is_local(where):
            raise CribError("beyond this machine a gateway needs gateway.auth, or --token-file; add one")
        file, read = state_folder() / TOKEN_FILE, make_token
        secret = read(file)
    server = GatewayServer(
        crib,
        Credentials(mode, secret, file=file, read=read),
        origins=settings.allowed_origins,
        proxies=settings.trusted_proxies,
    )
    server.takes_auth = token_file is None
    crib.settings.on_change(lambda: keep_log(crib.config.logging.level, log_file))
    host = {"loopback": "127.0.0.1", "lan": "0.0.0.0"}.get(where, where)  # noqa: S104  it is asked for by name
    with contextlib.closing(listen_on(settings.port if port is None else port, host, "--port")) as at:
        folder, url = None if crib.config.workspace.root else Path.cwd(), _url_of(at)
        status = run_loop(_serve(server, at, partial(write_address, url, file, folder), log_file))
    if status is None:
        same = ["--port", url.rpartition(":")[2]] if port == 0 else []  # who is connected comes back to where we were
        safe = [] if sys.flags.safe_path else ["-P"]  # what lies in the folder it runs in is no code of ours
        os.execv(sys.executable, [sys.executable, *safe, *sys.orig_argv[1:], *same])  # noqa: S606  as we were started
    return status


async def _serve(server: "GatewayServer", at: socket.socket, tell: Callable[[], Path], log_file: Path) -> int | None:
    """Serve until somebody stops it; None is returned when it is to start anew."""
    task, interrupts, url = asyncio.ensure_future(server.serve(at)), list[int](), _url_of(at)
    restarts = list[bool]()

    def interrupt(number: int) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            os._exit(EXIT_INTERRUPTED)  # commands end with us
        task.cancel()

    def restart() -> None:
        restarts.append(True)
        task.cancel()

    server.crib.gateway.on_restart = restart
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt, number)
    loop.add_signal_handler(signal.SIGHUP, server.reload)
    address_file = tell()
    click.echo(f"toolcrib: the gateway is at {url}\ntoolcrib: its log is {log_file}", err=True)
    page = _page_url(url, server.crib.devices.new_page_code())
    if "INVOCATION_ID" in os.environ:  # systemd keeps what we say, and others may read it
        page = "shown by `toolcrib gateway page`"
    click.echo(f"toolcrib: its page is {page}", err=True)
    await asyncio.wait([task])
    address_file.unlink(missing_ok=True)
    if interrupts:
        click.echo("toolcrib: the gateway has stopped", err=True)
        return 0 if interrupts[0] == signal.SIGTERM else EXIT_INTERRUPTED
    if restarts:
        click.echo("toolcrib: the gateway starts anew", err=True)
        return None
    task.result()
    return 0


def _page_url(url: str, code: Mapping[str, Any]) -> str:
    """Return where a browser opens the page of a gateway, with a code that is good once."""
    return f"http{url.removeprefix('ws').rstrip('/')}{code['path']}"


def _url_of(at: socket.socket) -> str:
    """Return where a client of this machine finds it; who listens everywhere is here, too."""
    host, port = at.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"ws://[{shown}]:{port}" if ":" in shown else f"ws://{shown}:{port}"
