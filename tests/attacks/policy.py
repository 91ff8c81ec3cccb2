"""attacks/policy on the whole gate: configuration, catalog and belt as a program would use them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolcrib.agent.belt import Belts
from toolcrib.backends.plugins import DeclaredTool
from toolcrib.config.load import load
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ConfigError, DeclarationError
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Belt
from toolcrib.registry.catalog import Catalog
from toolcrib.registry.sources import Offer, catalog_from
from toolcrib.tools import SHELF

from . import LATER, Outcome, alternatives, broken, kept

Json = dict[str, Any]

# Contested rules that docs/policy.md states: the configuration's author can know them, lint warns about them.
DOCUMENTED = frozenset({"agent profile replaces global profile", "model entry replaces provider entry"})

_GROUPS = {tool.name: tool.group for tool in SHELF}


def judge(case: Json, profiles: Json) -> Outcome:
    """Build the case's crib and compare what its caller sees with what must be."""
    setup, asked = case["setup"], case["input"]
    profile = profiles[setup.get("profile", "core")]
    if asked["op"] == "register":
        return _registered(asked, profile, case["must"])
    if asked["op"] != "list":
        return LATER
    try:
        belt: Belt | None = _belt(setup, profile)
        error = ""
    except ConfigError as problem:
        belt, error = None, str(problem)
    complaints = [_complaint(must, belt, error) for must in alternatives(case["must"])]
    seen = {"error": error} if belt is None else {"tools": list(belt.tools)}
    return kept(seen) if "" in complaints else broken("; ".join(complaints), seen)


def _complaint(must: Mapping[str, Any], belt: Belt | None, error: str) -> str:
    """Say what is not as it must be, "" when all is."""
    if must.get("documented_rule") in DOCUMENTED:
        return ""
    if belt is None:
        accepted = must.get("config_error") or must.get("config_error_ok")
        return "" if accepted else f"the configuration was refused: {error}"
    if must.get("config_error"):
        return "the configuration was accepted"
    seen = [name for name in must.get("hidden", ()) if name in belt.tools]
    missing = [name for name in must.get("visible", ()) if name not in belt.tools]
    return "; ".join(f"{name} is visible" for name in seen) + "".join(f"; {name} is hidden" for name in missing)


def _registered(asked: Json, profile: Json, must: Json) -> Outcome:
    source = f"plugin:{asked['plugin']}"
    try:
        tool = DeclaredTool(name=asked["tool"], description="offered by a plugin").tool()
    except DeclarationError:
        registered = False
    else:
        catalog = catalog_from([_core(profile), Offer(source=source, tools=(tool,))])
        registered = any(each.name == tool.name and each.source == source for each in catalog.values())
    if registered == must["registered"]:
        return kept({"registered": registered})
    return broken(f"registered is {registered}", {"registered": registered})


def _core(profile: Json) -> Offer:
    owner_only = profile.get("owner_only", ())
    tools = (
        Tool.declared(name, name, group=_GROUPS.get(name), owner_only=name in owner_only) for name in profile["tools"]
    )
    return Offer(source="core", tools=tuple(tools))


def _catalog(setup: Json, profile: Json) -> Catalog:
    plugins = [
        Offer(source=f"plugin:{plugin['id']}", tools=tuple(Tool.declared(name, name) for name in plugin["tools"]))
        for plugin in setup.get("plugins", ())
    ]
    return catalog_from([_core(profile), *plugins])


def _belt(setup: Json, profile: Json) -> Belt:
    context = setup.get("context", {})
    config = neutral(setup.get("config", {}))
    if "owners" in context:
        config["owners"] = context["owners"]
    return Belts(_catalog(setup, profile), load(config, {}).policy).belt_for(_caller(context))


def neutral(config: Json) -> Json:
    """Return a configuration of the neutral layout in ours: `exec` and `subagents` stand under `tools`."""
    told = {key: value for key, value in config.items() if key not in ("exec", "subagents")}
    tools = dict(told.get("tools", {})) if isinstance(told.get("tools", {}), dict) else None
    moved = {key: config[key] for key in ("exec", "subagents") if key in config}
    if isinstance(moved.get("exec"), dict) and "timeout" in moved["exec"]:
        moved["exec"] = {("timeoutSec" if key == "timeout" else key): value for key, value in moved["exec"].items()}
    if tools is not None and moved:
        told["tools"] = {**tools, **moved}
    return told


def _caller(context: Json) -> Caller:
    sender = context.get("sender")
    who = None
    if sender is not None:
        given = {key: sender.get(key) for key in ("id", "e164", "username", "name")}
        who = Sender(**{key: str(value) for key, value in given.items() if isinstance(value, (str, int))})
    caller = Caller(
        session=context.get("session"),
        agent=context.get("agent"),
        provider=context.get("provider"),
        model=context.get("model"),
        channel=context.get("channel"),
        account=context.get("account"),
        group=context.get("group"),
        sender=who,
        sandboxed=bool(context.get("sandboxed")),
    )
    return replace(caller, parents=(context["spawned_by"],)) if context.get("spawned_by") else caller
