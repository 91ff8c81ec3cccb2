"""Lint: rules that do not do what their author thinks."""

from typing import Any

import pytest

from .conftest import crib_of

NOTES = ("note",)


def findings(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Return kind and origin of everything lint complains about."""
    return [(finding.kind, finding.origin) for finding in crib_of(config).lint() if finding.level not in NOTES]


def groups(**group: Any) -> dict[str, Any]:
    return {"channels": {"telegram": {"groups": {"-1": group}}}}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"tools": {"allow": ["reed", "exec"]}}, [("unknown", "tools.allow")]),
        ({"tools": {"deny": ["group:fss"]}}, [("unknown", "tools.deny")]),
        ({"tools": {"ask": ["wrte_*"]}}, [("unknown", "tools.ask")]),
        ({"tools": {"alsoAllow": ["no_plugin"]}}, [("unknown", "tools.alsoAllow")]),
        ({"agents": {"dev": {"tools": {"deny": ["exce"]}}}}, [("unknown", "agents.dev.tools.deny")]),
        (
            {"tools": {"byProvider": {"openai": {"deny": ["brwser"]}}}},
            [("unknown", "tools.byProvider.openai.deny")],
        ),
        (groups(tools={"deny": ["exce"]}), [("unknown", "channels.telegram.groups.-1.tools.deny")]),
        (
            groups(toolsBySender={"id:7": {"deny": ["exce"]}}),
            [("unknown", "channels.telegram.groups.-1.toolsBySender.id:7.deny")],
        ),
        ({"tools": {"sandbox": {"tools": {"deny": ["exce"]}}}}, [("unknown", "tools.sandbox.tools.deny")]),
        ({"tools": {"subagents": {"tools": {"deny": ["exce"]}}}}, [("unknown", "tools.subagents.tools.deny")]),
        ({"tools": {"subagents": {"mode": "handover", "include": ["reed"]}}}, [("unknown", "tools.subagents.include")]),
        ({"tools": {"deny": ["group:fs", "read"]}}, [("shadowed", "tools.deny")]),
        ({"tools": {"deny": ["bash", "exec"]}}, [("shadowed", "tools.deny")]),
        ({"tools": {"allow": ["*", "read"]}}, [("shadowed", "tools.allow")]),
        (
            groups(toolsBySender={"@bob": {"deny": ["exec"]}, "BOB": {"deny": ["read"]}}),
            [("shadowed", "channels.telegram.groups.-1.toolsBySender.BOB")],
        ),
        ({"tools": {"allow": []}}, [("empty", "tools.allow")]),
        ({"tools": {"allow": ["weather"]}}, [("plugin-only", "tools.allow")]),
        (
            {"tools": {"allow": ["forecast"], "pluginOnlyAllow": "additive"}},
            [("plugin-only", "tools.allow")],
        ),
        ({"tools": {"allow": ["exec"], "deny": ["exec"]}}, [("dead", "tools.allow")]),
        (
            {"tools": {"deny": ["exec"]}, "agents": {"dev": {"tools": {"allow": ["exec", "read"]}}}},
            [("dead", "agents.dev.tools.allow")],
        ),
        (
            {"tools": {"allow": ["read"]}, "agents": {"dev": {"tools": {"alsoAllow": ["exec"]}}}},
            [("dead", "agents.dev.tools.alsoAllow")],
        ),
        (
            {"tools": {"profile": "messaging"}, "agents": {"dev": {"tools": {"profile": "full"}}}},
            [("widening", "agents.dev.tools.profile")],
        ),
        (
            {"tools": {"byProvider": {"openai": {"deny": ["exec"]}, "openai/gpt": {"allow": ["*"]}}}},
            [("dropped-deny", "tools.byProvider.openai/gpt")],
        ),
        (
            {"tools": {"byProvider": {"openai": {"deny": ["exec"]}, "openai-codex": {"deny": ["cron"]}}}},
            [("dropped-deny", "tools.byProvider.openai-codex")],
        ),
        (
            {"agents": {"dev": {"tools": {"pluginOnlyAllow": "additive"}}}},
            [("dead", "agents.dev.tools.pluginOnlyAllow")],
        ),
        (
            {"tools": {"byProvider": {"openai": {"allow": ["read"]}, "openai/gpt": {"deny": ["exec"]}}}},
            [("widening", "tools.byProvider.openai/gpt")],
        ),
        (
            groups(tools={"deny": ["exec"]}, toolsBySender={"*": {"deny": ["cron"]}}),
            [("dropped-deny", "channels.telegram.groups.-1.toolsBySender.*")],
        ),
        (
            {
                "channels": {
                    "telegram": {"groups": {"-1": {"tools": {"deny": ["cron"]}}, "*": {"tools": {"deny": ["exec"]}}}}
                }
            },
            [("dropped-deny", "channels.telegram.groups.-1.tools")],
        ),
        (
            {"tools": {"sandbox": {"tools": {"allow": ["*"], "deny": ["cron"]}}}},
            [("dropped-deny", "tools.sandbox.tools.deny")],
        ),
        (
            groups(toolsBySender={"username:bob": {"allow": ["*"]}}),
            [("worn", "channels.telegram.groups.-1.toolsBySender.username:bob")],
        ),
        (
            {"tools": {"deny": ["exec"]}, "expect": [{"has": ["exec"], "lacks": ["read"]}]},
            [("expect", "expect[0]"), ("expect", "expect[0]")],
        ),
        ({"expect": [{"has": ["reed"]}]}, [("expect", "expect[0]")]),
    ],
)
def test_lint_finds_it_and_says_where(config: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert findings(config) == found


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"tools": {"profile": "coding", "alsoAllow": ["web_search"], "deny": ["exec"]}},
        {"tools": {"allow": ["group:fs", "web_*"]}},
        {"tools": {"byProvider": {"openai": {"deny": ["exec"]}, "openai/gpt": {"deny": ["exec", "cron"]}}}},
        {"tools": {"profile": "full"}, "agents": {"dev": {"tools": {"profile": "minimal"}}}},
        {"tools": {"ask": ["effect:write", "effect:execute"]}},
        {"tools": {"subagents": {"tools": {"allow": ["read"]}}, "sandbox": {"tools": {"allow": ["read", "exec"]}}}},
        groups(tools={"allow": ["message"]}, toolsBySender={"id:7": {"allow": ["*"]}, "*": {"allow": ["message"]}}),
        {"expect": [{"caller": {"parents": ["main"]}, "has": ["group:fs"], "lacks": ["cron"]}]}
        | {"tools": {"byProvider": {}}},
    ],
)
def test_ordinary_configurations_have_no_findings(config: dict[str, Any]) -> None:
    if "expect" in config:  # apply_patch of group:fs needs a model it is offered to
        config = {**config, "expect": [{**config["expect"][0], "caller": {"parents": ["main"], "provider": "openai"}}]}
    assert findings(config) == []


def test_an_unknown_entry_comes_with_the_nearest_name() -> None:
    finding = crib_of({"tools": {"allow": ["reed"]}}).lint()[0]
    assert (finding.message, finding.remedy) == (
        "'reed' names no tool, group or plugin that exists here",
        "did you mean 'read'?",
    )


def test_a_failed_expectation_says_what_decided() -> None:
    finding = crib_of({"tools": {"deny": ["exec"]}, "expect": [{"has": ["exec"]}]}).lint()[0]
    assert finding.level == "error"
    assert finding.message == "should have exec, but it is deny: deny has 'exec' (tools)"
    assert finding.remedy == "take 'exec' out of tools.deny"


def test_keys_that_are_not_used_yet_are_named_in_notes() -> None:
    people = {"ann": {"is": ["telegram:id:7"], "timeZone": "Europe/Kyiv"}}
    notes = [finding for finding in crib_of({"people": people}).lint() if finding.level == "note"]
    assert [(note.kind, note.origin) for note in notes] == [("unused", "people.ann.timeZone")]
