"""Telegram, by its bot API: updates are waited for behind a cursor, so that what was not kept comes again."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, ChannelKind, Hear, HeardMessage, Post, refuse_action
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Image
from toolcrib.define.web import Http, WayOut, pack_form

from .hosted import need, to_wait

_BASE = "https://api.telegram.org"
_WAIT_SECONDS, _SLACK_SECONDS = 50, 20.0  # that an answer about updates may take, and how much longer we wait
_POST_SECONDS, _FILE_SECONDS = 30.0, 120.0
_PHOTOS = ("image/jpeg", "image/png", "image/webp")
_WANTED = ("message", "callback_query")
_FILES = ("document", "voice", "audio", "video", "animation", "sticker", "video_note")
_SPOKEN = ("voice", "video_note")
_COMPLAINT_CHARS = 300
_NO_PREVIEW = {"link_preview_options": {"is_disabled": True}}  # an address in a text is not fetched


class TelegramChannel:
    """One bot."""

    abilities = Abilities(
        actions=("send", "broadcast", "reply", "edit", "delete", "react", "pin", "unpin", "poll"),
        own_actions=("chat",),
        buttons=True,
        media=True,
        typing=True,
        longest=4_096,
    )

    def __init__(self, token: str, base: str, http: Http) -> None:
        self._token, self._base, self._http = token, base.rstrip("/"), http
        self._me: Mapping[str, Any] = {}

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Wait for updates, page after page."""
        self._me = await self._ask("getMe")
        ready()
        offset = int(cursor or 0)
        while True:
            asked = {"offset": offset, "timeout": _WAIT_SECONDS, "allowed_updates": _WANTED}
            updates = await self._ask("getUpdates", asked, _WAIT_SECONDS + _SLACK_SECONDS)
            if not updates:
                continue
            offset = max(int(each["update_id"]) for each in updates) + 1
            await hear([message for each in updates if (message := self._to_message(each)) is not None], str(offset))
            for each in updates:
                if pressed := each.get("callback_query"):  # else its button goes on turning
                    await self._ask("answerCallbackQuery", {"callback_query_id": pressed["id"]})

    async def post(self, post: Post, key: str, /) -> str:
        """Send a message."""
        body: dict[str, Any] = {"chat_id": post.chat, "text": post.text, "disable_notification": post.silent}
        body |= _NO_PREVIEW
        if post.thread:
            body["message_thread_id"] = int(post.thread)
        if post.reply_to.isdigit():
            body["reply_parameters"] = {"message_id": int(post.reply_to), "allow_sending_without_reply": True}
        if post.buttons:
            keys = [[{"text": each.text, "callback_data": each.data} for each in row] for row in post.buttons]
            body["reply_markup"] = {"inline_keyboard": keys}
        try:
            message = await (self._upload(post, body) if post.media else self._ask("sendMessage", body))
        except ToolError as error:
            if error.code in ("timeout", "unavailable"):  # it may have been taken before that
                raise ConnectionError(str(error)) from error
            raise
        return str(message["message_id"])

    async def _upload(self, post: Post, body: dict[str, Any]) -> Any:
        """Send a file: a picture and a voice note as such, everything else as a document."""
        data = await asyncio.to_thread(Path(post.media).read_bytes)
        kind = "voice" if post.is_voice else "photo" if Image.mime_of(data) in _PHOTOS else "document"
        del body["text"], body["link_preview_options"]
        fields = {key: each if isinstance(each, str) else orjson.dumps(each).decode() for key, each in body.items()}
        fields |= {"caption": post.text} if post.text else {}
        form = pack_form(fields, kind, post.filename, data)
        return await self._ask(f"send{kind.capitalize()}", seconds=_FILE_SECONDS, form=form)

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        """Do what can be done to a message that is there, or ask the chat's members."""
        where: dict[str, Any] = {"chat_id": chat}
        if action == "chat":
            return await self._describe(where)
        if action != "poll":
            where["message_id"] = _to_number(params, "messageId")
        match action:
            case "edit":
                return _to_answer(
                    await self._ask("editMessageText", {**where, **_NO_PREVIEW, "text": need(params, "message")})
                )
            case "delete":
                return _to_answer(await self._ask("deleteMessage", where))
            case "pin" | "unpin":
                return _to_answer(await self._ask(f"{action}ChatMessage", where))
            case "react":
                emoji = [] if params.get("remove") else [{"type": "emoji", "emoji": need(params, "emoji")}]
                return _to_answer(await self._ask("setMessageReaction", {**where, "reaction": emoji}))
            case "poll":
                options = [{"text": str(each)} for each in params["pollOption"]]
                asked = {"question": need(params, "pollQuestion"), "options": options}
                many = {"allows_multiple_answers": bool(params.get("pollMulti"))}
                return _to_answer(await self._ask("sendPoll", {**where, **asked, **many}))
        raise refuse_action("telegram", action, self.abilities)

    async def identify(self) -> str:
        """Return the name of the bot."""
        return f"@{(await self._ask('getMe')).get('username', '')}"

    async def _describe(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """Tell what a chat is, how many are in it and who looks after it."""
        about, count = await self._ask("getChat", where), await self._ask("getChatMemberCount", where)
        chat = {name: about[name] for name in ("title", "description", "username", "type") if about.get(name)}
        admins = [] if about.get("type") == "private" else await self._ask("getChatAdministrators", where)
        rows = [{"id": str(each["user"]["id"]), "name": _to_name(each["user"])} for each in admins]
        return {"ok": True, "chat": chat, "members": count, "administrators": rows, "source": "message:telegram"}

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return a file that came with a message."""
        file = await self._ask("getFile", {"file_id": attachment.ref})
        path = str(file.get("file_path", ""))
        if not re.fullmatch(r"[\w./-]+", path) or ".." in path:
            raise ToolError("telegram gave no place for the file", code="not_found")
        try:
            page = await self._http.get(f"{self._base}/file/bot{self._token}/{path}", most=max_bytes)
        except ToolError as error:
            raise self._without_token(error) from None
        if page.status != 200:
            raise ToolError(f"telegram answered {page.status} to a file", code="not_found")
        return page.body

    async def show_typing(self, chat: str, thread: str, /) -> None:
        more = {"message_thread_id": int(thread)} if thread else {}
        await self._ask("sendChatAction", {"chat_id": chat, "action": "typing", **more})

    async def close(self) -> None:
        """Do nothing: there is no connection between two requests."""

    # Requests

    async def _ask(
        self,
        method: str,
        body: Mapping[str, Any] | None = None,
        seconds: float = _POST_SECONDS,
        form: tuple[str, bytes] | None = None,
    ) -> Any:
        """Return what a method answers; on a rate limit, wait as long as the service says and ask again."""
        url = f"{self._base}/bot{self._token}/{method}"
        kind, data = form or ("application/json", orjson.dumps(body or {}))
        try:
            page = await self._http.send("POST", url, headers={"content-type": kind}, body=data, seconds=seconds)
        except ToolError as error:
            raise self._without_token(error) from None
        answer = page.read_json()
        if isinstance(answer, dict) and answer.get("ok") is True and "result" in answer:
            return answer["result"]
        answer = answer if isinstance(answer, dict) else {}
        why = strip_to_line(str(answer.get("description", f"status {page.status}")))[:_COMPLAINT_CHARS]
        if page.status == 429:
            await asyncio.sleep(to_wait((answer.get("parameters") or {}).get("retry_after")))
            raise ToolError(f"telegram takes no more for now: {why}", code="busy")
        if page.status >= 500:
            raise ToolError(f"telegram is out of order: {why}", code="unavailable")
        hint = "; check channels.telegram.botToken" if page.status in (401, 404) and not self._me else ""
        raise ToolError(f"telegram refused {method}: {why}{hint}", code="denied")

    def _without_token(self, error: ToolError) -> ToolError:
        return ToolError(str(error).replace(self._token, "…"), code=error.code)

    # What is heard

    def _to_message(self, update: Mapping[str, Any]) -> HeardMessage | None:
        pressed = update.get("callback_query")
        message = pressed.get("message") if pressed else update.get("message")
        who = (pressed or message or {}).get("from")
        if not message or not who or who.get("is_bot"):
            return None
        chat = message["chat"]
        is_group = chat["type"] != "private"
        text = message.get("text") or message.get("caption") or ""
        # what a bot was asked for within a message is not its sender's word either
        is_forwarded = any(key.startswith("forward_") or key == "via_bot" for key in message)
        spoken, is_for_us = (text, True) if pressed else self._find_mention("" if is_forwarded else text, message)
        return HeardMessage(
            id=f"pressed-{pressed['id']}" if pressed else str(message["message_id"]),
            chat=str(chat["id"]),
            sender=Sender(id=str(who["id"]), username=who.get("username"), name=_to_name(who) or None),
            kind="group" if is_group else "dm",
            group=str(chat["id"]) if is_group else "",
            thread=str(message["message_thread_id"]) if message.get("is_topic_message") else "",
            text="" if pressed else spoken,
            forwarded=text if is_forwarded else "",
            pressed=str(pressed.get("data", "")) if pressed else "",
            is_for_us=is_for_us,
            attachments=() if pressed else tuple(_list_files(message, is_forwarded=is_forwarded)),
            at=float(message.get("date", 0)),
        )

    def _find_mention(self, text: str, message: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the text without our name at its beginning, and whether it is addressed to us."""
        name = str(self._me.get("username", ""))
        found = re.search(rf"(?i)@{re.escape(name)}\b", text) if name else None
        answered = (message.get("reply_to_message") or {}).get("from") or {}
        is_for_us = found is not None or answered.get("id") == self._me.get("id", 0)
        plain = rf"(?i)^(/[a-z]+)@{re.escape(name)}\b|^@{re.escape(name)}\b[\s,:]*"
        return re.sub(plain, r"\1", text) if found else text, is_for_us


def _to_name(who: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (who.get("first_name"), who.get("last_name"))))


def _list_files(message: Mapping[str, Any], *, is_forwarded: bool) -> Iterable[Attachment]:
    found = [(kind, file) for kind in _FILES if (file := message.get(kind))]
    if sizes := message.get("photo"):
        largest = max(sizes, key=lambda each: each.get("file_size", each.get("width", 0)))
        found.insert(0, ("photo", {"file_name": "photo.jpg", "mime_type": "image/jpeg", **largest}))
    for kind, file in found:
        name, mime, size = file.get("file_name", kind), file.get("mime_type", ""), int(file.get("file_size", 0))
        yield Attachment(str(file["file_id"]), str(name), str(mime), size, kind in _SPOKEN, is_forwarded)


def _to_number(params: Mapping[str, Any], name: str) -> int:
    value = need(params, name)
    if not (value.isascii() and value.isdigit()):
        raise ToolError(f"{name} is a number: say which message is meant", code="bad_arguments")
    return int(value)


def _to_answer(answer: Any) -> dict[str, Any]:
    return {"ok": True, **({"messageId": str(answer["message_id"])} if isinstance(answer, dict) else {})}


def _make(settings: Any, way_out: WayOut) -> TelegramChannel:
    if not settings.bot_token:
        raise ToolError("telegram needs botToken, from @BotFather: channels: {telegram: {botToken: ${TELEGRAM_TOKEN}}}")
    base = settings.api_base or _BASE
    return TelegramChannel(settings.bot_token, base, way_out.for_own(base))


TELEGRAM = ChannelKind(TelegramChannel.abilities, _make)
