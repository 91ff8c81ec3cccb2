"""A file or a mapping to settings: places of complaints, what lint is to say, and origins that exist."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolcrib
from toolcrib.config.load import find_file, load
from toolcrib.config.positions import format_path
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ConfigError, ConfigLocation
from toolcrib.policy.layers import layers_for

from .origins import NOWHERE, is_written, with_default, written_at

Json = dict[str, Any]


def file(folder: Path, text: str, name: str = "crib.yaml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def complaint(source: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(source, {})
    return caught.value


# Sources


def test_nothing_is_the_defaults() -> None:
    loaded = load(None, {})
    assert (loaded.policy.tools.allow, loaded.policy.sandbox, loaded.ignored, loaded.unused) == (None, "off", (), ())
    assert loaded.config == load({}, {}).config


@pytest.mark.parametrize("source", [[], "tools", 5, False, [("tools", {})]])
def test_only_a_mapping_is_a_configuration(source: Any) -> None:
    assert "a configuration is a mapping" in complaint(source).message


def test_a_program_gets_the_key_and_no_file() -> None:
    error = complaint({"agents": [{"id": "a"}, {"id": "b", "tools": {"dney": []}}]})
    assert error.place == ConfigLocation("", None, "agents[1].tools.dney")
    assert str(error) == "agents[1].tools.dney: unknown key; did you mean 'deny'?"


def test_the_three_formats_load_the_same(tmp_path: Path) -> None:
    texts = {
        "a.json5": "{tools: {deny: ['exec']}, agents: {dev: {tools: {profile: 'minimal'}}}}",
        "b.yaml": "tools: {deny: [exec]}\nagents: {dev: {tools: {profile: minimal}}}",
        "c.toml": "[tools]\ndeny = ['exec']\n[agents.dev.tools]\nprofile = 'minimal'",
    }
    configs = [load(file(tmp_path, text, name), {}).config for name, text in texts.items()]
    assert configs[0] == configs[1] == configs[2]


def test_the_environment_is_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_LEVEL", "debug")
    config = {"logging": {"level": "${TC_LEVEL}"}}
    assert load(config).config.logging.level == "debug"
    assert load(config, {"TC_LEVEL": "error"}).config.logging.level == "error"
    assert complaint(config).message == "the environment variable TC_LEVEL is not set; set it"


# Places


SECOND = "agents[1].tools.deny[1]"


@pytest.mark.parametrize(
    ("name", "text", "line", "path"),
    [
        ("c.yaml", "agents:\n- id: a\n- id: b\n  tools:\n    deny:\n    - exec\n    - 5\n", 7, SECOND),
        ("c.json", '{"agents": [\n{"id": "a"},\n{"id": "b", "tools": {\n"deny": ["exec",\n5]}}]}', 5, SECOND),
        ("c.toml", "[[agents]]\nid = 'a'\n[[agents]]\nid = 'b'\n[agents.tools]\ndeny = ['exec',\n5]", 7, SECOND),
        ("c.yaml", "tools:\n  byProvider:\n    x/gpt-4.1:\n      deny: exec\n", 4, "tools.byProvider.x/gpt-4.1.deny"),
        ("c.yaml", "expect:\n- has: [exec]\n- caller:\n    sender:\n      id: 7\n", 5, "expect[1].caller.sender.id"),
        ("c.yaml", "mcpServers:\n  files:\n    command: x\n    url: https://y\n", 2, "mcpServers.files"),
        ("c.yaml", "gateway:\n  port: 1\n  bind: lan\n", 3, "gateway.bind"),
        ("c.yaml", "channels:\n  x:\n    groups:\n      '*':\n        tools:\n", 5, "channels.x.groups.*.tools"),
        ("c.yaml", "plugins:\n  dice:\n    tools:\n      deny: [5]\n", 4, "plugins.dice.tools.deny[0]"),
        ("c.yaml", "tools:\n  exec:\n    allow:\n      - [git, status]\n      - git\n", 5, "tools.exec.allow[1]"),
        ("c.yaml", "a: 1\nb: 2\n", 1, "a"),
        ("c.yaml", "owners:\n- id:7\n- '*'\n", 3, "owners[1]"),
    ],
)  # fmt: skip
def test_a_complaint_names_the_line_and_the_key(tmp_path: Path, name: str, text: str, line: int, path: str) -> None:
    source = file(tmp_path, text, name)
    assert complaint(source).place == ConfigLocation(str(source), line, path)


def test_a_complaint_about_an_included_key_names_that_file(tmp_path: Path) -> None:
    inner = file(tmp_path, "# agents\n- not read\n", "list.yaml")
    inner = file(tmp_path, "support:\n  tools:\n    deny: [exec]\n    profile: codng\n", "agents.yaml")
    outer = file(tmp_path, "tools: {deny: [exec]}\nagents:\n  $include: agents.yaml\n  main: {}\n")
    assert complaint(outer).place == ConfigLocation(str(inner), 4, "agents.support.tools.profile")


def test_the_first_line_comes_first_and_the_rest_is_counted(tmp_path: Path) -> None:
    error = complaint(file(tmp_path, "owners: [1]\nlogging: {level: x}\ntools: {alow: [], dney: []}\n"))
    assert (error.place.line, error.message) == (1, "should be text (and 3 more)")


# What lint is to say


@pytest.mark.parametrize(("provider", "needs"), [("searxng", "baseUrl"), ("local", "folder")])
def test_a_search_provider_without_what_it_needs_is_refused(provider: str, needs: str) -> None:
    with pytest.raises(ConfigError, match=rf"^web\.search: provider {provider} needs {needs}, "):
        load({"web": {"search": {"provider": provider}}}, {})


def test_keys_that_nothing_reads_yet_are_named_in_order() -> None:
    ann: dict[str, Any] = {"is": ["telegram:id:7"], "timeZone": "Europe/Kyiv", "owner": True}
    loaded = load({"session": {"dmScope": "main"}, "people": {"bob": {"is": ["telegram:id:8"]}, "ann": ann}}, {})
    assert loaded.unused == ("people.ann.owner", "people.ann.timeZone")


def test_a_file_of_our_own_has_nothing_ignored(tmp_path: Path) -> None:
    loaded = load(file(tmp_path, "tools: {deny: [exec]}"), {})
    assert (loaded.ignored, loaded.eclipsed, loaded.foreign, loaded.exposed) == ((), (), False, None)


def test_a_key_knows_its_way_back(tmp_path: Path) -> None:
    source = file(tmp_path, '{"agents": {"list": [{"id": "a"},\n{"id": "b", "tools": {}}]}}', "openclaw.json")
    loaded = load(source, {})
    assert loaded.origin("agents", 1, "tools") == "agents.list[1].tools"
    assert loaded.place("agents", 1, "tools", "deny", 0) == ConfigLocation(
        str(source), 2, "agents.list[1].tools.deny[0]"
    )


# Origins

ENTRIES = st.lists(
    st.sampled_from(["read", "exec", "group:fs", "web_*", "cron", "effect:write"]), unique=True, max_size=3
)
LISTS = st.fixed_dictionaries({}, optional={"allow": ENTRIES, "deny": ENTRIES})
RULES = st.fixed_dictionaries({}, optional={"allow": ENTRIES, "deny": ENTRIES, "ask": ENTRIES})
PROFILES = st.sampled_from(["minimal", "coding", "messaging", "full"])
SCOPES = st.fixed_dictionaries(
    {}, optional={"profile": PROFILES, "deny": ENTRIES, "ask": ENTRIES, "alsoAllow": ENTRIES}
)
TOOLS = st.fixed_dictionaries(
    {},
    optional={
        "profile": PROFILES,
        "allow": ENTRIES,
        "deny": ENTRIES,
        "ask": ENTRIES,
        "byProvider": st.dictionaries(st.sampled_from(["openai", "openai/gpt-4.1", "Google"]), SCOPES),
        "sandbox": st.fixed_dictionaries({"tools": LISTS}),
        "subagents": st.fixed_dictionaries(
            {},
            optional={
                "tools": LISTS,
                "mode": st.sampled_from(["ceiling", "own", "handover"]),
                "maxDepth": st.integers(0, 3),
                "enabled": st.booleans(),
                "include": ENTRIES,
                "exclude": ENTRIES,
            },
        ),
    },
)
CHATS = st.fixed_dictionaries(
    {},
    optional={
        "tools": RULES,
        "toolsBySender": st.dictionaries(st.sampled_from(["id:7", "*", "bob", "e164:+15550100"]), RULES),
    },
)
GROUPS = st.dictionaries(st.sampled_from(["-100", "a.b", "*", "space/room", "space/*"]), CHATS)
ACCOUNTS = st.fixed_dictionaries({"Work": st.fixed_dictionaries({"groups": GROUPS})})
AGENTS = st.dictionaries(st.sampled_from(["main", "Dev Bot"]), st.fixed_dictionaries({"tools": TOOLS}))
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "tools": TOOLS,
        "agents": AGENTS | AGENTS.map(lambda agents: [{"id": id, **agent} for id, agent in agents.items()]),
        "channels": st.dictionaries(
            st.sampled_from(["Telegram", "slack"]),
            st.fixed_dictionaries({}, optional={"groups": GROUPS, "accounts": ACCOUNTS, "direct": CHATS}),
        ),
        "sandbox": st.fixed_dictionaries(
            {},
            optional={
                "mode": st.sampled_from(["off", "all"]),
                "workspaceAccess": st.sampled_from(["none", "ro", "rw"]),
            },
        ),
        "owners": st.just(["id:1"]),
    },
)
CALLERS = st.builds(
    Caller,
    agent=st.sampled_from([None, "main", "dev bot"]),
    provider=st.sampled_from([None, "openai", "google"]),
    model=st.sampled_from([None, "gpt-4.1", "other"]),
    channel=st.sampled_from([None, "telegram", "slack"]),
    account=st.sampled_from([None, "work"]),
    group=st.sampled_from([None, "-100", "a.b", "space/room", "elsewhere"]),
    sender=st.sampled_from([None, Sender(id="7"), Sender(name="bob"), Sender(e164="+15550100")]),
    sandboxed=st.booleans(),
    parents=st.sampled_from([(), ("main",), ("main", "dev-bot")]),
)


def loadable(config: Json) -> bool:
    """Whether allow and alsoAllow stand apart, which is all that a generated configuration can get wrong."""
    try:
        load(config, {})
    except ConfigError as error:
        if "side by side" in error.message:
            return False
        raise
    return True


@settings(deadline=None, max_examples=200)
@given(config=CONFIGS.filter(loadable), caller=CALLERS)
def test_every_layer_names_a_place_in_the_file_that_says_so(config: Json, caller: Caller) -> None:
    for layer in layers_for(load(config, {}).policy, caller):
        assert is_written(layer, config), layer


@settings(deadline=None)
@given(config=CONFIGS.filter(loadable), caller=CALLERS)
def test_every_verdict_names_a_rule_that_is_written_there(config: Json, caller: Caller) -> None:
    for verdict in toolcrib.open(config, env={}).belt(caller).verdicts.values():
        if verdict.layer in (None, "owner", "requires") or (verdict.origin or "built-in").startswith(
            ("built-in", "default")
        ):
            continue
        found = written_at(verdict.origin or "", with_default(config))
        assert found is not NOWHERE, verdict
        if verdict.rule is not None:
            assert verdict.rule in json.dumps(found), verdict


def test_origins_of_plugins_and_servers() -> None:
    config = {
        "plugins": {"dice": {"tools": {"deny": ["dice"]}}},
        "mcpServers": {"a.b": {"command": "x", "tools": {"allow": ["read_*"]}}},
    }
    sources = load(config, {}).policy.sources
    assert {name: origin for name, (origin, _) in sources.items()} == {
        "plugin:dice": "plugins.dice.tools",
        "mcp:a.b": "mcpServers.a.b.tools",
    }
    assert all(written_at(origin, config) is not NOWHERE for origin, _ in sources.values())


def test_names_are_normalised_once() -> None:
    policy = load({"agents": {"Dev Bot": {}}, "channels": {"GChat": {}, "My Chat": {}}}, {}).policy
    assert (list(policy.agents), list(policy.channels)) == (["dev-bot"], ["googlechat", "my chat"])


# Where the file is


def test_a_named_file_comes_first(tmp_path: Path) -> None:
    assert find_file({"TOOLCRIB_CONFIG": str(tmp_path / "x.yaml")}) == tmp_path / "x.yaml"


def test_the_users_folder_is_the_only_other_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "", "toolcrib.yaml")
    assert find_file({}) is None
    (tmp_path / "toolcrib").mkdir()
    own = file(tmp_path / "toolcrib", "", "toolcrib.yaml")
    assert find_file({}) == own
    assert find_file({"TOOLCRIB_CONFIG": ""}) == own


def test_paths_are_written_the_way_people_write_them() -> None:
    assert format_path(("agents", 1, "tools", "deny", 0)) == "agents[1].tools.deny[0]"
