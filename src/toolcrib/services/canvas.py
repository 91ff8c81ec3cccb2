"""Canvases: what a session shows to people, on a node with a screen for it, else on the page of the canvas host.

A canvas belongs to one person in a session, and lives as long as the gateway. What people do in it comes back as
messages of that session: words from outside, fenced and bounded, answered with the rights of who showed the canvas.
"""

import asyncio
import base64
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from secrets import token_hex, token_urlsafe
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from pydantic import Field

from toolcrib.adapter.cut import shorten
from toolcrib.define.a2ui import read_a2ui
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.files import Entry
from toolcrib.define.message import Message
from toolcrib.define.node import Node
from toolcrib.define.ports import Workspace, rpc
from toolcrib.define.result import Text
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.session import kind_from_key
from toolcrib.define.turn import TurnRequest
from toolcrib.define.web import WayOut
from toolcrib.lazy import dataclass, field, replace

from .browser import Browser
from .chat import Chats
from .feature import Feature, TurnCore
from .nodes import Nodes
from .peers import fence_outside
from .revocation import LiveWork, Revocations
from .subagents.runs import SubagentHost

log = logging.getLogger("toolcrib")

CanvasKind = Literal["", "html", "file", "url", "a2ui"]
_Opener = tuple[str, Mapping[str, Any]]

_MAX_CANVASES, _MAX_VIEWERS, _MAX_UNSENT = 64, 16, 256  # in all; of one canvas; messages that one viewer has not read
_MAX_HTML_CHARS, _MAX_MESSAGES, _MAX_FILE_BYTES, _MAX_WATCHED = 2_000_000, 5_000, 16 << 20, 128
_ACTION_CHARS, _MAX_ACTIONS, _ACTION_SECONDS = 16_000, 20, 60.0
_EVAL_SECONDS, _NODE_MS = 10.0, 30_000
_WIDTH, _HEIGHT, _MIN_SIDE, _MAX_SIDE, _MAX_TOP = 1_280, 800, 64, 4_096, 1_000_000  # of a picture, in pixels
_LOOKS = ("canvas.eval", "canvas.snapshot")  # what is given back by others; of the rest only that it was done
_HERE = "canvas"  # where words come from that somebody wrote in one
_KINDS = {
    ".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".json": "application/json",
    ".txt": "text/plain; charset=utf-8", ".csv": "text/csv; charset=utf-8", ".svg": "image/svg+xml",
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".avif": "image/avif", ".ico": "image/x-icon", ".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf",
    ".otf": "font/otf", ".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".mp4": "video/mp4",
    ".webm": "video/webm",
}  # fmt: skip


class Served(NamedTuple):
    """A file of a canvas, and what it is."""

    body: bytes
    media_type: str


class Viewer:
    """A browser that shows a canvas: `unsent` are the messages for it; None ends it."""

    def __init__(self) -> None:
        self.unsent = asyncio.Queue[str | None](_MAX_UNSENT)

    def tell(self, text: str | None) -> None:
        """Queue a message; a viewer that is too slow is disconnected, and reconnects."""
        if self.unsent.full() or text is None:
            while not self.unsent.empty():
                self.unsent.get_nowait()
            text = None
        self.unsent.put_nowait(text)


@dataclass(slots=True, eq=False)
class Canvas:
    """What is shown in a session. `key` opens its page, `inside` the framed content, which never learns `key`."""

    caller: Caller
    key: str = field(default_factory=lambda: token_urlsafe(24))
    inside: str = field(default_factory=lambda: token_urlsafe(24))
    kind: CanvasKind = ""
    content: str = ""  # the HTML, the path or the URL
    messages: list[dict[str, Any]] = field(default_factory=list)
    opened_by: _Opener | None = None  # of a preview: the tool and the arguments of its call
    is_hidden: bool = False
    version: int = 0
    is_awaited: bool = False  # by somebody who loads it again
    came: asyncio.Event = field(default_factory=asyncio.Event)
    viewers: dict[Viewer, None] = field(default_factory=dict)
    answers: "dict[str, asyncio.Future[str]]" = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # the versions that were served
    stills: dict[str, str] = field(default_factory=dict)  # pages that people have, while a picture of them is taken
    acted: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_ACTIONS))

    @property
    def session(self) -> str:
        return self.caller.session or ""

    @property
    def has_viewers(self) -> bool:
        """Whether somebody looks, or loads it again just now."""
        return bool(self.viewers) or self.is_awaited

    def show(self, kind: CanvasKind, content: str = "") -> None:
        """Show something else, or the same anew, to everybody who looks."""
        self.kind, self.content, self.is_hidden = kind, content, False
        self.messages.clear()
        self.reload()

    def hide(self, *, is_hidden: bool = True) -> None:
        """Hide what is shown, or show it again."""
        self.is_hidden = is_hidden
        self.reload()

    def reload(self) -> None:
        """Have everybody who looks load it again; nothing more is asked of the page that they had."""
        self.version += 1
        self.files.clear()
        self.tell("reload")
        self.is_awaited = self.is_awaited or bool(self.viewers)
        self.viewers.clear()

    def tell(self, text: str | None) -> None:
        """Tell everybody who looks."""
        for viewer in tuple(self.viewers):
            viewer.tell(text)


def mount(core: TurnCore) -> Feature:
    """Mount the canvases."""
    canvases = Canvases(core.find(Chats), core.find(Nodes), core.find(Browser), core.way_out, core.host)
    canvases.is_theirs, canvases.open_files = core.is_theirs, lambda who, by: core.belt_of(who).open_files(*by)
    core.session_ends.append(canvases.end_session)
    core.find(Revocations).watch(canvases.list_live)
    return Feature(services=(canvases,))


class Canvases:
    """The canvases of one crib.

    `host` starts the canvas host, where there is one, and returns the address that somebody at an address finds it
    under; `open_files` opens a caller's files as the call that shows them comes to them. `previews` stand alone.
    """

    def __init__(self, chats: Chats, nodes: Nodes, browser: Browser, way_out: WayOut, subagents: SubagentHost) -> None:
        self._chats, self._nodes, self._browser, self._way_out = chats, nodes, browser, way_out
        self._subagents = subagents
        self.host: Callable[[str], str] | None = None
        self.open_files: Callable[[Caller, _Opener], Awaitable[Workspace]] | None = None
        self.is_theirs: Callable[[Caller, Caller], bool] = lambda caller, author: caller == author
        self._open_now: list[Canvas] = []  # the last one used stands last
        self.previews: list[Canvas] = []
        self._at_nodes: dict[str, Canvas] = {}  # the canvas that was shown there last
        nodes.on_request = self._hear_node

    @rpc("canvas.list", clients="read", why="own")
    async def list_canvases(self, caller: Caller) -> dict[str, Any]:
        """List the canvases that are the caller's, the last used first, with their addresses; the owner has all."""
        shown = [
            {"sessionKey": each.session, "kind": each.kind, "hidden": each.is_hidden, "url": self._address(each)}
            for each in reversed(self._open_now)
            if self.is_theirs(caller, each.caller)
        ]
        return {"canvases": shown}

    # what the tool asks for

    @rpc("canvas.perform", clients="write", why="key")
    async def perform(
        self,
        caller: Caller,
        call: Annotated[str, Field(max_length=256)],
        command: Annotated[str, Field(max_length=64)],
        node: str = "",
        params: JsonObject | None = None,
    ) -> dict[str, Any]:
        """Do what a call of the tool was permitted: on the node that is meant, else on the canvas host's page."""
        self._nodes.check_permit(caller, call)
        given = dict(params or {})
        if "url" in given:
            given["url"] = await self._check_url(str(given["url"]))
        if command == "canvas.a2ui.pushJSONL":
            read_a2ui(str(given.get("jsonl")))
        there = self._nodes.find_able(node, "canvas")
        canvas = self._open(caller)
        self._address(canvas)  # so that its address answers
        if there is not None:
            return await self._perform_there(caller, call, there, canvas, command, given)
        if self.host is None:
            what = "nobody would see a canvas here: no node has one, and no gateway runs"
            raise ToolError(f"{what}; start one with `toolcrib gateway`", code="unavailable")
        payload = await self._perform_here(canvas, command, given)
        source = {"source": _HERE} if command in _LOOKS else {}
        return {**source, "url": self._address(canvas), "payload": payload}

    async def _perform_there(
        self, caller: Caller, call: str, node: Node, canvas: Canvas, command: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        """Have a node do it; what only we have, it loads from the canvas host."""
        if "html" in given or "path" in given:
            if self.host is None:
                raise ToolError("only a gateway can show a page of its own on a node", code="unavailable")
            await self._present(canvas, given)
            given = {key: value for key, value in given.items() if key == "placement"}
            given["url"] = self._address(canvas, node.address)
        self._at_nodes[node.id] = canvas
        answer = await self._nodes.perform(caller, call, node.id, command, JsonObject(given), _NODE_MS)
        names = ("source", "node", "payload") if command in _LOOKS else ("node",)
        return {name: answer[name] for name in names}

    async def _perform_here(self, canvas: Canvas, command: str, given: Mapping[str, Any]) -> Any:
        match command:
            case "canvas.present" | "canvas.navigate":
                await self._present(canvas, given)
            case "canvas.hide":
                canvas.hide()
            case "canvas.a2ui.reset":
                canvas.show("a2ui")
            case "canvas.a2ui.pushJSONL":
                self._push(canvas, str(given.get("jsonl")))
            case "canvas.eval":
                return {"result": await self._evaluate(canvas, str(given.get("javaScript") or ""))}
            case "canvas.snapshot":
                return await self._take_picture(canvas, given)
            case _:
                raise ToolError(f"a canvas knows no {command[:64]!r}", code="bad_arguments")
        return {"ok": True}

    async def _present(self, canvas: Canvas, given: Mapping[str, Any]) -> None:
        if html := given.get("html"):
            if len(html) > _MAX_HTML_CHARS:
                raise ToolError(f"HTML of {len(html):,} characters; show at most {_MAX_HTML_CHARS:,}", code="too_large")
            canvas.show("html", html)
        elif path := given.get("path"):
            if PurePosixPath(str(path)).suffix.lower() not in (".html", ".htm"):
                raise ToolError(f"{str(path)[:200]!r} is no HTML file; show one, or HTML itself", code="bad_arguments")
            await _find_file(await self._open_files(canvas, str(path)), str(path))
            canvas.show("file", str(path))
        elif url := given.get("url"):
            canvas.show("url", url)
        elif canvas.kind:
            canvas.hide(is_hidden=False)
        else:
            raise ToolError("nothing was shown before; say what with html or target", code="bad_arguments")

    def _push(self, canvas: Canvas, jsonl: str) -> None:
        messages = read_a2ui(jsonl).messages
        at = len(canvas.messages)
        if at + len(messages) > _MAX_MESSAGES:
            raise ToolError(f"a canvas holds {_MAX_MESSAGES:,} A2UI messages; use a2ui_reset first", code="too_large")
        if canvas.kind != "a2ui":
            canvas.show("a2ui")
        canvas.messages += messages
        canvas.tell(_write({"a2ui": {"at": at, "messages": messages}}))

    async def _evaluate(self, canvas: Canvas, code: str) -> str:
        """Return what a script gives in the page, as whoever opened it last sees it."""
        if canvas.kind in ("", "url") or canvas.is_hidden:
            what = "scripts run in HTML and A2UI that is shown here, not in other people's pages"
            raise ToolError(f"{what}; the tool browser does that", code="unavailable")
        if not canvas.has_viewers:
            what = f"nobody has opened the canvas; have the user open {self._address(canvas)}"
            raise ToolError(what, code="unavailable")
        return await _ask_page(canvas, "eval", {"code": code})

    async def _take_picture(self, canvas: Canvas, given: Mapping[str, Any]) -> dict[str, Any]:
        """Take a picture of the page that was opened last, as it is there now; of a fresh one where nobody has any."""
        kind, still, query = "png" if given.get("format") == "png" else "jpeg", dict[str, Any](), token_hex(16)
        if canvas.has_viewers and canvas.kind not in ("", "url") and not canvas.is_hidden:
            with suppress(ToolError, ValueError):
                still = _read_still(await _ask_page(canvas, "still", {}))
        page, origin = self._address(canvas), self._address(canvas).partition("/c/")[0]
        if canvas.kind == "url":  # who may open our host opens nothing else meanwhile
            page = canvas.content
        else:
            self._browser.permit(canvas.caller, origin)
        if still:
            page, canvas.stills[query] = f"{origin}/p/{canvas.inside}/?{query}", still.pop("html")
        size = {"width": _WIDTH, "height": _HEIGHT, **still, "type": kind, "quality": given.get("quality")}
        size["maxWidth"] = max(int(given.get("maxWidth") or _MAX_SIDE), _MIN_SIDE)
        try:
            data = await self._browser.capture(canvas.caller, page, size)
        finally:
            canvas.stills.pop(query, None)
        return {"format": kind, "base64": base64.b64encode(data).decode(), "isFresh": not still}

    # what the canvas host asks for

    def find_page(self, key: str) -> Canvas | None:
        """Return the canvas whose page this key opens."""
        return next((each for each in self._open_now if each.key == key), None)

    def find_inside(self, inside: str) -> Canvas | None:
        """Return the canvas that frames what is asked for under this key."""
        return next((each for each in (*self._open_now, *self.previews) if each.inside == inside), None)

    def enter(self, canvas: Canvas, version: int) -> Viewer | None:
        """Take somebody who looks at a version of a canvas; None when too many do."""
        if len(canvas.viewers) >= _MAX_VIEWERS:
            return None
        viewer = Viewer()
        canvas.viewers[viewer] = None
        canvas.is_awaited = False
        canvas.came.set()
        if version != canvas.version:
            viewer.tell("reload")
        elif canvas.messages:
            viewer.tell(_write({"a2ui": {"at": 0, "messages": canvas.messages}}))
        return viewer

    def hear(self, canvas: Canvas, text: str) -> dict[str, Any] | None:
        """Handle a message from a page; return a user's action for `take_action`, else None."""
        try:
            message = orjson.loads(text)
        except ValueError:
            return None
        match message:
            case {"evaluated": {"id": str(id), "ok": bool(ok), "value": str(value)}}:
                answer = canvas.answers.get(id)
                if answer is not None and not answer.done():
                    failed = ToolError(f"the script failed: {value[:2_000]}", code="failed", source=_HERE)
                    answer.set_result(value) if ok else answer.set_exception(failed)
            case {"userAction": dict(action)}:
                return action
        return None

    async def read_file(self, canvas: Canvas, path: str) -> Served:
        """Return a file beside the one that is shown; ToolError where there is none that a page may have."""
        folder = canvas.content.rpartition("/")[0] if canvas.kind == "file" else ""
        path = f"{path}index.html" if not path or path.endswith("/") else path
        kind, whole = _KINDS.get(PurePosixPath(path).suffix.lower()), f"{folder}/{path}".lstrip("/")
        parts = whole.split("/")
        if canvas.kind not in ("file", "a2ui") or kind is None or _is_hidden(path) or "" in parts:
            raise ToolError("there is no such file in this canvas", code="not_found")
        files = await self._open_files(canvas, canvas.content)
        entry = await _find_file(files, whole)
        if entry.size > _MAX_FILE_BYTES:
            raise ToolError(f"a file of a canvas has at most {_MAX_FILE_BYTES:,} bytes", code="too_large")
        if len(canvas.files) < _MAX_WATCHED:
            canvas.files[whole] = entry.version
        return Served(await files.read(whole), kind)

    async def look_again(self, canvas: Canvas) -> None:
        """Reload a canvas of which a file was written since it was served."""
        for path, version in tuple(canvas.files.items()):
            try:
                entry = await (await self._open_files(canvas, canvas.content)).stat(path)
            except ToolError:  # it is being written anew, or has gone: the next look tells
                continue
            if entry.version != version:
                canvas.reload()
                return

    async def take_action(self, canvas: Canvas, action: Mapping[str, Any], source: str = _HERE) -> bool:
        """Tell the session what somebody did in its canvas; False when they do too much."""
        now = time.monotonic()
        if len(canvas.acted) == _MAX_ACTIONS and now - canvas.acted[0] < _ACTION_SECONDS:
            log.warning("a canvas acted more than %d times in a minute; what it says is dropped", _MAX_ACTIONS)
            return False
        canvas.acted.append(now)
        words = Text(shorten(orjson.dumps(dict(action), option=orjson.OPT_INDENT_2).decode(), _ACTION_CHARS), source)
        content = (Text("The user did this in the canvas of this session:\n"), *fence_outside([words]))
        message, who = Message(role="user", content=content), replace(canvas.caller, provider=None, model=None)
        if who.group or kind_from_key(who.session or "") == "group":  # where everybody can read the address
            who = replace(who, owner=False, sender=None)
        try:
            if who.parents:
                await self._subagents.tell(who.session or "", message)
            else:
                key = f"canvas-{canvas.key[:8]}-{str(action.get('id') or token_hex(8))[:64]}"
                await self._chats.begin(who, TurnRequest(message=message, caller=who), key)
        except CribError as error:
            log.warning("an action in a canvas could not be delivered: %s", error)
            return False
        return True

    def leave(self) -> None:
        """Let go of everybody who looks: the canvas host stops."""
        self.host = None
        for canvas in self._open_now:
            canvas.tell(None)

    async def end_session(self, session: str) -> None:
        """Let go of the canvases of a session that is over."""
        for canvas in [each for each in self._open_now if each.session == session]:
            self._let_go(canvas)

    def list_live(self) -> list[LiveWork]:
        """Return every canvas, and who shows it."""
        return [LiveWork(each.caller, partial(self._let_go, each)) for each in self._open_now]

    # helpers

    async def _hear_node(self, node: Node, event: Mapping[str, Any]) -> bool:
        """Take a user's action in a canvas on a node; it goes to the session that shows one there."""
        canvas = self._at_nodes.get(node.id)
        if canvas is None or canvas not in self._open_now:
            return False
        action = {"id": str(event.get("key") or token_hex(8)), "message": str(event.get("message") or "")}
        return await self.take_action(canvas, action, node.source)

    def _open(self, caller: Caller) -> Canvas:
        """Return the caller's own canvas in their session: who shares that has another one."""
        who = caller if caller.session else self._chats.place(caller, "main")
        own = (each for each in self._open_now if each.session == who.session and self._is_one(who, each.caller))
        if canvas := next(own, None):
            self._open_now.remove(canvas)
        else:
            canvas = Canvas(who)
        canvas.caller = who
        if len(self._open_now) >= _MAX_CANVASES:  # one of theirs, where they have another
            self._let_go(next((each for each in self._open_now if self._is_one(who, each.caller)), self._open_now[0]))
        self._open_now.append(canvas)
        return canvas

    def _is_one(self, caller: Caller, other: Caller) -> bool:
        """Tell whether two callers are the same person: what is the owner's, too, is not the owner's own."""
        return caller == other or (self.is_theirs(caller, other) and self.is_theirs(other, caller))

    def _let_go(self, canvas: Canvas) -> None:
        self._open_now.remove(canvas)
        canvas.tell(None)

    async def _open_files(self, canvas: Canvas, path: str) -> Workspace:
        if self.open_files is None:
            raise ToolError("this crib has no files to show", code="unavailable")
        shown = "canvas", {"action": "present", "target": path}
        return await self.open_files(canvas.caller, canvas.opened_by or shown)

    def _address(self, canvas: Canvas, seen_from: str = "") -> str:
        return f"{self.host(seen_from)}/c/{canvas.key}/" if self.host else ""

    async def _check_url(self, url: str) -> str:
        try:
            return await self._way_out.explain(url)
        except OSError as error:
            raise ToolError(f"{url[:200]!r} cannot be found: {error}", code="unavailable") from None


async def _ask_page(canvas: Canvas, verb: str, what: Mapping[str, Any]) -> str:
    """Ask the page that was opened last, and return what it says."""
    id = token_hex(8)
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    canvas.answers[id] = answer
    try:
        async with asyncio.timeout(_EVAL_SECONDS):
            while not canvas.viewers:
                canvas.came.clear()
                await canvas.came.wait()
            next(reversed(canvas.viewers)).tell(_write({verb: {"id": id, **what}}))
            return await answer
    except TimeoutError:
        canvas.is_awaited = False
        raise ToolError(f"the page did not answer within {_EVAL_SECONDS:g} seconds", code="timeout") from None
    finally:
        del canvas.answers[id]


def _read_still(text: str) -> dict[str, Any]:
    """Return a still that a page sent, limited to the size of a window; ValueError for anything else."""
    match orjson.loads(text):
        case {"html": str(html), "width": int(width), "height": int(height), "top": int() | float() as top}:
            sides = [min(max(each, _MIN_SIDE), _MAX_SIDE) for each in (width, height)]
            return {"html": html, "width": sides[0], "height": sides[1], "top": min(max(int(top), 0), _MAX_TOP)}
    raise ValueError


def _is_hidden(path: str) -> bool:
    """Whether a part of a path begins with a dot: `..`, and what people keep from others."""
    return any(part.startswith(".") for part in path.split("/"))


async def _find_file(files: Workspace, path: str) -> Entry:
    """Return what stands at a path that has no link in it."""
    if await files.resolve(path) != path:
        raise ToolError(f"{path[:200]!r} leads through a link, which a canvas does not follow", code="not_found")
    return await files.stat(path)


def _write(value: Any) -> str:
    return orjson.dumps(value).decode()
