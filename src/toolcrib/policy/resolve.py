"""Settings and a caller to one value that everybody in policy reads: who asks, in which chat, under whom. Pure.

Session keys, owners and parents are read here and nowhere else; layers, chats, the ceiling, mentions and the limits of
subagents look at fields of a `ResolvedCaller`.
"""

from collections.abc import Iterable, Iterator, Sequence

from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.names import fold_name
from toolcrib.lazy import dataclass, replace

from .identities import Identity, identities_of, sender_key
from .settings import PolicySettings, SubagentSettings, ToolsSettings

# Providers that are another one under a different name; a hyphenated name belongs to what stands before the hyphen.
_FAMILIES = {
    "azure": "openai",
    "codex": "openai",
    "chatgpt": "openai",
    "gemini": "google",
    "vertex": "google",
    "claude": "anthropic",
}


@dataclass(frozen=True, slots=True)
class GroupChat:
    """The group of a message: its channel, its id, and for one inside a space the room that a key names."""

    channel: str
    id: str
    room: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCaller:
    """A caller and all that the settings and its session key make of it.

    `scopes` are the tools sections about it with the place of each, everybody's first, its agent's behind it. `chat` is
    the group that its key names. `model_keys` are what `byProvider` may call its model, the most exact first. `depth`
    counts who started one another before a subagent was; `parents` are they, outermost first. `makers` are the caller
    itself as it was where a person spoke through another model and wanted this done later.
    """

    settings: PolicySettings
    caller: Caller
    agent: str
    scopes: tuple[tuple[str, ToolsSettings], ...]
    chat: session.Chat | None
    model_keys: tuple[str, ...]
    is_owner: bool
    is_sandboxed: bool
    is_subagent: bool
    depth: int
    parents: "tuple[ResolvedCaller, ...]"
    makers: "tuple[ResolvedCaller, ...]" = ()

    @property
    def family(self) -> str:
        """The family of its model, blank when nothing is known of that."""
        return model_family(self.caller.provider) if self.caller.provider else ""

    @property
    def chats(self) -> Iterator[GroupChat]:
        """Where it speaks, by its own word or its key's, and where its parents do; each of these can only narrow."""
        own = (self.caller.channel, self.caller.group, self.chat)
        for channel, group, chat in dict.fromkeys((own, *((None, None, parent.chat) for parent in self.parents))):
            name = session.to_channel(channel or (chat.channel if chat else ""))
            id = (group or (chat.id if chat else "")).lower()
            if name and (id or group is not None):  # of a group that cannot be read it is known that it is one
                yield GroupChat(name, id, chat.id.lower() if chat and "/" in id else None)

    @property
    def direct_channels(self) -> Iterator[str]:
        """The channels whose direct messages it writes, by its own word or by a key's, its parents' too; "" unnamed."""
        channel, group = self.caller.channel, self.caller.group
        is_unread = "" in (channel, group)  # where that cannot be read it may be one
        own = session.to_channel(channel or "") or "" if is_unread or (channel and group is None) else None
        keys = (session.direct_from_key(key) for key in (self.caller.session or "", *self.caller.parents))
        yield from dict.fromkeys(each or own or "" for each in (own, *keys) if each is not None)

    @property
    def roots(self) -> tuple[str, ...]:
        """The spellings of its workspace: its parent's, unless it has one of its own."""
        own = (self.settings.roots.get(each.agent) for each in (self, *reversed(self.parents)))
        return next(filter(None, own), self.settings.roots.get("", ()))

    @property
    def subagents(self) -> tuple[tuple[str, SubagentSettings], ...]:
        """What its scopes say of subagents, and where."""
        return tuple((f"{origin}.subagents", tools.subagents) for origin, tools in self.scopes)

    def subagents_by(self, field: str) -> tuple[str, SubagentSettings]:
        """Return the innermost place that sets this field for subagents, everybody's when none does."""
        places = self.subagents
        return next((each for each in reversed(places) if field in each[1].model_fields_set), places[0])

    @property
    def ceiling(self) -> "tuple[ResolvedCaller, ...]":
        """Those whose rights bound this caller's: its parents, unless its mode is `own`, and its makers in any mode."""
        is_bound = bool(self.parents) and self.subagents_by("mode")[1].mode != "own"
        return (*self.parents, *self.makers) if is_bound else self.makers


def resolve(settings: PolicySettings, caller: Caller) -> ResolvedCaller:
    """Return the caller with everything that is decided about it, its parents resolved likewise."""
    parents: tuple[ResolvedCaller, ...] = ()
    if caller.parents:
        for name, parent in zip(caller.parents, _parents(caller), strict=True):
            parents = (*parents, _resolve(settings, parent, name, parents))
    return _resolve(settings, caller, caller.session or "", parents)


def _resolve(settings: PolicySettings, caller: Caller, key: str, parents: tuple[ResolvedCaller, ...]) -> ResolvedCaller:
    agent = agent_of(caller)
    own = settings.agents.get(agent)
    mode = own.sandbox if own and own.sandbox else settings.sandbox
    everybody = ("tools", settings.tools)
    return ResolvedCaller(
        settings=settings,
        caller=caller,
        agent=agent,
        scopes=(everybody, (f"{own.origin}.tools", own.tools)) if own else (everybody,),
        chat=session.chat_from_key(key) if key else None,
        model_keys=tuple(list_model_keys(caller)),
        is_owner=is_owner(settings, caller),
        is_sandboxed=caller.sandboxed or mode == "all" or (mode == "non-main" and not _is_main(caller)),
        is_subagent=bool(parents) or _claims_subagent(caller.session or ""),
        depth=_depth(settings, caller) if parents else 1,
        parents=parents,
        makers=tuple(_resolve(settings, each, key, parents) for each in _makers(caller)) if caller.made_through else (),
    )


def _makers(caller: Caller) -> Iterator[Caller]:
    """Yield the caller as it was where a person spoke through another model."""
    for name in caller.made_through:
        provider, _, model = name.partition(":")
        yield replace(caller, provider=provider or None, model=model or None, made_through=())


def agent_of(caller: Caller) -> str:
    """Return the id of the agent the caller belongs to: its own word, else the session key's, else main."""
    if caller.agent:
        return session.to_agent(caller.agent)
    return session.agent_from_key(caller.session or "")


def is_sandboxed(settings: PolicySettings, caller: Caller) -> bool:
    """Tell whether the caller's session counts as sandboxed."""
    return resolve(settings, caller).is_sandboxed


def model_family(provider: str) -> str:
    """Return the provider whose rules and dialect this one shares (`openai-codex` is `openai`)."""
    first = fold_name(provider).partition("-")[0]
    return _FAMILIES.get(first, first)


def list_model_keys(caller: Caller) -> Iterator[str]:
    """Yield how `byProvider` may call the caller's model: the exact model, the provider, its family."""
    if caller.provider is None and caller.model is None:
        return
    provider, model = fold_name(caller.provider or ""), fold_name(caller.model or "")
    if "/" in model:
        yield model
    if model:
        yield f"{provider}/{model}"
    provider = provider or model.partition("/")[0]
    family = model_family(provider) if provider else ""
    yield from (provider, f"{family}/{model}", family)


def _is_main(caller: Caller) -> bool:
    """Tell whether the caller speaks in its agent's main session; without a key, everybody but a group does."""
    if caller.session and caller.session.strip():
        return session.kind_from_key(caller.session) == "main"
    return caller.group is None and not caller.parents


# Persons, owners and lists


def person_of(settings: PolicySettings, caller: Caller) -> str:
    """Return who is behind a caller as one unique text, "" where that is not known.

    It is a person of `people`, else the typed id: names never count.
    """
    own = () if caller.is_nobody else identities_of(caller, settings.ids)
    for each in own:
        if each in settings.people:
            return f"person:{settings.people[each]}"
    return str(own[0]) if own else ""


def is_owner(settings: PolicySettings, caller: Caller) -> bool:
    """Tell whether the caller is the owner: made so, or listed by id or E.164, as the person they are."""
    if caller.owner is not None:
        return caller.owner
    return is_among(settings, caller, settings.owners) or any(
        is_among(settings, caller, channel.owners, at=name) for name, channel in settings.channels.items()
    )


def is_among(settings: PolicySettings, caller: Caller, listed: Iterable[str], *, at: str | None = None) -> bool:
    """Tell whether a list names who is behind a caller: by an identity, or by a role that holds them.

    `at` is the channel in whose part of the settings the list stands, None for one of everybody's. Names never count.
    """
    return bool(listed) and not caller.is_nobody and _is_meant(settings, _list_identities(settings, caller), listed, at)


def is_same_person(settings: PolicySettings, caller: Caller, other: Caller) -> bool:
    """Tell whether two callers have an identity in common, or are known as one person."""
    return not {*_list_identities(settings, caller)}.isdisjoint(_list_identities(settings, other))


def holds(settings: PolicySettings, caller: Caller, role: str) -> bool:
    """Tell whether a role holds who is behind a caller, who may be nobody: roles take away, too."""
    return _is_meant(settings, _list_identities(settings, caller), settings.roles.get(role, ()), None)


def _list_identities(settings: PolicySettings, caller: Caller) -> list[Identity]:
    """Return the caller's identities, and the others of the person who has the first of them."""
    own = identities_of(caller, settings.ids)
    name = next((settings.people[each] for each in own if each in settings.people), None)
    return [*own, *(each for each, other in settings.people.items() if name is not None and other == name)]


def _is_meant(settings: PolicySettings, known: Sequence[Identity], listed: Iterable[str], at: str | None) -> bool:
    bare = (at,) if at is not None else ("", settings.bare)
    for key in map(sender_key, listed) if known else ():
        if key.kind == "role" and _is_meant(settings, known, settings.roles.get(key.value, ()), None):
            return True
        if any(key.means(each, settings.ids, bare) for each in known):
            return True
    return False


def mark_terminal_owner(caller: Caller) -> Caller:
    """Return who is meant at a terminal, or by an `expect` entry: the owner, where no word is of anybody or anything
    outside. A program says `owner` itself.
    """
    outside = (caller.channel, caller.account, caller.sender, caller.group)
    if caller.owner is not None or "" in (caller.session, caller.agent) or any(each is not None for each in outside):
        return caller
    is_local = all(_is_local(key) for key in (caller.session or "", *caller.parents))
    return replace(caller, owner=True) if is_local else caller


def _is_local(key: str) -> bool:
    """Tell whether a session key (or an agent's id) says nothing of a channel, a hook or a device."""
    folded = fold_name(key)
    words = [word.strip() for word in folded.split(":")]
    return session.kind_from_key(folded) not in ("group", "hook", "node") and {"dm", "direct"}.isdisjoint(words)


# Parents and children


def agent_of_parent(parent: str) -> str:
    """Return the id of the agent that a parent in a chain is: one is written as a session key or as an agent's id."""
    key = session.parse_key(parent)
    return session.to_agent(key.agent if key else parent)


def max_subagents(settings: PolicySettings, caller: Caller) -> int:
    """Return how many subagents may run at once in the caller's tree, as its outermost member's agent has it."""
    who = resolve(settings, caller)
    # the speaker in a session that is not its agent's stands behind it
    has_two = len(who.parents) > 1 and session.parse_key(caller.parents[1]) is None
    roots = who.parents[: 1 + has_two] or (who,)
    return min(root.subagents_by("max_concurrent")[1].max_concurrent for root in roots)


def child_of(settings: PolicySettings, parent: Caller, agent: str, key: str) -> Caller:
    """Return who a subagent is that `parent` starts: the same people behind it, its parents recorded, no way out of a
    sandbox.
    """
    who = resolve(settings, parent)
    by: tuple[str, ...] = (parent.session or who.agent,)
    if parent.session and (
        (own := session.parse_key(parent.session)) is None or session.to_agent(own.agent) != who.agent
    ):
        # it speaks in the session of another agent, or in one whose key names none: what bounds either bounds the child
        by = (*by, who.agent)
    if parent.channel is None and parent.group is not None and who.chat is not None:
        # its group is one of the channel that its key names, and the child has another key
        parent = replace(parent, channel=who.chat.channel, owner=who.is_owner)
    spoke = f"{parent.provider or ''}:{parent.model or ''}".rstrip(":")
    known = (*parent.parent_models, *("",) * len(parent.parents))[: len(parent.parents)]
    models = (each or spoke for each in known)  # an unknown one is taken to have spoken through the parent's
    return replace(
        parent,
        agent=agent,
        session=key,
        parents=(*parent.parents, *by),
        parent_models=(*models, *(spoke for _ in by)),
        provider=None,
        model=None,
        sandboxed=who.is_sandboxed,
    )


def later_caller(caller: Caller, session: str) -> Caller:
    """Return who does later, in a session, what a caller wants done: by any model, and bound as its own was."""
    spoke = f"{caller.provider or ''}:{caller.model or ''}".rstrip(":")
    through = tuple(dict.fromkeys(each for each in (*caller.made_through, spoke) if each))
    return replace(caller, session=session, provider=None, model=None, made_through=through)


def _parents(caller: Caller) -> Iterator[Caller]:
    """Yield the caller's parents, outermost first; one whose model is not known has the caller's."""
    for depth, parent in enumerate(caller.parents):
        key = session.parse_key(parent)
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


def _claims_subagent(key: str) -> bool:
    """Tell whether a key says it is a subagent's, in whatever spelling: such a word may always narrow."""
    words = [fold_name(word) for word in key.split(":") if word.strip()]
    return "subagent" in words[:-1]


def _depth(settings: PolicySettings, caller: Caller) -> int:
    """Return how many started one another before this subagent was."""
    first, second = (*caller.parents, "", "")[:2]
    known = {"main", *settings.agents, *settings.mandates}
    # a session whose key names no agent, and behind it the agent that spoke there, are one
    is_one = (
        bool(second)
        and not session.parse_key(first)
        and not session.parse_key(second)
        and fold_name(first) not in known
    )
    return max(len(caller.parents) - is_one, 1)
