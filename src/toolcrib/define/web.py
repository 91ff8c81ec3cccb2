"""What a tool asks the web for, and what comes back: a `Page`, through the port `Http`; and what is searched for.

    page = await ctx.http.get("https://example.com/feed", max_age=900)
    page = await ctx.http.send("POST", api, headers={"authorization": f"Bearer {ctx.secret('SHOP')}"}, body=b"{}")

What `ctx.secret` returns stands for a secret and is none: the way out puts the value into headers and bodies, after the
address was judged, and nothing sees it before or after.
"""

import codecs
import re
from collections.abc import Callable, Mapping
from datetime import date
from secrets import token_hex
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from toolcrib.lazy import dataclass, field, regex

from .egress import EgressRules

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

PAGE_BYTES = 10 * 1024 * 1024
PAGE_SECONDS = 30.0

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_CHARSET = regex(r"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_HEAD_BYTES = 2_048  # of a page, in which it may say how it is written
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# what browsers read under these names
_MEANT = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What an address answered.

    `url` is where that was after all redirects, without a password; the names of `headers` are in lower case. `is_cut`
    tells that only the beginning of the body is here, `age` how many seconds ago a kept copy was fetched, None: now.
    """

    url: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_cut: bool = False
    age: float | None = None

    @property
    def media_type(self) -> str:
        """The media type, like `text/html`; empty when there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def read_json(self) -> Any:
        """Return what the body holds as JSON; None where it is none."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def text(self) -> str:
        """The body as text: by its mark, by what the answer or the page itself says, else as it can be read."""
        mark = next((name for mark, name in _MARKS if self.body.startswith(mark)), "")
        charsets = [*_CHARSET.findall(self.headers.get("content-type", ""))]
        charsets += _CHARSET.findall(self.body[:_HEAD_BYTES].decode("ascii", "replace")) if not charsets else []
        for name in filter(None, (mark, *charsets[:1])):
            try:
                return self.body.decode(_MEANT.get(name.lower(), name), "replace")
            except (LookupError, ValueError):  # no such encoding, or none of text
                continue
        try:
            return codecs.getincrementaldecoder("utf-8")().decode(self.body, final=not self.is_cut)
        except ValueError:
            return self.body.decode("cp1252", "replace")


def pack_form(fields: Mapping[str, str], field: str, filename: str, data: bytes, mime: str = "") -> tuple[str, bytes]:
    """Return the media type and the body of a form with one file."""
    boundary = token_hex(16)
    named = f"--{boundary}\r\nContent-Disposition: form-data; name="
    parts = [f'{named}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
    safe = re.sub(r'[\x00-\x1f"\\\x7f]', "_", filename)  # else it would end its own line
    parts.append(f'{named}"{field}"; filename="{safe}"\r\nContent-Type: {mime or "application/octet-stream"}\r\n\r\n')
    body = "".join(parts).encode() + data + f"\r\n--{boundary}--\r\n".encode()
    return f"multipart/form-data; boundary={boundary}", body


class Http(Protocol):
    """The way out to the web, guarded by address. A refusal or a failure is a ToolError of one sentence.

    Its codes: `denied` (a rule refused the address), `bad_address`, `timeout`, `too_large`, `unavailable`.
    """

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
        """Return what is there, whatever its status.

        A copy that is younger than `max_age` seconds will do; an older one is asked about, where the server can tell
        that it still holds. A body of more than `most` bytes is refused, or cut when `cuts`.
        """

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
        """Send a request of another kind, and return what it was answered."""

    def judge_with(self, judge: Callable[[str], None], /) -> "Http":
        """Return the same way out, on which `judge` hears every address before it is asked; it raises to refuse one."""


class WayOut(Protocol):
    """Every way out of one crib, by what the configuration says now."""

    @property
    def http(self) -> Http:
        """What tools reach the web through: each address is judged."""

    def rules(self) -> EgressRules:
        """Return the rules that count now."""

    async def explain(self, url: str, /) -> str:
        """Return a URL as it would be dialled; raise ToolError with the rule, or OSError. No connection is made."""

    async def explain_server(self, source: str, /) -> None:
        """Raise ToolError where `tools.hosts` does not let out to the server that is meant: `mcp:NAME`, or `search`."""

    def for_listed(self, url: str, /) -> Http:
        """Return the way to one server that the operator wrote down for a tool, if `tools.hosts` lets out to it."""

    def for_own(self, url: str, /) -> Http:
        """Return the way to one server that the operator wrote down, wherever it is, and to nothing else."""

    async def dial(self, host: str, port: int, /) -> "tuple[StreamReader, StreamWriter]":
        """Return a connection for bytes of any kind, to an address that was judged; raise ToolError for none."""

    async def dial_own(self, host: str, port: int, /) -> "tuple[StreamReader, StreamWriter]":
        """Return a connection to a server that the operator wrote down, wherever it is."""

    def secret(self, name: str, /) -> str:
        """Return what stands for a secret, which `http` puts there."""


_SPANS = ("pd", "pw", "pm", "py")
_DATES = regex(r"([0-9]{4}-[0-9]{2}-[0-9]{2})to([0-9]{4}-[0-9]{2}-[0-9]{2})")


def normalize_freshness(value: str) -> str | None:
    """Return how new results are to be, None when the value does not say it.

    It is pd, pw, pm or py (the past day, week, month or year), or two dates, like 2026-01-01to2026-01-31.
    """
    text = value.strip()
    if text.lower() in _SPANS:
        return text.lower()
    dates = _DATES.fullmatch(text)
    try:
        return text if dates and date.fromisoformat(dates[1]) <= date.fromisoformat(dates[2]) else None
    except ValueError:  # the thirtieth of February
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebQuery:
    """What is searched for; "" where anything will do. `freshness` is as `normalize_freshness` returns it."""

    words: str
    count: int = 5
    country: str = ""
    search_lang: str = ""
    ui_lang: str = ""
    freshness: str = ""


class SearchProvider(Protocol):
    """Who is asked. `is_cacheable` tells whether an answer may be given again a little later."""

    @property
    def name(self) -> str: ...
    @property
    def is_cacheable(self) -> bool: ...

    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        """Return `results`, or the `content` of an answer with its `model` and `citations`; ToolError when it fails."""
