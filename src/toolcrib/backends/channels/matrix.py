"""Matrix, by its client API: rooms are synced behind a token, and what is sent has a transaction id that holds once.

Rooms that are encrypted cannot be read. An invitation is read like a message: whose are taken is not for a channel to
say. A room is direct while nobody but one other and we are in it and nobody else may read it, whatever it calls itself:
such a chat is `ROOM/@user:server`, and a message there goes to that user alone, or not at all.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, ChannelKind, Hear, HeardMessage, Post, refuse_action
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Image
from toolcrib.define.web import Http, Page, WayOut

from .hosted import need

_API = "/_matrix/client/v3"
_WAIT_MS, _SLACK_SECONDS, _POST_SECONDS = 30_000, 20.0, 30.0
_FILE_SECONDS = 120.0
_ANSWER_BYTES = 20 << 20
_COMPLAINT_CHARS = 300
_FILTER = {
    "room": {
        "timeline": {"limit": 100, "types": ["m.room.message", "m.room.encrypted", "m.room.member"]},
        "state": {"lazy_load_members": True, "types": ["m.room.member"]},
        "ephemeral": {"types": list[str]()},
        "account_data": {"types": list[str]()},
    },
    "presence": {"types": list[str]()},
}
_FILES = {"m.image", "m.file", "m.audio", "m.video"}
_FORWARDED = ("m.forwarded", "org.matrix.msc2723.forwarded")
_SPOKEN = ("m.voice", "org.matrix.msc3245.voice")

_NO_PREVIEW: Mapping[str, Any] = {"com.beeper.linkpreviews": [], "m.url_previews": []}  # MSC4095: not of any address


class MatrixChannel:
    """One user on one homeserver."""

    abilities = Abilities(
        actions=("send", "broadcast", "reply", "edit", "delete", "react"),
        media=True,
        typing=True,
        longest=16_000,
        knows_keys=True,
        invitations=True,
    )

    def __init__(self, settings: Any, http: Http) -> None:
        self._settings, self._base, self._http = settings, settings.homeserver.rstrip("/"), http
        self._token, self._me = settings.access_token or "", ""
        self._groups = set[str]()  # rooms that had other members at the last change of members

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Sync until the connection ends; of rooms that were there before the first sync nothing is answered."""
        self._me = await self.identify()
        ready()
        while True:
            query = {"timeout": _WAIT_MS if cursor else 0, "filter": orjson.dumps(_FILTER).decode()}
            page = await self._ask(
                "GET", f"/sync?{urlencode({**query, **({'since': cursor} if cursor else {})})}",
                seconds=_WAIT_MS / 1000 + _SLACK_SECONDS,
            )  # fmt: skip
            rooms = page.get("rooms") or {}
            messages = list(self._read_invitations(rooms.get("invite") or {}, str(page["next_batch"])))
            for room, found in (rooms.get("join") or {}).items() if cursor else ():
                messages += [each async for each in self._read_room(room, found)]
            cursor = str(page["next_batch"])
            await hear(messages, cursor)

    async def post(self, post: Post, key: str, /) -> str:
        """Send a message; under the same key it is taken once."""
        room = await self._find_room(post.chat)
        content: dict[str, Any] = await self._upload(post) if post.media else {"msgtype": "m.text", "body": post.text}
        content |= _NO_PREVIEW
        if post.thread:
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": post.thread}
        elif post.reply_to:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": post.reply_to}}
        return await self._send(room, "m.room.message", content, key)

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        """Do what can be done to a message that is there, or join a room."""
        if action == "join":
            await self._ask("POST", f"/join/{quote(chat, safe='')}", {})
            return {"ok": True}
        key = orjson.dumps([action, dict(params)]).decode()
        if action not in ("edit", "delete", "react"):
            raise refuse_action("matrix", action, self.abilities)
        event, chat = need(params, "messageId"), await self._find_room(chat)
        if action == "delete":
            path = f"/rooms/{quote(chat, safe='')}/redact/{quote(event, safe='')}/{_to_id(key)}"
            return {"ok": True, "messageId": str((await self._ask("PUT", path, {}))["event_id"])}
        if action == "react":
            relates = {"rel_type": "m.annotation", "event_id": event, "key": str(params.get("emoji", ""))}
            return {"ok": True, "messageId": await self._send(chat, "m.reaction", {"m.relates_to": relates}, key)}
        new = {"msgtype": "m.text", "body": str(params.get("message", "")), **_NO_PREVIEW}
        relates = {"rel_type": "m.replace", "event_id": event}
        content = {**new, "body": f"* {new['body']}", "m.new_content": new, "m.relates_to": relates}
        return {"ok": True, "messageId": await self._send(chat, "m.room.message", content, key)}

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return a file that came with a message."""
        found = re.fullmatch(r"mxc://([\w.:-]+)/([\w=-]+)", attachment.ref)
        if found is None:
            raise ToolError("the file has no address that Matrix knows", code="not_found")
        url = f"{self._base}/_matrix/client/v1/media/download/{found[1]}/{found[2]}"
        page = await self._http.get(url, headers={"authorization": f"Bearer {self._token}"}, most=max_bytes)
        if page.status != 200:
            raise ToolError(f"matrix answered {page.status} to a file", code="not_found")
        return page.body

    async def identify(self) -> str:
        """Return the user that the token stands for."""
        if not self._token:
            self._token = await self._sign_in()
        return str((await self._ask("GET", "/account/whoami"))["user_id"])

    async def sign_out(self) -> None:
        """Have a token forgotten that we got by the password; one of the configuration is for its owner to end."""
        if self._token and not self._settings.access_token:
            await self._ask("POST", "/logout", {})
            self._token = ""

    async def show_typing(self, chat: str, thread: str, /) -> None:
        path = f"/rooms/{quote(_split_chat(chat)[0], safe='')}/typing/{quote(self._me, safe='')}"
        await self._ask("PUT", path, {"typing": True, "timeout": 8_000})

    async def close(self) -> None:
        """Do nothing: there is no connection between two requests."""

    async def _find_room(self, chat: str) -> str:
        """Return the room of a chat; ToolError where a direct one is direct no more."""
        room, user = _split_chat(chat)
        if user and await self._find_other(room) != user:
            raise ToolError("others read along in that room by now; it is said to nobody", code="denied")
        return room

    async def _find_other(self, room: str) -> str:
        """Return who is alone with us in a room, "" where others are there or may read the messages."""
        path = f"/rooms/{quote(room, safe='')}"
        others = [each for each in (await self._ask("GET", f"{path}/joined_members"))["joined"] if each != self._me]
        if len(others) > 1:
            return ""
        try:
            rule = await self._ask("GET", f"{path}/state/m.room.history_visibility")
        except ToolError as error:
            if error.code != "not_found":
                raise
            rule = {}
        return "" if rule.get("history_visibility") == "world_readable" else (others or [self._me])[0]

    # Requests

    async def _upload(self, post: Post) -> dict[str, Any]:
        """Return the content of a message that shows a file; the same file may be uploaded twice, never shown so."""
        data = await asyncio.to_thread(Path(post.media).read_bytes)
        picture = Image.mime_of(data[:16])
        mime = picture or guess_type(post.filename)[0] or "application/octet-stream"
        headers = {"content-type": mime, "authorization": f"Bearer {self._token}"}
        url = f"{self._base}/_matrix/media/v3/upload?{urlencode({'filename': post.filename})}"
        page = await self._http.send("POST", url, headers=headers, body=data, most=_ANSWER_BYTES, seconds=_FILE_SECONDS)
        upload = self._read_answer(page)
        kind = "m.image" if picture else "m.audio" if mime.startswith("audio/") else "m.file"
        info = {"mimetype": mime, "size": len(data)}
        words = {"body": post.text, "filename": post.filename} if post.text else {"body": post.filename}
        voice = {"org.matrix.msc3245.voice": dict[str, str]()} if post.is_voice else {}
        return {"msgtype": kind, "url": str(upload["content_uri"]), "info": info, **words, **voice}

    async def _sign_in(self) -> str:
        user = {"type": "m.id.user", "user": self._settings.user_id}
        body = {"type": "m.login.password", "identifier": user, "password": self._settings.password}
        return str((await self._ask("POST", "/login", body))["access_token"])

    async def _send(self, room: str, kind: str, content: Mapping[str, Any], key: str) -> str:
        path = f"/rooms/{quote(room, safe='')}/send/{kind}/{_to_id(key)}"
        return str((await self._ask("PUT", path, content))["event_id"])

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, seconds: float = _POST_SECONDS
    ) -> Any:
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        packed = b"" if body is None else orjson.dumps(body)
        page = await self._http.send(
            method, f"{self._base}{_API}{path}", headers=headers, body=packed, most=_ANSWER_BYTES, seconds=seconds
        )
        return self._read_answer(page)

    def _read_answer(self, page: Page) -> Any:
        answer = page.read_json()
        if page.status == 200 and isinstance(answer, dict):
            return answer
        answer = answer if isinstance(answer, dict) else {}
        why = strip_to_line(str(answer.get("error", f"status {page.status}")))[:_COMPLAINT_CHARS]
        if page.status == 429 or page.status >= 500:
            raise ToolError(f"matrix takes no more for now: {why}", code="busy")
        hint = "; check channels.matrix.accessToken" if page.status == 401 else ""
        raise ToolError(f"matrix refused it: {why}{hint}", code="not_found" if page.status == 404 else "denied")

    # What is heard

    def _read_invitations(self, rooms: Mapping[str, Any], batch: str) -> Iterator[HeardMessage]:
        for room, found in rooms.items():
            for event in (found.get("invite_state") or {}).get("events") or ():
                if event.get("type") == "m.room.member" and event.get("state_key") == self._me:
                    sender = Sender(id=str(event.get("sender", "")))  # these events have no id; each is reported once
                    yield HeardMessage(
                        id=f"invitation {batch}", chat=room, sender=sender, kind="invitation", group=room
                    )

    async def _read_room(self, room: str, found: Mapping[str, Any]) -> AsyncIterator[HeardMessage]:
        if any(each.get("type") == "m.room.member" for each in _events(found)):
            self._groups.discard(room)
        for event in _events(found):
            is_said = event.get("type") in ("m.room.message", "m.room.encrypted") and event.get("sender") != self._me
            relation = ((event.get("content") or {}).get("m.relates_to") or {}).get("rel_type")
            if is_said and relation != "m.replace":  # a correction: it was answered when it was wrong
                is_direct = room not in self._groups and await self._find_other(room) == event["sender"]
                (self._groups.discard if is_direct else self._groups.add)(room)
                yield self._to_message(room, event, is_direct=is_direct)

    def _to_message(self, room: str, event: Mapping[str, Any], *, is_direct: bool) -> HeardMessage:
        content, sender = event.get("content") or {}, str(event["sender"])
        relates = content.get("m.relates_to") or {}
        text = str(content.get("body", "")) if event["type"] == "m.room.message" else ""
        if "m.in_reply_to" in relates:  # what is quoted before the answer
            text = re.sub(r"\A(?:>.*(?:\n|\Z))+\s*", "", text)
        mentioned = (content.get("m.mentions") or {}).get("user_ids") or []
        local, _, server = map(re.escape, self._me[1:].partition(":"))
        named = re.match(rf"(?i)@?{local}(?::{server})?\s*(?:,|:(?!\S+:\s))\s*", text)
        files = content.get("url") if content.get("msgtype") in _FILES else None
        info = content.get("info") or {}
        name, text = (
            (str(content.get("filename") or text), text if content.get("filename") else "") if files else ("", text)
        )
        is_forwarded = any(key in content for key in _FORWARDED)
        size, is_spoken = int(info.get("size", 0)), any(key in content for key in _SPOKEN)
        file = Attachment(str(files), name, str(info.get("mimetype", "")), size, is_spoken, is_forwarded)
        forwarded, text, named = (text, "", None) if is_forwarded else ("", text, named)
        return HeardMessage(
            id=str(event["event_id"]),
            chat=f"{room}/{sender}" if is_direct else room,
            sender=Sender(id=sender, name=sender[1:].partition(":")[0]),
            kind="dm" if is_direct else "group",
            group="" if is_direct else room,
            thread=str(relates["event_id"]) if relates.get("rel_type") == "m.thread" else "",
            text=text[named.end() :] if named else text,
            forwarded=forwarded,
            is_for_us=named is not None or self._me in mentioned,
            attachments=(file,) if files else (),
            at=float(event.get("origin_server_ts", 0)) / 1000,
        )


def _split_chat(chat: str) -> tuple[str, str]:
    """Return the room of a chat, and who is alone with us there, "" for a group."""
    room, mark, user = chat.rpartition("/@")
    return (room, f"@{user}") if mark else (chat, "")


def _events(room: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in ("state", "timeline"):
        yield from (room.get(part) or {}).get("events") or ()


def _to_id(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:32]


def _make(settings: Any, way_out: WayOut) -> MatrixChannel:
    if not settings.homeserver or not (settings.access_token or (settings.user_id and settings.password)):
        raise ToolError("matrix needs homeserver, and accessToken or userId with password")
    return MatrixChannel(settings, way_out.for_own(settings.homeserver))


MATRIX = ChannelKind(MatrixChannel.abilities, _make)
