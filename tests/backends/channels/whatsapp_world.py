"""Meta's Graph on loopback: it holds requests to its documentation, and people write to the number by its webhook."""

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.sockets import serving

from toolcrib.define.channel import InboundRequest

__all__ = ["GRAPH", "NUMBER", "PICTURE", "Graph", "graph", "hook", "notice", "picture", "reply", "words"]

NUMBER, OWN = "106540352242922", "15550783881"
GRAPH = {"phoneNumberId": NUMBER, "accessToken": "EAAtoken", "verifyToken": "verify-me", "appSecret": "app-secret"}
PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 20
_TAKEN = (
    "image/jpeg", "image/png", "image/webp", "audio/ogg", "audio/mpeg", "audio/aac", "audio/mp4", "audio/amr",
    "video/mp4", "video/3gpp", "text/plain", "application/pdf",
)  # fmt: skip
# what a message of each type may hold
_SHAPES: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    kind: (frozenset(needs.split()), frozenset(may.split()))
    for kind, needs, may in (
        ("text", "body", "preview_url"),
        ("image", "id", "caption"),
        ("video", "id", "caption"),
        ("audio", "id", "voice"),
        ("document", "id", "caption filename"),
        ("interactive", "type body action", "header footer"),
        ("reaction", "message_id emoji", ""),
    )
}


def words(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": {"body": text}, **more}


def picture(media: str = "777", **more: Any) -> dict[str, Any]:
    return {"type": "image", "image": {"id": media, "mime_type": "image/png", "sha256": "x", **more}}


def reply(id: str) -> dict[str, Any]:
    return {"type": "interactive", "interactive": {"type": "button_reply", "button_reply": {"id": id, "title": "Yes"}}}


def notice(
    *said: Mapping[str, Any], by: str = "4915112345", name: str = "Ann", number: str = NUMBER, **more: Any
) -> bytes:
    """Return the body of a request that tells of messages by one person."""
    messages = [{"from": by, "id": f"wamid.{_number()}", "timestamp": "1700000000", **each} for each in said]
    about = {"display_phone_number": OWN, "phone_number_id": number}
    contacts = [{"profile": {"name": name}, "wa_id": by}]
    value = {"messaging_product": "whatsapp", "metadata": about, "contacts": contacts, "messages": messages, **more}
    change = {"id": "1", "changes": [{"field": "messages", "value": value}]}
    return json.dumps({"object": "whatsapp_business_account", "entry": [change]}).encode()


def hook(body: bytes, secret: str = GRAPH["appSecret"]) -> InboundRequest:
    """Return the request that Meta would make of it."""
    signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return InboundRequest("POST", {}, {"x-hub-signature-256": f"sha256={signed}"}, body)


_counted = iter(range(1, 1_000_000))


def _number() -> int:
    return next(_counted)


@dataclass
class Graph:
    """What was sent, uploaded and asked for; `fails` are answers that the next messages get instead."""

    address: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    fails: list[tuple[int, int]] = field(
        default_factory=list
    )  # status, code; (0, 0) cuts the connection, (200, 0) takes one
    file_host: str = ""
    is_proven: bool = False
    is_connected: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def said(self, to: str = "4915112345") -> list[str]:
        """Return the words that were said to somebody."""
        with self.lock:
            return [_words_of(each) for each in self.sent if each["to"] == to]

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        name = path.removeprefix(f"/{NUMBER}/")
        with self.lock:
            self.asked.append((name, body))
            if name == "messages":
                return self._take(body)
        if name == "request_code" and set(body) == {"code_method", "language"}:
            return (200, {"success": True}) if body["code_method"] in ("SMS", "VOICE") else _refuse(100)
        if name == "verify_code" and set(body) == {"code"}:
            self.is_proven = body["code"] == "123456"
            return (200, {"success": True}) if self.is_proven else _refuse(136_025, "Verify code error")
        if name == "register" and body.get("messaging_product") == "whatsapp" and self.is_proven:
            self.is_connected = re.fullmatch(r"[0-9]{6}", str(body.get("pin"))) is not None
            return (200, {"success": True}) if self.is_connected else _refuse(133_005, "Two step PIN mismatch")
        return _refuse(100)

    def _take(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body.get("status") == "read":
            return 200, {"success": True}
        if self.fails and self.fails[0] == (200, 0):
            self.fails.pop(0)
        elif self.fails:
            status, code = self.fails.pop(0)
            return (status, None) if not code else _refuse(code, status=status)
        if wrong := _find_wrong(body, set(self.files)):
            return _refuse(100, wrong)
        self.sent.append(body)
        id = f"wamid.out{len(self.sent)}"
        return 200, {"messaging_product": "whatsapp", "messages": [{"id": id}]}

    def upload(self, headers: Any, data: bytes) -> tuple[int, Any]:
        form = message_from_bytes(f"content-type: {headers['content-type']}\r\n\r\n".encode() + data)
        listed: Any = form.get_payload()
        parts = {each.get_param("name", header="content-disposition"): each for each in listed}
        kind = parts["type"].get_payload()
        if parts["messaging_product"].get_payload() != "whatsapp" or kind not in _TAKEN:
            return _refuse(100, "Param file must be a file with one of the following types")
        if parts["file"].get_content_type() != kind or not parts["file"].get_filename():
            return _refuse(100, "the file has no name or another type")
        with self.lock:
            id = str(9_000 + len(self.files))
            self.files[id] = parts["file"].get_payload(decode=True)
        return 200, {"id": id}

    def look(self, path: str) -> tuple[int, Any]:
        if path.partition("?")[0] == f"/{NUMBER}":
            status = ("VERIFIED" if self.is_proven else "NOT_VERIFIED", "CONNECTED" if self.is_connected else "PENDING")
            proven = dict(zip(("code_verification_status", "status"), status, strict=True))
            return 200, {"display_phone_number": "+1 555-078-3881", "verified_name": "Crib", "id": NUMBER, **proven}
        if path == "/777":
            host = self.file_host or self.address
            return 200, {"url": f"{host}/files/777", "mime_type": "image/png", "id": "777"}
        return _refuse(100, "Unsupported get request", 404)


def _words_of(body: Mapping[str, Any]) -> str:
    part = body[body["type"]]
    return str(part.get("caption") or (part["body"]["text"] if body["type"] == "interactive" else part.get("body", "")))


def _find_wrong(body: Mapping[str, Any], files: set[str]) -> str:
    kind = str(body.get("type"))
    if body.get("messaging_product") != "whatsapp" or kind not in _SHAPES:
        return "type"
    if set(body) - {"messaging_product", "recipient_type", "to", "type", kind, "context"}:
        return "unexpected keys"
    is_group = body.get("recipient_type") == "group"
    if is_group == str(body["to"]).lstrip("+").isdigit() or (is_group and kind in ("interactive", "reaction")):
        return "recipient"
    part, (needs, may) = body[kind], _SHAPES[kind]
    if not needs <= set(part) <= needs | may:
        return f"keys of {kind}"
    if kind == "text" and not 1 <= len(part["body"]) <= 4_096:
        return "text.body"
    if len(part.get("caption", "")) > 1_024 or ("id" in part and part["id"] not in files):
        return "media"
    if kind == "interactive":
        replies = [each["reply"] for each in part["action"]["buttons"] if each["type"] == "reply"]
        if not 1 <= len(replies) <= 3 or not 1 <= len(part["body"]["text"]) <= 1_024:
            return "interactive"
        if any(not (1 <= len(each["title"]) <= 20 and 1 <= len(each["id"]) <= 256) for each in replies):
            return "buttons"
    return ""


def _refuse(code: int, why: str = "Invalid parameter", status: int = 400) -> tuple[int, Any]:
    return status, {"error": {"message": f"(#{code}) {why}", "type": "OAuthException", "code": code}}


@contextmanager
def graph() -> Iterator[Graph]:
    """Serve it."""
    world = Graph()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self._is_known():
                return self._send(401, _refuse(190)[1])
            if self.path == "/files/777":
                return self._send(200, PICTURE)
            return self._send(*world.look(self.path))

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            if not self._is_known():
                return self._send(401, _refuse(190)[1])
            if self.path == f"/{NUMBER}/media":
                return self._send(*world.upload(self.headers, data))
            status, told = world.answer(self.path, json.loads(data))
            if not status:
                self.close_connection = True
                return None
            return self._send(status, told if told is not None else b"<html>")

        def _is_known(self) -> bool:
            return self.headers["authorization"] == f"Bearer {GRAPH['accessToken']}"

        def _send(self, status: int, told: Any) -> None:
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            if status == 429:
                self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    with serving(Handler) as world.address:
        yield world
