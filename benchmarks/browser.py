"""The tool `browser` against bare Playwright over the same Chromium and the same page, by wall clock.

Ours is a whole call: verdict, record, fence, and every byte of the page through the guarded proxy. A start is all that
lies between nothing and the first page: driver, Chromium, context, page.
"""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Page, async_playwright

import toolcrib
from toolcrib import OWNER

from . import Row

__all__ = ["measure", "serve_page"]

SNAPSHOT_BAR, CLICK_BAR, START_BAR = 1.3, 1.3, 1.5
_TURNS, _STARTS = 15, 2
_ROWS = "".join(f"<tr><td>{at}<td><a href=#{at}>link {at}</a><td><button>buy {at}</button></tr>" for at in range(150))
_BODY = f"<title>Shop</title><h1>Shop</h1><button id=order>Order</button><table>{_ROWS}</table>".encode()


@asynccontextmanager
async def serve_page() -> AsyncIterator[str]:
    """Give the address of a page with some hundred things to click."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(_BODY) + _BODY)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@asynccontextmanager
async def _bare(url: str) -> AsyncIterator[Page]:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium"), chromium_sandbox=os.geteuid() != 0, args=["--disable-gpu"]
        )
        page = await (await browser.new_context()).new_page()
        await page.goto(url)
        yield page
        await browser.close()


@asynccontextmanager
async def _ours(url: str) -> AsyncIterator[Any]:
    place = url.removeprefix("http://").rstrip("/")
    async with toolcrib.open({"web": {"ssrf": {"allowPrivate": [place]}}}) as crib:
        belt = crib.belt(OWNER)

        async def use(action: str, **args: Any) -> str:
            result = await belt.call("browser", {"action": action, **args})
            assert result.status == "ok", result.plain_text
            return result.plain_text

        await use("open", targetUrl=url)
        yield use


async def _time(work: Any) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _time_start(world: Any, url: str) -> float:
    began = time.perf_counter()
    async with world(url):
        return time.perf_counter() - began


async def _measure(rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {}
    async with serve_page() as url:
        async with _bare(url) as page, _ours(url) as use:
            lines = (await page.aria_snapshot(mode="ai")).split("\n")
            ref = next(line for line in lines if '"Order"' in line).partition("[ref=")[2].partition("]")[0]
            await use("snapshot", maxChars=1_000_000)
            request = {"kind": "click", "ref": ref}
            works: dict[str, Any] = {
                "bare snapshot": lambda: page.aria_snapshot(mode="ai"),
                "snapshot": lambda: use("snapshot", maxChars=1_000_000),
                "bare click": lambda: page.locator(f"aria-ref={ref}").click(),
                "click": lambda: use("act", request=request),
            }
            for _ in range(rounds):
                least = dict.fromkeys(works, float("inf"))
                for _ in range(_TURNS):
                    for name, work in works.items():
                        least[name] = min(least[name], await _time(work))
                for name, seconds in least.items():
                    taken.setdefault(name, []).append(seconds)
        for _ in range(rounds):
            for name, world in (("bare start", _bare), ("start", _ours)):
                least_start = min([await _time_start(world, url) for _ in range(_STARTS)])
                taken.setdefault(name, []).append(least_start)
    return taken


def measure(rounds: int) -> list[Row]:
    """Return the rows of snapshots, clicks and starts, measured here and now."""
    taken = asyncio.run(_measure(rounds))
    return [
        Row(what=what, ours=taken[name], against="bare Playwright", floor=taken[f"bare {name}"], bar=bar)
        for what, name, bar in (
            ("snapshot", "snapshot", SNAPSHOT_BAR), ("click by ref", "click", CLICK_BAR),
            ("first page of a session", "start", START_BAR),
        )
    ]  # fmt: skip
