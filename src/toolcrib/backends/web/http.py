"""The port `Http`: pages through the guard, within bounds of time, size and hops; a few are kept.

Redirects are followed here, one by one: each is judged again, and what the caller sent along stays with its origin.
"""

import asyncio
import base64
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from toolcrib.define.display import strip_to_line
from toolcrib.define.egress import Destination, judge_port, read_url
from toolcrib.define.errors import ToolError
from toolcrib.define.web import PAGE_BYTES, PAGE_SECONDS, Page
from toolcrib.lazy import dataclass, replace

from .unpack import PackedError, Unpacker, list_encodings

if TYPE_CHECKING:
    from .guard import EgressGuard

_MAX_HOPS = 5
_MAX_KEPT, _KEPT_BYTES = 100, 32 * 1024 * 1024
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_SENT = {
    "user-agent": "Mozilla/5.0 (compatible; toolcrib)",
    "accept": "text/html, text/markdown, application/xhtml+xml, */*;q=0.8",
    "accept-language": "en;q=0.5, *;q=0.4",
}
_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer"})


class SecretRefs:
    """What stands for the secrets of the configuration: random words, and what puts the values there."""

    def __init__(self, values: Callable[[], Mapping[str, str]]) -> None:
        self._values, self._key = values, secrets.token_hex(16)

    def refer(self, name: str) -> str:
        """Return what stands for a secret; raise ToolError when there is none of that name."""
        if name not in (known := self._values()):
            have = f"there are {', '.join(sorted(known))}" if known else "there are none under `secrets`"
            raise ToolError(f"no secret is called {name!r}; {have}", code="unavailable")
        return f"<secret {name} {self._key}>"

    def holds(self, text: str) -> bool:
        """Tell whether a secret is to be put there."""
        return self._key in text

    def fill(self, text: str) -> str:
        """Return the text with the values in it."""
        if self._key in text:
            for name, value in self._values().items():
                text = text.replace(f"<secret {name} {self._key}>", value)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request: what is asked for, and within which bounds."""

    method: str
    there: Destination
    headers: Mapping[str, str]
    body: bytes
    most: int
    cuts: bool = False


class GuardedHttp:
    """The way out of a crib. `guard` is made when it is first needed: HTTP takes longer to load than we do."""

    def __init__(
        self,
        make_guard: Callable[[], "EgressGuard"],
        refs: SecretRefs | None = None,
        most_seconds: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._make_guard, self._refs, self._most_seconds = make_guard, refs or SecretRefs(dict), most_seconds
        self._kept: OrderedDict[str, tuple[float, Page]] = OrderedDict()
        self._judges: tuple[Callable[[str], None], ...] = ()

    def judge_with(self, judge: Callable[[str], None], /) -> "GuardedHttp":
        """Return the same way out, on which `judge` hears every address before it is asked."""
        judged = copy(self)
        judged._judges = (*self._judges, judge)  # noqa: SLF001  its own kind
        return judged

    async def get(
        self,
        url: str,
        /,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        most: int = PAGE_BYTES,
        seconds: float = PAGE_SECONDS,
        max_age: float = 0.0,
        cuts: bool = False,
    ) -> Page:
        """Return what is there; a kept copy where that will do."""
        there, more, now = self._read(url), dict[str, str](), time.monotonic()
        kept_at, kept = self._kept.get(there.url, (0.0, None)) if max_age and not headers else (0.0, None)
        if kept is not None:
            if now - kept_at < max_age:
                self._make_guard().check_name(read_url(kept.url).host)  # the rules may be others since
                for judge in self._judges:
                    judge(kept.url)
                return replace(kept, age=now - kept_at)
            marks = {"if-none-match": "etag", "if-modified-since": "last-modified"}
            if kept.url == there.url:  # another address may mean another thing by the same mark
                more = {name: kept.headers[mark] for name, mark in marks.items() if mark in kept.headers}
        asked = _Asked(method="GET", there=there, headers={**headers, **more}, body=b"", most=most, cuts=cuts)
        page = await self._ask(asked, seconds)
        if kept is not None and more and page.status == 304:
            page = replace(kept, age=now - kept_at)
        if max_age and not headers and page.status == 200:
            self._keep(there.url, now, page)
        return page

    async def send(
        self,
        method: str,
        url: str,
        /,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes = b"",
        most: int = PAGE_BYTES,
        seconds: float = PAGE_SECONDS,
    ) -> Page:
        if not method.isalpha() or not method.isascii():
            raise ToolError(f"{method[:20]!r} is no method of HTTP", code="bad_address")
        asked = _Asked(method=method.upper(), there=self._read(url), headers=headers, body=body, most=most)
        return await self._ask(asked, seconds)

    def _read(self, url: str) -> Destination:
        if self._refs.holds(url):
            raise ToolError("a secret has no place in an address: send it as a header", code="bad_address")
        return read_url(url)

    def _keep(self, url: str, now: float, page: Page) -> None:
        """Keep a page that may be kept, and let go of the oldest for it."""
        self._kept.pop(url, None)
        if "no-store" in page.headers.get("cache-control", "").lower() or len(page.body) > _KEPT_BYTES // 4:
            return
        self._kept[url] = (now, replace(page, age=None))
        while len(self._kept) > _MAX_KEPT or sum(len(each.body) for _, each in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)

    async def _ask(self, asked: _Asked, seconds: float) -> Page:
        import httpx2  # noqa: PLC0415  see the class

        host, seconds = asked.there.host, min(seconds, self._most_seconds() or seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(asked)
        except (TimeoutError, httpx2.TimeoutException):
            raise ToolError(f"{host} did not answer whole in {seconds:g} seconds", code="timeout") from None
        except httpx2.HTTPError as error:
            # only what came over a connection may hold words of the other side
            source = None if isinstance(error, httpx2.ConnectError) else f"web:{host}"
            what = strip_to_line(str(error))[:200] or type(error).__name__
            raise ToolError(f"{host} cannot be reached: {what}", code="unavailable", source=source) from None

    async def _follow(self, asked: _Asked) -> Page:
        """Ask, and go where the answer points, until it points nowhere."""
        seen = set[tuple[str, str]]()
        for _ in range(_MAX_HOPS + 1):
            if (step := (asked.method, asked.there.url)) in seen:
                raise ToolError(f"{asked.there.host} redirects in a circle", code="unavailable")
            seen.add(step)
            page = await self._hop(asked)
            location = page.headers.get("location", "") if page.status in (301, 302, 303, 307, 308) else ""
            if not location:
                return page
            asked = _redirect(asked, page.status, urljoin(asked.there.url, location))
        raise ToolError(f"{asked.there.host} redirects more than {_MAX_HOPS} times", code="unavailable")

    async def _hop(self, asked: _Asked) -> Page:
        import httpx2  # noqa: PLC0415  see the class

        if refused := judge_port(asked.there.host, asked.there.port):
            raise refused
        for judge in self._judges:
            judge(asked.there.url)
        there, guard = asked.there, self._make_guard()
        secure = there.scheme == "https"
        async with guard.open_client(secure=secure, timeout=httpx2.Timeout(None)) as client:
            sent = client.build_request(
                asked.method, there.url, headers=self._headers(asked), content=self._body(asked)
            )
            response = await client.send(sent, stream=True)
            try:
                body, is_cut = await _read_body(response, asked)
            finally:
                await response.aclose()
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Page(url=there.url, status=response.status_code, headers=headers, body=body, is_cut=is_cut)

    def _headers(self, asked: _Asked) -> dict[str, str]:
        own = {name.lower(): self._refs.fill(value) for name, value in asked.headers.items()}
        if asked.there.credentials:
            given = asked.there.credentials if ":" in asked.there.credentials else f"{asked.there.credentials}:"
            own.setdefault("authorization", f"Basic {base64.b64encode(given.encode()).decode()}")
        wrong = [name for name, value in own.items() if name in _OURS or not value.isprintable() or not value.isascii()]
        if wrong:
            raise ToolError(f"the header {wrong[0][:60]!r} cannot be sent: its name or its value is not for it")
        return {**_SENT, "accept-encoding": list_encodings(), **own}

    def _body(self, asked: _Asked) -> bytes | None:
        if not asked.body:
            return None
        text = asked.body.decode("latin-1")
        return self._refs.fill(text).encode("latin-1") if self._refs.holds(text) else asked.body


def _redirect(asked: _Asked, status: int, url: str) -> _Asked:
    """Return what is asked for next: at another origin nothing of what the caller sent along, and no body twice."""
    there = read_url(url)
    is_get = status == 303 or (status in (301, 302) and asked.method == "POST")
    method = "GET" if is_get and asked.method != "HEAD" else asked.method
    if there.origin == asked.there.origin:
        return replace(asked, method=method, there=there, body=b"" if is_get else asked.body)
    if asked.body and not is_get:
        what = f"{asked.there.host} sends the request on to {there.host}"
        raise ToolError(f"{what}, and what was to be sent is not sent to others", code="denied")
    return replace(asked, method=method, there=there, headers={}, body=b"")


async def _read_body(response: Any, asked: _Asked) -> tuple[bytes, bool]:
    """Return the body, unpacked, and whether it was cut; raise ToolError when it is too large or cannot be read."""
    body = bytearray()
    try:
        unpacker = Unpacker(response.headers.get("content-encoding", ""))
        async for raw in response.aiter_raw():
            for piece in unpacker.feed(raw):
                body += piece
                if len(body) > asked.most:
                    break
            if len(body) > asked.most:
                if asked.cuts:
                    return bytes(body[: asked.most]), True
                raise ToolError(f"{asked.there.host} sent more than {asked.most:,} bytes", code="too_large")
    except PackedError as error:
        raise ToolError(f"{asked.there.host} cannot be read: {error}", code="unavailable") from None
    return bytes(body), False
