"""The key of a call (G15): one from the reply to the outcome, on the disk as in the body, and no other call's, ever."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from toolcrib.define.log import Began, Said

pytestmark = pytest.mark.anyio

KEY = "agent:main:main"

# One process: a call that ends, and one in which the process dies. A guard rewrites both, and a human is asked.
PROGRAM = """
import asyncio, json, os, sys
import toolcrib
from toolcrib import Call, Ctx, Result, tool
from toolcrib.define.event import ToolFinished, ToolStarted
from toolcrib.define.plugin import Rewrite
from toolcrib.registry.sources import Offer
from toolcrib.testing import FakeApprover
from toolcrib.testing.models import ScriptedModel, call_reply, text_reply

def say(where, call):
    print(json.dumps([where, call.args.get("to"), call.key]), flush=True)

@tool(effects={"send"})
async def pay(ctx: Ctx, to: str) -> str:
    "Pay."
    say("body", ctx.call)
    if to == "dies":
        os._exit(9)
    return "paid"

async def guard(ctx, args):
    say("guard", ctx.call)
    return Rewrite({**args})

class Human(FakeApprover):
    async def approve(self, caller, call, *more):
        say("human", call)
        return await super().approve(caller, call, *more)

async def main(state):
    offer = Offer(source="plugin:shop", tools=(pay,), before=(guard,))
    config = {"tools": {"ask": ["pay"]}}
    async with toolcrib.open(config, plugins=[offer], state=state, approver=Human([True, True]), env={}) as crib:
        calls = [call_reply(Call(id="same", name="pay", args={"to": to})) for to in ("ends", "dies")]
        model = ScriptedModel([*calls, text_reply("never")])
        async for event in crib.turn("pay both", caller=toolcrib.OWNER, session="agent:main:main", model=model):
            if isinstance(event, ToolStarted | ToolFinished):
                say(type(event).__name__, event.call)

asyncio.run(main(sys.argv[1]))
"""


def died_in(state: Path, seed: str) -> list[tuple[str, str, str]]:
    """Run the program until it dies, and return who was shown which key for which payment."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 9, ended.stderr
    return [(where, to, key) for where, to, key in map(json.loads, ended.stdout.splitlines())]


async def test_a_call_has_one_key_from_the_reply_to_the_record_and_over_a_crash(tmp_path: Path) -> None:
    shown = died_in(tmp_path, "0")
    keys = {to: {key for _, each, key in shown if each == to} for to in ("ends", "dies")}
    assert {where for where, _, _ in shown} == {"guard", "human", "body", "ToolStarted", "ToolFinished"}
    assert [len(each) for each in keys.values()] == [1, 1]
    wanted = {to: key for to, (key,) in keys.items()}
    assert len(set(wanted.values())) == 2, "two calls with one id are two calls"
    async with toolcrib.open({}, state=tmp_path, env={}) as crib:
        lines = await crib.sessions.lines(KEY)
        wished = [call for line in lines if isinstance(line.body, Said) for call in line.body.message.calls]
        began = [line.body.call for line in lines if isinstance(line.body, Began)]
        for calls in (wished, began):
            assert {call.args["to"]: call.key for call in calls} == wanted
        for _ in range(2):  # however often it is read
            told = await crib.ask("audit.tail", {"tool": "pay"}, caller=toolcrib.OWNER)
            assert {each["args"]["to"]: each["call"] for each in told} == wanted
            report = await crib.ask("audit.verify", {}, caller=toolcrib.OWNER)
            assert [each["call"] for each in report["uncertain"]] == [wanted["dies"]]


def test_no_other_process_gives_a_key_that_was_given(tmp_path: Path) -> None:
    seen = [{key for _, _, key in died_in(tmp_path / f"{at}", seed)} for at, seed in enumerate(("0", "0", "1"))]
    assert [len(each) for each in seen] == [2, 2, 2]
    assert len(set().union(*seen)) == 6


FORKED = """
import os, sys
from toolcrib.agent.line import new_key
print(new_key(), flush=True)
for _ in range(3):
    if os.fork() == 0:
        print(new_key(), new_key(), flush=True)
        os._exit(0)
    os.wait()
print(new_key(), flush=True)
"""


def test_no_child_that_was_forked_goes_on_with_the_keys_of_its_parent() -> None:
    told = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True)
    keys = told.stdout.split()
    assert (len(keys), len(set(keys))) == (8, 8)


SESSIONS = """
import json, sys
from toolcrib.define import session
from toolcrib.define.session import Peer
links = {"sam": ["telegram:7", "signal:+1"], "eve": ["telegram:8"]}
if sys.argv[1] == "turned":
    links = {name: list(reversed(links[name])) for name in reversed(links)}
known = (("telegram", "7", "dm"), ("signal", "+1", "dm"), ("telegram", "-100", "group"))
peers = [Peer(channel=channel, id=id, kind=kind, account="") for channel, id, kind in known]
scopes = ("main", "per-peer", "per-channel-peer")
print(json.dumps([
    [session.to_peer_key("Main Agent", peer, scope=scope, links=links) for peer in peers for scope in scopes],
    session.to_store_key("Main Agent", "Telegram:Group:5"), session.to_thread_key("agent:main:x", "T 1"),
]))
"""


def test_the_same_conversation_has_the_same_session_key_in_every_process_and_order() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", SESSIONS, order],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for order in ("given", "turned")
        for seed in ("0", "1", "4711")
    }
    assert len(told) == 1
