"""Catalog, settings and caller to a Selection: where the registry and the policy meet."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, DeclarationError
from toolcrib.define.names import nearest
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Grounds, Selection
from toolcrib.policy.gate import Facts, gate
from toolcrib.policy.layers import layers_of, mentions_of
from toolcrib.policy.resolve import ResolvedCaller, resolve
from toolcrib.policy.settings import PROFILES, PolicySettings
from toolcrib.registry.catalog import Catalog

from .grounds import told

__all__ = ["Belts", "no_such_tool"]

_REMEMBERED = 1024  # callers whose belt is kept; the oldest gives way
_LONGEST_NAME = 64


class Belts:
    """The belts of callers over one catalog and one policy; neither ever changes, so a belt is made once."""

    def __init__(
        self,
        catalog: Catalog,
        settings: PolicySettings,
        *,
        host: frozenset[str] = frozenset(),
        channels: Sequence[str] = (),
    ) -> None:
        self.catalog, self.settings = catalog, settings
        self._host, self._channels = host, tuple(channels)
        self._made: dict[tuple[Caller, tuple[Tool, ...]], Selection] = {}
        self._widened: dict[tuple[Tool, ...], Catalog] = {(): catalog}
        self._grounds: dict[Catalog, Grounds] = {}
        self._narrowed: dict[str, Belts] = {}

    def narrowed(self, profile: str) -> "Belts":
        """Return the same belts with one more layer: nobody has more than this profile, whatever is written."""
        if profile not in PROFILES:
            raise CribError(f"there is no profile {profile[:_LONGEST_NAME]!r}; there are {', '.join(PROFILES)}")
        belts = self._narrowed.get(profile)
        if belts is None:
            settings = replace(self.settings, narrowed=profile)
            belts = Belts(self.catalog, settings, host=self._host, channels=self._channels)
            self._narrowed[profile] = belts
        return belts

    def belt_for(self, caller: Caller, extra: tuple[Tool, ...] = ()) -> Selection:
        """Return the caller's belt; `extra` are tools of the program itself, judged like any other."""
        key = (caller, extra)
        belt = self._made.get(key)
        if belt is None:
            if len(self._made) >= _REMEMBERED:
                del self._made[next(iter(self._made))]
            belt = self._made[key] = self._make(caller, self.catalog_with(extra))
        return belt

    def catalog_with(self, extra: tuple[Tool, ...]) -> Catalog:
        """Return the catalog with the program's own tools in it; a name that is taken is refused."""
        catalog = self._widened.get(extra)
        if catalog is None:
            tools = dict(self.catalog.tools)
            for tool in extra:
                if tool.name in tools:
                    raise DeclarationError(f"there is a tool {tool.name!r} from {tools[tool.name].source} already")
                tools[tool.name] = replace(tool, source="client:program") if tool.source == "core" else tool
            if len(self._widened) >= _REMEMBERED:
                self._widened, self._grounds = {(): self.catalog}, {}
            catalog = self._widened[extra] = Catalog(tools, self.catalog.problems)
        return catalog

    def _make(self, caller: Caller, catalog: Catalog) -> Selection:
        who = resolve(self.settings, caller)
        facts = self._facts(who, tuple(map(self._facts, who.ceiling)))
        belt = gate(catalog.tools, catalog.groups, layers_of(who), facts)
        seen = {name: tool.narrowed(caller, self._channels) for name, tool in belt.tools.items()}
        return replace(belt, tools=MappingProxyType(seen), grounds=self._grounds_of(catalog))

    def _facts(self, who: ResolvedCaller, above: tuple[Facts, ...] = ()) -> Facts:
        return Facts(
            owner=who.is_owner,
            host=self._host | {f"model:{who.family}"} if who.family else self._host,
            mentions=mentions_of(who),
            additive=self.settings.tools.plugin_only_allow == "additive",
            above=above,
        )

    def _grounds_of(self, catalog: Catalog) -> Grounds:
        grounds = self._grounds.get(catalog)
        if grounds is None:
            grounds = self._grounds[catalog] = Grounds(partial(told, catalog, self.settings, self._host))
        return grounds


def no_such_tool(name: str, belt: Selection) -> str:
    """Return why a call by a name that no tool has is refused."""
    close = nearest(name, belt.tools, 3)
    hint = f"; the nearest are {', '.join(close)}" if close else ""
    return f"there is no tool {name[:_LONGEST_NAME]!r}{hint}"
