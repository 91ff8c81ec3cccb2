"""Discord on loopback: it holds requests to the documentation of its API, v10, and people write to the bot."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from .hosted_world import PICTURE, serving

TOKEN = "MTk4.discord.token-token"
BOT = "99"
GUILD, ROOM, THREAD = "500", "501", "502"
NEEDED_INTENTS = 1 << 9 | 1 << 12 | 1 << 15
MESSAGE_KEYS = {
    "content", "nonce", "enforce_nonce", "allowed_mentions", "message_reference", "components", "embeds", "flags",
    "attachments", "poll", "sticker_ids",
}  # fmt: skip


@dataclass
class Discord:
    """What was written, by whom, and what the bot said and asked for."""

    host: str = ""
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    sockets: list[WebSocket] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    nonces: dict[str, str] = field(default_factory=dict)
    files: list[bytes] = field(default_factory=list)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    is_content_allowed: bool = True
    interval: int = 45_000
    mute_beats: bool = False  # heartbeats are not answered
    busy: int = 0  # so many messages are too many at once
    drops: int = 0  # so many messages are taken, and the answer is lost
    numbers: int = 1_000

    @property
    def base(self) -> str:
        return f"http://{self.host}/api/v10"

    def next_id(self) -> str:
        self.numbers += 1
        return str(self.numbers)

    async def say(self, text: str, *, by: str, channel: str = "", **more: Any) -> None:
        """Have somebody write to the bot, or in a channel of the server."""
        guild = {"guild_id": GUILD} if channel else {}
        place = channel or f"7{by}"
        told = {
            "id": self.next_id(), "channel_id": place, "type": 0, "content": text, "attachments": [],
            "author": {"id": by, "username": f"p{by}", "global_name": f"P {by}"}, **guild,
            "mentions": [{"id": BOT}] if f"<@{BOT}>" in text else [], "timestamp": "2026-11-18T09:00:00+00:00", **more,
        }  # fmt: skip
        self.messages.setdefault(place, []).append({key: each for key, each in told.items() if key != "guild_id"})
        await self.tell("MESSAGE_CREATE", told)

    async def press(self, data: str, *, by: str, channel: str = "") -> None:
        """Have somebody press a button."""
        user = {"id": by, "username": f"p{by}"}
        who: dict[str, Any] = {"guild_id": GUILD, "member": {"user": user}} if channel else {"user": user}
        id = self.next_id()
        told = {"id": id, "token": f"t{id}", "type": 3, "channel_id": channel or f"7{by}", **who}
        await self.tell("INTERACTION_CREATE", {**told, "data": {"custom_id": data, "component_type": 2}})

    async def tell(self, name: str, told: dict[str, Any]) -> None:
        self.events.append((len(self.events) + 2, name, told))  # READY is the first
        for socket in list(self.sockets):
            await _send(socket, *self.events[-1])

    async def cut(self, code: int = 4000) -> None:
        """Cut every connection."""
        for socket in list(self.sockets):
            self.sockets.remove(socket)
            with suppress(WebSocketDisconnect, RuntimeError):
                await socket.close(code)

    def said(self, channel: str) -> list[str]:
        """Return what the bot said in a channel."""
        return [each["content"] for each in self.messages.get(channel, ()) if each["author"]["id"] == BOT]

    def posts(self) -> list[dict[str, Any]]:
        """Return the messages of the bot as it sent them."""
        return [body for method, path, body in self.asked if method == "POST" and path.endswith("/messages")]

    # REST

    async def answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bot {TOKEN}":
            return JSONResponse({"message": "401: Unauthorized", "code": 0}, 401)
        if not request.headers["user-agent"].startswith("DiscordBot ("):
            return JSONResponse({"message": "blocked"}, 403)
        path, body = request.url.path.removeprefix("/api/v10"), await self._read_body(request)
        if body == "wrong":
            return JSONResponse({"message": "Invalid Form Body", "code": 50035}, 400)
        self.asked.append((request.method, path, body))
        found = self.route(request.method, path, body, dict(request.query_params))
        if isinstance(found, Response):
            return found
        return Response(status_code=204) if found is None else JSONResponse(found)

    async def _read_body(self, request: Request) -> Any:
        raw = await request.body()
        kind = request.headers.get("content-type", "")
        if kind.startswith("multipart/form-data"):
            mark = kind.partition("boundary=")[2].encode()
            parts = [each.strip(b"\r\n").partition(b"\r\n\r\n") for each in raw.split(b"--" + mark)[1:-1]]
            named = {re.search(rb'name="([^"]+)"', head)[1]: data for head, _, data in parts}  # type: ignore[index]
            self.files.append(named[b"files[0]"])
            return json.loads(named[b"payload_json"])
        if raw and kind != "application/json":
            return "wrong"
        return json.loads(raw) if raw else None

    def route(self, method: str, path: str, body: Any, query: dict[str, str]) -> Any:
        match method, path.strip("/").split("/"):
            case "GET", ["gateway", "bot"]:
                return {"url": f"ws://{self.host}/gateway", "shards": 1}
            case "GET", ["channels", id]:
                kind = {"type": 11, "parent_id": ROOM} if id == THREAD else {"type": 0}
                return {"id": id, "guild_id": GUILD, **kind} if id in (ROOM, THREAD) else {"id": id, "type": 1}
            case "POST", ["channels", id, "messages"]:
                return self._create(id, body)
            case "GET", ["channels", id, "messages"]:
                rows = [each for each in self.messages.get(id, ()) if int(each["id"]) > int(query.get("after", 0))]
                return rows[: int(query["limit"])][::-1]
            case "GET", ["channels", id, "messages", "pins"]:
                return {"items": [{"message": each} for each in self.messages.get(id, ())[:1]], "has_more": False}
            case "GET", ["channels", id, "messages", _]:
                return {**self.messages[id][0], "reactions": [{"emoji": {"name": "👍"}, "count": 2}]}
            case "PATCH", ["channels", _, "messages", id]:
                return {"id": id}
            case ("DELETE", ["channels", _, "messages", _]) | (
                "PUT" | "DELETE",
                ["channels", _, "messages", "pins", _],
            ):
                return None
            case "PUT" | "DELETE", ["channels", _, "messages", _, "reactions", _, "@me"]:
                return None
            case "POST", ["channels", _, "typing"]:
                return None
            case "POST", ["channels", _, *_, "threads"]:
                return {"id": THREAD} if body.get("name") else _refuse("name is required")
            case "POST", ["interactions", _, _, "callback"]:
                return None if body == {"type": 6} else _refuse("type")
            case "GET", ["guilds", "500", "members"]:
                return [{"user": {"id": "7", "username": "p7"}, "nick": "Ann", "roles": []}]
            case "GET", ["guilds", "500", "members", id]:
                return {"user": {"id": id, "username": f"p{id}"}, "roles": []}
            case "GET", ["guilds", "500", "threads", "active"]:
                return {"threads": [{"id": THREAD, "name": "t"}]}
            case "GET", ["guilds", "500", what]:
                return [{"id": "1", "name": what}]
        return JSONResponse({"message": "Unknown", "code": 10003}, 404)

    def _create(self, channel: str, body: dict[str, Any]) -> Any:
        if self.busy:
            self.busy -= 1
            return JSONResponse({"message": "You are being rate limited.", "retry_after": 0.01, "global": False}, 429)
        if wrong := set(body) - MESSAGE_KEYS:
            return _refuse(f"unknown {wrong}")
        if len(body.get("content", "")) > 2_000 or len(str(body.get("nonce", ""))) > 25:
            return _refuse("too long")
        if not any(body.get(each) for each in ("content", "embeds", "attachments", "poll", "sticker_ids")):
            return JSONResponse({"message": "Cannot send an empty message", "code": 50006}, 400)
        if body["allowed_mentions"]["parse"] != []:
            return _refuse("a mention")
        for button in (each for row in body.get("components", ()) for each in row["components"]):
            if set(button) != {"type", "style", "label", "custom_id"} or len(button["custom_id"]) > 100:
                return _refuse("components")
        nonce = body.get("nonce", "") if body.get("enforce_nonce") else ""
        if nonce not in self.nonces:
            id = self.next_id()
            said = {
                "id": id,
                "author": {"id": BOT, "bot": True},
                "content": body.get("content", ""),
                "channel_id": channel,
            }
            self.messages.setdefault(channel, []).append(said)
            self.nonces |= {nonce: id} if nonce else {"": id}
        if self.drops:
            self.drops -= 1
            return JSONResponse({"message": "bad gateway"}, 502)
        return {"id": self.nonces.pop("") if not nonce else self.nonces[nonce]}

    # The gateway

    async def gateway(self, socket: WebSocket) -> None:
        if dict(socket.query_params) != {"v": "10", "encoding": "json"}:
            await socket.close(4012)
            return
        await socket.accept()
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": self.interval}})
        try:
            while True:
                frame = json.loads(await socket.receive_text())
                self.frames.append(frame)
                if (code := await self._take(socket, frame)) is not None:
                    await socket.close(code)
                    return
        except (WebSocketDisconnect, RuntimeError):
            pass  # it is gone
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)

    async def _take(self, socket: WebSocket, frame: dict[str, Any]) -> int | None:
        told, last = frame["d"], len(self.events) + 1
        if frame["op"] == 1:
            if told is not None and not 0 < told <= last:
                return 4007
            if not self.mute_beats:
                await socket.send_json({"op": 11})
        elif frame["op"] in (2, 6) and told["token"] != TOKEN:
            return 4004
        elif frame["op"] == 2:
            if not {"os", "browser", "device"} <= set(told["properties"]) or not told["intents"]:
                return 4013
            if told["intents"] & NEEDED_INTENTS != NEEDED_INTENTS or not self.is_content_allowed:
                return 4014
            id = f"s{self.next_id()}"
            self.sessions.add(id)
            ready = {"user": {"id": BOT}, "session_id": id, "resume_gateway_url": f"ws://{self.host}/gateway"}
            await _send(socket, last, "READY", {"v": 10, **ready})
            self.sockets.append(socket)
        elif frame["op"] == 6:
            if told["session_id"] not in self.sessions:
                await socket.send_json({"op": 9, "d": False})
                return None
            for each in self.events:
                if each[0] > told["seq"]:
                    await _send(socket, *each)
            await _send(socket, last, "RESUMED", {})
            self.sockets.append(socket)
        else:
            return 4001
        return None


async def _send(socket: WebSocket, number: int, name: str, told: dict[str, Any]) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # it is gone, and is told when it comes back
        await socket.send_json({"op": 0, "s": number, "t": name, "d": told})


def _refuse(why: str) -> JSONResponse:
    return JSONResponse({"message": f"Invalid Form Body: {why}", "code": 50035}, 400)


@asynccontextmanager
async def discord() -> AsyncIterator[Discord]:
    """Serve the API, its gateway and its files."""
    world = Discord()

    async def file(_: Request) -> Response:
        return Response(PICTURE, media_type="image/png")

    app = Starlette(
        routes=[
            Route("/attachments/{path:path}", file),
            Route("/api/v10/{path:path}", world.answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
            WebSocketRoute("/gateway/", world.gateway),
        ]
    )
    async with serving(app) as world.host:
        yield world
