"""MCP over HTTP at /mcp: each credential is served the belt of its own caller, in sessions that no other can use."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from toolcrib.app import Crib
from toolcrib.define.gateway import explain_forbidden

from .credentials import Principal
from .http import Gate, HttpError, admit, send_json

MCP_PATH = "/mcp"


class _Served(NamedTuple):
    app: Any
    task: "asyncio.Task[None]"


class McpDoor:
    """The servers of those who have asked, one each, for as long as their credential counts."""

    def __init__(self, server: Gate, crib: Crib) -> None:
        self._server, self._crib = server, crib
        self._served: dict[str, _Served] = {}
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = admit(self._server, scope, "tools.list", "read")
            async with self._lock:
                served = self._served.get(principal.id) or await self._serve(principal)
        except HttpError as error:
            await send_json(error.status, error.to_json(), send)
        else:
            await served.app(scope, receive, send)

    def turn_out(self, ids: Collection[str]) -> None:
        """End the sessions of those whose secret no longer counts."""
        for id in ids:
            if (served := self._served.pop(id, None)) is not None:
                served.task.cancel()

    @contextlib.asynccontextmanager
    async def live(self) -> AsyncIterator[None]:
        """Be there; at the end every session is ended."""
        try:
            yield
        finally:
            tasks = [served.task for served in self._served.values()]
            self.turn_out(tuple(self._served))
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, principal: Principal) -> _Served:
        try:
            from toolcrib.doors.mcp import BeltApp, BeltServer  # noqa: PLC0415  needs an extra, and a second to load
        except ImportError:
            raise HttpError(503, "unavailable", "this gateway has no MCP: pip install 'toolcrib[mcp]'") from None
        caller = principal.caller
        if caller.session is None:
            caller = replace(caller, session="agent:main:mcp")
        why = explain_forbidden("tools.call", principal.role, principal.scopes, "write")
        assign = self._crib.models.assign if not principal.is_owner else (lambda who: who)
        app, ready = BeltApp(BeltServer(lambda: self._crib.belt(assign(caller)), refusal=why)), asyncio.Event()

        async def run() -> None:
            async with app.keep_sessions():
                ready.set()
                await asyncio.Event().wait()

        served = self._served[principal.id] = _Served(app, asyncio.ensure_future(run()))
        await ready.wait()
        return served
