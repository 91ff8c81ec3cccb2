"""What services post to a gateway: handed to the channel, kept before it is acknowledged, and answered once."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from tests.backends.channels.whatsapp_world import GRAPH, graph, hook, notice, words
from tests.backends.exec.shells import until
from tests.doors.gateway.world import gateway_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

OWNER = "4915112345"


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
