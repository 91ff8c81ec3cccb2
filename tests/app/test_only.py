"""A belt narrowed to some tools by the program that asks for it, and how cribs, belts and verdicts are shown."""

import json
from dataclasses import asdict
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Caller, Image, Result, Sender, tool
from toolcrib.agent.replay import judge_from

pytestmark = pytest.mark.anyio


@tool(effects={"read"})
def price(item: str) -> str:
    """Say what an item costs."""
    return item


def refund(item: str) -> str:
    """Pay back."""
    return item


@pytest.mark.parametrize("only", [["price", "read"], [price, "Read"], (each for each in (price, "read"))])
def test_only_what_is_named_is_left(only: Any) -> None:
    belt = toolcrib.open({}).belt(OWNER, extra=[price, refund], only=only)
    assert set(belt.tools) == {"price", "read"}
    verdict = belt.verdicts["exec"]
    assert (verdict.decision, verdict.layer, verdict.reason) == ("deny", "profile", "not in allow (only)")
    assert verdict.remedy == "add 'exec' to `only`, or leave `only` out"
    assert {each["function"]["name"] for each in belt.declare("openai")} == {"price", "read"}


def test_a_plain_function_is_named_by_itself() -> None:
    assert set(toolcrib.open({}, tools=[price, refund]).belt(OWNER, only=[refund]).tools) == {"refund"}


def test_it_narrows_and_never_widens() -> None:
    crib = toolcrib.open({"tools": {"deny": ["exec"]}})
    assert set(crib.belt(OWNER, only=["exec", "read"]).tools) == {"read"}
    assert crib.belt(OWNER, only=["exec"]).verdicts["exec"].reason == "deny has 'exec' (tools)"
    assert set(crib.belt(OWNER, only=["read", "message"], profile="coding").tools) == {"read"}
    nothing = crib.belt(OWNER, only=[])
    assert set(nothing.tools) == set()
    assert nothing.verdicts["read"].reason == "allow is empty and permits nothing (only)"


def test_a_name_that_is_nobodys_is_refused_with_the_nearest() -> None:
    crib = toolcrib.open({})
    with pytest.raises(toolcrib.CribError, match=r"^only: there is no tool 'raed'; the nearest are read$"):
        crib.belt(OWNER, only=["read", "raed"])
    with pytest.raises(toolcrib.CribError, match=r"^only: there is no tool 'price'"):
        crib.belt(OWNER, only=[price])
    with pytest.raises(toolcrib.CribError, match=r"^only: there is no tool 'group:fs'"):
        crib.belt(OWNER, only=["group:fs"])
    with pytest.raises(toolcrib.CribError, match=r"^`only` is a list of names or tools, not 'read'"):
        crib.belt(OWNER, only="read")


async def test_who_is_bound_to_some_tools_starts_nobody_who_is_not() -> None:
    @tool(effects={"execute"})
    async def start(ctx: toolcrib.Ctx) -> str:
        """Start."""
        await ctx.rpc("subagents.spawn", {})
        return "started"

    async with toolcrib.open({}, tools=[start]) as crib:
        told = await crib.belt(OWNER, only=["start"]).call("start")
    assert told.plain_text.startswith("whoever is bound to a profile, to some tools or to a job may not ask for s")


def test_what_is_shown_of_them_is_short() -> None:
    crib = toolcrib.open({"tools": {"deny": ["exec"]}}, tools=[price, refund])
    count = len(crib.catalog.tools)
    assert repr(crib) == f"<Crib: {count} tools>"
    belt = crib.belt(Caller(channel="telegram", group="-100", sender=Sender(id="7")))
    who = "Caller(channel='telegram', group='-100', sender=Sender(id='7'))"
    assert repr(belt) == f"<Belt of {who}: {len(belt.tools)} of {count} tools>"
    assert repr(crib.belt(OWNER, only=["price"])) == f"<Belt of Caller(owner=True): 1 of {count} tools>"
    assert repr(price) == "<Tool price (core): Say what an item costs.>"
    assert repr(belt.verdicts["exec"]) == "<Verdict exec: deny at global, deny has 'exec' (tools)>"
    assert repr(Result.text("word " * 50)) == "<Result ok: 'word word wo...rd word word '>"
    assert repr(Result.error("no")) == "<Result error: 'no'>"
    assert repr(Result((Image(b"x" * 999, "image/png"),))) == "<Result ok: '', image/png of 999 bytes>"


def test_what_is_denied_so_follows_again_from_its_grounds() -> None:
    belt = toolcrib.open({}).belt(OWNER, only=["read"])
    grounds = belt.selection.grounds
    assert grounds is not None
    judge = judge_from(json.loads(grounds.text))
    for name in ("exec", "read"):
        decided = {"caller": asdict(OWNER), "call": {"name": name}, "verdict": asdict(belt.verdicts[name])}
        assert judge(decided) == ""
