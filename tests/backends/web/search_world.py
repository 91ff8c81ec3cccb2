"""Search services on loopback that hold requests against their documentation, and the way to them."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import orjson
from tests.sockets import listening

from toolcrib.define.errors import ToolError
from toolcrib.define.web import PAGE_BYTES, Page

__all__ = ["KEYS", "Answer", "Asked", "PlainHttp", "Terms", "brave", "grok", "perplexity", "serving"]

KEYS = {"brave": "BSAqqqqq-7", "direct": "pplx-qqqqqqq", "openrouter": "sk-or-v1-qqqqq", "grok": "xai-qqqqqqqq"}
Answer = tuple[int, Any]


@dataclass(frozen=True)
class Terms:
    """What the configuration says."""

    provider: str | None = None
    api_key: str | None = None
    base_url: str | None = None
    model: str | None = None
    folder: str | None = None


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass
class PlainHttp:
    """A way out without a guard: every address but those below `base` is refused."""

    base: str
    urls: list[str] = field(default_factory=list)

    def judge_with(self, judge: Callable[[str], None], /) -> "PlainHttp":
        raise NotImplementedError

    async def get(self, url: str, /, **terms: Any) -> Page:
        return await self.send("GET", url, **terms)

    async def send(
        self,
        method: str,
        url: str,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        most: int = PAGE_BYTES,
        **terms: Any,
    ) -> Page:
        assert url.startswith(self.base)
        self.urls.append(url)
        async with (
            httpx2.AsyncClient(trust_env=False) as client,
            client.stream(method, url, headers=dict(headers or {}), content=body) as answer,
        ):
            got = b""
            async for piece in answer.aiter_bytes():
                got += piece
                if len(got) > most:
                    raise ToolError(f"the answer is longer than {most} bytes", code="too_large")
            return Page(url=url, status=answer.status_code, headers=dict(answer.headers), body=got)


@asynccontextmanager
async def serving(answer: Callable[[Asked], Answer]) -> AsyncIterator[str]:
    """Answer every request; yields the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        sent = await reader.readexactly(int(headers.get("content-length", 0)))
        parts = urlsplit(target)
        params = dict(parse_qsl(parts.query, strict_parsing=True, keep_blank_values=True)) if parts.query else {}
        asked = Asked(method, parts.path, params, headers, orjson.loads(sent) if sent else None)
        status, value = answer(asked)
        is_raw = isinstance(value, bytes)
        told = value if isinstance(value, bytes) else orjson.dumps(value)
        kind = "text/html" if is_raw else "application/json"
        head = f"HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {len(told)}\r\nconnection: close"
        writer.write(f"{head}\r\n\r\n".encode() + told)
        await writer.drain()

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}"


_DAY = r"\d{4}-\d{2}-\d{2}"
_BRAVE_PARAMS = {
    "q": r"(?s).{1,400}",
    "count": r"[1-9]|1[0-9]|20",
    "country": r"[A-Z]{2}|ALL",
    "search_lang": r"[a-z]{2}(-[a-z]{2,4})?",
    "ui_lang": r"[a-z]{2}-[A-Z]{2}",
    "freshness": rf"pd|pw|pm|py|{_DAY}to{_DAY}",
}


def brave(asked: Asked) -> Answer:
    """Answer as the Brave Search API does."""
    if (asked.method, asked.path) != ("GET", "/res/v1/web/search"):
        return 404, {"type": "ErrorResponse", "error": {"code": "NOT_FOUND", "detail": "There is no such path."}}
    if asked.headers.get("x-subscription-token") != KEYS["brave"]:
        detail = "The provided subscription token is invalid."
        return 422, {"type": "ErrorResponse", "error": {"code": "SUBSCRIPTION_TOKEN_INVALID", "detail": detail}}
    bad = [name for name, value in asked.params.items() if not re.fullmatch(_BRAVE_PARAMS.get(name, "(?!)"), value)]
    if bad or "q" not in asked.params or len(asked.params["q"].split()) > 50:
        detail = f"Unable to validate request parameter(s): {', '.join(bad)}"
        return 422, {"type": "ErrorResponse", "error": {"code": "VALIDATION", "detail": detail, "status": 422}}
    rows = [
        {
            "type": "search_result",
            "title": f"Nuts &amp; <strong>{asked.params['q']}</strong> &lt;{number}&gt;",
            "url": f"https://nuts.test/{number}",
            "description": "Where <strong>nuts</strong>\n   grow.",
            "age": "3 days ago",
            "page_age": "2026-11-15T10:00:00",
            "meta_url": {"scheme": "https", "netloc": "nuts.test", "hostname": "nuts.test", "path": f"› {number}"},
            "family_friendly": True,
        }
        for number in range(1, int(asked.params.get("count", "20")) + 1)
    ]
    return 200, {"type": "search", "query": {"original": asked.params["q"]}, "web": {"type": "search", "results": rows}}


_PERPLEXITY_FIELDS = {
    "model", "messages", "search_recency_filter", "search_after_date_filter", "search_before_date_filter",
    "web_search_options",
}  # fmt: skip


def perplexity(asked: Asked, *, is_direct: bool = True) -> Answer:
    """Answer as Perplexity does, or OpenRouter for it."""
    body, path = asked.body, "/chat/completions" if is_direct else "/api/v1/chat/completions"
    if (asked.method, asked.path, asked.params) != ("POST", path, {}):
        return 404, b"<html>not found</html>"
    if asked.headers.get("authorization") != f"Bearer {KEYS['direct' if is_direct else 'openrouter']}":
        return 401, {"error": {"message": "Invalid API key provided", "type": "invalid_api_key", "code": 401}}
    models = ("sonar", "sonar-pro") if is_direct else ("perplexity/sonar", "perplexity/sonar-pro")
    turn = body["messages"][-1]
    dates = [body[name] for name in ("search_after_date_filter", "search_before_date_filter") if name in body]
    is_good = (
        body.keys() <= (_PERPLEXITY_FIELDS if is_direct else {"model", "messages"})
        and body["model"] in models
        and (turn["role"], type(turn["content"])) == ("user", str)
        and body.get("search_recency_filter", "day") in ("hour", "day", "week", "month", "year")
        and all(re.fullmatch(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}", each) for each in dates)
        and not ("search_recency_filter" in body and dates)
    )
    if not is_good:
        return 400, {"error": {"message": "the request does not validate", "type": "bad_request", "code": 400}}
    message: dict[str, Any] = {"role": "assistant", "content": "Nuts grow on trees[1], and in the ground[2]."}
    pages = ["https://trees.test/", "https://ground.test/"]
    answer = {"id": "1", "model": body["model"], "object": "chat.completion", "usage": {"total_tokens": 9}}
    if is_direct:
        answer |= {"citations": pages, "search_results": [{"title": "t", "url": url, "date": None} for url in pages]}
    else:
        noted = [{"type": "url_citation", "url_citation": {"url": url, "title": "t"}} for url in pages]
        message["annotations"] = noted
    return 200, {**answer, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}


def grok(asked: Asked) -> Answer:
    """Answer as xAI's responses do."""
    if (asked.method, asked.path, asked.params) != ("POST", "/v1/responses", {}):
        return 404, b""
    if asked.headers.get("authorization") != f"Bearer {KEYS['grok']}":
        return 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***qq."}
    body = asked.body
    turn = body["input"][-1]
    if body.keys() != {"model", "input", "tools", "store"} or body["tools"] != [{"type": "web_search"}]:
        return 422, {"code": "invalid", "error": "the request does not validate"}
    if not body["model"].startswith("grok-") or turn.keys() != {"role", "content"} or turn["role"] != "user":
        return 422, {"code": "invalid", "error": "the request does not validate"}
    notes = [
        {"type": "url_citation", "url": url, "start_index": 0, "end_index": 4, "title": "1"}
        for url in ("https://trees.test/", "https://ground.test/", "https://trees.test/")
    ]
    words = {"type": "output_text", "text": "Nuts grow on trees.", "annotations": notes, "logprobs": None}
    call = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "nuts"},
    }
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [words]}
    return 200, {
        "id": "1",
        "object": "response",
        "model": body["model"],
        "output": [call, message],
        "status": "completed",
    }
