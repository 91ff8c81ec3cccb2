"""Lint of who is meant in chats: what guests have, entries that give them nothing, and roles."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from toolcrib.define.caller import Caller
from toolcrib.define.names import nearest
from toolcrib.define.verdict import Rule

from .identities import NAMES, is_role, sender_key, to_sender
from .lint_replaced import match_entries
from .match import Inventory
from .resolve import is_owner
from .settings import GroupPolicy, PolicySettings, RuleSettings, ScopeSettings

RoleFlaw = Literal["empty", "shadowed", "worn", "unknown"]

_EXAMPLES = ("web_search", "image", "read", "tts")


class GuestFinding(NamedTuple):
    """What `check_guests` says: whether it needs a look at once, where it stands, what it means, what to do."""

    is_open: bool
    origin: str
    message: str
    remedy: str


def check_guests(settings: PolicySettings, inventory: Inventory) -> Iterator[GuestFinding]:
    """Yield a default that bounds no guest, and the entries of chats that lift it for no sender."""
    rule = settings.guests_rule
    if rule.allow is None or "*" in map(str.strip, rule.allow):
        what = "whoever is not the owner has every tool that no rule takes from them, wherever they come in"
        yield GuestFinding(True, "tools.guests", what, "take it out, and write in direct and groups who may have what")
        return
    had = match_entries(rule.allow, inventory, permits=True)
    for place, lists in _list_silent(settings):
        what = "gives nothing: whoever is not the owner has no more than tools.guests here"
        also = tuple(each for each in (lists.also_allow if lists else ()) if isinstance(each, str))
        lent = ("apply_patch",) if "exec" in match_entries(also, inventory, permits=True) - had else ()
        yield GuestFinding(False, place, what, advise_gift(place, rule, lists.also_allow if lists else (), had, lent))


def advise_gift(
    place: str, rule: Rule, written: Sequence[Any] = (), had: Collection[str] = (), lent: Sequence[str] = ()
) -> str:
    """Return what to write at a place of a chat to give its guests something besides the default, which they `had`.

    `lent` is what they have with it.
    """
    allowed = rule.allow or ()
    also = tuple(each for each in written if isinstance(each, str) and each not in allowed)
    example = next((each for each in _EXAMPLES if each not in (*had, *allowed)), _EXAMPLES[0])
    given = ", ".join((*also, *lent)) if also else f"{example} (or what you write in its place)"
    instead = " in the place of alsoAllow" if written else ""
    written_out = (f'"{each}"' if each.startswith("*") else each for each in (*allowed, *(also or (example,))))
    return f"to give {given} besides, write {place}.allow: [{', '.join(written_out)}]{instead}"  # as YAML reads it


def advise_identity(lists: ScopeSettings | None = None) -> str:
    """Return what to write for a name that anyone can take, and what it brings: a name alone lifts no guest's bound."""
    brings = "they have all that is allowed here, and " if lists is None or lists.gives else ""
    return f"use id: or e164:; {brings}others of that name are not meant any more"


def _list_silent(settings: PolicySettings) -> Iterator[tuple[str, RuleSettings | None]]:
    """Yield where an allow could stand that would be for guests, and the lists that stand there."""
    for name, channel in settings.channels.items():
        chats = [{"": channel.direct} if channel.direct else {}, channel.groups, *channel.accounts.values()]
        for id, chat, beside in ((id, chat, groups) for groups in chats for id, chat in groups.items()):
            if not (chat.tools.gives if chat.tools else chat.by_sender or _is_spoken_for(id, beside)):
                yield f"{chat.origin}.tools", chat.tools
            for key, lists in chat.by_sender.items():
                is_own = not is_role(key) and is_owner(settings, Caller(channel=name, sender=to_sender(key)))
                if not (lists.gives or is_own or sender_key(key).kind in NAMES):
                    yield f"{chat.origin}.toolsBySender.{key}", lists


def _is_spoken_for(id: str, groups: Mapping[str, GroupPolicy]) -> bool:
    """Tell whether a broader entry speaks for a chat whose own says nothing: it would not any more, if that did."""
    broader = (each for key, each in groups.items() if key != id and (key[-1:] == "*" or id.startswith(f"{key}:")))
    return any(each.tools or each.by_sender for each in broader)


def check_roles(
    roles: Mapping[str, Sequence[str]], used: Iterable[tuple[str, str]]
) -> Iterator[tuple[RoleFlaw, str, str, str]]:
    """Yield kind, place, words and remedy of roles that are empty, twins or unknown; `used` are keys and places."""
    seen: dict[frozenset[Any], str] = {}
    for name, members in roles.items():
        held = frozenset(map(sender_key, members))
        if not held:
            yield "empty", f"roles.{name}", f"role {name!r} holds nobody", "list its senders, or take it out"
        elif (first := seen.setdefault(held, name)) != name:
            what = f"role {name!r} holds the same senders as {first!r}"
            yield "shadowed", f"roles.{name}", what, "use one of the two where the rules of both are the same"
        for member in members:
            if sender_key(member).kind in ("username", "name"):
                what = f"{member!r} is a name that anyone can take, and all that the role may have with it"
                yield "worn", f"roles.{name}", what, advise_identity()
    for key, place in used:
        kind, role = sender_key(key)[:2]
        if kind == "role" and role not in roles:
            close = nearest(role, roles)
            remedy = f"did you mean 'role:{close[0]}'?" if close else "write it under roles, or take it out"
            yield "unknown", place, f"there is no role {role!r}, so that this is nobody", remedy
