"""Many sessions in one gateway: all of them end, none hears of another, and none holds up the others."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gateway import connected
from benchmarks.sessions import SESSIONS, talk_in, write_canaries

import toolcrib
from toolcrib import tool

from .test_near_and_far import gateway, state  # noqa: F401  a fixture
from .world import TOKEN, client_of, gateway_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

SOCKETS = 5_000 if os.environ.get("TOOLCRIB_FULL") else 200
MANY = SESSIONS if os.environ.get("TOOLCRIB_FULL") else 60


async def test_no_session_hears_of_another(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    write_canaries(folder, MANY)
    async with gateway_of({"workspace": {"root": str(folder)}}, state=tmp_path / "state") as world:
        assert await talk_in(world.port, MANY, token=TOKEN) == MANY


async def test_messages_that_wait_in_one_session_hold_up_no_other() -> None:
    opened = asyncio.Event()

    @tool
    async def wait_for_it() -> str:
        """Wait."""
        await opened.wait()
        return "it is there"

    async with gateway_of(tools=[wait_for_it]) as world, client_of(world) as client:

        async def send(at: int, message: str, session: str) -> Any:
            said = {"message": message, "sessionKey": session, "idempotencyKey": f"{session}-{at}"}
            return await client.get("chat.send", said)

        await send(0, "wait_for_it {}", "busy")
        for at in range(1, 40):
            assert (await send(at, "hello", "busy"))["status"] == "queued"
        assert (await send(0, "hello", "other"))["status"] == "started"
        await client.wait_for("chat", sessionKey="agent:main:other", state="final")
        opened.set()
        assert (await client.get("agent.wait", {"runId": "busy-39"}))["status"] == "ok"


async def test_a_client_that_comes_late_hears_the_run_from_its_beginning(tmp_path: Path) -> None:
    async with gateway_of({}, state=tmp_path / "state") as world:
        began = int(time.time() * 1000)
        async with toolcrib.connect(world.url, TOKEN) as first:
            await first.say("hello", session="late")
        ended = time.time() * 1000
        async with client_of(world) as late:
            told = await late.get("chat.follow", {"sessionKey": "late"})
            assert (told["events"][0]["type"], told["done"]) == ("turn_started", True)
            assert len(told["times"]) == len(told["events"])
            assert [began, *told["times"], ended] == sorted([began, *told["times"], ended])  # not when they were read


async def test_what_turns_used_is_told_by_day_and_agents_by_name(tmp_path: Path) -> None:
    config = {"agents": {"kid": {"name": "Kiddo"}}}
    async with gateway_of(config, state=tmp_path / "state") as world, client_of(world) as client:
        for at in range(2):
            await client.get("agent", {"message": "hello", "sessionKey": "a", "idempotencyKey": f"{at}"})
            await client.wait_for("chat", runId=f"{at}", state="final")
        told = await client.get("usage.cost")
        assert (told["totals"]["turns"], [row["turns"] for row in told["daily"]]) == (2, [2])
        assert (await client.get("agent.identity.get", {"sessionKey": "agent:kid:x"}))["name"] == "Kiddo"


async def test_clients_that_drop_at_once_leave_a_few_lines_and_no_wait(state: Path) -> None:  # noqa: F811
    with gateway(state) as (_, url):
        token, port = (state / "gateway.token").read_text().strip(), int(url.rpartition(":")[2])
        async with connected("ours", port, SOCKETS, token):
            pass
        async with toolcrib.connect(url, token) as crib:
            assert (await crib.ask("health"))["ok"]
            log = await crib.ask("logs.tail")
            assert len(log["lines"]) <= 20, log["lines"][:30]
