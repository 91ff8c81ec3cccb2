"""WhatsApp, by Meta's Cloud API: messages come to the gateway, signed; what we send has no idempotency key.

A person is their number, which WhatsApp itself vouches for. What a request brings is kept before it is answered, and
one that was not is made again by Meta, for days.
"""

import asyncio
import hmac
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from mimetypes import guess_type
from pathlib import Path
from typing import Any

import orjson

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
from toolcrib.define.display import strip_to_line
from toolcrib.define.egress import read_url
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Page, WayOut, pack_form

log = logging.getLogger("toolcrib")

_BASE = "https://graph.facebook.com/v25.0"
_FILES_AT = "https://lookaside.fbsbx.com"  # where Meta keeps what people send
_POST_SECONDS, _FILE_SECONDS, _MAX_RETRY = 30.0, 120.0, 60.0
_TYPING_SECONDS, _MAX_TYPING = 20.0, 1_000  # how long it is shown, and in how many chats
_COMPLAINT_CHARS = 300
_JSON = "application/json"
_CAPTION_CHARS = _ASKED_CHARS = 1_024
_MAX_BUTTONS, _TITLE_CHARS, _DATA_CHARS = 3, 20, 256
_FILES = ("image", "audio", "document", "video", "sticker")
_SHOWN = {"image/jpeg": "image", "image/png": "image", "video/mp4": "video", "video/3gpp": "video"}
_LIMITS = (2, 4, 80_007, 130_429, 131_016, 131_056, 131_057)  # too much, or out of order: the same may do later
_TOLD = {
    190: "the access token does not hold; check channels.whatsapp.accessToken",
    131_047: "they last wrote more than 24 hours ago, and until they write again WhatsApp lets only templates through",
    133_010: "the number is not registered; do it with `toolcrib channels login whatsapp`",
}


class WhatsAppChannel:
    """One number."""

    abilities = Abilities(
        actions=("send", "broadcast", "reply", "react"), buttons=True, media=True, typing=True, longest=4_096,
        markup=True,
    )  # fmt: skip

    def __init__(self, settings: Any, way_out: WayOut) -> None:
        self._settings, self._way_out = settings, way_out
        self._base = (settings.api_base or _BASE).rstrip("/")
        self._http = way_out.for_own(self._base)
        self._hear: Hear | None = None
        self._refusals = 0  # one after the other, because it was too much
        self._said: dict[str, list[str]] = {}  # by key: the ids of those parts of a post that were taken
        self._latest: OrderedDict[str, tuple[str, float]] = OrderedDict()  # by chat: its last message, typing until

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Look whether the number is ours; what is written to it comes by `receive`."""
        self._hear = hear
        await self.identify()
        ready()
        await asyncio.Event().wait()

    async def receive(self, request: InboundRequest, /) -> InboundAnswer:
        """Answer Meta's question whether this is the place, or hear what was written."""
        own = self._settings
        if request.method == "GET":
            shown = (request.query.get("hub.mode", ""), request.query.get("hub.verify_token", ""))
            if not _is_same("\n".join(shown), f"subscribe\n{own.verify_token}"):
                return InboundAnswer(403, "this is not the token of channels.whatsapp.verifyToken")
            return InboundAnswer(200, request.query.get("hub.challenge", "")[:_DATA_CHARS])
        signed = hmac.digest(own.app_secret.encode(), request.body, "sha256").hex()
        if not _is_same(request.headers.get("x-hub-signature-256", ""), f"sha256={signed}"):
            return InboundAnswer(403, "this is not signed by channels.whatsapp.appSecret")
        if self._hear is None:
            return InboundAnswer(503, "the channel is not at work yet")
        heard = list(read_notice(request.body, own.phone_number_id))
        if heard:
            await self._hear(heard, "")
        for each in heard:
            self._latest[each.chat] = (each.id, 0.0)
            self._latest.move_to_end(each.chat)
            while len(self._latest) > _MAX_TYPING:
                self._latest.popitem(last=False)
        return InboundAnswer(200, "kept")

    async def post(self, post: Post, key: str, /) -> str:
        """Send the parts of a post; one that was taken is not sent again when another has to wait."""
        parts, sent = await self._to_parts(post), self._said.pop(key, [])
        for part in parts[len(sent) :]:
            try:
                sent.append(await self._say({**_address(post.chat), **part}))
            except ToolError as error:
                if error.code in ("busy", "unavailable"):
                    self._said[key] = sent
                raise
        return sent[-1]

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        """React to a message."""
        if action != "react":
            raise refuse_action("whatsapp", action, self.abilities)
        message, emoji = str(params.get("messageId") or ""), str(params.get("emoji") or "")
        if not message or not (emoji or params.get("remove")):
            raise ToolError("messageId and emoji are needed: say which message is meant", code="bad_arguments")
        reaction = {"message_id": message, "emoji": "" if params.get("remove") else emoji}
        body = {**_address(chat), "type": "reaction", "reaction": reaction}
        return {"ok": True, "messageId": await self._say(body)}

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return a file that came with a message; the token is shown to Meta alone."""
        if not attachment.ref.isalnum():
            raise ToolError("the file has no id that WhatsApp knows", code="not_found")
        there = read_url(str((await self._ask(attachment.ref)).get("url", "")))
        homes = (self._base, _FILES_AT)
        home = next((each for each in homes if read_url(each).origin == there.origin), None)
        if home is None:
            raise ToolError(f"WhatsApp sent us to {there.host} for a file, which is none of its places", code="denied")
        http = self._way_out.for_own(home)
        page = await http.get(there.url, headers=self._headers(), most=max_bytes, seconds=_FILE_SECONDS)
        if page.status != 200:
            raise ToolError(f"whatsapp answered {page.status} to a file", code="not_found")
        return page.body

    async def show_typing(self, chat: str, thread: str, /) -> None:
        """Show that the last message was read, and an answer is on its way."""
        id, until = self._latest.get(chat, ("", 0.0))
        if id and time.monotonic() > until:
            self._latest[chat] = (id, time.monotonic() + _TYPING_SECONDS)
            body = {"messaging_product": "whatsapp", "status": "read", "message_id": id}
            await self._ask_number("/messages", {**body, "typing_indicator": {"type": "text"}})

    async def close(self) -> None:
        """Take nothing more."""
        self._hear = None

    # The number

    async def identify(self) -> str:
        """Return the number, and the name that people see."""
        number = await self._ask_number("?fields=display_phone_number,verified_name")
        return strip_to_line(f"{number.get('display_phone_number', '')} {number.get('verified_name', '')}").strip()

    async def is_registered(self) -> bool:
        """Tell whether the number was proven, and is connected."""
        number = await self._ask_number("?fields=code_verification_status,status")
        return (number.get("code_verification_status"), number.get("status")) == ("VERIFIED", "CONNECTED")

    async def request_code(self, *, by_voice: bool, language: str) -> None:
        """Have the code sent, or spoken."""
        await self._ask_number("/request_code", {"code_method": "VOICE" if by_voice else "SMS", "language": language})

    async def confirm_code(self, code: str, pin: str) -> None:
        """Prove the number, and register it."""
        await self._ask_number("/verify_code", {"code": code})
        await self._ask_number("/register", {"messaging_product": "whatsapp", "pin": pin})

    # Requests

    async def _to_parts(self, post: Post) -> list[dict[str, Any]]:
        """Return what a post is sent as: its file, with the words below it or behind it, and buttons where they fit."""
        parts, text, buttons = list[dict[str, Any]](), post.text, [each for row in post.buttons for each in row]
        context = {"context": {"message_id": post.reply_to}} if post.reply_to.startswith("wamid.") else {}
        if post.media:
            kind, file = await self._upload(post)
            if text and not buttons and kind != "audio" and len(text) <= _CAPTION_CHARS:
                file, text = {**file, "caption": text}, ""
            parts.append({"type": kind, kind: file, **context})
        fits = _address(post.chat)["recipient_type"] == "individual" and 0 < len(buttons) <= _MAX_BUTTONS
        if buttons and fits and len(text) <= _ASKED_CHARS and all(len(each.data) <= _DATA_CHARS for each in buttons):
            replies = [{"id": each.data, "title": each.text[:_TITLE_CHARS]} for each in buttons]
            action = {"buttons": [{"type": "reply", "reply": each} for each in replies]}
            asked = {"type": "button", "body": {"text": text}, "action": action}
            return [*parts, {"type": "interactive", "interactive": asked, **context}]
        typed = [f"{each.text}: {each.data}" for each in buttons if each.data not in text]
        if words := "\n".join(filter(None, (text, *typed))):
            parts.append({"type": "text", "text": {"body": words, "preview_url": False}, **context})
        return parts

    async def _upload(self, post: Post) -> tuple[str, dict[str, Any]]:
        """Return how a file is shown, and the file as it is named there."""
        data = await asyncio.to_thread(Path(post.media).read_bytes)
        mime = guess_type(post.filename)[0] or "application/octet-stream"
        kind = "audio" if mime.startswith("audio/") else _SHOWN.get(mime, "document")
        form = {"messaging_product": "whatsapp", "type": mime}
        upload = await self._ask(
            f"{self._settings.phone_number_id}/media", *pack_form(form, "file", post.filename, data, mime)
        )
        named = {"filename": post.filename} if kind == "document" else {}
        voice = {"voice": True} if post.is_voice and kind == "audio" else {}
        return kind, {"id": str(upload["id"]), **named, **voice}

    async def _say(self, body: Mapping[str, Any]) -> str:
        try:
            answer = await self._ask_number("/messages", body)
            return str(answer["messages"][0]["id"])
        except ToolError as error:
            if error.code == "timeout" or error.source:  # it may have been taken before that
                raise ConnectionError(str(error)) from error
            raise
        except (KeyError, IndexError, TypeError):
            raise ConnectionError("whatsapp did not say whether it took the message") from None

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._settings.access_token}"}

    async def _ask_number(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        kind, data = ("", b"") if body is None else (_JSON, orjson.dumps(body))
        return await self._ask(f"{self._settings.phone_number_id}{path}", kind, data)

    async def _ask(self, path: str, kind: str = "", body: bytes = b"") -> dict[str, Any]:
        """Return what Meta answers: to a question, or to a body of some kind."""
        headers = {**self._headers(), **({"content-type": kind} if kind else {})}
        seconds = _POST_SECONDS if kind in ("", _JSON) else _FILE_SECONDS
        page = await self._http.send(
            "POST" if kind else "GET", f"{self._base}/{path}", headers=headers, body=body, seconds=seconds
        )
        answer = page.read_json()
        if page.status == 200 and isinstance(answer, dict):
            self._refusals = 0
            return answer
        error = answer.get("error") if isinstance(answer, dict) else None
        raise await self._read_refusal(page, error if isinstance(error, dict) else {})

    async def _read_refusal(self, page: Page, error: Mapping[str, Any]) -> ToolError:
        """Return why something was refused; where it was too much, after the time that Meta wants to be left alone."""
        code, detail = error.get("code"), (error.get("error_data") or {}).get("details")
        why = strip_to_line(str(detail or error.get("message") or f"status {page.status}"))[:_COMPLAINT_CHARS]
        if page.status == 429 or code in _LIMITS:
            wait = page.headers.get("retry-after", "")
            self._refusals += 1
            await asyncio.sleep(min(float(wait) if wait.isdigit() else 4.0 ** (self._refusals - 1), _MAX_RETRY))
            return ToolError(f"whatsapp takes no more for now: {why}", code="busy")
        if page.status >= 500:
            return ToolError(f"whatsapp is out of order: {why}", code="unavailable", source="channel:whatsapp")
        return ToolError(f"whatsapp refused it: {_TOLD.get(code or 0, why)}", code="denied")


def read_notice(body: bytes, number: str) -> Iterator[HeardMessage]:
    """Yield what was written to a number, of all that one request tells; what became of our own is only logged."""
    notice = orjson.loads(body)
    changes = [change for entry in notice.get("entry") or () for change in entry.get("changes") or ()]
    for value in (each.get("value") or {} for each in changes if each.get("field") == "messages"):
        about = value.get("metadata") or {}
        if about.get("phone_number_id") != number:
            continue
        for status in value.get("statuses") or ():
            for error in status.get("errors") or ():
                why = _TOLD.get(error.get("code"), strip_to_line(str(error.get("title", "")))[:_COMPLAINT_CHARS])
                log.warning("whatsapp: a message was not delivered: %s", why)
        names = {each.get("wa_id"): (each.get("profile") or {}).get("name") for each in value.get("contacts") or ()}
        own = re.sub(r"\D", "", str(about.get("display_phone_number", "")))
        for message in value.get("messages") or ():
            if message.get("type") in ("reaction", "system"):
                continue
            if not str(message.get("from", "")).isdigit() or not message.get("id"):
                log.warning("whatsapp: a message came from nobody who has a number; it was left out")
                continue
            yield _to_message(message, names.get(message["from"]), own)


def _to_message(message: Mapping[str, Any], name: str | None, own: str) -> HeardMessage:
    who, group, kind = str(message["from"]), str(message.get("group_id") or ""), str(message.get("type", ""))
    part = found if isinstance(found := message.get(kind), dict) else {}
    text, pressed = str(part.get("body") or part.get("caption") or part.get("text") or ""), ""
    if kind == "interactive":
        pressed = str((part.get("button_reply") or part.get("list_reply") or {}).get("id", ""))
    context = message.get("context") or {}
    is_forwarded = bool(context.get("forwarded") or context.get("frequently_forwarded"))
    called, mime, is_spoken = (
        str(part.get("filename") or kind),
        str(part.get("mime_type", "")),
        part.get("voice") is True,
    )
    file = Attachment(str(part.get("id", "")), called, mime, 0, is_spoken, is_forwarded)
    forwarded, text = (text, "") if is_forwarded else ("", text)
    answered = "" if is_forwarded else re.sub(r"\D", "", str(context.get("from", "")))
    mention = re.compile(rf"@\+?{own}\b[\s,:]*")
    return HeardMessage(
        id=str(message["id"]),
        chat=group or who,
        sender=Sender(id=who, e164=f"+{who}", name=name),
        kind="group" if group else "dm",
        group=group,
        text=mention.sub("", text, count=1) if own else text,
        forwarded=forwarded,
        pressed=pressed,
        is_for_us=bool(own) and (answered == own or mention.search(text) is not None),
        attachments=(file,) if kind in _FILES else (),
        at=float(message.get("timestamp") or 0),
    )


def _address(chat: str) -> dict[str, Any]:
    kind = "individual" if re.fullmatch(r"\+?[0-9]{5,20}", chat) else "group"
    return {"messaging_product": "whatsapp", "recipient_type": kind, "to": chat}


def _is_same(shown: str, wanted: str) -> bool:
    return hmac.compare_digest(shown.encode(), wanted.encode())


def _make(settings: Any, way_out: WayOut) -> WhatsAppChannel:
    needed = {
        "phoneNumberId": settings.phone_number_id,
        "accessToken": settings.access_token,
        "verifyToken": settings.verify_token,
        "appSecret": settings.app_secret,
    }
    if missing := [name for name, value in needed.items() if not value]:
        raise ToolError(f"whatsapp needs {', '.join(missing)}, as the app's page at Meta shows them")
    if not settings.phone_number_id.isdigit():
        raise ToolError("phoneNumberId is the number's id at Meta, of digits alone, and not the number itself")
    return WhatsAppChannel(settings, way_out)


WHATSAPP = ChannelKind(WhatsAppChannel.abilities, _make)
