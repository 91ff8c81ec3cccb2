"""The layers of chats: what a group, or direct messages, say about who speaks there, by sender, for all, by `*`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.names import fold_name
from toolcrib.define.tool import PROGRAM
from toolcrib.define.verdict import Layer, LayerName, Rule
from toolcrib.lazy import regex, replace

from .identities import (
    NAMES,
    SenderKey,
    SenderType,
    fold_username,
    identities_of,
    is_role,
    name_value,
    rules_of,
    sender_key,
)
from .resolve import GroupChat, ResolvedCaller, holds
from .settings import PROFILES, ChannelPolicy, GroupPolicy, PolicySettings, ScopeSettings

_SILENT = Rule()

# A forum's topic: Telegram's chat number with the topic's number behind it.
TOPIC = regex(r"-?\d+:(topic:)?\d+")


def chat_layers(who: ResolvedCaller) -> Iterator[Layer]:
    """Yield what the caller's own chat says, each an AND what the chats of its parents say, and what bounds guests.

    Before that comes what bounds a sender wherever they write, but for the owner who wrote nothing and is at hand.
    """
    for name, _, groups in _list_chats(who):
        yield from _first_group_layers(groups, who, name=name)
    is_here = who.is_owner and who.caller.channel is None and who.caller.sender is None
    if who.settings.by_sender and not is_here:
        everywhere = GroupPolicy(origin="tools", by_sender=who.settings.by_sender)
        yield from _first_group_layers((everywhere,), who, name="global")
    if not who.is_owner and who.settings.bounds_guests != "nowhere":
        yield from _guest_layers(who)


def _list_chats(who: ResolvedCaller) -> Iterator[tuple[LayerName, str, tuple[GroupPolicy, ...]]]:
    """Yield where the caller speaks, as the layer and the path of each, with the entries that may speak about it."""
    for chat in who.chats:
        yield "group", f"channels.{chat.channel}.groups.{chat.id or '*'}", tuple(find_groups(who, chat))
    for channel in who.direct_channels:
        policy = who.settings.channels.get(channel)
        direct = policy.direct if policy else None
        yield "direct", f"channels.{channel or '<channel>'}.direct", (direct,) if direct else ()


def _guest_layers(who: ResolvedCaller) -> Iterator[Layer]:
    """Yield what bounds others than the owner, unless every chat of theirs says what they may have.

    It is theirs by their own word: a session key that names one lifts nothing, and parents have spoken already.
    """
    settings = who.settings
    if settings.bounds_guests == "direct":
        for name, path, groups in _list_chats(who):
            if name == "direct" and not _gave_before(groups, who):
                channel = path.removeprefix("channels.").removesuffix(".direct")
                yield Layer("direct", "default", Rule(allow=PROFILES["messaging"]), f"messaging, {channel}")
        return
    alone = replace(who, parents=(), caller=replace(who.caller, parents=()))
    own_word = replace(alone, chat=None, caller=replace(alone.caller, session=None))
    chats = (*_list_chats(alone), *_list_chats(own_word))
    is_placed = session.to_channel(who.caller.channel or "") is not None
    lacking = [path for _, path, groups in chats if not _gives(groups, who)] if is_placed else [""]
    rule = settings.guests_rule
    if lacking and rule.allow is not None:
        word = settings.guests if isinstance(settings.guests, str) else ""
        yield Layer("guests", "tools.guests", rule, ", ".join((word, *filter(None, lacking[:1]))), spares=PROGRAM)


def _gives(groups: Sequence[GroupPolicy], who: ResolvedCaller) -> bool:
    """Tell whether the first entry that speaks about the sender says what they may have, and not by a mere name.

    Of several roles each has to: one more role never gives more.
    """
    for group in groups:
        found = find_sender(group.by_sender, who.settings, who.caller, wearable=False)
        if found:
            return all(lists.gives and _is_proven(sender_key(key), who) for key, lists, _ in found)
        if group.tools is not None:
            return group.tools.gives
    return False


def _is_proven(key: SenderKey, who: ResolvedCaller) -> bool:
    return key.kind not in NAMES and (key.kind != "role" or holds(who.settings, who.caller, key.value))


def _gave_before(groups: Sequence[GroupPolicy], who: ResolvedCaller) -> bool:
    """Tell whether the default of direct messages was lifted, for decisions from before that of all guests."""
    for direct in groups:
        found = find_sender(direct.by_sender, who.settings, who.caller, wearable=False)
        lists = found[0][1] if found else direct.tools
        return any(key.strip() != "*" for key, _, _ in found) or (lists is not None and lists.allow is not None)
    return False


def _first_group_layers(
    groups: Sequence[GroupPolicy], who: ResolvedCaller, *, wearable: bool = True, name: LayerName = "group"
) -> Iterator[Layer]:
    """Yield what the first group that speaks about the sender says.

    A rule found only by a name that anyone can take is joined by what applies without that name.
    """
    for group in groups:
        found = find_sender(group.by_sender, who.settings, who.caller, wearable=wearable)
        for key, lists, by_wearable in found:
            note = f"found by the name {by_wearable!r}, which anyone can take" if by_wearable else ""
            own: LayerName = "role" if is_role(key) else name
            yield from _rule_layers(own, f"{group.origin}.toolsBySender.{key}", lists, note)
        if any(by_wearable for _, _, by_wearable in found):
            yield from _first_group_layers(groups, who, wearable=False, name=name)
        if not found and group.tools is not None:
            yield from _rule_layers(name, f"{group.origin}.tools", group.tools, "")
        if found or group.tools is not None:
            return


Value = TypeVar("Value")


def find_sender(
    rules: Mapping[str, Value], settings: PolicySettings, caller: Caller, *, wearable: bool = True
) -> list[tuple[str, Value, str]]:
    """Return the key as written, its value, and the name that anyone can set, where it was found only through that.

    Tried in order: id, E.164, username, display name, roles, `*`. `wearable=False` leaves bare keys out for the names.
    Of several roles all count: one more role never gives more.
    """
    own = identities_of(caller, settings.ids)
    where, fold = own[0][:2] if own else ("", ""), rules_of(settings.ids, own[0].channel if own else "").fold
    keys: dict[tuple[SenderType | None, str], tuple[str, Value]] = {}
    for written, value in rules.items():
        key = sender_key(written)
        if not key.channel or (key.channel, key.account) == where:
            plain = key.value if key.kind else key.value.removeprefix("@")
            for each in (key.value, plain):
                keys.setdefault((key.kind, fold(each)), (written, value))
    for identity in own:
        exact = keys.get((identity.kind, identity.value)) or keys.get((None, identity.value))
        if exact is not None:
            return [(*exact, "")]
    if (worn := _find_name(rules, caller, wearable=wearable)) is not None:
        return [(worn[0], rules[worn[0]], worn[1])]
    held = list[tuple[str, Value, str]]()
    for role, members in settings.roles.items() if any(kind == "role" for kind, _ in keys) else ():
        if (entry := keys.get(("role", role))) is None:
            continue
        if holds(settings, caller, role):
            held.append((*entry, ""))
        elif (member := _find_name(members, caller, wearable=wearable)) is not None:
            held.append((*entry, member[1]))
    rest = keys.get(("*", "*"))
    return held or ([] if rest is None else [(*rest, "")])


def _find_name(keys: Iterable[str], caller: Caller, *, wearable: bool) -> tuple[str, str] | None:
    """Return the key that is a name of the sender, and the name where the key does not say that it is one."""
    for kind in NAMES if caller.sender else ():
        name = name_value(caller.sender, kind)
        for each in keys if name else ():
            key = sender_key(each)
            if key.kind == kind and key.value == name:
                return each, ""
        for each in keys if name and wearable else ():
            if sender_key(each).kind is None and fold_username(each) == name:
                return each, each
    return None


def _rule_layers(name: LayerName, origin: str, lists: ScopeSettings, note: str) -> Iterator[Layer]:
    rule = lists.rule()
    if lists.profile is not None:
        words = f"{lists.profile}, {note}" if note else lists.profile
        yield Layer(name, f"{origin}.profile", replace(rule.of("also"), allow=PROFILES[lists.profile]), words)
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
    for candidate in dict.fromkeys(list_group_names(chat.id, chat.room, by_id)):
        if candidate in by_id:
            yield by_id[candidate]


def account_groups(channel: ChannelPolicy, account: str | None) -> Mapping[str, GroupPolicy]:
    """Return the account's own groups where it has some: they replace the channel's."""
    by_fold = {fold_name(key): groups for key, groups in channel.accounts.items()}
    return by_fold.get(fold_name(account or ""), channel.groups)


def list_group_names(group: str, other: str | None, known: Mapping[str, object]) -> Iterator[str]:
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
