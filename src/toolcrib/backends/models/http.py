"""A model behind HTTP: made from `provider` and `model`, asked once, read as it streams.

Every failure ends as one `Replied` that says why.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

import httpx2

from toolcrib.adapter.body import encode_body, names_by_wire_name
from toolcrib.adapter.cards import Target, card_for, target_for
from toolcrib.adapter.reply import BROKE_OFF, ReplyReader
from toolcrib.backends.web.guard import guard_for
from toolcrib.backends.web.unpack import PackedError, Unpacker
from toolcrib.define.errors import CribError
from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta, ThinkingDelta
from toolcrib.define.message import Thinking
from toolcrib.define.model import ModelCard, Request, may_request
from toolcrib.define.names import suggest
from toolcrib.define.result import Text
from toolcrib.lazy import dataclass, replace

from .answer import Answer
from .failures import (
    FailedError,
    ProviderLabel,
    describe_silence,
    describe_status,
    describe_transport,
    is_at_home,
    is_loopback,
    retry_delay,
)
from .known import KNOWN, api_for, key_in
from .wires import WIRES

_COMPLAINT_BYTES = 65_536  # bytes of an answer that tells of an error
_REST_BYTES = 65_536  # bytes after the end of a reply that are read so that the connection can be used again
_MIN_SECRET_CHARS = 8  # characters; what is shorter stands for no key, and in ordinary words
_HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a provider is waited for, in seconds, and how much it may send.

    `idle` is the time in which a line must come, the first one too, `closing` the same once the reply is complete but
    for counts, `rest` what the end of the answer may take after the end of the reply, `whole` all of it together.
    """

    connect: float = 15.0
    idle: float = 120.0
    closing: float = 10.0
    rest: float = 0.25
    whole: float = 3_600.0
    bytes: int = 128 * 1024 * 1024


PATIENCE = Patience()
# A machine at home reads ten tokens a second when it is busy, and the first request of a day has thousands.
HOME_PATIENCE = Patience(idle=1_800.0)


def make_patience(seconds: float) -> Patience:
    """Return the patience of `models.<provider>.timeoutSec`."""
    return Patience(idle=seconds, whole=max(PATIENCE.whole, seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is asked and with which headers; `is_here` when that is this machine."""

    url: str
    headers: Mapping[str, str]
    is_here: bool = False
    proxy: str | None = None


class HttpModel:
    """A `Model` behind one of the four APIs. It asks once; retries are up to the caller."""

    def __init__(
        self,
        card: ModelCard,
        target: Target,
        endpoint: Endpoint,
        label: ProviderLabel,
        patience: Patience = PATIENCE,
        encode: Callable[[Request, Target], bytes] = encode_body,
    ) -> None:
        self.card, self._encode = card, encode
        self._target, self._wire = target, WIRES[target.api]
        self._endpoint, self._label, self._patience = endpoint, label, patience
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        """Ask once. Yield what comes, and last a `Replied`: also when it failed, then with the sentence why."""
        names = names_by_wire_name(request, self._target)
        chunks, answer = self._wire.chunks(self._target, names), Answer(self._wire, self._label)
        failed: FailedError | None = None
        try:
            async with self._send(self._encode(request, self._target)) as body:
                while answer.stage != "over" and not chunks.is_over:
                    piece = await body.next_of(answer)
                    for value in answer.close() if piece is None else answer.feed(piece):
                        for event in chunks.feed(value):
                            yield event
                    if piece is None:
                        break
                await body.rest()
            if answer.whole is not None:
                replied = self._wire.whole(answer.whole, self._target, names)
                for event in _delta_events(replied):
                    yield event
                yield self._finish_reply(replied, answer)
                return
        except FailedError as error:
            failed = error
        except PackedError as error:
            failed = FailedError(f"{self._label.provider} cannot be read: {error}", 0.0)
        yield self._end_reply(chunks, answer, failed)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client and self._loop is asyncio.get_running_loop():
            await client.aclose()

    @contextlib.asynccontextmanager
    async def _send(self, body: bytes) -> "AsyncIterator[_Body]":
        """Send a request and give the body of its answer; raise FailedError when there is none to be read."""
        if not self._endpoint.is_here and not may_request():
            raise FailedError(f"requests to models are forbidden here, so {self._label.provider} was not asked")
        client = self._connect()
        asked = client.build_request("POST", self._endpoint.url, content=body, headers=dict(self._endpoint.headers))
        until = asyncio.get_running_loop().time() + self._patience.whole
        try:
            async with asyncio.timeout(self._patience.connect + self._patience.idle):
                response = await client.send(asked, stream=True)
        except (TimeoutError, httpx2.ReadTimeout):
            raise describe_silence(self._label, "did not begin to answer in", self._patience.idle) from None
        except httpx2.HTTPError as error:
            raise describe_transport(self._label, error) from None
        finally:
            client.cookies.clear()
        try:
            read = _Body(response, self._label, self._patience, until)
            if response.status_code >= 300:
                complaint = await read.complaint()
                raise describe_status(self._label, response.status_code, response.headers, complaint)
            yield read
        finally:
            await response.aclose()

    def _connect(self) -> httpx2.AsyncClient:
        """Return the client of this event loop: connections do not outlive theirs."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop, proxy = loop, self._endpoint.proxy
            self._client = guard_for(proxy or self._endpoint.url).open_client(
                secure=self._endpoint.url.startswith("https:"),
                timeout=httpx2.Timeout(self._patience.idle, connect=self._patience.connect),
                proxy=proxy,
            )
        return self._client

    def _end_reply(self, chunks: ReplyReader, answer: Answer, failed: FailedError | None) -> Replied:
        """Return the reply as far as it came. What was complete when the connection broke is complete."""
        replied = chunks.end()
        if failed is None or (failed.is_cut and answer.stage != "open"):
            return self._finish_reply(replied, answer)
        message = replace(replied.message, finish="error")
        return Replied(message, replied.usage, self._label.redact(failed.sentence), failed.retry)

    def _finish_reply(self, replied: Replied, answer: Answer) -> Replied:
        """Return a reply with whether it is worth asking again, and no key in what it says."""
        if replied.message.finish != "error":
            return replied
        if answer.whole is not None and replied.error == BROKE_OFF:
            sentence = f"{self._label.address} answered with JSON that is no model's answer; check "
            return replace(replied, error=f"{sentence}{self._label.setting}.baseUrl")
        retry = 0.0 if replied.error == BROKE_OFF else retry_delay(answer.last)
        return replace(replied, error=self._label.redact(replied.error), retry=retry)


class _Body:
    """The body of one answer as it comes, within time and measure."""

    def __init__(self, response: httpx2.Response, label: ProviderLabel, patience: Patience, until: float) -> None:
        self._raw = response.aiter_raw()
        self._label, self._patience, self._until = label, patience, until
        self._unpacker = Unpacker(response.headers.get("content-encoding", ""))
        self._pending: Iterator[bytes] = iter(())
        self._size = 0
        self._lines = -1
        self._left = 0.0  # seconds in which the next line must come; only waiting counts

    async def next_of(self, answer: Answer) -> bytes | None:
        """Return the next bytes of an answer, None at their end."""
        if answer.lines != self._lines:
            self._lines = answer.lines
            self._left = self._patience.idle
            if answer.stage == "closing":
                self._left = min(self._patience.closing, self._patience.idle)
        return await self._piece()

    async def complaint(self) -> bytes:
        """Return the beginning of a body that tells of an error, as far as it comes."""
        body = b""
        self._left = min(self._patience.closing, self._patience.idle)
        with contextlib.suppress(FailedError, PackedError):
            while len(body) < _COMPLAINT_BYTES and (piece := await self._piece()) is not None:
                body += piece
        return body[:_COMPLAINT_BYTES]

    async def rest(self) -> None:
        """Read what little may follow the end of the reply: a connection that is at its end can be used again."""
        size, self._left = 0, self._patience.rest
        with contextlib.suppress(FailedError):
            while size < _REST_BYTES and (raw := await self._next()) is not None:
                size += len(raw)

    async def _piece(self) -> bytes | None:
        piece = next(self._pending, None)
        while piece is None:
            raw = await self._next()
            if raw is None:
                return None
            self._pending = self._unpacker.feed(raw)
            piece = next(self._pending, None)
        self._size += len(piece)
        if self._size > self._patience.bytes:
            limit = f"{self._patience.bytes:,} bytes"
            raise FailedError(f"{self._label.provider} was stopped: it sent more than {limit} for one reply")
        return piece

    async def _next(self) -> bytes | None:
        now = asyncio.get_running_loop().time
        began = now()
        try:
            async with asyncio.timeout_at(min(began + self._left, self._until)):
                return await anext(self._raw, None)
        except (TimeoutError, httpx2.ReadTimeout):
            raise self._late(is_whole=now() >= self._until) from None
        except httpx2.HTTPError as error:
            raise describe_transport(self._label, error) from None
        finally:
            self._left -= now() - began

    def _late(self, *, is_whole: bool) -> FailedError:
        if is_whole:
            return describe_silence(self._label, "was stopped: its reply took longer than", self._patience.whole)
        if self._lines <= 0:
            return describe_silence(self._label, "sent nothing whole for", self._patience.idle)
        sentence = f"sent nothing whole for {self._patience.idle:g} seconds, so its reply was given up"
        return FailedError(f"{self._label.provider} {sentence}", 0.0, is_cut=True)


def _delta_events(replied: Replied) -> list[ReplyEvent]:
    """Return the events of a reply that came in one piece."""
    events: list[ReplyEvent] = []
    for part in replied.message.content:
        if isinstance(part, Thinking):
            events.append(ThinkingDelta(part.text))
        elif isinstance(part, Text):
            events.append(TextDelta(part.text))
    return [*events, *(CallDelta(index, call.name, "") for index, call in enumerate(replied.message.calls))]


# ---- from names to a model


def model_for(  # noqa: PLR0913  all of them stand in the configuration, under these names
    provider: str,
    model: str,
    *,
    base_url: str = "",
    api_key: str = "",
    headers: Mapping[str, str] = {},
    env: Mapping[str, str],
    patience: Patience | None = None,
    card: ModelCard | None = None,
) -> HttpModel:
    """Return the model that answers to these names.

    A provider that is not known speaks OpenAI's chat completions, at its `base_url`. `openai` speaks them too, except
    to models that only know the responses API; `openai-responses` speaks that to any. The key is `api_key`, else the
    provider's variable in `env`. Without `patience`, a server at home gets more of it; `card` is what its owner says of
    the model, where that is not what is known of it. Raise CribError, in one sentence that says what to set, when it
    cannot be asked.
    """
    known = KNOWN.get(provider)
    if known is None and not base_url:
        hint = suggest(provider, KNOWN, f"set models.{provider}.baseUrl to where it answers")
        raise CribError(f"no model provider is called {provider!r}{hint}")
    base = (base_url or (known.base_url if known else "")).rstrip("/")
    parts = _address(provider, base)
    api = api_for(provider, model, base)
    wire = WIRES[api]
    if api == "anthropic" and not parts.path.rstrip("/"):
        base += "/v1"  # how the base URL of this one is mostly written
    key = (api_key or key_in(env, known)).strip()
    advice = " or ".join([*(known.keys[:1] if known else ()), f"models.{provider}.apiKey"])
    if not key and not headers and not base_url and known and known.keys:
        raise CribError(f"{provider} needs an API key; set {advice}")
    sent = {**_BASE_HEADERS, **wire.headers, **(wire.key_headers(key) if key else {}), **headers}
    for name, value in sent.items():
        if not (name + value).isascii() or not (name + value).isprintable():
            what = "apiKey" if name.lower() in _KEY_HEADERS else f"headers.{name}"
            raise CribError(f"models.{provider}.{what} has characters that no header carries; copy it again")
    is_here = is_loopback(parts.hostname or "")
    card = card or card_for(provider, model)
    is_own = known is not None and base == known.base_url  # behind another address is a server that is only compatible
    return HttpModel(
        card,
        target_for(provider if is_own or provider != "openai" else "", model, card, api=api),
        Endpoint(
            url=base + wire.path(model), headers=sent, is_here=is_here, proxy=None if is_here else _proxy(env, parts)
        ),
        ProviderLabel(
            provider=provider,
            model=model,
            base_url=base,
            advice=advice,
            has_key=bool(key),
            redact=_make_redact((key, *headers.values(), parts.password or "")),
        ),
        patience or (HOME_PATIENCE if is_at_home(parts.hostname or "") else PATIENCE),
    )


_BASE_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream, application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "toolcrib",
}


def _make_redact(secrets: Iterable[str]) -> Callable[[str], str]:
    hidden = sorted({secret for secret in secrets if len(secret) >= _MIN_SECRET_CHARS}, key=len, reverse=True)

    def redact(text: str) -> str:
        for secret in hidden:
            text = text.replace(secret, _HIDDEN)
        return text

    return redact


def _address(provider: str, base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not base_url.isprintable():
        raise CribError(f"models.{provider}.baseUrl is no address of a server; write one like https://host/v1")
    return parts


_KEY_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key"})


def _proxy(env: Mapping[str, str], parts: SplitResult) -> str | None:
    """Return the proxy that the environment names for an address, None when it names none."""
    host = parts.hostname or ""
    direct = [name.strip().lower() for name in _either(env, "no_proxy").split(",") if name.strip()]
    if "*" in direct or any(f".{host}".endswith(f".{name.lstrip('*.')}") for name in direct):
        return None
    found = _either(env, f"{parts.scheme}_proxy") or _either(env, "all_proxy")
    if not found:
        return None
    return found if "://" in found else f"http://{found}"


def _either(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""
