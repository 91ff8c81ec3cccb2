"""What tests of the views share: a guest at the page, and what screen readers and narrow screens are owed."""

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from axe_playwright_python.base import AXE_FILE_PATH  # type: ignore[import-untyped]  # it ships no types

from .page_world import PageWorld

if TYPE_CHECKING:
    from playwright.async_api import Page

GUEST_TOKEN = "token-of-a-guest-1"
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "resultTypes": ["violations"]}


def socket_of(world: PageWorld) -> Any:
    """Return where a client of the protocol finds the gateway."""
    return SimpleNamespace(url=world.url.replace("http", "ws", 1))


async def enter(world: PageWorld, token: str, hash: str) -> "Page":
    """Open the page with a token, as somebody does who has no code."""
    page = await world.open()
    await page.goto(world.url + hash)
    await page.get_by_label("Token").fill(token)
    await page.keyboard.press("Enter")
    await page.locator("header nav").wait_for()
    return page


async def list_violations(page: "Page") -> list[str]:
    """Return what axe finds serious or critical on the page as it stands, one line each."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE_FILE_PATH.read_text())
    found: dict[str, Any] = await page.evaluate(f"axe.run(document, {json.dumps(_RULES)})")
    return [
        f"{each['id']}: {node['html'][:120]} ({node['failureSummary'][:200]})"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
