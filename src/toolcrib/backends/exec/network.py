"""The network of a command in a sandbox: its own, empty but for its loopback, where one port leads to our proxy.

The socket that listens there is made within and handed out to us, and we accept on it: nothing runs between the command
and the proxy, and nothing of ours can be seen in the sandbox.
"""

import asyncio
import socket
from collections.abc import Mapping

from toolcrib.backends.web.proxy import GuardedProxy
from toolcrib.define.errors import ToolError
from toolcrib.threads import settle_future

from .supervisor_process import BLOCK, MADE, PROXY_PORT

_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_NAMES = ("http_proxy", "https_proxy", "all_proxy")  # read in small letters by some, in capitals by others

PROXY_ENV: Mapping[str, str] = {
    **{spelled: _PROXY for name in _NAMES for spelled in (name, name.upper())},
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}
"""What tells programs of the proxy; their own loopback they reach without it."""

NETWORK_ARGS = ("--info-fd", str(MADE), "--block-fd", str(BLOCK))
"""Options that make bubblewrap wait until there is a network."""


class CommandNetwork:
    """The network of one command, from before its start until `close`. `fds` are for the supervisor."""

    def __init__(self, proxy: GuardedProxy) -> None:
        self._proxy = proxy
        self._serving: asyncio.Task[None] | None = None
        self._heard: asyncio.Future[None] | None = None
        self._is_closed = False
        self._ours, network = socket.socketpair()
        news, made = socket.socketpair()
        self.fds = {"network": network.detach(), "news": news.detach(), "made": made.detach()}

    async def open(self) -> None:
        """Return when the sandbox has its way out, or has ended; ToolError when it gets none. `fds` are closed."""
        loop = asyncio.get_running_loop()
        self._heard = loop.create_future()
        loop.add_reader(self._ours, settle_future, self._heard, None, None)
        try:
            await self._heard
            error, fds, _, _ = socket.recv_fds(self._ours, 1_000, 1)
        finally:
            loop.remove_reader(self._ours)
            self._ours.close()
        if error and not fds:
            raise ToolError(
                f"the sandbox cannot be given a network here ({error.decode()}); take the setuid bit from bubblewrap, "
                "or do without tools.exec.network and sandbox.network",
                code="unavailable",
            )
        if fds:
            listener = socket.socket(fileno=fds[0])
            self._serving = loop.create_task(self._proxy.serve(listener))
            self._serving.add_done_callback(lambda _: listener.close())
            if self._is_closed:
                self._serving.cancel()

    def close(self) -> None:
        """End every connection; `open` still waits until the command ends."""
        self._is_closed = True
        if self._heard is None:
            self._ours.close()
        if self._serving is not None:
            self._serving.cancel()
