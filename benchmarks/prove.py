"""A proof about every caller against one `who`: the sample and ten configurations of the size that people have.

Both begin with belts that nobody has asked for yet.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib import Tool
from toolcrib.agent.belt import Belts
from toolcrib.config.load import load
from toolcrib.doors import cli
from toolcrib.policy.callers import list_declared, list_people, list_places
from toolcrib.policy.trial import Claim, Trial, prove
from toolcrib.registry import Catalog

from . import Row, Work, interleaved

__all__ = ["HOUSES", "measure", "people_of", "rows_from", "trial_of"]

BAR = 10.0
CLAIM = Claim(entry="group:runtime", excepting=("owner",))
SAMPLE = "the sample"
PLUGINS, SERVERS = ("shop", "weather", "crm"), ("github", "files")

_TEAM = [f"id:{at}" for at in range(1, 41)]
_STAFF = {"allow": ["group:fs", "group:web", "message"], "ask": ["effect:write"]}


def _groups(count: int, senders: Sequence[str]) -> dict[str, Any]:
    """Return groups of which each has a few of the senders as its own."""
    found: dict[str, Any] = {}
    for at in range(count):
        named = dict.fromkeys(senders[at * 4 : at * 4 + 4], _STAFF)
        found[f"-100{at}"] = {"toolsBySender": {**named, "*": {"allow": ["message"]}}}
    return {**found, "*": {"tools": {"deny": ["group:runtime", "group:fs"]}}}


_PROVIDERS = {
    "openai": {"profile": "coding"},
    "openai/gpt-5": {"deny": ["browser"]},
    "anthropic": {"deny": ["canvas"]},
    "google": {"deny": ["group:runtime"]},
    "openrouter/meta/llama-4": {"profile": "minimal"},
    "ollama": {"profile": "small"},
}
_AGENTS = {
    "main": {"name": "Home"},
    "dev": {"tools": {"profile": "coding", "byProvider": {"openai": {"deny": ["process"]}}}, "sandbox": "all"},
    "desk": {"tools": {"profile": "messaging", "alsoAllow": ["group:web"]}},
    "ops": {"tools": {"deny": ["message"], "subagents": {"mode": "handover", "include": ["read", "exec"]}}},
    "press": {"tools": {"allow": ["group:web", "message", "image"]}},
}
HOUSES: Mapping[str, Mapping[str, Any]] = {
    "nothing but an owner": {"owners": ["telegram:id:1", "discord:id:1"]},
    "a family": {
        "owners": ["telegram:id:1", "discord:id:1"],
        "tools": {"ask": ["effect:write", "effect:execute"]},
        "channels": {
            "telegram": {
                "direct": {"toolsBySender": {"id:2": {"deny": ["group:runtime"]}}},
                "groups": {"*": {"toolsBySender": {"id:1": {}, "*": {"deny": ["group:runtime", "group:fs"]}}}},
            }
        },
    },
    "a team of forty in ten groups": {
        "owners": ["slack:id:1", "slack:e164:+15550001"],
        "tools": {"profile": "full", "deny": ["nodes"]},
        "channels": {"slack": {"owners": ["id:40"], "allowFrom": _TEAM, "groups": _groups(10, _TEAM)}},
    },
    "agents and providers": {"tools": {"byProvider": _PROVIDERS, "deny": ["cron"]}, "agents": _AGENTS},
    "a company of both": {
        "owners": ["telegram:id:1", "discord:id:1"],
        "tools": {"byProvider": _PROVIDERS},
        "agents": _AGENTS,
        "channels": {name: {"groups": _groups(10, _TEAM)} for name in ("slack", "telegram")},
    },
    "a server of rooms": {
        "channels": {
            "discord": {
                "groups": {
                    "guild/help": {"tools": {"allow": ["message"]}},
                    "guild/dev": {"toolsBySender": {"id:7": {"profile": "full"}, "bob": {"allow": ["read"]}}},
                    "guild/*": {"tools": {"deny": ["group:runtime"]}},
                    "*": {"tools": {"allow": []}},
                }
            }
        }
    },
    "two accounts": {
        "owners": ["e164:+15550001"],
        "channels": {
            "whatsapp": {
                "direct": {"tools": {"allow": ["message", "web_search"]}},
                "groups": {"*": {"tools": {"deny": ["effect:execute"]}}},
                "accounts": {"work": {"groups": _groups(3, _TEAM)}},
            }
        },
    },
    "plugins and servers": {
        "tools": {"alsoAllow": ["shop"], "profile": "coding", "deny": ["github__delete_*"]},
        "plugins": {"shop": {"tools": {"deny": ["shop_tool_1"]}}},
        "mcpServers": {"github": {"command": "true", "tools": {"allow": ["tool_*"]}}},
    },
    "sandboxes": {
        "sandbox": {"mode": "non-main", "workspaceAccess": "ro"},
        "tools": {"sandbox": {"tools": {"allow": ["group:fs", "exec"], "deny": ["browser"]}}},
        "agents": {"dev": {"sandbox": "all"}, "free": {"sandbox": "off"}},
        "channels": {"irc": {"groups": _groups(4, _TEAM)}},
    },
    "subagents within subagents": {
        "tools": {"subagents": {"maxDepth": 3, "exclude": ["exec"], "tools": {"deny": ["group:messaging"]}}},
        "agents": _AGENTS,
    },
}


def trial_of(config: Mapping[str, Any] | None) -> Trial:
    """Return a configuration, the sample for None, over the shelf, three plugins and two servers of ten tools each."""
    sample = Path(cli.__file__).with_name("sample.yaml")
    crib = toolcrib.open(load(config if config is not None else sample, {}), env={}, import_plugins=False)
    tools = dict(crib.catalog.tools)
    for source in (*(f"plugin:{id}" for id in PLUGINS), *(f"mcp:{name}" for name in SERVERS)):
        kind, _, id = source.partition(":")
        for at in range(10):
            name = f"{id}{'_' if kind == 'plugin' else '__'}tool_{at}"
            tools[name] = replace(Tool.declared(name, name, effects={"network"}), source=source)
    catalog = Catalog(tools)
    belts = Belts(catalog, crib.policy)
    return Trial(settings=crib.policy, tools=catalog.tools, groups=catalog.groups, belt_for=belts.belt_for)


def people_of(trial: Trial) -> list[toolcrib.Caller]:
    """Return everybody whom the configuration tells apart but for how they speak."""
    return list_people([trial.settings], list_places([trial.settings], {}))


def _prove(trial: Trial) -> object:
    return prove(CLAIM, _anew(trial), people_of(trial))


def _ask_who(trial: Trial) -> object:
    fresh = _anew(trial)
    return [fresh.belt_for(caller).verdicts["exec"].decision for caller in list_declared([trial.settings], {})]


def _anew(trial: Trial) -> Trial:
    return replace(trial, belt_for=Belts(Catalog(trial.tools), trial.settings).belt_for)


def measure(rounds: int) -> list[Row]:
    """Return a row for each configuration, measured here and now."""
    works: dict[str, Work] = {}
    for name, config in {SAMPLE: None, **HOUSES}.items():
        trial = trial_of(config)
        works |= {f"prove {name}": partial(_prove, trial), f"who {name}": partial(_ask_who, trial)}
    return rows_from(interleaved(works, rounds, time.process_time))


def rows_from(taken: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the promises about `taken`, the seconds of `prove` and of `who` for each configuration."""
    return [
        Row(what=f"prove, {name}", ours=taken[f"prove {name}"], against="who", floor=taken[f"who {name}"], bar=BAR)
        for name in (SAMPLE, *HOUSES)
    ]
