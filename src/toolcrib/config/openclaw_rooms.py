"""OpenClaw's channels: groups under any of its names for them (guilds, teams, rooms), by account where there are some.

A room of a guild or team becomes the group `guild/room`, the guild itself `guild/*`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.define.names import fold

from .openclaw_rules import lists, set_keys
from .translated import Key, Notes

__all__ = ["channel"]

_SPACES, _ROOMS = ("guilds", "teams"), ("channels", "rooms")
_USED = ("requireMention", "tools", "toolsBySender")


def channel(entry: Any, path: Key, notes: Notes) -> Any:
    """Return a channel with all its groups in one place."""
    if not isinstance(entry, Mapping):
        return entry
    told = _with_groups(set_keys(entry), path, notes)
    accounts = told.get("accounts")
    if isinstance(accounts, Mapping):
        told["accounts"] = {id: _account(own, (*path, "accounts", id), notes) for id, own in set_keys(accounts).items()}
    if isinstance(told.get("allowFrom"), list):
        told["allowFrom"] = [_sender(sender) for sender in told["allowFrom"]]
    return told


def _sender(sender: Any) -> Any:
    return str(sender) if isinstance(sender, int) and not isinstance(sender, bool) else sender


def _account(account: Any, path: Key, notes: Notes) -> Any:
    if not isinstance(account, Mapping):
        return account
    told = _with_groups(set_keys(account), path, notes)
    notes.ignored += [(*path, key) for key in told if key != "groups"]
    return {key: told[key] for key in ("groups",) if key in told}


def _with_groups(told: dict[str, Any], path: Key, notes: Notes) -> dict[str, Any]:
    """Return the channel or account with guilds, teams and rooms among its groups."""
    groups = told.pop("groups", {})
    if not isinstance(groups, Mapping):
        return {**told, "groups": groups}
    gathered = {id: _group(group, (*path, "groups", id), notes) for id, group in set_keys(groups).items()}
    places = {fold(id): (*path, "groups", id) for id in gathered}
    for id, theirs, group in _rooms(told, path, notes):
        first = places.setdefault(fold(id), theirs)
        if first != theirs:
            raise notes.refusal(theirs, f"is the same group as {first[-1]!r}; merge the two")
        gathered[id] = _group(group, theirs, notes)
        notes.moved[*path, "groups", id] = theirs
    rest = {key: value for key, value in told.items() if key not in (*_SPACES, *_ROOMS)}
    return {**rest, "groups": gathered} if gathered else rest


_Found = Iterator[tuple[str, Key, Any]]


def _rooms(told: Mapping[str, Any], path: Key, notes: Notes) -> _Found:
    """Yield every group that does not stand under `groups`: its id here, its place there, what is written."""
    for key in (*_SPACES, *_ROOMS):
        found = told.get(key, {})
        if not isinstance(found, Mapping):
            raise notes.refusal((*path, key), "should be a mapping")
        for id, entry in set_keys(found).items():
            if key in _ROOMS:
                yield id.removeprefix("#") or id, (*path, key, id), entry
            else:
                yield from _space(id, entry, (*path, key, id), notes)


def _space(id: str, entry: Any, path: Key, notes: Notes) -> _Found:
    rooms = entry.get("channels") if isinstance(entry, Mapping) else None
    if not isinstance(rooms, Mapping | None):
        raise notes.refusal((*path, "channels"), "should be a mapping")
    slug = entry.get("slug") if isinstance(entry, Mapping) else None
    for name in dict.fromkeys([id, slug] if isinstance(slug, str) and slug.strip() else [id]):
        for room, own in set_keys(rooms or {}).items():
            yield f"{name}/{room.removeprefix('#')}", (*path, "channels", room), own
        yield f"{name}/*", path, entry


def _group(group: Any, path: Key, notes: Notes) -> Any:
    if not isinstance(group, Mapping):
        return group
    told = {key: value for key, value in set_keys(group).items() if key in _USED}
    inner = ("channels", "slug") if path[-2] in _SPACES else ()
    notes.ignored += [(*path, key) for key in set_keys(group) if key not in (*_USED, *inner)]
    if "tools" in told:
        told["tools"] = lists(told["tools"], (*path, "tools"), notes)
    if isinstance(told.get("toolsBySender"), Mapping):
        told["toolsBySender"] = _senders(told["toolsBySender"], (*path, "toolsBySender"), notes)
    return told


def _senders(rules: Mapping[str, Any], path: Key, notes: Notes) -> dict[str, Any]:
    """Return the rules by sender; of two spellings of one sender the first counts there, and a blank one is nobody."""
    told: dict[str, Any] = {}
    first: dict[str, str] = {}
    for key, rule in set_keys(rules).items():
        folded = key.strip().removeprefix("@").lower()
        counts = first.setdefault(folded, key)
        if not folded:
            notes.ignored.append((*path, key))
        elif counts != key:
            notes.eclipsed.append(((*path, key), (*path, counts)))
        else:
            told[key] = lists(rule, (*path, key), notes)
    return told
