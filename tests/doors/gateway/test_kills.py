"""A gateway that is killed: what it acknowledged is there, once, and clients go on where they were."""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from websockets.exceptions import WebSocketException

import toolcrib
from toolcrib import CribError, ToolError

from .test_devices import Phone, phone_at
from .test_near_and_far import gateway, state  # noqa: F401  a fixture

IS_FULL = bool(os.environ.get("TOOLCRIB_FULL"))
SEEDS, KILLS = (4, 250) if IS_FULL else (1, 20)  # each while a session, an approval and a pairing are being written

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(4 * 3600 if IS_FULL else 1800)]

CONFIG = "tools: {ask: [ls], exec: {security: full, ask: always}}\n"


@dataclass
class At:
    """A gateway that runs as a process."""

    url: str
    token: str

    def connect(self) -> toolcrib.GatewayClient:
        return toolcrib.connect(self.url, self.token, tries=0)


@dataclass
class Witness:
    """What was acknowledged, over all kills, and what was not."""

    count: int = 0
    said: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)  # said, and not answered yet
    granted: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    phones: list[tuple[Phone, str]] = field(default_factory=list)  # that are paired
    revoking: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)
    done: dict[str, asyncio.Event] = field(default_factory=dict)  # in this round, by what was done

    def begin(self) -> None:
        """Begin another round."""
        self.done = {name: asyncio.Event() for name in ("said", "granted", "ran", "paired")}

    def next(self) -> str:
        self.count += 1
        return f"key-{self.count}"

    async def say(self, at: At) -> None:
        """Send messages, one after another; those that were not answered are sent again first."""
        async with at.connect() as crib:
            while True:
                key = self.unsure.pop() if self.unsure else self.next()
                self.unsure.append(key)
                told = await crib.ask("chat.send", {"message": f"remember {key}", "idempotencyKey": key})
                self.said.append(told["runId"])
                self.unsure.remove(key)
                self.done["said"].set()
                await crib.ask("agent.wait", {"runId": key})

    async def grant(self, at: At) -> None:
        """Answer every question that is asked, also those that a killed process left; for a time where that may be."""
        async with at.connect() as crib:
            while True:
                for question in await crib.ask("approvals.list"):
                    how = {"answer": "lasting", "seconds": 86_400} if question["lasting"] else {"answer": "once"}
                    await crib.ask("approvals.answer", {"id": question["id"], **how})
                    if question["lasting"]:
                        self.granted.append(question["shown"])
                        self.done["granted"].set()

    async def call(self, at: At) -> None:
        """Call what is asked about."""
        async with at.connect() as crib:
            while True:
                key = self.next()
                await crib.call("ls", {"path": f"no-{key}"})
                if (await crib.call("exec", {"command": f"echo {key} >> ran.txt"}))["status"] == "ok":
                    self.ran.append(key)
                    self.done["ran"].set()

    async def pair(self, at: At) -> None:
        """Pair one device after another, and revoke those before it."""
        async with at.connect() as crib:
            while True:
                for old, _ in self.phones[:-1]:
                    was_asked = old.id in self.revoking
                    self.revoking.add(old.id)
                    try:
                        await crib.ask("device.token.revoke", {"deviceId": old.id})
                    except ToolError as error:
                        if error.code != "not_found" or not was_asked:
                            raise
                    self.revoked.add(old.id)
                    self.phones = [each for each in self.phones if each[0] is not old]
                phone = Phone()
                async with phone_at(at, phone, at.token, scopes=["operator.read"]) as client:
                    self.phones.append((phone, client.hello["auth"]["deviceToken"]))
                    self.done["paired"].set()


async def until_killed(work: Callable[[At], Awaitable[None]], at: At) -> str:
    """Work until the gateway is killed; return how that was noticed."""
    try:
        await work(at)
    except (CribError, OSError, WebSocketException) as error:
        return repr(error)
    return ""


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_what_was_acknowledged_is_kept_once_over_every_kill(state: Path, seed: int) -> None:  # noqa: F811
    work, witness, chance = state.parent / "work", Witness(), random.Random(seed)
    (work / "crib.yaml").write_text(CONFIG)
    for _ in range(KILLS):
        witness.begin()
        with gateway(state, "--config", "crib.yaml") as (process, url):
            at = At(url, (state / "gateway.token").read_text().strip())
            each = (witness.say, witness.grant, witness.call, witness.pair)
            clients = [asyncio.ensure_future(until_killed(work, at)) for work in each]
            done = asyncio.ensure_future(witness.done[chance.choice([*witness.done])].wait())
            await asyncio.wait([done, *clients], return_when=asyncio.FIRST_COMPLETED)
            assert done.done(), [each.result() for each in clients if each.done()]  # nobody was turned away
            await asyncio.sleep(chance.random() * 0.1)  # at any moment of what follows
            process.kill()
            await asyncio.gather(*clients)
    with gateway(state, "--config", "crib.yaml") as (_, url):
        at = At(url, (state / "gateway.token").read_text().strip())
        async with at.connect() as crib:
            for key in witness.unsure:  # whatever was not answered is asked again, and done once
                await crib.ask("chat.send", {"message": f"remember {key}", "idempotencyKey": key})
                await crib.ask("agent.wait", {"runId": key})
            lines = await crib.ask("sessions.export", {"key": "agent:main:main"})
            grants = Counter(each["shown"] for each in await crib.ask("approvals.grants"))
            paired = Counter(each["deviceId"] for each in (await crib.ask("device.pair.list"))["paired"])
        phone, token = witness.phones[-1]
        async with phone_at(at, phone, token) as client:
            assert (await client.get("health"))["ok"]
    messages = (json.loads(line).get("message", {}) for line in lines)
    words = (each["content"][0]["text"] for each in messages if each.get("role") == "user")
    said, ran = Counter(words), Counter((work / "ran.txt").read_text().split())
    assert said == {f"remember {key}": 1 for key in {*witness.said, *witness.unsure}}
    assert {each: grants[each] for each in witness.granted} == dict.fromkeys(witness.granted, 1)
    assert max(grants.values()) == 1
    assert {phone.id for phone, _ in witness.phones} - witness.revoking <= {*paired}
    assert not witness.revoked & {*paired}
    assert max(paired.values()) == 1
    assert max(ran.values()) == 1
    assert {*witness.ran} <= {*ran}
