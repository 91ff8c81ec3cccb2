"""Random worlds for the properties of the gate: configurations, callers, and places to add a deny.

Everything is drawn from one `random.Random`: hypothesis hands in one it can shrink, the long campaign seeded ones.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from toolcrib.define.caller import Caller, Sender

ENTRIES = (
    "read", "write", "exec", "bash", "apply_patch", "cron", "gateway", "message", "web_search", "web_fetch", "browser",
    "session_status", "sessions_spawn", "memory_get", "image", "forecast", "radar", "weather", "no_such_tool", "*",
    "web_*", "sess*", "*_get", "group:fs", "group:runtime", "group:sessions", "group:openclaw", "group:plugins",
    "group:nothing", "effect:write", "effect:execute", "effect:network", "effect:read",
)  # fmt: skip
PROFILES = ("minimal", "coding", "messaging", "full")
GUESTS: tuple[Any, ...] = (
    "messaging",
    "minimal",
    "full",
    [],
    ["coding", "web_*"],
    ["read", {"tool": "write", "when": {"path": "docs/**"}}],
)
PROVIDERS = ("openai", "openai/gpt", "anthropic", "google")
SENDERS = ("7", "id:8", "bob", "username:eve", "name:Zed", "e164:+15550001", "role:kin", "role:crew", "*")
ROLES = ("kin", "crew", "idle")
MEMBERS = ("id:7", "8", "bob", "username:eve", "e164:+15550001")
CONDITIONS: tuple[dict[str, Any], ...] = (
    {"path": "docs/**"},
    {"path": {"under": "src"}},
    {"path": {"in": ["*.md", "src/a.py"]}},
    {"query": "weather*"},
    {"limit": {"min": 2, "max": 5}},
    {"url": "*.example.com"},
    {"action": {"matches": "^l"}},
    {"taint": "web:*"},
)
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read", {"path": "docs/a.md"}),
    ("read", {"path": "src/a.py", "limit": 3}),
    ("write", {"path": "docs/a.md", "content": ""}),
    ("write", {"path": "src/a.py", "content": ""}),
    ("apply_patch", {"path": ["src/a.py", "docs/a.md"]}),
    ("web_fetch", {"url": "https://a.example.com/"}),
    ("web_fetch", {"url": "https://example.org/"}),
    ("web_search", {"query": "weather in Kyiv"}),
    ("cron", {"action": "list"}),
    ("exec", {"command": "ls", "taint": ["web:example.org"]}),
)
SPEAKERS = ("openai", "openai-codex", "anthropic")
AGENTS = ("main", "dev", "desk")
GROUPS = ("-1", "-2", "*")
PARENTS = ("main", "dev", "desk", "agent:dev:telegram:group:-1", "agent:main:telegram:group:-2")
SESSIONS = (
    None, "agent:dev:main", "agent:main:telegram:group:-1", "agent:desk:subagent:1", "agent:main:telegram:dm:7",
)  # fmt: skip

Thing = TypeVar("Thing")
Config = dict[str, Any]


def some(chance: random.Random, things: Sequence[Thing], most: int) -> list[Thing]:
    return chance.sample(things, chance.randint(0, min(most, len(things))))


def coin(chance: random.Random) -> bool:
    return chance.random() < 0.5


def entry(chance: random.Random) -> Any:
    """An entry of a list, sometimes about arguments only."""
    named = chance.choice(ENTRIES)
    return named if chance.random() < 0.8 else {"tool": named, "when": chance.choice(CONDITIONS)}


def entries(chance: random.Random) -> list[str]:
    return some(chance, ENTRIES, 4)


def rule_entries(chance: random.Random) -> list[Any]:
    return [entry(chance) for _ in range(chance.randint(0, 4))]


def rule(chance: random.Random, *, also: bool = True) -> Config:
    """A scope's lists; each key present or not."""
    made: Config = {"profile": chance.choice(PROFILES)} if also and chance.random() < 0.1 else {}
    if coin(chance):
        made["allow"] = rule_entries(chance)
    elif also and coin(chance):
        made["alsoAllow"] = rule_entries(chance)
    if coin(chance):
        made["deny"] = rule_entries(chance)
    if also and coin(chance):
        made["ask"] = rule_entries(chance)
    return made


def scope(chance: random.Random) -> Config:
    return {**rule(chance), **({"profile": chance.choice(PROFILES)} if coin(chance) else {})}


def named(chance: random.Random, names: Sequence[str], make: Callable[[random.Random], Config]) -> Config:
    return {name: make(chance) for name in some(chance, names, 3)}


def tools(chance: random.Random) -> Config:
    section = scope(chance)
    if coin(chance):
        section["byProvider"] = named(chance, PROVIDERS, scope)
    if chance.random() < 0.25:
        section["sandbox"] = {"tools": rule(chance, also=False)}
    return section


def group(chance: random.Random) -> Config:
    made: Config = {}
    if coin(chance):
        made["tools"] = rule(chance)
    if coin(chance):
        made["toolsBySender"] = named(chance, SENDERS, rule)
    return made


def subagents(chance: random.Random) -> Config:
    made: Config = {"mode": chance.choice(["ceiling", "own", "handover"]), "maxDepth": chance.randint(0, 3)}
    if coin(chance):
        made["include"] = entries(chance)
    if coin(chance):
        made["tools"] = rule(chance, also=False)
    return made


def config(chance: random.Random) -> Config:
    """A whole configuration."""
    made: Config = {"tools": tools(chance)}
    if chance.random() < 0.25:
        made["tools"]["pluginOnlyAllow"] = "additive"
    if coin(chance):
        made["tools"]["guests"] = chance.choice(GUESTS)
    if coin(chance):
        made["tools"]["subagents"] = subagents(chance)
    if coin(chance):
        made["agents"] = {id: {"tools": tools(chance)} for id in some(chance, AGENTS, 2)}
    if coin(chance):
        made["channels"] = {"telegram": {"groups": named(chance, GROUPS, group)}}
        if coin(chance):
            made["channels"]["telegram"]["direct"] = group(chance)
    if coin(chance):
        modes, access = ["off", "all", "non-main"], ["rw", "ro", "none"]
        made["sandbox"] = {"mode": chance.choice(modes), "workspaceAccess": chance.choice(access)}
    if coin(chance):
        made["owners"] = ["id:8"]
    if coin(chance):
        made["roles"] = {name: some(chance, MEMBERS, 3) for name in some(chance, ROLES, 3)}
    if chance.random() < 0.25:
        made["plugins"] = {"weather": {"tools": rule(chance, also=False)}}
    return made


def sender(chance: random.Random) -> Sender | None:
    if coin(chance):
        return None
    return Sender(
        id=chance.choice([None, "7", "8", "9"]),
        e164=chance.choice([None, "+15550001"]),
        username=chance.choice([None, "bob", "eve", "7"]),
        name=chance.choice([None, "Zed", "8", "bob"]),
    )


def caller(chance: random.Random) -> Caller:
    return Caller(
        session=chance.choice(SESSIONS),
        agent=chance.choice([None, *AGENTS]),
        provider=chance.choice([None, *SPEAKERS]),
        model=chance.choice([None, "gpt", "other"]),
        channel=chance.choice([None, "telegram", "slack"]),
        group=chance.choice([None, "-1", "-2", "-3"]),
        sender=sender(chance),
        owner=chance.choice([None, True, False]),
        sandboxed=coin(chance),
        parents=tuple(some(chance, PARENTS, 2)),
    )


def rule_paths(config: Config) -> list[tuple[str, ...]]:
    """Return the paths of every rule that is written in the configuration."""
    paths: list[tuple[str, ...]] = []
    for place in [("tools",), *(("agents", id, "tools") for id in config.get("agents", {}))]:
        paths.append(place)
        paths += [(*place, "byProvider", key) for key in at(config, place).get("byProvider", {})]
    telegram = config.get("channels", {}).get("telegram", {})
    chats: dict[tuple[str, ...], Config] = {("groups", id): entry for id, entry in telegram.get("groups", {}).items()}
    for where, entry in {**chats, ("direct",): telegram.get("direct", {})}.items():
        place = ("channels", "telegram", *where)
        paths += [(*place, "tools")] if "tools" in entry else []
        paths += [(*place, "toolsBySender", key) for key in entry.get("toolsBySender", {})]
    return paths


def at(config: Config, path: tuple[str, ...]) -> Config:
    for key in path:
        config = config[key]
    return config


def with_more(config: Config, path: tuple[str, ...], entry: Any, key: str = "deny") -> Config:
    """Return the configuration with one more entry in a list of the rule at `path`."""
    if not path:
        return {**config, key: [*config.get(key, []), entry]}
    return {**config, path[0]: with_more(config[path[0]], path[1:], entry, key)}
