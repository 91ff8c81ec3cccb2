"""A plugin's factory that is told who asks: the tool as it is made for this caller, or none, and why."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.doors.world import ask, refused

import toolcrib
from toolcrib import Caller, Plugin, Sender, Tool, tool
from toolcrib.app import Crib
from toolcrib.registry.sources import Offer

pytestmark = pytest.mark.anyio

Config = Mapping[str, Any]


def order(config: Config, caller: Caller) -> Tool | None:
    if caller.sandboxed or caller.session is None:
        return None

    @tool(name="order", effects={"send"})
    async def place(item: str) -> str:
        """Order one item."""
        return f"{item} for {caller.session} of {caller.agent}, at {config.get('shop')}"

    return place


def crib_of(*factories: Any, config: Config | None = None, **settings: Any) -> Crib:
    offer = Offer(source="plugin:shop", tools=factories, config=config or {})
    return toolcrib.open(settings, plugins=[offer])


def caller(session: str | None = "agent:main:main", **fields: Any) -> Caller:
    return Caller(owner=True, session=session, **fields)


async def test_a_factory_gets_session_sandbox_and_configuration() -> None:
    crib = crib_of(order, config={"shop": "Lviv"})
    for session, agent in (("agent:main:main", "main"), ("agent:support:main", "support")):
        result = await crib.belt(caller(session)).call("order", {"item": "nut"})
        assert result.plain_text == f"nut for {session} of {agent}, at Lviv"


@pytest.mark.parametrize(
    ("who", "settings"),
    [
        (caller(None), {}),
        (caller(sandboxed=True), {}),
        (caller(), {"sandbox": {"mode": "all"}}),
        (caller("agent:support:main"), {"agents": {"support": {"sandbox": "all"}}}),
    ],
)
async def test_what_a_factory_does_not_make_for_a_caller_is_not_there_and_explained(
    who: Caller, settings: dict[str, Any]
) -> None:
    tools = {"allow": ["order"], "sandbox": {"tools": {"allow": ["order"]}}}
    belt = crib_of(order, **settings, tools=tools).belt(who)
    verdict = belt.verdicts["order"]
    assert (verdict.decision, verdict.layer, verdict.rule) == ("deny", "requires", "caller")
    assert verdict.reason == "its plugin does not bring it for this caller"
    assert "order" not in belt.tools
    assert "order" not in json.dumps(belt.declare("openai"))
    result = await belt.call("order", {"item": "nut"})
    assert (result.status, "does not bring it for this caller" in result.plain_text) == ("error", True)
    assert crib_of(order, tools=tools).belt(caller()).verdicts["order"].decision == "allow"


def test_policy_denies_what_is_made_all_the_same() -> None:
    belt = crib_of(order, tools={"deny": ["shop"]}).belt(caller())
    assert (belt.verdicts["order"].layer, "order" in belt.tools) == ("global", False)


@pytest.mark.parametrize("mode", ["ceiling", "own"])
def test_a_subagent_has_no_tool_that_its_parent_is_not_given(mode: str) -> None:
    def mine(config: Config, caller: Caller) -> Tool | None:
        return None if caller.agent == "main" and caller.sandboxed else order(config, caller)

    settings = {
        "agents": {"main": {"sandbox": "all"}, "helper": {"sandbox": "off"}},
        "tools": {"subagents": {"mode": mode}},
    }
    child = Caller(owner=True, session="agent:helper:subagent:1", agent="helper", parents=("agent:main:main",))
    offer = Offer(source="plugin:shop", tools=(mine,), per_caller=(Tool.declared("order", "", effects={"send"}),))
    belt = toolcrib.open(settings, plugins=[offer]).belt(child)
    assert ("order" in belt.tools) == (mode == "own")


def test_only_the_owners_tools_are_known_where_nothing_declares_them() -> None:
    def guests(config: Config, caller: Caller) -> Tool | None:
        return None if caller.owner else Tool.declared("order", "Order.")

    crib = crib_of(guests)
    assert "order" not in crib.catalog
    assert "a factory makes nothing for the owner" in " ".join(each.message for each in crib.lint())
    declared = Offer(source="plugin:shop", tools=(guests,), per_caller=(Tool.declared("order", "Order."),))
    crib = toolcrib.open({"tools": {"guests": "full"}}, plugins=[declared])
    guest = Caller(channel="irc", group="#shop", sender=Sender(id="7"))
    assert [crib.belt(each).verdicts["order"].decision for each in (guest, caller())] == ["allow", "deny"]


async def test_a_factory_that_fails_for_a_caller_takes_nobody_else_along(caplog: pytest.LogCaptureFixture) -> None:
    def fickle(config: Config, caller: Caller) -> Tool | None:
        if caller.agent == "support":
            raise ValueError("no luck")
        return order(config, caller)

    crib = crib_of(fickle)
    with caplog.at_level(logging.ERROR, "toolcrib"):
        verdict = crib.belt(caller("agent:support:main")).verdicts["order"]
    assert (verdict.rule, verdict.reason) == ("caller:failed", "its plugin failed to make it for this caller")
    assert "plugin:shop: fickle raised ValueError: no luck" in caplog.text
    assert (await crib.belt(caller()).call("order", {"item": "nut"})).status == "ok"


@pytest.mark.parametrize(
    "terms", [{"effects": {"execute"}}, {"effects": None}, {"owner_only": False}, {"requires": ()}, {"group": "y"}]
)
def test_a_tool_is_for_nobody_another_one_than_it_is_judged_as(terms: dict[str, Any]) -> None:
    known: dict[str, Any] = {"effects": {"read", "send"}, "owner_only": True, "requires": ("model:x",), "group": "x"}

    def turns(config: Config, caller: Caller) -> Tool:
        return Tool.declared("order", "Order.", **known if caller.agent == "main" else {**known, **terms})

    crib = crib_of(turns)
    spoken = {"provider": "x", "model": "x"}
    assert crib.belt(caller("agent:support:main", **spoken)).verdicts["order"].rule == "caller:failed"
    assert crib.belt(caller(**spoken)).verdicts["order"].decision == "allow"


def test_a_tool_may_do_less_for_a_caller_and_is_judged_as_ever() -> None:
    def less(config: Config, caller: Caller) -> Tool:
        return Tool.declared("order", "Order.", effects={"read", "send"} if caller.agent == "main" else {"read"})

    belt = crib_of(less, tools={"deny": ["effect:send"]}).belt(caller("agent:support:main"))
    assert belt.verdicts["order"].decision == "deny"


def test_a_factory_is_asked_once_for_a_caller() -> None:
    asked = list[str | None]()

    def counts(config: Config, caller: Caller) -> Tool | None:
        asked.append(caller.agent)
        return order(config, caller)

    crib = crib_of(counts)
    asked.clear()
    for session in ("agent:main:main", "agent:main:main", "agent:support:main"):
        crib.belt(caller(session))
    assert asked == ["main", "support"]


async def test_a_verdict_that_a_factory_made_is_derived_from_the_record_again(tmp_path: Path) -> None:
    crib = toolcrib.open({}, plugins=[Plugin(name="shop", tools=(order,))], state=tmp_path)
    async with crib:
        for who in (caller(), caller(sandboxed=True), caller()):
            await crib.belt(who).call("order", {"item": "nut"})
        found = await crib.ask("audit.verify", {"replay": True}, caller=toolcrib.OWNER)
    assert (list(found["findings"]), found["derived"]) == ([], 3)


MANIFEST = {"id": "shop", "configSchema": {}, "tools": [{"name": "order", "effects": ["send"], "perCaller": True}]}
CODE = """
from toolcrib import Plugin, tool

@tool(effects={"send"})
def order(item: str) -> str:
    "Order one item."
    return "ordered"

def make(config, caller):
    return None if caller.sandboxed or caller.channel == "irc" else order

plugin = Plugin(name="shop", tools=(make,))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins" / "shop"
    folder.mkdir(parents=True)
    (folder / "toolcrib.plugin.json").write_text(json.dumps(MANIFEST))
    (folder / "plugin.py").write_text(CODE)
    expect = {"caller": {"sandboxed": True}, "lacks": ["order"]}
    (tmp_path / "crib.json").write_text(
        json.dumps({"plugins": {"folders": ["plugins"], "shop": {"enabled": True}}, "expect": [expect]})
    )
    return tmp_path / "crib.json"


@pytest.mark.parametrize(
    ("options", "decision", "layer"),
    [
        ([], "allow", None),
        (["--sandboxed"], "deny", "requires"),
        (["--channel", "irc", "--group", "#x"], "deny", "requires"),
    ],
)
def test_explain_and_lint_say_what_happens(
    shop: Path, capsys: pytest.CaptureFixture[str], options: list[str], decision: str, layer: str | None
) -> None:
    (told,) = json.loads(ask(capsys, "explain", "order", "--config", shop, "--json", *options).out)["tools"]
    assert (told["decision"], told["layer"]) == (decision, layer)
    assert ask(capsys, "lint", "--config", shop).code == 0


def test_a_proof_says_that_it_does_not_know_whom_a_factory_makes_a_tool_for(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doubt = "who gets order is not certain: its plugin makes it for each caller"
    told = ask(capsys, "policy", "prove", "--never", "order", "--channel", "irc", "--config", shop, "--json")
    assert (told.json["holds"], told.json["uncertain"]) == (True, [doubt])
    told = ask(capsys, "policy", "prove", "--never", "gateway", "--except", "owner", "--config", shop, "--json")
    assert told.json["uncertain"] == []


def test_a_manifest_says_that_its_tools_are_made_for_each_caller(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = shop.parent / "plugins" / "shop" / "toolcrib.plugin.json"
    manifest.write_text(json.dumps(MANIFEST).replace(', "perCaller": true', ""))
    sentence = refused(ask(capsys, "tools", "list", "--config", shop))
    assert "has a factory that is asked for every caller, and its manifest does not say so" in sentence
