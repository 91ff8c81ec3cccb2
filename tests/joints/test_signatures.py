"""A signature that is wrong is refused, and locks nobody out of anything: anybody may post to a channel's address."""

import asyncio
import contextlib
from pathlib import Path

import httpx2
import pytest

import toolcrib
from tests.services.channels.test_webhook import SECRET
from toolcrib.doors.gateway.credentials import Credentials
from toolcrib.doors.gateway.server import GatewayServer
from toolcrib.doors.listener import listen_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PASSWORD = "green kettles sing at dawn"


async def test_wrong_signatures_without_end_lock_the_owner_out_of_nothing(tmp_path: Path) -> None:
    crib = toolcrib.open({"channels": {"webhook": {"url": "http://127.0.0.1:1/", "secret": SECRET}}}, state=tmp_path)
    server = GatewayServer(crib, Credentials("password", PASSWORD, {}))
    with contextlib.closing(listen_on(0)) as at:
        serving = asyncio.ensure_future(server.serve(at))
        base = f"http://127.0.0.1:{at.getsockname()[1]}"
        async with httpx2.AsyncClient() as client, asyncio.timeout(60):
            posted = set[int]()
            while len(posted) < 3 and 429 not in posted:  # 503 until the channel is at work
                posted.add((await client.post(f"{base}/channels/webhook", content=b"{}")).status_code)
            asked = await client.get(f"{base}/v1/models", headers={"authorization": f"Bearer {PASSWORD}"})
        serving.cancel()
        await asyncio.wait([serving])
    assert {403, 429} <= posted
    assert asked.status_code == 200
