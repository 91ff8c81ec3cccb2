"""Every caller that settings tell apart, one of each kind, in two halves that are judged apart.

A layer is about who speaks (agent, model, sandbox, parents) or about where and for whom (chat, sender, owner), and
every layer is an AND. So the verdict on any caller is the stricter one of those on its two halves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, product

from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.names import fold_name
from toolcrib.lazy import dataclass, replace

from .chats import account_groups, find_groups
from .identities import is_role, rules_of, sender_key, to_sender
from .resolve import is_owner, list_model_keys, model_family, resolve
from .settings import ChannelPolicy, GroupPolicy, PolicySettings, ToolsSettings

ANYBODY = Sender(id="*")  # a sender whom no rule names; no sender can be written so
_Model = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelNames:
    """Who and what of a channel is named outside the rules: by `allowFrom`, by a binding, by a query."""

    senders: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()


_Named = Mapping[str, ChannelNames]


def list_declared(policies: Sequence[PolicySettings], named: _Named) -> Iterator[Caller]:
    """Yield one caller for everything that is written down, each thing by itself; a `*` stands for all others."""
    yield OWNER
    agents = dict.fromkeys(("main", *(id for policy in policies for id in policy.agents)))
    for agent in agents:
        yield replace(OWNER, agent=agent)
        yield replace(OWNER, agent=agent, sandboxed=True)
        yield replace(OWNER, parents=(agent,))
    for agent in dict.fromkeys((*agents, *(id for policy in policies for id in policy.mandates))):
        if agent != "main":
            yield replace(OWNER, agent=agent, parents=("main",))
        for key in dict.fromkeys(key for scope in _scopes_of(policies, agent) for key in scope.by_provider):
            if agent == "main" or not any(key in policy.tools.by_provider for policy in policies):
                provider, _, model = key.partition("/")
                yield replace(OWNER, agent=None if agent == "main" else agent, provider=provider, model=model or None)
    yield Caller(owner=False)
    yield from list_places(policies, named)


def list_speakers(
    policies: Sequence[PolicySettings], needs: Iterable[str] = (), *, subagents: bool = False
) -> list[Caller]:
    """Return one caller for every agent, model and sandbox that the rules distinguish, in no chat.

    `needs` are what tools require: some want a model of one family. With `subagents` there is one more for every
    parent and depth; none of these has what it would not have without them (G7).
    """
    known = dict.fromkeys(id for policy in policies for id in (*policy.agents, *policy.mandates))
    agents = list(dict.fromkeys(("main", *known, _unlike("other", known))))
    families = frozenset(need.removeprefix("model:") for need in needs if need.startswith("model:"))
    found = list[Caller]()
    for agent in agents:
        scopes, own = _scopes_of(policies, agent), f"agent:{agent}:main"
        chains: list[tuple[str, ...]] = [(f"agent:{each}:main",) for each in agents] if subagents else []
        # deeper down only the depth is another one, and one's own rules are no further bound
        deepest = max(scope.subagents.max_depth for scope in scopes) if subagents else 0
        chains += [(own,) * depth for depth in range(2, deepest + 1)]
        keys = frozenset(frozenset(map(fold_name, scope.by_provider)) for scope in scopes)
        for provider, model in _list_models(keys, families):
            speaker = Caller(agent=agent, provider=provider, model=model)
            found += [speaker, replace(speaker, sandboxed=True)]
            found += [replace(speaker, parents=parents) for parents in chains]
    return found


def _scopes_of(policies: Iterable[PolicySettings], agent: str) -> list[ToolsSettings]:
    return [scope for policy in policies for _, scope in resolve(policy, Caller(agent=agent)).scopes]


@lru_cache(maxsize=256)
def _list_models(scopes: frozenset[frozenset[str]], families: frozenset[str]) -> tuple[_Model, ...]:
    """Return a provider and a model for every choice of entries that one can meet in these scopes' `byProvider`."""
    keys = sorted(frozenset().union(*scopes))
    cuts = [(key[:index], key[index + 1 :]) for key in keys for index, char in enumerate(key) if char == "/"]
    other = _unlike("other", {part for cut in cuts for part in cut}.union(keys))
    named = [*keys, *(provider for provider, _ in cuts)]
    kin = sorted({model_family(each) for each in named}.union(families))
    # rules of a family apply to all that belong to it
    providers = dict.fromkeys((None, *named, *kin, *(f"{family}-{other}" for family in kin), other))
    models = dict.fromkeys((None, other, *keys, *(model for _, model in cuts)))
    found: dict[tuple[object, ...], _Model] = {}
    for provider, model in product(providers, models):
        tried = tuple(list_model_keys(Caller(provider=provider, model=model)))
        met = {scope: next((key for key in tried if key in scope), None) for scope in scopes}
        family = model_family(provider) if provider else ""
        found.setdefault((*met.items(), family if family in families else ""), (provider, model))
    return tuple(found.values())


def _unlike(word: str, taken: Iterable[str]) -> str:
    """Return a word that stands for every other one."""
    known = set(taken)
    while word in known:
        word += "x"
    return word


def list_places(policies: Sequence[PolicySettings], named: _Named) -> Iterator[Caller]:
    """Yield one caller for every direct message and group chat, with every sender that the rules distinguish there."""
    everywhere = [key for policy in policies for key in policy.by_sender]
    if everywhere:  # what bounds senders wherever they write bounds those without a channel, too
        held = [each for policy in policies for each in chain(*policy.roles.values())]
        yield from (Caller(sender=each) for each in _list_senders([], [*everywhere, *held]))
    channels = [*(name for policy in policies for name in policy.channels), *named]
    channels += filter(None, (sender_key(each).channel for each in everywhere))
    for channel in dict.fromkeys(channels):
        owns = [policy.channels[channel] for policy in policies if channel in policy.channels]
        there = named.get(channel, ChannelNames())
        owners = [*(policy.owners for policy in policies), *(own.owners for own in owns)]
        members = (each for policy in policies for each in (*policy.roles.values(), map(str, policy.people)))
        known = [*chain.from_iterable((*owners, *members)), *there.senders, *everywhere]
        keys = [key for own in owns for each in _list_chats(own) for key in each.by_sender]
        full = [each for each in (*known, *keys) if sender_key(each).channel == channel]
        named_there = (*(name for own in owns for name in own.accounts), *there.accounts)
        accounts = dict.fromkeys((None, *named_there, *filter(None, (sender_key(each).account for each in full))))
        # where an account is another service, a full id is another person on one that nothing names
        is_apart = any(rules_of(policy.ids, channel).by_account for policy in policies)
        apart = dict.fromkeys(map(to_sender, full if is_apart else ()))
        yield from (Caller(channel=channel, account="*", sender=each) for each in apart)
        direct = _list_senders([(own.direct,) for own in owns if own.direct], known)
        yield from (Caller(channel=channel, account=account, sender=each) for account in accounts for each in direct)
        for account in (*accounts, *(["*"] if apart else ())):
            keys = [key for own in owns for key in account_groups(own, account)]
            for group in _list_groups([*keys, *there.groups]):
                for session in (None, *_list_rooms(channel, group, keys if group in there.groups else ())):
                    place = Caller(channel=channel, account=account, group=group, session=session)
                    who = (resolve(policy, place) for policy in policies)
                    entries = [tuple(find_groups(each, chat)) for each in who for chat in each.chats]
                    found = _list_senders(entries, known) if account != "*" else apart
                    yield from (replace(place, sender=sender) for sender in found)


def _list_chats(own: ChannelPolicy) -> Iterator[GroupPolicy]:
    yield from (own.direct,) if own.direct else ()
    yield from chain(own.groups.values(), *(groups.values() for groups in own.accounts.values()))


def _list_groups(keys: Iterable[str]) -> Iterator[str]:
    """Yield the groups that are named, every other room of their spaces, every other space, and every other group."""
    spaces = [key.partition("/")[0] for key in keys if "/" in key]
    yield from dict.fromkeys((*keys, *(f"{space}/*" for space in spaces), *(["*/*"] if spaces else ()), "*"))


def _list_rooms(channel: str, group: str, keys: Iterable[str]) -> list[str]:
    """Return session keys that name another room of a group's space: its rules are looked for first."""
    rooms = (key.partition("/")[2] for key in keys if "/" in key and "/" in group)
    return [f"agent:main:{channel}:channel:{room}" for room in dict.fromkeys(rooms)]


def _list_senders(chats: Iterable[Sequence[GroupPolicy]], known: Iterable[str]) -> list[Sender]:
    """Return whom these entries name, as far as they are reached, who is known, and one for all others."""
    keys = list[str]()
    for entries in chats:
        for entry in entries:
            keys += entry.by_sender
            if entry.tools is not None or any(key.strip() == "*" for key in entry.by_sender):
                break  # it speaks about everybody
    keys, known = ([key for key in each if not is_role(key)] for each in (keys, known))  # members of roles are known
    bare = [Sender(username=key.strip()) for key in keys if sender_key(key)[0] is None]
    senders = [to_sender(key) for key in (*keys, *known) if key.strip() != "*"]
    return list(dict.fromkeys((*senders, *bare, ANYBODY)))


def list_people(policies: Sequence[PolicySettings], places: Iterable[Caller]) -> list[Caller]:
    """Return the places, nobody's among them, each with and without its owner: whom a program makes one, is one.

    Those who are not come first.
    """
    natural = (*places, Caller())
    flipped = [replace(each, owner=not is_owner(policy, each)) for policy in policies for each in natural]
    return sorted(
        dict.fromkeys((*natural, *flipped)), key=lambda each: any(is_owner(policy, each) for policy in policies)
    )


def join_halves(policies: Iterable[PolicySettings], speaker: Caller, place: Caller) -> Caller:
    """Return who speaks so, there. A group's session is not the main one, so that some sandboxes need one that is."""
    session = place.session
    modes = {own.sandbox if (own := policy.agents.get(speaker.agent or "")) else None for policy in policies}
    modes |= {policy.sandbox for policy in policies}
    if session is None and place.group is not None and "non-main" in modes and not speaker.parents:
        session = f"agent:{speaker.agent}:main"
    return replace(speaker, **{name: getattr(place, name) for name in _PLACED}, session=session)


_PLACED = ("channel", "account", "group", "sender", "owner")
