"""Lint of rules that stand in for others and let through what those withheld; and what lists mean and shut out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

from toolcrib.define.names import fold_name
from toolcrib.define.verdict import Rule

from .chats import list_group_names
from .match import Inventory, matcher_for
from .resolve import model_family
from .settings import PROFILES, SANDBOX_DENY, GroupPolicy, PolicySettings, ScopeSettings, ToolsSettings

_Finding = tuple[Literal["dead", "dropped-deny", "dropped-profile", "widening"], str, str, str]
"""Kind, place, words and remedy."""


def match_entries(entries: Sequence[str], inventory: Inventory, *, permits: bool = False, within: str = "") -> set[str]:
    """Return the tools that entries mean."""
    matcher = matcher_for(tuple(entries), inventory, permits=permits, within=within)
    return set(matcher.select(frozenset(inventory.tools)))


def find_shut(rule: Rule, inventory: Inventory) -> set[str]:
    """Return the tools that a rule lets through for no arguments."""
    shut = match_entries(rule.deny, inventory)
    if rule.allow is not None:
        shut |= set(inventory.tools) - match_entries((*rule.allow, *rule.also), inventory, permits=True)
        for each in rule.of("allow", "also").when:
            shut -= match_entries([each.tool], inventory, permits=True) - match_entries(rule.deny, inventory)
    return shut


def list_chats(settings: PolicySettings) -> Iterator[Mapping[str, GroupPolicy]]:
    """Yield the groups of every channel, those of its accounts, and its direct messages."""
    for channel in settings.channels.values():
        if channel.direct is not None:
            yield {"direct messages": channel.direct}
        yield channel.groups
        yield from channel.accounts.values()
    if settings.by_sender:
        yield {"everywhere": GroupPolicy(origin="tools", by_sender=settings.by_sender)}


def list_some(names: Iterable[str], *, in_order: bool = False, in_full: bool = False) -> str:
    """Return the names as a sentence lists them."""
    listed = list(names) if in_order else sorted(names)
    limit = len(listed) if in_full else 5
    return ", ".join(listed[:limit]) + (f" and {len(listed) - limit} more" if len(listed) > limit else "")


def check_also_allow(settings: PolicySettings, inventory: Inventory) -> Iterator[_Finding]:
    """Yield the `alsoAllow` of everybody, an agent, a model or a chat that adds to no profile: it limits nothing."""
    agents = settings.agents.values()
    heirs = any(each.tools.profile and not each.tools.also_allow for each in agents)
    scopes: list[tuple[str, ScopeSettings, bool]] = [("tools", settings.tools, heirs)]
    scopes += [(f"{each.origin}.tools", each.tools, settings.tools.profile is not None) for each in agents]
    everywhere = [(origin, each) for origin, each, _ in scopes if isinstance(each, ToolsSettings)]
    models = [
        (f"{origin}.byProvider.{key}", key, entry)
        for origin, each in everywhere
        for key, entry in each.by_provider.items()
    ]
    for origin, key, entry in models:
        kin = (each for _, other, each in models if _family_of(other) == _family_of(key))
        scopes.append((origin, entry, any(each.profile for each in kin)))
    for chat in (chat for groups in list_chats(settings) for chat in groups.values()):
        scopes += [(f"{chat.origin}.tools", chat.tools, False)] if chat.tools else []
        scopes += [(f"{chat.origin}.toolsBySender.{key}", lists, False) for key, lists in chat.by_sender.items()]
    for origin, scope, has_profile in scopes:
        named = match_entries(scope.rule().also, inventory, permits=True)
        brings = any(inventory.tools[name].optional for name in named) and ".groups." not in origin
        if named and not (has_profile or scope.profile or scope.allow is not None or brings):
            what = "there is no profile that it adds to, so that it gives and limits nothing"
            yield "dead", f"{origin}.alsoAllow", what, "take it out"


def _family_of(provider: str) -> str:
    return model_family(fold_name(provider).partition("/")[0])


def check_replaced(settings: PolicySettings, inventory: Inventory) -> Iterator[_Finding]:
    """Rules that stand in for a broader one and let through what it withheld."""
    scopes: list[tuple[str, ToolsSettings]] = [("tools", settings.tools)]
    scopes += [(f"{agent.origin}.tools", agent.tools) for agent in settings.agents.values()]
    for origin, scope in scopes:
        yield from _check_replaced_providers(origin, scope, inventory)
        if origin != "tools":
            yield from _check_replaced_profile(origin, scope, settings.tools, inventory)
            if "plugin_only_allow" in scope.model_fields_set:
                what = "only tools.pluginOnlyAllow counts"
                yield ("dead", f"{origin}.pluginOnlyAllow", what, "take it out")
            yield from _check_replaced_sandbox(origin, scope, settings.tools, inventory)
    yield from _check_replaced_sandbox("tools", settings.tools, None, inventory)
    for groups in list_chats(settings):
        known = {id.strip().lower(): group for id, group in groups.items()}
        for id, group in known.items():
            names = (name for name in list_group_names(id, None, known) if name != id and name in known)
            yield from _check_replaced_groups(group, known.get(next(names, "")), inventory)
    for channel in settings.channels.values():
        for id, group in chain(*(groups.items() for groups in channel.accounts.values())):
            yield from _check_replaced_chat(group, channel.groups.get(id), inventory)


def _check_replaced_providers(origin: str, scope: ToolsSettings, inventory: Inventory) -> Iterator[_Finding]:
    by_fold = {fold_name(key): (key, entry) for key, entry in scope.by_provider.items()}
    for written, (key, entry) in by_fold.items():
        provider = written.partition("/")[0]
        broad = next((name for name in (provider, model_family(provider)) if name in by_fold and name != written), None)
        if broad is not None:
            broader, wider = by_fold[broad]
            place = f"{origin}.byProvider.{key}"
            yield from _compare(place, entry.rule(), f"{origin}.byProvider.{broader}", wider.rule(), inventory)
            if wider.profile is not None and entry.profile is None and PROFILES[wider.profile] is not None:
                what = f"replaces {origin}.byProvider.{broader} and drops its profile {wider.profile!r}"
                yield ("dropped-profile", place, what, "repeat the profile here if it is not meant")


def _check_replaced_profile(
    origin: str, own: ScopeSettings, top: ScopeSettings, inventory: Inventory
) -> Iterator[_Finding]:
    if own.profile is None or top.profile is None or own.profile == top.profile:
        return
    ours, theirs = PROFILES[own.profile], PROFILES[top.profile]
    if theirs is None:
        return
    gained = set(inventory.tools) if ours is None else match_entries(ours, inventory)
    if gained := gained - match_entries(theirs, inventory) - match_entries(own.rule().deny, inventory):
        what = f"profile {own.profile!r} replaces tools.profile {top.profile!r} and adds {list_some(gained)}"
        yield ("widening", f"{origin}.profile", what, "keep it if it is meant; deny the rest if it is not")


def _check_replaced_sandbox(
    origin: str, own: ToolsSettings, top: ToolsSettings | None, inventory: Inventory
) -> Iterator[_Finding]:
    lists = own.sandbox.tools
    if "deny" not in lists.model_fields_set:
        return
    above, place = SANDBOX_DENY, "the built-in sandbox list"
    if top is not None and "deny" in top.sandbox.tools.model_fields_set:
        above, place = top.sandbox.tools.rule().deny, "tools.sandbox.tools.deny"
    if lists.allow is None:
        return  # the built-in allow list still leaves them out
    own_rule = lists.rule()
    dropped = match_entries(above, inventory) - match_entries(own_rule.deny, inventory)
    dropped &= set(inventory.tools) - find_shut(own_rule, inventory)
    if dropped:
        yield _report_dropped(f"{origin}.sandbox.tools.deny", place, dropped)


def _check_replaced_groups(group: GroupPolicy, every: GroupPolicy | None, inventory: Inventory) -> Iterator[_Finding]:
    place, standard = _find_standard(group)
    if group.tools is not None and place.endswith("*"):
        yield from _compare(place, standard, f"{group.origin}.tools", group.tools.rule(), inventory)
    for key, lists in group.by_sender.items():
        if key.strip() != "*":
            yield from _compare_denies(f"{group.origin}.toolsBySender.{key}", lists.rule(), place, standard, inventory)
    yield from _check_replaced_chat(group, every, inventory)


def _check_replaced_chat(group: GroupPolicy, every: GroupPolicy | None, inventory: Inventory) -> Iterator[_Finding]:
    """Yield what a chat lets through that a broader entry, in whose place its own stands, withheld."""
    place, standard = _find_standard(group)
    if every is None or not place:
        return
    above, base = _find_standard(every)
    compare = _compare if above.endswith(".*.tools") else _compare_denies
    yield from compare(place, standard, above, base, inventory)
    for key, lists in every.by_sender.items():
        if key.strip() != "*":
            above, own = f"{every.origin}.toolsBySender.{key}", group.by_sender.get(key)
            origin = f"{group.origin}.toolsBySender.{key}" if own else place
            yield from _compare_denies(origin, own.rule() if own else standard, above, lists.rule(), inventory)


def _find_standard(group: GroupPolicy) -> tuple[str, Rule]:
    """Return where a chat says what holds for all whom it does not name, and that: "" and nothing where it does not."""
    key, star = next(((key, lists) for key, lists in group.by_sender.items() if key.strip() == "*"), ("", None))
    if star is not None:
        return f"{group.origin}.toolsBySender.{key.strip()}", star.rule()
    return (f"{group.origin}.tools", group.tools.rule()) if group.tools is not None else ("", Rule())


def _compare(origin: str, rule: Rule, broader: str, above: Rule, inventory: Inventory) -> Iterator[_Finding]:
    """Yield what `rule`, which replaces `above`, lets through that `above` withheld."""
    yield from _compare_denies(origin, rule, broader, above, inventory)
    withheld = find_shut(above, inventory) - match_entries(above.deny, inventory)
    if gained := withheld - find_shut(rule, inventory):
        what = f"replaces {broader} and adds {list_some(gained, in_full=True)}"
        yield ("widening", origin, what, "deny those here if they are not meant")


def _compare_denies(origin: str, rule: Rule, broader: str, above: Rule, inventory: Inventory) -> Iterator[_Finding]:
    shut = find_shut(rule, inventory)
    dropped = match_entries(above.deny, inventory) - shut
    lost = (each for each in above.of("deny").when if each not in rule.when)
    dropped |= {str(each) for each in lost if not match_entries([each.tool], inventory) <= shut}
    if dropped:
        yield _report_dropped(origin, f"{broader}.deny", dropped)


def _report_dropped(origin: str, broader: str, dropped: set[str]) -> _Finding:
    what = f"replaces {broader} and drops its deny of {list_some(dropped)}"
    return ("dropped-deny", origin, what, "repeat the deny here if it is not meant")
