"""A server that wants people to sign in, the authorization server that it trusts, and a browser."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

from tests.backends.mcp.liar import ECHO, text
from tests.sockets import listening

TOKEN, REFRESH = "first-access-token", "first-refresh-token"
Answer = tuple[int, dict[str, str], bytes]


def to_json(value: Any, status: int = 200, **headers: str) -> Answer:
    return status, {"content-type": "application/json", **headers}, json.dumps(value).encode()


class Site:
    """Answers by path; `changed` holds what is answered otherwise, and `seen` every request."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[tuple[str, Mapping[str, str], str]] = []
        self.changed: dict[str, Answer] = {}

    def answer(self, path: str, headers: Mapping[str, str], body: str) -> Answer:
        return 404, {}, b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:]) if name}
        body = (await reader.readexactly(int(headers.get("content-length", "0")))).decode()
        path = head[0].split()[1]
        self.seen.append((path, headers, body))
        status, more, content = self.changed.get(path.partition("?")[0]) or self.answer(path, headers, body)
        lines = "".join(f"{name}: {value}\r\n" for name, value in more.items())
        writer.write(f"HTTP/1.1 {status} x\r\n{lines}content-length: {len(content)}\r\n".encode())
        writer.write(b"connection: close\r\n\r\n" + content)
        await writer.drain()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        async with listening(self.serve) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield

    def bodies(self, path: str) -> list[dict[str, str]]:
        return [{key: each[0] for key, each in parse_qs(body).items()} for at, _, body in self.seen if at == path]


class Authority(Site):
    """Registers clients, and gives tokens; the latest one counts. `back` changes what the browser brings back."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.scope = TOKEN, ""
        self.back: dict[str, str] = {}

    def metadata(self, **more: Any) -> dict[str, Any]:
        ends = {f"{name}_endpoint": f"{self.url}/{name}" for name in ("authorization", "token", "registration")}
        return {
            "issuer": self.url, **ends, "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"], **more,
        }  # fmt: skip

    def answer(self, path: str, headers: Mapping[str, str], body: str) -> Answer:
        match path.partition("?")[0]:
            case "/.well-known/oauth-authorization-server":
                return to_json(self.metadata())
            case "/registration":
                return to_json({**json.loads(body), "client_id": "c-1", "token_endpoint_auth_method": "none"}, 201)
            case "/authorization":
                asked = {key: each[0] for key, each in parse_qs(urlsplit(path).query).items()}
                self.scope = asked.get("scope", "")
                back = {"code": "the-code", "state": asked["state"], **self.back}
                return 302, {"location": f"{asked['redirect_uri']}?{urlencode(back)}"}, b""
            case "/token":
                return to_json({"access_token": self.token, "token_type": "Bearer", "refresh_token": REFRESH})
        return 404, {}, b""


class Resource(Site):
    """An MCP server with one tool, for who shows the token; `scope` is what a call of it needs besides."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self.authority, self.scope = authority, ""

    def answer(self, path: str, headers: Mapping[str, str], body: str) -> Answer:
        if path.startswith("/.well-known/oauth-protected-resource"):
            return to_json({"resource": f"{self.url}/mcp", "authorization_servers": [self.authority.url]})
        if path != "/mcp" or headers.get("authorization") != f"Bearer {self.authority.token}":
            return 401, {"www-authenticate": 'Bearer error="invalid_token"'}, b""
        message = json.loads(body) if body else {}
        match message.get("method"):
            case "initialize":
                said: Any = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "x"},
                }
            case "tools/list":
                said = {"tools": [ECHO]}
            case "tools/call":
                if self.scope not in self.authority.scope:
                    return 403, {"www-authenticate": f'Bearer error="insufficient_scope", scope="{self.scope}"'}, b""
                said = text(f"you showed {headers['authorization']}")
            case None:
                return 405, {}, b""
            case _:
                return 202, {}, b""
        return to_json({"jsonrpc": "2.0", "id": message["id"], "result": said})


@contextlib.asynccontextmanager
async def signing() -> AsyncIterator[tuple[Resource, Authority]]:
    """Open both, each at an origin of its own."""
    authority = Authority()
    resource = Resource(authority)
    async with authority.open(), resource.open():
        yield resource, authority


class Browser:
    """A person who follows wherever a page leads."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def show(self, url: str) -> None:
        self.pages.append(url)
        asyncio.get_running_loop().run_in_executor(None, lambda: urlopen(url).read())
