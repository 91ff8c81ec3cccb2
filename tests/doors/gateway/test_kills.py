"""A gateway that is killed: what it acknowledged is there, once, and clients go on where they were."""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import toolcrib
from toolcrib import CribError

from .test_near_and_far import gateway, state  # noqa: F401  a fixture

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1800)]

KILLS = 1_000 if os.environ.get("TOOLCRIB_FULL") else 20  # with a message or two between each


async def say(
    at: tuple[str, str], keys: Iterator[str], acknowledged: list[str], under_way: list[str], answered: asyncio.Event
) -> None:
    """Send messages, one after another, until the gateway is gone; those it had not answered are sent again first."""
    url, token = at
    try:
        async with toolcrib.connect(url, token, tries=0) as crib:
            while True:
                key = under_way.pop() if under_way else next(keys)
                under_way.append(key)
                told = await crib.ask("chat.send", {"message": f"remember {key}", "idempotencyKey": key})
                acknowledged.append(told["runId"])
                answered.set()
                under_way.remove(key)
                await crib.ask("agent.wait", {"runId": key})
    except CribError:
        return  # it was killed


async def test_what_was_acknowledged_is_kept_once_over_every_kill(state: Path) -> None:  # noqa: F811
    acknowledged, under_way, chance = list[str](), list[str](), random.Random(7)
    keys = (f"key-{at}" for at in range(1_000_000))
    for _ in range(KILLS):
        with gateway(state) as (process, url):
            token = (state / "gateway.token").read_text().strip()
            answered = asyncio.Event()
            saying = asyncio.ensure_future(say((url, token), keys, acknowledged, under_way, answered))
            await answered.wait()
            await asyncio.sleep(chance.random() * 0.1)  # at any moment of what follows
            process.kill()
            await saying
    with gateway(state) as (_, url):
        token = (state / "gateway.token").read_text().strip()
        async with toolcrib.connect(url, token) as crib:
            for key in under_way:  # whatever was not answered is asked again, and done once
                await crib.ask("chat.send", {"message": f"remember {key}", "idempotencyKey": key})
                await crib.ask("agent.wait", {"runId": key})
            exported = await crib.ask("sessions.export", {"key": "agent:main:main"})
    bodies = [json.loads(line) for line in exported]
    said = Counter(
        each["message"]["content"][0]["text"].removeprefix("remember ")
        for each in bodies
        if each.get("message", {}).get("role") == "user"
    )
    assert {key: said[key] for key in {*acknowledged, *under_way}} == dict.fromkeys({*acknowledged, *under_way}, 1)
    assert max(said.values()) == 1
