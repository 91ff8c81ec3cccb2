"""The MCP server as a process: its wire, its token, its signals, and what it says to a person."""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import click

from toolcrib.app import Belt, Crib
from toolcrib.define.approval import Question
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError
from toolcrib.define.tool import Tool
from toolcrib.doors.mcp import PATH, BeltServer, Relay, claim_stdio, listen_on, serve_http, serve_stdio

from . import EXIT_INTERRUPTED
from ._options import is_attended
from .approvals import ask_at_terminal

Pipes = tuple[int, int]
AccessToken = tuple[str, bool]
"""What clients have to show, and whether it was made up just now."""

_VARIABLE = "TOOLCRIB_MCP_TOKEN"
_TOKEN_CHARS = 16


def token_from_environment() -> AccessToken:
    """Return the token that the environment names, which no command inherits from here, or a new one."""
    given = os.environ.pop(_VARIABLE, None)
    if given is None:
        return secrets.token_urlsafe(32), True
    if len(given) < _TOKEN_CHARS or not given.isascii() or not given.isprintable() or " " in given:
        raise CribError(
            f"{_VARIABLE} is no token; write {_TOKEN_CHARS} or more letters, digits and marks, or leave it out"
        )
    return given, False


@contextlib.contextmanager
def wire(port: int | None) -> Iterator[Pipes | socket.socket]:
    """Yield what the protocol is spoken over: stdin and stdout, or a socket when there is a port.

    Either way nothing that a tool starts gets hold of our stdin, unless there is a person at it.
    """
    if port is None:
        with claim_stdio() as pipes:
            yield pipes
    else:
        attended = is_attended()
        with (
            contextlib.closing(listen_on(port)) as at,
            contextlib.redirect_stdout(sys.stderr) if attended else claim_stdio(),
        ):
            yield at


class Serving:
    """Serves one belt until the client is gone or somebody interrupts it, and leaves nothing running.

    Over HTTP the person at this terminal is asked about calls that need a yes. With `asks` such calls wait for
    `toolcrib approvals`; else they are refused.
    """

    def __init__(self, crib: Crib, belt: Callable[[Sequence[Tool]], Belt], *, asks: bool) -> None:
        self._crib, self._asks, self._interrupts = crib, asks, 0
        relay = Relay(belt, crib.mcp_tools) if crib.mcp.servers else None
        self._server = BeltServer(lambda: belt(()), relay)

    async def run(self, line: Pipes | socket.socket, token: AccessToken | None) -> int:
        """Serve, and return the exit code."""
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(self.serve(line, token))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt, task)
        await asyncio.wait([task])
        if self._interrupts:
            click.echo("toolcrib: interrupted", err=True)
            return EXIT_INTERRUPTED
        task.result()
        return 0

    def _interrupt(self, task: "asyncio.Task[None]") -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            os._exit(EXIT_INTERRUPTED)  # commands end with us
        task.cancel()

    async def serve(self, line: Pipes | socket.socket, token: AccessToken | None) -> None:
        """Serve until the client is gone, or this is cancelled; over HTTP there has to be a token."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._crib)
            if token is not None and is_attended():
                await stack.enter_async_context(ask_at_terminal(self._crib.approvals))
            elif self._asks:
                stack.callback(self._crib.approvals.on_question(_announce_question))
            await stack.enter_async_context(self._watch_tools())
            if isinstance(line, tuple):
                await serve_stdio(self._server, *line)
            elif token is not None:
                self._print_address(line, token)
                await serve_http(self._server, line, token[0])

    def _print_address(self, at: socket.socket, token: AccessToken) -> None:
        count = len(self._server.current_tools().tools)
        click.echo(f"toolcrib: {count} tools at http://127.0.0.1:{at.getsockname()[1]}{PATH}", err=True)
        if token[1]:
            click.echo(f"toolcrib: clients have to show the token {token[0]}", err=True)
        if unmet := self._crib.mcp.unmet():
            names = ", ".join(map(escape_controls, unmet))
            click.echo(f"toolcrib: the tools of {names} come as soon as they answer", err=True)

    @contextlib.asynccontextmanager
    async def _watch_tools(self) -> AsyncIterator[None]:
        """Tell clients when the tools of MCP servers that we use ourselves come, go or become others."""
        listed, news = self._server.current_tools(), asyncio.Event()

        def look() -> None:
            nonlocal listed
            before, listed = listed, self._server.current_tools()
            if before.tools != listed.tools:  # that a server is slow, or gone for a while, is no news to clients
                news.set()

        async def tell() -> None:
            while True:
                await news.wait()
                news.clear()
                await self._server.announce_change()

        detach = self._crib.mcp.on_change(look)
        telling = asyncio.create_task(tell())
        try:
            yield
        finally:
            detach()
            telling.cancel()
            await asyncio.wait([telling])


def _announce_question(question: Question) -> None:
    """Say that somebody has to answer; which question it is, only who looks gets to see."""
    if question.state == "pending":
        click.echo(f"toolcrib: {question.tool} waits for an answer; `toolcrib approvals list` shows it", err=True)
