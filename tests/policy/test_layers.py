"""Settings and a caller to the nine layers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolcrib.config.load import load
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.policy.layers import layers_for
from toolcrib.policy.resolve import (
    agent_of,
    child_of,
    is_owner,
    is_sandboxed,
    mark_terminal_owner,
    max_subagents,
    model_family,
)

from .conftest import crib_of, unbounded

Has = Callable[..., bool]

EVERY_LAYER = {
    "tools": {
        "profile": "coding",
        "deny": ["write"],
        "byProvider": {"openai": {"profile": "full", "deny": ["edit"]}},
        "sandbox": {"tools": {"allow": ["read"], "deny": ["image"]}},
        "subagents": {"tools": {"deny": ["grep"]}},
        "ask": ["read"],
    },
    "agents": {"dev": {"tools": {"deny": ["find"], "byProvider": {"openai/gpt": {"deny": ["ls"]}}}}},
    "channels": {"telegram": {"groups": {"-1": {"tools": {"deny": ["process"]}}}}},
}


def names(config: dict[str, Any], caller: Caller) -> list[str]:
    return list(dict.fromkeys(layer.name for layer in layers_for(load(unbounded(config), {}).policy, caller)))


def test_the_layers_come_in_the_documents_order() -> None:
    caller = Caller(
        session="agent:dev:telegram:group:-1", provider="openai", model="gpt", sandboxed=True, parents=("main",)
    )
    assert names(EVERY_LAYER, caller) == [
        "profile",
        "provider-profile",
        "global",
        "global-provider",
        "agent",
        "agent-provider",
        "group",
        "sandbox",
        "subagent",
        "ask",
    ]


def test_a_plain_caller_meets_only_what_speaks_about_it() -> None:
    assert names(EVERY_LAYER, Caller()) == ["profile", "global", "ask"]


def test_an_origin_is_the_path_of_the_rule() -> None:
    caller = Caller(session="agent:dev:telegram:group:-1", provider="openai", model="gpt")
    origins = {layer.name: layer.origin for layer in layers_for(load(unbounded(EVERY_LAYER), {}).policy, caller)}
    assert origins == {
        "profile": "tools.profile",
        "provider-profile": "tools.byProvider.openai.profile",
        "global": "tools",
        "global-provider": "tools.byProvider.openai",
        "agent": "agents.dev.tools",
        "agent-provider": "agents.dev.tools.byProvider.openai/gpt",
        "group": "channels.telegram.groups.-1.tools",
        "ask": "tools.ask",
    }


@pytest.mark.parametrize(
    ("provider", "model", "denied"),
    [
        ("openai", "gpt-4", "browser"),
        ("OpenAI", "GPT-5", "exec"),
        (" openai ", "gpt-5", "exec"),
        ("openai-codex", "gpt-4", "browser"),
        ("openai-codex", "gpt-5", "exec"),
        ("azure", "gpt-5", "exec"),
        ("openai", "openai/gpt-5", "exec"),
        ("openrouter", "openai/gpt-5", "exec"),
        ("openrouter", "meta/llama", "cron"),
    ],
)
def test_the_most_exact_provider_entry_speaks(provider: str, model: str, denied: str, has: Has) -> None:
    entries = {
        "openai": {"deny": ["browser"]},
        "openai/gpt-5": {"deny": ["exec"]},
        "openrouter/meta/llama": {"deny": ["cron"]},
    }
    lost = [
        tool
        for tool in ("browser", "exec", "cron")
        if not has({"tools": {"byProvider": entries}}, tool, provider=provider, model=model)
    ]
    assert lost == [denied]


def test_another_provider_is_not_touched(has: Has) -> None:
    assert has({"tools": {"byProvider": {"openai": {"deny": ["exec"]}}}}, "exec", provider="google", model="gemini")


def test_an_agents_profile_replaces_the_global_one(has: Has) -> None:
    config = {"tools": {"profile": "messaging"}, "agents": {"dev": {"tools": {"profile": "coding"}}}}
    assert has(config, "exec", agent="dev")
    assert not has(config, "message", agent="dev")
    assert not has(config, "exec", agent="other")


def test_also_allow_adds_to_the_profile_and_limits_nothing_without_one(has: Has) -> None:
    assert has({"tools": {"profile": "minimal", "alsoAllow": ["web_search"]}}, "web_search")
    assert not has({"tools": {"profile": "minimal", "alsoAllow": ["web_search"]}}, "web_fetch")
    assert has({"tools": {"alsoAllow": ["web_search"]}}, "exec")


def test_an_agents_also_allow_replaces_the_global_one(has: Has) -> None:
    config = {
        "tools": {"profile": "minimal", "alsoAllow": ["read"]},
        "agents": {"dev": {"tools": {"alsoAllow": ["exec"]}}},
    }
    assert has(config, "exec", agent="dev")
    assert not has(config, "read", agent="dev")
    assert has(config, "read")


GROUPS = {
    "channels": {
        "telegram": {
            "groups": {
                "-1": {
                    "tools": {"deny": ["read"]},
                    "toolsBySender": {"7": {"deny": ["write"]}, "id:8": {"allow": ["*"]}, "boss": {"allow": ["*"]}},
                },
                "-2": {"tools": {"deny": ["exec"]}, "toolsBySender": {"*": {"deny": ["cron"]}}},
                "-3": {},
                "*": {"tools": {"deny": ["browser"]}},
            }
        }
    }
}


@pytest.mark.parametrize(
    ("group", "sender", "lost"),
    [
        ("-1", Sender(id="7"), ["write"]),
        ("-1", Sender(id="8"), []),
        ("-1", Sender(id="9"), ["read"]),
        ("-1", None, ["read"]),
        ("-1", Sender(id="9", username="boss"), ["read"]),
        ("-1", Sender(id="9", name="8"), ["read"]),
        ("-1", Sender(id="boss"), []),
        ("-1:topic:4", Sender(id="7"), ["write"]),
        ("-2", Sender(id="9"), ["cron"]),
        ("-3", Sender(id="9"), ["browser"]),
        ("-4", Sender(id="9"), ["browser"]),
    ],
)
def test_a_group_speaks_by_sender_then_for_all_then_through_star(
    group: str, sender: Sender | None, lost: list[str], has: Has
) -> None:
    tools = ("read", "write", "exec", "cron", "browser")
    assert [
        tool for tool in tools if not has(GROUPS, tool, channel="telegram", group=group, sender=sender, owner=True)
    ] == lost


def test_a_worn_name_falls_back_to_the_rule_for_every_group(has: Has) -> None:
    groups = {"-1": {"toolsBySender": {"bob": {"allow": ["exec", "read"]}}}, "*": {"tools": {"deny": ["exec"]}}}
    config = {"channels": {"telegram": {"groups": groups}}}
    stranger = {"channel": "telegram", "group": "-1", "sender": Sender(id="9", username="bob")}
    assert has(config, "read", **stranger)
    assert not has(config, "exec", **stranger)
    assert not has(config, "write", **stranger)
    assert has(config, "exec", channel="telegram", group="-1", sender=Sender(id="bob"))


def test_a_session_key_names_the_group_but_the_callers_own_word_counts_first(has: Has) -> None:
    key = "agent:main:telegram:group:-1"
    assert not has(GROUPS, "read", session=key)
    assert has(GROUPS, "read", session=key, channel="telegram", group="-2")
    assert has(GROUPS, "read", session="agent:main:slack:group:-1")


def test_a_direct_message_has_no_group(has: Has) -> None:
    assert has(GROUPS, "browser", session="agent:main:telegram:dm:42", owner=True)


def test_a_subagent_keeps_the_chat_it_was_started_from(has: Has) -> None:
    assert not has(GROUPS, "read", session="agent:main:subagent:1", parents=("agent:main:telegram:group:-1",))


@pytest.mark.parametrize(
    ("mode", "session", "sandboxed"),
    [
        ("off", "agent:main:telegram:group:1", False),
        ("all", "agent:main:main", True),
        ("non-main", "agent:main:main", False),
        ("non-main", None, False),
        ("non-main", "agent:main:telegram:group:1", True),
        ("non-main", "agent:main:telegram:dm:7", True),
    ],
)
def test_the_mode_says_which_sessions_are_sandboxed(mode: str, session: str | None, sandboxed: bool) -> None:
    assert is_sandboxed(load({"sandbox": {"mode": mode}}, {}).policy, Caller(session=session)) is sandboxed


def test_a_group_without_a_session_key_is_no_main_session() -> None:
    settings = load({"sandbox": {"mode": "non-main"}}, {}).policy
    assert is_sandboxed(settings, Caller(channel="telegram", group="-1"))


def test_an_agents_own_sandbox_mode_counts_first() -> None:
    settings = load({"sandbox": {"mode": "all"}, "agents": {"dev": {"sandbox": "off"}}}, {}).policy
    assert not is_sandboxed(settings, Caller(agent="dev"))
    assert is_sandboxed(settings, Caller(agent="dev", sandboxed=True))


def test_read_only_and_no_access_take_the_file_tools_away(has: Has) -> None:
    read_only = {"sandbox": {"mode": "all", "workspaceAccess": "ro"}}
    assert has(read_only, "read")
    assert not has(read_only, "write")
    assert not has({"sandbox": {"mode": "all", "workspaceAccess": "none"}}, "read")


@pytest.mark.parametrize(
    "caller",
    [
        {"parents": ("main",)},
        {"session": "agent:main:subagent:1f"},
        {"session": "SUBAGENT:1"},
        {"session": "AGENT:main:SubAgent:1f"},
        {"session": " agent : main : subagent : 1f "},
        {"session": "agent::main:subagent:1f"},
        {"session": "agent:main:ｓｕｂａｇｅｎｔ:1f"},
        {"session": "agent:main:subagent:1f:subagent:2a"},
        {"session": "agent:main:cron:7:subagent:2a"},
        {"session": "desk:subagent:2a"},
        {"session": "agent:main:task-9", "parents": ("agent:main:main",)},
    ],
)
def test_a_subagent_is_known_by_its_parents_or_by_a_key_that_says_so(caller: dict[str, Any], has: Has) -> None:
    assert [
        tool for tool in ("read", "cron", "gateway", "memory_search", "sessions_spawn") if has({}, tool, **caller)
    ] == ["read"]


def test_a_chat_called_subagent_is_no_subagent(has: Has) -> None:
    assert has({}, "sessions_spawn", session="agent:main:telegram:group:subagent-fans")


def test_a_configured_allow_cannot_lift_the_built_in_list(has: Has) -> None:
    config = {"tools": {"subagents": {"tools": {"allow": ["gateway", "read"]}}}}
    assert not has(config, "gateway", parents=("main",))
    assert has(config, "read", parents=("main",))
    assert not has(config, "write", parents=("main",))


PARENT = {"agents": {"narrow": {"tools": {"allow": ["read", "exec"]}}, "wide": {}}}


@pytest.mark.parametrize(
    ("subagents", "kept"),
    [
        ({}, ["read", "exec"]),
        ({"mode": "ceiling"}, ["read", "exec"]),
        ({"mode": "own"}, ["read", "write", "exec"]),
        ({"mode": "handover", "include": ["read", "write"]}, ["read"]),
        ({"mode": "handover", "include": ["read", "exec"], "exclude": ["exec"]}, ["read"]),
        ({"mode": "handover"}, []),
    ],
)
def test_a_child_gets_what_the_mode_says(subagents: dict[str, Any], kept: list[str], has: Has) -> None:
    config = {**PARENT, "tools": {"subagents": subagents}}
    assert [tool for tool in ("read", "write", "exec") if has(config, tool, agent="wide", parents=("narrow",))] == kept


BY_PROVIDER = {
    "tools": {"byProvider": {"openai": {"deny": ["write"]}, "anthropic/opus": {"ask": ["exec"]}}},
    "agents": {"clerk": {"tools": {"byProvider": {"openai": {"profile": "minimal"}}}}},
}


@pytest.mark.parametrize(
    ("parent", "kept"),
    [
        (Caller(agent="main", provider="anthropic", model="sonnet"), ["read", "write", "exec"]),
        (Caller(agent="main", provider="openai", model="gpt"), ["read", "exec"]),
        (Caller(agent="main", provider="openai-codex"), ["read", "exec"]),
        (Caller(agent="clerk", provider="openai"), []),
        (Caller(session="agent:main:main", provider="openai"), ["read", "exec"]),
    ],
)
def test_a_child_on_another_model_is_bound_by_the_rules_about_its_parents_model(
    parent: Caller, kept: list[str]
) -> None:
    crib = crib_of(unbounded(BY_PROVIDER))
    child = replace(child_of(crib.loaded.policy, parent, "worker", "agent:worker:subagent:1"), provider="anthropic")
    grandchild = replace(child_of(crib.loaded.policy, child, "deep", "agent:deep:subagent:2"), provider="google")
    for below in (child, grandchild):
        assert [tool for tool in ("read", "write", "exec") if tool in crib.belt(below).tools] == kept


def test_a_child_on_another_model_is_asked_where_its_parent_would_be() -> None:
    crib = crib_of(unbounded(BY_PROVIDER))
    parent = Caller(provider="anthropic", model="opus")
    child = replace(child_of(crib.loaded.policy, parent, "worker", "agent:worker:subagent:1"), provider="google")
    verdict = crib.belt(child).verdicts["exec"]
    assert (verdict.decision, verdict.origin) == ("ask", "tools.byProvider.anthropic/opus.ask")


def test_a_child_has_no_tool_that_only_its_own_model_or_its_own_list_brings() -> None:
    crib = crib_of(unbounded({"agents": {"worker": {"tools": {"alsoAllow": ["radar"]}}}}))
    worker = Caller(agent="worker", provider="openai")
    assert {"apply_patch", "radar"} <= set(crib.belt(worker).tools)
    parent = Caller(provider="anthropic", model="opus")
    child = replace(child_of(crib.loaded.policy, parent, "worker", "agent:worker:subagent:1"), provider="openai")
    assert not {"apply_patch", "radar"} & set(crib.belt(child).tools)


def test_a_child_keeps_the_group_whose_channel_only_its_parents_key_names() -> None:
    groups = {"-2": {"tools": {"deny": ["exec"]}}}
    crib = crib_of(unbounded({"channels": {"telegram": {"groups": groups, "owners": ["id:7"]}}}))
    parent = Caller(session="agent:main:telegram:group:-1", group="-2", sender=Sender(id="7"))
    child = child_of(crib.loaded.policy, parent, "worker", "agent:worker:subagent:1")
    for caller in (parent, child):
        assert "exec" not in crib.belt(caller).tools
        assert not is_owner(crib.loaded.policy, caller)


def test_a_child_is_bound_by_the_agent_that_spoke_in_the_session_of_another() -> None:
    crib = crib_of(
        unbounded({"agents": {"narrow": {"tools": {"deny": ["exec"]}}, "main": {"tools": {"deny": ["write"]}}}})
    )
    parent = Caller(agent="narrow", session="agent:main:main")
    child = child_of(crib.loaded.policy, parent, "worker", "agent:worker:subagent:1")
    assert child.parents == ("agent:main:main", "narrow")
    assert not {"exec", "write"} & set(crib.belt(child).tools)


def test_a_child_does_not_leave_its_parents_sandbox(has: Has) -> None:
    config = {"agents": {"boxed": {"sandbox": "all"}, "free": {}}}
    assert has(config, "browser", agent="free")
    assert not has(config, "browser", agent="free", parents=("boxed",))


def test_an_agents_own_lists_for_subagents_count_too(has: Has) -> None:
    config = {"agents": {"dev": {"tools": {"subagents": {"tools": {"deny": ["read"]}, "exclude": ["write"]}}}}}
    kept = [tool for tool in ("read", "write", "exec") if has(config, tool, agent="dev", parents=("main",))]
    assert kept == ["exec"]
    assert has(config, "read", agent="dev")


def test_subagents_can_be_switched_off_for_everybody(has: Has) -> None:
    assert not has({"tools": {"subagents": {"enabled": False}}}, "sessions_spawn")


@pytest.mark.parametrize(
    ("caller", "owner"),
    [
        (Caller(), False),
        (OWNER, True),
        (Caller(session="agent:main:main"), False),
        (Caller(session="agent:main:telegram:group:-1", owner=True), True),
        (Caller(owner=False), False),
        (Caller(channel="telegram"), False),
        (Caller(sender=Sender(id="1")), True),
        (Caller(sender=Sender(id="2")), False),
        (Caller(sender=Sender(name="1", username="1")), False),
        (Caller(channel="telegram", sender=Sender(id="5")), True),
        (Caller(channel="slack", sender=Sender(id="5")), False),
        (Caller(session="agent:main:telegram:group:-1"), False),
        (Caller(group="-1"), False),
        (Caller(session="agent:main:telegram:dm:7"), False),
        (Caller(session="hook:gmail:1"), False),
        (Caller(session="AGENT:main:Telegram:DM:7"), False),
        (Caller(session="agent:main:subagent:x"), False),
        (Caller(session="agent:main:subagent:x", parents=("agent:main:telegram:group:-1",)), False),
    ],
)
def test_the_owner_is_whom_a_program_says_or_who_is_listed(caller: Caller, owner: bool) -> None:
    settings = load({"owners": ["id:1"], "channels": {"telegram": {"owners": ["id:5"]}}}, {}).policy
    assert is_owner(settings, caller) is owner


@pytest.mark.parametrize(
    ("caller", "owner"),
    [
        (Caller(), True),
        (Caller(agent="dev", sandboxed=True), True),
        (Caller(session="agent:main:main"), True),
        (Caller(session="agent:main:subagent:x", parents=("main",)), True),
        (Caller(owner=False), False),
        (Caller(session="agent:main:telegram:group:-1", owner=True), True),
        (Caller(channel="telegram"), None),
        (Caller(sender=Sender(id="1")), None),
        (Caller(group="-1"), None),
        (Caller(session="agent:main:telegram:group:-1"), None),
        (Caller(session="agent:main:telegram:dm:7"), None),
        (Caller(session="agent:main:telegram:direct:7"), None),
        (Caller(session="agent:main:main", parents=("agent:main:telegram:DIRECT:7",)), None),
        (Caller(session="AGENT:main:Telegram:DM:7"), None),
        (Caller(session="hook:gmail:1"), None),
        (Caller(session="agent:main:subagent:x", parents=("agent:main:telegram:group:-1",)), None),
    ],
)
def test_at_the_terminal_who_names_nobody_outside_is_the_owner(caller: Caller, owner: bool | None) -> None:
    assert mark_terminal_owner(caller) == replace(caller, owner=owner)


def test_the_agent_is_the_callers_word_else_the_keys_else_main() -> None:
    assert agent_of(Caller(agent="Support Bot", session="agent:dev:main")) == "support-bot"
    assert agent_of(Caller(session="agent:dev:main")) == "dev"
    assert agent_of(Caller()) == "main"


@pytest.mark.parametrize(
    ("provider", "family"),
    [
        ("openai", "openai"),
        ("OpenAI-Codex", "openai"),
        ("azure", "openai"),
        ("google-vertex", "google"),
        ("ollama", "ollama"),
    ],
)
def test_a_provider_belongs_to_a_family(provider: str, family: str) -> None:
    assert model_family(provider) == family


@pytest.mark.parametrize("key", ["desk", "worker", "telegram:group:9", "Agent:Main:desk", "subagent:7"])
def test_a_child_of_a_session_whose_key_names_no_agent_is_bound_by_its_agent(key: str) -> None:
    tools = {"deny": ["exec"], "subagents": {"maxConcurrent": 2}}
    crib = crib_of(unbounded({"agents": {"main": {"tools": tools}, "worker": {}}}))
    parent = Caller(session=key)
    child = child_of(crib.loaded.policy, parent, "worker", "agent:worker:subagent:1")
    assert "exec" not in crib.belt(parent).tools
    assert "exec" not in crib.belt(child).tools
    assert max_subagents(crib.loaded.policy, parent) == max_subagents(crib.loaded.policy, child) == 2


@pytest.mark.parametrize("key", ["agent:main:desk", "desk", None])
def test_a_child_is_as_deep_as_it_was_started_however_the_session_is_called(key: str | None) -> None:
    crib = crib_of(unbounded({"tools": {"subagents": {"maxDepth": 2}}}))
    child = child_of(crib.loaded.policy, Caller(session=key), "outer", "agent:outer:subagent:1")
    grandchild = child_of(crib.loaded.policy, child, "inner", "agent:inner:subagent:2")
    assert "generalist" in crib.belt(child).tools
    assert "generalist" not in crib.belt(grandchild).tools


def test_a_child_is_bound_by_what_its_parents_scope_says_of_the_childs_model() -> None:
    crib = crib_of(unbounded({"agents": {"clerk": {"tools": {"byProvider": {"google": {"deny": ["write"]}}}}}}))
    parent = Caller(agent="clerk", provider="anthropic")
    child = replace(child_of(crib.loaded.policy, parent, "worker", "agent:worker:subagent:1"), provider="google")
    assert "write" in crib.belt(parent).tools
    assert "write" not in crib.belt(child).tools


def test_every_parent_bounds_a_child_and_not_the_nearest_alone(has: Has) -> None:
    models: dict[str, Any] = {"agent": "free", "provider": "openai", "parents": ("main", "mid")}
    assert has({}, "apply_patch", **models, parent_models=("openai:gpt", "openai:gpt"))
    assert not has({}, "apply_patch", **models, parent_models=("anthropic:opus", "openai:gpt"))


def test_what_bounds_a_subagent_bounds_those_that_it_starts(has: Has) -> None:
    config = {"agents": {"mid": {"tools": {"subagents": {"tools": {"deny": ["read"]}}}}}}
    assert has(config, "read", agent="free", parents=("mid",))  # which is no subagent there
    assert not has(config, "read", agent="free", parents=("main", "mid"))


def test_a_child_is_in_the_sandbox_of_its_parent_and_remembers_the_models_of_all() -> None:
    policy = load({"agents": {"boxed": {"sandbox": "all"}}}, {}).policy
    parent = Caller(agent="boxed", provider="openai", parents=("main",))  # whose own parent's model nobody knows
    child = child_of(policy, parent, "worker", "agent:worker:subagent:1")
    assert (child.sandboxed, child.parent_models) == (True, ("openai", "openai"))
