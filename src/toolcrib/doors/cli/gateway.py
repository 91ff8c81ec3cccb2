"""toolcrib gateway: one process in which terminals, pages and programs share the same sessions."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Unpack

import click

from toolcrib.config.settings import GatewaySettings
from toolcrib.config.values import is_address, is_local
from toolcrib.define.errors import CribError

from . import EXIT_INTERRUPTED
from ._log import keep_log, state_folder
from ._options import ConfigOptions, config_options, crib_from_options

TOKEN_FILE = "gateway.token"  # noqa: S105  its name
_TOKEN_CHARS = 16
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
    if token_file is not None:
        mode, secret = "token", read_token(token_file)
    if secret is None:
        if not is_local(where):
            raise CribError("beyond this machine a gateway needs gateway.auth, or --token-file; add one")
        secret = make_token(state_folder() / TOKEN_FILE)
    server = GatewayServer(
        crib, Credentials(mode, secret), origins=settings.allowed_origins, proxies=settings.trusted_proxies
    )
    host = {"loopback": "127.0.0.1", "lan": "0.0.0.0"}.get(where, where)  # noqa: S104  it is asked for by name
    with contextlib.closing(listen_on(settings.port if port is None else port, host, "--port")) as at:
        return asyncio.run(_serve(server.serve(at), at, host))


async def _serve(serving: Coroutine[None, None, None], at: socket.socket, host: str) -> int:
    task, interrupts = asyncio.ensure_future(serving), list[int]()

    def interrupt(number: int) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            os._exit(EXIT_INTERRUPTED)  # commands end with us
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt, number)
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"toolcrib: the gateway is at ws://{shown}:{at.getsockname()[1]}", err=True)
    await asyncio.wait([task])
    if interrupts:
        click.echo("toolcrib: the gateway has stopped", err=True)
        return 0 if interrupts[0] == signal.SIGTERM else EXIT_INTERRUPTED
    task.result()
    return 0


def make_token(path: Path) -> str:
    """Return the token in this file, which is made when it is not there; nobody else may read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise CribError(f"{path} can be read by others; chmod 600 it, and make another token: remove it") from None
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token in a file; raise CribError when there is none that will do."""
    try:
        token = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise CribError(f"{path} cannot be read ({error}); write the token into it, and nothing else") from None
    if len(token) < _TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise CribError(f"{path} holds no token; write {_TOKEN_CHARS} or more letters, digits and marks into it")
    return token
