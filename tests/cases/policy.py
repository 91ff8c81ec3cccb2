"""openclaw-policy on the policy package: the original's tools, its configuration file, our gate.

Lists that hold `*` limit nothing and an empty allow list means the same in an OpenClaw file, so both count as absent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolcrib.config.load import load
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.names import canonical, fold_name
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Layer, LayerName, Rule
from toolcrib.policy.gate import Facts, gate, is_plugin_only
from toolcrib.policy.layers import layers_for, mentions_of
from toolcrib.policy.lint import lint
from toolcrib.policy.match import Inventory, matcher_for
from toolcrib.policy.resolve import agent_of, is_sandboxed, model_family, resolve
from toolcrib.policy.settings import ListSettings, PolicySettings, SandboxTools
from toolcrib.registry.catalog import groups_of
from toolcrib.tools import CHANNEL_TOOLS, SHELF

from .load import Case
from .outcome import Refused, is_same

Json = dict[str, Any]

_OURS = {tool.name: tool for tool in (*SHELF, *CHANNEL_TOOLS["whatsapp"])}
_NEWER = frozenset({"grep", "find", "ls", "subagents", "result_get", "find_tools"})  # tools the original does not have
_KNOWN = tuple(name for name in _OURS if name not in _NEWER)


# The world: tools as the original has them


def _tool(name: str, plugin: str | None = None, *, optional: bool = False) -> Tool:
    known = _OURS.get(name)
    group = known.group if known else None
    tool = Tool.declared(name, name, group=group, effects=known.effects if known else None, optional=optional)
    return replace(tool, source=f"plugin:{fold_name(plugin)}") if plugin else tool


def _world(items: Iterable[Any]) -> tuple[Inventory, dict[str, str]]:
    """Return the inventory and, for each canonical name, the name as it was given."""
    spelled: dict[str, str] = {}
    tools: dict[str, Tool] = {}
    for item in items:
        written, plugin = (item, None) if isinstance(item, str) else (item["name"], item.get("pluginId"))
        name = canonical(written) or Tool.declared(written, "a tool of that name").name
        spelled[name], tools[name] = written, _tool(name, plugin)
    return Inventory(tools, groups_of(tools.values())), spelled


def _plugin_items(groups: Mapping[str, Any]) -> list[Json]:
    return [{"name": name, "pluginId": id} for id, names in groups.get("byPlugin", {}).items() for name in names]


def _settings(config: Mapping[str, Any] | None) -> PolicySettings:
    return load(config or {}, {}, openclaw=True).policy


def _rule(policy: Mapping[str, Any] | None) -> Rule:
    tools = _settings({"tools": policy} if policy else {}).tools
    return tools.rule().of("allow", "also", "deny")


def _caller(args: Json) -> Caller:
    group = args.get("groupId")
    space, room = _slug(args.get("groupSpace")), _slug(args.get("groupChannel"))
    if space or (room and ":slack:" not in (args.get("sessionKey") or "").lower()):
        group = f"{space or '*'}/{room or group or ''}"
    elif room:
        group = room
    elif _is_room(args):
        group = f"*/{args['sessionKey'].split(':')[4]}"
    sender = Sender(
        id=args.get("senderId"),
        e164=args.get("senderE164"),
        username=args.get("senderUsername"),
        name=args.get("senderName"),
    )
    return Caller(
        session=args.get("sessionKey"),
        agent=args.get("agentId"),
        provider=args.get("modelProvider"),
        model=args.get("modelId"),
        channel=args.get("messageProvider"),
        account=args.get("accountId"),
        group=group,
        sender=sender,
        owner=True,
        parents=(args["spawnedBy"],) if args.get("spawnedBy") else (),
    )


def _slug(name: str | None) -> str:
    return "-".join((name or "").strip().lower().removeprefix("#").split())


def _is_room(args: Json) -> bool:
    """Tell whether the session talks in a room of a server that the message did not name."""
    return ":discord:" in (args.get("sessionKey") or "").lower() and len(args["sessionKey"].split(":")) > 4


# Names and lists


def _name(args: Json) -> str:
    written = args["name"]
    if "*" in written or ":" in written:
        return fold_name(written)
    return canonical(written) or Tool.declared(written, "a tool of that name").name


def _expand(entries: Sequence[str], inventory: Inventory) -> list[str]:
    """Return what a list stands for; an entry that stands for nothing stays as it is."""
    found: list[str] = []
    for entry in entries:
        named = [name for name in matcher_for((entry,), inventory).names if name in inventory.tools]
        found += named or ([canonical(entry) or fold_name(entry)] if entry.strip() else [])
    return sorted(set(found))


def _mentioned(args: Json) -> list[str]:
    """Return what lists name outright: only that brings an optional tool out."""
    settings = [_settings({"tools": policy}) for policy in args["policies"] if policy]
    named = {entry for each in settings for entry in mentions_of(resolve(each, Caller()))}
    return sorted(entry for entry in named if entry)


def _expand_groups(args: Json) -> list[str]:
    return _expand(args.get("list") or [], _world(_KNOWN)[0])


def _expand_plugins(args: Json) -> list[str]:
    return _expand(args.get("list") or [], _world(_plugin_items(args["groups"]))[0])


def _expand_policy(args: Json) -> Json | None:
    policy = args.get("policy")
    if policy is None:
        return None
    inventory = _world(_plugin_items(args["groups"]))[0]
    return {key: _expand(policy[key], inventory) for key in ("allow", "deny") if key in policy}


def _plugin_groups(args: Json) -> Json:
    groups = groups_of(_world(args["tools"])[0].tools.values())
    by_plugin = {name: sorted(members) for name, members in groups.items() if ":" not in name}
    return {"all": sorted(groups["group:plugins"]), "byPlugin": by_plugin}


# One policy


def _layer(rule: Rule, name: LayerName = "global") -> Layer:
    return Layer(name, "tools", rule)


def _passes(name: str, rules: Iterable[Rule]) -> bool:
    asked = canonical(name)
    if asked is None:
        return False
    inventory = _world(dict.fromkeys((*_KNOWN, asked)))[0]
    belt = gate(inventory.tools, inventory.groups, [_layer(rule) for rule in rules])
    return belt.verdicts[asked].decision == "allow"


def _allowed(args: Json) -> bool:
    return _passes(args["name"], [_rule(args.get("policy"))])


def _allowed_by_all(args: Json) -> bool:
    return _passes(args["name"], [_rule(policy) for policy in args["policies"]])


def _profile(args: Json) -> Json | None:
    if args.get("profile") is None:
        return None
    layers = layers_for(_settings({"tools": {"profile": args["profile"]}}), Caller())
    allow = next(layer.rule.allow for layer in layers if layer.name == "profile")
    return None if allow is None else {"allow": list(allow)}


def _strip(args: Json) -> Json:
    inventory = _world([*args["coreTools"], *_plugin_items(args["groups"])])[0]
    policy = args.get("policy")
    settings = _settings({"tools": policy} if policy else {})
    rule = settings.tools.rule()
    stripped = is_plugin_only(rule, inventory)
    findings = lint(settings, inventory.tools, inventory.groups)
    unknown = [f.message.split("'")[1] for f in findings if f.kind == "unknown" and f.origin == "tools.allow"]
    answer: Json = {"unknownAllowlist": unknown, "strippedAllowlist": stripped}
    if policy is not None:
        answer["policy"] = {key: value for key, value in policy.items() if not (stripped and key == "allow")}
    return answer


# The layers of a run

_LAYER_KEYS = {
    "global": "globalPolicy",
    "global-provider": "globalProviderPolicy",
    "agent": "agentPolicy",
    "agent-provider": "agentProviderPolicy",
}


def _lists(rule: Rule) -> Json:
    lists = {"allow": None if rule.allow is None else list(rule.allow), "deny": list(rule.deny)}
    return _plain({key: value for key, value in lists.items() if value})


def _plain(policy: Json) -> Json:
    """Return a policy without lists that limit nothing."""
    return {key: value for key, value in policy.items() if value and not (key == "allow" and "*" in value)}


def _effective(args: Json) -> Json:
    caller = _caller(args)
    answer: Json = {"agentId": agent_of(caller)} if args.get("sessionKey") else {}
    for layer in layers_for(_settings(args.get("config")), caller):
        if layer.name in _LAYER_KEYS:
            answer[_LAYER_KEYS[layer.name]] = _lists(layer.rule)
        elif layer.name in ("profile", "provider-profile"):
            key = "profile" if layer.name == "profile" else "providerProfile"
            answer[key] = layer.note
            if layer.rule.also:
                answer[f"{key}AlsoAllow"] = list(layer.rule.also)
    return {key: value for key, value in answer.items() if value != {}}


def _same_effective(case: Case, ours: Any) -> str:
    recorded = {
        key: _plain(value) if isinstance(value, dict) else value for key, value in case.expected["result"].items()
    }
    for key in ("profile", "providerProfile"):
        if key not in recorded:  # without a profile there is nothing that alsoAllow adds to
            recorded.pop(f"{key}AlsoAllow", None)
    wanted = {key: value for key, value in recorded.items() if value != {}}
    return "" if is_same(ours, wanted) else f"recorded, without what limits nothing: {wanted}"


def _merged(rules: Sequence[Rule]) -> Json | None:
    """Return several rules, each an AND, as one policy; None when there is none."""
    if not rules:
        return None
    denied = [entry for rule in rules for entry in rule.deny]
    limits = [rule.allow for rule in rules if rule.allow is not None and "*" not in rule.allow]
    if len(limits) > 1:
        return {"both": [list(limit) for limit in limits], "deny": denied}
    return _plain({"allow": list(limits[0]) if limits else [], "deny": denied})


def _group_policy(args: Json) -> Json | None:
    layers = layers_for(_settings(args.get("config")), _caller(args))
    return _merged([layer.rule for layer in layers if layer.name == "group"])


def _by_sender(args: Json) -> Json | None:
    groups = {"g": {"toolsBySender": args.get("toolsBySender") or {}}}
    return _group_policy(
        {**args, "config": {"channels": {"x": {"groups": groups}}}, "messageProvider": "x", "groupId": "g"}
    )


def _same_policy(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    wanted = None if recorded is None else _plain(recorded)
    return "" if is_same(ours, wanted) else f"recorded, without what limits nothing: {wanted}"


# Sandbox and subagents


def _sandbox_policy(args: Json) -> Json:
    caller = Caller(agent=args.get("agentId"), sandboxed=True)
    layers = [layer for layer in layers_for(_settings(args.get("config")), caller) if layer.name == "sandbox"]
    allow = next(layer for layer in layers if layer.rule.allow is not None)
    deny = next(layer for layer in layers if layer is not allow)
    inventory = _world(_KNOWN)[0]
    return {
        "allow": _expand([entry for entry in allow.rule.allow or () if entry not in _NEWER], inventory),
        "deny": _expand(deny.rule.deny, inventory),
        "sources": {key: {"source": _source(layer.origin)} for key, layer in (("allow", allow), ("deny", deny))},
    }


def _source(origin: str) -> str:
    if origin.startswith("built-in"):
        return "default"
    return "agent" if origin.startswith("agents.") else "global"


def _same_sandbox(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    wanted = {
        "allow": sorted(recorded["allow"]),
        "deny": sorted(recorded["deny"]),
        "sources": {key: {"source": value["source"]} for key, value in recorded["sources"].items()},
    }
    return "" if is_same(ours, wanted) else f"recorded: {wanted}"


def _sandbox_status(args: Json) -> Json:
    settings, caller = _settings(args.get("config")), Caller(session=args.get("sessionKey") or None)
    agent = settings.agents.get(agent_of(caller))
    mode = agent.sandbox if agent and agent.sandbox else settings.sandbox
    policy = _sandbox_policy({"config": args.get("config"), "agentId": agent_of(caller)})
    return {
        "agentId": agent_of(caller),
        "mode": mode,
        "sandboxed": is_sandboxed(settings, caller),
        "toolPolicy": policy,
    }


def _same_status(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    for key in ("agentId", "mode", "sandboxed"):
        if ours[key] != recorded[key]:
            return f"{key} differs"
    lists = ours["toolPolicy"]
    same = all(lists[key] == sorted(recorded["toolPolicy"][key]) for key in ("allow", "deny"))
    return "" if same else "the sandbox lists differ"


def _subagent_policy(args: Json) -> Json:
    layers = layers_for(_settings(args.get("config")), Caller(parents=("main",)))
    rules = [layer.rule for layer in layers if layer.name == "subagent" and "depth" not in layer.origin.lower()]
    answer: Json = {"deny": [entry for rule in rules for entry in rule.deny]}
    allow = next((rule.allow for rule in rules if rule.allow is not None), None)
    return answer if allow is None else {"allow": list(allow), **answer}


# The whole chain

_CHAIN_KEYS = {
    "provider-profile": "providerProfile",
    "global-provider": "globalProvider",
    "agent-provider": "agentProvider",
}


def _chain(args: Json) -> Json:
    inventory, spelled = _world(args["tools"])
    settings, caller = _settings(args.get("config")), _caller(args)
    if args.get("sandboxTools") is not None:
        settings, caller = _with_sandbox(settings, args["sandboxTools"]), replace(caller, sandboxed=True)
    facts = Facts(additive=settings.tools.plugin_only_allow == "additive")
    belt = gate(inventory.tools, inventory.groups, layers_for(settings, caller), facts)
    removed: dict[str, int] = {}
    for verdict in belt.verdicts.values():
        if verdict.decision == "deny" and verdict.layer:
            key = _CHAIN_KEYS.get(verdict.layer, verdict.layer)
            removed[key] = removed.get(key, 0) + 1
    answer: Json = {"allowed": [spelled[name] for name in belt.tools], "removedByLayer": removed}
    return {"agentId": agent_of(caller), **answer} if args.get("sessionKey") else answer


def _with_sandbox(settings: PolicySettings, lists: Mapping[str, Any]) -> PolicySettings:
    own = SandboxTools(tools=ListSettings(allow=lists.get("allow") or ("*",), deny=lists.get("deny") or ()))
    return replace(settings, tools=settings.tools.model_copy(update={"sandbox": own}))


def _same_chain(case: Case, ours: Any) -> str:
    recorded = {key: value for key, value in case.expected["result"].items() if key != "warnings"}
    return "" if is_same(ours, recorded) else f"recorded: {recorded}"


def _coding_tools(args: Json) -> list[str]:
    """Return the belt of the original's inventory: with its plugins, without its memory and channel tools.

    It has `image` only for an agent with a folder of its own.
    """
    left_out = _NEWER | {"memory_search", "memory_get", "whatsapp_login"}
    left_out |= set() if "agentDir" in args else {"image"}
    tools = {tool.name: tool for tool in SHELF if tool.name not in left_out}
    for plugin in args.get("plugins") or ():
        for item in plugin["tools"]:
            tools[item["name"]] = _tool(item["name"], plugin["id"], optional=bool(item.get("optional")))
    loaded = load(args.get("config") or {}, {}, openclaw=True)
    settings, caller = loaded.policy, _caller(args)
    if args.get("sandbox") is not None:
        settings = replace(
            _with_sandbox(settings, args["sandbox"]["tools"]), workspace_access=args["sandbox"]["workspaceAccess"]
        )
        caller = replace(caller, sandboxed=True)
    web = loaded.config.web
    always = dict.fromkeys(("browser", "cron", "media.tts"), True)
    switches = {"web.search": web.search.enabled, "web.fetch": web.fetch.enabled, **always}
    host = {f"setting:{name}" for name, on in switches.items() if on} | {f"model:{model_family(caller.provider or '')}"}
    facts = Facts(host=frozenset(host), mentions=mentions_of(resolve(settings, caller)), additive=True)
    return sorted(gate(tools, groups_of(tools.values()), layers_for(settings, caller), facts).tools)


def _same_set(case: Case, ours: Any) -> str:
    if isinstance(ours, Refused):
        return ours.message
    recorded = case.expected["result"]
    if isinstance(recorded, dict):
        wanted: Any = {key: sorted(set(value)) for key, value in recorded.items()}
    else:
        wanted = recorded if recorded is None else sorted(set(recorded))
    return "" if is_same(ours, wanted) else f"recorded: {wanted}"


def _same_folded(case: Case, ours: Any) -> str:
    """Compare names without regard to capitals, which ours do not keep."""
    wanted = sorted({entry.lower() for entry in case.expected["result"]})
    return "" if ours == wanted else f"recorded: {wanted}"


def _same_groups(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    by_plugin = {name: sorted(members) for name, members in recorded["byPlugin"].items()}
    wanted = {"all": sorted(recorded["all"]), "byPlugin": by_plugin}
    return "" if is_same(ours, wanted) else f"recorded: {wanted}"


def _same_strip(case: Case, ours: Any) -> str:
    """Compare what happens to the list; plain names the original calls unknown must be unknown to us, too."""
    recorded = case.expected["result"]
    if ours.get("policy") != recorded.get("policy") or ours["strippedAllowlist"] != recorded["strippedAllowlist"]:
        return f"recorded: {recorded}"
    plain = [entry for entry in recorded["unknownAllowlist"] if "*" not in entry and ":" not in entry]
    missing = [entry for entry in plain if entry not in map(fold_name, ours["unknownAllowlist"])]
    return f"not told to be unknown: {missing}" if missing else ""


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "buildPluginToolGroups": _plugin_groups,
    "codingTools": _coding_tools,
    "collectExplicitAllowlist": _mentioned,
    "expandPluginGroups": _expand_plugins,
    "expandPolicyWithPluginGroups": _expand_policy,
    "expandToolGroups": _expand_groups,
    "filterChain": _chain,
    "filterToolsByPolicy": lambda args: [
        tool
        for tool in args["tools"]
        if _passes(tool if isinstance(tool, str) else tool["name"], [_rule(args.get("policy"))])
    ],
    "isToolAllowedByPolicies": _allowed_by_all,
    "isToolAllowedByPolicyName": _allowed,
    "normalizeToolList": lambda args: [_name({"name": entry}) for entry in args.get("list") or () if entry.strip()],
    "normalizeToolName": _name,
    "resolveEffectiveToolPolicy": _effective,
    "resolveGroupToolPolicy": _group_policy,
    "resolveSandboxRuntimeStatus": _sandbox_status,
    "resolveSandboxToolPolicyForAgent": _sandbox_policy,
    "resolveSubagentToolPolicy": _subagent_policy,
    "resolveToolProfilePolicy": _profile,
    "resolveToolsBySender": _by_sender,
    "sandboxIsToolAllowed": _allowed,
    "stripPluginOnlyAllowlist": _strip,
    "toolGroups": lambda args: {
        name: [tool for tool in _KNOWN if tool in members]
        for name, members in groups_of(_OURS[name] for name in _KNOWN if name != "whatsapp_login").items()
        if name != "group:plugins"
    },
}

SAME: dict[str, Callable[[Case, Any], str]] = {
    "buildPluginToolGroups": _same_groups,
    "codingTools": _same_set,
    "collectExplicitAllowlist": _same_folded,
    "expandPluginGroups": _same_set,
    "expandPolicyWithPluginGroups": _same_set,
    "expandToolGroups": _same_set,
    "filterChain": _same_chain,
    "resolveEffectiveToolPolicy": _same_effective,
    "resolveGroupToolPolicy": _same_policy,
    "resolveSandboxRuntimeStatus": _same_status,
    "resolveSandboxToolPolicyForAgent": _same_sandbox,
    "resolveToolsBySender": _same_policy,
    "stripPluginOnlyAllowlist": _same_strip,
}
