"""The browser: page sets, one for each session, and the routes by which a tool or a program uses them.

The tool `browser` asks under the key of its call, which the guard has seen: who may not use the tool has no other way
here. Programs of the owner's ask by `browser.request`; bodies of other tools have previews alone, by `browser.preview`.
"""

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.node import BROWSE
from toolcrib.define.plugin import Hook, Word
from toolcrib.define.ports import rpc
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.session import to_agent
from toolcrib.define.web import WayOut
from toolcrib.policy.resolve import agent_of

from .exec.processes import remember
from .feature import Core, Feature
from .nodes import Nodes
from .revocation import LiveWork, Revocations

log = logging.getLogger("toolcrib")

_TOOL = "browser"
_MAX_PAGE_SETS, _IDLE_SECONDS = 16, 1_800.0  # of the owner, or of all others
_FAR_SECONDS, _MAX_MS = 60.0, 120_000  # a node may have to start a browser first
_OWN_WORDS = ("", "/profiles", "/start", "/stop", "/reset-profile")  # their answers hold nothing from outside
_OF_ALL_PAGES = ("/start", "/stop", "/reset-profile", "/tabs", "/tabs/action")
_WORDS = ("url", "base64", "snapshot", "name")  # of an answer, each a text where it is there

_Method = Literal["GET", "POST", "DELETE"]

# how the protocol spells what is done with pages
_ROUTES: Mapping[tuple[str, str], str] = {
    ("POST", "/start"): "start", ("GET", "/tabs"): "tabs", ("POST", "/tabs/open"): "open",
    ("POST", "/tabs/focus"): "focus", ("GET", "/snapshot"): "snapshot", ("POST", "/navigate"): "navigate",
    ("POST", "/screenshot"): "screenshot", ("POST", "/pdf"): "pdf", ("POST", "/act"): "act",
    ("POST", "/hooks/file-chooser"): "upload", ("POST", "/hooks/dialog"): "dialog", ("POST", "/download"): "download",
    ("POST", "/wait/download"): "download", ("GET", "/console"): "console", ("GET", "/errors"): "errors",
    ("GET", "/requests"): "requests", ("POST", "/highlight"): "highlight", ("POST", "/response/body"): "response",
}  # fmt: skip


class SessionPages(Protocol):
    """The pages of one session."""

    def permit(self, origin: str, /) -> None:
        """Let it open one private origin."""

    async def perform(self, verb: str, args: Mapping[str, Any], /) -> dict[str, Any]:
        """Do one thing, and tell what came of it in plain JSON."""

    async def capture(self, url: str, size: Mapping[str, Any], /) -> bytes:
        """Return a picture of what an address shows in a window of a `width` and `height`, from its `top` on.

        It has a `type` and a `quality`, and is scaled down to `maxWidth`.
        """

    async def close(self) -> None:
        """Close all of them."""


class BrowserBackend(Protocol):
    """Where pages come from."""

    def describe(self) -> dict[str, Any]:
        """Tell which browser it is, and whether it runs."""

    def open(self, profile: str, /, *, keeps: bool) -> SessionPages:
        """Return a new page set with what is kept of a profile."""

    def forget(self, profile: str, /) -> None:
        """Begin a profile anew."""

    async def close(self) -> None:
        """End the browser."""


OpenBackend = Callable[
    [WayOut, Callable[[], tuple[str | None, bool]], Path | None, Callable[[str], str | None]], BrowserBackend
]


def mount(core: Core, backend: OpenBackend) -> Feature:
    """Mount the browser, and the guard that lets its tool in."""
    browser = Browser(core, core.find(Nodes))
    folder = None if core.state is None else core.state / "browser"
    browser.backend = backend(core.way_out, browser.choose_launch, folder, core.find_program)
    core.session_ends.append(browser.end_session)
    core.find(Revocations).watch(browser.list_live)
    return Feature(services=(browser,), guards=(browser.guard,), close=browser.close)


class PagesKey(NamedTuple):
    """Whose pages they are: in which session, and of which person there, "" the owner."""

    session: str
    whose: str


class Browser:
    """The page sets of one crib, one for each person in a session; one that nobody uses for half an hour is closed."""

    backend: BrowserBackend

    def __init__(self, core: Core, nodes: Nodes) -> None:
        self._core, self._nodes = core, nodes
        self._open: dict[PagesKey, SessionPages] = {}
        self._callers: dict[PagesKey, Caller] = {}
        self._used: dict[PagesKey, float] = {}
        self._permits: dict[str, Caller] = {}
        self._closing: asyncio.Task[None] | None = None
        self.is_headed = False  # whatever the configuration says
        self.guard = Hook(run=self._let_in, name="the guard of the browser", tools=frozenset({_TOOL}))

    def choose_launch(self) -> tuple[str | None, bool]:
        """Return which Chromium is started, None for the one that is found, and whether without a window."""
        settings = self._core.config.browser
        return settings.executable, settings.headless and not self.is_headed

    @rpc("browser.request", clients="write", tools="admin", why="owner")
    async def request(  # noqa: PLR0913  as the protocol spells it
        self,
        caller: Caller,
        method: _Method,
        path: Annotated[str, Field(max_length=256)],
        query: JsonObject | None = None,
        body: JsonObject | None = None,
        timeoutMs: Annotated[int, Field(ge=1, le=120_000)] | None = None,  # noqa: N803
        profile: str | None = None,
    ) -> dict[str, Any]:
        """Use the browser of the caller's session by a route like GET /snapshot, for the owner's programs."""
        if not self._core.is_owner(caller):
            raise ToolError("the browser is asked by the owner's programs, or by the tool browser", code="denied")
        given = {**(query or {}), **(body or {}), **({"timeoutMs": timeoutMs} if timeoutMs else {})}
        return await self._answer(caller, method, path, given, profile)

    @rpc("browser.perform", clients="write", why="key")
    async def perform(  # noqa: PLR0913  what a route is, and who asks
        self,
        caller: Caller,
        call: Annotated[str, Field(max_length=256)],
        method: _Method,
        path: Annotated[str, Field(max_length=256)],
        args: JsonObject | None = None,
        profile: str | None = None,
        node: Annotated[str, Field(max_length=256)] | None = None,
    ) -> dict[str, Any]:
        """Do what a call of the tool asks for; with `node` on that one, or on the only one that has a browser."""
        if self._permits.get(call) != caller:
            raise ToolError("no call of browser was permitted under this key", code="denied")
        if node is not None:
            return await self._answer_there(caller, node, method, path, args or {})
        answer = await self._answer(caller, method, path, args or {}, profile)
        shown = f"web:{answer['url']}" if answer.get("url") else "" if path.rstrip("/") in _OWN_WORDS else "browser"
        return {**answer, "sources": [shown]} if shown else answer

    @rpc("browser.permit", clients="write", why="owner")
    async def permit_preview(self, caller: Caller, origin: Annotated[str, Field(max_length=64)]) -> dict[str, Any]:
        """Let the pages of the caller's session open one origin at 127.0.0.1, for the owner's programs."""
        if not self._core.is_owner(caller):
            raise ToolError("only programs of the owner decide what pages may open on this machine", code="denied")
        if not re.fullmatch(r"http://127\.0\.0\.1:[0-9]{1,5}", origin):
            what = f"{origin!r} is no preview; name an origin like http://127.0.0.1:8123"
            raise ToolError(what, code="bad_arguments")
        self.permit(caller, origin)
        return {"ok": True}

    @rpc("browser.preview", clients="admin", tools="write")
    async def use_preview(
        self,
        caller: Caller,
        method: _Method,
        path: Annotated[str, Field(max_length=256)],
        body: JsonObject | None = None,
    ) -> dict[str, Any]:
        """Use a page that shows an origin permitted before, by a route like POST /screenshot, for the owner's tools."""
        if not self._core.is_owner(caller) or path.rstrip("/") in _OF_ALL_PAGES:
            raise ToolError("a tool has the owner's pages that show its preview, and no other", code="denied")
        return await self._answer(caller, method, path, {**(body or {}), "isPreview": True}, None)

    def permit(self, caller: Caller, origin: str) -> None:
        """Let the session of a caller open one private origin, such as the canvas host or its own preview."""
        self._pages_of(caller).permit(origin)

    async def capture(self, caller: Caller, url: str, size: Mapping[str, Any]) -> bytes:
        """Return a picture of what an address shows, to the session of a caller; `size` is as for `SessionPages`."""
        return await self._pages_of(caller).capture(url, size)

    async def end_session(self, session: str) -> None:
        """Close the pages of a session that is over."""
        for key in [key for key in self._open if key.session == session]:
            await self._close_set(key)

    def list_live(self) -> list[LiveWork]:
        """Return every page set that is open, and for whom."""
        return [LiveWork(self._callers[key], partial(self._close_set, key)) for key in self._open]

    async def close(self) -> None:
        """Close every page, and the browser."""
        if self._closing is not None and not self._closing.done():  # it ends with its loop
            self._closing.cancel()
            await asyncio.wait((self._closing,))
        for key in list(self._open):
            await self._open.pop(key).close()
        await self.backend.close()

    # helpers

    async def _let_in(self, ctx: Ctx, args: Mapping[str, Any]) -> Word:
        remember(self._permits, ctx.call.key, ctx.caller)
        return None

    async def _answer(
        self, caller: Caller, method: str, path: str, args: Mapping[str, Any], profile: str | None
    ) -> dict[str, Any]:
        own, key = agent_of(caller), self._key_of(caller)
        if profile and to_agent(profile) != own:
            raise ToolError(f"there is no profile {profile[:64]!r} here; there is {own!r}", code="not_found")
        match method, path.rstrip("/"):
            case "GET", "":
                return {"enabled": True, "profile": own, **self.backend.describe(), "open": key in self._open}
            case "GET", "/profiles":
                return {"profiles": [{"name": own, "keeps": self._core.config.browser.profile == "keep"}]}
            case "POST", "/stop":
                stopped = key in self._open
                await self._close_set(key)
                return {"ok": True, "stopped": stopped}
            case "POST", "/reset-profile":
                await self._close_set(key)
                self.backend.forget(self._profile_of(caller))
                return {"ok": True, "profile": own}
            case "DELETE", at if at.startswith("/tabs/"):
                return await self._use(caller, "close", {**args, "targetId": at.removeprefix("/tabs/")})
            case "POST", "/tabs/action":
                return await self._act_on_tabs(caller, args)
            case "GET", "/tabs" if key not in self._open:
                return {"ok": True, "running": False, "tabs": []}
            case route:
                if route not in _ROUTES:
                    raise ToolError(f"the browser has no route {method} {path[:64]!r}", code="not_found")
                return await self._use(caller, _ROUTES[route], args)

    async def _act_on_tabs(self, caller: Caller, args: Mapping[str, Any]) -> dict[str, Any]:
        """List, open, close or bring to front a tab, by its place in the list where `index` names it."""
        action, index = args.get("action"), args.get("index")
        if action == "new":
            return await self._use(caller, "open", {"targetUrl": "about:blank", **args})
        listing = await self._use(caller, "tabs", {})
        if action == "list":
            return listing
        if action not in ("close", "select"):
            raise ToolError("an action on tabs is list, new, close or select", code="bad_arguments")
        if index is not None and (not isinstance(index, int) or not 0 <= index < len(listing["tabs"])):
            raise ToolError(f"there is no tab at {str(index)[:64]}; there are {len(listing['tabs'])}", code="not_found")
        target = {} if index is None else {"targetId": listing["tabs"][index]["targetId"]}
        return await self._use(caller, "focus" if action == "select" else "close", {**args, **target})

    async def _answer_there(
        self, caller: Caller, node: str, method: str, path: str, args: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Have a node do it, in pages of this session's own; `source` says that all of it is the node's word."""
        timeout = args.get("timeoutMs")
        seconds = _FAR_SECONDS + (min(max(timeout, 0), _MAX_MS) / 1000 if isinstance(timeout, (int, float)) else 0)
        params = {"method": method, "path": path, "query" if method == "GET" else "body": dict(args)}
        session = f"{self._profile_of(caller)} {self._key_of(caller)!r}"
        there, answer = await self._nodes.ask_able(node, _TOOL, BROWSE, params | {"session": session}, seconds)
        return _read_proxied(answer, there.shown) | {"source": there.source}

    async def _use(self, caller: Caller, verb: str, args: Mapping[str, Any]) -> dict[str, Any]:
        if not self._core.config.browser.enabled:
            raise ToolError("the browser is switched off; browser.enabled switches it on", code="unavailable")
        pages, key = self._pages_of(caller), self._key_of(caller)
        try:
            return await pages.perform(verb, args)
        finally:
            if key in self._open:
                self._used[key] = time.monotonic()

    def _pages_of(self, caller: Caller) -> SessionPages:
        key = self._key_of(caller)
        if (pages := self._open.get(key)) is None:
            if sum((each.whose == "") is (key.whose == "") for each in self._open) >= _MAX_PAGE_SETS:
                what = f"{_MAX_PAGE_SETS} sessions have pages open; stop the browser in one of them"
                raise ToolError(what, code="too_many")
            pages = self._open[key] = self.backend.open(
                self._profile_of(caller), keeps=self._core.config.browser.profile == "keep"
            )
        self._used[key], self._callers[key] = time.monotonic(), caller
        if self._closing is None or self._closing.done():
            self._closing = asyncio.ensure_future(self._close_idle())
        return pages

    def _key_of(self, caller: Caller) -> PagesKey:
        """Return whose pages they are; who is nobody for certain has those of their session."""
        place = caller.session or f"-{agent_of(caller)}"
        if self._core.is_owner(caller):
            return PagesKey(place, "")
        return PagesKey(place, self._core.person_of(caller) or repr(caller.session or caller))

    def _profile_of(self, caller: Caller) -> str:
        """Return under what a caller's cookies are kept: the owner's under the agent, anybody else's apart.

        In a group each has their own there, the owner too: what is shown is for all to read.
        """
        group = [caller.channel, caller.account, caller.group] if caller.group else []
        own = [self._key_of(caller).whose, *group]
        mark = hashlib.sha256(json.dumps(own).encode()).hexdigest()[:24]
        return agent_of(caller) if own == [""] else f"{agent_of(caller)}.{mark}"

    async def _close_set(self, key: PagesKey) -> None:
        pages = self._open.pop(key, None)
        self._used.pop(key, None)
        self._callers.pop(key, None)
        if pages is not None:
            await pages.close()
        if not self._open:
            await self.backend.close()

    async def _close_idle(self) -> None:
        """Close page sets that nobody uses, until there is none."""
        while self._open:
            await asyncio.sleep(max(1.0, min(self._used.values(), default=0) + _IDLE_SECONDS - time.monotonic()))
            for key in [key for key, at in self._used.items() if time.monotonic() - at >= _IDLE_SECONDS]:
                try:
                    await self._close_set(key)
                except Exception:  # the others are to be closed all the same
                    log.exception("pages that nobody used could not be closed")


def _read_proxied(answer: Any, node: str) -> dict[str, Any]:
    """Return what a node's browser answers, with the file that it may have put beside it; ToolError for nonsense."""
    result = answer.get("result") if isinstance(answer, Mapping) else None
    if not isinstance(result, Mapping) or any(not isinstance(result.get(key, ""), str) for key in _WORDS):
        raise ToolError(f"{node} answered what no browser says", code="failed")
    files = answer.get("files")
    beside = files[0] if isinstance(files, list) and files and isinstance(files[0], Mapping) else {}
    dialogs = [each for each in result.get("dialogs") or () if isinstance(each, Mapping) and "message" in each]
    taken = {"base64": beside["base64"]} if isinstance(beside.get("base64"), str) else {}
    return {**result, **taken, **({"dialogs": dialogs} if dialogs else {})}
