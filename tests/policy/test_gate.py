"""The gate: tools and layers to a belt with verdicts."""

import pytest

from toolcrib import OWNER
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Layer, Rule, Selection, Verdict
from toolcrib.policy.gate import Facts, gate
from toolcrib.registry.catalog import groups_of

from .conftest import crib_of, verdict_of

TOOLS = {
    tool.name: tool
    for tool in (
        Tool.declared("cron", "Schedule.", group="automation", effects={"write"}),
        Tool.declared("web_fetch", "Fetch.", group="web", effects={"network"}),
        Tool.declared("exec", "Run.", group="runtime"),
        Tool.declared("apply_patch", "Patch.", group="fs", effects={"write"}),
    )
}


def belt_of(*layers: Layer, facts: Facts | None = None) -> Selection:
    return gate(TOOLS, groups_of(TOOLS.values()), layers, facts or Facts())


@pytest.mark.parametrize(
    ("rule", "survivors"),
    [
        (Rule(), ["apply_patch", "cron", "exec", "web_fetch"]),
        (Rule(allow=("web_*",)), ["web_fetch"]),
        (Rule(allow=("*",), deny=("group:automation",)), ["apply_patch", "exec", "web_fetch"]),
        (Rule(allow=()), []),
        (Rule(allow=("typo",)), []),
        (Rule(allow=("exec",)), ["apply_patch", "exec"]),
        (Rule(allow=("exec",), deny=("apply_patch",)), ["exec"]),
        (Rule(allow=("exec", "web_fetch"), deny=("bash",)), ["web_fetch"]),
        (Rule(also=("web_fetch",)), ["apply_patch", "cron", "exec", "web_fetch"]),
        (Rule(allow=("cron",), also=("web_fetch",)), ["cron", "web_fetch"]),
        (Rule(deny=("effect:execute",)), ["cron", "web_fetch"]),
        (Rule(allow=("effect:network",)), ["web_fetch"]),
    ],
)
def test_deny_wins_over_allow(rule: Rule, survivors: list[str]) -> None:
    assert sorted(belt_of(Layer("global", "tools", rule)).tools) == survivors


def test_every_tool_has_a_verdict_whether_it_is_on_the_belt_or_not() -> None:
    belt = belt_of(Layer("global", "tools", Rule(deny=("exec",))))
    assert set(belt.verdicts) == set(TOOLS)
    assert {name for name, verdict in belt.verdicts.items() if verdict.decision != "deny"} == set(belt.tools)


def test_a_verdict_names_layer_rule_place_reason_and_remedy() -> None:
    assert verdict_of({"tools": {"deny": ["group:runtime"]}}, "exec") == Verdict(
        "exec",
        "deny",
        "global",
        "group:runtime",
        "tools",
        "deny has 'group:runtime' (tools)",
        "take 'group:runtime' out of tools.deny",
    )


@pytest.mark.parametrize(
    ("config", "tool", "caller", "layer", "reason"),
    [
        ({}, "read", Caller(), None, "passes every layer"),
        ({"tools": {"profile": "coding"}}, "cron", Caller(), "profile", "not in allow (tools.profile=coding)"),
        ({"tools": {"allow": []}}, "read", Caller(), "global", "allow is empty and permits nothing (tools)"),
        ({"tools": {"allow": ["exec"]}}, "read", Caller(), "global", "not in allow (tools)"),
        ({}, "gateway", Caller(channel="x", sender=Sender(id="7")), "owner", "only the owner sees this tool"),
        ({}, "apply_patch", Caller(), "requires", "this host lacks a model of the openai family"),
        ({"browser": {"enabled": False}}, "browser", Caller(), "requires", "browser.enabled is false"),
        ({}, "radar", Caller(), "source", "optional, and no allow list names it or its plugin"),
        (
            {"tools": {"ask": ["effect:write"]}},
            "write",
            Caller(),
            "ask",
            "a human is asked for effect:write (tools.ask)",
        ),
        (
            {"tools": {"subagents": {"enabled": False}}},
            "sessions_spawn",
            Caller(),
            "subagent",
            "subagents are switched off (tools.subagents.enabled=false)",
        ),
        (
            {"sandbox": {"mode": "all", "workspaceAccess": "ro"}},
            "write",
            Caller(),
            "sandbox",
            "its files are out of reach (sandbox.workspaceAccess=ro)",
        ),
        (
            {"channels": {"t": {"groups": {"1": {"toolsBySender": {"bob": {"allow": ["read"]}}}}}}},
            "exec",
            Caller(channel="t", group="1", sender=Sender(name="Bob")),
            "group",
            "not in allow (channels.t.groups.1.toolsBySender.bob, found by the name 'bob', which anyone can take)",
        ),
    ],
)
def test_a_reason_says_which_layer_and_why(
    config: dict[str, object], tool: str, caller: Caller, layer: str | None, reason: str
) -> None:
    verdict = verdict_of(config, tool, caller)
    assert (verdict.layer, verdict.reason) == (layer, reason)


def test_explain_says_when_apply_patch_passes_only_with_exec() -> None:
    belt = belt_of(Layer("global", "tools", Rule(allow=("exec",))))
    assert belt.verdicts["apply_patch"].reason == "passes every layer, with 'exec' (tools)"
    assert belt.verdicts["exec"].reason == "passes every layer"


def test_an_optional_tool_needs_its_name_its_plugin_or_the_group_of_plugins() -> None:
    def has(entry: str) -> bool:
        return "radar" in crib_of({"tools": {"alsoAllow": [entry]}}).belt(OWNER).tools

    assert [entry for entry in ("radar", "weather", "group:plugins", "*", "rad*", "forecast") if has(entry)] == [
        "radar",
        "weather",
        "group:plugins",
    ]


def test_a_plugins_own_lists_narrow_what_it_brings() -> None:
    config = {"plugins": {"weather": {"tools": {"deny": ["forecast"]}}}}
    verdict = verdict_of(config, "forecast")
    assert (verdict.layer, verdict.origin) == ("source", "plugins.weather.tools")
    assert verdict_of(config, "read").decision == "allow"


@pytest.mark.parametrize(
    ("allow", "mode", "core"),
    [
        (["weather"], "strict", False),
        (["weather"], "additive", True),
        (["forecast"], "additive", True),
        (["group:plugins"], "additive", True),
        (["weather", "typo"], "additive", False),
        (["fore*"], "additive", False),
        (["typo"], "additive", False),
        ([], "additive", False),
    ],
)
def test_a_list_of_plugins_is_an_addition_only_when_the_operator_says_so(
    allow: list[str], mode: str, core: bool
) -> None:
    crib = crib_of({"tools": {"allow": allow, "pluginOnlyAllow": mode}})
    assert ("exec" in crib.belt(OWNER).tools) is core


def test_a_groups_list_of_plugins_is_never_loosened() -> None:
    groups = {"1": {"tools": {"allow": ["weather"]}}}
    crib = crib_of({"tools": {"pluginOnlyAllow": "additive"}, "channels": {"t": {"groups": groups}}})
    assert "exec" not in crib.belt(Caller(channel="t", group="1")).tools


def test_steps_tell_what_each_layer_said_in_order() -> None:
    crib = crib_of({"tools": {"profile": "coding", "deny": ["exec"], "ask": ["exec"]}})
    steps = crib.belt(OWNER).selection.steps("exec")
    assert [(step.layer, step.decision, step.rule) for step in steps] == [
        ("owner", "allow", None),
        ("requires", "allow", None),
        ("profile", "allow", "coding"),
        ("provider-profile", "allow", None),
        ("global", "deny", "exec"),
        ("global-provider", "allow", None),
        ("agent", "allow", None),
        ("agent-provider", "allow", None),
        ("group", "allow", None),
        ("sandbox", "allow", None),
        ("subagent", "allow", None),
        ("ask", "ask", "exec"),
    ]


def test_a_denied_tool_is_never_only_asked_about() -> None:
    verdict = verdict_of({"tools": {"deny": ["write"], "ask": ["effect:write"]}}, "write")
    assert verdict.decision == "deny"


def test_an_unchanged_caller_gets_the_same_belt() -> None:
    crib = crib_of({})
    assert crib.belt(Caller(agent="a")).selection is crib.belt(Caller(agent="a")).selection
