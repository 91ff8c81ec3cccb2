"""The servers of the gateway's measure, each in a process of its own: `python -m benchmarks.gateway_servers KIND`.

Each prints its port. All but ours answer a request with its own parameters: read, answered, nothing in between.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import orjson

__all__ = ["KINDS", "TOKEN"]

TOKEN = "a-token-of-the-benchmark-only"


def echo(text: str | bytes) -> str:
    """Return the answer to one request."""
    asked = orjson.loads(text)
    return orjson.dumps({"type": "res", "id": asked["id"], "ok": True, "payload": asked["params"]}).decode()


async def serve_ours(at: socket.socket) -> None:
    """Our gateway, in memory."""
    import toolcrib  # noqa: PLC0415  the others are measured without it
    from toolcrib.doors.gateway.credentials import Credentials  # noqa: PLC0415
    from toolcrib.doors.gateway.server import GatewayServer  # noqa: PLC0415

    from .call import forecast  # noqa: PLC0415

    crib = toolcrib.open({}, tools=[forecast], env={})
    await GatewayServer(crib, Credentials("token", TOKEN)).serve(at)


async def serve_sessions(at: socket.socket) -> None:
    """Our gateway, with what it knows on the disk; asked on stdin, it says how late its loop was and what it holds."""
    import toolcrib  # noqa: PLC0415
    from toolcrib.doors.gateway.credentials import Credentials  # noqa: PLC0415
    from toolcrib.doors.gateway.server import GatewayServer  # noqa: PLC0415

    folder, loop, lags = Path(os.environ["BENCH_FOLDER"]), asyncio.get_running_loop(), list[float]()
    crib = toolcrib.open({"workspace": {"root": str(folder / "workspace")}}, state=folder / "state", env={})

    async def look() -> None:
        while True:
            began = loop.time()
            await asyncio.sleep(0.01)
            lags.append(loop.time() - began - 0.01)

    def tell() -> None:
        sys.stdin.readline()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(orjson.dumps({"lags": lags, "bytes": pages * os.sysconf("SC_PAGESIZE")}).decode(), flush=True)

    looking = asyncio.ensure_future(look())
    loop.add_reader(sys.stdin, tell)
    await asyncio.gather(GatewayServer(crib, Credentials("token", TOKEN)).serve(at), looking)


async def serve_bare(at: socket.socket) -> None:
    """An echo on our own stack: uvicorn, and websockets without a loop of its own."""
    import uvicorn  # noqa: PLC0415
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol  # noqa: PLC0415

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": echo(message["text"])})

    config = uvicorn.Config(
        app, ws=WebSocketsSansIOProtocol, ws_per_message_deflate=False, ws_ping_interval=None, lifespan="off",
        log_level="critical", loop="asyncio",
    )  # fmt: skip
    await uvicorn.Server(config).serve([at])


async def serve_websockets(at: socket.socket) -> None:
    """The library `websockets`."""
    from websockets.asyncio.server import ServerConnection, serve  # noqa: PLC0415

    async def attend(connection: ServerConnection) -> None:
        async for text in connection:
            await connection.send(echo(text))

    async with serve(attend, sock=at, compression=None, ping_interval=None):
        await asyncio.get_running_loop().create_future()


async def serve_aiohttp(at: socket.socket) -> None:
    """The library aiohttp."""
    from aiohttp import web  # type: ignore[import-not-found]  # noqa: PLC0415  where it is installed

    async def attend(request: Any) -> Any:
        connection = web.WebSocketResponse(compress=False)
        await connection.prepare(request)
        async for message in connection:
            await connection.send_str(echo(message.data))
        return connection

    app = web.Application()
    app.add_routes([web.get("/", attend)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.SockSite(runner, at).start()
    await asyncio.get_running_loop().create_future()


async def serve_picows(at: socket.socket) -> None:
    """The library picows."""
    import picows  # type: ignore[import-not-found]  # noqa: PLC0415  where it is installed

    class Listener(picows.WSListener):  # type: ignore[misc]
        def on_ws_frame(self, transport: Any, frame: Any) -> None:
            if frame.msg_type == picows.WSMsgType.TEXT:
                transport.send(picows.WSMsgType.TEXT, echo(frame.get_payload_as_bytes()).encode())

    server = await picows.ws_create_server(lambda _: Listener(), sock=at)
    await server.serve_forever()


KINDS = {
    "ours": serve_ours,
    "sessions": serve_sessions,
    "bare": serve_bare,
    "websockets": serve_websockets,
    "aiohttp": serve_aiohttp,
    "picows": serve_picows,
}


def main(kind: str) -> None:
    at = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(at.getsockname()[1], flush=True)
    asyncio.run(KINDS[kind](at))


if __name__ == "__main__":
    main(sys.argv[1])
