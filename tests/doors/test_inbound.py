"""What services post to a gateway: handed to the channel, kept before it is acknowledged, and answered once."""

import asyncio
import json
import socket
from pathlib import Path

import httpx2
import pytest
from tests.backends.channels.whatsapp_world import GRAPH, graph, hook, notice, words
from tests.backends.exec.shells import until
from tests.doors.chat.test_far import gateway_in
from tests.doors.gateway.world import gateway_of
from tests.doors.talking import Say, call, crib_with, talking

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

OWNER = "4915112345"


async def post(base: str, body: bytes) -> int:
    """Post until somebody is there to answer, as Meta does."""
    async with httpx2.AsyncClient() as client, asyncio.timeout(300):
        while True:
            try:
                answer = await client.post(f"{base}/channels/whatsapp", content=body, headers=dict(hook(body).headers))
            except httpx2.HTTPError:
                answer = None
            if answer is not None and answer.status_code == 200:
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


async def test_a_message_that_a_kill_left_unanswered_is_answered_once(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    slow = call("exec", '{"command": "echo begun > begun; sleep 600"}')
    with graph() as server, talking(slow, Say(text="It is done.")) as model:
        own = json.dumps({**GRAPH, "apiBase": server.address, "owners": [f"id:{OWNER}"]})
        crib = crib_with(
            model, tmp_path, f"channels: {{whatsapp: {own}}}\ntools: {{exec: {{ask: off, security: full}}}}"
        )
        body = notice(words("do it"))
        with gateway_in(folder, crib, port) as process:
            assert await post(f"http://127.0.0.1:{port}", body) == 200
            await until(lambda: (folder / "begun").exists())
            process.kill()
        with gateway_in(folder, crib, port):
            assert await post(f"http://127.0.0.1:{port}", body) == 200  # Meta tells it again
            await until(lambda: "It is done." in server.said())
            assert await post(f"http://127.0.0.1:{port}", notice(words("/status"))) == 200
            await until(lambda: any("messages" in each for each in server.said()))
            assert (server.said().count("It is done."), len(model.asked)) == (1, 2)
