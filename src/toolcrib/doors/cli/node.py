"""`toolcrib node`: this machine as a node of a gateway."""

import asyncio
import contextlib
import platform
import signal
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Unpack

import click

from toolcrib.define.errors import CribError, NoAnswerError, RefusedByGatewayError

from . import EXIT_INTERRUPTED
from ._log import state_folder
from ._loop import run_loop
from ._options import ConfigOptions, config_options, crib_from_options, is_attended, show_examples
from ._remote import find_gateway
from .approvals import ask_at_terminal

if TYPE_CHECKING:
    from toolcrib.backends.gateway import GatewayLink
    from toolcrib.doors.node import NodeHost

_KEY_FILE = "device-key.json"
_ASK_SECONDS = 2.0  # between two looks whether it was approved


@click.command("node", epilog=show_examples("node --gateway ws://10.0.0.5:18789 --code K7QX-M2PV", "node"))
@click.option("--gateway", metavar="URL", help="The gateway; else the one that runs on this machine.")
@click.option("--code", metavar="CODE", help="The code from `toolcrib nodes pair`; needed the first time.")
@click.option("--token-file", metavar="FILE", help="The gateway's token, in place of a code: somebody has to approve.")
@config_options
def command(gateway: str | None, code: str | None, token_file: str | None, **options: Unpack[ConfigOptions]) -> int:
    """Let a gateway use this machine: commands, notifications, and what the section `node` of its configuration names.

    Commands are judged here, by this machine's own rules and in its own sandbox.
    """
    try:
        from toolcrib.backends.device_key import DeviceKey  # noqa: PLC0415
        from toolcrib.backends.gateway import GatewayLink  # noqa: PLC0415
        from toolcrib.backends.senses import Sensors  # noqa: PLC0415
        from toolcrib.doors.node import NodeHost  # noqa: PLC0415
    except ImportError as error:
        raise CribError(f"a node needs the extra `gateway`: pip install 'toolcrib[gateway]' ({error})") from None
    key = DeviceKey(state_folder() / _KEY_FILE)
    url, token = _find_gateway(gateway, token_file, code, key.token_of)
    crib = crib_from_options(options, import_plugins=True, keeps=True)
    settings = crib.config.node
    host = NodeHost(crib, Sensors(settings.cameras, settings.screen or ""))
    name = settings.name or platform.node()
    client = {"id": "node-host", "version": version("toolcrib"), "platform": platform.system().lower(), "mode": "node"}
    link = GatewayLink(url, token, client | {"displayName": name}, device=key, about=host.describe())
    return run_loop(_serve(host, link, name))


def _find_gateway(
    named: str | None, token_file: str | None, code: str | None, token_of: Callable[[str], str]
) -> tuple[str, str]:
    """Return where to connect, and what to show: a code, what the gateway gave us before, or its own token."""
    if code is not None and named is not None:
        return named, code.strip()
    if named is not None and token_file is None and (kept := token_of(named)):
        return named, kept
    if named is not None and token_file is None:
        raise CribError(f"{named} does not know this machine; `toolcrib nodes pair` there gives a code for --code")
    found = find_gateway({"gateway": named, "token_file": token_file})
    if found is None:
        raise CribError("no gateway runs here; name one with --gateway URL and --code CODE")
    return found.url, code.strip() if code else token_of(found.url) or found.token


async def _serve(host: "NodeHost", link: "GatewayLink", name: str) -> int:
    """Be a node until somebody stops it."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel if task else bool)
    try:
        heard = link.events()  # before it is open, so that nothing falls between
        async with host.live(), ask_at_terminal(host.questions) if is_attended() else contextlib.nullcontext():
            await _open(link)
            click.echo(f"toolcrib: {name} is a node of {link.url}, as {link.device and link.device.id[:12]}", err=True)
            await host.serve(link, heard)
    except asyncio.CancelledError:
        click.echo("toolcrib: the node has stopped", err=True)
        return EXIT_INTERRUPTED
    except CribError as error:
        if not link.hello:  # it was never let in, and the sentence says what to do
            raise
        raise CribError(f"{error}; `toolcrib nodes pair` at the gateway gives a code to pair it anew") from None
    finally:
        await link.close()
    return 0


async def _open(link: "GatewayLink") -> None:
    """Connect; wait for a gateway that knows us already, and for a person's approval where it is needed."""
    is_known, shown = link.device is not None and link.token == link.device.token_of(link.url), ""
    while True:
        try:
            return await link.open()
        except NoAnswerError as error:
            if not is_known:
                raise
            why = f"{error}; it is tried again"
        except RefusedByGatewayError as error:
            if not error.request:
                raise
            why = f"waiting for `toolcrib nodes approve {error.request}` at the gateway"
        if why != shown:
            click.echo(f"toolcrib: {why}", err=True)
        shown = why
        await asyncio.sleep(_ASK_SECONDS)
