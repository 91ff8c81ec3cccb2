"""The gateway over HTTP: whether it lives, and one call of a tool; nothing else without a credential."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

import orjson
from starlette.types import Receive, Scope, Send

from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import explain_forbidden
from toolcrib.define.ports import Rpc

from .credentials import Credentials, Principal, RefusedError

_MAX_BODY_BYTES = 1_048_576
_STATUS = {"not_found": 404, "denied": 403, "unavailable": 503, "busy": 503}


Answer = Callable[[Scope, Receive], Awaitable[tuple[int, Any]]]


class HttpError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.kind = status, kind


class Gate(Protocol):
    """The gateway, as far as a request needs it."""

    credentials: Credentials
    is_ready: bool

    def address_of(self, scope: Scope, /) -> str:
        """Return where a request comes from."""

    def admit(self, address: str, params: Mapping[str, Any], /) -> Principal:
        """Return who shows these secrets; raise RefusedError when nobody does."""

    def rpc_for(self, principal: Principal, /) -> Rpc:
        """Return the methods, bound to who is asking."""


class HttpDoor:
    """Answers requests. What goes wrong is a JSON object with a type and a sentence."""

    def __init__(self, server: Gate) -> None:
        self._server = server
        self._routes: Mapping[str, tuple[str, Answer]] = {
            "/health": ("GET", self._health),
            "/ready": ("GET", self._ready),
            "/tools/invoke": ("POST", self._invoke),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, value = await self._find(scope)(scope, receive)
        except HttpError as error:
            await self.refuse(error.status, error.kind, str(error), send)
        else:
            await _send_json(status, value, send)

    def _find(self, scope: Scope) -> Answer:
        method, answer = self._routes.get(scope["path"], ("", None))
        if answer is None:
            raise HttpError(404, "not_found", "there is nothing here")
        if scope["method"] != method and (scope["method"], method) != ("HEAD", "GET"):
            raise HttpError(405, "method_not_allowed", f"this is asked with {method}")
        return answer

    async def refuse(self, status: int, kind: str, sentence: str, send: Send) -> None:
        """Answer with an error."""
        await _send_json(status, {"ok": False, "error": {"type": kind, "message": sentence}}, send)

    def admits(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Tell whether a request shows a credential that counts."""
        try:
            self._server.credentials.admit(_auth_from(headers))
        except RefusedError:
            return False
        return True

    async def _health(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        return 200, {"ok": True, "status": "live"}

    async def _ready(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        is_ready = self._server.is_ready
        return (200 if is_ready else 503), {"ok": is_ready, "status": "ready" if is_ready else "starting"}

    async def _invoke(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        principal = self._principal(scope)
        body = await _read_json(scope, receive)
        name, args = body.get("tool"), body.get("args", {})
        if not isinstance(name, str) or not name.strip():
            raise HttpError(400, "invalid_request", 'say which tool: {"tool": NAME, "args": {...}}')
        if not isinstance(args, dict):
            raise HttpError(400, "invalid_request", "args is an object")
        action = body.get("action")
        if isinstance(action, str):
            args = {"action": action, **args}
        key = body.get("sessionKey") or "main"
        params = {"tool": name, "args": args, "sessionKey": str(key), "dryRun": bool(body.get("dryRun", False))}
        if why := explain_forbidden("tools.call", principal.role, principal.scopes, "write"):
            raise HttpError(403, "forbidden", why)
        try:
            told = await self._server.rpc_for(principal)("tools.call", params)
        except ToolError as error:
            raise HttpError(_STATUS.get(error.code, 400), error.code, str(error)) from None
        if told.get("status") == "error":
            denied = told["verdict"]["decision"] == "deny"
            sentence = told["content"][0]["text"] if told["content"] else "it failed"
            raise HttpError(404 if denied else 400, "not_found" if denied else "tool_error", sentence)
        return 200, {"ok": True, "result": told}

    def _principal(self, scope: Scope) -> Principal:
        address = self._server.address_of(scope)
        try:
            return self._server.admit(address, {"auth": _auth_from(scope["headers"])})
        except RefusedError as error:
            status = 429 if str(error) == "rate_limited" else 401
            raise HttpError(
                status, "unauthorized", f"show a credential: Authorization: Bearer TOKEN ({error})"
            ) from None


def _auth_from(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    given = [value.decode("latin-1") for name, value in headers if name.lower() == b"authorization"]
    scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return {"token": secret.strip(), "password": secret.strip()} if scheme.lower() == "bearer" and secret else {}


async def _read_json(scope: Scope, receive: Receive) -> dict[str, Any]:
    named = dict(scope["headers"])
    kind = named.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise HttpError(415, "unsupported_media_type", "the body is JSON: Content-Type: application/json")
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            raise HttpError(413, "too_large", f"a body has at most {_MAX_BODY_BYTES:,} bytes")
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            break
    try:
        value = orjson.loads(bytes(body))
    except ValueError:
        raise HttpError(400, "invalid_request", "the body is no JSON") from None
    if not isinstance(value, dict):
        raise HttpError(400, "invalid_request", "the body is an object")
    return value


async def _send_json(status: int, value: Any, send: Send) -> None:
    body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    headers = [
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"),
    ]  # fmt: skip
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
