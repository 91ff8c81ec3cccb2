"""Bounds are for each who asks: a stranger or a guest uses up what is theirs, and nothing that the owner needs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.backends.models.servers import Talk, serving
from tests.doors.gateway.test_devices import Phone, challenged
from tests.doors.gateway.world import CLIENT, TOKEN, World, client_of, device, gateway_of, until_closed
from toolcrib.doors.gateway.server import GatewayLimits

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PASSWORD = "green kettles sing at dawn"
GUEST, OTHER = "dt-1111-dt-1111-dt", "dt-2222-dt-2222-dt"
HOOK_TOKEN = "hook-4c1d7be84a4f0fa6c3"

Show = Callable[["Visitor", str], Awaitable[object]]


class Visitor:
    """Somebody at one address of a gateway whose owner has a password."""

    def __init__(self, world: World, http: httpx2.AsyncClient) -> None:
        self.world, self.http = world, http

    async def ask(self, path: str, secret: str, method: str = "GET", **more: Any) -> int:
        origin = str(self.http.base_url).rstrip("/")
        headers = {"authorization": f"Bearer {secret}"} if secret else {"origin": origin}
        return (await self.http.request(method, path, headers=headers, **more)).status_code

    async def connect(self, **shown: Any) -> str:
        """Return why a socket is refused, "" where it is let in."""
        async with challenged(self.world) as (client, _):
            answer = await client.ask("connect", {"minProtocol": 3, "maxProtocol": 3, "client": CLIENT, **shown})
            return "" if answer["ok"] else str(answer["error"]["message"])

    async def upgrade(self, secret: str) -> None:
        async with connect(self.world.url, additional_headers={"authorization": f"Bearer {secret}"}) as socket:
            await socket.recv()


@contextlib.asynccontextmanager
async def visited(**more: Any) -> AsyncIterator[Visitor]:
    guest = device("p", GUEST, "operator.write")
    async with gateway_of({"hooks": {"enabled": True, "token": HOOK_TOKEN}}, devices=[guest], **more) as world:
        world.server.credentials.replace_secret("password", PASSWORD)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{world.port}", timeout=60) as http:
            yield Visitor(world, http)


GUESSES: dict[str, Show] = {
    "where nothing is needed": lambda who, word: who.ask("/health", word),
    "where nothing is needed, with HEAD": lambda who, word: who.ask("/ready", word, "HEAD"),
    "at the page": lambda who, word: who.ask("/", word),
    "where nothing is": lambda who, word: who.ask("/nowhere", word),
    "at a call": lambda who, word: who.ask("/tools/invoke", word, "POST", json={}),
    "at a model": lambda who, word: who.ask("/v1/models", word),
    "at MCP": lambda who, word: who.ask("/mcp", word, "POST", json={}),
    "by a method that is not taken": lambda who, word: who.ask("/health", word, "DELETE"),
    "over a socket": lambda who, word: who.connect(auth={"password": word}),
    "in the head of a socket": lambda who, word: who.upgrade(word),
}


@pytest.mark.parametrize("guess", GUESSES.values(), ids=GUESSES)
async def test_a_wrong_password_counts_wherever_it_is_shown_and_locks_passwords_alone(guess: Show) -> None:
    async with visited() as who:
        assert await who.ask("/v1/models", PASSWORD) == 200
        for number in range(10):
            await guess(who, f"guess {number}")
        assert await who.ask("/v1/models", PASSWORD) == 429
        assert "rate_limited" in await who.connect(auth={"password": PASSWORD})
        assert await who.ask("/v1/models", GUEST) == 200
        assert await who.connect(auth={"token": GUEST}) == ""


async def _sign_wrongly(who: Visitor, word: str) -> None:
    async with challenged(who.world) as (client, _):
        await client.ask("connect", {**Phone().params("another", token=""), "auth": {"password": PASSWORD}})


def _pair_node(who: Visitor, code: str) -> Awaitable[str]:
    return who.connect(**{**Phone().params(None, token=code), "role": "node", "auth": {"token": code}})


OTHER_KINDS: dict[str, Show] = {
    "tokens": lambda who, word: who.connect(auth={"token": f"a token that is long {word}"}),
    "tokens of hooks": lambda who, word: who.ask("/hooks/mail", word, "POST"),
    "codes of nodes": lambda who, word: _pair_node(who, "ABCD-EFGH"),
    "codes of pages": lambda who, word: who.ask("/page/login", "", "POST", json={"code": word}),
    "signatures of devices": _sign_wrongly,
    "nothing at all": lambda who, word: who.ask("/v1/models", ""),
    "nothing on a socket": lambda who, word: who.connect(),
    "names": lambda who, word: who.ask("/channels/webhook", word, "POST"),
}


@pytest.mark.parametrize("show", OTHER_KINDS.values(), ids=OTHER_KINDS)
async def test_what_is_no_password_locks_no_password(show: Show) -> None:
    async with visited() as who:
        for number in range(12):
            with contextlib.suppress(ConnectionClosed):
                await show(who, f"wrong-{number}")
        assert await who.ask("/v1/models", PASSWORD) == 200
        assert await who.connect(auth={"password": PASSWORD}) == ""


async def test_codes_of_nodes_are_guessed_ten_times_and_no_more() -> None:
    async with visited() as who:
        async with client_of(who.world, auth={"password": PASSWORD}) as owner:
            code = (await owner.get("node.pair.code"))["code"]
        told = [await _pair_node(who, f"AAAA-AAA{letter}") for letter in "ABCDEFGHJK"]
        assert all("token_mismatch" in each for each in told)
        assert "rate_limited" in await _pair_node(who, code)


async def test_a_right_token_of_hooks_is_heard_however_many_were_wrong() -> None:
    async with visited() as who:
        assert [await who.ask("/hooks/mail", "wrong", "POST") for _ in range(12)] == [401] * 10 + [429] * 2
        assert await who.ask("/hooks/mail", HOOK_TOKEN, "POST", content=b"hi") != 429


# connections


async def test_sockets_that_say_nothing_are_strangers_however_many_addresses_they_come_from() -> None:
    async with gateway_of(limits=GatewayLimits(strangers=8)) as world, client_of(world) as owner:
        sockets = [await connect(world.url, local_addr=(f"127.0.0.{n + 2}", 0)) for n in range(24)]
        for socket in sockets[:16]:
            await until_closed(socket)
        assert (await owner.get("health"))["ok"]
        async with client_of(world) as late:
            assert (await late.get("health"))["ok"]
        for socket in sockets:
            await socket.close()


async def test_plain_connections_and_sockets_are_strangers_together() -> None:
    async with gateway_of(limits=GatewayLimits(strangers=4)) as world:
        socket = await connect(world.url)
        await socket.recv()
        plain = [await asyncio.open_connection("127.0.0.1", world.port) for _ in range(4)]
        await until_closed(socket)
        for _, writer in plain:
            writer.close()


async def test_a_password_that_is_not_looked_at_makes_nobody_known() -> None:
    async with visited(limits=GatewayLimits(strangers=4)) as who:
        for number in range(10):
            await who.ask("/health", f"guess {number}")
        held = []
        for _ in range(8):
            held.append(await asyncio.open_connection("127.0.0.1", who.world.port))
            held[-1][1].write(
                f"GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {PASSWORD}\r\n\r\n".encode()
            )
            await held[-1][0].readuntil(b"}")
        assert [await reader.read() for reader, _ in held[:4]] == [b""] * 4
        for _, writer in held:
            writer.close()


async def test_addresses_of_one_network_of_ipv6_are_one_stranger() -> None:
    async with gateway_of(proxies=["127.0.0.1"], limits=GatewayLimits(strangers_per_address=3)) as world:
        from_one = [{"X-Forwarded-For": f"2001:db8:0:7:{number}::1"} for number in range(5)]
        sockets = [await connect(world.url, additional_headers=headers) for headers in from_one]
        other = await connect(world.url, additional_headers={"X-Forwarded-For": "2001:db8:0:8::1"})
        for socket in sockets[:2]:
            await until_closed(socket)
        assert "challenge" in str(await other.recv())
        for socket in (*sockets, other):
            await socket.close()


async def test_a_guest_has_so_many_connections_and_the_owner_as_many_as_they_like() -> None:
    devices = [device("p", GUEST, "operator.read"), device("q", OTHER, "operator.read")]
    async with (
        gateway_of(devices=devices, limits=GatewayLimits(connections=3)) as world,
        contextlib.AsyncExitStack() as open_now,
    ):
        http = await open_now.enter_async_context(httpx2.AsyncClient(base_url=f"http://127.0.0.1:{world.port}"))
        asked = {"authorization": f"Bearer {GUEST}"}
        mine = [await open_now.enter_async_context(client_of(world, GUEST)) for _ in range(3)]
        with pytest.raises(ConnectionClosed, match="too many connections"):
            await open_now.enter_async_context(client_of(world, GUEST))
        assert (await http.get("/v1/models", headers=asked)).status_code == 429
        assert (await mine[0].get("health"))["ok"]
        for token in (*[TOKEN] * 5, OTHER):
            client = await open_now.enter_async_context(client_of(world, token))
            assert (await client.get("health"))["ok"]
        await mine[0].socket.close()
        async with asyncio.timeout(20):
            while (await http.get("/v1/models", headers=asked)).status_code != 200:
                await asyncio.sleep(0.01)


# runs


async def test_a_guest_has_so_many_runs_and_the_owner_begins_one_all_the_same() -> None:
    go = asyncio.Event()

    async def hold(talk: Talk) -> None:
        await go.wait()
        await talk.whole(500, {})

    devices = [device("p", GUEST, "operator.write"), device("q", OTHER, "operator.write")]
    async with serving(hold) as model, contextlib.AsyncExitStack() as open_now:
        models = {"default": "small:one", "small": {"baseUrl": model.base_url}}
        world = await open_now.enter_async_context(gateway_of({"models": models}, devices=devices))
        tokens = GUEST, OTHER, TOKEN
        guest, other, owner = [await open_now.enter_async_context(client_of(world, each)) for each in tokens]
        told = [await guest.ask("chat.send", {"message": "hi", "idempotencyKey": f"{n}"}) for n in range(66)]
        assert [each["ok"] for each in told] == [True] * 64 + [False] * 2
        assert told[-1]["error"]["message"].startswith("64 runs of whoever asks go on or wait already")
        for client in (other, owner):
            begun = await client.get("chat.send", {"message": "hi", "idempotencyKey": "1"})
            assert begun["status"] == "started"
        await guest.get("chat.abort")
        assert (await guest.get("agent.wait", {"runId": "63"}))["status"] != "timeout"
        assert (await guest.ask("chat.send", {"message": "hi", "idempotencyKey": "more"}))["ok"]
        go.set()
