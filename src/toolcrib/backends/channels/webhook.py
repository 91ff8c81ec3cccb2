"""A webhook, for a service of one's own: the service posts messages to the gateway, ours are posted to its `url`.

Both are JSON, signed alike by the shared secret: `X-Toolcrib-Signature: sha256=HEX` is the HMAC-SHA256 of the time in
`X-Toolcrib-Timestamp` (seconds), a dot and the body. A request that is five minutes off is refused, and a message with
an id that is known is not heard again. What we post has its key in `Idempotency-Key`, so that it may come twice.
"""

import asyncio
import base64
import binascii
import hmac
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolcrib.define.caller import Sender
from toolcrib.define.channel import (
    Abilities,
    Attachment,
    ChannelKind,
    Hear,
    HeardMessage,
    InboundAnswer,
    InboundRequest,
    Post,
    refuse_action,
)
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http, WayOut

from .hosted import to_wait

_WINDOW_SECONDS = 300
_POST_SECONDS = 30.0
_FILE_BYTES = 5 << 20  # of one that goes out; what comes in is bounded by the gateway's bodies
_MIN_SECRET = 16

_Id = Annotated[str, Field(min_length=1, max_length=256)]
_Line = Annotated[str, Field(max_length=256)]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _WireSender(_Wire):
    id: _Id
    name: _Line = ""


class _WireFile(_Wire):
    name: _Line = ""
    mime: _Line = ""
    data: str
    voice: bool = False
    forwarded: bool = False


class _WireMessage(_Wire):
    """What is posted to us."""

    id: _Id
    chat: _Id
    sender: _WireSender
    text: str = ""
    forwarded: str = ""
    group: _Line = ""
    thread: _Line = ""
    mentioned: bool = False
    pressed: _Line = ""
    files: Annotated[list[_WireFile], Field(max_length=16)] = []


class WebhookChannel:
    """One service that speaks as this page says."""

    abilities = Abilities(
        actions=("send", "broadcast", "reply"), buttons=True, media=True, longest=16_000, knows_keys=True
    )

    def __init__(self, url: str, secret: str, http: Http, now: Callable[[], float] = time.time) -> None:
        self._url, self._secret, self._http, self._now = url, secret.encode(), http, now
        self._hear: Hear | None = None

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Wait: what is written comes by `receive`."""
        self._hear = hear
        ready()
        await asyncio.Event().wait()

    async def receive(self, request: InboundRequest, /) -> InboundAnswer:
        """Hear a message that is signed, and new enough."""
        stamp, shown = (request.headers.get(f"x-toolcrib-{name}", "") for name in ("timestamp", "signature"))
        if not hmac.compare_digest(shown.encode(), self._sign(stamp, request.body).encode()):
            return InboundAnswer(403, "this is not signed by channels.webhook.secret; docs/channels.md says how")
        if not stamp.isdecimal() or abs(self._now() - int(stamp)) > _WINDOW_SECONDS:
            return InboundAnswer(403, f"X-Toolcrib-Timestamp is more than {_WINDOW_SECONDS} seconds off; sign it anew")
        if self._hear is None:
            return InboundAnswer(503, "the channel is not at work yet")
        try:
            message = _WireMessage.model_validate_json(request.body)
            files = tuple(_to_attachment(each) for each in message.files)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"])) or "the body"
            return InboundAnswer(400, f"{where}: {error.errors()[0]['msg']}")
        except binascii.Error:
            return InboundAnswer(400, "files: data is base64")
        heard = HeardMessage(
            id=message.id,
            chat=message.chat,
            sender=Sender(id=message.sender.id, name=message.sender.name or None),
            kind="group" if message.group else "dm",
            group=message.group,
            thread=message.thread,
            text=message.text,
            forwarded=message.forwarded,
            pressed=message.pressed,
            is_for_us=message.mentioned,
            attachments=files,
            at=float(stamp),
        )
        await self._hear([heard], "")
        return InboundAnswer(202, "kept")

    async def post(self, post: Post, key: str, /) -> str:
        """Post a message; the service may answer with the id that it has there."""
        key = sha256(key.encode()).hexdigest()[:32]
        payload: dict[str, Any] = {"key": key, "chat": post.chat, "text": post.text}
        payload |= {"thread": post.thread, "replyTo": post.reply_to, "silent": post.silent}
        payload["buttons"] = [[{"text": each.text, "data": each.data} for each in row] for row in post.buttons]
        if post.media:
            payload["file"] = await self._pack_file(post)
        body, stamp = orjson.dumps(payload), str(int(self._now()))
        headers = {"content-type": "application/json", "idempotency-key": key, "x-toolcrib-timestamp": stamp}
        headers["x-toolcrib-signature"] = self._sign(stamp, body)
        try:
            page = await self._http.send("POST", self._url, headers=headers, body=body, seconds=_POST_SECONDS)
        except ToolError as error:
            if error.code == "timeout":  # it knows the key: it is asked again
                raise ToolError(str(error), code="unavailable") from None
            raise
        if 200 <= page.status < 300:
            answer = page.read_json()
            return (str(answer.get("id") or "")[:256] if isinstance(answer, dict) else "") or key
        if page.status == 429 or page.status >= 500:
            await asyncio.sleep(to_wait(page.headers.get("retry-after", 0)))
            raise ToolError(f"the webhook answered {page.status}", code="busy")
        raise ToolError(f"the webhook answered {page.status}; what it takes is in docs/channels.md", code="denied")

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        raise refuse_action("webhook", action, self.abilities)

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return a file, which came with its message."""
        data = base64.b64decode(attachment.ref)
        if len(data) > max_bytes:
            raise ToolError(f"the file has more than {max_bytes:,} bytes", code="too_large")
        return data

    async def show_typing(self, chat: str, thread: str, /) -> None:
        """Do nothing: there is no such thing."""

    async def close(self) -> None:
        """Take nothing more."""
        self._hear = None

    def _sign(self, stamp: str, body: bytes) -> str:
        return f"sha256={hmac.digest(self._secret, stamp.encode() + b'.' + body, 'sha256').hex()}"

    async def _pack_file(self, post: Post) -> dict[str, Any]:
        data = await asyncio.to_thread(Path(post.media).read_bytes)
        if len(data) > _FILE_BYTES:
            raise ToolError(f"a webhook takes files of at most {_FILE_BYTES:,} bytes", code="too_large")
        mime = guess_type(post.filename)[0] or "application/octet-stream"
        return {"name": post.filename, "mime": mime, "data": base64.b64encode(data).decode(), "voice": post.is_voice}


def _to_attachment(file: _WireFile) -> Attachment:
    size = len(base64.b64decode(file.data, validate=True))
    return Attachment(file.data, file.name, file.mime, size, file.voice, file.forwarded)


def _make(settings: Any, way_out: WayOut) -> WebhookChannel:
    if not settings.url or not settings.secret:
        raise ToolError("a webhook needs url, where messages are posted, and secret, by which both sides sign")
    if len(settings.secret) < _MIN_SECRET:
        raise ToolError(f"the secret of a webhook has at least {_MIN_SECRET} characters: `openssl rand -hex 32`")
    return WebhookChannel(settings.url, settings.secret, way_out.for_own(settings.url))


WEBHOOK = ChannelKind(WebhookChannel.abilities, _make)
