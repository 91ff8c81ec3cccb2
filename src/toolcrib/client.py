"""A client of a gateway, as a program uses it.

    async with toolcrib.connect("ws://127.0.0.1:18789", token) as crib:
        print(await crib.ask("sessions.list", {"limit": 5}))
        answer = await crib.say("list the files in src")
        async for event, payload in crib.events(): ...

It connects again by itself, goes on with the answer it was waiting for, and does nothing twice.
"""

import os
import secrets
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

from toolcrib.define.errors import CribError

if TYPE_CHECKING:
    from toolcrib.backends.gateway import GatewayLink

TOKEN_VARIABLE = "TOOLCRIB_TOKEN"  # noqa: S105  its name


class GatewayClient:
    """A crib in another process. What it may do is what its token may."""

    def __init__(self, link: "GatewayLink") -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<GatewayClient of {self._link.url}>"

    async def __aenter__(self) -> Self:
        await self._link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._link.close()

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Ask a service for something by name, like `sessions.list`; plain JSON comes back."""
        return await self._link.ask(method, params)

    async def call(
        self, tool: str, args: Mapping[str, Any] | None = None, *, session: str = "main", dry_run: bool = False
    ) -> dict[str, Any]:
        """Call a tool, through the same gate as a model's call; return its result and the verdict."""
        params = {"tool": tool, "args": dict(args or {}), "sessionKey": session, "dryRun": dry_run}
        told: dict[str, Any] = await self._link.ask("tools.call", params)
        return told

    async def say(self, message: str, *, session: str = "main", agent: str = "") -> str:
        """Say something in a session and return the answer; raise CribError when there is none."""
        params = {"message": message, "sessionKey": session, "idempotencyKey": secrets.token_hex(12)}
        told = await self._link.ask("agent", params | ({"agentId": agent} if agent else {}), lambda _: None)
        if told["status"] != "ok":
            raise CribError(told.get("summary") or "the run failed")
        return "\n".join(part["text"] for part in told["result"]["payloads"])

    def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield what happens from now on: the name of an event, and what is told of it."""
        return self._link.events()


def connect(url: str = "ws://127.0.0.1:18789", token: str | None = None, *, tries: int | None = None) -> GatewayClient:
    """Return a client of the gateway at this address; use it with `async with`.

    The token is the one given, else $TOOLCRIB_TOKEN, and is never part of the address. A connection that breaks is
    made again for ever, or so many `tries`.
    """
    if token is None and not (token := os.environ.get(TOKEN_VARIABLE, "").strip()):
        raise CribError(f"a gateway needs a token: give one, or set {TOKEN_VARIABLE}")
    if "://" not in url or not url.startswith(("ws://", "wss://")):
        raise CribError(f"{url!r} is no address of a gateway; write one like ws://127.0.0.1:18789")
    try:
        from toolcrib.backends.gateway import GatewayLink  # noqa: PLC0415  needs the extra
    except ImportError as error:
        raise CribError(f"a client needs the extra `gateway`: pip install 'toolcrib[gateway]' ({error})") from None
    client = {"id": "gateway-client", "version": version("toolcrib"), "platform": os.uname().sysname.lower()}
    return GatewayClient(GatewayLink(url, token, client | {"mode": "backend"}, tries))
