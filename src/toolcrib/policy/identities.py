"""Identities: how a sender is spelled in rules and lists, and which identities a caller has. Pure.

id:7   e164:+380441234567          bare: in a channel's own lists its senders, elsewhere see `PolicySettings.bare`
telegram:id:7   irc/work:id:ann    in full, with the account where another account is another service
username:bob   name:Bob   bob      names, which anyone can take
role:family   *
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import quote

from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import IdRules
from toolcrib.define.names import fold_name
from toolcrib.define.session import to_channel
from toolcrib.lazy import regex

SenderType = Literal["id", "e164", "username", "name", "role", "*"]
Rules = Mapping[str, IdRules]

IDENTITIES: tuple[SenderType, ...] = ("id", "e164")
NAMES: tuple[SenderType, ...] = ("username", "name")
SENDER_TYPES: tuple[SenderType, ...] = (*IDENTITIES, *NAMES)
ANYWHERE = "*"  # among the channels that a bare spelling counts for: each

_IN_FULL = regex(r"([a-z0-9][^:/\s]*)(?:/([^:\s]+))?:(id|e164):(.*)", re.IGNORECASE | re.DOTALL)

_LINK = regex(r"([a-z][a-z0-9-]*):(.+)", re.IGNORECASE | re.DOTALL)


class Identity(NamedTuple):
    """What a channel vouches for: one id or number there. Without a channel it is a program's word."""

    channel: str
    account: str
    kind: SenderType
    value: str

    def __str__(self) -> str:
        """Return the full spelling, which no other identity has."""
        where = "/".join(quote(part, safe="") for part in (self.channel, self.account) if part)
        return f"{where}:{self.kind}:{self.value}" if where else f"{self.kind}:{self.value}"


class SenderKey(NamedTuple):
    """A sender as written: its type (None for a bare word), its value, and where it is spelled in full."""

    kind: SenderType | None
    value: str
    channel: str = ""
    account: str = ""

    def means(self, own: Identity, rules: Rules, bare: Collection[str]) -> bool:
        """Tell whether this is that identity; one that is not in full counts for the `bare` channels."""
        if self.kind not in (None, own.kind):
            return False
        if self.channel:
            is_there = (self.channel, self.account) == (own.channel, own.account)
        else:
            is_there = ANYWHERE in bare or (own.channel in bare and not own.account)
        return is_there and rules_of(rules, own.channel).fold(self.value) == own.value

    def list_identities(self, rules: Rules, bare: str) -> tuple[Identity, ...]:
        """Return the identities that are meant: bare, that of callers without a channel and of the channel `bare`."""
        channels = (self.channel,) if self.channel else dict.fromkeys(("", bare))
        kinds = IDENTITIES if self.kind is None else (self.kind,) if self.kind in IDENTITIES else ()
        return tuple(
            Identity(channel, self.account, kind, rules_of(rules, channel).fold(self.value))
            for channel in channels
            for kind in kinds
        )


@lru_cache(maxsize=4096)
def sender_key(text: str) -> SenderKey:
    """Read a sender as written. Ids stay as they are: whether their case counts is for their channel to say."""
    plain = text.strip()
    if is_role(plain):
        return SenderKey("role", fold_name(plain.partition(":")[2]))
    for kind in SENDER_TYPES:
        prefix = f"{kind}:"
        if plain.lower().startswith(prefix):
            value = plain[len(prefix) :].strip()
            # an id may begin with the sign that stands before a name elsewhere, like @ann:example.org of Matrix
            return SenderKey(kind, value if kind in IDENTITIES else fold_username(value))
    if found := _IN_FULL.fullmatch(plain):
        channel, account, typed, value = found.groups(default="")
        is_id = typed.lower() == "id"
        return SenderKey("id" if is_id else "e164", value.strip(), to_channel(channel) or "", _to_account(account))
    return SenderKey("*", "*") if plain == "*" else SenderKey(None, plain)


def spell_link(text: str) -> str:
    """Return a sender as written in OpenClaw's links, `telegram:7`, in full: `telegram:id:7`."""
    found = _LINK.fullmatch(text.strip()) if sender_key(text).kind is None else None
    return f"{found[1]}:{'e164' if found[2].startswith('+') else 'id'}:{found[2]}" if found else text


def is_role(text: str) -> bool:
    """Tell whether a sender as written is a role."""
    return text.strip().lower().startswith("role:")


def to_sender(text: str) -> Sender:
    """Return who is meant by a sender as written; a bare one is an id, and a number as well where it looks like one."""
    kind, value, channel, _ = sender_key(text)
    if kind is None or kind == "*":
        plain = text.strip()
        return Sender(id=plain, e164=plain if plain.startswith("+") else None)
    return Sender(**{kind: value if channel else text.partition(":")[2].strip()})


def name_value(sender: Sender | None, kind: SenderType) -> str:
    """Return a name of the sender, as keys are spelled."""
    return fold_username(getattr(sender, kind, None) or "")


def identities_of(caller: Caller, rules: Rules) -> tuple[Identity, ...]:
    """Return what is known for certain of who a caller is, the id first; nothing where its channel cannot be read."""
    sender = caller.sender
    if sender is None or caller.channel == "":
        return ()
    channel = to_channel(caller.channel or "") or ""
    own = rules_of(rules, channel)
    account = _to_account(caller.account or "") if channel and own.by_account else ""
    known = ((kind, getattr(sender, kind)) for kind in IDENTITIES)
    return tuple(Identity(channel, account, kind, own.fold(value)) for kind, value in known if value)


def rules_of(rules: Rules, channel: str) -> IdRules:
    """Return how the ids of a channel are compared; without a rule, no two of them are the same."""
    return rules.get(channel) or rules.get(ANYWHERE) or IdRules()


def _to_account(text: str) -> str:
    """Return the name of an account, "" for the one that needs none."""
    name = fold_name(text)
    return "" if name == "default" else name


def fold_username(text: str) -> str:
    return text.strip().removeprefix("@").lower()
