"""A bot API on loopback that holds requests to its documentation, and people who write to the bot."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.sockets import serving

TOKEN = "123456:AAtoken-token-token-token"
BOT = {"id": 99, "is_bot": True, "first_name": "Crib", "username": "crib_bot"}
PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 20
FILES = {"photos/file_1.png": PICTURE, "documents/a.txt": b"from far away"}
# what each method needs, and may have besides
METHODS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    name: (frozenset(needs.split()), frozenset(may.split()))
    for name, needs, may in (
        ("getMe", "", ""),
        ("getUpdates", "", "offset timeout allowed_updates limit"),
        (
            "sendMessage",
            "chat_id text",
            "message_thread_id reply_parameters reply_markup disable_notification link_preview_options",
        ),
        ("sendPhoto", "chat_id photo", "caption message_thread_id reply_parameters reply_markup disable_notification"),
        ("sendVoice", "chat_id voice", "caption message_thread_id reply_parameters reply_markup disable_notification"),
        (
            "sendDocument",
            "chat_id document",
            "caption message_thread_id reply_parameters reply_markup disable_notification",
        ),
        ("sendChatAction", "chat_id action", "message_thread_id"),
        ("answerCallbackQuery", "callback_query_id", "text"),
        ("editMessageText", "chat_id message_id text", "link_preview_options"),
        ("deleteMessage", "chat_id message_id", ""),
        ("pinChatMessage", "chat_id message_id", ""),
        ("unpinChatMessage", "chat_id message_id", ""),
        ("setMessageReaction", "chat_id message_id reaction", ""),
        ("sendPoll", "chat_id question options", "allows_multiple_answers"),
        ("getFile", "file_id", ""),
        ("getChat", "chat_id", ""),
        ("getChatMemberCount", "chat_id", ""),
        ("getChatAdministrators", "chat_id", ""),
    )
}


@dataclass
class Telegram:
    """What was written, by whom, and what the bot said."""

    address: str = ""
    updates: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    busy: int = 0  # so many requests are too many at once
    changed: threading.Condition = field(default_factory=threading.Condition)

    def say(self, text: str, *, by: int = 7, chat: int = 0, topic: int = 0, **more: Any) -> None:
        """Have somebody write to the bot, or to a group that it is in."""
        where = {"id": chat, "type": "supergroup"} if chat else {"id": by, "type": "private"}
        who = more.pop("who", None) or {"id": by, "is_bot": False, "first_name": f"P{by}", "username": f"p{by}"}
        thread = {"is_topic_message": True, "message_thread_id": topic} if topic else {}
        message = {
            "message_id": len(self.updates) + 1,
            "date": 1,
            "chat": where,
            "from": who,
            "text": text,
            **thread,
            **more,
        }
        self._tell({"message": message})

    def press(self, data: str, *, by: int, chat: int) -> None:
        """Have somebody press a button."""
        message = {"message_id": 1, "date": 1, "chat": {"id": chat, "type": "private"}, "from": BOT}
        query = {"id": str(len(self.updates)), "from": {"id": by, "is_bot": False, "first_name": "P"}, "data": data}
        self._tell({"callback_query": {**query, "message": message}})

    def _tell(self, update: dict[str, Any]) -> None:
        with self.changed:
            self.updates.append({"update_id": 1_000 + len(self.updates), **update})
            self.changed.notify_all()

    def said(self, chat: int | str = 7) -> list[str]:
        """Return what the bot said in a chat."""
        with self.changed:
            return [body["text"] for name, body in self.asked if name == "sendMessage" and body["chat_id"] == str(chat)]

    def answer(self, method: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method not in METHODS:
            return 404, "Not Found"
        needs, may = METHODS[method]
        if wrong := (needs - set(body)) | (set(body) - needs - may):
            return 400, f"Bad Request: {sorted(wrong)}"
        with self.changed:
            if self.busy and method == "sendMessage":
                self.busy -= 1
                return 429, "Too Many Requests: retry after 0"
            self.asked.append((method, body))
        if method == "getMe":
            return 200, BOT
        if method == "getUpdates":
            with self.changed:
                after = int(body.get("offset", 0))
                self.changed.wait_for(lambda: self._from(after), timeout=1.0)
                return 200, self._from(after)
        if method == "getChat":
            kind = "supergroup" if body["chat_id"].startswith("-") else "private"
            return 200, {"id": int(body["chat_id"]), "type": kind, "title": "Shop", "permissions": {}}
        if method == "getChatMemberCount":
            return 200, 3
        if method == "getChatAdministrators":
            return 200, [{"status": "creator", "user": {"id": 7, "is_bot": False, "first_name": "Ann"}}]
        if method == "getFile":
            path = "documents/a.txt" if body["file_id"] == "text" else "photos/file_1.png"
            return 200, {"file_id": body["file_id"], "file_path": path}
        if method == "sendMessage" and not 1 <= len(body["text"]) <= 4_096:
            return 400, "Bad Request: message is too long"
        return 200, {"message_id": 500 + len(self.asked)} if method.startswith("send") else True

    def _from(self, offset: int) -> list[dict[str, Any]]:
        return [each for each in self.updates if each["update_id"] >= offset]


def read_body(kind: str, data: bytes) -> dict[str, Any]:
    """Return what a request says; a file is its name and its bytes."""
    if kind == "application/json":
        return dict(json.loads(data))
    whole = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + data, policy=HTTP)
    fields = {str(part.get_param("name", header="content-disposition")): part for part in whole.iter_parts()}
    return {
        name: (part.get_filename(), part.get_payload(decode=True))
        if part.get_filename()
        else part.get_content().strip()
        for name, part in fields.items()
    }


@contextmanager
def telegram() -> Iterator[Telegram]:
    """Serve the API."""
    world = Telegram()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held = FILES.get(self.path.removeprefix(f"/file/bot{TOKEN}/"))
            self._send(404 if held is None else 200, held or b"")

        def do_POST(self) -> None:
            body = read_body(self.headers["content-type"], self.rfile.read(int(self.headers["content-length"])))
            bot, _, method = self.path.strip("/").partition("/")
            status, told = world.answer(method, body) if bot == f"bot{TOKEN}" else (401, "Unauthorized")
            whole = {"ok": status == 200, **({"result": told} if status == 200 else {"description": told})}
            if status == 429:
                whole["parameters"] = {"retry_after": 0}
            self._send(status, json.dumps(whole).encode())

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            with suppress(ConnectionError):  # who asked has gone
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    with serving(Handler) as world.address:
        yield world
