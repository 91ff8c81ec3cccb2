"""What lint says about settings that open a door, shut it for everybody, or do nothing."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib.config.advice import advice
from toolcrib.config.load import load

TOKEN = "a-long-enough-token-0123456789"


def findings(config: Any, *, openclaw: bool = False) -> list[tuple[str, str, str]]:
    """Kind, level and place of everything that is said, but for sections of later versions."""
    found = advice(load(config, {}, openclaw=openclaw, ignore=None))
    return [(each.kind, each.level, each.origin) for each in found if each.kind != "unused"]


def channel(**settings: Any) -> dict[str, Any]:
    return {"channels": {"telegram": settings}}


PLACE = "channels.telegram.allowFrom"
NO_RULES = ("guests", "note", "channels.telegram.direct")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (channel(dmPolicy="open", allowFrom=["*"]), [("widening", "warning", PLACE), NO_RULES]),
        (channel(dmPolicy="open"), [("widening", "warning", PLACE), NO_RULES]),
        (channel(dmPolicy="open", allowFrom=["id:7"]), [("widening", "warning", PLACE), NO_RULES]),
        (channel(dmPolicy="allowlist", allowFrom=["*"]), [("widening", "warning", PLACE), NO_RULES]),
        (channel(allowFrom=[" * "]), [("widening", "warning", PLACE), NO_RULES]),
        (channel(dmPolicy="allowlist"), [("empty", "warning", PLACE)]),
        (channel(dmPolicy="allowlist", allowFrom=[]), [("empty", "warning", PLACE)]),
        (channel(dmPolicy="allowlist", allowFrom=["username:bob"]), [("worn", "warning", PLACE), NO_RULES]),
        (channel(dmPolicy="allowlist", allowFrom=["id:7", "@bob"]), [("worn", "warning", PLACE), NO_RULES]),
        (channel(dmPolicy="allowlist", allowFrom=["id:7", "+15550100", "@bob:matrix.test"]), [NO_RULES]),
        (channel(dmPolicy="pairing"), [NO_RULES]),
        (channel(), []),
        (channel(dmPolicy="disabled", allowFrom=["*"]), []),
        ({"owners": ["@bob"]}, [("dead", "warning", "owners")]),
        ({"owners": ["id:7", "+15550100", "@bob:matrix.test", "7"]}, []),
        (channel(owners=["@bob"]), [("dead", "warning", "channels.telegram.owners")]),
        (
            {"agents": {"main": {"subagents": {"allowAgents": ["suport", "*", "Main"]}}, "support": {}}},
            [("unknown", "warning", "agents.main.subagents.allowAgents")],
        ),
        (
            {"agents": [{"id": "a"}, {"id": "b", "subagents": {"allowAgents": ["c"]}}]},
            [("unknown", "warning", "agents[1].subagents.allowAgents")],
        ),
        ({"plugins": {"dice": {"config": {}}}}, [("dead", "warning", "plugins.dice")]),
        ({"plugins": {"allow": ["dice"], "dice": {"enabled": False}}}, [("dead", "note", "plugins.dice")]),
        ({"plugins": {"dice": {"enabled": False}}}, []),
        ({"plugins": {"allow": ["dice"], "dice": {"config": {}}}}, []),
        (
            {"tools": {"exec": {"security": "full", "ask": "off", "host": "host"}}},
            [("widening", "warning", "tools.exec")],
        ),
        (
            {"agents": {"dev": {"tools": {"exec": {"security": "full", "ask": "off"}}}}},
            [("widening", "warning", "agents.dev.tools.exec")],
        ),
        ({"tools": {"exec": {"security": "full"}}}, []),
        ({"tools": {"exec": {"readOnly": ["cat", "npm"]}}}, [("dead", "warning", "tools.exec.readOnly")]),
        ({"tools": {"exec": {"safeBins": ["sort", "ls"]}}}, [("dead", "warning", "tools.exec.safeBins")]),
        ({"tools": {"exec": {"readOnly": ["git", "ls"], "safeBins": ["jq"]}}}, []),
        ({"tools": {"exec": {"security": "allowlist", "ask": "off"}}}, []),
        (
            {"web": {"ssrf": {"allowPrivate": ["169.254.0.0/16", "10.0.0.0/8"]}}},
            [("widening", "warning", "web.ssrf.allowPrivate")],
        ),
        ({"gateway": {"trustedProxies": ["10.0.0.0/8"]}}, [("widening", "warning", "gateway.trustedProxies")]),
        ({"gateway": {"trustedProxies": ["10.0.0.0/24", "10.0.0.1", "fd00:1:2::/48"]}}, []),
        ({"gateway": {"bind": "lan", "auth": {"token": TOKEN}}}, []),
        ({"tools": {"profile": "coding"}, "agents": {"main": {}}}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_doors_left_open_or_nailed_shut_are_told(config: dict[str, Any], said: list[tuple[str, str, str]]) -> None:
    assert findings(config) == said


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"tools": {"denny": ["exec"]}}, [("ignored", "note", "tools.denny")]),
        ({"toolz": {"deny": ["exec"]}}, [("ignored", "note", "toolz")]),
        ({"agents": {"defaults": {"tools": {"deny": ["exec"]}}}}, [("ignored", "warning", "agents.defaults.tools")]),
        (
            {"agents": {"list": [{"id": "a", "sandbox": {"mode": "all", "workspaceAccess": "ro", "scope": "x"}}]}},
            [
                ("ignored", "warning", "agents.list[0].sandbox.workspaceAccess"),
                ("ignored", "note", "agents.list[0].sandbox.scope"),
            ],
        ),
        ({"agents": {"list": [{"id": "a", "identity": {}, "default": True}]}}, [
            ("ignored", "warning", "agents.list[0].default"),
            ("ignored", "note", "agents.list[0].identity"),
        ]),
        ({"browser": {"profiles": {}}, "ui": {}}, [("ignored", "note", "2 keys")]),
        (
            {"tools": {"byProvider": {"openai": {"deny": ["exec"]}, "OpenAI": {"deny": ["read"]}}}},
            [("dropped-deny", "warning", "tools.byProvider.openai")],
        ),
        (
            {"channels": {"x": {"groups": {"1": {"toolsBySender": {"bob": {}, "@BOB": {"deny": ["read"]}}}}}}},
            [("dropped-deny", "warning", "channels.x.groups.1.toolsBySender.@BOB")],
        ),
    ],
)  # fmt: skip
def test_an_openclaw_file_is_told_what_is_not_read_and_loudly_where_it_narrows(
    config: dict[str, Any], said: list[tuple[str, str, str]]
) -> None:
    assert findings(config, openclaw=True) == said


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"browser": {"enabled": False}, "web": {"search": {"enabled": False}}, "cron": {"enabled": True}}, []),
        ({"session": {"dmScope": "main"}}, []),
        ({"people": {"ann": {"is": ["telegram:id:7"], "owner": True}}}, ["people.ann.owner"]),
        ({"web": {"search": {"enabled": False, "provider": "brave"}}}, []),
        ({"gateway": {"port": 1}, "memory": {"provider": "x"}, "logging": {"level": "info"}}, []),
        ({"limits": {"turns": 1}, "models": {"default": "openai:gpt-5"}, "audit": {"file": "a.log"}}, []),
        ({"tools": {}, "agents": {}, "channels": {}, "owners": [], "sandbox": {}, "plugins": {}, "expect": []}, []),
    ],
)
def test_sections_of_later_versions_are_named(config: dict[str, Any], named: list[str]) -> None:
    found = [each for each in toolcrib.open(config).lint() if each.kind == "unused"]
    assert [(each.origin, each.level) for each in found] == [(section, "note") for section in named]


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("hooks: {token: a-long-enough-token-0123456789}", 0o644, True),
        ("hooks: {token: a-long-enough-token-0123456789}", 0o640, True),
        ("hooks: {token: a-long-enough-token-0123456789}", 0o600, False),
        ("gateway: {auth: {token: '${TOKEN}'}}", 0o644, True),
        ("models: {openai: {apiKey: sk-1}}", 0o644, True),
        ("models: {openai: {headers: {X: y}}}", 0o644, True),
        ("mcpServers: {x: {url: 'https://x.test', headers: {Authorization: y}}}", 0o644, True),
        ("mcpServers: {x: {command: x, env: {KEY: y}}}", 0o644, True),
        ("secrets: {KEY: x}", 0o644, True),
        ("web: {search: {apiKey: x}}", 0o644, True),
        ("tools: {deny: [exec]}\nmodels: {default: 'openai:gpt'}", 0o644, False),
    ],
)
def test_secrets_others_can_read_are_told_with_the_remedy(tmp_path: Path, text: str, mode: int, told: bool) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text(text)
    path.chmod(mode)
    found = [each for each in advice(load(path, {"TOKEN": TOKEN})) if each.kind == "permissions"]
    assert [(each.level, each.origin, each.remedy) for each in found] == (
        [("warning", str(path), f"chmod 600 {path}")] if told else []
    )


def test_an_included_file_counts_too(tmp_path: Path) -> None:
    (tmp_path / "crib.yaml").write_text("$include: secrets.yaml")
    (tmp_path / "secrets.yaml").write_text("secrets: {KEY: x}")
    (tmp_path / "crib.yaml").chmod(0o600)
    (tmp_path / "secrets.yaml").chmod(0o644)
    assert load(tmp_path / "crib.yaml", {}).exposed == str(tmp_path / "secrets.yaml")


GATEWAY = {"gateway": {"auth": {"token": TOKEN}}}


@pytest.mark.parametrize(
    ("config", "env", "origin", "other"),
    [
        ({**GATEWAY, "hooks": {"token": TOKEN}}, {}, "gateway.auth.token", "hooks.token"),
        ({**GATEWAY, "models": {"openai": {"apiKey": TOKEN}}}, {}, "gateway.auth.token", "models.openai.apiKey"),
        ({**GATEWAY, "web": {"search": {"apiKey": TOKEN}}}, {}, "gateway.auth.token", "web.search.apiKey"),
        ({**GATEWAY, "secrets": {"SHOP": TOKEN}}, {}, "gateway.auth.token", "secrets.SHOP"),
        (
            {"hooks": {"token": TOKEN}, "mcpServers": {"w": {"url": "https://w", "headers": {"A": f"Bearer {TOKEN}"}}}},
            {}, "hooks.token", "mcpServers.w.headers.A",
        ),
        (
            {"hooks": {"token": TOKEN}, "mcpServers": {"w": {"command": "w", "env": {"KEY": TOKEN}}}},
            {}, "hooks.token", "mcpServers.w.env.KEY",
        ),
        (
            {"gateway": {"auth": {"mode": "password", "password": TOKEN}}, "hooks": {"token": TOKEN}},
            {}, "gateway.auth.password", "hooks.token",
        ),
        ({"hooks": {"token": "${OPENAI_API_KEY}"}}, {"OPENAI_API_KEY": TOKEN}, "hooks.token", "$OPENAI_API_KEY"),
        ({"hooks": {"token": TOKEN}}, {"TOOLCRIB_MCP_TOKEN": TOKEN}, "hooks.token", "$TOOLCRIB_MCP_TOKEN"),
        (GATEWAY, {"TOOLCRIB_MCP_TOKEN": TOKEN}, "gateway.auth.token", "$TOOLCRIB_MCP_TOKEN"),
        (
            {"models": {"openai": {"apiKey": TOKEN}}}, {"TOOLCRIB_MCP_TOKEN": TOKEN},
            "$TOOLCRIB_MCP_TOKEN", "models.openai.apiKey",
        ),
    ],
)  # fmt: skip
def test_one_secret_for_two_doors_is_told_and_not_shown(
    config: Any, env: dict[str, str], origin: str, other: str
) -> None:
    (found,) = [each for each in toolcrib.open(config, env=env).lint() if each.kind == "shared"]
    assert (found.level, found.origin, other in found.message) == ("warning", origin, True)
    assert TOKEN not in f"{found}"


@pytest.mark.parametrize(
    ("config", "env"),
    [
        ({**GATEWAY, "hooks": {"token": TOKEN[::-1]}}, {}),
        (GATEWAY, {"TOOLCRIB_TOKEN": TOKEN, "OPENAI_API_KEY": "another-key-0123456789"}),
        ({"gateway": {"auth": {"token": "${MINE}"}}}, {"MINE": TOKEN}),
        ({"gateway": {"auth": {"mode": "token", "token": TOKEN, "password": TOKEN}}}, {}),
        ({"models": {"openai": {"apiKey": TOKEN}, "mine": {"baseUrl": "https://m.test", "apiKey": TOKEN}}}, {}),
        ({"models": {"openai": {"apiKey": "${OPENAI_API_KEY}"}}}, {"OPENAI_API_KEY": TOKEN}),
    ],
)
def test_a_secret_of_one_door_is_nothing_to_tell(config: Any, env: dict[str, str]) -> None:
    assert [each for each in toolcrib.open(config, env=env).lint() if each.kind == "shared"] == []


def test_one_secret_for_two_doors_is_told_in_an_openclaw_file(tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_text(
        f'{{"gateway": {{"auth": {{"token": "{TOKEN}"}}, "remote": {{"token": "{TOKEN}"}}}},'
        f' "hooks": {{"enabled": true, "token": "{TOKEN}"}}}}'
    )
    found = [each for each in toolcrib.open(tmp_path / "openclaw.json").lint() if each.kind == "shared"]
    assert [each.origin for each in found] == ["gateway.auth.token"]
