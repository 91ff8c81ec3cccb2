"""Catalog, settings and caller to a Selection: where registry and policy meet, and what verdicts follow from."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, TypeVar

from toolcrib.define.caller import Caller
from toolcrib.define.channel import Abilities, IdRules
from toolcrib.define.errors import CribError, DeclarationError
from toolcrib.define.names import canonical, nearest
from toolcrib.define.tool import PROGRAM, Tool
from toolcrib.define.verdict import Grounds, Layer, Rule, Selection
from toolcrib.lazy import regex, replace
from toolcrib.policy import settings as policy
from toolcrib.policy.gate import Facts, gate
from toolcrib.policy.identities import ANYWHERE, Identity
from toolcrib.policy.layers import layers_of, mentions_of
from toolcrib.policy.resolve import ResolvedCaller, resolve
from toolcrib.registry.catalog import DERIVED_GROUPS, Catalog

_Json = Mapping[str, Any]
_WHOLE_PATH = regex(r'"(?:\s|\\[a-z0-9]+)*[/~]')  # in JSON, where other blanks than a space are escaped
T = TypeVar("T")
_REACHED = ("paths", "urls", "recipients", "commands")  # the parameters of a tool that say what a call reaches
_BOUNDED: Mapping[bool, Any] = {False: "nowhere", True: "direct"}  # guests, as old records have it


def policy_snapshot(catalog: Catalog, settings: policy.PolicySettings, host: frozenset[str]) -> dict[str, Any]:
    """Serialise settings, tools and host as JSON, enough to run the gate again."""
    snapshot: dict[str, Any] = {
        "answers": True,  # from here on, what guards and humans say is on record, too
        "host": sorted(host),
        "settings": {
            "tools": _section(settings.tools, policy.ToolsSettings),
            "agents": {id: _agent(agent) for id, agent in settings.agents.items()},
            "channels": {name: _channel(channel) for name, channel in settings.channels.items()},
            "owners": list(settings.owners),
            "roles": {name: list(members) for name, members in settings.roles.items()},
            "people": [[*identity, name] for identity, name in settings.people.items()],
            "bare": settings.bare,
            "ids": {channel: list(rules) for channel, rules in settings.ids.items()},
            "sandbox": settings.sandbox,
            "workspaceAccess": settings.workspace_access,
            "sources": {name: [origin, _section(lists)] for name, (origin, lists) in settings.sources.items()},
            "mandates": {name: None if tools is None else list(tools) for name, tools in settings.mandates.items()},
            "narrowed": settings.narrowed,
            "only": settings.only,
            "bounds": [[each.origin, each.rule.allow, each.rule.deny, each.note] for each in settings.bounds],
            "boundsGuests": settings.bounds_guests,
            "guests": policy.GUESTS.dump_python(settings.guests, mode="json"),
            "places": {path: settings.place(path) for path in _places(settings)},
        },
        "tools": [_tool(tool) for tool in catalog.tools.values()],
    }
    if _WHOLE_PATH.search(json.dumps(snapshot["settings"])):  # else it does not matter where the workspace lies
        snapshot["settings"]["roots"] = dict(settings.roots)
    if settings.by_sender:
        snapshot["settings"]["bySender"] = {key: _section(lists) for key, lists in settings.by_sender.items()}
    return snapshot


def settings_from(snapshot: _Json) -> policy.PolicySettings:
    """Return the settings of a record; ValueError when they cannot be read."""
    places = dict(snapshot["places"])
    return policy.PolicySettings(
        tools=policy.ToolsSettings.model_validate(snapshot["tools"]),
        agents={id: _agent_from(each) for id, each in snapshot["agents"].items()},
        channels={name: _channel_from(each) for name, each in snapshot["channels"].items()},
        owners=tuple(snapshot["owners"]),
        roles={name: tuple(members) for name, members in snapshot.get("roles", {}).items()},
        people={Identity(*identity): name for *identity, name in snapshot.get("people", ())},
        bare=snapshot.get("bare", ANYWHERE),  # an id was anybody's who had it, whatever their channel
        ids={channel: IdRules(*rules) for channel, rules in snapshot.get("ids", {ANYWHERE: (True, False)}).items()},
        sandbox=snapshot["sandbox"],
        workspace_access=snapshot["workspaceAccess"],
        sources={
            name: (origin, policy.ListSettings.model_validate(each))
            for name, (origin, each) in snapshot["sources"].items()
        },
        mandates={
            name: None if tools is None else tuple(tools) for name, tools in snapshot.get("mandates", {}).items()
        },
        narrowed=snapshot.get("narrowed"),
        only=None if snapshot.get("only") is None else tuple(snapshot["only"]),
        bounds=tuple(_bound_from(each) for each in snapshot.get("bounds", ())),
        by_sender={
            key: policy.ScopeSettings.model_validate(each) for key, each in snapshot.get("bySender", {}).items()
        },
        bounds_guests=_BOUNDED.get(bounded := snapshot.get("boundsGuests", False), bounded),
        guests=policy.GUESTS.validate_python(snapshot.get("guests", "messaging")),
        roots={id: tuple(names) for id, names in snapshot.get("roots", {}).items()},
        place=lambda path: str(places.get(path, path)),
    )


def _bound_from(snapshot: Sequence[Any]) -> Layer:
    origin, allow, deny, note = snapshot
    return Layer("job", origin, Rule(allow=None if allow is None else tuple(allow), deny=tuple(deny)), note)


def catalog_from(snapshot: list[_Json]) -> Catalog:
    """Return a catalog of the tools of a record, none of which has a body."""
    tools = {}
    for each in snapshot:
        tool = Tool.declared(
            each["name"],
            "",
            effects=set(each["effects"]),
            group=each["group"],
            owner_only=each["ownerOnly"],
            optional=each["optional"],
            requires=tuple(each["requires"]),
        )
        reached: dict[str, Any] = {kind: tuple(names) for kind, names in each.get("reached", {}).items()}
        names = tuple(each.get("otherNames", ()))
        tools[tool.name] = replace(tool, source=each["source"], other_names=names, **reached)
    return Catalog(tools)


def _tool(tool: Tool) -> dict[str, Any]:
    reached = {kind: names for kind in _REACHED if (names := getattr(tool, kind))}
    return {
        "name": tool.name,
        "source": tool.source,
        "group": tool.group,
        "effects": sorted(tool.effects),
        "ownerOnly": tool.owner_only,
        "optional": tool.optional,
        "requires": list(tool.requires),
        **({"otherNames": list(tool.other_names)} if tool.other_names else {}),
        **({"reached": reached} if reached else {}),
    }


def _section(section: policy.Section, kind: type[policy.Section] | None = None) -> dict[str, Any]:
    """Return what is written in a section, and nothing that is not: an absent list is another thing than an empty one.

    `kind` is the part of it that policy reads.
    """
    only = None if kind is None else {name: {"security"} if name == "exec" else True for name in kind.model_fields}
    return section.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True, include=only)


def _places(settings: policy.PolicySettings) -> list[str]:
    """Return every path whose place in the file may be asked for."""
    scopes = ["tools", *(f"{agent.origin}.tools" for agent in settings.agents.values())]
    return ["sandbox.workspaceAccess", "built-in subagent depth", *(f"{each}.subagents.maxDepth" for each in scopes)]


def _agent(agent: policy.AgentPolicy) -> dict[str, Any]:
    return {"origin": agent.origin, "tools": _section(agent.tools, policy.ToolsSettings), "sandbox": agent.sandbox}


def _agent_from(snapshot: _Json) -> policy.AgentPolicy:
    return policy.AgentPolicy(**{**snapshot, "tools": policy.ToolsSettings.model_validate(snapshot["tools"])})


def _channel(channel: policy.ChannelPolicy) -> dict[str, Any]:
    return {
        "origin": channel.origin,
        "direct": None if channel.direct is None else _group(channel.direct),
        "groups": _each(channel.groups, _group),
        "accounts": {name: _each(groups, _group) for name, groups in channel.accounts.items()},
        "owners": list(channel.owners),
    }


def _channel_from(snapshot: _Json) -> policy.ChannelPolicy:
    return policy.ChannelPolicy(
        origin=snapshot["origin"],
        direct=_group_from(snapshot["direct"]) if snapshot.get("direct") else None,
        groups=_each(snapshot["groups"], _group_from),
        accounts={name: _each(groups, _group_from) for name, groups in snapshot["accounts"].items()},
        owners=tuple(snapshot["owners"]),
    )


def _group(group: policy.GroupPolicy) -> dict[str, Any]:
    return {
        "origin": group.origin,
        "tools": None if group.tools is None else _section(group.tools),
        "bySender": _each(group.by_sender, _section),
    }


def _group_from(snapshot: _Json) -> policy.GroupPolicy:
    tools = snapshot["tools"]
    return policy.GroupPolicy(
        origin=snapshot["origin"],
        tools=None if tools is None else policy.ScopeSettings.model_validate(tools),
        by_sender=_each(snapshot["bySender"], policy.ScopeSettings.model_validate),
    )


def _each(named: Mapping[str, Any], make: Callable[[Any], T]) -> dict[str, T]:
    return {name: make(each) for name, each in named.items()}


log = logging.getLogger("toolcrib")

_remember = lru_cache(maxsize=1024)  # what was made for so many callers, catalogs and profiles
_NAME_CHARS = 64


class Belts:
    """The belts of callers over one catalog and one policy; neither ever changes, so a belt is made once."""

    def __init__(
        self,
        catalog: Catalog,
        settings: policy.PolicySettings,
        *,
        host: frozenset[str] = frozenset(),
        channels: Mapping[str, Abilities] = MappingProxyType({}),
    ) -> None:
        self.catalog, self.settings = catalog, settings
        self._host, self._channels = host, channels
        self._belt_for, self._catalog_with = _remember(self._make_belt), _remember(self._widen)
        self._grounds_of, self._narrow = _remember(self._make_grounds), _remember(self._make_narrow)
        self._withhold = _remember(self._make_withheld)

    def narrow(
        self,
        profile: str | None,
        only: Iterable[str] | None,
        extra: tuple[Tool, ...] = (),
        bounds: tuple[Layer, ...] = (),
    ) -> "Belts":
        """Return the same belts with one more layer for each: nobody has more than this profile and these tools."""
        if profile is not None and profile not in policy.PROFILES:
            raise CribError(f"there is no profile {profile[:_NAME_CHARS]!r}; there are {', '.join(policy.PROFILES)}")
        if only is None:
            return self if profile is None and not bounds else self._narrow(profile, None, bounds)
        names, known = dict[str, str](), self.catalog_with(extra).tools
        for written in only:
            name = canonical(written)
            if name is None or name not in known:
                raise CribError(f"only: {no_such_tool(written, known)}")
            names[name] = written
        return self._narrow(profile, tuple(names), bounds)

    def belt_for(self, caller: Caller, extra: tuple[Tool, ...] = ()) -> Selection:
        """Return the caller's belt; `extra` are tools of the program itself, judged like any other."""
        return self._belt_for(caller, extra)

    def catalog_with(self, extra: tuple[Tool, ...]) -> Catalog:
        """Return the catalog with the program's own tools in it; a name that is taken is refused."""
        return self._catalog_with(extra) if extra else self.catalog

    def _make_narrow(self, profile: str | None, only: tuple[str, ...] | None, bounds: tuple[Layer, ...]) -> "Belts":
        settings = replace(self.settings, narrowed=profile, only=only, bounds=bounds)
        return Belts(self.catalog, settings, host=self._host, channels=self._channels)

    def _widen(self, extra: tuple[Tool, ...]) -> Catalog:
        tools = dict(self.catalog.tools)
        for tool in extra:
            if tool.name in tools:
                raise DeclarationError(f"there is a tool {tool.name!r} from {tools[tool.name].source} already")
            if tool.group in DERIVED_GROUPS:
                raise DeclarationError(f"{tool.name!r} names the core group {tool.group!r} as its own; choose another")
            tools[tool.name] = replace(tool, source=PROGRAM) if tool.source == "core" else tool
        return Catalog(tools, self.catalog.problems)

    def _make_belt(self, caller: Caller, extra: tuple[Tool, ...]) -> Selection:
        who = resolve(self.settings, caller)
        catalog, made = self._ask_factories(self.catalog_with(extra), who)
        facts = self._facts(who, tuple(map(self._facts, who.ceiling)))
        belt = gate(catalog.tools, catalog.groups, layers_of(who), facts)
        seen = {name: made.get(name, tool).narrow_for(caller, self._channels) for name, tool in belt.tools.items()}
        aliases = {other: tool.name for tool in catalog.tools.values() for other in tool.other_names}
        shown, grounds = MappingProxyType(seen), self._grounds_of(catalog)
        return replace(belt, tools=shown, grounds=grounds, aliases=aliases, is_guests=not who.is_owner)

    def _ask_factories(self, catalog: Catalog, who: ResolvedCaller) -> tuple[Catalog, Mapping[str, Tool]]:
        """Return the catalog for a caller, and what factories made for it; what one of its parents lacks, it lacks."""
        made: dict[str, Tool] = {}
        lacking: list[tuple[str, str]] = []
        asked: dict[Any, Any] = {}
        for name, make in ((name, tool.make) for name, tool in catalog.tools.items() if tool.make):
            for each in (*who.ceiling, who):
                caller = replace(each.caller, agent=each.agent, owner=each.is_owner, sandboxed=each.is_sandboxed)
                given = make(caller, asked)
                if isinstance(given, Tool):
                    made[name] = given
                    continue
                if given:
                    log.error("%s", given)
                lacking.append((name, "caller:failed" if given else "caller"))
                break
        return self._withhold(catalog, tuple(lacking)) if lacking else catalog, made

    def _make_withheld(self, catalog: Catalog, lacking: tuple[tuple[str, str], ...]) -> Catalog:
        tools = dict(catalog.tools)
        for name, need in lacking:  # which nobody meets, so that the gate says no, now and when it is asked again
            tools[name] = replace(tools[name], requires=(*tools[name].requires, need))
        return Catalog(tools, catalog.problems)

    def _facts(self, who: ResolvedCaller, above: tuple[Facts, ...] = ()) -> Facts:
        return Facts(
            owner=who.is_owner,
            host=self._host | {f"model:{who.family}"} if who.family else self._host,
            mentions=mentions_of(who),
            additive=self.settings.tools.plugin_only_allow == "additive",
            roots=who.roots,
            above=above,
        )

    def _make_grounds(self, catalog: Catalog) -> Grounds:
        return Grounds(partial(policy_snapshot, catalog, self.settings, self._host))


def no_such_tool(name: str, known: Iterable[str]) -> str:
    """Return why a name that no tool has is refused."""
    close = nearest(name, known, 3)
    hint = f"; the nearest are {', '.join(close)}" if close else ""
    return f"there is no tool {name[:_NAME_CHARS]!r}{hint}"
