"""BeltServer: the official SDK's server over the belt of one caller. Every call goes through `belt.call`."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import CallToolRequestParams, ListToolsResult, NotificationParams, PaginatedRequestParams, Tool
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from toolcrib import __version__
from toolcrib.adapter import mcp as wire
from toolcrib.app import Belt
from toolcrib.define.names import canonical
from toolcrib.define.result import Result
from toolcrib.define.verdict import Selection

from .once import Once
from .progress import Progress

__all__ = ["BeltServer"]

Context = ServerRequestContext[Any, Any]

_SECONDS_TO_TELL = 5.0  # for one client to take the news that the list has changed


class BeltServer(Server[Any]):
    """Serves the belt that `belt` returns, asked anew for every request; all clients of a server are one caller.

    A tool that is only declared is not listed. What fails, is denied or does not exist is answered as a result that
    says so, and is recorded like any other call. Spans are made for OpenTelemetry if it was set up before the server.
    """

    def __init__(self, belt: Callable[[], Belt]) -> None:
        self._belt, self._alone = belt, asyncio.Lock()
        self._bus = InMemorySubscriptionBus()
        self._connections: set[Connection] = set()
        self._listed: tuple[Selection, ListToolsResult] | None = None
        super().__init__(
            "toolcrib",
            version=__version__,
            on_list_tools=self._list,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=self._schema,
        )
        if isinstance(get_tracer_provider(), ProxyTracerProvider):
            self.middleware.clear()  # nobody collects spans, and making them takes a seventh of a call
        self.add_request_handler("tools/call", CallToolRequestParams, self._call)
        self.add_notification_handler("notifications/initialized", NotificationParams, self._met)

    async def changed(self) -> None:
        """Tell every client that the list of tools is another one now."""
        await self._bus.publish(ToolsListChanged())
        for connection in tuple(self._connections):
            with anyio.move_on_after(_SECONDS_TO_TELL):  # one who does not read holds up nobody
                await connection.send_tool_list_changed()

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return what a client is told first, also by transports that do not ask for it: the list may change."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    def served(self) -> ListToolsResult:
        """Return the tools that are served now."""
        belt = self._belt().selection
        if self._listed is None or self._listed[0] is not belt:
            tools = [Tool.model_validate(wire.declare(tool)) for tool in belt.tools.values() if tool.has_body]
            self._listed = belt, ListToolsResult(tools=tools)
        return self._listed[1]

    async def _list(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return self.served()

    def _schema(self, name: str) -> dict[str, Any] | None:
        return next((tool.input_schema for tool in self.served().tools if tool.name == name), None)

    async def _call(self, ctx: Context, params: CallToolRequestParams) -> dict[str, Any]:
        belt, name = self._belt(), params.name
        tool = belt.tools.get(name) or belt.tools.get(canonical(name) or "")
        if tool is not None and tool.exclusive:
            # a client may send the calls of one reply side by side: those that change files come one after the other
            async with self._alone:
                result = await _made(belt, ctx, params)
        else:
            result = await _made(belt, ctx, params)
        return {"resultType": "complete", **wire.encode_result(result)}

    async def _met(self, ctx: Context, params: NotificationParams) -> None:
        """Remember a client that has to be told of changes; those of newer protocols ask for that themselves."""
        connection = ctx.session._connection  # noqa: SLF001  the SDK has no other way to hear that a client is gone
        if connection not in self._connections:
            self._connections.add(connection)
            connection.exit_stack.callback(self._connections.discard, connection)


async def _made(belt: Belt, ctx: Context, params: CallToolRequestParams) -> Result:
    """Make a call; a client that wants to know how far it is, is told, all of it before the result."""
    progress = Progress(ctx.session.report_progress)
    try:
        result = await Once(belt.call(params.name, params.arguments, progress=progress.hear))
        await progress.sent()
    finally:
        progress.stop()
    return result
