"""toolcrib gateway: one process in which terminals, pages and programs share the same sessions."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Unpack

import click

from toolcrib.config.services import GatewaySettings
from toolcrib.config.values import is_address, is_local
from toolcrib.define.errors import CribError

from . import EXIT_INTERRUPTED
from ._far import TOKEN_FILE, make_token, read_token, write_address
from ._log import keep_log, state_folder
from ._options import ConfigOptions, config_options, crib_from_options

_EXAMPLES = """\b
Examples:
  toolcrib gateway
  toolcrib gateway --port 8789 --token-file ~/gateway.token
  curl http://127.0.0.1:18789/health
"""


@click.command("gateway", epilog=_EXAMPLES)
@click.option("--bind", metavar="ADDRESS", help="Where to listen: loopback, lan or an address; else gateway.bind.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), help="The port, 0 for any; else gateway.port.")
@click.option("--token-file", metavar="F", type=click.Path(path_type=Path), help="Holds the token that clients show.")
@config_options
def command(bind: str | None, port: int | None, token_file: Path | None, **options: Unpack[ConfigOptions]) -> int:
    """Serve sessions, tools and services over WebSocket and HTTP, to whoever shows a credential.

    Without one in the configuration a token is made at the first start, and kept in the state folder, where the other
    commands find it.
    """
    try:
        from toolcrib.doors.gateway.credentials import Credentials, Mode  # noqa: PLC0415  needs the extra
        from toolcrib.doors.gateway.server import GatewayServer  # noqa: PLC0415
        from toolcrib.doors.listener import listen_on  # noqa: PLC0415
    except ImportError as error:
        raise CribError(f"the gateway needs the extra `gateway`: pip install 'toolcrib[gateway]' ({error})") from None
    keep_log()
    crib = crib_from_options(options, import_plugins=True, keeps=True)
    settings = crib.config.gateway or GatewaySettings()
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
    host = {"loopback": "127.0.0.1", "lan": "0.0.0.0"}.get(where, where)  # noqa: S104  it is asked for by name
    with contextlib.closing(listen_on(settings.port if port is None else port, host, "--port")) as at:
        return asyncio.run(_serve(server.serve(at), _url_of(at), file))


async def _serve(serving: Coroutine[None, None, None], url: str, token_file: Path | None) -> int:
    task, interrupts = asyncio.ensure_future(serving), list[int]()

    def interrupt(number: int) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            os._exit(EXIT_INTERRUPTED)  # commands end with us
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt, number)
    told = write_address(url, token_file)
    click.echo(f"toolcrib: the gateway is at {url}", err=True)
    await asyncio.wait([task])
    told.unlink(missing_ok=True)
    if interrupts:
        click.echo("toolcrib: the gateway has stopped", err=True)
        return 0 if interrupts[0] == signal.SIGTERM else EXIT_INTERRUPTED
    task.result()
    return 0


def _url_of(at: socket.socket) -> str:
    """Return where a client of this machine finds it; who listens everywhere is here, too."""
    host, port = at.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"ws://[{shown}]:{port}" if ":" in shown else f"ws://{shown}:{port}"
