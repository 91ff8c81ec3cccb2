"""Replies that are under way at once pass a quota on tokens or money by one of them at most, whoever asks for them."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests import prestarted
from toolcrib import Caller, Sender
from toolcrib.app import Crib
from toolcrib.define.event import TurnFinished, Usage
from toolcrib.define.model import ModelCard, Price, Request
from toolcrib.testing import FunctionModel, text_reply
from toolcrib.testing.models import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

ANN = Caller(channel="telegram", group="-1", sender=Sender(id="7"))
CARD = ModelCard(provider="test", model="priced", price=Price(input=1_000_000.0, output=1_000_000.0))
FEW = {"who": "sender", "per": "day", "tokens": 100}


async def talk(crib: Crib, name: str, answer: Callable[[Request], Reply | Awaitable[Reply]]) -> TurnFinished:
    """Have Ann's turn in a session of its own end."""
    caller = replace(ANN, session=f"agent:main:telegram:group:-1:{name}")
    return await crib.turn("hi", caller=caller, model=FunctionModel(answer, CARD)).end()


def say_much(_: Request) -> Reply:
    return text_reply("Hi.", Usage(input=60))


@pytest.mark.parametrize("quota", [FEW, {"per": "hour", "cost": 100.0}], ids=["tokens", "cost"])
async def test_of_turns_at_once_one_reply_passes_a_quota_at_most(tmp_path: Path, quota: dict[str, Any]) -> None:
    async with toolcrib.open({"quotas": [quota]}, state=tmp_path) as crib:
        ended = await asyncio.gather(*(talk(crib, f"{at}", say_much) for at in range(6)))
        assert sorted(each.reason == "done" for each in ended) == [False] * 4 + [True] * 2


async def test_replies_that_a_quota_has_room_for_are_asked_for_side_by_side(tmp_path: Path) -> None:
    together = asyncio.Barrier(3)

    async def meet(_: Request) -> Reply:
        await together.wait()
        return text_reply("Hi.", Usage(input=60))

    async with toolcrib.open({"quotas": [{"per": "day", "tokens": 3 * CARD.window}]}, state=tmp_path) as crib:
        ended = await asyncio.gather(*(talk(crib, f"{at}", meet) for at in range(3)))
        assert [each.reason for each in ended] == ["done"] * 3


async def test_a_reply_that_fails_or_is_stopped_keeps_nothing_from_others(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def fail(_: Request) -> Reply:
        raise RuntimeError("no")

    async def wait(_: Request) -> Reply:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with toolcrib.open({"quotas": [FEW]}, state=tmp_path) as crib:
        assert (await talk(crib, "a", fail)).reason == "error"
        turn = crib.turn("hi", caller=replace(ANN, session="agent:main:main"), model=FunctionModel(wait, CARD))
        async with turn:
            await begun.wait()
        assert (await talk(crib, "b", say_much)).reason == "done"


PROGRAM = """
import asyncio, sys
from pathlib import Path
import toolcrib
from tests.services.test_reservations import FEW, say_much, talk

async def hang(request):
    print("asking", flush=True)
    await asyncio.Event().wait()

async def main():
    async with toolcrib.open({"quotas": [FEW]}, state=Path(sys.argv[1])) as crib:
        if sys.argv[2] == "hang":
            await talk(crib, "hung", hang)
        print("ready", flush=True)
        sys.stdin.readline()
        ended = await asyncio.gather(*(talk(crib, f"{sys.argv[2]}-{at}", say_much) for at in range(3)))
        print(sum(each.reason == "done" for each in ended), flush=True)

asyncio.run(main())
"""


def start(state: Path, name: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}", "TZ": "UTC"}
    line = [sys.executable, "-c", PROGRAM, str(state), name]
    return prestarted.Popen(line, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_of_turns_in_three_processes_at_once_one_reply_passes_a_quota_at_most(tmp_path: Path) -> None:
    racers = [start(tmp_path, f"{at}") for at in range(3)]
    try:
        assert [hear(each) for each in racers] == ["ready"] * 3
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("\n")
            racer.stdin.flush()
        assert sum(int(hear(each)) for each in racers) == 2
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


async def test_a_process_that_was_killed_amid_a_reply_keeps_nothing_from_others(tmp_path: Path) -> None:
    hung = start(tmp_path, "hang")
    try:
        assert await asyncio.to_thread(hear, hung) == "asking"
    finally:
        hung.kill()
        hung.communicate()
    async with toolcrib.open({"quotas": [FEW]}, state=tmp_path) as crib:
        assert (await talk(crib, "after", say_much)).reason == "done"
