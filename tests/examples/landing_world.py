"""What the tests of the landing-page builder stand on: its modules, a crib that has it, and a measure of our own."""

import http.server
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright
from tests.sockets import serving

import toolcrib
from toolcrib import OWNER, Plugin
from toolcrib.backends.plugins import find_plugins

__all__ = ["BUILDER", "EXAMPLE", "crib_in", "load_plugin", "measure", "module", "serve_folder"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "landing_builder"
BUILDER = replace(OWNER, agent="landing-builder", session="agent:landing-builder:test")
_AXE = Path(import_module("axe_playwright_python").__path__[0]) / "axe.min.js"


def load_plugin() -> Plugin:
    return find_plugins([EXAMPLE])[0]["landing-builder"].load()


def module(name: str) -> Any:
    """Return a module of the plugin as the plugin has it."""
    if "toolcrib_plugin_landing_builder" not in sys.modules:
        load_plugin()
    return import_module(f"toolcrib_plugin_landing_builder.{name}")


def crib_in(folder: Path, **more: Any) -> toolcrib.Crib:
    """Return a crib that has the plugin, and its workspace in a folder."""
    plugins = {"folders": [str(EXAMPLE)], "landing-builder": {"enabled": True}}
    return toolcrib.open({"plugins": plugins, "workspace": {"root": str(folder)}, **more})


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder by a server that is none of ours."""
    with serving(partial(_Quiet, directory=str(folder))) as origin:
        yield f"{origin}/"


async def measure(url: str) -> dict[int, dict[str, Any]]:
    """Return what axe finds and how wide the page is, at three widths, by bare Playwright."""
    found: dict[int, dict[str, Any]] = {}
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width, height in ((1440, 900), (768, 1024), (375, 812)):
            page = await browser.new_page(viewport={"width": width, "height": height})
            await page.goto(url, wait_until="load")
            await page.add_script_tag(path=str(_AXE))
            violations = await page.evaluate(
                "axe.run().then(found => found.violations.map(each => [each.id, each.impact]))"
            )
            wide = await page.evaluate("document.scrollingElement.scrollWidth")
            found[width] = {"violations": [tuple(each) for each in violations], "width": wide}
            await page.close()
        await browser.close()
    return found
