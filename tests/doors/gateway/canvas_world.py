"""A real browser that looks at canvases, and A2UI to look at."""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolcrib import OWNER, Caller, Result

from .world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, FrameLocator, Page

CHROMIUM = shutil.which("chromium") if find_spec("playwright") else None
FLAGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]


class _Kept:
    """A Chromium that is started when it is first needed, and anew where it has crashed."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack
        self._browser: Browser | None = None

    async def browser(self) -> "Browser":
        if self._browser is None or not self._browser.is_connected():
            self._browser = await self._stack.enter_async_context(_launched())
        return self._browser


_KEPT: dict[asyncio.AbstractEventLoop, _Kept] = {}


@contextlib.asynccontextmanager
async def keeping_browser() -> AsyncIterator[None]:
    """Have one Chromium for all who browse on this loop meanwhile, one after the other."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        _KEPT[loop] = _Kept(stack)
        try:
            yield
        finally:
            del _KEPT[loop]


@contextlib.asynccontextmanager
async def browsing(*flags: str) -> AsyncIterator["Browser"]:
    """Yield Chromium; what is opened in it, in contexts that share nothing, ends with the block."""
    kept = None if flags else _KEPT.get(asyncio.get_running_loop())
    if kept is None:
        async with _launched(*flags) as browser:
            yield browser
        return
    browser = await kept.browser()
    try:
        yield browser
    finally:
        for context in browser.contexts:
            await context.close()


@contextlib.asynccontextmanager
async def _launched(*flags: str) -> AsyncIterator["Browser"]:
    from playwright.async_api import async_playwright  # noqa: PLC0415  an extra

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, chromium_sandbox=os.geteuid() != 0, args=[*FLAGS, *flags]
        )
        try:
            yield browser
        finally:
            await browser.close()


async def call(world: World, caller: Caller = OWNER, **args: Any) -> Result:
    """Call the tool."""
    return await world.server.crib.belt(caller).call("canvas", args)


async def show(world: World, caller: Caller = OWNER, **args: Any) -> str:
    """Have something shown, and return where."""
    result = await call(world, caller, **args)
    assert result.status == "ok", result.plain_text
    return str(json.loads(result.plain_text)["url"])


async def look(browser: "Browser", url: str) -> "tuple[Page, FrameLocator]":
    """Open a canvas, wait until it is connected, and return the page and what is framed in it."""
    page = await browser.new_page()
    async with page.expect_websocket():
        await page.goto(url)
    return page, page.frame_locator("#frame")


async def evaluate(world: World, script: str) -> str:
    """Return what a script gives in the canvas that is open, between the marks around it."""
    result = await call(world, action="eval", javaScript=script)
    assert result.status == "ok", result.plain_text
    return result.plain_text


async def fetch(
    url: str, path: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    """Return the status, the headers and the body that a path is answered with, sent as it is written."""
    there = urlsplit(url)
    reader, writer = await asyncio.open_connection(there.hostname, there.port)
    sent = {"Host": there.netloc, "Connection": "close", **headers}
    lines = [f"{method} {there.path if path is None else path} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    first, *rows = head.split("\r\n")
    return int(first.split()[1]), dict(row.lower().split(": ", 1) for row in rows), body


async def find_inside(url: str) -> str:
    """Return the path of what a canvas frames."""
    return (await fetch(url))[2].partition('src="/p/')[2].partition('"')[0].partition("/")[0].join(("/p/", "/"))


def lines(*messages: Any) -> str:
    """Return JSONL."""
    return "\n".join(json.dumps(each) for each in messages)


def component(id: str, kind: str, **of: Any) -> dict[str, Any]:
    return {"id": id, "component": {kind: of}}


def text(id: str, words: str) -> dict[str, Any]:
    return component(id, "Text", text={"literalString": words})


def button(id: str, child: str, name: str, **context: Mapping[str, Any]) -> dict[str, Any]:
    told = [{"key": key, "value": value} for key, value in context.items()]
    return component(id, "Button", child=child, primary=True, action={"name": name, "context": told})


def surface(*components: dict[str, Any], data: list[dict[str, Any]] | None = None, id: str = "main") -> str:
    """Return the JSONL of a surface whose root is called `root`."""
    messages: list[dict[str, Any]] = [{"surfaceUpdate": {"surfaceId": id, "components": list(components)}}]
    if data is not None:
        messages.append({"dataModelUpdate": {"surfaceId": id, "contents": data}})
    return lines(*messages, {"beginRendering": {"surfaceId": id, "root": "root"}})


FORM = surface(
    component("root", "Column", children={"explicitList": ["name", "often", "go"]}),
    component("name", "TextField", label={"literalString": "Name"}, text={"path": "/name"}),
    component("often", "Slider", value={"path": "/often", "literalNumber": 3}, minValue=0, maxValue=10),
    button("go", "label", "order", who={"path": "/name"}, times={"path": "/often"}),
    text("label", "Order"),
)
