"""What the tests of the browser share: small sites, page sets over a real Chromium, and who is left of it."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.backends.web.proxies import World, world

from toolcrib.backends.browsers.pages import ChromiumPages

__all__ = ["FORM", "NEEDS_CHROMIUM", "SayPages", "chromium_ids", "opened", "ref_of"]

NEEDS_CHROMIUM = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="impossible here: there is no Chromium on this machine"
)
FORM = """<title>Order</title><h1>Prices</h1>
<form action=/order method=post><label>Name <input name=who></label>
<label><input type=checkbox name=gift> as a gift</label>
<select name=what aria-label=What><option value=nut>a nut</option><option value=bolt>a bolt</option></select>
<button>Order</button></form>
<input type=file aria-label=Letter onchange="this.files[0].text().then(text => { document.title = text })">
<a href=/report>the report</a>
<button onclick="document.title = 'said ' + prompt('Who are you?')">Ask</button>"""


class SayPages:
    """A host with these pages by path; each a text, or headers and bytes. `asked` is the body of each request."""

    def __init__(self, pages: Mapping[str, str | tuple[str, bytes]]) -> None:
        self.pages, self.asked, self.heads = dict(pages), dict[str, str](), list[str]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lengths = [line.partition(":")[2] for line in head.lower().split("\r\n") if line.startswith("content-length:")]
        path = head.split(" ")[1]
        self.heads.append(head)
        self.asked[path] = (await reader.readexactly(int(lengths[0]))).decode() if lengths else ""
        page = self.pages.get(path.partition("?")[0])
        headers, body = page if isinstance(page, tuple) else ("content-type: text/html", (page or "").encode())
        status = "404 none" if page is None else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


@asynccontextmanager
async def opened(
    hosts: Mapping[tuple[str, int], Any], folder: Path | None = None
) -> AsyncIterator[tuple[ChromiumPages, World]]:
    """Give a Chromium in a world of these hosts; it ends with the block."""
    async with world(hosts) as found:
        backend = ChromiumPages(found, lambda: (None, True), folder)
        try:
            yield backend, found
        finally:
            await backend.close()


def ref_of(snapshot: str, what: str) -> str:
    """Return the ref of the element that a snapshot calls so."""
    line = next(line for line in snapshot.split("\n") if what in line)
    return line.partition("[ref=")[2].partition("]")[0]


def chromium_ids() -> set[int]:
    """Return the processes beneath this one that are a Chromium, or a driver of one."""
    above, names = dict[int, int](), dict[int, str]()
    for each in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  names are all that is wanted
        try:
            stat = Path(f"/proc/{each}/stat").read_text()
            line = Path(f"/proc/{each}/cmdline").read_text()
        except OSError:
            continue  # it has ended
        above[int(each)] = int(stat.rpartition(")")[2].split()[1])
        names[int(each)] = line

    def is_ours(id: int) -> bool:
        while id in above and id != os.getpid():
            id = above[id]
        return id == os.getpid()

    return {id for id, line in names.items() if ("chromium" in line or "playwright" in line) and is_ours(id)}
