"""A real gateway and real Chromium pages at it. A page that logs an error, or breaks the policy, fails its test."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.backends.exec.shells import until
from tests.doors.gateway.canvas_world import CHROMIUM, browsing
from tests.doors.gateway.world import TOKEN

import toolcrib
from toolcrib import OWNER
from toolcrib.define.ports import SCOPES
from toolcrib.doors.gateway.credentials import Credentials
from toolcrib.doors.gateway.server import GatewayServer
from toolcrib.doors.listener import listen_on

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page, ViewportSize

NEEDS_CHROMIUM = [
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.skipif(CHROMIUM is None, reason="impossible here: there is no Chromium on this machine"),
]
PATIENCE_MS = 60_000  # for what should take a moment: other tests run beside this one
WIDE: "ViewportSize" = {"width": 1440, "height": 900}
NARROW: "ViewportSize" = {"width": 375, "height": 740}


@dataclass
class PageWorld:
    """A gateway, and a browser to look at it."""

    server: GatewayServer
    browser: "Browser"
    port: int
    complaints: list[str] = field(default_factory=list)
    neighbours: tuple[str, ...] = ()  # origins that may be asked, too: that of the canvases

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def ask(self, method: str, **params: Any) -> Any:
        """Ask the gateway as its owner."""
        return await self.server.crib.rpc_for(OWNER, frozenset(SCOPES))(method, params)

    async def tell(self, key: str, messages: Sequence[Mapping[str, Any]], title: str = "") -> str:
        """Keep a session in which this was said; return the hash that shows it."""
        head = {"type": "session", "version": 1, "key": key, "made_at": 1.0, "changed_at": 2.0}
        lines: list[dict[str, Any]] = [head]
        for at, message in enumerate(messages):
            parent = f"m{at - 1}" if at else None
            told = {"role": "user", **message, "at": 1_700_000_000.0 + at}
            lines.append({"type": "said", "id": f"m{at}", "parent": parent, "at": float(at), "message": told})
        await self.ask("sessions.import", texts=[json.dumps(line) for line in lines])
        if title:
            await self.ask("sessions.patch", key=key, label=title)
        return f"#/chat/{key}"

    async def visit(self, hash: str = "", **context: Any) -> "Page":
        """Open the page in a browser of its own by a code, and go to a view, as `#/chat/main`."""
        page = await self.open(**context)
        await page.goto(self.url + self.server.crib.devices.new_page_code()["path"][1:])
        first = page.locator(".view")
        await first.wait_for()
        if hash:
            await first.evaluate("(view) => (view.dataset.seen = 'before')")
            await page.goto(self.url + hash)
            await page.locator(".view:not([data-seen])").wait_for()
        return page

    async def open(self, **context: Any) -> "Page":
        """Return an empty page in a browser of its own; all that it complains about is noted."""
        settings = {"viewport": WIDE, "locale": "en-US", "reduced_motion": "reduce", **context}
        page = await (await self.browser.new_context(**settings)).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._note)
        page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))
        page.on("request", lambda request: self._note_request(request.url))
        return page

    def _note(self, message: "ConsoleMessage") -> None:
        # a gateway that has gone, or a directive that this Chromium does not know, is no fault of the page's
        known = re.search("WebSocket connection|ERR_CONNECTION|'webrtc'", message.text)
        if message.type in ("error", "warning") and not known:
            self.complaints.append(message.text)

    def _note_request(self, url: str) -> None:
        known = (self.url, self.url.replace("http", "ws"), "data:", "blob:", *self.neighbours)
        if not url.startswith(known):
            self.complaints.append(f"an outside request: {url}")


@contextlib.asynccontextmanager
async def page_of(
    config: Mapping[str, Any] | Path | None = None,
    *,
    state: Path | None = None,
    tools: Sequence[Any] = (),
    devices: Sequence[Any] = (),
    credentials: Credentials | None = None,
    flags: Sequence[str] = (),
) -> AsyncIterator[PageWorld]:
    """Yield a gateway with the model that needs no key, and Chromium; fail where a page complained."""
    crib = toolcrib.open(config or {}, tools=list(tools), state=state, env={})
    known = {each.id: each for each in devices}
    server = GatewayServer(crib, credentials or Credentials("token", TOKEN, known))
    with contextlib.closing(listen_on(0)) as at:
        serving = asyncio.ensure_future(server.serve(at))
        try:
            async with browsing(*flags) as browser:
                await until(lambda: server.is_ready or serving.done())
                world = PageWorld(server, browser, at.getsockname()[1])
                yield world
        finally:
            serving.cancel()
            await asyncio.wait([serving])
    assert world.complaints == []
