"""The gateway over HTTP: whether it lives, calls of tools, webhooks, metrics, and what else is handed in."""

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

import orjson
from starlette.types import Message, Receive, Scope, Send

from toolcrib.config.services import HookSettings
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import InboundAnswer, InboundRequest
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import HOOK_CHANNEL, explain_forbidden
from toolcrib.define.names import suggest
from toolcrib.define.ports import Progress, Rpc, Why, check_why
from toolcrib.define.ports import Scope as Needed
from toolcrib.lazy import dataclass, regex
from toolcrib.services.revocation import LiveWork, mark_secret

from .credentials import Credentials, Failures, Principal, RefusedError, matches, read_page_token
from .frames import MAX_FRAME_DEPTH, is_deeper

log = logging.getLogger("toolcrib")

_MAX_BODY_BYTES = 1_048_576
_STATUS = {"not_found": 404, "denied": 403, "unavailable": 503, "busy": 409}
_MAY_RETRY = (429, 503)
_HOOKS, _CHANNELS = APART = "/hooks/", "/channels/"  # where other secrets are shown than ours
_HOOK_NAME = regex(r"[a-z0-9][a-z0-9_-]{0,63}")
_TOKEN_HEADERS = (b"x-toolcrib-token", b"x-openclaw-token")  # where a hook cannot send a bearer
_KINDS = {str: "text", dict: "an object", bool: "true or false"}
_INVOKE_KEYS = {"tool": str, "action": str, "args": dict, "sessionKey": str, "dryRun": bool}


class Raw(NamedTuple):
    """A body that is no JSON: its type, its bytes, at once or as they come, and headers of its own."""

    kind: str
    body: bytes | AsyncGenerator[bytes]
    headers: Mapping[str, str] = {}


HttpAnswer = Callable[[Scope, Receive], Awaitable[tuple[int, Any]]]


@dataclass(frozen=True, slots=True)
class HttpRoute:
    """How a path is answered: the HTTP methods, with blanks between them, and why guests may ask there."""

    methods: str
    answer: HttpAnswer
    why: Why = ""

    def __post_init__(self) -> None:
        check_why(f"the route to {self.answer!r}", self.why)


class HttpError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, kind: str, sentence: str, **more: Any) -> None:
        super().__init__(sentence)
        self.status, self.kind, self._more = status, kind, more

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON."""
        error = {"type": self.kind, "message": str(self), "code": self.kind, "param": None}
        return {"ok": False, "error": error, **self._more}


class Askers:
    """Who waits for an answer over HTTP: it ends when they may ask no more."""

    def __init__(self) -> None:
        self._callers = dict[asyncio.Task[Any] | None, Caller]()
        self._turned_out = set[asyncio.Task[Any] | None]()

    def note(self, caller: Caller) -> None:
        """Take note of who is answered here."""
        self._callers[asyncio.current_task()] = caller

    def list_live(self) -> list[LiveWork]:
        """Return every answer that somebody waits for."""
        return [LiveWork(caller, partial(self._turn_out, task)) for task, caller in self._callers.items() if task]

    def _turn_out(self, task: "asyncio.Task[Any]") -> None:
        self._turned_out.add(task)
        task.cancel()

    async def serve(self, answer: Callable[[Send], Awaitable[None]], send: Send) -> None:
        """Let a request be answered, until whoever asked may not any more."""
        task, is_begun = asyncio.current_task(), False

        async def tell(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await answer(tell)
        except asyncio.CancelledError:
            if task is None or task not in self._turned_out:
                raise
            task.uncancel()
            if is_begun:
                await send({"type": "http.response.body", "body": b""})
            else:
                await send_json(401, HttpError(401, "unauthorized", "the credential was taken back").to_json(), send)
        finally:
            self._callers.pop(task, None)
            self._turned_out.discard(task)


class Gate(Protocol):
    """The gateway, as far as a request needs it; `GatewayServer` says what each of these does."""

    credentials: Credentials
    failures: Failures
    askers: Askers
    is_ready: bool

    def address_of(self, scope: Scope, /) -> str: ...
    def identify(self, scope: Scope, /) -> Principal | RefusedError: ...
    def introduce(self, scope: Scope, principal: Principal, /) -> bool: ...
    def rpc_for(self, principal: Principal, /) -> Rpc: ...


class HttpDoor:
    """Answers requests. What goes wrong is a JSON object with a type and a sentence."""

    def __init__(self, server: Gate, more: Mapping[str, HttpRoute] | None = None) -> None:
        self._server, self._counts = server, Counter[tuple[str, int]]()
        self.routes: Mapping[str, HttpRoute] = {
            "/health": HttpRoute("GET", self._health, "harmless"),
            "/ready": HttpRoute("GET", self._ready, "harmless"),
            "/metrics": HttpRoute("GET", self._metrics, "harmless"),
            "/tools/invoke": HttpRoute("POST", self._invoke, "gate"),
            **(more or {}),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["path"] in self.routes else _parent(scope["path"])
        try:
            status, value = await self._find(scope)(scope, receive)
            self._counts[path, status] += 1
        except HttpError as error:
            self._counts[path if path in self.routes else "other", error.status] += 1
            await send_json(error.status, error.to_json(), send)
        except Exception:
            log.exception("the request for %s failed", scope["path"][:200].encode("unicode_escape").decode())
            await self.refuse(500, "failed", "the request failed; the log of the gateway says why", send)
        else:
            await (_send_raw(status, value, send) if isinstance(value, Raw) else send_json(status, value, send))

    def _find(self, scope: Scope) -> HttpAnswer:
        found = self.routes.get(scope["path"]) or self.routes.get(_parent(scope["path"]))
        if found is None:
            raise HttpError(404, "not_found", "there is nothing here")
        methods = found.methods.split()
        if scope["method"] not in methods and (scope["method"], methods) != ("HEAD", ["GET"]):
            raise HttpError(405, "method_not_allowed", f"this is asked with {' or '.join(methods)}")
        return found.answer

    async def refuse(self, status: int, kind: str, sentence: str, send: Send) -> None:
        """Answer with an error."""
        await send_json(status, HttpError(status, kind, sentence).to_json(), send)

    async def _health(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        return 200, {"ok": True, "status": "live"}

    async def _ready(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        is_ready = self._server.is_ready
        return (200 if is_ready else 503), {"ok": is_ready, "status": "ready" if is_ready else "starting"}

    async def _metrics(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        """Tell how it stands, in the text format of Prometheus; sessions are those that the caller may see."""
        principal = admit(self._server, scope, "status", "read")
        status = await ask(self._server, principal, "status", {})
        lines = [
            "# TYPE toolcrib_uptime_seconds gauge", f"toolcrib_uptime_seconds {status['uptimeMs'] / 1000}",
            "# TYPE toolcrib_sessions gauge", f"toolcrib_sessions {status['sessions']['count']}",
            "# TYPE toolcrib_connections gauge", f"toolcrib_connections {status.get('connections', 1)}",
            "# TYPE toolcrib_max_resident_bytes gauge",
            f"toolcrib_max_resident_bytes {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}",
            "# TYPE toolcrib_http_requests_total counter",
        ]  # fmt: skip
        for (path, code), count in sorted(self._counts.items()):
            lines.append(f'toolcrib_http_requests_total{{path="{path}",status="{code}"}} {count}')
        return 200, Raw("text/plain; version=0.0.4; charset=utf-8", "\n".join([*lines, ""]).encode())

    async def _invoke(self, scope: Scope, receive: Receive) -> tuple[int, Any]:
        principal = admit(self._server, scope, "tools.call", "write")
        body = await read_json(scope, receive)
        for key, value in body.items():  # a word that is not understood might have been to say: do not run it
            if (kind := _INVOKE_KEYS.get(key)) is None:
                raise HttpError(400, "invalid_request", f"there is no {key[:64]!r} here{suggest(key, _INVOKE_KEYS)}")
            if not isinstance(value, kind):
                raise HttpError(400, "invalid_request", f"{key} is {_KINDS[kind]}")
        if not body.get("tool", "").strip():
            raise HttpError(400, "invalid_request", 'say which tool: {"tool": NAME, "args": {...}}')
        args = {**({"action": body["action"]} if "action" in body else {}), **body.get("args", {})}
        params = {"tool": body["tool"], "args": args, "dryRun": body.get("dryRun", False)}
        params["sessionKey"] = body.get("sessionKey", "main")
        result = await _stop_when_gone(ask(self._server, principal, "tools.call", params), receive)
        if result.get("status") == "error":
            denied = result["verdict"]["decision"] == "deny"
            sentence = result["content"][0]["text"] if result["content"] else "it failed"
            raise HttpError(404 if denied else 400, "not_found" if denied else "tool_error", sentence, result=result)
        return 200, {"ok": True, "result": result}


def admit(server: Gate, scope: Scope, method: str, needed: Needed) -> Principal:
    """Return who asks, by the credential alone; raise HttpError unless it may call this method."""
    principal = server.identify(scope)
    if isinstance(principal, RefusedError):
        status = 429 if str(principal) == "rate_limited" else 401
        raise HttpError(status, "unauthorized", f"show a credential: Authorization: Bearer TOKEN ({principal})")
    if not server.introduce(scope, principal):
        raise HttpError(429, "busy", "this credential has too many connections; close one of them first")
    if why := explain_forbidden(method, principal.role, principal.scopes, needed):
        raise HttpError(403, "forbidden", why)
    server.askers.note(principal.caller)
    return principal


async def ask(
    server: Gate, principal: Principal, method: str, params: Mapping[str, Any], progress: Progress | None = None
) -> Any:
    """Return what a method answers; raise HttpError with its sentence when it refuses."""
    try:
        return await server.rpc_for(principal)(method, params, progress=progress)
    except ToolError as error:
        raise HttpError(_STATUS.get(error.code, 400), error.code, str(error)) from None


async def wait_until_gone(receive: Receive) -> None:
    """Wait until whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stop_when_gone(asking: Coroutine[Any, Any, Any], receive: Receive) -> Any:
    """Return the answer; a call whose asker has gone is stopped, as it is over a socket: nobody would hear of it."""
    working, gone = asyncio.ensure_future(asking), asyncio.ensure_future(wait_until_gone(receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        gone.cancel()
        working.cancel()
        await asyncio.wait((working, gone))
    raise HttpError(499, "client_closed_request", "whoever asked has gone")


def _parent(path: str) -> str:
    """Return the folder that a path is in: /hooks/ for /hooks/mail, "" for what is in none; / is the page alone."""
    folder = path.rpartition("/")[0]
    return folder and f"{folder}/"


def secret_from(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return what a request shows as its bearer, "" for nothing."""
    given = [value.decode("latin-1") for name, value in headers if name.lower() == b"authorization"]
    scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return secret.strip() if scheme.lower() == "bearer" else ""


def find_header(scope: Scope, wanted: bytes) -> str:
    """Return a header of a request, "" for none."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


def auth_from(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    if secret := secret_from(headers):
        return {"token": secret, "password": secret}
    return {"token": page} if (page := read_page_token(headers)) else {}


async def read_body(receive: Receive) -> bytes:
    """Return what a request brings; raise HttpError when it is too long, or breaks off."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":  # half of an order is none
            raise HttpError(499, "client_closed_request", "whoever asked has gone before all of it was here")
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            raise HttpError(413, "too_large", f"a body has at most {_MAX_BODY_BYTES:,} bytes")
        if not message.get("more_body"):
            return bytes(body)


async def read_json(scope: Scope, receive: Receive) -> dict[str, Any]:
    """Return the object that a request brings; raise HttpError when it brings none."""
    if find_header(scope, b"content-type").partition(";")[0].strip().lower() != "application/json":
        raise HttpError(415, "unsupported_media_type", "the body is JSON: Content-Type: application/json")
    try:
        value = orjson.loads(await read_body(receive))
    except ValueError:
        raise HttpError(400, "invalid_request", "the body is no JSON") from None
    if not isinstance(value, dict):
        raise HttpError(400, "invalid_request", "the body is an object")
    if is_deeper(value, MAX_FRAME_DEPTH):
        raise HttpError(400, "invalid_request", f"the body is nested more than {MAX_FRAME_DEPTH} deep")
    return value


async def send_json(status: int, value: Any, send: Send) -> None:
    """Answer with JSON."""
    body = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    await _send_raw(status, Raw("application/json", body), send)


async def _send_raw(status: int, raw: Raw, send: Send) -> None:
    defaults = {"content-type": raw.kind, "cache-control": "no-store", "x-content-type-options": "nosniff"}
    defaults["content-security-policy"] = "default-src 'none'; frame-ancestors 'none'"
    headers = [(name.encode(), value.encode("latin-1")) for name, value in {**defaults, **raw.headers}.items()]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status >= 400 and status not in _MAY_RETRY:  # a client library must not ask for the same effects again
        headers.append((b"x-should-retry", b"false"))
    if isinstance(raw.body, bytes):
        headers.append((b"content-length", str(len(raw.body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if isinstance(raw.body, bytes):
        await send({"type": "http.response.body", "body": raw.body})
        return
    async with aclosing(raw.body) as pieces:
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def hook_routes(server: Gate, settings: Callable[[], HookSettings]) -> Mapping[str, HttpRoute]:
    """Return what is answered below /hooks/; the settings are asked for with every request.

    What another program posts there is looked at by an agent, fenced. The caller is the hook, never the owner, in the
    session `hook:<name>`, and the token of hooks opens nothing else. Wrong ones are counted apart, and lock nobody out.
    """

    failures = Failures()

    async def run(scope: Scope, receive: Receive) -> tuple[int, Any]:
        principal = _admit_hook(settings(), scope, partial(failures.add, server.address_of(scope)))
        text = (await read_body(receive)).decode("utf-8", "replace")
        name = str(principal.caller.session).rpartition(":")[2]
        key = find_header(scope, b"idempotency-key")
        params = {"name": name, "text": text, "idempotencyKey": key and f"{name}:{key}"}
        return 202, {"ok": True, **await ask(server, principal, "hooks.run", params)}

    return {_HOOKS: HttpRoute("POST", run, "turn")}


def channel_routes(
    server: Gate, receive_for: Callable[[str, InboundRequest], Awaitable[InboundAnswer | None]]
) -> Mapping[str, HttpRoute]:
    """Return what is answered below /channels/: the channel itself decides who it listens to.

    Wrong signatures are counted apart: anybody may send them here, and they lock nobody out of the gateway.
    """
    failures = Failures()

    async def pass_on(scope: Scope, receive: Receive) -> tuple[int, Any]:
        name = scope["path"].removeprefix(_CHANNELS)
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        request = InboundRequest(scope["method"], query, headers, await read_body(receive))
        answer = await receive_for(name, request)
        if answer is None:
            raise HttpError(404, "not_found", "there is nothing here")
        if answer.status == 403:
            raise HttpError(429 if failures.add(server.address_of(scope)) else 403, "forbidden", answer.body)
        return answer.status, Raw("text/plain; charset=utf-8", answer.body.encode())

    return {_CHANNELS: HttpRoute("GET POST", pass_on, "turn")}


def _admit_hook(settings: HookSettings, scope: Scope, add_failure: Callable[[], bool]) -> Principal:
    """Return the hook that is meant, when its token is shown."""
    name = scope["path"].removeprefix(_HOOKS)
    if not settings.enabled or settings.token is None:
        raise HttpError(404, "not_found", "there is nothing here")
    given = secret_from(scope["headers"]) or next(
        filter(None, (find_header(scope, each) for each in _TOKEN_HEADERS)), ""
    )
    if not given or not matches(given, settings.token):
        sentence = "show the token of hooks, Authorization: Bearer TOKEN; never in the address"
        raise HttpError(429 if given and add_failure() else 401, "unauthorized", sentence)
    if not _HOOK_NAME.fullmatch(name):
        raise HttpError(404, "not_found", "a hook's name is made of a-z, 0-9, _ and -")
    home = f"agent:{settings.agents.get(name, 'main')}:hook:{name}"
    mark = f"{HOOK_CHANNEL}:{mark_secret(settings.token)}"
    caller = Caller(channel=HOOK_CHANNEL, sender=Sender(id=f"hook:{name}"), owner=False, session=home, door=mark)
    return Principal(f"hook:{name}", "operator", frozenset({"operator.write"}), caller)
