"""Quotas: counted before a call runs and after a reply, over processes, told before they bite, shown by explain."""

import asyncio
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

import toolcrib
from tests.backends.models.servers import Say, answering, serving
from tests.racers import race
from toolcrib import OWNER, Caller, Sender
from toolcrib.app import Crib
from toolcrib.define.errors import ConfigError
from toolcrib.define.event import Usage, Warned
from toolcrib.define.message import Call
from toolcrib.define.model import ModelCard, Price
from toolcrib.define.quota import window_around
from toolcrib.define.tool import tool
from toolcrib.testing import FakeApprover, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

ANN = Caller(channel="telegram", group="-1", sender=Sender(id="7"))
BOB = replace(ANN, sender=Sender(id="8"))
CARD = ModelCard(provider="anthropic", model="priced", price=Price(input=0.0, output=1_000_000.0))
SECONDS = 240


@tool(effects={"read"}, group="shop")
async def price(item: str) -> str:
    """Say what something costs."""
    if item == "broken":
        raise RuntimeError(item)
    return f"{item}: 1"


@tool(effects={"write"})
async def order(item: str) -> str:
    """Order something."""
    return f"{item} is ordered"


def opened(folder: Path, *quotas: dict[str, Any], **more: Any) -> Crib:
    return toolcrib.open({"quotas": list(quotas), **more}, tools=[price, order], state=folder)


async def run(crib: Crib, caller: Caller, *names: str, **more: Any) -> list[str]:
    """Return what came of calls: ok, or the code of the failure."""
    belt = crib.belt(caller, **more)
    results = [await belt.call(name, {"item": "nut"}) for name in names]
    return [each.status if each.status == "ok" else each.details["code"] for each in results]


@pytest.mark.parametrize(
    ("quota", "callers", "outcome"),
    [
        ({"who": "sender", "tool": "price"}, [ANN, ANN, BOB], ["ok", "quota", "ok"]),
        ({"who": "id:7"}, [ANN, ANN, BOB, BOB], ["ok", "quota", "ok", "ok"]),
        ({"who": "id:7"}, [replace(ANN, channel="irc"), ANN], ["ok", "quota"]),
        ({}, [ANN, BOB, OWNER], ["ok", "quota", "quota"]),
        ({"tool": "order"}, [ANN, ANN], ["ok", "ok"]),
        ({"tool": "group:shop"}, [ANN, BOB], ["ok", "quota"]),
        ({"tool": "effect:read"}, [ANN, BOB], ["ok", "quota"]),
        ({"tool": "pr*"}, [ANN, BOB], ["ok", "quota"]),
        ({"tool": "*"}, [ANN, BOB], ["ok", "quota"]),
        ({"who": "agent"}, [ANN, replace(ANN, agent="dev"), BOB], ["ok", "ok", "quota"]),
        (
            {"who": "agent:Dev"},
            [ANN, ANN, replace(ANN, agent="dev"), replace(BOB, agent="dev")],
            ["ok"] * 3 + ["quota"],
        ),
        # who has no identity is not told from others by a name that anyone can take
        (
            {"who": "sender"},
            [replace(ANN, sender=Sender(username="a")), replace(ANN, sender=Sender(username="b"))],
            ["ok", "quota"],
        ),
    ],
)
async def test_a_quota_counts_for_whom_and_what_it_names(
    tmp_path: Path, quota: dict[str, Any], callers: Iterable[Caller], outcome: list[str]
) -> None:
    async with opened(tmp_path, {**quota, "per": "day", "calls": 1}) as crib:
        assert [(await run(crib, caller, "price"))[0] for caller in callers] == outcome


ROLES = {"roles": {"Family": ["telegram:id:7", "telegram:e164:+3804412", "username:eve"]}}
EVE = replace(ANN, sender=Sender(id="9", username="@Eve"))


@pytest.mark.parametrize(
    ("quota", "callers", "outcome"),
    [
        ({}, [ANN, ANN, BOB, BOB], ["ok", "quota", "ok", "ok"]),
        ({}, [ANN, replace(ANN, sender=Sender(e164="+3804412")), ANN], ["ok", "ok", "quota"]),
        ({"shared": True}, [ANN, replace(ANN, sender=Sender(e164="+3804412")), BOB], ["ok", "quota", "ok"]),
        # a name that anyone can take brings somebody in, and a new one brings no new share
        ({}, [EVE, replace(EVE, sender=Sender(id="9", name="Eve", username="eve"))], ["ok", "quota"]),
        ({}, [EVE, replace(EVE, sender=Sender(id="10", username="eve"))], ["ok", "ok"]),
        # another chat, agent or session, or a subagent, is the same member
        ({}, [ANN, replace(ANN, group="-2", session="x")], ["ok", "quota"]),
        ({}, [ANN, replace(ANN, agent="helper", parents=("agent:main:main",))], ["ok", "quota"]),
        ({"tool": "order"}, [ANN, ANN], ["ok", "ok"]),
        ({}, [OWNER, OWNER], ["ok", "ok"]),
    ],
)
async def test_a_quota_of_a_role_is_each_members_own_unless_it_is_shared(
    tmp_path: Path, quota: dict[str, Any], callers: Iterable[Caller], outcome: list[str]
) -> None:
    limit = {"who": "role: family", **quota, "per": "day", "calls": 1}
    async with opened(tmp_path, limit, agents={"helper": {}}, **ROLES) as crib:
        assert [(await run(crib, caller, "price"))[0] for caller in callers] == outcome


async def test_explain_says_what_a_member_has_left_and_what_all_of_a_role_have(tmp_path: Path) -> None:
    own = {"who": "role:family", "per": "day", "calls": 3}
    async with opened(tmp_path, own, {**own, "shared": True, "calls": 2}, **ROLES) as crib:
        await run(crib, ANN, "price", "price")
        row: dict[str, Any] = {"tools": [{"tool": "price", "decision": "allow"}], "steps": []}
        other = replace(ANN, sender=Sender(e164="+3804412"))
        told = await crib.standing.apply(other, row, {"price": price})
        told |= told["tools"][0]
        left = [(each["who"], each.get("shared", False), each["calls"]["left"]) for each in told["quota"]]
        assert left == [("role:family", False, 3), ("role:family", True, 0)]
        assert (told["decision"], told["layer"], told["origin"]) == ("deny", "quota", "quotas[1]")
        assert "2 of 2 calls by all of role:family this day are used (quotas[1])" in told["reason"]


async def test_a_subagent_takes_from_the_quotas_of_its_parents(tmp_path: Path) -> None:
    child = replace(ANN, agent="helper", session="agent:helper:subagent:x", parents=("agent:dev:main",))
    config: dict[str, Any] = {"agents": {"dev": {}, "helper": {}}}
    async with opened(tmp_path, {"who": "agent:dev", "per": "day", "calls": 1}, **config) as crib:
        assert await run(crib, child, "price", "price") == ["ok", "quota"]
        assert await run(crib, replace(ANN, agent="dev"), "price") == ["quota"]


async def test_what_is_refused_is_not_counted_and_what_fails_is(tmp_path: Path) -> None:
    ask = {"tools": {"ask": ["order"], "deny": ["read"]}}
    async with opened(tmp_path, {"per": "day", "calls": 2}, **ask) as crib:
        assert await run(crib, ANN, "order", approver=FakeApprover(False)) == ["not_approved"]
        assert await run(crib, ANN, "read", "nothing") == ["denied", "not_found"]
        belt = crib.belt(ANN)
        assert (await belt.call("price", {"thing": 1})).details["code"] == "bad_arguments"
        assert (await belt.call("price", {"item": "broken"})).details["code"] == "bug"
        assert await run(crib, ANN, "price", "price") == ["ok", "quota"]


async def test_nobody_is_asked_about_what_is_used_up(tmp_path: Path) -> None:
    async with opened(tmp_path, {"tool": "order", "per": "day", "calls": 1}, tools={"ask": ["order"]}) as crib:
        human = FakeApprover(True)
        assert await run(crib, ANN, "order", "order", approver=human) == ["ok", "quota"]
        assert len(human.asked) == 1


async def test_counts_outlive_the_crib_and_a_higher_limit_goes_on_from_them(tmp_path: Path) -> None:
    quota = {"who": "sender", "per": "day"}
    async with opened(tmp_path, {**quota, "calls": 1}) as crib:
        assert await run(crib, ANN, "price", "price") == ["ok", "quota"]
    async with opened(tmp_path, {**quota, "calls": 2}, {**quota, "calls": 9}) as crib:  # one count, the lower limit
        assert await run(crib, ANN, "price", "price") == ["ok", "quota"]


async def test_the_refusal_says_what_is_used_where_it_stands_and_when_it_is_free_again(tmp_path: Path) -> None:
    async with opened(tmp_path, {"who": "sender", "tool": "price", "per": "hour", "calls": 0}) as crib:
        result = await crib.belt(ANN).call("price", {"item": "nut"})
        _, until = window_around("hour", time.time())
        words = "price is over its quota: 0 of 0 calls of price by one sender this hour are used (quotas[0])"
        assert result.plain_text.startswith(f"{words}, so nothing is left until ")
        assert abs(until - datetime.fromisoformat(result.plain_text[-16:]).timestamp()) in (0, 3600)


async def test_a_quota_that_is_nearly_used_up_is_told_once_in_the_turn_and_to_the_person(tmp_path: Path) -> None:
    model = ScriptedModel([*(call_reply(Call(str(at), "price", {"item": str(at)})) for at in range(5)), "Done."])
    async with opened(tmp_path, {"tool": "price", "per": "day", "calls": 5}) as crib:
        turn = crib.turn("prices", caller=OWNER, model=model)
        warned = [event async for event in turn if isinstance(event, Warned)]
        end = await turn.end()
    assert [each.sentence.partition(" (")[0] for each in warned] == ["4 of 5 calls of price this day are used"]
    assert end.text == f"Done.\n\n{warned[0].sentence}."


async def test_replies_stop_once_their_tokens_are_used_and_tools_named_by_a_quota_do(tmp_path: Path) -> None:
    usage = Usage(input=60, output=0)
    calling = call_reply(Call("1", "price", {"item": "nut"}), usage=usage)
    limits = ({"who": "sender", "per": "day", "tokens": 100}, {"tool": "order", "per": "day", "tokens": 50})
    async with opened(tmp_path, *limits) as crib:
        model = ScriptedModel([calling, calling])
        end = await crib.turn("prices", caller=ANN, model=model).end()
        assert (end.reason, end.steps, end.usage.input) == ("tokens", 2, 120)  # passed by one reply, without last words
        assert end.sentence.startswith("120 of 100 tokens by one sender this day are used (quotas[0])")
        assert end.text.endswith(f"{end.sentence}.")
        model.done()
        nobody = ScriptedModel([])
        assert (await crib.turn("more", caller=ANN, model=nobody).end()).reason == "tokens"
        assert (await crib.turn("hi", caller=BOB, model=ScriptedModel(["Hi."])).end()).reason == "done"
        assert await run(crib, BOB, "order", "price") == ["quota", "ok"]
        assert await run(crib, ANN, "price") == ["quota"]


async def test_a_reply_is_counted_while_its_calls_go_on(tmp_path: Path) -> None:
    begun, calling = asyncio.Event(), call_reply(Call("1", "wait", {}), usage=Usage(input=60))

    @tool(effects=set())
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    config = {"quotas": [{"who": "sender", "per": "day", "tokens": 100}]}
    here = replace(ANN, session="agent:main:telegram:group:-1")
    async with (
        toolcrib.open(config, tools=[wait], state=tmp_path) as crib,
        crib.turn("wait", caller=here, model=ScriptedModel([calling])),
        asyncio.timeout(SECONDS),
    ):
        await begun.wait()
        told = await crib.ask("tools.explain", {"tool": "wait"}, caller=here)
        assert told["quota"][0]["tokens"]["used"] == 60


async def test_what_a_second_model_takes_is_counted_also_outside_of_turns(tmp_path: Path) -> None:
    config = {"tools": {"review": {"model": "desk:careful", "effects": ["write"]}}}
    fine = Say(text='{"decision": "allow", "reason": "fine"}', usage=Usage(input=50, output=10))
    async with serving(answering("openai", fine)) as server:
        config |= {"models": {"desk": {"baseUrl": server.base_url}}}
        async with opened(tmp_path, {"who": "sender", "per": "day", "tokens": 100}, **config) as crib:
            assert await run(crib, ANN, "order", "order", "order") == ["ok", "quota", "quota"]
            assert len(server.asked) == 2  # nothing is left for a third one
            assert await run(crib, BOB, "order") == ["ok"]


async def test_money_is_counted_and_a_model_without_a_price_is_not_asked(tmp_path: Path) -> None:
    async with opened(tmp_path, {"who": "sender", "per": "day", "cost": 2.0}) as crib:
        dear = ScriptedModel([text_reply("Hi.", Usage(output=3))], card=CARD)
        assert (await crib.turn("hi", caller=ANN, model=dear).end()).reason == "done"
        end = await crib.turn("hi", caller=ANN, model=ScriptedModel([], card=CARD)).end()
        assert (end.reason, end.sentence.partition(" by")[0]) == ("cost", "$3.0000 of $2.0000")
        unpriced = ScriptedModel([], card=replace(CARD, price=None))
        end = await crib.turn("hi", caller=BOB, model=unpriced).end()
        assert end.sentence == "quotas[0].cost is set, and the price of this model is not known"


async def test_explain_shows_what_is_left_and_denies_what_is_used_up(tmp_path: Path) -> None:
    async with opened(
        tmp_path, {"tool": "price", "per": "day", "calls": 2, "cost": 1}, tools={"deny": ["read"]}
    ) as crib:

        async def explain(name: str) -> dict[str, Any]:
            told: dict[str, Any] = await crib.ask("tools.explain", {"tool": name}, caller=OWNER)
            return told

        before = await explain("price")
        assert (before["decision"], before["steps"][-1]["layer"]) == ("allow", "quota")
        assert before["quota"][0]["calls"] == {"limit": 2, "used": 0, "left": 2}
        await run(crib, OWNER, "price", "price")
        after = await explain("price")
        assert (after["decision"], after["layer"], after["rule"]) == ("deny", "quota", "calls: 2 per day")
        assert after["tools"][0]["reason"] == after["reason"]
        assert after["steps"][-1] == {
            "layer": "quota", "origin": "quotas[0]", "decision": "deny", "rule": "calls: 2 per day",
        }  # fmt: skip
        assert after["quota"][0]["calls"]["left"] == 0
        assert "quota" not in await explain("order")
        assert (await explain("read"))["layer"] == "global"


async def test_the_record_says_that_a_quota_refused_and_stays_whole(tmp_path: Path) -> None:
    async with opened(tmp_path, {"per": "day", "calls": 1}) as crib:
        await run(crib, OWNER, "price", "price")
        last = (await crib.ask("audit.tail", {}, caller=OWNER))[-1]
        assert (last["decision"], last["layer"], last["origin"], last["ran"]) == ("deny", "quota", "quotas[0]", False)
        report = await crib.ask("audit.verify", {"replay": True}, caller=OWNER)
        assert report["findings"] == ()


RACER = """
import asyncio, sys
import toolcrib
from toolcrib.define.tool import tool

@tool(effects={"read"})
async def price(item: str) -> str:
    "Say what something costs."
    return item

async def main():
    config = {"quotas": [{"who": "sender", "tool": "price", "per": "day", "calls": 20}]}
    crib = toolcrib.open(config, tools=[price], state=sys.argv[1])
    belt = crib.belt(toolcrib.Caller(channel="telegram", group="-1", sender=toolcrib.Sender(id="7")))
    print("ready", flush=True)
    sys.stdin.readline()
    results = await asyncio.gather(*(belt.call("price", {"item": "nut"}) for _ in range(50)))
    codes = [each.status if each.status == "ok" else each.details["code"] for each in results]
    assert set(codes) <= {"ok", "quota"}, codes
    print(codes.count("ok"), flush=True)
    await crib.close()

asyncio.run(main())
"""


def test_of_calls_in_four_processes_at_once_exactly_as_many_run_as_may(tmp_path: Path) -> None:
    line = [sys.executable, "-c", RACER, str(tmp_path)]
    zones = ("UTC", "Asia/Kolkata", "Etc/GMT+12", "Pacific/Kiritimati")  # that never have one day
    counts = [int(told) for told in race([(line, {**os.environ, "TZ": zone}) for zone in zones])]
    assert sum(counts) == 20, counts


@pytest.mark.parametrize(
    ("quota", "words"),
    [
        ({"who": "role:", "per": "day", "calls": 1}, "quotas[0].who: 'role:' names no role"),
        ({"who": "role", "per": "day", "calls": 1}, "quotas[0].who: 'role': whom it is about is written"),
        ({"who": "sender", "shared": True, "per": "day", "calls": 1}, "quotas[0]: shared is for a role"),
        ({"who": "senders", "per": "day", "calls": 1}, "quotas[0].who: 'senders': whom it is about is written"),
        ({"who": "username:bob", "per": "day", "calls": 1}, "quotas[0].who: 'username:bob': whom it is about"),
        ({"who": "id:", "per": "day", "calls": 1}, "quotas[0].who: a blank sender is nobody"),
        ({"per": "day"}, "quotas[0]: limits nothing"),
        ({"calls": 1}, "quotas[0].per"),
        ({"per": "week", "calls": 1}, "quotas[0].per: should be 'hour' or 'day'"),
        ({"per": "day", "calls": True}, "quotas[0].calls"),
        ({"per": "day", "cost": "1"}, "quotas[0].cost: should be a number"),
        ({"per": "day", "calls": 1, "tools": "x"}, "quotas[0].tools"),
        ({"per": "day", "calls": 1, "tool": "[x]"}, "quotas[0].tool: '[x]' can match no tool"),
    ],
)
async def test_a_quota_of_a_wrong_shape_is_refused_with_its_place(quota: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        toolcrib.open({"quotas": [quota]})
    assert words in str(caught.value)


async def test_lint_finds_a_quota_about_nothing_that_exists(tmp_path: Path) -> None:
    async with opened(tmp_path, {"who": "agent:dve", "tool": "prise", "per": "day", "calls": 1}) as crib:
        found = {each.origin: each.message for each in crib.lint() if each.kind == "unknown"}
    assert found["quotas[0].tool"] == "'prise' names no tool, group or plugin that exists here"
    assert found["quotas[0].who"] == "no agent is called 'dve'"
    async with opened(tmp_path, {"who": "role:famly", "per": "day", "calls": 1}, **ROLES) as crib:
        (said,) = [each for each in crib.lint() if each.origin == "quotas[0].who"]
    assert (said.message, said.remedy) == ("no role is called 'famly'", "did you mean 'role:family'?")


async def test_without_quotas_nothing_is_counted_and_no_file_is_made(tmp_path: Path) -> None:
    crib = toolcrib.open({}, tools=[price], env={"TOOLCRIB_STATE": str(tmp_path / "state")})
    async with crib:
        assert await run(crib, ANN, "price") == ["ok"]
    assert not (tmp_path / "state").exists()


async def test_a_call_that_cannot_be_counted_does_not_run(tmp_path: Path) -> None:
    async with opened(tmp_path / "state", {"per": "day", "calls": 9}) as crib:
        assert await run(crib, ANN, "price") == ["ok"]
        apsw.Connection(str(tmp_path / "state" / "crib.db")).execute("DROP TABLE quota_counts")
        assert await run(crib, ANN, "price") == ["unavailable"]


async def test_calls_side_by_side_in_one_reply_share_one_count(tmp_path: Path) -> None:
    async with opened(tmp_path, {"per": "hour", "calls": 3}) as crib:
        belt = crib.belt(ANN)
        results = await belt.call_all([Call(str(at), "price", {"item": "nut"}) for at in range(10)])
        more = await asyncio.gather(*(belt.call("price", {"item": "nut"}) for _ in range(5)))
    assert [each.status for each in (*results, *more)].count("ok") == 3
