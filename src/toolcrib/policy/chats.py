"""The layers of chats: what a group, or direct messages, say about who speaks there, by sender, for all, by `*`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from toolcrib.define.caller import Sender
from toolcrib.define.names import fold_name
from toolcrib.define.verdict import Layer, LayerName, Rule

from .resolve import (
    IDENTITIES,
    NO_ROLES,
    SENDER_TYPES,
    GroupChat,
    ResolvedCaller,
    Roles,
    SenderType,
    is_role,
    sender_key,
    sender_value,
)
from .settings import PROFILES, ChannelPolicy, GroupPolicy

_SILENT = Rule()

# A forum's topic: Telegram's chat number with the topic's number behind it.
TOPIC = re.compile(r"-?\d+:(topic:)?\d+")


def chat_layers(who: ResolvedCaller) -> Iterator[Layer]:
    """Yield what the caller's own chat says and, each an AND, what the chats of its parents say."""
    for chat in who.chats:
        yield from _first_group_layers(tuple(find_groups(who, chat)), who)
    for channel in who.direct_channels:
        yield from _direct_layers(who, channel)


def _direct_layers(who: ResolvedCaller, channel: str) -> Iterator[Layer]:
    """Yield what holds in a channel's direct messages; a guest whom nothing there is meant for has but `messaging`."""
    policy = who.settings.channels.get(channel)
    direct = policy.direct if policy else None
    if direct is not None:
        yield from _first_group_layers((direct,), who, name="direct")
    is_meant = direct and _is_provided_for(direct, who.caller.sender, who.settings.roles)
    if who.settings.bounds_guests and not who.is_owner and not is_meant:
        yield Layer("direct", "default", Rule(allow=PROFILES["messaging"]), f"messaging, {channel or '<channel>'}")


def _is_provided_for(direct: GroupPolicy, sender: Sender | None, roles: Roles) -> bool:
    """Tell whether a rule names the sender, or one for all says what they may have, not only what they may not."""
    found = find_sender(direct.by_sender, sender, roles, wearable=False)
    if any(sender_key(key)[0] != "*" for key, _, _ in found):
        return True
    lists = found[0][1] if found else direct.tools
    return lists is not None and lists.rule().allow is not None


def _first_group_layers(
    groups: Sequence[GroupPolicy], who: ResolvedCaller, *, wearable: bool = True, name: LayerName = "group"
) -> Iterator[Layer]:
    """Yield what the first group that speaks about the sender says.

    A rule found only by a name that anyone can take is joined by what applies without that name.
    """
    for group in groups:
        found = find_sender(group.by_sender, who.caller.sender, who.settings.roles, wearable=wearable)
        for key, lists, by_wearable in found:
            note = f"found by the name {by_wearable!r}, which anyone can take" if by_wearable else ""
            own: LayerName = "role" if is_role(key) else name
            yield from _rule_layers(own, f"{group.origin}.toolsBySender.{key}", lists.rule(), note)
        if any(by_wearable for _, _, by_wearable in found):
            yield from _first_group_layers(groups, who, wearable=False, name=name)
        if not found and group.tools is not None:
            yield from _rule_layers(name, f"{group.origin}.tools", group.tools.rule(), "")
        if found or group.tools is not None:
            return


Value = TypeVar("Value")


def find_sender(
    rules: Mapping[str, Value], sender: Sender | None, roles: Roles = NO_ROLES, *, wearable: bool = True
) -> list[tuple[str, Value, str]]:
    """Return the key as written, its value, and the name that anyone can set, where it was found only through that.

    Tried in order: id, E.164, username, display name, roles, `*`. `wearable=False` leaves bare keys out for the names.
    Of several roles all count: nobody has more for being in one more.
    """
    keys: dict[tuple[SenderType | None, str], tuple[str, Value]] = {}
    for written, value in rules.items():
        keys.setdefault(sender_key(written), (written, value))
    if (found := _find_exact(keys, sender, wearable=wearable)) is not None:
        return [found]
    held = list[tuple[str, Value, str]]()
    for role, members in roles.items() if any(kind == "role" for kind, _ in keys) else ():
        listed = {sender_key(each): (each, None) for each in members}
        if (("role", role) in keys) and (member := _find_exact(listed, sender, wearable=wearable)) is not None:
            held.append((*keys["role", role], member[2]))
    rest = keys.get(("*", "*"))
    return held or ([] if rest is None else [(*rest, "")])


def _find_exact(
    keys: Mapping[tuple[SenderType | None, str], tuple[str, Value]], sender: Sender | None, *, wearable: bool
) -> tuple[str, Value, str] | None:
    """Return what is written about this very sender."""
    for kind in SENDER_TYPES:
        name = sender_value(sender, kind)
        if not name:
            continue
        typed = keys.get((kind, name))
        if typed is not None:
            return (*typed, "")
        bare = keys.get((None, name))
        if bare is not None and (kind in IDENTITIES or wearable):
            return (*bare, "" if kind in IDENTITIES else bare[0])
    return None


def _rule_layers(name: LayerName, origin: str, rule: Rule, note: str) -> Iterator[Layer]:
    yield Layer(name, origin, rule.of("allow", "also", "deny"), note)
    if (asked := rule.of("ask")) != _SILENT:
        yield Layer("ask", f"{origin}.ask", asked, note)


def find_groups(who: ResolvedCaller, chat: GroupChat) -> Iterator[GroupPolicy]:
    """Yield the group entries that may speak about a chat, the most specific first."""
    channel = who.settings.channels.get(chat.channel)
    if channel is None:
        return
    # an id is compared as it is but for case: folding it further would let one chat pass for another
    by_id = {key.strip().lower(): entry for key, entry in account_groups(channel, who.caller.account).items()}
    for candidate in dict.fromkeys(_group_names(chat.id, chat.room, by_id)):
        if candidate in by_id:
            yield by_id[candidate]


def account_groups(channel: ChannelPolicy, account: str | None) -> Mapping[str, GroupPolicy]:
    """Return the account's own groups where it has some: they replace the channel's."""
    by_fold = {fold_name(key): groups for key, groups in channel.accounts.items()}
    return by_fold.get(fold_name(account or ""), channel.groups)


def _group_names(group: str, other: str | None, known: Mapping[str, object]) -> Iterator[str]:
    """Yield the keys to try for a group id: its room and its space, itself, its chat without the topic, then `*`.

    A group inside a space (a channel of a Discord server) is written `space/channel`; `space/*` is the space's own.
    """
    if "/" in group:
        space, _, channel = group.partition("/")
        if not any(key.startswith(f"{space}/") for key in known):
            space = "*"
        rooms = [room for room in (other, channel) if room]
        yield from (f"{space}/{room}" for room in rooms)
        yield f"{space}/*"
    yield group
    if TOPIC.fullmatch(group):
        yield group.partition(":")[0]
    yield "*"
