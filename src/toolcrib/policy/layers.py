"""Settings and a caller to the nine named layers, each with the path it came from. Pure.

    profile → provider-profile → global → global-provider → agent → agent-provider → group → sandbox → subagent

Every layer is an AND, so a name may occur more than once: a subagent under `ceiling` also carries its parents'
layers, and a sender recognised only by a name also carries what would apply without it.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.names import fold
from toolcrib.define.verdict import Layer, LayerName, Rule

from .chats import chat_layers
from .identity import is_listed
from .profiles import PROFILES, SANDBOX_ALLOW, SANDBOX_DENY, SUBAGENT_DENY
from .settings import (
    AgentPolicy,
    PolicySettings,
    ScopeSettings,
    SubagentSettings,
    ToolsSettings,
)

__all__ = [
    "agent_of", "agent_of_parent", "ceiling_of", "child_of", "is_owner", "is_sandboxed", "layers_for", "mentions_for",
    "model_family", "most_subagents",
]  # fmt: skip

# Providers that are another one under a different name; a hyphenated name belongs to what stands before the hyphen.
_FAMILIES = {
    "azure": "openai",
    "codex": "openai",
    "chatgpt": "openai",
    "gemini": "google",
    "vertex": "google",
    "claude": "anthropic",
}

_WRITING = ("write", "edit", "apply_patch")


def layers_for(settings: PolicySettings, caller: Caller) -> tuple[Layer, ...]:
    """Return every layer that speaks about this caller, in the order they are judged."""
    agent = _agent(settings, caller)
    found = [
        *_source_layers(settings),
        *_narrowing_layer(settings),
        *_scope_layers(settings, agent, caller),
        *chat_layers(settings, caller),
        *_sandbox_layers(settings, agent, caller),
        *_subagent_layers(settings, agent, caller),
    ]
    return tuple(sorted(found, key=lambda layer: _ORDER.index(layer.name)))


_ORDER: tuple[LayerName, ...] = (
    "source", "profile", "provider-profile", "global", "global-provider", "agent", "agent-provider", "group", "sandbox",
    "subagent", "ask",
)  # fmt: skip


def agent_of(caller: Caller) -> str:
    """Return the id of the agent the caller belongs to: its own word, else the session key's, else main."""
    if caller.agent:
        return session.to_agent(caller.agent)
    return session.agent_from_key(caller.session or "")


def agent_of_parent(parent: str) -> str:
    """Return the id of the agent that a parent in a chain is: one is written as a session key or as an agent's id."""
    key = session.parse(parent)
    return session.to_agent(key.agent if key else parent)


def is_owner(settings: PolicySettings, caller: Caller) -> bool:
    """Tell whether the caller is the owner: said so by its maker, alone at the terminal, or listed by id or E.164."""
    if caller.owner is not None:
        return caller.owner
    if caller.channel is None and caller.sender is None and caller.group is None:
        return all(_is_local(key) for key in (caller.session or "", *caller.parents))
    channel = settings.channels.get(session.to_channel(caller.channel or "") or "")
    listed = (*settings.owners, *(channel.owners if channel else ()))
    return is_listed(caller.sender, listed)


def _claims_subagent(key: str) -> bool:
    """Tell whether a key says it is a subagent's, in whatever spelling: such a word may always narrow."""
    words = [fold(word) for word in key.split(":") if word.strip()]
    return (words[:1] == ["subagent"] and len(words) > 1) or (words[:1] == ["agent"] and words[2:3] == ["subagent"])


def _is_local(key: str) -> bool:
    """Tell whether a session key (or an agent's id) says nothing of a channel, a hook or a device."""
    folded = fold(key)
    words = [word.strip() for word in folded.split(":")]
    return session.kind_from_key(folded) not in ("group", "hook", "node") and "dm" not in words


def is_sandboxed(settings: PolicySettings, caller: Caller) -> bool:
    """Tell whether the caller's session counts as sandboxed."""
    agent = _agent(settings, caller)
    mode = agent.sandbox if agent and agent.sandbox else settings.sandbox
    if caller.sandboxed or mode == "all":
        return True
    return mode == "non-main" and not _is_main(caller)


def mentions_for(settings: PolicySettings, caller: Caller) -> frozenset[str]:
    """Return what the allow and alsoAllow lists of the caller's own scopes name; `*` and globs name nothing.

    Only the global and the agent's scope count: a chat, a parent or a sandbox can narrow but never bring a tool out.
    """
    scopes: list[ScopeSettings] = []
    agent = _agent(settings, caller)
    for tools in (settings.tools, *((agent.tools,) if agent else ())):
        scopes += [tools, *(entry for _, entry in _provider_entry(tools, caller))]
    return frozenset(fold(entry) for scope in scopes for entry in (*(scope.allow or ()), *scope.also_allow))


def _is_main(caller: Caller) -> bool:
    """Tell whether the caller speaks in its agent's main session; without a key, everybody but a group does."""
    if caller.session and caller.session.strip():
        return session.kind_from_key(caller.session) == "main"
    return caller.group is None and not caller.parents


def model_family(provider: str) -> str:
    """Return the provider whose rules and dialect this one shares (`openai-codex` is `openai`)."""
    first = fold(provider).partition("-")[0]
    return _FAMILIES.get(first, first)


def _agent(settings: PolicySettings, caller: Caller) -> AgentPolicy | None:
    return settings.agents.get(agent_of(caller))


def _source_layers(settings: PolicySettings) -> Iterator[Layer]:
    for source, (origin, lists) in settings.sources.items():
        yield Layer("source", origin, lists.rule(), source=source)


def _narrowing_layer(settings: PolicySettings) -> Iterator[Layer]:
    if settings.narrowed is not None:
        yield Layer("profile", "--profile", Rule(allow=PROFILES[settings.narrowed]), settings.narrowed)


def _scope_layers(
    settings: PolicySettings, agent: AgentPolicy | None, caller: Caller, note: str = ""
) -> Iterator[Layer]:
    """Yield the six layers of the global and the agent's scope, and what they ask for."""
    scopes: list[tuple[LayerName, str, ScopeSettings]] = [("global", "tools", settings.tools)]
    if agent is not None:
        scopes.append(("agent", f"{agent.origin}.tools", agent.tools))
    wholes: list[tuple[LayerName, str, ToolsSettings]] = [("global-provider", "tools", settings.tools)]
    if agent is not None:
        wholes.append(("agent-provider", f"{agent.origin}.tools", agent.tools))
    by_provider: list[tuple[LayerName, str, ScopeSettings]] = [
        (name, f"{origin}.byProvider.{key}", entry)
        for name, origin, scope in wholes
        for key, entry in _provider_entry(scope, caller)
    ]
    yield from _profile_layer("profile", scopes, note)
    yield from _profile_layer("provider-profile", by_provider, note)
    for name, origin, scope in [*scopes, *by_provider]:
        rule = scope.rule()
        if rule.allow is not None or rule.deny or rule.also:
            yield Layer(name, origin, replace(rule, ask=()), note)
        if rule.ask:
            yield Layer("ask", f"{origin}.ask", Rule(ask=rule.ask), note)


def _profile_layer(name: LayerName, scopes: Iterable[tuple[str, str, ScopeSettings]], note: str) -> Iterator[Layer]:
    """Yield the profile in force: the innermost scope that names one, with the innermost alsoAllow."""
    profile: str | None = None
    origin, also = "", tuple[str, ...]()
    for _, place, scope in scopes:
        if scope.profile is not None:
            profile, origin = scope.profile, f"{place}.profile"
        if scope.also_allow:
            also = scope.also_allow
    if profile is not None:
        words = f"{profile}, {note}" if note else profile
        yield Layer(name, origin, Rule(allow=PROFILES[profile], also=also), words)


def _provider_entry(scope: ToolsSettings, caller: Caller) -> Iterator[tuple[str, ScopeSettings]]:
    """Yield the one entry about the caller's model: the exact model's, else the provider's, else its family's."""
    if caller.provider is None and caller.model is None:
        return
    provider, model = fold(caller.provider or ""), fold(caller.model or "")
    entries = {fold(key): key for key in scope.by_provider}
    wanted = [model] if "/" in model else []
    if model:
        wanted.append(f"{provider}/{model}")
    provider = provider or model.partition("/")[0]
    family = model_family(provider) if provider else ""
    for candidate in (*wanted, provider, f"{family}/{model}", family):
        key = entries.get(candidate)
        if key is not None:
            yield key, scope.by_provider[key]
            return


def _sandbox_layers(settings: PolicySettings, agent: AgentPolicy | None, caller: Caller) -> Iterator[Layer]:
    if not is_sandboxed(settings, caller):
        return
    allow = ("built-in sandbox list", SANDBOX_ALLOW)
    deny = ("built-in sandbox list", SANDBOX_DENY)
    places = [("tools", settings.tools)] + ([(f"{agent.origin}.tools", agent.tools)] if agent else [])
    for origin, scope in places:
        lists = scope.sandbox.tools
        if lists.allow is not None:
            allow = (f"{origin}.sandbox.tools", lists.allow)
        if "deny" in lists.model_fields_set:
            deny = (f"{origin}.sandbox.tools", lists.deny)
    yield Layer("sandbox", allow[0], Rule(allow=allow[1]))
    yield Layer("sandbox", deny[0], Rule(deny=deny[1]))
    if settings.workspace_access != "rw":
        files = _WRITING if settings.workspace_access == "ro" else ("group:fs",)
        origin = settings.place("sandbox.workspaceAccess")
        yield Layer("sandbox", origin, Rule(deny=files), settings.workspace_access)


def ceiling_of(settings: PolicySettings, caller: Caller) -> tuple[Caller, ...]:
    """Return the callers whose rights bound this one's: its parents, outermost first, unless its mode is `own`."""
    _, subagents = _chosen(_subagent_places(settings, _agent(settings, caller)))
    return tuple(_parents(caller)) if subagents.mode != "own" else ()


def _parents(caller: Caller) -> Iterator[Caller]:
    """Yield the caller's parents, outermost first; one whose model is not known has the caller's."""
    for depth, parent in enumerate(caller.parents):
        key = session.parse(parent)
        provider, model = caller.provider, caller.model
        if known := "".join(caller.parent_models[depth : depth + 1]):
            name, _, rest = known.partition(":")
            provider, model = name or None, rest or None
        yield replace(
            caller,
            agent=key.agent if key else parent,
            session=parent if key else None,
            provider=provider,
            model=model,
            parents=caller.parents[:depth],
            parent_models=caller.parent_models[:depth],
        )


def child_of(settings: PolicySettings, parent: Caller, agent: str, key: str) -> Caller:
    """Return who a subagent is that `parent` starts: the same people behind it, its parents recorded, no way out of a
    sandbox.
    """
    by: tuple[str, ...] = (parent.session or agent_of(parent),)
    key_of = session.parse(parent.session or "")
    if parent.session and (key_of is None or session.to_agent(key_of.agent) != agent_of(parent)):
        # it speaks in the session of another agent, or in one whose key names none: what bounds either bounds the child
        by = (*by, agent_of(parent))
    chat = session.chat_from_key(parent.session or "")
    if parent.channel is None and parent.group is not None and chat is not None:
        # its group is one of the channel that its key names, and the child has another key
        parent = replace(parent, channel=chat.channel, owner=is_owner(settings, parent))
    spoke = f"{parent.provider or ''}:{parent.model or ''}".rstrip(":")
    known = (*parent.parent_models, *("",) * len(parent.parents))[: len(parent.parents)]
    models = (each or spoke for each in known)  # whoever is not known was taken to speak through the parent's
    return replace(
        parent,
        agent=agent,
        session=key,
        parents=(*parent.parents, *by),
        parent_models=(*models, *(spoke for _ in by)),
        provider=None,
        model=None,
        sandboxed=parent.sandboxed or is_sandboxed(settings, parent),
    )


def most_subagents(settings: PolicySettings, caller: Caller) -> int:
    """Return how many subagents may run at once in the caller's tree, as its outermost member's agent has it."""
    above = tuple(_parents(caller))
    # whoever spoke in a session that is not its agent's stands behind it
    has_two = len(above) > 1 and session.parse(caller.parents[1]) is None
    return min(_most(settings, root) for root in above[: 1 + has_two] or (caller,))


def _most(settings: PolicySettings, root: Caller) -> int:
    places = _subagent_places(settings, _agent(settings, root))
    said = [each.max_concurrent for _, each in places if "max_concurrent" in each.model_fields_set]
    return said[-1] if said else places[0][1].max_concurrent


_Places = Sequence[tuple[str, SubagentSettings]]


def _subagent_places(settings: PolicySettings, agent: AgentPolicy | None) -> _Places:
    places = [("tools.subagents", settings.tools.subagents)]
    if agent is not None:
        places.append((f"{agent.origin}.tools.subagents", agent.tools.subagents))
    return places


def _chosen(places: _Places) -> tuple[str, SubagentSettings]:
    """Return the innermost place that says which mode holds."""
    modes = [(origin, each) for origin, each in places if "mode" in each.model_fields_set]
    return modes[-1] if modes else places[0]


def _subagent_layers(settings: PolicySettings, agent: AgentPolicy | None, caller: Caller) -> Iterator[Layer]:
    places = _subagent_places(settings, agent)
    for origin, subagents in places:
        if not subagents.enabled:
            off = Rule(deny=("group:agents", "sessions_spawn", "subagents"))
            yield Layer("subagent", f"{origin}.enabled", off, "false")
    if not caller.parents and not _claims_subagent(caller.session or ""):
        return
    yield Layer("subagent", "built-in subagent list", Rule(deny=SUBAGENT_DENY))
    yield from _mandate(settings, places, caller)
    yield from _depth_layer(settings, places, _depth(settings, caller))
    origin, chosen = _chosen(places)
    if chosen.mode == "handover" and _handed_over(chosen, settings.mandates).allow is None:
        yield Layer("subagent", f"{origin}.mode", Rule(allow=()), "handover")
    if chosen.mode != "own":
        yield from _ceiling(settings, agent, caller)


def _mandate(settings: PolicySettings, places: _Places, subagent: Caller, note: str = "") -> Iterator[Layer]:
    """Yield what narrows one subagent: the lists about subagents, and what its own agent declares."""
    for origin, subagents in places:
        if subagents.tools.model_fields_set:
            yield Layer("subagent", f"{origin}.tools", subagents.tools.rule(), note)
        rule = _handed_over(subagents, settings.mandates)
        if rule.allow is not None or rule.deny:
            yield Layer("subagent", origin, rule, note)
    name = agent_of(subagent)
    if (declared := settings.mandates.get(name)) is not None:
        yield Layer("subagent", f"agent {name}", Rule(allow=declared), note)


def _handed_over(subagents: SubagentSettings, agents: Container[str]) -> Rule:
    """Return `include` and `exclude` as far as they are about tools: a name of an agent says whom there is to ask."""
    include, exclude = subagents.include, tuple(each for each in subagents.exclude if fold(each) not in agents)
    if include:
        include = tuple(each for each in include if fold(each) not in agents) or None
    return Rule(allow=include, deny=exclude)


def _depth(settings: PolicySettings, caller: Caller) -> int:
    """Return how many started one another before this subagent was."""
    first, second = (*caller.parents, "", "")[:2]
    known = {"main", *settings.agents, *settings.mandates}
    # a session whose key names no agent, and behind it the agent that spoke there, are one
    is_one = bool(second) and not session.parse(first) and not session.parse(second) and fold(first) not in known
    return max(len(caller.parents) - is_one, 1)


def _depth_layer(settings: PolicySettings, places: _Places, depth: int) -> Iterator[Layer]:
    """Yield the refusal to go deeper, as the innermost place that sets a depth says."""
    said = [(f"{origin}.maxDepth", each) for origin, each in places if "max_depth" in each.model_fields_set]
    origin, subagents = said[-1] if said else ("built-in subagent depth", places[0][1])
    if depth >= subagents.max_depth:
        note = f"{subagents.max_depth}, at depth {depth}"
        yield Layer("subagent", settings.place(origin), Rule(deny=("group:agents", "sessions_spawn")), note)


def _ceiling(settings: PolicySettings, agent: AgentPolicy | None, caller: Caller) -> Iterator[Layer]:
    """Yield the layers of every parent's scope: a child never has what one of them lacks.

    A parent's rules about models are those about its own; and those about the child's, for that is who speaks now.
    """
    seen = {_said(layer) for layer in _scope_layers(settings, agent, caller)}
    for parent, above in zip(caller.parents, _parents(caller), strict=True):
        policy = _agent(settings, above)
        for speaker in (above, replace(above, provider=caller.provider, model=caller.model)):
            for layer in _scope_layers(settings, policy, speaker, f"of the parent {parent!r}"):
                if _said(layer) not in seen:
                    seen.add(_said(layer))
                    yield layer
        # parents with one scope may speak in different sessions, and only some of those are sandboxed
        yield from _sandbox_layers(settings, policy, above)
        if above.parents or _claims_subagent(
            above.session or ""
        ):  # a subagent itself: whatever narrows it bounds those it starts
            own = _subagent_places(settings, policy)[1:]
            yield from _mandate(settings, own, above, f"of the parent {parent!r}")


def _said(layer: Layer) -> tuple[str, str, Rule]:
    return layer.name, layer.origin, layer.rule
