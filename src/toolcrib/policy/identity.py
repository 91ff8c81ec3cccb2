"""Who a sender is to a rule: typed keys, owners, and what anyone can set but nobody may widen with."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

from toolcrib.define.caller import Sender

__all__ = ["By", "find_sender", "is_listed", "sender_key"]

By = Literal["id", "e164", "username", "name", "*"]

_IDENTITY: tuple[By, ...] = ("id", "e164")
_WEARABLE: tuple[By, ...] = ("username", "name")
_TYPES: tuple[By, ...] = (*_IDENTITY, *_WEARABLE)

Found = TypeVar("Found")


def sender_key(text: str) -> tuple[By | None, str]:
    """Split a sender as written into its type (None for a bare one) and its folded value.

    Ids are compared as they are but for case: trimming or folding them would let one id pass for another.
    """
    plain = text.strip()
    for kind in _TYPES:
        prefix = f"{kind}:"
        if plain.lower().startswith(prefix):
            return kind, _value(plain[len(prefix) :])
    return ("*", "*") if plain == "*" else (None, _value(plain))


def find_sender(
    rules: Mapping[str, Found], sender: Sender | None, *, worn: bool = True
) -> tuple[str, Found, bool] | None:
    """Return the key as written, its value, and whether it was found only through what anyone can set.

    Tried in order: id, E.164, username, display name, `*`. `worn=False` leaves bare keys out for the middle two.
    """
    keys: dict[tuple[By | None, str], tuple[str, Found]] = {}
    for written, value in rules.items():
        keys.setdefault(sender_key(written), (written, value))
    for kind in _TYPES:
        value_of = _own(sender, kind)
        if not value_of:
            continue
        typed = keys.get((kind, value_of))
        if typed is not None:
            return (*typed, False)
        bare = keys.get((None, value_of))
        if bare is not None and (kind in _IDENTITY or worn):
            return (*bare, kind in _WEARABLE)
    rest = keys.get(("*", "*"))
    return None if rest is None else (*rest, False)


def is_listed(sender: Sender | None, listed: Iterable[str]) -> bool:
    """Tell whether the sender is in the list by id or E.164; names and usernames never count."""
    if sender is None:
        return False
    own = {kind: _own(sender, kind) for kind in _IDENTITY}
    for written in listed:
        kind, value = sender_key(written)
        kinds = _IDENTITY if kind is None else (kind,)
        if value and any(own.get(each) == value for each in kinds):
            return True
    return False


def _own(sender: Sender | None, kind: By) -> str:
    """Return what the sender is called by this kind, as keys are spelled; an identity is never trimmed into another."""
    text: str = getattr(sender, kind, None) or ""
    return text.lower() if kind in _IDENTITY else _value(text)


def _value(text: str) -> str:
    return text.strip().removeprefix("@").lower()
