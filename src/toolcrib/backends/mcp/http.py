"""A server behind an address: messages are posted, answers come as JSON or as a stream of events, all within bounds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Protocol

import httpx2

from toolcrib.backends.models.answer import EventReader, TooLongError
from toolcrib.backends.web.guard import destination_of, guard_for
from toolcrib.backends.web.unpack import PackedError, Unpacker
from toolcrib.define.egress import EgressRules
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import LinkTerms

from .peer import MESSAGE_BYTES, Linked, MakePeer, ServerPeer, decode, encode
from .signin import SignInGuard

_CONNECT, _IDLE = 15.0, 300.0  # seconds
_STREAM_BYTES = 256 * 1024 * 1024  # bytes of one stream of events
_AGAIN = 5.0  # seconds before the stream of notifications is opened again, where the server does not say
_SOON, _LATE = 0.1, 60.0  # seconds before a stream is resumed, whatever the server says
_MAX_RESUMES = 5  # in a row that bring nothing new
_GOODBYE = 2.0
_SESSION, _VERSION = "mcp-session-id", "mcp-protocol-version"
_SESSION_CHARS = 512


class Signer(Protocol):
    """Sends what has to be signed."""

    async def send(self, client: httpx2.AsyncClient, request: httpx2.Request, /) -> httpx2.Response: ...


class HttpLink:
    """Posts to one address, with the headers that its operator gave, or signed."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        peer: ServerPeer,
        signer: Signer | None,
        rules: Callable[[], EgressRules],
    ) -> None:
        self._url, self._headers, self._peer, self._signer = url, headers, peer, signer
        self._session, self._version, self._rules, self._host = "", "", rules, destination_of(url).host
        guard = guard_for(url, rules()) if signer is None else SignInGuard(url, rules())
        self._client = guard.open_client(
            secure=signer is not None or url.startswith("https:"),
            timeout=httpx2.Timeout(connect=_CONNECT, read=_IDLE, write=_IDLE, pool=_IDLE),
        )
        self._listening: asyncio.Task[None] | None = None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Post a message, and take in what its answer holds; for a request, that has to hold the answer."""
        heard = False

        def take(each: Any, weight: int) -> None:
            nonlocal heard
            heard = heard or (isinstance(each, dict) and each.get("id") == message.get("id") and "method" not in each)
            self._peer.receive(each, weight)

        async with self._request("POST", encode(message)) as response:
            if response.status_code == 404 and self._session:
                self._peer.lose("does not know this session any more")
                return
            if response.status_code >= 300:
                raise ToolError(_status(response, self._signer is not None), code="unavailable")
            if message.get("method") == "initialize":
                self._session = response.headers.get(_SESSION, "")[:_SESSION_CHARS]
            if "id" not in message or "method" not in message:
                return
            stream = EventReader(MESSAGE_BYTES)
            with _breaking(stream):
                await self._take(response, take, stream)
        idle = 0
        while not heard and stream.last_id and idle < _MAX_RESUMES:
            stream, before = await self._resume(stream, take), stream.last_id
            idle = idle + 1 if stream.last_id == before else 0
        if not heard:
            raise ToolError("the server ended its answer without one")

    def agree(self, version: str) -> None:
        """Speak this version of the protocol from now on."""
        self._version = version

    def listen(self) -> None:
        """Hear also what the server says unasked, if it offers that."""
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    def diagnostics(self) -> str:
        """Return nothing: what the server writes for its operator stays where it runs."""
        return ""

    async def close(self) -> None:
        """Say goodbye and let go of the connections."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))
        with contextlib.suppress(ToolError, TimeoutError):  # it is gone, or does not care
            if self._session:
                async with asyncio.timeout(_GOODBYE), self._request("DELETE"):
                    pass
        await self._client.aclose()

    async def _listen(self) -> None:
        """Read what the server says unasked. Many offer no such stream, and say so once."""
        last_id = ""
        while True:
            stream = EventReader(MESSAGE_BYTES)
            try:
                async with self._request("GET", after=last_id) as response:
                    if not _is_stream(response):
                        return
                    await self._take(response, self._peer.receive, stream)
            except ToolError as error:  # who answers requests is asked again later, but not for a token
                if error.code == "denied":
                    return
            last_id = stream.last_id
            await asyncio.sleep(_delay(stream))

    async def _resume(self, stream: EventReader, take: Callable[[Any, int], None]) -> EventReader:
        """Ask for the rest of a stream that broke off, after the time that the server named; return it."""
        await asyncio.sleep(_delay(stream))
        rest = EventReader(MESSAGE_BYTES)
        async with self._request("GET", after=stream.last_id) as response:
            if not _is_stream(response):
                raise ToolError("the server ended its answer without one, and does not give the rest")
            with _breaking(rest):
                await self._take(response, take, rest)
        rest.last_id, rest.retry = rest.last_id or stream.last_id, rest.retry or stream.retry
        return rest

    @contextlib.asynccontextmanager
    async def _request(self, method: str, body: bytes | None = None, after: str = "") -> AsyncIterator[httpx2.Response]:
        if refused := self._rules().judge_host(self._host):  # they may be others since it was connected
            raise refused
        headers = {
            **self._headers,
            "accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
            "accept-encoding": "gzip",
        }
        if body is not None:
            headers["content-type"] = "application/json"
        more = {_SESSION: self._session, _VERSION: self._version, "last-event-id": after}
        headers |= {name: value for name, value in more.items() if value}
        try:
            request = self._client.build_request(method, self._url, content=body, headers=headers)
            sending = (
                self._signer.send(self._client, request) if self._signer else self._client.send(request, stream=True)
            )
            response = await sending
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise ToolError(f"it could not be reached ({type(error).__name__})", code="unavailable") from None
        finally:
            self._client.cookies.clear()
        try:
            yield response
        finally:
            await response.aclose()

    async def _take(self, response: httpx2.Response, take: Callable[[Any, int], None], events: EventReader) -> None:
        """Take in the messages of an answer: one JSON value, or events as they come."""
        is_stream = "event-stream" in response.headers.get("content-type", "")
        whole, size = bytearray(), 0
        try:
            async for piece in read_pieces(response):
                size += len(piece)
                if size > (_STREAM_BYTES if is_stream else MESSAGE_BYTES):
                    raise ToolError(
                        f"it was cut off: it sent more than {MESSAGE_BYTES:,} bytes at once", code="too_large"
                    )
                if is_stream:
                    for sent in events.feed(piece):
                        self._read_message(sent.data, take)
                else:
                    whole += piece
            for sent in events.close() if is_stream else ():
                self._read_message(sent.data, take)
        except TooLongError:
            raise ToolError(
                f"it was cut off: it sent an event of more than {MESSAGE_BYTES:,} bytes", code="too_large"
            ) from None
        if whole.strip():
            self._read_message(bytes(whole), take)

    def _read_message(self, data: bytes, take: Callable[[Any, int], None]) -> None:
        if weight := self._peer.admit(data):
            take(_message(data), weight)


async def connect_over_http(
    url: str,
    headers: Mapping[str, str],
    terms: LinkTerms,
    make_peer: MakePeer,
    signer: Signer | None = None,
    rules: Callable[[], EgressRules] = EgressRules,
) -> Linked:
    """Shake hands with a server at an address that `rules` let out to; raise ToolError when that fails."""
    peer = make_peer(lambda message: transport.send(message))
    transport = HttpLink(url, headers, peer, signer, rules)
    link = Linked(peer, transport, terms)
    await link.open()
    transport.listen()
    return link


@contextlib.contextmanager
def _breaking(stream: EventReader) -> Iterator[None]:
    """Let a stream break off that says where it can be taken up again."""
    try:
        yield
    except ToolError as error:
        if error.code != "unavailable" or not stream.last_id:
            raise


def _is_stream(response: httpx2.Response) -> bool:
    return response.status_code == 200 and "event-stream" in response.headers.get("content-type", "")


def _delay(stream: EventReader) -> float:
    return min(max(stream.retry or _AGAIN, _SOON), _LATE)


async def read_pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield an answer as it comes, unpacked; raise ToolError when it breaks off."""
    try:
        unpacked = Unpacker(response.headers.get("content-encoding", ""))
        async for raw in response.aiter_raw():
            for piece in unpacked.feed(raw):
                yield piece
    except PackedError as error:
        raise ToolError(f"it cannot be read: {error}") from None
    except httpx2.HTTPError as error:
        raise ToolError(f"the connection broke ({type(error).__name__})", code="unavailable") from None


def _message(data: bytes) -> Any:
    if not data.strip():
        return None
    try:
        return decode(data)
    except ValueError:
        raise ToolError("it sent a message that is no JSON") from None


def _status(response: httpx2.Response, is_signed: bool) -> str:
    status = response.status_code
    if is_signed and status in (401, 403):
        return f"it answered {status}: the token that it has given does not let us in"
    if status == 401 and "authorization" not in response.request.headers:
        return "it answered 401: it wants you to sign in; write auth: oauth for it, or a token in headers"
    if status in (401, 403):
        return f"it answered {status}: the headers in the configuration do not let us in"
    if 300 <= status < 400:
        return f"it answered {status} and points elsewhere; write the address it points to as url"
    if status in (404, 405):
        return f"it answered {status}: there is no MCP server at that address"
    return f"it answered {status}"
