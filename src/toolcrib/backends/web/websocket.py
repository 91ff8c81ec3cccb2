"""A WebSocket over a connection that the guard made: texts both ways, and a ping when the other side is quiet."""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

_Dial = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_OPEN_SECONDS, _QUIET_SECONDS = 30.0, 60.0
_READ_BYTES, _MESSAGE_BYTES = 65_536, 8 << 20


class SocketClosedError(ConnectionError):
    """The other side ended it; `code` says why, 1006 when it did not say."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the connection was ended ({code}{f': {reason[:200]}' if reason else ''})")
        self.code = code


async def open_socket(dial: _Dial, url: str) -> "TextSocket":
    """Connect to a ws: or wss: address, by `dial`; raise ConnectionError when that is refused."""
    from websockets.client import ClientProtocol  # noqa: PLC0415  only a channel that connects pays for it
    from websockets.uri import parse_uri  # noqa: PLC0415

    parts = urlsplit(url)
    is_secure, host = parts.scheme == "wss", parts.hostname or ""
    async with asyncio.timeout(_OPEN_SECONDS):
        reader, writer = await dial(host, parts.port or (443 if is_secure else 80))
        socket = TextSocket(reader, writer, ClientProtocol(parse_uri(url), max_size=_MESSAGE_BYTES))
        try:
            if is_secure:
                await writer.start_tls(ssl.create_default_context(), server_hostname=host)
            await socket.shake_hands()
        except BaseException:
            socket.abort()
            raise
    return socket


class TextSocket:
    """One open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: Any) -> None:
        self._reader, self._writer, self._protocol = reader, writer, protocol
        self._texts, self._parts = deque[str](), bytearray()
        self._end: ConnectionError | None = None

    async def shake_hands(self) -> None:
        """Ask for a WebSocket, and hear the yes."""
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        while self._protocol.state.name == "CONNECTING" and self._end is None:
            await self._read()
        if (refused := self._protocol.handshake_exc) is not None:
            raise ConnectionError(f"the server opens no WebSocket: {refused}")

    async def receive(self) -> str:
        """Return the next text; raise ConnectionError when none is to come."""
        while not self._texts:
            if self._end is not None:
                raise self._end
            await self._read()
        return self._texts.popleft()

    async def send(self, text: str) -> None:
        """Send a text; raise ConnectionError when that cannot be."""
        if self._end is not None:
            raise self._end
        self._protocol.send_text(text.encode())
        self._flush()
        await self._writer.drain()

    def abort(self) -> None:
        """Hang up without a word: a session on the other side goes on without us."""
        self._writer.transport.abort()

    async def _read(self) -> None:
        from websockets.frames import Frame, Opcode  # noqa: PLC0415  see open_socket

        data = await self._read_bytes()
        self._protocol.receive_data(data) if data else self._protocol.receive_eof()
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._parts += event.data
                if event.fin:
                    self._texts.append(self._parts.decode(errors="replace"))
                    self._parts.clear()
        if not data or self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None:
            close = self._protocol.close_rcvd
            self._end = SocketClosedError(close.code if close else 1006, close.reason if close else "")
        else:
            self._flush()

    async def _read_bytes(self) -> bytes:
        """Return what comes; a server that says nothing is asked, and left when it does not answer."""
        for asks in (True, False):
            try:
                async with asyncio.timeout(_QUIET_SECONDS):
                    return await self._reader.read(_READ_BYTES)
            except TimeoutError:
                if asks and self._protocol.state.name == "OPEN":
                    self._protocol.send_ping(b"there")
                    self._flush()
        raise ConnectionError("the server says nothing any more")

    def _flush(self) -> None:
        self._writer.write(b"".join(self._protocol.data_to_send()))
