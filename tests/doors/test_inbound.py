"""What services post to a gateway: handed to the channel, kept before it is acknowledged, and answered once."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.backends.channels.whatsapp_world import GRAPH, graph, hook, notice, words
from tests.backends.exec.shells import until
from tests.doors.chat.test_far import gateway_in
from tests.doors.gateway.world import gateway_of
from tests.doors.talking import Say, call, crib_with, talking
from tests.services.channels.test_webhook import SECRET, said_by, service, signed

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

OWNER = "4915112345"


class Talk(NamedTuple):
    """A channel by its settings, how somebody says something there, again when it is the same, and what is answered."""

    channels: dict[str, Any]
    tell: Callable[[str, str], Awaitable[None]]
    said: Callable[[], list[str]]


async def post(base: str, body: bytes) -> int:
    """Post until somebody is there to answer, as Meta does."""
    return await insist(f"{base}/channels/whatsapp", body, lambda: dict(hook(body).headers))


async def insist(url: str, body: bytes, headers: Callable[[], dict[str, str]]) -> int:
    """Post until it is taken."""
    async with httpx2.AsyncClient() as client, asyncio.timeout(300):
        while True:
            try:
                answer = await client.post(url, content=body, headers=headers())
            except httpx2.HTTPError:
                answer = None
            if answer is not None and answer.is_success:
                return answer.status_code
            await asyncio.sleep(0.1)


async def test_a_request_reaches_its_channel_and_nobody_elses(tmp_path: Path) -> None:
    with graph() as server:
        config = {"channels": {"whatsapp": {**GRAPH, "apiBase": server.address, "owners": [f"id:{OWNER}"]}}}
        async with gateway_of(config, state=tmp_path / "state") as world, httpx2.AsyncClient() as client:
            base = f"http://127.0.0.1:{world.port}"
            assert await post(base, notice(words("/why exec"))) == 200
            await until(lambda: any("exec: " in each for each in server.said()))
            asked = "hub.mode=subscribe&hub.verify_token=verify-me&hub.challenge=1158"
            answer = await client.get(f"{base}/channels/whatsapp?{asked}")
            assert (answer.status_code, answer.text) == (200, "1158")
            for method, path, body, status in (
                ("POST", "whatsapp", b"{}", 403),
                ("POST", "whatsapp", b"x" * 1_048_577, 413),
                ("PUT", "whatsapp", b"{}", 405),
                ("POST", "irc", b"{}", 404),
                ("POST", "whatsapp/more", b"{}", 404),
                ("GET", "whatsapp?" + "a=b&" * 1_000, b"", 403),
            ):
                answer = await client.request(method, f"{base}/channels/{path}", content=body)
                assert answer.status_code == status, (method, path[:20])
            statuses = {(await client.post(f"{base}/channels/whatsapp", content=b"{}")).status_code for _ in range(40)}
            assert statuses == {403, 429}
            assert await post(base, notice(words("/status"))) == 200  # who shows the secret is heard all the same
            await until(lambda: any("messages" in each for each in server.said()))


@contextmanager
def on_whatsapp() -> Iterator[Talk]:
    with graph() as server:
        posted = dict[str, bytes]()

        async def tell(base: str, text: str) -> None:
            assert await post(base, posted.setdefault(text, notice(words(text)))) == 200

        own = {**GRAPH, "apiBase": server.address, "owners": [f"id:{OWNER}"]}
        yield Talk({"whatsapp": own}, tell, server.said)


@contextmanager
def on_a_webhook() -> Iterator[Talk]:
    with service() as there:

        async def tell(base: str, text: str) -> None:
            request = signed(said_by("ann", text, id=text))
            assert await insist(f"{base}/channels/webhook", request.body, lambda: dict(request.headers)) == 202

        own = {"url": there.url, "secret": SECRET, "owners": ["id:ann"]}
        yield Talk({"webhook": own}, tell, lambda: there.said("ann"))


@pytest.mark.parametrize("on", [on_whatsapp, on_a_webhook])
async def test_a_message_that_a_kill_left_unanswered_is_answered_once(
    tmp_path: Path, on: Callable[[], AbstractContextManager[Talk]]
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    base, slow = f"http://127.0.0.1:{port}", call("exec", '{"command": "echo begun > begun; sleep 600"}')
    with on() as talk, talking(slow, Say(text="It is done.")) as model:
        free = "tools: {exec: {ask: off, security: full}}"
        crib = crib_with(model, tmp_path, f"channels: {json.dumps(talk.channels)}\n{free}")
        with gateway_in(folder, crib, port) as process:
            await talk.tell(base, "do it")
            await until(lambda: (folder / "begun").exists())
            process.kill()
        with gateway_in(folder, crib, port):
            await talk.tell(base, "do it")  # the service tells it again
            await until(lambda: "It is done." in talk.said())
            await talk.tell(base, "/status")
            await until(lambda: any("messages" in each for each in talk.said()))
            assert (talk.said().count("It is done."), len(model.asked)) == (1, 2)
