"""The gateway: one crib for terminals, pages and programs, over WebSocket and HTTP in one process."""

import asyncio
import contextlib
import ipaddress
import logging
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from toolcrib.app import Crib
from toolcrib.config.services import GatewaySettings
from toolcrib.define.device import Device, join_token
from toolcrib.define.display import escape
from toolcrib.define.egress import fold_origin, is_origin_of
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.gateway import GatewayEvent, scopes_within
from toolcrib.define.node import Node
from toolcrib.define.parts import MAX_FRAME_BYTES
from toolcrib.define.ports import Rpc
from toolcrib.define.ports import Scope as RpcScope
from toolcrib.define.schema.check import fit_to
from toolcrib.define.schema.portable import Check
from toolcrib.doors import listener
from toolcrib.lazy import dataclass, regex
from toolcrib.policy.resolve import person_of
from toolcrib.services.devices import is_code
from toolcrib.services.nodes import LiveNode
from toolcrib.services.revocation import OWNER_DOOR
from toolcrib.services.router import Method

from . import mcp, openai
from .canvas import CanvasHost
from .connection import GOING_AWAY, POLICY_VIOLATION, Connection
from .credentials import (
    OWNER_ID,
    Credentials,
    Failures,
    Principal,
    RefusedError,
    UnpairedError,
    Visit,
    check_device,
    client_address,
    is_from_here,
    read_device,
    read_page_cookie,
    to_network,
    to_principal,
)
from .frames import TICK_SECONDS
from .http import APART, Askers, HttpDoor, auth_from, channel_routes, hook_routes
from .page import page_routes

log = logging.getLogger("toolcrib")

_WATCH_SECONDS = 0.9  # what was taken back has no effect after a second
_QUESTION_SECONDS = 86_400.0  # that a question waits: whoever answers it may be asleep
_MAX_FRAGMENTS = 1_024  # of one message
_WORD = regex(r"[A-Za-z0-9._-]{1,64}")  # a capability or a command of a node
_LOCALHOST = regex(r"localhost", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """How patient it is with those it does not know, and how many it serves."""

    handshake_seconds: float = 10.0
    body_seconds: float = 25.0
    strangers: int = 128
    strangers_per_address: int = 32
    connections: int = 32  # of one guest; the owner's are not counted
    stop_seconds: float = 5.0


class GatewayServer:
    """Everybody who is connected to one crib."""

    def __init__(
        self,
        crib: Crib,
        credentials: Credentials,
        *,
        origins: Collection[str] = (),
        proxies: Collection[str] = (),
        limits: GatewayLimits | None = None,
    ) -> None:
        crib.gateway.lock_state()
        self.takes_auth = True  # whether gateway.auth counts, also when it comes by a reload
        self.crib, self.credentials, self._limits = crib, credentials, limits or GatewayLimits()
        self.handshake_seconds = self._limits.handshake_seconds
        self.methods: Mapping[str, Method] = crib.methods
        self._exact: dict[str, Check] = {}
        self.version, self.is_ready = version("toolcrib"), False
        self._take_origins(origins, proxies)
        self.failures, self.askers = Failures(), Askers()
        self._known: dict[str, Connection] = {}
        self._nodes: dict[str, LiveNode] = {}
        self._traffic = Counter[str]()
        self._canvas_host: CanvasHost | None = None
        self._strangers: dict[str, dict[Connection, None]] = {}
        inbound = {**hook_routes(self, lambda: crib.config.hooks), **channel_routes(self, crib.channels.receive)}
        page = page_routes(self, crib.devices, lambda from_: host.find(from_) if (host := self._canvas_host) else "")
        self.http = HttpDoor(self, {**page, **openai.routes(self), **inbound})
        self._mcp = mcp.McpDoor(self, crib)
        credentials.on_revoked(self._turn_out)
        credentials.on_revoked(self._mcp.turn_out)
        crib.revocations.watch(self.askers.list_live)
        crib.settings.on_change(self._take_settings)

    # the process

    async def serve(self, at: socket.socket, **patience: Any) -> None:
        """Serve until this is cancelled; then clients get `shutdown`, and runs have a few seconds to end."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it logs whole addresses
        async with self.live():
            self._canvas_host = canvas_host = CanvasHost(self.crib.canvases, at.getsockname()[:2])
            serving = listener.serve_app(
                self,
                at,
                max_strangers=self._limits.strangers,
                max_each=self._limits.connections,
                ws=_Socket,
                ws_max_size=MAX_FRAME_BYTES,
                ws_per_message_deflate=False,
                ws_ping_interval=None,
                **{"body_seconds": self._limits.body_seconds, **patience},
            )
            listening = asyncio.ensure_future(serving)
            try:
                await asyncio.shield(listening)
            finally:
                self._canvas_host = None
                await canvas_host.close()
                await self._say_goodbye()
                listening.cancel()
                await asyncio.wait([listening])

    @contextlib.asynccontextmanager
    async def live(self) -> AsyncIterator[None]:
        """Be there for clients: with a crib that has started, and ticks."""
        async with self.crib, self._mcp.live():
            await self.crib.devices.open(self.credentials.devices.values(), self.credentials.tell_ended)
            self.credentials.devices = self.crib.devices.known
            stop_listening = self.crib.gateway.bus.listen(self._broadcast)
            self.crib.approvals.answerers.list_devices = self.crib.devices.list_answering
            self.crib.approvals.wait_for(_QUESTION_SECONDS)
            stop_asking = self.crib.approvals.on_question(self.crib.gateway.tell_question)
            questions, calls = await self.crib.approvals.list_left(), await self.crib.calls.list_left()
            await self.crib.calls.drop(calls, await self.crib.chat.resume([*questions, *calls], self.crib.cron.rebind))
            ticking = [asyncio.ensure_future(each) for each in (self._tick(), self._watch())]
            self.crib.cron.start()
            await self.crib.channels.open()
            self.is_ready = True
            try:
                yield
            finally:
                self.is_ready = False
                for each in ticking:
                    each.cancel()
                stop_asking()
                stop_listening()
                self._log_traffic()

    async def _say_goodbye(self) -> None:
        """Tell everybody that it stops, let what runs come to its end if that is near, and close.

        A turn that waits for a person's answer, or for a call that is finished later, goes on when the gateway is there
        again.
        """
        self.is_ready = False
        self._broadcast(GatewayEvent("shutdown", {"reason": "the gateway stops"}))
        approvals, calls = self.crib.approvals, self.crib.calls
        await self.crib.chat.settle(self._limits.stop_seconds, besides=approvals.leave() | calls.leave())
        self.crib.chat.leave(approvals.leave() | calls.leave())
        connections = tuple(self._known.values())
        for connection in connections:
            connection.close(GOING_AWAY, "the gateway stops")
        if connections:
            await asyncio.wait([asyncio.ensure_future(each.ended.wait()) for each in connections], timeout=2.0)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._log_traffic()
            self._broadcast(GatewayEvent("tick", {"ts": self.crib.gateway.now_ms()}))

    async def _watch(self) -> None:
        """Look whether the owner's token, the configuration or the devices were changed from elsewhere."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            self.credentials.reread()
            if self.crib.settings.has_changed():
                self.reload()
            try:
                await self.crib.devices.refresh()
                await self.crib.revocations.review()
            except ToolError as error:
                log.warning("who is let in cannot be read: %s", error)

    def _log_traffic(self) -> None:
        """Say how many came and went since the last time: a line for all of them, however many there are."""
        if self._traffic:
            log.info("clients: %s", ", ".join(f"{count} {what}" for what, count in self._traffic.items() if count))
            self._traffic.clear()

    def reload(self) -> None:
        """Reload the configuration; one that cannot be used changes nothing, and the owner gets an event."""
        try:
            self.crib.settings.reload()
        except CribError as error:
            log.error("the configuration of before stays in force: %s", escape(str(error)))  # noqa: TRY400  it says where
            outcome: dict[str, Any] = {"ok": False, "error": str(error)}
        else:
            log.info("the configuration was read again")
            outcome = {"ok": True}
        self.crib.gateway.not_in_force = self.crib.settings.problem
        self.crib.gateway.bus.publish("config", outcome, "", lambda _: False)

    def _take_settings(self) -> None:
        self.crib.cron.clock.poke()  # heartbeats stand in them, too
        settings = self.crib.config.gateway or GatewaySettings()
        self._take_origins(settings.allowed_origins, settings.trusted_proxies)
        if settings.auth is not None and self.takes_auth:
            self.credentials.file = None
            self.credentials.replace_secret(settings.auth.mode, str(getattr(settings.auth, settings.auth.mode)))

    def _take_origins(self, origins: Collection[str], proxies: Collection[str]) -> None:
        self._origins, self._proxies = frozenset(map(fold_origin, origins)) - {""}, tuple(proxies)
        self._hosts = frozenset(urlsplit(origin).hostname or "" for origin in self._origins)

    def _broadcast(self, event: GatewayEvent) -> None:
        if len(self._known) > 1:  # written once for all of them
            event = event._replace(payload=orjson.Fragment(orjson.dumps(event.payload)))
        for connection in tuple(self._known.values()):
            connection.tell(event)

    # requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None and not scope["path"].startswith(APART):  # a wrong secret counts, whatever is asked for
            self.identify(scope)
        if scope["type"] == "http":
            if refusal is not None:
                await self.http.refuse(403, "forbidden", refusal, send)
            elif scope["path"] == mcp.MCP_PATH:
                await self.askers.serve(partial(self._mcp, scope, receive), send)
            else:
                await self.askers.serve(partial(self.http, scope, receive), send)
        elif scope["type"] == "websocket":
            if refusal is not None:
                await receive()
                await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": refusal})
            else:
                await self._connect(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        """Return why a request is not looked at: a page of somebody else's, or a name that was made to point here."""
        hosts, origins = ([value for name, value in scope["headers"] if name == key] for key in (b"host", b"origin"))
        if len(hosts) != 1 or not self._is_our_host(host := hosts[0].decode("latin-1")):
            return "this gateway is asked by its address, as localhost, or by a name in gateway.allowedOrigins"
        named = [each.decode("latin-1") for each in origins]
        if len(named) > 1 or not all(fold_origin(each) in self._origins or is_origin_of(each, host) for each in named):
            return "this gateway answers no page of another origin; gateway.allowedOrigins names those it does"
        return None

    def _is_our_host(self, host: str) -> bool:
        name = urlsplit(fold_origin(f"http://{host}")).hostname or ""
        if _is_address(name):  # no name server can make it point elsewhere, and nobody sends it in another form
            return _is_address(urlsplit(f"//{host}").hostname or "")
        return _LOCALHOST.fullmatch(name) is not None or name in self._hosts

    def address_of(self, scope: Scope) -> str:
        """Return where a request comes from."""
        peer = scope["client"][0] if scope.get("client") else ""
        forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return client_address(peer, forwarded, self._proxies)

    # who is connected

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope["client"][0] if scope.get("client") else ""
        is_here = is_from_here(peer, scope["headers"], self._proxies)
        visit = Visit(self.address_of(scope), is_here, read_page_cookie(scope["headers"]))
        connection = Connection(self, receive, send, visit, partial(self.introduce, scope))
        strangers = self._strangers.setdefault(to_network(connection.address), {})
        strangers[connection] = None
        if len(strangers) > self._limits.strangers_per_address:  # who has a secret shows it at once: the oldest goes
            oldest = next(iter(strangers))
            del strangers[oldest]
            oldest.close(POLICY_VIOLATION, "too many connections that nobody has introduced")
        try:
            await connection.attend()
        finally:
            self._forget_stranger(connection)

    def _forget_stranger(self, connection: Connection) -> None:
        strangers = self._strangers.get(network := to_network(connection.address), {})
        strangers.pop(connection, None)
        if not strangers:
            self._strangers.pop(network, None)

    def identify(self, scope: Scope) -> Principal | RefusedError:
        """Return who shows a credential in a request, or why nobody does; it is looked at once."""
        if "asker" not in scope:
            try:
                scope["asker"] = self.admit(self.address_of(scope), {"auth": auth_from(scope["headers"])})
            except RefusedError as error:
                scope["asker"] = error
        found: Principal | RefusedError = scope["asker"]
        return found

    def introduce(self, scope: Scope, principal: Principal) -> bool:
        """Take note of whose connection it is; tell whether they may have it."""
        person = "" if principal.is_owner else person_of(self.crib.policy, principal.caller) or principal.id
        return listener.introduce(scope, person)

    def admit(self, address: str, params: Mapping[str, Any]) -> Principal:
        """Return who shows the secrets in a `connect`; raise RefusedError when nobody does, or too many tried."""
        auth, device = params.get("auth") or {}, (params.get("device") or {}).get("id", "")
        try:
            principal = self.failures.admit(self.credentials, address, auth, device)
        except RefusedError:
            self._traffic["refused"] += bool(auth)
            raise
        is_device = "device" in params and principal.shown_by == OWNER_ID  # its role is its own
        if (role := params.get("role", principal.role)) != principal.role and not is_device:
            raise RefusedError(f"role_mismatch: {role[:32]}")
        return principal

    async def welcome(self, visit: Visit, params: Mapping[str, Any]) -> tuple[Principal, str]:
        """Return who shows the secrets in a `connect`, and the token that its device is given, "" for none.

        With the owner's secret a device is paired at once when it is on this machine, and waits when it is not. Raises
        RefusedError when nobody shows them, UnpairedError when the device has to wait.
        """
        auth = params.get("auth") or {}
        if "page" in auth:
            params = {**params, "auth": {"token": join_token(visit.cookie, auth["page"])} if visit.cookie else {}}
        code = auth.get("token", "")
        if "device" in params and params.get("role") == "node" and is_code(code):
            self._check_code(visit.address, code)
            met = await self.crib.devices.pair_by_code(self._check_device(visit, params), code)
            if met.device is None:
                raise RefusedError("code_spent")
            return to_principal(met.device), met.token
        principal = self.admit(visit.address, params)
        if "device" not in params:
            return principal, ""
        asked = self._check_device(visit, params)
        if principal.shown_by != OWNER_ID:
            return principal, ""
        met = await self.crib.devices.meet(asked, pairs=visit.is_local)
        shown_by = self.admit(visit.address, params).shown_by  # once more: the secret may have changed meanwhile
        if met.request is not None:
            raise UnpairedError(met.request.id)
        if (device := self.credentials.devices.get(asked.key)) is None:
            raise RefusedError("device_revoked")
        return to_principal(device, shown_by), met.token

    def _check_code(self, address: str, code: str) -> None:
        """Raise RefusedError unless a code pairs a node; it is short, so that a locked address has none looked at."""
        is_known = self.crib.devices.knows_code(code)
        if (is_locked := self.failures.is_locked(address, "node code")) or not is_known:
            if not is_locked:
                self.failures.add(address, "node code")
            raise RefusedError("rate_limited" if is_locked else "token_mismatch")

    def _check_device(self, visit: Visit, params: Mapping[str, Any]) -> Device:
        """Return the device of a `connect` as it asks to be, once it has shown that it holds its key."""
        try:
            check_device(params, visit, self.crib.gateway.now_ms())
            return read_device(params, visit.address, self.credentials.devices)
        except RefusedError:
            if self.failures.add(visit.address, "signature"):
                raise RefusedError("rate_limited") from None
            raise

    def enter(self, connection: Connection, params: Mapping[str, Any]) -> None:
        """Take a client that is known, and what it says about itself."""
        self._forget_stranger(connection)
        client, principal = params["client"], connection.principal
        if principal is not None and not connection.introduce(principal):
            connection.close(POLICY_VIOLATION, "too many connections")
        self._known[connection.id] = connection
        self._traffic["came"] += 1
        row = {key: client[key] for key in ("id", "version", "platform", "mode", "displayName") if key in client}
        if principal is not None:
            row |= {"deviceId": principal.id, "role": principal.role}
            if principal.role == "node":
                self._nodes[connection.id] = self.crib.nodes.enter(
                    _read_node(connection, params), connection.send_event
                )
        self.crib.gateway.presence.enter(connection.id, {**row, "ip": connection.address})

    def find_canvas_host(self, connection: Connection) -> str:
        """Return where a node with a canvas finds the canvas host, "" for others."""
        live, host = self._nodes.get(connection.id), self._canvas_host
        return host.find(live.node.address) if live and host and "canvas" in live.node.caps else ""

    def leave(self, connection: Connection) -> None:
        """Forget a client."""
        self._known.pop(connection.id, None)
        if (node := self._nodes.pop(connection.id, None)) is not None:
            self.crib.nodes.leave(node)
        self._traffic["went"] += 1
        self.crib.gateway.presence.leave(connection.id)

    def snapshot(self, principal: Principal) -> dict[str, Any]:
        """Return how the gateway stands, for who has just come."""
        gateway = self.crib.gateway
        rows = gateway.presence.rows() if principal.is_owner else list[dict[str, Any]]()
        state = {"presence": gateway.presence.version, "health": 0}
        defaults = {"defaultAgentId": "main", "mainKey": "main", "mainSessionKey": "agent:main:main"}
        return {
            "presence": rows, "health": {"ok": True}, "stateVersion": state, "uptimeMs": gateway.uptime_ms(),
            "sessionDefaults": defaults,
        }  # fmt: skip

    def _turn_out(self, ids: Collection[str]) -> None:
        """End the connections of those whose secret no longer counts, and what was begun by the owner's own."""
        if OWNER_ID in ids:
            self.crib.revocations.end_soon([OWNER_DOOR])
        for connection in tuple(self._known.values()):
            principal = connection.principal
            if principal is not None and (principal.id in ids or principal.shown_by in ids):
                connection.close(POLICY_VIOLATION, "the credential was taken back")

    def check_params(self, method: str, params: Mapping[str, Any]) -> None:
        """Raise ArgumentError where a parameter is of another kind; only a model's spelling is guessed at."""
        if params:
            if (check := self._exact.get(method)) is None:
                check = self._exact[method] = fit_to(self.methods[method].parameters, coerced=True)
            check({name: value for name, value in params.items() if value is not None})

    def rpc_for(self, principal: Principal) -> Rpc:
        """Return the methods, bound to who is asking and to what their credential may do."""
        scopes = frozenset[RpcScope]({"node"}) if principal.role == "node" else scopes_within(principal.scopes)
        return self.crib.rpc_for(principal.caller, scopes)


def _read_node(connection: Connection, params: Mapping[str, Any]) -> Node:
    """Return a node as it says it is."""
    client = params["client"]
    facts = {
        key: escape(str(client.get(key, ""))[:128]) for key in ("displayName", "platform", "deviceFamily", "version")
    }
    return Node(
        id=connection.principal.id if connection.principal else "",
        name=facts["displayName"],
        platform=facts["platform"],
        family=facts["deviceFamily"],
        version=facts["version"],
        address=connection.address,
        caps=tuple(filter(_WORD.fullmatch, params.get("caps", ()))),
        commands=tuple(filter(_WORD.fullmatch, params.get("commands", ()))),
        permissions=params.get("permissions", {}),
    )


class _Socket(WebSocketsSansIOProtocol):
    """A socket whose messages come in so many pieces and no more."""

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= _MAX_FRAGMENTS:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()
        else:
            super().handle_cont(event)


async def _run_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
