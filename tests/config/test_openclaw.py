"""An existing OpenClaw file: its own spelling and meaning, nothing that narrows lost, the rest accepted and told."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolcrib
from toolcrib.app import list_enabled_plugins
from toolcrib.config.load import load
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ConfigError
from toolcrib.policy.layers import layers_for
from toolcrib.registry.sources import Offer

from .origins import is_written

Json = dict[str, Any]


def theirs(config: Json) -> toolcrib.Crib:
    return toolcrib.open(load(config, {}, openclaw=True, ignore=None), env={})


def decisions(config: Json, *tools: str, **caller: Any) -> list[str]:
    verdicts = theirs(config).belt(Caller(**{"owner": True, **caller})).verdicts
    return [verdicts[tool].decision for tool in tools]


# Meaning


def test_an_empty_allow_list_limits_nothing_there() -> None:
    assert decisions({"tools": {"allow": []}}, "exec", "read") == ["allow", "allow"]
    assert decisions({"tools": {"allow": ["read"]}}, "exec", "read") == ["deny", "allow"]
    assert decisions({"tools": {"allow": [], "deny": ["exec"]}}, "exec", "read") == ["deny", "allow"]
    assert decisions({"tools": {"allow": [], "alsoAllow": ["x"], "profile": "minimal"}}, "exec") == ["deny"]


def test_an_empty_list_of_the_sandbox_limits_nothing_either() -> None:
    config: dict[str, Any] = {"tools": {"sandbox": {"tools": {"allow": []}}}}
    assert decisions(config, "message", "exec", "browser", sandboxed=True) == ["allow", "allow", "deny"]
    config["tools"]["sandbox"]["tools"]["deny"] = []
    assert decisions(config, "browser", sandboxed=True) == ["allow"]


def test_an_allow_list_of_blanks_permits_nothing() -> None:
    assert decisions({"tools": {"allow": [" "]}}, "exec", "read") == ["deny", "deny"]
    assert load({"tools": {"allow": [" "]}}, {}, openclaw=True).ignored == ("tools.allow[0]",)


def test_a_plugin_only_list_adds_there_and_stands_here() -> None:
    offer = toolcrib.Tool.declared("forecast", "Tell the weather.")
    weather = [Offer(source="plugin:weather", tools=(offer,))]
    for openclaw, expected in ((True, "allow"), (False, "deny")):
        crib = toolcrib.open(load({"tools": {"allow": ["weather"]}}, {}, openclaw=openclaw), plugins=weather, env={})
        assert crib.belt(toolcrib.OWNER).verdicts["exec"].decision == expected


def test_null_is_the_same_as_absent() -> None:
    config = {"tools": {"allow": None, "deny": ["exec"], "byProvider": None}, "agents": None, "channels": {"x": None}}
    assert decisions(config, "exec", "read") == ["deny", "allow"]


def test_agents_and_their_defaults_are_found() -> None:
    config = {
        "agents": {
            "defaults": {
                "model": {"primary": "ollama/llama3:8b"},
                "sandbox": {"mode": "non-main", "workspaceAccess": "ro"},
                "subagents": {"maxConcurrent": 3, "maxSpawnDepth": 2},
            },
            "list": [
                {"id": "main", "tools": {"deny": ["exec"]}},
                {"id": "Support Bot", "model": {"primary": "anthropic/claude"}, "sandbox": {"mode": "all"}},
            ],
        }
    }
    loaded = load(config, {}, openclaw=True)
    assert loaded.config.models["default"] == "ollama/llama3:8b"
    assert (loaded.policy.sandbox, loaded.policy.workspace_access) == ("non-main", "ro")
    assert (loaded.config.tools.subagents.max_concurrent, loaded.config.tools.subagents.max_depth) == (3, 2)
    assert list(loaded.policy.agents) == ["main", "support-bot"]
    assert loaded.policy.agents["support-bot"].sandbox == "all"
    assert [agent.model for _, agent in loaded.config.list_agents()] == [None, "anthropic/claude"]
    assert loaded.ignored == ()
    assert decisions(config, "exec") == ["deny"]
    assert decisions(config, "exec", agent="support bot") == ["allow"]


@pytest.mark.parametrize(
    ("channel", "caller", "origin"),
    [
        ({"groups": {"-1": {"tools": {"deny": ["exec"]}}}}, {"group": "-1"}, "groups.-1.tools"),
        ({"groups": {"*": {"tools": {"deny": ["exec"]}}}}, {"group": "-1"}, "groups.*.tools"),
        (
            {"groups": {"-1": {"toolsBySender": {" @Bob ": {"deny": ["exec"]}}}}},
            {"group": "-1", "sender": Sender(id="1", username="bob")},
            "groups.-1.toolsBySender. @Bob ",
        ),
        ({"guilds": {"42": {"tools": {"deny": ["exec"]}}}}, {"group": "42/general"}, "guilds.42.tools"),
        (
            {"guilds": {"42": {"slug": "friends", "tools": {"deny": ["exec"]}}}},
            {"group": "friends/general"},
            "guilds.42.tools",
        ),
        (
            {"guilds": {"42": {"channels": {"#general": {"tools": {"deny": ["exec"]}}}}}},
            {"group": "42/general"},
            "guilds.42.channels.#general.tools",
        ),
        (
            {"guilds": {"42": {"slug": "friends", "channels": {"7": {"toolsBySender": {"9": {"deny": ["exec"]}}}}}}},
            {"group": "friends/7", "sender": Sender(id="9")},
            "guilds.42.channels.7.toolsBySender.9",
        ),
        ({"guilds": {"*": {"tools": {"deny": ["exec"]}}}}, {"group": "99/general"}, "guilds.*.tools"),
        ({"channels": {"#general": {"tools": {"deny": ["exec"]}}}}, {"group": "general"}, "channels.#general.tools"),
        ({"channels": {"C123": {"tools": {"deny": ["exec"]}}}}, {"group": "c123"}, "channels.C123.tools"),
        ({"teams": {"T1": {"tools": {"deny": ["exec"]}}}}, {"group": "T1/c"}, "teams.T1.tools"),
        (
            {"teams": {"T1": {"channels": {"c": {"tools": {"deny": ["exec"]}}}}}},
            {"group": "T1/c"},
            "teams.T1.channels.c.tools",
        ),
        ({"rooms": {"room1": {"tools": {"deny": ["exec"]}}}}, {"group": "room1"}, "rooms.room1.tools"),
        (
            {"accounts": {"Work": {"groups": {"-1": {"tools": {"deny": ["exec"]}}}}}},
            {"group": "-1", "account": "work"},
            "accounts.Work.groups.-1.tools",
        ),
        (
            {"accounts": {"alt": {"guilds": {"42": {"tools": {"deny": ["exec"]}}}}}},
            {"group": "42/x", "account": "alt"},
            "accounts.alt.guilds.42.tools",
        ),
        (
            {"accounts": {"alt": {"channels": {"#ops": {"tools": {"deny": ["exec"]}}}}}},
            {"group": "ops", "account": "alt"},
            "accounts.alt.channels.#ops.tools",
        ),
    ],
)
def test_groups_are_found_under_all_their_names(channel: Json, caller: Json, origin: str) -> None:
    verdict = theirs({"channels": {"chat": channel}}).belt(Caller(channel="chat", **caller)).verdicts["exec"]
    assert (verdict.decision, verdict.origin, verdict.rule) == ("deny", f"channels.chat.{origin}", "exec")


def test_senders_may_be_numbers() -> None:
    config = {"channels": {"telegram": {"dmPolicy": "allowlist", "allowFrom": [12345, "@bob", "*"]}}}
    assert load(config, {}, openclaw=True).config.channels["telegram"].allow_from == ("12345", "@bob", "*")


@pytest.mark.parametrize(
    ("host", "ours", "ignored"),
    [("gateway", "host", ()), ("sandbox", "sandbox", ()), ("node", "sandbox", ("tools.exec.host",))],
)
def test_where_commands_run_is_told_in_our_words(host: str, ours: str, ignored: tuple[str, ...]) -> None:
    loaded = load({"tools": {"exec": {"host": host, "ask": "off", "security": "full"}}}, {}, openclaw=True)
    assert (loaded.config.tools.exec.host, loaded.config.tools.exec.ask, loaded.ignored) == (ours, "off", ignored)


@pytest.mark.parametrize("every", ["30m", "0m"])
def test_a_heartbeat_there_begins_none_here(every: str) -> None:
    main = {"id": "main", "heartbeat": {"every": every, "target": "last"}}
    loaded = load({"agents": {"list": [main], "defaults": {"heartbeat": {"every": every}}}}, {}, openclaw=True)
    assert sorted(loaded.ignored) == ["agents.defaults.heartbeat", "agents.list[0].heartbeat"]


def test_providers_stand_one_level_deeper_there() -> None:
    ollama = {"baseUrl": "http://127.0.0.1:11434/v1", "apiKey": "x", "api": "openai-completions", "models": []}
    loaded = load({"models": {"mode": "merge", "providers": {"ollama": ollama}}}, {}, openclaw=True)
    assert getattr(loaded.config.models["ollama"], "base_url", None) == "http://127.0.0.1:11434/v1"
    assert loaded.ignored == ("models.mode", "models.providers.ollama.api", "models.providers.ollama.models")


def test_a_search_provider_that_is_not_here_is_told_and_left_out() -> None:
    loaded = load({"tools": {"web": {"search": {"provider": "gemini", "maxResults": 3}}}}, {}, openclaw=True)
    assert (loaded.ignored, loaded.config.web.search.provider) == (("tools.web.search.provider",), None)
    assert loaded.config.web.search.max_results == 3
    with pytest.raises(ConfigError, match=r"^tools\.web\.search\.provider: "):
        load({"tools": {"web": {"search": {"provider": 5}}}}, {}, openclaw=True)


def test_web_is_a_part_of_tools_there() -> None:
    web = {"search": {"enabled": False, "provider": "brave", "timeoutSeconds": 3}, "fetch": {"enabled": True}}
    config = {"tools": {"web": web}, "web": {"heartbeatSeconds": 5}}
    assert decisions(config, "web_search", "web_fetch") == ["deny", "allow"]
    assert load(config, {}, openclaw=True).ignored == ("web", "tools.web.search.timeoutSeconds")
    with pytest.raises(ConfigError, match=r"^tools\.web\.search\.enabled: should be true or false$"):
        load({"tools": {"web": {"search": {"enabled": "no"}}}}, {}, openclaw=True)


# Plugins


@pytest.mark.parametrize(
    ("plugins", "on"),
    [
        ({"allow": ["a", "b"]}, ("a", "b")),
        ({"allow": ["a", "b"], "deny": ["b"]}, ("a",)),
        ({"allow": ["a"], "enabled": False}, ()),
        ({"entries": {"a": {"enabled": True}, "b": {"enabled": False}, "c": {}}}, ("a",)),
        ({"entries": {"a": {"enabled": True}}, "deny": ["a"]}, ()),
        ({"entries": {"a": {"enabled": True}}, "allow": ["b"]}, ("b",)),
        ({"entries": {"a": {"enabled": False}}, "allow": ["a"]}, ()),
        ({"entries": {"a": {"enabled": True}}, "enabled": False}, ()),
        ({"deny": ["a"]}, ()),
        ({}, ()),
    ],
)
def test_plugins_are_on_only_where_nothing_shuts_them(plugins: Json, on: tuple[str, ...]) -> None:
    assert list_enabled_plugins(load({"plugins": plugins}, {}, openclaw=True).config) == on


def test_plugin_folders_config_and_the_rest() -> None:
    plugins = {
        "load": {"paths": ["~/ext"]},
        "entries": {"a": {"enabled": False, "config": {"key": 1}, "hooks": {}}, "allow": {}},
        "slots": {"memory": "x"},
        "installs": {},
    }
    loaded = load({"plugins": plugins}, {}, openclaw=True)
    assert loaded.config.plugins["folders"] == ("~/ext",)
    assert getattr(loaded.config.plugins["a"], "config", None) == {"key": 1}
    assert loaded.ignored == (
        "plugins.entries.a.hooks", "plugins.entries.allow", "plugins.slots", "plugins.installs",
    )  # fmt: skip


def test_their_own_plugins_are_not_here_and_that_is_told_not_fatal() -> None:
    crib = theirs({"plugins": {"entries": {"telegram": {"enabled": True}}, "load": {"paths": ["/nowhere"]}}})
    found = [(each.kind, each.level, each.message) for each in crib.lint()]
    assert [(kind, level) for kind, level, _ in found] == [("plugin", "warning")] * 2
    assert "plugins.entries.telegram: no plugin of that name is here" in found[1][2]
    assert crib.belt(toolcrib.OWNER).verdicts["read"].decision == "allow"


# What is not read is told, what is wrong is refused


REAL: Json = {
    "meta": {"lastTouchedVersion": "2026.2.1"},
    "env": {"vars": {"A": "b"}},
    "logging": {"level": "trace", "redactSensitive": "tools", "redactPatterns": ["(?<=key=)\\w+"]},
    "messages": {"ackReactionScope": "group-mentions"},
    "session": {"scope": "per-sender", "dmScope": "per-peer"},
    "cron": {"enabled": True, "maxConcurrentRuns": 2},
    "hooks": {"enabled": True, "token": "short", "path": "/hooks"},
    "channels": {
        "defaults": {"groupPolicy": "open"},
        "telegram": {
            "botToken": "1:a",
            "groupPolicy": "allowlist",
            "groups": {"-1": {"enabled": False, "topics": {}, "requireMention": True}},
            "accounts": {"work": {"botToken": "2:b", "allowFrom": [1]}},
        },
    },
    "gateway": {"mode": "local", "port": 18789, "bind": "tailnet", "auth": {"mode": "token", "token": "abc"}},
    "secrets": {"providers": {}},
    "browser": {"enabled": True, "profiles": {}},
    "memory": {"backend": "builtin"},
}


def test_a_real_file_is_taken_and_every_key_without_use_is_told() -> None:
    loaded = load(REAL, {}, openclaw=True, ignore=["channels.telegram.groups.-1"])
    assert sorted(loaded.ignored) == sorted([
        "meta", "env", "logging.level", "logging.redactSensitive", "logging.redactPatterns", "messages",
        "session.scope", "cron.maxConcurrentRuns", "hooks.token", "hooks.path", "channels.defaults",
        "channels.telegram.groupPolicy", "channels.telegram.groups.-1.enabled", "channels.telegram.groups.-1.topics",
        "channels.telegram.accounts.work.botToken", "channels.telegram.accounts.work.allowFrom", "gateway.mode",
        "gateway.bind", "gateway.auth", "secrets", "browser.profiles", "memory.backend",
    ])  # fmt: skip


@pytest.mark.parametrize("bind", ["auto", "lan", "loopback", "custom", "tailnet", "0.0.0.0"])
@pytest.mark.parametrize("auth", [{"mode": "token"}, {"mode": "password", "password": "x"}, {"allowTailscale": True}])
def test_a_gateway_this_version_does_not_run_is_no_obstacle(bind: str, auth: Json) -> None:
    assert load({"gateway": {"bind": bind, "auth": auth}}, {}, openclaw=True).config.gateway is not None


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"tools": []}, "tools"),
        ({"tools": "coding"}, "tools"),
        ({"tools": {"deny": "exec"}}, "tools.deny"),
        ({"tools": {"deny": ["a?b", 5]}}, "tools.deny[0]"),
        ({"tools": {"deny": [5]}}, "tools.deny[0]"),
        ({"tools": {"profile": "super"}}, "tools.profile"),
        ({"tools": {"byProvider": []}}, "tools.byProvider"),
        ({"tools": {"byProvider": {"openai": ["exec"]}}}, "tools.byProvider.openai"),
        ({"tools": {"byProvider": {"openai": {"deny": "exec"}}}}, "tools.byProvider.openai.deny"),
        ({"tools": {"sandbox": []}}, "tools.sandbox"),
        ({"tools": {"sandbox": {"tools": []}}}, "tools.sandbox.tools"),
        ({"tools": {"subagents": []}, "agents": {"defaults": {"subagents": {"maxConcurrent": 1}}}}, "tools.subagents"),
        ({"tools": {"subagents": {"tools": ["exec"]}}}, "tools.subagents.tools"),
        ({"tools": {"exec": {"host": "nowhere"}}}, "tools.exec.host"),
        ({"tools": {"exec": {"ask": "sometimes"}}}, "tools.exec.ask"),
        ({"tools": {"exec": []}}, "tools.exec"),
        ({"agents": {"list": {"a": {}}}}, "agents.list"),
        ({"agents": {"list": ["a"]}}, "agents.list[0]"),
        ({"agents": {"list": [{"id": "a"}, {}]}}, "agents.list[1]"),
        ({"agents": {"list": [{"id": "a"}, {"id": "A"}]}}, "agents.list[1]"),
        ({"agents": {"list": [{"id": "a", "tools": ["exec"]}]}}, "agents.list[0].tools"),
        ({"agents": {"list": [{"id": "a", "tools": {"deny": [1]}}]}}, "agents.list[0].tools.deny[0]"),
        ({"agents": {"list": [{"id": "a", "sandbox": {"mode": "x"}}]}}, "agents.list[0].sandbox.mode"),
        ({"agents": {"list": [{"id": "a", "model": {"primary": 5}}]}}, "agents.list[0].model.primary"),
        ({"agents": {"defaults": []}}, "agents.defaults"),
        ({"agents": {"defaults": {"sandbox": "all"}}}, "agents.defaults.sandbox"),
        ({"agents": {"defaults": {"sandbox": {"mode": "x"}}}}, "agents.defaults.sandbox.mode"),
        ({"agents": {"defaults": {"subagents": []}}}, "agents.defaults.subagents"),
        ({"agents": {"defaults": {"subagents": {"maxSpawnDepth": "x"}}}}, "agents.defaults.subagents.maxSpawnDepth"),
        ({"channels": []}, "channels"),
        ({"channels": {"x": []}}, "channels.x"),
        ({"channels": {"x": {"groups": []}}}, "channels.x.groups"),
        ({"channels": {"x": {"groups": {"1": []}}}}, "channels.x.groups.1"),
        ({"channels": {"x": {"groups": {"1": {"tools": ["exec"]}}}}}, "channels.x.groups.1.tools"),
        ({"channels": {"x": {"groups": {"1": {"toolsBySender": []}}}}}, "channels.x.groups.1.toolsBySender"),
        ({"channels": {"x": {"groups": {"1": {"toolsBySender": {"b": []}}}}}}, "channels.x.groups.1.toolsBySender.b"),
        ({"channels": {"x": {"guilds": []}}}, "channels.x.guilds"),
        ({"channels": {"x": {"guilds": {"1": {"channels": []}}}}}, "channels.x.guilds.1.channels"),
        ({"channels": {"x": {"guilds": {"1": {"channels": {"c": 5}}}}}}, "channels.x.guilds.1.channels.c"),
        ({"channels": {"x": {"guilds": {"1": {"tools": {"deny": [5]}}}}}}, "channels.x.guilds.1.tools.deny[0]"),
        ({"channels": {"x": {"channels": {"#a": {}, "a": {}}}}}, "channels.x.channels.a"),
        ({"channels": {"x": {"groups": {"C1": {}, "c1": {}}}}}, "channels.x.groups.c1"),
        ({"channels": {"x": {"accounts": []}}}, "channels.x.accounts"),
        ({"channels": {"x": {"accounts": {"w": []}}}}, "channels.x.accounts.w"),
        ({"channels": {"x": {"accounts": {"w": {"groups": []}}}}}, "channels.x.accounts.w.groups"),
        ({"channels": {"x": {"dmPolicy": "opne"}}}, "channels.x.dmPolicy"),
        ({"channels": {"x": {"allowFrom": "*"}}}, "channels.x.allowFrom"),
        ({"channels": {"x": {"allowFrom": [None]}}}, "channels.x.allowFrom[0]"),
        ({"channels": {"x": {"allowFrom": [True]}}}, "channels.x.allowFrom[0]"),
        ({"plugins": []}, "plugins"),
        ({"plugins": {"allow": "a"}}, "plugins.allow"),
        ({"plugins": {"deny": "a"}}, "plugins.deny"),
        ({"plugins": {"deny": [{}]}}, "plugins.deny"),
        ({"plugins": {"entries": []}}, "plugins.entries"),
        ({"plugins": {"entries": {"a": True}}}, "plugins.entries.a"),
        ({"plugins": {"entries": {"a": {"enabled": "yes"}}}}, "plugins.entries.a.enabled"),
        ({"plugins": {"entries": {"a": {"config": []}}}}, "plugins.entries.a.config"),
        ({"plugins": {"load": []}}, "plugins.load"),
        ({"plugins": {"load": {"paths": "x"}}}, "plugins.load.paths"),
        ({"models": {"providers": []}}, "models.providers"),
        ({"models": {"providers": {"x": {"baseUrl": 5}}}}, "models.providers.x.baseUrl"),
        ({"gateway": {"port": 0}}, "gateway.port"),
        ({"gateway": {"bind": "everywhere"}}, "gateway.bind"),
        ({"gateway": {"auth": {"mode": "tokn"}}}, "gateway.auth.mode"),
        ({"gateway": []}, "gateway"),
        ({"logging": {"level": "loud"}}, "logging.level"),
        ({"session": {"dmScope": "x"}}, "session.dmScope"),
    ],
)
def test_what_neither_would_take_is_refused_at_its_own_place(config: Json, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config, {}, openclaw=True)
    assert caught.value.place.path == path


def test_complaints_have_the_line_of_what_moved(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text('{"agents": {\n"list": [\n{"id": "a"},\n{"id": "b",\n"tools": {\n"profile": "super"}}]}}')
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert str(caught.value) == (
        f"{path}:6: agents.list[1].tools.profile: no profile is called 'super'; "
        "there are minimal, coding, messaging, full, small"
    )


# Nothing that denies is lost

# Entries, and a tool that each of them names.
DENIABLE = {
    "read": "read", "exec": "exec", "cron": "cron", "group:fs": "edit", "web_*": "web_fetch", "message": "message",
    "bash": "exec", " Gateway ": "gateway", "group:runtime": "process", "*": "image",
}  # fmt: skip
RULES = st.fixed_dictionaries(
    {"deny": st.lists(st.sampled_from(list(DENIABLE)), unique=True, min_size=1, max_size=3)},
    optional={"allow": st.sampled_from([[], ["*"], ["read"]]), "profile": st.just("full"), "extra": st.just(1)},
)

# Where a rule may stand, and a caller it is written for.
SCOPES: dict[tuple[str, ...], Json] = {
    ("tools",): {},
    ("tools", "byProvider", "openai"): {"provider": "openai", "model": "other"},
    ("tools", "byProvider", "Openai/GPT-5"): {"provider": "openai", "model": "gpt-5"},
    ("tools", "byProvider", "meta/llama"): {"provider": "openrouter", "model": "meta/llama"},
    ("tools", "sandbox", "tools"): {"sandboxed": True, "agent": "other"},
    ("tools", "subagents", "tools"): {"parents": ("main",)},
    ("agents", "Dev Bot", "tools"): {"agent": "dev-bot"},
    ("agents", "Dev Bot", "tools", "byProvider", "google"): {"agent": "Dev Bot", "provider": "google"},
    ("agents", "Dev Bot", "tools", "sandbox", "tools"): {"agent": "dev-bot", "sandboxed": True},
    ("agents", "ops", "tools"): {"session": "agent:ops:main"},
    ("channels", "telegram", "groups", "-1", "tools"): {"channel": "telegram", "group": "-1"},
    ("channels", "telegram", "groups", "-1", "toolsBySender", "@Bob"): {
        "channel": "telegram", "group": "-1", "sender": Sender(id="BOB"),
    },
    ("channels", "telegram", "groups", "-2", "toolsBySender", "*"): {
        "channel": "telegram", "group": "-2", "sender": Sender(id="9"),
    },
    ("channels", "telegram", "groups", "*", "tools"): {"session": "agent:main:telegram:group:-77"},
    ("channels", "telegram", "accounts", "Work", "groups", "-1", "tools"): {
        "channel": "telegram", "group": "-1", "account": "work",
    },
    ("channels", "discord", "guilds", "42", "tools"): {"channel": "discord", "group": "42/elsewhere"},
    ("channels", "discord", "guilds", "42", "channels", "#room", "tools"): {"channel": "discord", "group": "42/room"},
    ("channels", "discord", "guilds", "42", "channels", "c", "toolsBySender", "7"): {
        "channel": "discord", "group": "42/c", "sender": Sender(id="7"),
    },
    ("channels", "slack", "channels", "#general", "tools"): {"channel": "slack", "group": "general"},
    ("channels", "slack", "accounts", "a", "channels", "C9", "tools"): {
        "channel": "slack", "group": "C9", "account": "A",
    },
    ("channels", "msteams", "teams", "T", "channels", "x", "tools"): {"channel": "msteams", "group": "t/x"},
}  # fmt: skip


def file_of(rules: Mapping[tuple[str, ...], Json]) -> Json:
    """An OpenClaw file with these rules; agents become a list."""
    config: Json = {}
    for path, rule in rules.items():
        here = config
        for part in path:
            here = here.setdefault(part, {})
        here.update(rule)
    if "agents" in config:
        config["agents"] = {"list": [{"id": id, **agent} for id, agent in config["agents"].items()]}
    return config


@settings(deadline=None)
@given(rules=st.dictionaries(st.sampled_from(list(SCOPES)), RULES, min_size=1))
def test_every_deny_reaches_the_caller_it_is_written_for(rules: dict[tuple[str, ...], Json]) -> None:
    config = file_of(rules)
    crib = theirs(config)
    for path, rule in rules.items():
        caller = Caller(**SCOPES[path])
        denying = {entry for layer in layers_for(crib.loaded.policy, caller) for entry in layer.rule.deny}
        assert set(rule["deny"]) <= denying, path
        verdicts = crib.belt(caller).verdicts
        assert {verdicts[DENIABLE[entry]].decision for entry in rule["deny"]} == {"deny"}, path


@settings(deadline=None)
@given(rules=st.dictionaries(st.sampled_from(list(SCOPES)), RULES, min_size=1), who=st.sampled_from(list(SCOPES)))
def test_every_layer_names_a_place_in_the_file_that_says_so(rules: dict[tuple[str, ...], Json], who: Any) -> None:
    config = file_of(rules)
    for layer in layers_for(theirs(config).loaded.policy, Caller(**SCOPES[who])):
        assert is_written(layer, config), layer


KEYS = [
    "tools", "allow", "deny", "byProvider", "agents", "list", "defaults", "id", "channels", "groups", "guilds", "x",
    "accounts", "toolsBySender", "plugins", "entries", "load", "paths", "sandbox", "subagents", "web", "exec", "model",
    "models", "providers", "gateway", "auth", "mode", "enabled", "teams", "rooms", "secrets", "logging", "level",
]  # fmt: skip
SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["exec", "", "*", "all", "a b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=12,
)


def outcome(config: Json) -> str:
    """How the file reads as our additive policy, or the one line it is refused with."""
    try:
        return load(config, {}, openclaw=True).policy.tools.plugin_only_allow
    except ConfigError as error:
        return str(error)


@settings(deadline=None)
@given(config=st.dictionaries(st.sampled_from(KEYS), SHAPES, max_size=4))
def test_whatever_the_file_holds_it_is_read_or_refused_in_one_line(config: Json) -> None:
    assert len(outcome(config).splitlines()) == 1


def test_a_file_is_known_by_its_name(tmp_path: Path) -> None:
    for name, foreign in (("openclaw.json", True), ("crib.json", False)):
        (tmp_path / name).write_text(json.dumps({"tools": {"deny": ["exec"]}}))
        assert load(tmp_path / name, {}).foreign is foreign
        assert load(tmp_path / name, {}, openclaw=not foreign).foreign is not foreign


def test_a_file_of_another_name_is_told_how_it_is_read() -> None:
    with pytest.raises(ConfigError, match="reads like an OpenClaw file: add --from openclaw"):
        load({"agents": {"list": [{"id": "main"}]}}, {})


@pytest.mark.parametrize("named", ["openai/gpt-5", {"primary": "openai/gpt-5", "fallbacks": ["x/y"]}])
def test_the_models_that_look_at_pictures_are_taken_over(named: object) -> None:
    agents = {"defaults": {"imageModel": named}, "list": [{"id": "main"}, {"id": "painter", "imageModel": named}]}
    config = load({"agents": agents}, {}, openclaw=True).config
    assert (config.image_model("main"), config.models) == ("openai/gpt-5", {"image": "openai/gpt-5"})
    assert config.list_image_models() == ("openai/gpt-5",) * 2


# Memory


def test_what_a_file_says_of_memory_is_read_in_its_own_spelling() -> None:
    search = {"provider": "openai", "model": "big", "extraPaths": ["a", " b ", "a", ""], "store": {"path": "x"}}
    own = {"extraPaths": ["b", "c"], "sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}
    agents = {"defaults": {"memorySearch": search}, "list": [{"id": "dev", "memorySearch": own}, {"id": "ops"}]}
    loaded = load({"agents": agents}, {}, openclaw=True)
    assert (loaded.config.memory.provider, loaded.config.memory.extra_paths) == ("openai:big", ("a", "b"))
    dev = loaded.config.memory_of("dev")
    assert (dev.extra_paths, dev.sources, dev.provider) == (("a", "b", "c"), ("files", "sessions"), "openai:big")
    assert loaded.config.memory_of("ops") == loaded.config.memory
    assert loaded.ignored == ("agents.defaults.memorySearch.store",)


@pytest.mark.parametrize(
    ("config", "has"),
    [
        ({}, True),
        ({"agents": {"defaults": {"memorySearch": {"provider": "auto"}}}}, True),
        ({"agents": {"defaults": {"memorySearch": {"enabled": False}}}}, False),
        ({"plugins": {"slots": {"memory": "none"}}}, False),
        ({"plugins": {"slots": {"memory": "memory-core"}}}, True),
        ({"plugins": {"allow": ["x"]}}, False),
        ({"plugins": {"allow": ["x", "memory-core"]}}, True),
        ({"plugins": {"deny": ["memory-core"]}}, False),
        ({"plugins": {"enabled": False}}, False),
        ({"plugins": {"entries": {"memory-core": {"enabled": False}}}}, False),
    ],
)
def test_memory_that_is_switched_off_there_is_off_here(config: Json, has: bool) -> None:
    assert ("memory_search" in theirs(config).belt(toolcrib.OWNER).tools) is has


@pytest.mark.parametrize("bad", [{"enabled": "yes"}, {"extraPaths": "a"}, {"provider": 7}, {"experimental": 1}, "on"])
def test_a_mistake_about_memory_is_told_where_it_stands(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"agents\.defaults\.memorySearch"):
        load({"agents": {"defaults": {"memorySearch": bad}}}, {}, openclaw=True)
