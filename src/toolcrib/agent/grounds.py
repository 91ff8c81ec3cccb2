"""What verdicts are made from, as JSON and back: the policy's settings, what it judges of the tools, the host."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from toolcrib.define.tool import Tool
from toolcrib.policy.settings import (
    AgentPolicy,
    ChannelPolicy,
    GroupPolicy,
    ListSettings,
    PolicySettings,
    RuleSettings,
    Section,
    ToolsSettings,
)
from toolcrib.registry.catalog import Catalog

__all__ = ["catalog_from", "settings_from", "told"]

Json = Mapping[str, Any]
T = TypeVar("T")


def told(catalog: Catalog, settings: PolicySettings, host: frozenset[str]) -> dict[str, Any]:
    """Return all that the verdicts over this catalog follow from."""
    return {
        "host": sorted(host),
        "settings": {
            "tools": _section(settings.tools, ToolsSettings),
            "agents": {id: _agent(agent) for id, agent in settings.agents.items()},
            "channels": {name: _channel(channel) for name, channel in settings.channels.items()},
            "owners": list(settings.owners),
            "sandbox": settings.sandbox,
            "workspaceAccess": settings.workspace_access,
            "sources": {name: [origin, _section(lists)] for name, (origin, lists) in settings.sources.items()},
            "mandates": {name: None if tools is None else list(tools) for name, tools in settings.mandates.items()},
            "narrowed": settings.narrowed,
            "places": {path: settings.place(path) for path in _places(settings)},
        },
        "tools": [_tool(tool) for tool in catalog.tools.values()],
    }


def settings_from(told: Json) -> PolicySettings:
    """Return the settings that were told; ValueError when they cannot be read."""
    places = dict(told["places"])
    return PolicySettings(
        tools=ToolsSettings.model_validate(told["tools"]),
        agents={id: _agent_from(each) for id, each in told["agents"].items()},
        channels={name: _channel_from(each) for name, each in told["channels"].items()},
        owners=tuple(told["owners"]),
        sandbox=told["sandbox"],
        workspace_access=told["workspaceAccess"],
        sources={name: (origin, ListSettings.model_validate(each)) for name, (origin, each) in told["sources"].items()},
        mandates={name: None if tools is None else tuple(tools) for name, tools in told.get("mandates", {}).items()},
        narrowed=told.get("narrowed"),
        place=lambda path: str(places.get(path, path)),
    )


def catalog_from(told: list[Json]) -> Catalog:
    """Return a catalog of the tools that were told, none of which has a body."""
    tools = {}
    for each in told:
        tool = Tool.declared(
            each["name"],
            "",
            effects=set(each["effects"]),
            group=each["group"],
            owner_only=each["ownerOnly"],
            optional=each["optional"],
            requires=tuple(each["requires"]),
        )
        tools[tool.name] = replace(tool, source=each["source"])
    return Catalog(tools)


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "source": tool.source,
        "group": tool.group,
        "effects": sorted(tool.effects),
        "ownerOnly": tool.owner_only,
        "optional": tool.optional,
        "requires": list(tool.requires),
    }


def _section(section: Section, kind: type[Section] | None = None) -> dict[str, Any]:
    """Return what is written in a section, and nothing that is not: an absent list is another thing than an empty one.

    `kind` is the part of it that policy reads.
    """
    only = None if kind is None else set(kind.model_fields)
    return section.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True, include=only)


def _places(settings: PolicySettings) -> list[str]:
    """Return every path whose place in the file may be asked for."""
    scopes = ["tools", *(f"{agent.origin}.tools" for agent in settings.agents.values())]
    return ["sandbox.workspaceAccess", "built-in subagent depth", *(f"{each}.subagents.maxDepth" for each in scopes)]


def _agent(agent: AgentPolicy) -> dict[str, Any]:
    return {"origin": agent.origin, "tools": _section(agent.tools, ToolsSettings), "sandbox": agent.sandbox}


def _agent_from(told: Json) -> AgentPolicy:
    return AgentPolicy(
        origin=told["origin"], tools=ToolsSettings.model_validate(told["tools"]), sandbox=told["sandbox"]
    )


def _channel(channel: ChannelPolicy) -> dict[str, Any]:
    return {
        "origin": channel.origin,
        "groups": _each(channel.groups, _group),
        "accounts": {name: _each(groups, _group) for name, groups in channel.accounts.items()},
        "owners": list(channel.owners),
    }


def _channel_from(told: Json) -> ChannelPolicy:
    return ChannelPolicy(
        origin=told["origin"],
        groups=_each(told["groups"], _group_from),
        accounts={name: _each(groups, _group_from) for name, groups in told["accounts"].items()},
        owners=tuple(told["owners"]),
    )


def _group(group: GroupPolicy) -> dict[str, Any]:
    return {
        "origin": group.origin,
        "tools": None if group.tools is None else _section(group.tools),
        "bySender": _each(group.by_sender, _section),
    }


def _group_from(told: Json) -> GroupPolicy:
    tools = told["tools"]
    return GroupPolicy(
        origin=told["origin"],
        tools=None if tools is None else RuleSettings.model_validate(tools),
        by_sender=_each(told["bySender"], RuleSettings.model_validate),
    )


def _each(named: Mapping[str, Any], make: Callable[[Any], T]) -> dict[str, T]:
    return {name: make(each) for name, each in named.items()}
