"""Discord: its gateway sends events, a session of it resumes behind a number; all else is asked by REST.

A message has a nonce under which it is taken once, but only for some minutes: so it is sent again at once when a
connection broke, and after a restart it is not.
"""

import asyncio
import logging
import random
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from toolcrib.backends.web.websocket import SocketClosedError, TextSocket, open_socket
from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, ChannelKind, Hear, HeardMessage, Post, refuse_action
from toolcrib.define.errors import ToolError
from toolcrib.define.web import WayOut

from .discord_rest import DiscordRest, to_snowflake
from .hosted import HeardSoFar, check_host, need, to_limit

log = logging.getLogger("toolcrib")

_BASE = "https://discord.com/api/v10"
_GATEWAY_HOSTS, _FILE_HOSTS = ("discord.gg",), ("discordapp.com", "discordapp.net")
_INTENTS = 1 << 0 | 1 << 9 | 1 << 12 | 1 << 15  # guilds, their messages, direct ones, and what stands in them
_DISPATCH, _BEAT, _IDENTIFY, _RESUME, _RECONNECT, _INVALID, _BEAT_TAKEN = 0, 1, 2, 6, 7, 9, 11
_STALE = (4003, 4007, 4009)  # codes of a session that cannot be resumed
_REFUSED = {
    4004: "the token is wrong; check channels.discord.token",
    4013: "it does not know what we want to hear",
    4014: "the bot may not read messages; switch on Message Content Intent on its page at discord.com/developers",
}
_RETRY_SECONDS = (0.5, 3.0)  # before a message is sent again
_MAX_KEPT, _MAX_PAGES, _PAGE = 1_000, 10, 100
_PLAIN, _REPLY = 0, 19  # types of messages that a user wrote
_THREADS = (10, 11, 12)
_NO_PREVIEW, _SILENT, _SPOKEN = 1 << 2, 1 << 12, 1 << 13  # an address in a text is not fetched
_SOURCE = {"source": "message:discord"}


class DiscordChannel:
    """One bot."""

    abilities = Abilities(
        actions=(
            "send", "broadcast", "reply", "poll", "react", "reactions", "read", "edit", "delete", "pin", "unpin",
            "list-pins", "thread-create", "thread-list", "thread-reply", "sticker", "member-info", "role-info",
            "emoji-list", "channel-info", "channel-list",
        ),
        own_actions=("members",),
        buttons=True,
        cards=True,
        media=True,
        typing=True,
        longest=2_000,
        markup=True,
    )  # fmt: skip

    def __init__(self, token: str, base: str, way_out: WayOut) -> None:
        self._token, self._base, self._way_out = token, base.rstrip("/"), way_out
        self._rest = DiscordRest(token, self._base, way_out.for_own(self._base))
        self._me, self._salt = "", token_hex(8)  # keys are unique within this process
        self._channels: dict[str, Mapping[str, Any]] = {}  # what is known of each, by id

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Go on with the session that we had, or begin one and ask for what was missed."""
        so_far = HeardSoFar(cursor)
        url = so_far.session.get("url") or (await self._rest.ask("GET", "/gateway/bot"))["url"]
        address = f"{check_host(str(url), self._base, *_GATEWAY_HOSTS).rstrip('/')}/?v=10&encoding=json"
        socket = await open_socket(self._way_out.dial_own, address)
        pulse = _Pulse(socket)
        try:
            hello = await _receive(socket)
            pulse.start(float(hello["d"]["heartbeat_interval"]) / 1_000, so_far.session.get("seq"))
            await self._sign_on(socket, so_far)
            while True:
                await self._take(await _receive(socket), so_far, pulse, hear, ready)
        except SocketClosedError as error:
            if error.code in _REFUSED:
                raise ToolError(f"discord refused us: {_REFUSED[error.code]}", code="denied") from None
            if error.code in _STALE:
                await self._forget_session(so_far, hear)
            raise
        finally:
            await pulse.stop()
            socket.abort()  # a goodbye would end the session

    async def post(self, post: Post, key: str, /) -> str:
        """Send a message; one that broke off is sent again at once, under its nonce."""
        body: dict[str, Any] = {
            "content": post.text,
            "nonce": sha256(f"{self._salt}{key}".encode()).hexdigest()[:25],
            "enforce_nonce": True,
            "allowed_mentions": {"parse": [], "replied_user": False},
        }
        if post.reply_to.isdigit():
            body["message_reference"] = {"message_id": post.reply_to, "fail_if_not_exists": False}
        if post.buttons:
            body["components"] = [{"type": 1, "components": [_to_button(each) for each in row]} for row in post.buttons]
        if post.card:  # without embeds it would not be seen, and a link between these marks has no preview
            body["embeds"] = [dict(post.card)]
            body["content"] = re.sub(r"(?i)<?(https?://[^\s<>]+)>?", r"<\1>", post.text)
        body["flags"] = (0 if post.card else _NO_PREVIEW) | (_SILENT if post.silent else 0)
        file = await asyncio.to_thread(Path(post.media).read_bytes) if post.media else None
        if file is not None:
            body["attachments"] = [{"id": 0, "filename": post.filename or Path(post.media).name}]
        path = f"/channels/{to_snowflake(post.thread or post.chat, 'the chat')}/messages"
        for wait in (*_RETRY_SECONDS, None):
            try:
                return str((await self._rest.ask("POST", path, body, file))["id"])
            except ToolError as error:
                if error.code not in ("timeout", "unavailable"):
                    raise
                if wait is None:
                    raise ConnectionError(str(error)) from error
                await asyncio.sleep(wait)
        raise AssertionError

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        """Do what can be done to messages that are there, or read what the chat and its server hold."""
        if action in ("member-info", "role-info", "emoji-list", "channel-list", "thread-list", "members"):
            return await self._read_guild(action, chat, params)
        place = f"/channels/{to_snowflake(params.get('threadId') or params.get('channelId') or chat, 'the chat')}"
        if action in ("poll", "sticker", "reply", "thread-reply"):
            return await self._write(action, place, params)
        match action:
            case "read":
                spans = {
                    name: to_snowflake(params[name], name) for name in ("before", "after", "around") if params.get(name)
                }
                query = urlencode({"limit": to_limit(params), **spans})
                rows = await self._rest.ask("GET", f"{place}/messages?{query}")
                return {"ok": True, "messages": [_show(each) for each in rows], **_SOURCE}
            case "list-pins":
                items = (await self._rest.ask("GET", f"{place}/messages/pins"))["items"]
                return {"ok": True, "messages": [_show(each["message"]) for each in items], **_SOURCE}
            case "channel-info":
                return {"ok": True, "channel": await self._rest.ask("GET", place), **_SOURCE}
            case "thread-create":
                start = f"/messages/{to_snowflake(params['messageId'], 'messageId')}" if params.get("messageId") else ""
                body = {"name": need(params, "threadName")[:100], **({} if start else {"type": 11})}
                if minutes := params.get("autoArchiveMin"):
                    body["auto_archive_duration"] = minutes
                return {
                    "ok": True,
                    "threadId": str((await self._rest.ask("POST", f"{place}{start}/threads", body))["id"]),
                }
        if action not in ("edit", "delete", "pin", "unpin", "react", "reactions"):
            raise refuse_action("discord", action, self.abilities)
        return await self._treat(action, place, to_snowflake(need(params, "messageId"), "messageId"), params)

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return a file that came with a message, from where Discord keeps files and nowhere else."""
        url = check_host(attachment.ref, self._base, *_FILE_HOSTS)
        page = await self._way_out.for_own(url).get(url, most=max_bytes)
        if page.status != 200:
            raise ToolError(f"discord answered {page.status} to a file", code="not_found")
        return page.body

    async def show_typing(self, chat: str, thread: str, /) -> None:
        await self._rest.ask("POST", f"/channels/{to_snowflake(thread or chat, 'the chat')}/typing")

    async def close(self) -> None:
        """Do nothing: the connection ends with `listen`."""

    # Actions

    async def _treat(self, action: str, place: str, id: str, params: Mapping[str, Any]) -> dict[str, Any]:
        path = f"{place}/messages/{id}"
        match action:
            case "edit":
                body = {"content": need(params, "message"), "allowed_mentions": {"parse": []}, "flags": _NO_PREVIEW}
                await self._rest.ask("PATCH", path, body)
            case "delete":
                await self._rest.ask("DELETE", path)
            case "pin" | "unpin":
                await self._rest.ask("PUT" if action == "pin" else "DELETE", f"{place}/messages/pins/{id}")
            case "react":
                emoji = quote(need(params, "emoji"), safe="")
                await self._rest.ask("DELETE" if params.get("remove") else "PUT", f"{path}/reactions/{emoji}/@me")
            case "reactions":
                rows = (await self._rest.ask("GET", path)).get("reactions") or ()
                reactions = [{"emoji": each["emoji"].get("name"), "count": each["count"]} for each in rows]
                return {"ok": True, "reactions": reactions, **_SOURCE}
        return {"ok": True, "messageId": id}

    async def _write(self, action: str, place: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Say something that is no plain post."""
        body: dict[str, Any] = {"allowed_mentions": {"parse": []}, "flags": _NO_PREVIEW}
        if action == "poll":
            answers = [{"poll_media": {"text": str(each)[:55]}} for each in params.get("pollOption") or ()]
            many = {"allow_multiselect": bool(params.get("pollMulti")), "duration": params.get("pollDurationHours", 24)}
            body["poll"] = {"question": {"text": need(params, "pollQuestion")[:300]}, "answers": answers, **many}
        elif action == "sticker":
            body["sticker_ids"] = [to_snowflake(each, "stickerId") for each in params.get("stickerId") or ()]
        else:
            body["content"] = need(params, "message")
            if to := params.get("messageId") or params.get("replyTo"):
                body["message_reference"] = {"message_id": to_snowflake(to, "messageId")}
        return {"ok": True, "messageId": str((await self._rest.ask("POST", f"{place}/messages", body))["id"])}

    async def _read_guild(self, action: str, chat: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Read about the server that a chat belongs to."""
        guild = params.get("guildId") or (
            await self._rest.ask("GET", f"/channels/{to_snowflake(chat, 'the chat')}")
        ).get("guild_id")
        if not guild:
            raise ToolError("guildId is missing: this chat belongs to no server", code="bad_arguments")
        path = f"/guilds/{to_snowflake(guild, 'guildId')}"
        match action:
            case "member-info":
                found = await self._rest.ask("GET", f"{path}/members/{to_snowflake(need(params, 'userId'), 'userId')}")
                return {"ok": True, "member": _show_member(found), **_SOURCE}
            case "members":
                rows = await self._rest.ask("GET", f"{path}/members?limit={to_limit(params, 50)}")
                return {"ok": True, "members": [_show_member(each) for each in rows], **_SOURCE}
            case "role-info":
                return {"ok": True, "roles": await self._rest.ask("GET", f"{path}/roles"), **_SOURCE}
            case "emoji-list":
                return {"ok": True, "emojis": await self._rest.ask("GET", f"{path}/emojis"), **_SOURCE}
            case "channel-list":
                return {"ok": True, "channels": await self._rest.ask("GET", f"{path}/channels"), **_SOURCE}
        threads = (await self._rest.ask("GET", f"{path}/threads/active"))["threads"]
        return {"ok": True, "threads": threads, **_SOURCE}

    # The gateway

    async def _sign_on(self, socket: TextSocket, so_far: HeardSoFar) -> None:
        if session := so_far.session:
            self._me = session["me"]
            session_state = {"token": self._token, "session_id": session["id"], "seq": session["seq"]}
            return await _send(socket, _RESUME, session_state)
        about = {"os": "linux", "browser": "toolcrib", "device": "toolcrib"}
        return await _send(socket, _IDENTIFY, {"token": self._token, "intents": _INTENTS, "properties": about})

    async def _take(
        self, frame: Mapping[str, Any], so_far: HeardSoFar, pulse: "_Pulse", hear: Hear, ready: Callable[[], None]
    ) -> None:
        """Take one frame; a message is kept with its number before that number is acknowledged."""
        op = frame.get("op")
        if op == _BEAT_TAKEN:
            pulse.is_answered = True
        elif op == _BEAT:
            await pulse.beat()
        elif op == _RECONNECT:
            raise ConnectionError("discord asked us to connect anew")
        elif op == _INVALID:
            if frame.get("d") is not True:
                await self._forget_session(so_far, hear)
            raise ConnectionError("discord does not know our session any more")
        elif op == _DISPATCH:
            try:
                await self._take_event(frame["t"], frame["d"], frame["s"], so_far, hear, ready)
            except (KeyError, TypeError, ValueError, AttributeError) as error:  # else it would be sent again for ever
                log.warning("discord: an event cannot be read and is left out: %r", error)
            pulse.number = frame["s"]  # now it is kept

    async def _take_event(
        self, name: str, event: Any, number: int, so_far: HeardSoFar, hear: Hear, ready: Callable[[], None]
    ) -> None:
        if name == "READY":
            self._me = str(event["user"]["id"])
            ready()
            missed = await self._catch_up(so_far)  # before the session is kept: when it fails, it is tried again
            so_far.session = {"id": event["session_id"], "url": event["resume_gateway_url"], "me": self._me}
            so_far.session["seq"] = number
            await hear(missed, so_far.to_cursor())
            return
        if so_far.session:
            so_far.session["seq"] = number
        if name == "RESUMED":
            ready()
        elif name == "MESSAGE_CREATE" and (message := await self._to_message(event)) is not None:
            so_far.note(str(event["channel_id"]), message.id, str(event.get("guild_id") or ""))
            await hear([message], so_far.to_cursor())
        elif name == "INTERACTION_CREATE" and event.get("type") == 3:
            await hear([await self._to_press(event)], so_far.to_cursor())
            try:  # else its button goes on turning
                await self._rest.ask("POST", f"/interactions/{event['id']}/{event['token']}/callback", {"type": 6})
            except ToolError as error:
                log.info("discord: a button was not acknowledged: %s", error)
        elif name in ("CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_UPDATE"):
            self._channels.pop(str(event["id"]), None)

    async def _forget_session(self, so_far: HeardSoFar, hear: Hear) -> None:
        so_far.session = {}
        await hear((), so_far.to_cursor())

    async def _catch_up(self, so_far: HeardSoFar) -> list[HeardMessage]:
        """Return the messages in known chats that came while we had no session."""
        missed = list[HeardMessage]()
        for chat, (last, guild) in list(so_far.chats.items()):
            for _ in range(_MAX_PAGES):
                try:
                    rows = await self._rest.ask("GET", f"/channels/{chat}/messages?after={last}&limit={_PAGE}")
                except ToolError as error:
                    if error.code not in ("denied", "not_found"):
                        raise
                    log.info("discord: what was missed in %s cannot be read: %s", chat, error)
                    break
                for each in sorted(rows, key=lambda row: int(row["id"])):
                    last = str(each["id"])
                    if (message := await self._to_message({**each, "guild_id": guild})) is not None:
                        missed.append(message)
                if len(rows) < _PAGE:
                    break
            so_far.chats[chat][0] = last
        return missed

    # What is heard

    async def _to_message(self, event: Mapping[str, Any]) -> HeardMessage | None:
        who = event.get("author") or {}
        # a webhook has any name it likes, and no identity
        if who.get("bot") or event.get("webhook_id") or event.get("type", _PLAIN) not in (_PLAIN, _REPLY):
            return None
        answered = ((event.get("referenced_message") or {}).get("author") or {}).get("id")
        mentioned = [each.get("id") for each in event.get("mentions") or ()]
        passed_on = [each.get("message") or {} for each in event.get("message_snapshots") or ()]
        return HeardMessage(
            id=str(event["id"]),
            sender=_to_sender(who, event.get("member") or {}),
            **await self._find_place(event),
            text=re.sub(rf"^\s*<@!?{re.escape(self._me)}>[\s,:]*", "", str(event.get("content") or "")),
            forwarded="\n\n".join(filter(None, (str(each.get("content") or "") for each in passed_on))),
            is_for_us=self._me in mentioned or answered == self._me,
            attachments=(*_list_files(event), *(file for each in passed_on for file in _list_files(each, True))),
            at=datetime.fromisoformat(event["timestamp"]).timestamp() if event.get("timestamp") else 0.0,
        )

    async def _to_press(self, event: Mapping[str, Any]) -> HeardMessage:
        member = event.get("member") or {}
        return HeardMessage(
            id=f"pressed-{event['id']}",
            sender=_to_sender(event.get("user") or member.get("user") or {}, member),
            **await self._find_place(event),
            pressed=str((event.get("data") or {}).get("custom_id", "")),
            is_for_us=True,
        )

    async def _find_place(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the chat of a message: a thread belongs to its channel, and has the rights of it."""
        channel, guild = str(event["channel_id"]), event.get("guild_id")
        if not guild:
            return {"chat": channel, "kind": "dm"}
        if channel not in self._channels:
            try:
                found = await self._rest.ask("GET", f"/channels/{channel}")
            except ToolError as error:
                if error.code not in ("denied", "not_found"):
                    raise
                found = {}
            if len(self._channels) >= _MAX_KEPT:
                self._channels.clear()
            self._channels[channel] = {"type": found.get("type"), "parent": found.get("parent_id")}
        about = self._channels[channel]
        is_thread = about["type"] in _THREADS and about["parent"]
        parent = str(about["parent"]) if is_thread else channel
        thread = channel if is_thread else ""
        return {"chat": parent, "kind": "channel", "group": f"{guild}/{parent}", "thread": thread}


class _Pulse:
    """Tells the gateway that we are there, and hangs up when it does not answer."""

    def __init__(self, socket: TextSocket) -> None:
        self._socket, self.is_answered = socket, True
        self.number: int | None = None  # of the last event that is kept
        self._task: asyncio.Task[None] | None = None

    def start(self, seconds: float, number: Any) -> None:
        self.number = number
        self._task = asyncio.create_task(self._go_on(seconds))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def beat(self) -> None:
        await _send(self._socket, _BEAT, self.number)

    async def _go_on(self, seconds: float) -> None:
        await asyncio.sleep(seconds * random.random())  # noqa: S311  so that not all beat at once
        try:
            while self.is_answered:
                self.is_answered = False
                await self.beat()
                await asyncio.sleep(seconds)
        except ConnectionError as error:
            log.info("discord: %s", error)
        self._socket.abort()  # who listens hears of it


async def _send(socket: TextSocket, op: int, data: Any) -> None:
    await socket.send(orjson.dumps({"op": op, "d": data}).decode())


async def _receive(socket: TextSocket) -> Mapping[str, Any]:
    try:
        frame: Mapping[str, Any] = orjson.loads(await socket.receive())
    except orjson.JSONDecodeError:
        raise ConnectionError("discord sent what is no frame") from None
    return frame


def _to_sender(who: Mapping[str, Any], member: Mapping[str, Any]) -> Sender:
    name = member.get("nick") or who.get("global_name")
    return Sender(id=str(who.get("id") or "") or None, username=who.get("username"), name=name)


def _list_files(message: Mapping[str, Any], is_forwarded: bool = False) -> Iterator[Attachment]:
    for each in message.get("attachments") or ():
        mime, is_spoken = str(each.get("content_type", "")), bool(int(message.get("flags") or 0) & _SPOKEN)
        yield Attachment(str(each["url"]), str(each["filename"]), mime, int(each["size"]), is_spoken, is_forwarded)


def _to_button(button: Any) -> dict[str, Any]:
    return {"type": 2, "style": 2, "label": button.text[:80], "custom_id": button.data[:100]}


def _show(message: Mapping[str, Any]) -> dict[str, Any]:
    who = message.get("author") or {}
    row = {"id": message["id"], "from": who.get("id"), "name": who.get("global_name") or who.get("username")}
    files = [each["filename"] for each in message.get("attachments") or ()]
    return {**row, "at": message.get("timestamp"), "text": message.get("content", ""), "files": files}


def _show_member(member: Mapping[str, Any]) -> dict[str, Any]:
    who = member.get("user") or {}
    row = {"id": who.get("id"), "username": who.get("username"), "name": member.get("nick") or who.get("global_name")}
    return {**row, "roles": member.get("roles") or [], "isBot": bool(who.get("bot"))}


def _make(settings: Any, way_out: WayOut) -> DiscordChannel:
    if not settings.token:
        raise ToolError("discord needs token, of the bot: channels: {discord: {token: ${DISCORD_TOKEN}}}")
    return DiscordChannel(settings.token, settings.api_base or _BASE, way_out)


DISCORD = ChannelKind(DiscordChannel.abilities, _make)
