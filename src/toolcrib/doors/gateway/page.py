"""The page: its files, and who is let in by it.

    /  /app.js ...   the files of `doors/web`, known by name from the start; nothing else of the disk can be asked for
    /page/login      takes a code, once and within five minutes: the browser gets a cookie, the page a key
    /page/logout     ends both

A cookie is sent to every port of a host, also to a server of somebody else's on this machine. So the cookie is one half
of a token, and the other half is the page's: kept in its origin's own storage, shown in `connect` or in a header.
"""

import gzip
import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson
from starlette.types import Receive, Scope

from toolcrib.define.device import Device
from toolcrib.define.display import escape
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import ADMIN
from toolcrib.services.devices import Devices

from .credentials import Principal, RefusedError, cookie_name, is_from_page, read_page_token
from .http import Gate, HttpError, HttpRoute, Raw, find_header, read_json

_COOKIE_SECONDS = 30 * 86_400
_MAX_CODE_CHARS = 128
_KINDS = {
    "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml", "png": "image/png", "webmanifest": "application/manifest+json",
}  # fmt: skip
_PACKED = ("text/", "image/svg", "application/manifest")  # which gzip makes smaller
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; frame-src {canvas}; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_STRICT = {
    "referrer-policy": "no-referrer", "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=(), display-capture=(), usb=(), serial=()",
}  # fmt: skip


class _Asset(NamedTuple):
    kind: str
    body: bytes
    packed: bytes
    tag: str


def page_routes(
    server: Gate, pages: Devices, canvas_host: Callable[[str], str], folder: Traversable | None = None
) -> Mapping[str, HttpRoute]:
    """Return what the page is answered; `canvas_host` is asked where somebody at an address finds the canvas host."""
    page = _Page(server, pages, canvas_host)
    found = dict(_list_files(folder or files("toolcrib.doors") / "web"))
    shown = {f"/{name}": HttpRoute("GET", partial(page.show, file), "harmless") for name, file in found.items()}
    if "/index.html" in shown:
        shown["/"] = shown["/index.html"]
    login, logout = HttpRoute("POST", page.log_in, "owner"), HttpRoute("POST", page.log_out, "owner")
    return {**shown, "/page/login": login, "/page/logout": logout}


class _Page:
    def __init__(self, server: Gate, pages: Devices, canvas_host: Callable[[str], str]) -> None:
        self._server, self._pages, self._canvas_host = server, pages, canvas_host
        self._assets: dict[Traversable, _Asset] = {}

    async def show(self, file: Traversable, scope: Scope, receive: Receive) -> tuple[int, Any]:
        """Answer with a file, or with the word that the browser has it already."""
        asset = self._assets.get(file) or self._assets.setdefault(file, _read_asset(file))
        is_packed = asset.packed and "gzip" in find_header(scope, b"accept-encoding")
        tag = f'"{asset.tag}{"-gz" if is_packed else ""}"'
        headers = {**self._secure(scope), "etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if is_packed:
            headers["content-encoding"] = "gzip"
        if tag in (each.strip().removeprefix("W/") for each in find_header(scope, b"if-none-match").split(",")):
            return 304, Raw(asset.kind, b"", headers)
        return 200, Raw(asset.kind, asset.packed if is_packed else asset.body, headers)

    async def log_in(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        """Take a code: whoever has it holds the owner's, from now on in this browser."""
        _require_page(scope)
        body = await read_json(scope, receive)
        code = body.get("code")
        if not isinstance(code, str) or not 0 < len(code) <= _MAX_CODE_CHARS or len(body) > 1:
            raise HttpError(400, "invalid_request", 'say {"code": CODE}')
        address = self._server.address_of(scope)
        if not self._pages.spend_page_code(code):  # long and made at random: no neighbour's guesses lock its owner out
            is_locked = self._server.failures.add(address, "page code")
            why = "this code was used, is older than five minutes or was never made; `toolcrib gateway page` makes one"
            raise HttpError(429 if is_locked else 401, "unauthorized", why)
        if self._find(scope) is not None:  # it is in already, and stays who it is
            return 200, self._answer(scope, {"ok": True, "key": find_header(scope, b"x-toolcrib-page")})
        browser = escape(find_header(scope, b"user-agent")[:128])
        about = {"clientId": "toolcrib-page", "clientMode": "page", "displayName": browser, "remoteIp": address}
        try:
            cookie, key = await self._pages.pair_page(Device("", scopes=frozenset({ADMIN}), about=about))
        except ToolError as error:
            raise HttpError(503, error.code, str(error)) from None
        return 200, self._answer(scope, {"ok": True, "key": key}, cookie)

    async def log_out(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        """Let this browser in no more."""
        _require_page(scope)
        if (principal := self._find(scope)) is not None:
            try:
                await self._pages.forget(principal.id)
            except ToolError as error:
                raise HttpError(503, error.code, str(error)) from None
        return 200, self._answer(scope, {"ok": True}, "")

    def _find(self, scope: Scope) -> Principal | None:
        """Return whose cookie and key a request shows, None for nobody's."""
        found = self._server.identify(scope) if read_page_token(scope["headers"]) else None
        return None if isinstance(found, RefusedError) else found

    def _answer(self, scope: Scope, value: dict[str, Any], cookie: str | None = None) -> Raw:
        headers = self._secure(scope)
        if cookie is not None:
            seconds = _COOKIE_SECONDS if cookie else 0
            secure = "; Secure" if find_header(scope, b"origin").startswith("https:") else ""
            words = f"HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}"
            headers["set-cookie"] = f"{cookie_name(find_header(scope, b'host'))}={cookie}; {words}"
        return Raw("application/json", orjson.dumps(value), headers)

    def _secure(self, scope: Scope) -> dict[str, str]:
        """Return the headers that every answer of the page has."""
        canvas = self._canvas_host(self._server.address_of(scope))
        here, port = urlsplit(f"//{find_header(scope, b'host')}").hostname or "", urlsplit(canvas).port
        named = f"http://{f'[{here}]' if ':' in here else here}:{port}"
        framed = " ".join(dict.fromkeys((canvas, named))) if port else "'none'"
        return {**_STRICT, "content-security-policy": _POLICY.format(canvas=framed)}


def _require_page(scope: Scope) -> None:
    if not is_from_page(scope["headers"]):
        raise HttpError(403, "forbidden", "only the gateway's own page is answered here")


def _list_files(folder: Traversable, under: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files of the page by the names that they are asked for by."""
    for each in folder.iterdir() if folder.is_dir() else ():
        name = f"{under}{each.name}"
        if each.is_dir():
            yield from _list_files(each, f"{name}/")
        elif name.rpartition(".")[2] in _KINDS:
            yield name, each


def _read_asset(file: Traversable) -> _Asset:
    kind, body = _KINDS[file.name.rpartition(".")[2]], file.read_bytes()
    packed = gzip.compress(body, mtime=0) if kind.startswith(_PACKED) else b""
    return _Asset(kind, body, packed if len(packed) < len(body) else b"", hashlib.sha256(body).hexdigest()[:32])
