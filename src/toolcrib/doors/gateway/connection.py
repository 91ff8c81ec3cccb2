"""One client over WebSocket: nothing but `connect` until it is known, then its requests side by side, and events.

A client that reads too slowly loses the events that may be lost, and is closed when even the others pile up. A client
that asks for more than so many things at once is not read until one of them is answered.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from starlette.types import Receive, Send
from uvicorn.protocols.utils import ClientDisconnected

from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import EVENTS, NEEDED, PROTOCOL, GatewayEvent, explain_forbidden
from toolcrib.define.names import suggest
from toolcrib.define.node import MAX_ANSWER_CHARS
from toolcrib.define.parts import (
    MAX_FRAME_BYTES,
    MAX_JOINED_BYTES,
    MAX_REQUEST_BYTES,
    MAX_WHOLE_BYTES,
    PARTS,
    FrameAssembler,
    split_frame,
)
from toolcrib.define.ports import Rpc
from toolcrib.define.session import is_within
from toolcrib.services.router import Method

from .credentials import Principal, RefusedError, UnpairedError, Visit
from .frames import (
    MAX_BUFFERED_BYTES,
    MAX_STRANGER_BYTES,
    TICK_SECONDS,
    FrameError,
    FrameRequest,
    ProtocolMismatchError,
    check_connect,
    code_of,
    parse_request,
    write_answer,
    write_error,
    write_event,
)

log = logging.getLogger("toolcrib")

POLICY_VIOLATION, PROTOCOL_ERROR, GOING_AWAY, FAILED = 1008, 1002, 1012, 1011
_MAX_IN_FLIGHT = 64
_IDLE_BYTES = 65_536  # that wait for a client at most before events are dropped
_DRAIN_SECONDS = 10.0  # in which a client has to read what it was sent, before it is sent another long answer
_DROPPABLE = frozenset({"tick", "presence", "health"})


class ConnectionHost(Protocol):
    """Where clients meet, as far as one of them knows it; `GatewayServer` says what each of these does."""

    handshake_seconds: float
    methods: Mapping[str, Method]
    version: str

    async def welcome(self, visit: Visit, params: Mapping[str, Any], /) -> tuple[Principal, str]: ...
    def check_params(self, method: str, params: Mapping[str, Any], /) -> None: ...
    def rpc_for(self, principal: Principal, /) -> Rpc: ...
    def enter(self, connection: "Connection", params: Mapping[str, Any], /) -> None: ...
    def leave(self, connection: "Connection", /) -> None: ...
    def snapshot(self, principal: Principal, /) -> dict[str, Any]: ...
    def find_canvas_host(self, connection: "Connection", /) -> str: ...


class Connection:
    """A client, from the moment its socket is open."""

    _rpc: Rpc
    _written: asyncio.Event | None  # set when nothing is left to send, where somebody waits for that

    def __init__(
        self, host: ConnectionHost, receive: Receive, send: Send, visit: Visit, introduce: Callable[[Principal], bool]
    ) -> None:
        self.introduce = introduce  # says whose connection it is; tells whether they may have one more
        self._host, self._receive, self._send = host, receive, send
        self.id, self.address, self._visit = secrets.token_hex(8), visit.address, visit
        self.principal: Principal | None = None  # whose rights never change: when they do, the connection ends
        self._permitted = set[str]()
        self._is_greeted, self._takes_parts = False, False
        self._most, self._joiner = MAX_REQUEST_BYTES, FrameAssembler(MAX_REQUEST_BYTES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._outbox: deque[str] = deque()
        self._buffered, self._seq = 0, 0
        self._writer: asyncio.Task[None] | None = None
        self._is_writing, self._written = False, None
        self._serving: asyncio.Task[Any] | None = None
        self._closing: tuple[int, str] | None = None
        self.ended = asyncio.Event()

    async def attend(self) -> None:
        """Serve it until it goes, or has to."""
        self._serving = asyncio.current_task()
        try:
            if self._closing is None:
                await self._serve()
        except asyncio.CancelledError:
            if self._closing is None:
                raise
            if self._serving is not None:
                self._serving.uncancel()
        finally:
            self._serving = None
            for task in (*self._tasks, *([self._writer] if self._writer else [])):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._closing is not None:
                await self._say_goodbye(*self._closing)
            self.ended.set()

    def close(self, code: int, reason: str) -> None:
        """End it, with a reason."""
        if self._closing is None:
            self._closing = code, reason
            if self._serving is not None and self._serving is not asyncio.current_task():
                self._serving.cancel()

    def send_event(self, event: GatewayEvent) -> None:
        """Send an event to this connection alone."""
        self._seq += 1
        self._push(write_event(event.event, event.payload, self._seq))

    def tell(self, event: GatewayEvent) -> None:
        """Send an event, where this client may see it."""
        principal = self.principal
        if principal is None or not self._is_greeted or not self._may_hear(principal, event):
            return
        self._seq += 1
        self._push(write_event(event.event, event.payload, self._seq), droppable=event.event in _DROPPABLE)

    # before it is known

    async def _serve(self) -> None:
        await self._receive()
        await self._send({"type": "websocket.accept"})
        nonce = secrets.token_hex(16)
        self._push(write_event("connect.challenge", {"nonce": nonce, "ts": int(time.time() * 1000)}, 0))
        try:
            async with asyncio.timeout(self._host.handshake_seconds):
                request = await self._next_request(MAX_STRANGER_BYTES)
        except TimeoutError:
            return self.close(POLICY_VIOLATION, "connect did not come in time")
        if request is None or not await self._greet(request, nonce):
            return None
        try:
            while self._closing is None and (asked := await self._next_request(self._most)) is not None:
                while len(self._tasks) >= _MAX_IN_FLIGHT:
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                method = self._host.methods.get(asked.method)
                if method is not None and method.mark.at_once:
                    await self._answer(asked)
                    continue
                task = asyncio.get_running_loop().create_task(self._answer(asked))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            self._host.leave(self)

    async def _next_request(self, max_bytes: int) -> FrameRequest | None:
        """Return what it asks for next; None when it has gone, or sent what nobody can answer."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return None
            text = message.get("text")
            try:
                if self.principal is not None and text and (text := self._joiner.take(text)) is None:
                    continue
                return parse_request(text, max_bytes)
            except ValueError as error:
                self._refuse(FrameError(str(error)))
                return None
            except FrameError as error:
                if self.principal is None or error.id is None:
                    self._refuse(error)
                    return None
                self._push(write_error(error.id, "INVALID_REQUEST", str(error)))

    def _refuse(self, error: FrameError) -> None:
        if error.id is not None:
            self._push(write_error(error.id, "INVALID_REQUEST", str(error)))
        code = PROTOCOL_ERROR if isinstance(error, ProtocolMismatchError) else POLICY_VIOLATION
        self.close(code, str(error)[:120])

    async def _greet(self, request: FrameRequest, nonce: str) -> bool:
        """Let it in by what it shows, or close it."""
        try:
            params = check_connect(request)
            principal, token = await self._host.welcome(self._visit._replace(nonce=nonce), params)
        except FrameError as error:
            self._refuse(error)
            return False
        except RefusedError as error:
            self._push(write_error(request.id, "INVALID_REQUEST", f"unauthorized: {error}"))
            self.close(POLICY_VIOLATION, f"unauthorized: {error}")
            return False
        except UnpairedError as error:
            self._push(write_error(request.id, "NOT_PAIRED", "pairing required", {"requestId": str(error)}))
            self.close(POLICY_VIOLATION, "pairing required")
            return False
        except ToolError as error:
            self._push(write_error(request.id, code_of(error), str(error), {"code": error.code}))
            self.close(FAILED, "the device cannot be paired now")
            return False
        self.principal, self._takes_parts = principal, PARTS in params.get("caps", ())
        if principal.role == "node":  # which sends pictures and clips
            self._most, self._joiner = MAX_ANSWER_CHARS, FrameAssembler(MAX_ANSWER_CHARS)
        self._rpc = self._host.rpc_for(principal)
        self._host.enter(self, params)
        self._push(write_answer(request.id, self._hello(principal, token)))
        self._is_greeted = True
        return True

    def _hello(self, principal: Principal, token: str) -> dict[str, Any]:
        given = {"deviceToken": token, "issuedAtMs": int(time.time() * 1000)} if token else dict[str, Any]()
        policy = {"maxPayload": MAX_FRAME_BYTES, "maxBufferedBytes": MAX_BUFFERED_BYTES}
        url = self._host.find_canvas_host(self)
        return {
            "type": "hello-ok",
            "protocol": PROTOCOL,
            "server": {"version": self._host.version, "connId": self.id},
            "features": {
                "methods": sorted({*self._host.methods, "connect"}),
                "reads": sorted(name for name, method in self._host.methods.items() if method.mark.reads),
                "events": list(EVENTS),
            },
            "snapshot": self._host.snapshot(principal),
            "auth": {"role": principal.role, "scopes": sorted(principal.scopes), **given},
            "policy": {**policy, "tickIntervalMs": int(TICK_SECONDS * 1000)},
            **({"canvasHostUrl": url} if url else {}),
        }

    # once it is known

    async def _answer(self, request: FrameRequest) -> None:
        method = self._host.methods.get(request.method)
        if method is not None and request.method in self._permitted:
            frame = await self._ask(request)
        elif why := self._explain_refusal(request.method, method):
            frame = write_error(request.id, "INVALID_REQUEST", why)
        elif method is None and request.method in NEEDED:
            frame = write_error(request.id, "UNAVAILABLE", f"this gateway has no {request.method} yet")
        elif method is None:
            hint = suggest(request.method, self._host.methods)
            frame = write_error(request.id, "INVALID_REQUEST", f"unknown method: {request.method}{hint}")
        else:
            self._permitted.add(request.method)
            frame = await self._ask(request)
        if len(frame) > (cap := MAX_JOINED_BYTES if self._takes_parts else MAX_WHOLE_BYTES):
            frame = write_error(request.id, "INVALID_REQUEST", f"the answer has more than {cap:,} bytes; ask for less")
        # an answer waits until those before it were read; only who does not read at all is closed for it
        while self._closing is None and 0 < self._buffered > MAX_BUFFERED_BYTES - len(frame):
            if not await self._wait_written():
                break
        self._push(frame, waits=True)
        if not self._is_writing:  # a task less for most answers
            await self._write()

    def _explain_refusal(self, name: str, method: Method | None) -> str:
        principal = self.principal
        if name == "connect" or principal is None:
            return "connect is the first request, and the only one of its kind"
        return explain_forbidden(name, principal.role, principal.scopes, method.mark.clients if method else None)

    def _tell_progress(self, request: FrameRequest, part: Any) -> None:
        if isinstance(part, GatewayEvent):  # for who asks alone
            self.send_event(part)
        elif self._host.methods[request.method].mark.two_answers:
            self._push(write_answer(request.id, part))
        else:
            self._seq += 1
            self._push(write_event("progress", {"id": request.id, "part": part}, self._seq), droppable=True)

    async def _ask(self, request: FrameRequest) -> str:
        try:
            if request.params:
                self._host.check_params(request.method, request.params)
            answer = await self._rpc(request.method, request.params, progress=partial(self._tell_progress, request))
            return write_answer(request.id, answer)
        except ToolError as error:
            return write_error(request.id, code_of(error), str(error), {"code": error.code})
        except Exception:
            log.exception("the method %s failed", request.method)
            return write_error(request.id, "UNAVAILABLE", f"{request.method} failed; the log of the gateway says why")

    # what it is sent

    def _push(self, text: str, *, droppable: bool = False, waits: bool = False) -> None:
        """Send something soon; `waits` leaves it to the caller, who calls `_write`."""
        if self._closing is not None and self.principal is not None:
            return
        if self._buffered and self._buffered + len(text) > (_IDLE_BYTES if droppable else MAX_BUFFERED_BYTES):
            if not droppable:
                self.close(POLICY_VIOLATION, "slow consumer")
            return
        for frame in split_frame(text) if self._takes_parts else (text,):
            self._outbox.append(frame)
            self._buffered += len(frame)
        if not self._is_writing and not waits:
            self._is_writing = True
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        self._is_writing = True
        try:
            while self._outbox:
                text = self._outbox[0]
                await self._send({"type": "websocket.send", "text": text})
                self._outbox.popleft()
                self._buffered -= len(text)
        except ClientDisconnected:
            self.close(GOING_AWAY, "")
        finally:
            self._is_writing = False
            if self._written is not None:
                self._written.set()
                self._written = None

    async def _wait_written(self) -> bool:
        """Wait until all that is left to send was taken, a few seconds at most; tell whether it was."""
        written = self._written = self._written or asyncio.Event()
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await written.wait()
        except TimeoutError:
            return False
        return True

    async def _say_goodbye(self, code: int, reason: str) -> None:
        """Send what is left, but not to whoever reads too slowly or has lost its rights, and close."""
        try:
            async with asyncio.timeout(1.0):
                if self.principal is None or code == GOING_AWAY:
                    await self._write()
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except (ClientDisconnected, TimeoutError, RuntimeError):
            return  # it has gone already

    def _may_hear(self, principal: Principal, event: GatewayEvent) -> bool:
        if needed := EVENTS.get(event.event):
            is_theirs = event.is_for is None or principal.is_owner or event.is_for(principal.caller)
            return is_theirs and (needed in principal.scopes or "operator.admin" in principal.scopes)
        if principal.is_owner or not event.session:
            return principal.is_owner or event.event in ("tick", "shutdown")
        return is_within(event.session, principal.caller.session or "")
