"""The canvas host: pages that sessions show, from an origin of their own that holds no credential of the gateway.

    /c/KEY/             the page around a canvas; it frames what is shown, and may hear what a person does there
    /c/KEY/ws           its socket: `reload`, A2UI, scripts to evaluate; and back what was done
    /p/INSIDE/...       what is framed: sandboxed, without an origin, without the key or anything of the gateway;
                        and a preview that was deployed, by itself
    /s/NAME             our own scripts and styles
    /__openclaw__/a2ui/ the renderer of A2UI alone, for nodes that push messages to it themselves

Keys cannot be guessed; who has one sees that canvas and nothing else. It listens from the first canvas on.
"""

import asyncio
import contextlib
import html
import ipaddress
import logging
import re
import socket
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
from starlette.types import Receive, Scope, Send

from toolcrib.define.egress import is_origin_of
from toolcrib.define.errors import CribError, ToolError
from toolcrib.doors import listener
from toolcrib.lazy import regex
from toolcrib.services.canvas import Canvas, Canvases, Served, Viewer

log = logging.getLogger("toolcrib")

_PORTS_ABOVE = 4  # of the gateway's port
_MAX_FRAME_BYTES = 4 << 20  # a still of a page is the longest
_LOOK_SECONDS = 0.25  # between two looks at the files that are shown
_STATIC = {f"{name}.js": "text/javascript" for name in ("canvas", "still", "bridge", "a2ui")}
_STATIC |= {"canvas.css": "text/css"}
_HOST = regex(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
# nothing that a browser could read in another way, such as a comment that holds a tag, stands before the bridge
_DOCTYPE = regex(r"\ufeff?\s*(?:<!--[^->]*-->\s*)*<!doctype[^>]*>", re.IGNORECASE)
_SRCDOC = regex(r"(srcd)(o)(c)", re.IGNORECASE)
_BRIDGE = '<script src="/s/still.js"></script><script src="/s/bridge.js"></script>'
_STRICT = {
    "cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), display-capture=(), usb=(), serial=()",
    "cross-origin-opener-policy": "same-origin", "x-dns-prefetch-control": "off",
}  # fmt: skip
_SANDBOX = "allow-scripts allow-forms"
_SHELL = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Canvas</title><link rel="stylesheet" href="/s/canvas.css"></head>
<body data-version="{version}">{inside}<script src="/s/canvas.js"></script></body></html>"""
_FRAME = '<iframe id="frame" title="canvas" sandbox="{sandbox}" referrerpolicy="no-referrer" src="{source}"></iframe>'
_EMPTY = '<p class="empty">Nothing is shown here.</p>'
_A2UI = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Canvas</title><link rel="stylesheet" href="/s/canvas.css"></head>
<body><main id="stage"></main><script type="application/json" id="messages">{messages}</script>
{bridge}<script src="/s/a2ui.js"></script></body></html>"""


class CanvasHost:
    """Serves the canvases of one crib, beside the gateway that listens `at`."""

    def __init__(self, canvases: Canvases, at: tuple[str, int]) -> None:
        self._canvases, self._host, self._port = canvases, *at
        self._serving: asyncio.Future[None] | None = None
        self._socket: socket.socket | None = None
        canvases.host = self.start

    def find(self, seen_from: str = "") -> str:
        """Return its address as somebody there finds it, once it listens: before the first canvas nobody does."""
        if self._socket is None:
            try:
                self._socket = listener.listen_on(self._port and self._port + _PORTS_ABOVE, self._host, later=True)
            except (CribError, OverflowError):
                self._socket = listener.listen_on(0, self._host, later=True)
        host, port = self._socket.getsockname()[:2]
        if ipaddress.ip_address(host).is_unspecified:
            host = _find_own_address(seen_from) if seen_from else "127.0.0.1"
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self, seen_from: str = "") -> str:
        """Listen, if it does not yet, and return its address as somebody there finds it."""
        address = self.find(seen_from)
        if self._serving is None and self._socket is not None:
            self._socket.listen()
            serving = listener.serve_app(
                self,
                self._socket,
                ws="websockets-sansio",
                ws_max_size=_MAX_FRAME_BYTES,
                ws_per_message_deflate=False,
                lifespan="off",
            )
            self._serving = asyncio.ensure_future(serving)
        return address

    async def close(self) -> None:
        """Let go of everybody, and listen no more."""
        self._canvases.leave()
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving])
        if self._socket is not None:
            self._socket.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._attend(scope, receive, send)
        elif scope["type"] == "http":
            status, headers, body = await self._answer(scope)
            headers = {**_STRICT, "content-length": str(len(body)), **headers}
            raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": status, "headers": raw})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    # pages

    async def _answer(self, scope: Scope) -> tuple[int, dict[str, str], bytes]:
        host = _read_host(scope)
        if scope["method"] not in ("GET", "HEAD"):
            return _refuse(405, "a canvas is only looked at")
        _, door, key, *rest = [*scope["path"].split("/", 3), "", ""][:4]
        if not host or "\0" in scope["path"]:
            return _refuse(400, "the request says in no plain way which host it means")
        if any(each != "null" and not is_origin_of(each, host) for each in _read_headers(scope, b"origin")):
            return _refuse(403, "a canvas answers no page of another origin")
        if door == "s" and not rest[0] and key in _STATIC:
            policy = {"content-security-policy": "default-src 'none'", "content-type": _STATIC[key] + "; charset=utf-8"}
            return 200, policy, _read_static(key)
        if door == "c" and not rest[0] and (canvas := self._canvases.find_page(key)) and scope["path"].endswith("/"):
            return _frame(canvas, host, self._find_pages(host))
        if scope["path"] == "/__openclaw__/a2ui/":
            return _render_a2ui([], f"http://{host}/s/", host, self._find_pages(host))
        if door == "p" and (canvas := self._canvases.find_inside(key)):
            return await self._show(canvas, rest[0], host, scope["query_string"].decode("latin-1"))
        return _refuse(404, "there is nothing here")

    async def _show(self, canvas: Canvas, path: str, host: str, query: str) -> tuple[int, dict[str, str], bytes]:
        """Answer with what is framed, with a file of it, or with a still of the page that somebody has."""
        own = f"http://{host}/p/{canvas.inside}/"
        if still := canvas.stills.get(query):
            headers = _secure_inside(own, host, "text/html; charset=utf-8", self._find_pages(host), is_still=True)
            return 200, headers, still.encode(errors="replace")
        if not path and canvas.kind == "a2ui":
            return _render_a2ui(canvas.messages, own, host, self._find_pages(host))
        try:
            if not path and canvas.kind == "html":
                served = Served(canvas.content.encode(errors="replace"), "text/html; charset=utf-8")
            else:
                served = await self._canvases.read_file(canvas, path)
        except ToolError as error:
            log.debug("a file of a canvas was refused: %s", error)
            return _refuse(404, "there is nothing here")
        has_bridge = served.media_type.startswith("text/html") and canvas.opened_by is None
        body = _add_bridge(served.body) if has_bridge else served.body
        return 200, _secure_inside(own, host, served.media_type, self._find_pages(host)), body

    def _find_pages(self, host: str) -> str:
        """Return the origins of the gateway's page, which may frame a canvas: the same machine, another port."""
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        names = dict.fromkeys((name, "127.0.0.1", "localhost") if name in ("127.0.0.1", "localhost") else (name,))
        return " ".join(f"http://{each}:{self._port}" for each in names)

    # sockets

    async def _attend(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell a page what changes, and hear what is done in it."""
        await receive()
        _, door, key, *rest = [*scope["path"].split("/", 3), "", ""][:4]
        canvas = self._canvases.find_page(key) if (door, rest[0]) == ("c", "ws") else None
        host, version = _read_host(scope), scope["query_string"].removeprefix(b"version=")
        origins = _read_headers(scope, b"origin")
        is_ours = host and len(origins) == 1 and is_origin_of(origins[0], host)
        viewer = self._canvases.enter(canvas, int(version) if version.isdigit() else -1) if canvas and is_ours else None
        if canvas is None or viewer is None:
            await send({"type": "websocket.close", "code": 1008, "reason": "there is no such canvas"})
            return
        listener.introduce(scope)
        await send({"type": "websocket.accept"})
        telling = asyncio.ensure_future(self._tell(canvas, viewer, send))
        try:
            while (message := await receive())["type"] == "websocket.receive":
                if action := self._canvases.hear(canvas, message.get("text") or ""):
                    await self._canvases.take_action(canvas, action)
        finally:
            canvas.viewers.pop(viewer, None)
            telling.cancel()
            await asyncio.wait([telling])

    async def _tell(self, canvas: Canvas, viewer: Viewer, send: Send) -> None:
        while True:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    text = await viewer.unsent.get()
            except TimeoutError:
                await self._canvases.look_again(canvas)
                continue
            with contextlib.suppress(OSError):  # it has gone: whoever hears it notices
                if text is None:
                    await send({"type": "websocket.close", "code": 1001})
                    return
                await send({"type": "websocket.send", "text": text})


def _frame(canvas: Canvas, host: str, pages: str) -> tuple[int, dict[str, str], bytes]:
    """Return the page around a canvas: it may load our own script, talk to its own socket and frame this one thing."""
    name = quote(canvas.content.rpartition("/")[2]) if canvas.kind == "file" else ""
    source = canvas.content if canvas.kind == "url" else f"/p/{canvas.inside}/{name}"
    framed = f"http://{host}/p/{canvas.inside}/"
    if canvas.kind == "url":
        there = urlsplit(source)
        framed = f"{there.scheme}://{there.netloc}"
    policy = (
        f"default-src 'none'; script-src http://{host}/s/; style-src http://{host}/s/; frame-src {framed}; "
        f"connect-src ws://{host}/c/{canvas.key}/ws; base-uri 'none'; form-action 'none'; frame-ancestors {pages}"
    )
    is_shown = canvas.kind and not canvas.is_hidden
    inside = _FRAME.format(sandbox=_SANDBOX, source=html.escape(source)) if is_shown else _EMPTY
    page = _SHELL.format(version=canvas.version, inside=inside)
    return 200, {"content-security-policy": policy, "content-type": "text/html; charset=utf-8"}, page.encode()


def _render_a2ui(messages: list[dict[str, Any]], own: str, host: str, pages: str) -> tuple[int, dict[str, str], bytes]:
    """Return the page that shows A2UI, with the messages that are there already."""
    page = _A2UI.format(messages=orjson.dumps(messages).decode().replace("<", "\\u003c"), bridge=_BRIDGE)
    return 200, _secure_inside(own, host, "text/html; charset=utf-8", pages), page.encode()


def _secure_inside(own: str, host: str, media_type: str, pages: str, *, is_still: bool = False) -> dict[str, str]:
    """Return the headers of what is framed: a sandbox without an origin, which loads its own files and nothing else.

    Scripts run in pages alone, after the bridge, and in no still of one; a drawing that is opened by itself has none.
    """
    ours = f"http://{host}/s/"
    has_scripts = media_type.startswith("text/html") and not is_still
    scripts = f"'unsafe-inline' 'unsafe-eval' {own} {ours}" if has_scripts else "'none'"
    policy = (
        f"sandbox {_SANDBOX}; default-src 'none'; script-src {scripts}; "
        f"style-src 'unsafe-inline' {own} {ours}; img-src data: blob: {own}; font-src data: {own}; "
        f"media-src data: blob: {own}; connect-src {own}; base-uri 'none'; form-action 'none'; "
        f"webrtc 'block'; require-trusted-types-for 'script'; trusted-types default; "
        f"frame-ancestors http://{host} {pages}"
    )
    # without an origin it would not get its own fonts and modules; nobody else knows this address
    return {"content-security-policy": policy, "content-type": media_type, "access-control-allow-origin": "null"}


def _add_bridge(page: bytes) -> bytes:
    """Put the bridge before everything that a page says, but for the line by which it is standard HTML."""
    text = page.decode(errors="replace")
    found = _DOCTYPE.match(text)
    at = found.end() if found else 0
    # to a script it is the same word, to the parser of pages none: a frame with a page in it would have WebRTC
    rest = _SRCDOC.sub(lambda match: f"{match[1]}\\u{ord(match[2]):04x}{match[3]}", text[at:])
    return f"{text[:at]}{_BRIDGE}{rest}".encode()


def _refuse(status: int, words: str) -> tuple[int, dict[str, str], bytes]:
    more = {"allow": "GET, HEAD"} if status == 405 else {}
    kinds = {"content-type": "text/plain; charset=utf-8", "content-security-policy": "default-src 'none'"}
    return status, {**kinds, **more}, f"{words}\n".encode()


def _read_host(scope: Scope) -> str:
    """Return the host that a request names, "" where it names none, or two."""
    hosts = _read_headers(scope, b"host")
    return hosts[0] if len(hosts) == 1 and _HOST.fullmatch(hosts[0]) else ""


def _read_headers(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _find_own_address(peer: str) -> str:
    """Return our address on the way to somebody; nothing is sent."""
    with socket.socket(socket.AF_INET6 if ":" in peer else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((peer, 9))
        except OSError:
            return "127.0.0.1"
        found: Any = probe.getsockname()[0]
        return str(found)


@cache
def _read_static(name: str) -> bytes:
    return (files("toolcrib.doors.gateway") / "static" / name).read_bytes()
