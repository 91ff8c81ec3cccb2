"""Settings and a caller to the named layers, each with the path it came from. Pure.

    profile → provider-profile → global → global-provider → agent → agent-provider → group → sandbox → subagent

Every layer is an AND, so a name may occur more than once: a subagent under `ceiling` also carries its parents'
layers, and a sender recognised only by a name also carries what would apply without it.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from toolcrib.define.caller import Caller
from toolcrib.define.names import fold_name
from toolcrib.define.verdict import LAYERS, Layer, LayerName, Rule

from .chats import chat_layers
from .resolve import ResolvedCaller, resolve
from .settings import (
    PROFILES,
    SANDBOX_ALLOW,
    SANDBOX_DENY,
    SUBAGENT_DENY,
    PolicySettings,
    ScopeSettings,
    SubagentSettings,
    ToolsSettings,
)

# What the layers of the global scope and of the agent's are called: for all models, and for the caller's.
_SCOPES: tuple[tuple[LayerName, LayerName], ...] = (("global", "global-provider"), ("agent", "agent-provider"))
_Scopes = Sequence[tuple[str, ToolsSettings]]
_Subagents = Sequence[tuple[str, SubagentSettings]]

_SILENT = Rule()
_WRITING = ("write", "edit", "apply_patch")


def layers_for(settings: PolicySettings, caller: Caller) -> tuple[Layer, ...]:
    """Return every layer that speaks about this caller, in the order they are judged."""
    return layers_of(resolve(settings, caller))


def layers_of(who: ResolvedCaller) -> tuple[Layer, ...]:
    """Return every layer that speaks about a resolved caller, in the order they are judged."""
    settings = who.settings
    found = [Layer("source", origin, each.rule(), source=source) for source, (origin, each) in settings.sources.items()]
    if settings.narrowed is not None:
        found.append(Layer("profile", "--profile", Rule(allow=PROFILES[settings.narrowed]), settings.narrowed))
    if settings.only is not None:
        found.append(Layer("profile", "only", Rule(allow=settings.only)))
    found += [
        *_scope_layers(who.scopes, who.model_keys),
        *_maker_layers(who),
        *chat_layers(who),
        *_sandbox_layers(who),
        *_subagent_layers(who),
        *settings.bounds,
    ]
    return tuple(sorted(found, key=lambda layer: LAYERS.index(layer.name)))


def mentions_of(who: ResolvedCaller) -> frozenset[str]:
    """Return what the allow and alsoAllow lists of the caller's own scopes name; `*` and globs name nothing.

    Only the global and the agent's scope count: a chat, a parent or a sandbox can narrow but never bring a tool out.
    """
    scopes: list[ScopeSettings] = []
    for _, tools in who.scopes:
        scopes += [tools, *(entry for _, entry in _provider_entry(tools, who.model_keys))]
    rules = [scope.rule().of("allow", "also") for scope in scopes]
    named = (entry for rule in rules for entry in (*(rule.allow or ()), *rule.also, *(each.tool for each in rule.when)))
    return frozenset(map(fold_name, named))


def _scope_layers(places: _Scopes, model_keys: Sequence[str], note: str = "") -> Iterator[Layer]:
    """Yield the six layers of the global and the agent's scope, and what they ask for."""
    scopes: list[tuple[LayerName, str, ScopeSettings]] = []
    by_provider: list[tuple[LayerName, str, ScopeSettings]] = []
    for (name, provider_name), (origin, tools) in zip(_SCOPES, places, strict=False):
        scopes.append((name, origin, tools))
        for key, entry in _provider_entry(tools, model_keys) if model_keys else ():
            by_provider.append((provider_name, f"{origin}.byProvider.{key}", entry))
    yield from _profile_layers("profile", scopes, note)
    yield from _profile_layers("provider-profile", by_provider, note)
    for name, origin, scope in [*scopes, *by_provider]:
        rule = scope.rule()
        if (judged := rule.of("allow", "also", "deny")) != _SILENT:
            yield Layer(name, origin, judged, note)
        if (asked := rule.of("ask")) != _SILENT:
            yield Layer("ask", f"{origin}.ask", asked, note)
    # the innermost that says something about commands is what the judge goes by
    stated = [(index, each.exec) for index, (_, each) in enumerate(places) if "security" in each.exec.model_fields_set]
    if stated and stated[-1][1].security == "deny":
        name, origin = _SCOPES[stated[-1][0]][0], f"{places[stated[-1][0]][0]}.exec.security"
        yield Layer(name, origin, Rule(deny=("exec",)), f"deny, {note}" if note else "deny")


def _profile_layers(name: LayerName, scopes: Iterable[tuple[str, str, ScopeSettings]], note: str) -> Iterator[Layer]:
    """Yield the profile in force: the innermost scope that names one, with the innermost alsoAllow."""
    profile: str | None = None
    origin, also = "", _SILENT
    for _, place, scope in scopes:
        if scope.profile is not None:
            profile, origin = scope.profile, f"{place}.profile"
        if scope.also_allow:
            also = scope.rule().of("also")
    if profile is not None:
        words = f"{profile}, {note}" if note else profile
        yield Layer(name, origin, replace(also, allow=PROFILES[profile]), words)


def _provider_entry(scope: ToolsSettings, model_keys: Sequence[str]) -> Iterator[tuple[str, ScopeSettings]]:
    """Yield the one entry about the caller's model: the exact model's, else the provider's, else its family's."""
    entries = {fold_name(key): key for key in scope.by_provider}
    for candidate in model_keys:
        key = entries.get(candidate)
        if key is not None:
            yield key, scope.by_provider[key]
            return


def _sandbox_layers(who: ResolvedCaller) -> Iterator[Layer]:
    if not who.is_sandboxed:
        return
    allow = ("built-in sandbox list", Rule(allow=SANDBOX_ALLOW))
    deny = ("built-in sandbox list", Rule(deny=SANDBOX_DENY))
    for origin, scope in who.scopes:
        lists = scope.sandbox.tools
        if lists.allow is not None:
            allow = (f"{origin}.sandbox.tools", lists.rule().of("allow"))
        if "deny" in lists.model_fields_set:
            deny = (f"{origin}.sandbox.tools", lists.rule().of("deny"))
    yield Layer("sandbox", *allow)
    yield Layer("sandbox", *deny)
    settings = who.settings
    if settings.workspace_access != "rw":
        files = _WRITING if settings.workspace_access == "ro" else ("group:fs",)
        origin = settings.place("sandbox.workspaceAccess")
        yield Layer("sandbox", origin, Rule(deny=files), settings.workspace_access)


def _subagent_layers(who: ResolvedCaller) -> Iterator[Layer]:
    places = who.subagents
    for origin, subagents in places:
        if not subagents.enabled:
            off = Rule(deny=("group:agents", "sessions_spawn", "subagents"))
            yield Layer("subagent", f"{origin}.enabled", off, "false")
    if not who.is_subagent:
        return
    yield Layer("subagent", "built-in subagent list", Rule(deny=SUBAGENT_DENY))
    yield from _mandate_layers(who, places)
    yield from _depth_layers(who)
    origin, chosen = who.subagents_by("mode")
    if chosen.mode == "handover" and _handover_rule(chosen, who.settings.mandates).allow is None:
        yield Layer("subagent", f"{origin}.mode", Rule(allow=()), "handover")
    if chosen.mode != "own":
        yield from _ceiling_layers(who)


def _mandate_layers(who: ResolvedCaller, places: _Subagents, note: str = "") -> Iterator[Layer]:
    """Yield what narrows one subagent: the lists about subagents, and what its own agent declares."""
    mandates = who.settings.mandates
    for origin, subagents in places:
        if subagents.tools.model_fields_set:
            yield Layer("subagent", f"{origin}.tools", subagents.tools.rule(), note)
        rule = _handover_rule(subagents, mandates)
        if rule.allow is not None or rule.deny:
            yield Layer("subagent", origin, rule, note)
    if (declared := mandates.get(who.agent)) is not None:
        yield Layer("subagent", f"agent {who.agent}", Rule(allow=declared), note)


def _handover_rule(subagents: SubagentSettings, agents: Container[str]) -> Rule:
    """Return `include` and `exclude` as far as they are about tools: a name of an agent says whom there is to ask."""
    include, exclude = subagents.include, tuple(each for each in subagents.exclude if fold_name(each) not in agents)
    if include:
        include = tuple(each for each in include if fold_name(each) not in agents) or None
    return Rule(allow=include, deny=exclude)


def _depth_layers(who: ResolvedCaller) -> Iterator[Layer]:
    """Yield the refusal to go deeper, as the innermost place that sets a depth says."""
    origin, subagents = who.subagents_by("max_depth")
    if who.depth >= subagents.max_depth:
        is_written = "max_depth" in subagents.model_fields_set
        place = who.settings.place(f"{origin}.maxDepth" if is_written else "built-in subagent depth")
        note = f"{subagents.max_depth}, at depth {who.depth}"
        yield Layer("subagent", place, Rule(deny=("group:agents", "sessions_spawn")), note)


def _maker_layers(who: ResolvedCaller) -> Iterator[Layer]:
    """Yield what rules say about the models of those who wanted this done: it never does what one of them must not."""
    seen = {_layer_identity(layer) for layer in _scope_layers(who.scopes, who.model_keys)} if who.makers else set()
    for name, maker in zip(who.caller.made_through, who.makers, strict=True):
        for layer in _scope_layers(maker.scopes, maker.model_keys, f"of {name}, which wanted this done"):
            if _layer_identity(layer) not in seen:
                seen.add(_layer_identity(layer))
                yield layer


def _ceiling_layers(who: ResolvedCaller) -> Iterator[Layer]:
    """Yield the layers of every parent's scope: a child never has what one of them lacks.

    A parent's rules about models are those about its own; and those about the child's, for that is who speaks now.
    """
    seen = {_layer_identity(layer) for layer in _scope_layers(who.scopes, who.model_keys)} if who.parents else set()
    for name, parent in zip(who.caller.parents, who.parents, strict=True):
        note = f"of the parent {name!r}"
        for model_keys in dict.fromkeys((parent.model_keys, who.model_keys, *(each.model_keys for each in who.makers))):
            for layer in _scope_layers(parent.scopes, model_keys, note):
                if _layer_identity(layer) not in seen:
                    seen.add(_layer_identity(layer))
                    yield layer
        # parents with one scope may speak in different sessions, and only some of those are sandboxed
        yield from _sandbox_layers(parent)
        if parent.is_subagent:  # whatever narrows it bounds those it starts
            yield from _mandate_layers(parent, parent.subagents[1:], note)


def _layer_identity(layer: Layer) -> tuple[str, str, Rule]:
    return layer.name, layer.origin, layer.rule
