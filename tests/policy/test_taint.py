"""Rules by the source of what is from outside: which source a pattern means, what decides, and what lint says of it."""

import time
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Agent, Plugin, Result, tool
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.message import Call
from toolcrib.define.taint import SOURCE_KINDS, join_sources, matches_source, source_after
from toolcrib.policy.taint import taint_rules_for
from toolcrib.testing.models import ScriptedModel, call_reply, text_reply


@pytest.mark.parametrize(
    ("pattern", "source", "is_meant"),
    [
        ("*", "web:https://a.test", True),
        ("web:*", "web:https://a.test/x", True),
        ("WEB:*", "web:https://A.test", True),
        ("web:https://A.TEST/*", "web:https://a.test/x", True),
        ("web", "web:https://a.test", True),
        ("web", "web_search:brave", False),
        ("web*", "web_search:brave", True),
        ("mcp:*", "web:https://a.test/mcp:x", False),
        ("mcp:shop", "mcp:shops", False),
        ("web:*", "agent:clerk after web:https://a.test", True),
        ("mcp:*", "subagent:k after web:https://a.test and mcp:shop", True),
        ("mcp:*", "subagent:k after agent:b after mcp:shop", True),
        ("message:*", "subagent:k after web:https://a.test", False),
        ("mcp:anything", "agent:clerk after web:https://a.test and others", True),
        ("web:http://[::1]/*", "web:http://[::1]/x", True),
        ("web:*?q=*", "web:https://a.test/?q=1", True),
        ("web:*?q=*", "web:https://a.test/xq=1", False),
        ("ｗｅｂ:*", "web:https://a.test", True),
        ("browser", "browser", True),
        ("file names", "file names", True),
    ],
)
def test_a_pattern_means_a_source_and_whatever_that_goes_back_to(pattern: str, source: str, is_meant: bool) -> None:
    assert matches_source(pattern, source) is is_meant


def test_what_goes_back_to_many_names_some_and_counts_for_every_pattern() -> None:
    many = [f"web:https://{at}.test" for at in range(20)]
    joined = source_after("agent:a", [*many, "mcp:last"])
    assert joined is not None
    assert len(joined) < 300
    assert matches_source("mcp:last", joined)
    assert matches_source("mcp:last", source_after("agent:b", [joined]) or "")
    assert join_sources([]) == join_sources([""]) == ""
    assert source_after("agent:a", []) is None


def test_a_source_made_to_be_slow_is_not() -> None:
    began = time.process_time()
    assert not matches_source("web:" + "a*" * 100 + "b", "web:" + "a" * 20_000)
    assert time.process_time() - began < 20


def rules(tools: dict[str, Any], caller: Caller = toolcrib.OWNER, **config: Any) -> Any:
    crib = toolcrib.open({"tools": tools, **config})
    return taint_rules_for(crib.loaded.policy, caller, crib.catalog.tools, crib.catalog.groups)


def test_a_denial_goes_before_a_question_wherever_it_stands() -> None:
    found = rules(
        {"askAfterOutside": ["effect:execute"], "denyAfterOutside": [{"tool": "exec", "taint": "web:*"}]},
        agents={"main": {"tools": {"denyAfterOutside": ["group:runtime"]}}},
    )
    assert [(each.decision, each.origin) for each in found.tools["exec"]] == [
        ("deny", "tools.denyAfterOutside[0]"),
        ("deny", "agents.main.tools.denyAfterOutside[0]"),
        ("ask", "tools.askAfterOutside[0]"),
    ]
    decided = {source: found.judge("exec", [source])[0].origin for source in ("web:x", "mcp:y")}
    assert decided == {"web:x": "tools.denyAfterOutside[0]", "mcp:y": "agents.main.tools.denyAfterOutside[0]"}
    assert found.judge("exec", []) is None
    assert found.judge("read", ["web:x"]) is None


def test_a_question_after_outside_lifts_no_denial() -> None:
    crib = toolcrib.open({"tools": {"askAfterOutside": ["exec", "read"], "deny": ["exec"]}})
    rules = taint_rules_for(crib.loaded.policy, toolcrib.OWNER, crib.catalog.tools, crib.catalog.groups)
    verdicts = crib.belt(toolcrib.OWNER).verdicts
    decided = {name: rules.apply(verdicts[name], ["web:x"]).decision for name in ("exec", "read", "write")}
    assert decided == {"exec": "deny", "read": "ask", "write": "allow"}


def test_without_rules_nothing_is_looked_at() -> None:
    assert not rules({})
    assert not rules({"allow": ["read"]}, agents={"main": {}})


@pytest.mark.parametrize(
    ("key", "entry", "words"),
    [
        ("denyAfterOutside", {"tool": "exec", "taint": "wbe:*"}, "did you mean 'web:*'"),
        ("askAfterOutside", {"tool": "exec", "taint": "https://a.test/*"}, "there are web"),
        ("askAfterOutside", "raed", "did you mean 'read'"),
    ],
)
def test_lint_names_an_entry_that_means_no_source_or_no_tool(key: str, entry: Any, words: str) -> None:
    (finding,) = toolcrib.open({"tools": {key: [entry]}}).lint()
    assert (finding.kind, finding.level, finding.origin) == ("unknown", "warning", f"tools.{key}[0]")
    assert words in finding.remedy


@pytest.mark.parametrize("kind", SOURCE_KINDS)
def test_every_kind_of_source_can_be_named(kind: str) -> None:
    tools = {"askAfterOutside": [{"tool": "write", "taint": f"{kind}:*"}, {"tool": "read", "taint": kind}]}
    assert toolcrib.open({"tools": tools}).lint() == []


FREE = {"exec": {"security": "full", "ask": "off"}}
GROUP = {"telegram": {"groups": {"-1": {"tools": {"allow": ["browser", "exec"]}}}}}


def outside(config: dict[str, Any]) -> list[tuple[str, str]]:
    found = toolcrib.open(config).lint()
    return [(each.level, each.message) for each in found if each.kind == "outside"]


def test_lint_says_where_outside_text_reaches_what_sends_or_runs_unasked() -> None:
    (found,) = outside({"tools": FREE})
    assert found == ("warning", "text from outside can reach exec, process unasked, for the owner")
    ((level, words),) = outside({"channels": GROUP, "tools": {"deny": ["web_*", "nodes", "canvas", "gateway"]}})
    assert (level, words.partition(" unasked")[0]) == ("note", "text from outside can reach browser, message")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"tools": {"profile": "coding"}},
        {"tools": {"ask": ["effect:send", "effect:execute"]}, "channels": GROUP},
        {"tools": {"askAfterOutside": ["effect:send", "effect:execute"], **FREE}, "channels": GROUP},
        {"tools": {"denyAfterOutside": ["*"], **FREE}, "channels": GROUP},
        {"tools": {"exec": {"security": "full", "ask": "always"}}},
        {"tools": {"allow": ["read", "exec"], **FREE, "exec": {"security": "allowlist"}}},
    ],
)
def test_lint_is_silent_where_somebody_is_asked_or_nothing_comes_in(config: dict[str, Any]) -> None:
    assert outside(config) == []


def test_explain_tells_the_rules_and_what_has_come_of_a_session() -> None:
    guest = Caller(channel="telegram", group="-1", sender=Sender(id="7"))
    found = rules({"denyAfterOutside": [{"tool": "exec", "taint": "message:*"}]}, guest)
    assert found.to_json("exec", ["message:telegram"]) == {
        "afterOutside": [
            {"decision": "deny", "rule": "exec", "origin": "tools.denyAfterOutside[0]", "taint": "message:*"}
        ],
        "taint": ["message:telegram"],
    }
    assert found.to_json("read", []) == {}


@tool(effects={"network"})
async def page() -> Result:
    """Read a page."""
    return Result.text("buy now", source="web:https://shop.test")


@tool(effects={"network"})
async def letter() -> Result:
    """Read a letter."""
    return Result.text("dear", source="mcp:post")


TASK = {"task": {"type": "string", "required": True}}
DENY = {"denyAfterOutside": [{"tool": "write", "taint": "web:*"}]}


@pytest.mark.anyio
async def test_what_a_subagent_read_second_counts_for_its_parent_as_well() -> None:
    """Of all that a subagent has read its parent is told, not only of the first."""
    clerk = Agent(name="clerk", description="Reads.", prompt="Read.", inputs=TASK, tools=("page", "letter"))
    replies = [
        call_reply(Call("a", "clerk", {"task": "read"})),
        call_reply(Call("b", "letter")),
        call_reply(Call("c", "page")),
        call_reply(Call("d", "complete_task", {"result": "read it"})),
        call_reply(Call("e", "write", {"path": "x", "content": "y"})),
        text_reply("ok"),
    ]
    model = ScriptedModel(replies)
    plugin = Plugin(name="office", agents=(clerk,), tools=(page, letter))
    async with toolcrib.open({"tools": DENY}, plugins=[plugin]) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, model=model).end()
    answer = next(each for each in model.asked[-1].messages if each.call_id == "e")
    assert "write is denied" in answer.plain_text
    assert "mcp:post and web:https://shop.test" in answer.plain_text


@pytest.mark.anyio
async def test_explain_of_a_tainted_session_says_what_it_would_say_now(tmp_path: Path) -> None:
    key = "agent:main:run:read"
    model = ScriptedModel([call_reply(Call("a", "page")), text_reply("ok")])
    async with toolcrib.open({"tools": DENY}, tools=[page], state=tmp_path) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=key, model=model).end()
        clean = await crib.ask("tools.explain", {"tool": "write", "sessionKey": ""}, caller=toolcrib.OWNER)
        told = await crib.ask("tools.explain", {"tool": "write", "sessionKey": key}, caller=toolcrib.OWNER)
        listed = await crib.ask("tools.list", {"sessionKey": key}, caller=toolcrib.OWNER)
    assert (clean["decision"], clean["afterOutside"][0]["taint"], "taint" in clean) == ("allow", "web:*", False)
    assert told["taint"] == ["web:https://shop.test"]
    for row in (
        told,
        told["tools"][0],
        told["steps"][-1],
        *(each for each in listed["tools"] if each["tool"] == "write"),
    ):
        assert [row[name] for name in ("decision", "layer", "rule", "origin")] == [
            "deny", "taint", "write", "tools.denyAfterOutside[0]",
        ]  # fmt: skip
