"""Slack, in Socket Mode: messages come over a socket that we open, and are acknowledged once they are kept.

Slack tells a few times what was not acknowledged, and then no more: when we connect, we ask each chat that we know for
what came after the last message. It knows messages by no key of ours, so that nothing is sent a second time.
"""

import asyncio
import html
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from toolcrib.backends.web.websocket import open_socket
from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, ChannelKind, Hear, HeardMessage, Post, refuse_action
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.web import WayOut
from toolcrib.lazy import regex

from .hosted import HeardSoFar, check_host, need, to_limit, to_wait

log = logging.getLogger("toolcrib")

_BASE = "https://slack.com/api"
_HOSTS = ("slack.com",)
_SECONDS = 30.0
_MAX_PAGES, _PAGE, _MAX_NAMES = 10, 100, 50
_COMPLAINT_CHARS = 300
_SECTION_CHARS = 3_000
_SPOKEN = (None, "file_share", "thread_broadcast")  # subtypes of messages that a user wrote
_BROKEN = ("internal_error", "fatal_error", "service_unavailable", "request_timeout")
_EMOJI = {"👍": "+1", "👎": "-1", "❤️": "heart", "👀": "eyes", "✅": "white_check_mark", "🎉": "tada", "🙏": "pray"}
_SOURCE = {"source": "message:slack"}
_NO_PREVIEW = {"unfurl_links": False, "unfurl_media": False}  # an address in a text is not fetched
_LINK = regex(r"\w\.\w|://")


class SlackChannel:
    """One app in one workspace."""

    abilities = Abilities(
        actions=(
            "send", "broadcast", "reply", "thread-reply", "react", "reactions", "read", "edit", "delete", "pin",
            "unpin", "list-pins", "member-info", "emoji-list", "channel-info", "channel-list",
        ),
        own_actions=("members",),
        buttons=True,
        cards=True,
        media=True,
        longest=4_000,
        markup=True,
    )  # fmt: skip

    def __init__(self, settings: Any, base: str, way_out: WayOut) -> None:
        self._bot, self._app, self._base = settings.bot_token, settings.app_token, base.rstrip("/")
        self._way_out, self._http = way_out, way_out.for_own(base)
        self._me = ""

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Open a socket, ask for what was missed, and hear what comes."""
        self._me = str((await self._ask("auth.test"))["user_id"])
        url = str((await self._ask("apps.connections.open", token=self._app))["url"])
        so_far = HeardSoFar(cursor)
        socket = await open_socket(self._way_out.dial_own, check_host(url, self._base, *_HOSTS))
        try:
            ready()
            missed = await self._catch_up(so_far)
            await hear(missed, so_far.to_cursor())
            while True:
                envelope = _read_envelope(await socket.receive())
                if envelope.get("type") == "disconnect":
                    raise ConnectionError(f"slack asked us to connect anew ({envelope.get('reason', 'no reason')})")
                try:
                    messages = list(self._read_payload(envelope, so_far))
                except (KeyError, TypeError, ValueError, AttributeError) as error:  # else it is sent again for ever
                    log.warning("slack: an event cannot be read and is left out: %r", error)
                    messages = []
                if messages:
                    await hear(messages, so_far.to_cursor())
                if id := envelope.get("envelope_id"):
                    await socket.send(orjson.dumps({"envelope_id": id}).decode())
        finally:
            socket.abort()

    async def post(self, post: Post, key: str, /) -> str:
        """Send a message; a file has it for its comment."""
        more = {"thread_ts": post.thread} if post.thread else {}
        try:
            if post.media:
                return await self._upload(post, more)
            body = {"channel": post.chat, "text": _escape(post.text), **_NO_PREVIEW}
            if post.buttons or post.card:
                body["blocks"] = list(_to_blocks(post))
            return str((await self._ask("chat.postMessage", {**body, **more}))["ts"])
        except ToolError as error:
            if error.code in ("timeout", "unavailable"):  # it may have been taken before that
                raise ConnectionError(str(error)) from error
            raise

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        """Do what can be done to messages that are there, or read what the chat and its workspace hold."""
        chat = str(params.get("channelId") or chat)
        match action:
            case "read":
                return await self._read_history(chat, params)
            case "members":
                answer = await self._ask("conversations.members", {"channel": chat, "limit": to_limit(params, 50)})
                ids = answer["members"][:_MAX_NAMES]
                return {"ok": True, "members": [await self._find_user(each) for each in ids], **_SOURCE}
            case "member-info":
                return {"ok": True, "member": await self._find_user(need(params, "userId")), **_SOURCE}
            case "reply" | "thread-reply":
                thread = params.get("threadId") or params.get("replyTo") or params.get("messageId") or ""
                return {"ok": True, "messageId": await self.post(
                    Post(chat=chat, text=need(params, "message"), thread=str(thread)), "")}  # fmt: skip
            case "channel-info":
                answer = await self._ask("conversations.info", {"channel": chat})
                return {"ok": True, "channel": answer["channel"], **_SOURCE}
            case "channel-list":
                query = {"exclude_archived": True, "limit": to_limit(params, 100)}
                channels = (await self._ask("conversations.list", query))["channels"]
                rows = [{"id": each["id"], "name": each.get("name", "")} for each in channels]
                return {"ok": True, "channels": rows, **_SOURCE}
            case "emoji-list":
                return {"ok": True, "emojis": sorted((await self._ask("emoji.list"))["emoji"]), **_SOURCE}
            case "list-pins":
                items = (await self._ask("pins.list", {"channel": chat}))["items"]
                return {
                    "ok": True,
                    "messages": [_show(each["message"]) for each in items if "message" in each],
                    **_SOURCE,
                }
        if action not in ("edit", "delete", "pin", "unpin", "react", "reactions"):
            raise refuse_action("slack", action, self.abilities)
        return await self._treat(action, chat, need(params, "messageId"), params)

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return a file that came with a message; our token goes to Slack's own hosts and nowhere else."""
        url = check_host(attachment.ref, self._base, *_HOSTS)
        headers = {"authorization": f"Bearer {self._bot}"}
        page = await self._way_out.for_own(url).get(url, headers=headers, most=max_bytes)
        # who may not read files is shown the page to sign in
        if page.status != 200 or (page.media_type == "text/html" and attachment.mime != "text/html"):
            raise ToolError(f"slack answered {page.status} to a file; it needs the scope files:read", code="not_found")
        return page.body

    async def show_typing(self, chat: str, thread: str, /) -> None:
        """Do nothing: an app cannot show it."""

    async def close(self) -> None:
        """Do nothing: the connection ends with `listen`."""

    # Actions

    async def _treat(self, action: str, chat: str, id: str, params: Mapping[str, Any]) -> dict[str, Any]:
        ref = {"channel": chat, "timestamp": id}
        match action:
            case "edit":
                text = _escape(need(params, "message"))  # a change takes no word about previews, but makes no links
                await self._ask("chat.update", {"channel": chat, "ts": id, "text": text, "parse": "none"})
            case "delete":
                await self._ask("chat.delete", {"channel": chat, "ts": id})
            case "pin" | "unpin":
                await self._ask("pins.add" if action == "pin" else "pins.remove", ref)
            case "react":
                emoji = need(params, "emoji")
                name = _EMOJI.get(emoji, emoji).strip(":")
                if not re.fullmatch(r"[a-z0-9_+'-]+(::skin-tone-[2-6])?", name):
                    raise ToolError("write the emoji by its name in Slack, like thumbsup", code="bad_arguments")
                await self._ask("reactions.remove" if params.get("remove") else "reactions.add", {**ref, "name": name})
            case "reactions":
                rows = (await self._ask("reactions.get", ref))["message"].get("reactions") or ()
                shown = [{"emoji": each["name"], "count": each["count"], "users": each.get("users")} for each in rows]
                return {"ok": True, "reactions": shown, **_SOURCE}
        return {"ok": True, "messageId": id}

    async def _read_history(self, chat: str, params: Mapping[str, Any]) -> dict[str, Any]:
        spans = {"latest": params.get("before"), "oldest": params.get("after"), "ts": params.get("threadId")}
        method = "conversations.replies" if params.get("threadId") else "conversations.history"
        asked = {"channel": chat, "limit": to_limit(params), **{name: each for name, each in spans.items() if each}}
        return {
            "ok": True,
            "messages": [_show(each) for each in (await self._ask(method, asked))["messages"]],
            **_SOURCE,
        }

    async def _find_user(self, id: str) -> dict[str, Any]:
        user = (await self._ask("users.info", {"user": id}))["user"]
        name = user.get("real_name") or (user.get("profile") or {}).get("display_name")
        return {"id": user["id"], "username": user.get("name"), "name": name, "isBot": bool(user.get("is_bot"))}

    async def _upload(self, post: Post, more: Mapping[str, Any]) -> str:
        data = await asyncio.to_thread(Path(post.media).read_bytes)
        name = post.filename or Path(post.media).name
        slot = await self._ask("files.getUploadURLExternal", {"filename": name, "length": len(data)})
        url = check_host(str(slot["upload_url"]), self._base, *_HOSTS)
        kind = {"content-type": "application/octet-stream"}
        page = await self._way_out.for_own(url).send("POST", url, headers=kind, body=data, seconds=_SECONDS)
        if page.status != 200:
            raise ToolError(f"slack did not take the file: status {page.status}", code="denied")
        asked = {"files": [{"id": slot["file_id"], "title": name}], "channel_id": post.chat, **more}
        text = _escape(post.text)
        if has_link := bool(_LINK.search(text)):  # a comment would unfurl it
            await self._ask("chat.postMessage", {"channel": post.chat, "text": text, **_NO_PREVIEW, **more})
        comment = {"initial_comment": text} if text and not has_link else {}
        await self._ask("files.completeUploadExternal", {**asked, **comment})
        return str(slot["file_id"])

    # Requests

    async def _ask(self, method: str, params: Mapping[str, Any] | None = None, token: str = "") -> Any:
        """Return what a method answers; on a rate limit, wait as long as the service says and ask again."""
        headers = {
            "authorization": f"Bearer {token or self._bot}",
            "content-type": "application/x-www-form-urlencoded; charset=utf-8",  # not every method reads JSON
        }
        body = urlencode({name: _to_field(value) for name, value in (params or {}).items()}).encode()
        page = await self._http.send("POST", f"{self._base}/{method}", headers=headers, body=body, seconds=_SECONDS)
        answer = page.read_json()
        if page.status == 200 and isinstance(answer, dict) and answer.get("ok") is True:
            return answer
        answer = answer if isinstance(answer, dict) else {}
        why = strip_to_line(str(answer.get("error", f"status {page.status}")))[:_COMPLAINT_CHARS]
        if page.status == 429 or why == "ratelimited":
            await asyncio.sleep(to_wait(page.headers.get("retry-after")))
            raise ToolError("slack takes no more for now", code="busy")
        if page.status >= 500 or why in _BROKEN:
            raise ToolError(f"slack is out of order: {why}", code="unavailable")
        key = "appToken" if token else "botToken"
        hint = (
            f"; check channels.slack.{key}" if why in ("invalid_auth", "not_authed", "not_allowed_token_type") else ""
        )
        scope = f", which needs the scope {answer['needed']}" if isinstance(answer.get("needed"), str) else ""
        code = "not_found" if why.endswith("_not_found") else "denied"
        raise ToolError(f"slack refused {method}: {why}{scope}{hint}", code=code)

    # What is heard

    async def _catch_up(self, so_far: HeardSoFar) -> list[HeardMessage]:
        """Return the messages in known chats that came while we were away."""
        missed = list[HeardMessage]()
        for place, (last, kind) in list(so_far.chats.items()):
            chat, _, thread = place.partition("/")
            method, asked = ("conversations.replies", {"ts": thread}) if thread else ("conversations.history", {})
            more: dict[str, Any] = {"channel": chat, "oldest": last, "limit": _PAGE, **asked}
            for _ in range(_MAX_PAGES):
                try:
                    answer = await self._ask(method, more)
                except ToolError as error:
                    if error.code not in ("denied", "not_found"):
                        raise
                    log.info("slack: what was missed in %s cannot be read: %s", chat, error)
                    break
                for each in answer["messages"]:
                    message = self._to_message({**each, "channel": chat, "channel_type": kind})
                    if message is not None and _is_later(message.id, last):
                        missed.append(message)
                        so_far.chats[place][0] = max(so_far.chats[place][0], message.id, key=_to_order)
                more["cursor"] = (answer.get("response_metadata") or {}).get("next_cursor", "")
                if not more["cursor"]:
                    break
        return sorted(missed, key=lambda each: _to_order(each.id))

    def _read_payload(self, envelope: Mapping[str, Any], so_far: HeardSoFar) -> Iterator[HeardMessage]:
        payload = envelope.get("payload") or {}
        if envelope.get("type") == "events_api":
            event = payload.get("event") or {}
            if event.get("type") in ("message", "app_mention") and (inbound := self._to_message(event)) is not None:
                place = f"{inbound.chat}/{inbound.thread}" if inbound.thread else inbound.chat
                if _is_later(inbound.id, so_far.chats.get(place, ["0"])[0]):
                    so_far.note(place, inbound.id, "im" if inbound.kind == "dm" else "channel")
                yield inbound
        elif envelope.get("type") == "interactive" and payload.get("type") == "block_actions":
            who, message = payload["user"], payload.get("message") or {}
            for action in payload.get("actions") or ():
                yield HeardMessage(
                    id=f"pressed-{action['action_ts']}-{who['id']}",
                    sender=Sender(id=str(who["id"]), username=who.get("username")),
                    **_to_place(payload["channel"]["id"], "", message),
                    pressed=str(action.get("value", "")),
                    is_for_us=True,
                )

    def _to_message(self, event: Mapping[str, Any]) -> HeardMessage | None:
        who = event.get("user")
        if not who or who == self._me or event.get("bot_id") or event.get("subtype") not in _SPOKEN:
            return None
        text = str(event.get("text") or "")
        mention = f"<@{self._me}>"
        passed_on = [
            each for each in event.get("attachments") or () if each.get("is_share") or each.get("is_msg_unfurl")
        ]
        return HeardMessage(
            id=str(event["ts"]),
            sender=Sender(id=str(who)),
            **_to_place(event["channel"], event.get("channel_type", ""), event),
            text=_to_plain(re.sub(rf"^\s*{re.escape(mention)}[\s,:]*", "", text)),
            is_for_us=mention in text or event.get("parent_user_id") == self._me,
            forwarded="\n\n".join(_to_plain(str(each.get("text") or each.get("fallback") or "")) for each in passed_on),
            attachments=(*_list_files(event), *(file for each in passed_on for file in _list_files(each, True))),
            at=float(event["ts"]),
        )  # fmt: skip


def _list_files(message: Mapping[str, Any], is_forwarded: bool = False) -> Iterator[Attachment]:
    for each in message.get("files") or ():
        is_theirs = is_forwarded or each.get("user", message.get("user")) != message.get("user")
        ref, mime = str(each.get("url_private_download") or each.get("url_private")), str(each.get("mimetype", ""))
        is_spoken = each.get("subtype") == "slack_audio"
        yield Attachment(ref, str(each.get("name", "")), mime, int(each.get("size", 0)), is_spoken, is_theirs)


def _to_place(channel: str, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat of a message, as Slack describes it; ids that begin with D are of direct chats."""
    is_direct = kind == "im" or (not kind and channel.startswith("D"))
    thread = str(message.get("thread_ts") or "")
    thread = "" if thread == message.get("ts") else thread
    return {"chat": channel, "kind": "dm", "thread": thread} if is_direct else {
        "chat": channel, "kind": "channel", "group": channel, "thread": thread
    }  # fmt: skip


def _read_envelope(text: str) -> Mapping[str, Any]:
    try:
        envelope = orjson.loads(text)
    except orjson.JSONDecodeError:
        envelope = None
    return envelope if isinstance(envelope, dict) else {}


def _to_order(ts: str) -> tuple[int, int]:
    seconds, _, part = ts.partition(".")
    return int(seconds), int(part or 0)


def _is_later(ts: str, than: str) -> bool:
    return _to_order(ts) > _to_order(than)


def _to_field(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else str(value)


def _escape(text: str) -> str:
    """Return a text in which nothing is a mention or a link that we did not mean."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _to_plain(text: str) -> str:
    return html.unescape(re.sub(r"<((?:https?|mailto):[^|>]+)(?:\|[^>]*)?>", r"\1", text))


def _to_blocks(post: Post) -> Iterator[dict[str, Any]]:
    text = _escape(post.text)
    for index in range(0, len(text), _SECTION_CHARS):
        yield {"type": "section", "text": {"type": "mrkdwn", "text": text[index : index + _SECTION_CHARS]}}
    yield from (post.card or {}).get("blocks") or ()
    for row, buttons in enumerate(post.buttons):
        elements = [
            {"type": "button", "action_id": f"{row}-{index}", "value": each.data[:2_000],
             "text": {"type": "plain_text", "text": each.text[:75]}}
            for index, each in enumerate(buttons)
        ]  # fmt: skip
        yield {"type": "actions", "elements": elements}


def _show(message: Mapping[str, Any]) -> dict[str, Any]:
    files = [each.get("name", "") for each in message.get("files") or ()]
    row = {"id": message["ts"], "from": message.get("user") or message.get("bot_id"), "files": files}
    return {**row, "thread": message.get("thread_ts", ""), "text": _to_plain(str(message.get("text", "")))}


def _make(settings: Any, way_out: WayOut) -> SlackChannel:
    if not settings.bot_token or not settings.app_token:
        raise ToolError("slack needs botToken (xoxb-..) and appToken (xapp-.., with connections:write)")
    return SlackChannel(settings, settings.api_base or _BASE, way_out)


SLACK = ChannelKind(SlackChannel.abilities, _make)
