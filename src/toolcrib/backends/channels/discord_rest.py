"""Requests to Discord, by REST: no faster than it allows, and each failure in one sentence."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import orjson

from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http, pack_form

from .hosted import to_wait

_SECONDS = 30.0
_MAX_ROUTES = 1_000
_COMPLAINT_CHARS = 300
_AGENT = "DiscordBot (toolcrib, 1)"


class DiscordRest:
    """What one bot asks Discord."""

    def __init__(self, token: str, base: str, http: Http) -> None:
        self._token, self._base, self._http = token, base, http
        self._free_at: dict[str, float] = {}  # by route: when it takes more

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, file: bytes | None = None
    ) -> Any:
        """Return the answer; on a rate limit, wait as long as the service says and ask again."""
        route = f"{method} {'/'.join(path.partition('?')[0].split('/')[:4])}"
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._free_at.pop(route, 0.0) - loop.time()))
        kind, packed = "application/json", b"" if body is None else orjson.dumps(body)
        if file is not None and body is not None:
            fields = {"payload_json": packed.decode()}
            kind, packed = pack_form(fields, "files[0]", body["attachments"][0]["filename"], file)
        headers = {"authorization": f"Bot {self._token}", "user-agent": _AGENT}
        if packed:
            headers["content-type"] = kind
        url = f"{self._base}{path}"
        page = await self._http.send(method, url, headers=headers, body=packed, seconds=_SECONDS)
        if page.headers.get("x-ratelimit-remaining") == "0" and len(self._free_at) < _MAX_ROUTES:
            self._free_at[route] = loop.time() + to_wait(page.headers.get("x-ratelimit-reset-after"))
        if page.status == 204:
            return {}
        answer = page.read_json()
        if 200 <= page.status < 300:
            return answer
        answer = answer if isinstance(answer, dict) else {}
        why = strip_to_line(str(answer.get("message", f"status {page.status}")))[:_COMPLAINT_CHARS]
        if page.status == 429:
            await asyncio.sleep(to_wait(answer.get("retry_after", page.headers.get("retry-after"))))
            raise ToolError(f"discord takes no more for now: {why}", code="busy")
        if page.status >= 500:
            raise ToolError(f"discord is out of order: {why}", code="unavailable")
        hint = "; check channels.discord.token" if page.status == 401 else ""
        raise ToolError(f"discord refused it: {why}{hint}", code="not_found" if page.status == 404 else "denied")


def to_snowflake(value: Any, name: str) -> str:
    """Return a number of Discord's: nothing else has a place in a path."""
    text = str(value or "").strip()
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise ToolError(f"{name} is to be a number of Discord's, not {text[:40]!r}", code="bad_arguments")
    return text
