"""A gateway in another process, asked over its socket: one request, one answer; events as they come.

A connection that breaks is made again, sooner at first and then more rarely. A request that was under way is asked
again only where that cannot do anything twice: it only reads, or it carries an idempotency key. Of all
others it is unknown whether they arrived, and the caller gets an error that says so.
"""

import asyncio
import itertools
import logging
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, NoReturn

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from toolcrib.define.errors import CribError, NoAnswerError, RefusedByGatewayError, ToolError
from toolcrib.define.gateway import PROTOCOL
from toolcrib.define.parts import MAX_JOINED_BYTES, MAX_WHOLE_BYTES, PARTS, FrameAssembler, split_frame
from toolcrib.define.ports import Progress
from toolcrib.lazy import dataclass, field

from .device_key import DeviceKey

log = logging.getLogger("toolcrib")

_FIRST_WAIT, _MAX_WAIT_SECONDS = 0.25, 30.0
_OPEN_SECONDS = 10.0
_MAX_EVENTS = 10_000  # that wait to be taken; the oldest go
_REFUSED = 1008
_UNCERTAIN = (
    "the connection broke before the answer came, so nobody knows whether it was done; look before asking again"
)


@dataclass(slots=True, eq=False)
class _Asked:
    """A request that waits for its answer."""

    frame: bytes
    is_repeatable: bool
    answer: "asyncio.Future[Any]"
    progress: Progress | None = None


@dataclass(slots=True)
class GatewayLink:
    """A connection to a gateway that holds, also when the socket does not."""

    url: str
    token: str = field(repr=False)
    client: Mapping[str, str]
    tries: int | None = None  # how often it is tried again before it is given up; None is for ever
    device: DeviceKey | None = None  # what signs each connection
    about: Mapping[str, Any] = field(default_factory=dict)  # what else describes the client: role, caps, commands
    hello: Mapping[str, Any] = field(default_factory=dict)
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _listeners: "dict[asyncio.Queue[tuple[str, Any]], None]" = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _socket: ClientConnection | None = None
    _running: "asyncio.Task[None] | None" = None
    _failure: CribError | None = None

    async def open(self) -> None:
        """Connect; raise CribError when that cannot be done."""
        socket = await self._connect()
        self._running = asyncio.get_running_loop().create_task(self._run(socket))

    async def close(self) -> None:
        """Hang up."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._socket is not None:
            await self._socket.close()
        self._fail(CribError("the connection to the gateway was closed"))

    async def lost(self) -> NoReturn:
        """Wait until it is given up, and raise why."""
        if self._running is not None:
            await asyncio.wait([self._running])
        raise self._failure or CribError("the connection to the gateway was never opened")

    @property
    def is_connected(self) -> bool:
        """Whether it has a socket at this moment."""
        return self._socket is not None

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, progress: Progress | None = None) -> Any:
        """Return what a method answers; raise ToolError when it refuses, CribError when the outcome is unknown.

        `progress` hears what the method has to say before it is done.
        """
        if self._failure is not None:
            raise self._failure
        id, given = f"{next(self._numbers)}", params or {}
        repeatable = "idempotencyKey" in given or method in self.hello.get("features", {}).get("reads", ())
        frame = orjson.dumps({"type": "req", "id": id, "method": method, "params": dict(given)})
        asked = _Asked(frame, repeatable, asyncio.get_running_loop().create_future(), progress)
        self._asked[id] = asked
        try:
            if self._socket is not None:
                await self._say(self._socket, frame)
            return await asked.answer
        finally:
            self._asked.pop(id, None)

    def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield the events of the gateway from now on: name and payload."""
        queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue(_MAX_EVENTS)
        self._listeners[queue] = None
        return self._hear(queue)

    async def _hear(self, queue: "asyncio.Queue[tuple[str, Any]]") -> AsyncIterator[tuple[str, Any]]:
        try:
            while True:
                yield await queue.get()
        finally:
            del self._listeners[queue]

    # the socket

    async def _connect(self) -> ClientConnection:
        try:
            socket = await connect(self.url, max_size=MAX_WHOLE_BYTES, open_timeout=_OPEN_SECONDS, compression=None)
        except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
            raise NoAnswerError(f"no gateway answers at {self.url} ({error}); `toolcrib gateway` starts one") from None
        params: dict[str, Any] = {"minProtocol": PROTOCOL, "maxProtocol": PROTOCOL, "client": dict(self.client)}
        auth = {"token": self.token, "password": self.token}  # whichever of them this gateway has
        params |= {"auth": auth, **self.about, "caps": [PARTS, *self.about.get("caps", ())]}
        hello = {"type": "req", "id": "connect", "method": "connect", "params": params}
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                if self.device is not None:
                    params["device"] = self.device.sign(params, orjson.loads(await socket.recv())["payload"]["nonce"])
                await self._say(socket, orjson.dumps(hello))
                while (frame := orjson.loads(await socket.recv())).get("id") != "connect":
                    continue
        except (ConnectionClosed, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise CribError(f"the gateway at {self.url} hung up before it knew us ({error})") from None
        if not frame["ok"]:
            await socket.close()
            why = frame["error"]
            what = f"the gateway at {self.url} refuses us ({why['message']}); check the token"
            raise RefusedByGatewayError(what, (why.get("details") or {}).get("requestId", ""))
        self.hello, self._socket = frame["payload"], socket
        if self.device is not None and (given := self.hello["auth"].get("deviceToken")):
            self.token = given
            self.device.keep_token(self.url, given)
        return socket

    async def _say(self, socket: ClientConnection, frame: bytes) -> None:
        try:
            async with self._sending:  # the parts of one frame follow each other
                for part in split_frame(frame.decode()):
                    await socket.send(part)
        except ConnectionClosed:
            return  # the reader finds out, and asks again what can be asked again

    async def _run(self, socket: ClientConnection) -> None:
        """Read until it is closed; connect again whenever the socket breaks."""
        while True:
            try:
                await self._read(socket)
            except ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code == _REFUSED:
                    return self._fail(CribError(f"the gateway has closed the connection: {closed.rcvd.reason}"))
            self._socket = None
            self._give_up_what_may_have_run()
            try:
                socket = await self._reconnect()
            except CribError as error:
                return self._fail(error)
            for asked in tuple(self._asked.values()):
                await self._say(socket, asked.frame)
            self._tell("reconnected", {})

    async def _reconnect(self) -> ClientConnection:
        wait, tried = _FIRST_WAIT, 0
        while True:
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311  so that not all come back at once
            try:
                return await self._connect()
            except RefusedByGatewayError:
                raise
            except CribError as error:
                tried += 1
                if self.tries is not None and tried > self.tries:
                    raise
                log.debug("%s; trying again", error)
                wait = min(wait * 2, _MAX_WAIT_SECONDS)

    async def _read(self, socket: ClientConnection) -> None:
        frames = FrameAssembler(MAX_JOINED_BYTES)
        async for part in socket:
            if (text := frames.take(str(part))) is None:
                continue
            frame = orjson.loads(text)
            if frame["type"] == "event":
                payload = frame.get("payload")
                if frame["event"] == "progress" and (waits := self._asked.get(payload["id"])) and waits.progress:
                    waits.progress(payload["part"])
                self._tell(frame["event"], payload)
            elif (asked := self._asked.get(frame["id"])) is not None and not asked.answer.done():
                self._take(asked, frame)
        raise ConnectionClosed(None, None)

    def _take(self, asked: _Asked, frame: Mapping[str, Any]) -> None:
        if not frame["ok"]:
            error = frame["error"]
            code = (error.get("details") or {}).get("code") or error["code"].lower()
            asked.answer.set_exception(ToolError(error["message"], code=code))
        else:
            asked.answer.set_result(frame["payload"])

    def _tell(self, event: str, payload: Any) -> None:
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait((event, payload))

    def _give_up_what_may_have_run(self) -> None:
        for asked in self._asked.values():
            if not asked.is_repeatable and not asked.answer.done():
                asked.answer.set_exception(CribError(_UNCERTAIN))

    def _fail(self, error: CribError) -> None:
        self._failure = error
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(error)
