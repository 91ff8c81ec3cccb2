"""The preview: a folder of the workspace, served at 127.0.0.1 as a web server would serve it.

Files are read through the workspace, so nothing outside of the folder is reached, by no `..` and by no link. Of what
is in it, only files of the web are served, and no hidden ones. The page may load nothing from elsewhere.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Mapping
from urllib.parse import unquote

from toolcrib import Ctx, ToolError
from toolcrib.files import Workspace

log = logging.getLogger("toolcrib.landing")

KINDS: Mapping[str, str] = {
    "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml", "json": "application/json", "webmanifest": "application/manifest+json",
    "txt": "text/plain; charset=utf-8", "xml": "application/xml", "png": "image/png", "jpg": "image/jpeg",
    "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif", "avif": "image/avif", "ico": "image/x-icon",
    "woff2": "font/woff2", "mp4": "video/mp4", "webm": "video/webm",
}  # fmt: skip
_POLICY = "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
_HEADERS = (
    f"content-security-policy: {_POLICY}\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n"
    "cross-origin-resource-policy: same-origin\r\ncache-control: no-store\r\nconnection: close\r\n"
)
_REASONS = {200: "OK", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
_REQUEST = re.compile(rb"([A-Z]+) (/[\x21-\x7e]*) HTTP/1\.[01]\r\n")
_HOST = re.compile(rb"\r\nhost:[ \t]*([^\s]+)[ \t]*\r\n", re.IGNORECASE)
_HEAD_BYTES, _REQUEST_SECONDS, _MAX_CONNECTIONS, _MAX_PREVIEWS = 16_384, 10.0, 64, 8


class Preview:
    """One folder that is served until it is closed, or its event loop ends."""

    def __init__(self, workspace: Workspace, folder: str) -> None:
        self._workspace, self._folder = workspace, folder
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._serving = asyncio.create_task(self._serve())

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/"

    @property
    def source(self) -> str:
        """Whose words those of the page are."""
        return f"preview:{self.url}"

    @property
    def is_serving(self) -> bool:
        return not self._serving.done()

    async def close(self) -> None:
        """Serve no more."""
        self._serving.cancel()
        await asyncio.wait((self._serving,))
        self._listener.close()  # where it had not begun to serve

    async def _serve(self) -> None:
        loop, slots = asyncio.get_running_loop(), asyncio.Semaphore(_MAX_CONNECTIONS)
        with self._listener:
            async with asyncio.TaskGroup() as connections:
                while True:
                    await slots.acquire()
                    connection, _ = await loop.sock_accept(self._listener)
                    connections.create_task(self._handle(connection)).add_done_callback(lambda _: slots.release())

    async def _handle(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=_HEAD_BYTES)
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            log.debug("a connection to a preview ended early (%r)", error)
        except Exception:  # one connection must not end the others
            log.exception("a connection to a preview failed")
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        asked, host = _REQUEST.match(head), _HOST.search(head)
        if asked is None or asked[1] not in (b"GET", b"HEAD"):
            return _render(405, b"only GET and HEAD\n")
        # a name that leads here is not ours: pages elsewhere would read the preview by it
        if host is None or host[1] not in (f"127.0.0.1:{self.port}".encode(), f"localhost:{self.port}".encode()):
            return _render(403, b"this preview is at 127.0.0.1\n")
        is_head = asked[1] == b"HEAD"
        try:
            path = locate(asked[2].decode())
            data = await self._workspace.read(f"{self._folder}/{path}")
        except (ToolError, ValueError):
            return _render(404, b"there is no such file here\n", is_head=is_head)
        return _render(200, data, KINDS[path.rpartition(".")[2].lower()], is_head=is_head)


class Previews:
    """The previews of a crib: one for each session and folder."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str, str], Preview] = {}
        self._starting = asyncio.Lock()

    async def open(self, ctx: Ctx, folder: str) -> Preview:
        """Return the preview of a folder, begun now if there is none."""
        await check_page(ctx, folder)
        key = ctx.caller.session or "", ctx.ports.folder, folder
        async with self._starting:
            preview = self._open.pop(key, None)
            if preview is None or not preview.is_serving:
                preview = Preview(ctx.workspace, folder)
            self._open[key] = preview
            while len(self._open) > _MAX_PREVIEWS:
                await self._open.pop(next(iter(self._open))).close()
        return preview

    async def close_session(self, session: str) -> None:
        """Close what a session has served."""
        for key in [key for key in self._open if key[0] == session]:
            await self._open.pop(key).close()


async def check_page(ctx: Ctx, folder: str) -> None:
    """Raise ToolError for a folder that has no page."""
    index = f"{folder}/index.html"
    try:
        await ctx.workspace.stat(index)
    except ToolError as error:
        raise ToolError(f"there is no page {index!r} ({error}); write it first", code="not_found") from None


def locate(target: str) -> str:
    """Return which file of the folder an address means; ValueError for one that is never served."""
    path = unquote(target.partition("?")[0], errors="strict")
    return check_path(f"{path}index.html" if path.endswith("/") else path)


def check_path(path: str) -> str:
    """Return the path of a file of the web, as it is named in its folder; ValueError for any other."""
    names = [name for name in path.split("/") if name]
    if any(name.startswith(".") or not name.isprintable() or "\\" in name for name in names):
        raise ValueError(path)
    if not names or path.endswith("/") or names[-1].rpartition(".")[2].lower() not in KINDS:
        raise ValueError(path)
    return "/".join(names)


def _render(status: int, body: bytes, kind: str = "text/plain; charset=utf-8", *, is_head: bool = False) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{_HEADERS}\r\n"
    )
    return head.encode() + (b"" if is_head else body)
