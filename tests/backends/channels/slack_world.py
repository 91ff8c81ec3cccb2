"""Slack on loopback: it holds requests to the documentation of its methods, and people write to the app."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from .hosted_world import PICTURE, serving

BOT_TOKEN, APP_TOKEN = "xoxb-1-bot-token-token", "xapp-1-app-token-token"
BOT, ROOM = "UBOT", "C500"
# what each method needs, and may have besides
METHODS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    name: (frozenset(needs.split()), frozenset(may.split()))
    for name, needs, may in (
        ("auth.test", "", ""),
        ("apps.connections.open", "", ""),
        ("chat.postMessage", "channel text", "blocks thread_ts unfurl_links unfurl_media"),
        ("chat.update", "channel ts text", "parse"),
        ("chat.delete", "channel ts", ""),
        ("reactions.add", "channel timestamp name", ""),
        ("reactions.remove", "channel timestamp name", ""),
        ("reactions.get", "channel timestamp", ""),
        ("pins.add", "channel timestamp", ""),
        ("pins.remove", "channel timestamp", ""),
        ("pins.list", "channel", ""),
        ("conversations.history", "channel", "limit oldest latest cursor"),
        ("conversations.replies", "channel ts", "limit oldest latest cursor"),
        ("conversations.members", "channel", "limit"),
        ("conversations.info", "channel", ""),
        ("conversations.list", "", "exclude_archived limit"),
        ("users.info", "user", ""),
        ("emoji.list", "", ""),
        ("files.getUploadURLExternal", "filename length", ""),
        ("files.completeUploadExternal", "files", "channel_id thread_ts initial_comment"),
    )
}


@dataclass
class Slack:
    """What was written, by whom, and what the app said and asked for."""

    host: str = ""
    sockets: list[WebSocket] = field(default_factory=list)
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)  # envelopes that nobody has acknowledged
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    uploads: list[bytes] = field(default_factory=list)
    tickets: set[str] = field(default_factory=set)
    busy: int = 0  # so many messages are too many at once
    breaks: int = 0  # so many messages are taken, and the answer is that something broke
    numbers: int = 1_000

    @property
    def base(self) -> str:
        return f"http://{self.host}/api"

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    async def say(self, text: str, *, by: str, channel: str = "", **more: Any) -> None:
        """Have somebody write to the app, or in a channel; a mention there is told twice, as Slack does."""
        place, ts = channel or f"D{by}", f"1700000000.{self.next_number():06}"
        event = {"type": "message", "user": by, "text": text, "ts": ts, **more}
        self.messages.setdefault(place, []).append(event)
        told = {**event, "channel": place, "channel_type": "channel" if channel else "im"}
        await self.tell("events_api", {"type": "event_callback", "event": told})
        if channel and f"<@{BOT}>" in text:
            mention = {**event, "channel": place, "type": "app_mention"}
            await self.tell("events_api", {"type": "event_callback", "event": mention})

    async def press(self, value: str, *, by: str, channel: str = "") -> None:
        """Have somebody press a button."""
        action = {"type": "button", "action_id": "0-0", "value": value, "action_ts": f"17.{self.next_number()}"}
        payload = {"type": "block_actions", "user": {"id": by, "username": by.lower()}, "actions": [action]}
        await self.tell("interactive", {**payload, "channel": {"id": channel or f"D{by}"}, "message": {"ts": "1.1"}})

    async def tell(self, kind: str, payload: dict[str, Any]) -> None:
        id = f"e{self.next_number()}"
        self.waiting[id] = {"type": kind, "envelope_id": id, "payload": payload, "accepts_response_payload": False}
        for socket in list(self.sockets):
            with suppress(WebSocketDisconnect, RuntimeError):  # it is gone, and is told when it comes back
                await socket.send_json(self.waiting[id])

    async def cut(self) -> None:
        """Have every connection renewed, as Slack does from time to time."""
        for socket in list(self.sockets):
            self.sockets.remove(socket)
            with suppress(WebSocketDisconnect, RuntimeError):
                await socket.send_json({"type": "disconnect", "reason": "refresh_requested"})
                await socket.close()

    def said(self, channel: str) -> list[str]:
        """Return what the app said in a channel."""
        return [each["text"] for each in self.messages.get(channel, ()) if each.get("bot_id") == "B1"]

    # Methods

    async def answer(self, request: Request) -> Response:
        method = request.path_params["method"]
        token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("authorization") != f"Bearer {token}":
            return JSONResponse({"ok": False, "error": "invalid_auth"})
        if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            return JSONResponse({"ok": False, "error": "invalid_form_data"})
        if method not in METHODS:
            return JSONResponse({"ok": False, "error": "unknown_method"})
        body = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        needs, may = METHODS[method]
        if wrong := (needs - set(body)) | (set(body) - needs - may):
            return JSONResponse({"ok": False, "error": "invalid_arguments", "wrong": sorted(wrong)})
        if self.busy and method == "chat.postMessage":
            self.busy -= 1
            return JSONResponse({"ok": False, "error": "ratelimited"}, 429, {"retry-after": "0"})
        self.asked.append((method, body))
        told = self.run(method, body)
        return JSONResponse({"ok": True, **told} if isinstance(told, dict) else {"ok": False, "error": told})

    def run(self, method: str, body: dict[str, str]) -> dict[str, Any] | str:
        rows = self.messages.get(body.get("channel", ""), [])
        match method:
            case "auth.test":
                return {"user_id": BOT, "bot_id": "B1", "team_id": "T1"}
            case "apps.connections.open":
                self.tickets.add(ticket := f"t{self.next_number()}")
                return {"url": f"ws://{self.host}/link/?ticket={ticket}"}
            case "chat.postMessage":
                return self._post(body)
            case "conversations.history" | "conversations.replies":
                if method == "conversations.replies":
                    found = [each for each in rows if body["ts"] in (each["ts"], each.get("thread_ts"))]
                else:
                    found = [each for each in rows if not each.get("thread_ts")]
                found = [each for each in found if each["ts"] > body.get("oldest", "")]
                return {"messages": found[::-1][: int(body.get("limit", 100))], "has_more": False}
            case "conversations.members":
                return {"members": ["UANN", "UBOB"]}
            case "users.info":
                return {"user": {"id": body["user"], "name": body["user"].lower(), "real_name": f"Real {body['user']}"}}
            case "conversations.list":
                return {"channels": [{"id": ROOM, "name": "shop"}]}
            case "conversations.info":
                return {"channel": {"id": body["channel"]}} if rows else "channel_not_found"
            case "emoji.list":
                return {"emoji": {"parrot": "https://x.test/p.gif"}}
            case "pins.list":
                return {"items": [{"type": "message", "message": each} for each in rows[:1]]}
            case "reactions.get":
                return {"message": {"ts": body["timestamp"], "reactions": [{"name": "+1", "count": 1, "users": ["U"]}]}}
            case "files.getUploadURLExternal":
                return {"upload_url": f"http://{self.host}/upload/F1", "file_id": "F1"}
            case "files.completeUploadExternal":
                said = {"bot_id": "B1", "text": body.get("initial_comment", ""), "ts": "9", "files": body["files"]}
                self.messages.setdefault(body["channel_id"], []).append(said)
        return {}

    def _post(self, body: dict[str, str]) -> dict[str, Any] | str:
        blocks = json.loads(body.get("blocks", "[]"))
        for block in blocks:
            if block["type"] == "section" and not 0 < len(block["text"]["text"]) <= 3_000:
                return "invalid_blocks"
            for each in block.get("elements", ()):
                if set(each) != {"type", "action_id", "value", "text"} or len(each["value"]) > 2_000:
                    return "invalid_blocks"
        if not body["text"] and not blocks:
            return "no_text"
        if len(body["text"]) > 40_000:
            return "msg_too_long"
        ts = f"1700000000.{self.next_number():06}"
        thread = {"thread_ts": body["thread_ts"]} if "thread_ts" in body else {}
        self.messages.setdefault(body["channel"], []).append({"bot_id": "B1", "text": body["text"], "ts": ts, **thread})
        if self.breaks:
            self.breaks -= 1
            return "internal_error"
        return {"ts": ts, "channel": body["channel"]}

    # Socket Mode

    async def link(self, socket: WebSocket) -> None:
        ticket = socket.query_params.get("ticket", "")
        if ticket not in self.tickets:
            await socket.close()
            return
        self.tickets.discard(ticket)  # it holds once
        await socket.accept()
        await socket.send_json({"type": "hello", "num_connections": 1})
        self.sockets.append(socket)
        for each in list(self.waiting.values()):
            await socket.send_json({**each, "retry_attempt": 1})
        try:
            while True:
                told = json.loads(await socket.receive_text())
                assert set(told) == {"envelope_id"}
                self.waiting.pop(told["envelope_id"], None)
        except (WebSocketDisconnect, RuntimeError):
            pass  # it is gone
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)


@asynccontextmanager
async def slack() -> AsyncIterator[Slack]:
    """Serve the methods, the socket and the files."""
    world = Slack()

    async def file(request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {BOT_TOKEN}":
            return Response("<html>sign in</html>", media_type="text/html")
        return Response(PICTURE, media_type="image/png")

    async def upload(request: Request) -> Response:
        world.uploads.append(await request.body())
        return Response("OK")

    app = Starlette(
        routes=[
            Route("/api/{method}", world.answer, methods=["POST"]),
            Route("/files/{path:path}", file),
            Route("/upload/{id}", upload, methods=["POST"]),
            WebSocketRoute("/link/", world.link),
        ]
    )
    async with serving(app) as world.host:
        yield world
