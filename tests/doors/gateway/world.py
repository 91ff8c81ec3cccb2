"""A gateway on a real socket in this process, and a client of its protocol that toolcrib did not write."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

import toolcrib
from toolcrib.define.device import Device, hash_token
from toolcrib.doors.gateway.credentials import Credentials
from toolcrib.doors.gateway.server import GatewayLimits, GatewayServer
from toolcrib.doors.listener import listen_on

TOKEN = "tok-9f2c1d7be84a4f0fa6c3"
CLIENT = {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"}


class Reached(Protocol):
    """A gateway that a client can be sent to."""

    @property
    def url(self) -> str: ...


@dataclass
class World:
    """A gateway that runs in this process."""

    server: GatewayServer
    port: int
    serving: "asyncio.Future[None]"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def gateway_of(
    config: Mapping[str, Any] | Path | None = None,
    *,
    state: Any = None,
    tools: Sequence[Any] = (),
    devices: Sequence[Device] = (),
    origins: Sequence[str] = (),
    proxies: Sequence[str] = (),
    limits: GatewayLimits | None = None,
) -> AsyncIterator[World]:
    """Yield a gateway with the shared token TOKEN; it stops at the end."""
    crib = toolcrib.open(config or {}, tools=list(tools), state=state, env={})
    credentials = Credentials("token", TOKEN, {device.id: device for device in devices})
    server = GatewayServer(crib, credentials, origins=origins, proxies=proxies, limits=limits)
    with contextlib.closing(listen_on(0)) as at:
        serving = asyncio.ensure_future(server.serve(at))
        try:
            yield World(server, at.getsockname()[1], serving)
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            if not serving.cancelled():
                serving.result()  # why it ended by itself


def device(id: str, token: str, *scopes: str, role: Any = "operator") -> Device:
    return Device(id, hash_token(token), role, frozenset(scopes))


@dataclass
class Client:
    """Speaks the protocol, frame by frame."""

    socket: ClientConnection
    events: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    hello: dict[str, Any] = field(default_factory=dict)
    count: int = 0

    async def hear(self) -> dict[str, Any]:
        """Return the next frame, which is kept, too."""
        frame: dict[str, Any] = json.loads(await self.socket.recv())
        if frame["type"] == "event":
            self.events.append(frame)
        else:
            self.answers[frame["id"]] = frame
        return frame

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the whole answer to a request."""
        self.count += 1
        id = f"r{self.count}"
        await self.socket.send(json.dumps({"type": "req", "id": id, "method": method, "params": params or {}}))
        while id not in self.answers:
            await self.hear()
        return self.answers.pop(id)

    async def get(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the payload of an answer that went well."""
        answer = await self.ask(method, params)
        assert answer["ok"], answer
        return answer["payload"]

    async def refusal(self, method: str, params: Mapping[str, Any] | None = None) -> tuple[str, str]:
        """Return the code and the sentence of an answer that did not."""
        answer = await self.ask(method, params)
        assert not answer["ok"], answer
        return answer["error"]["code"], answer["error"]["message"]

    async def wait_for(self, event: str, **payload: Any) -> dict[str, Any]:
        """Return the payload of the first event of this name, and with these values, that comes."""
        while True:
            for frame in self.events:
                told = frame.get("payload", {})
                if frame["event"] == event and all(told.get(key) == value for key, value in payload.items()):
                    return dict(told)
            await self.hear()


async def until_closed(socket: ClientConnection) -> tuple[list[dict[str, Any]], int | None]:
    """Return the frames that come until the other end closes, and the code it closes with."""
    frames = []
    try:
        while True:
            frames.append(json.loads(await socket.recv()))
    except ConnectionClosed as closed:
        return frames, closed.rcvd.code if closed.rcvd else None


@contextlib.asynccontextmanager
async def client_of(world: Reached, token: str = TOKEN, **connect_params: Any) -> AsyncIterator[Client]:
    """Yield a client that is connected."""
    async with connect(world.url, max_size=None) as socket:
        client = Client(socket)
        params = {"minProtocol": 3, "maxProtocol": 3, "client": CLIENT, "auth": {"token": token}, **connect_params}
        client.hello = await client.get("connect", params)
        yield client
