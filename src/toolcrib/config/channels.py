"""`channels`: how each is reached, who may write there, and what they may use."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from toolcrib.define.args import is_on
from toolcrib.define.caller import Caller
from toolcrib.define.channel import Abilities, ChannelKind
from toolcrib.define.names import fold_name
from toolcrib.define.session import to_channel
from toolcrib.policy.chats import list_group_names
from toolcrib.policy.resolve import is_among, is_owner
from toolcrib.policy.settings import PolicySettings, ScopeSettings, Section

from .values import Bool, OwnerName, Password, Port, SenderName, Url, Words, quote_value

# Which of them a channel of ours takes; one of a plugin's may take any.
CONNECTION_KEYS: Mapping[str, tuple[str, ...]] = {
    "discord": ("token", "apiBase"),
    "email": ("address", "imap", "smtp", "authServ"),
    "irc": ("host", "port", "tls", "nick", "password", "join"),
    "matrix": ("homeserver", "userId", "accessToken", "password"),
    "slack": ("botToken", "appToken", "apiBase"),
    "telegram": ("botToken", "apiBase"),
    "webhook": ("url", "secret"),
    "whatsapp": ("phoneNumberId", "accessToken", "verifyToken", "appSecret", "apiBase"),
    "xmpp": ("jid", "password", "host", "port", "tls", "nick", "join"),
}


class MailServerSettings(Section):
    host: Words
    port: Port | None = None
    user: Words | None = None
    password: Password | None = Field(default=None, repr=False)
    tls: Bool = True


class ConnectionSettings(Section):
    """Where a channel is, and as whom we are there."""

    host: Words | None = None
    port: Port | None = None
    tls: Bool | None = None
    nick: Words | None = None
    join: tuple[Words, ...] = ()
    password: Password | None = Field(default=None, repr=False)
    homeserver: Url | None = None
    user_id: Words | None = Field(default=None, alias="userId")
    access_token: Words | None = Field(default=None, alias="accessToken", repr=False)
    token: Words | None = Field(default=None, repr=False)
    app_token: Words | None = Field(default=None, alias="appToken", repr=False)
    bot_token: Words | None = Field(default=None, alias="botToken", repr=False)
    api_base: Url | None = Field(default=None, alias="apiBase")
    phone_number_id: Words | None = Field(default=None, alias="phoneNumberId")
    verify_token: Words | None = Field(default=None, alias="verifyToken", repr=False)
    app_secret: Words | None = Field(default=None, alias="appSecret", repr=False)
    url: Url | None = None
    secret: Words | None = Field(default=None, repr=False)
    options: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    jid: Words | None = None
    address: Words | None = None
    imap: MailServerSettings | None = None
    smtp: MailServerSettings | None = None
    auth_serv: Words | None = Field(default=None, alias="authServ")

    @property
    def connects(self) -> bool:
        """Whether it says where the channel is: one that does not is only about who may do what."""
        return not self.model_fields_set.isdisjoint(ConnectionSettings.model_fields)


def refuse_twins(same: Callable[[str], str], what: str) -> AfterValidator:
    """Refuse two keys that mean one thing: only one of them would count, and the other's denies would be lost."""

    def check(things: Mapping[str, Any]) -> Mapping[str, Any]:
        seen: dict[str, str] = {}
        for key in things:
            first = seen.setdefault(same(key), key)
            if first != key:
                raise ValueError(f"{key}: is the same {what} as {quote_value(first)}; merge the two")
        return things

    return AfterValidator(check)


class DirectSettings(Section):
    tools: ScopeSettings | None = None
    tools_by_sender: Mapping[SenderName, ScopeSettings] = Field(default_factory=dict, alias="toolsBySender")


class GroupSettings(DirectSettings):
    require_mention: Bool | None = Field(default=None, alias="requireMention")


_Groups = Annotated[Mapping[Words, GroupSettings], refuse_twins(fold_name, "group")]


class AccountSettings(Section):
    groups: _Groups = Field(default_factory=dict)


class ChannelSettings(ConnectionSettings):
    enabled: Bool = True
    actions: Mapping[Words, Bool] = Field(default_factory=dict)
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = Field(default="pairing", alias="dmPolicy")
    allow_from: tuple[SenderName, ...] = Field(default=(), alias="allowFrom")
    owners: tuple[OwnerName, ...] = ()
    direct: DirectSettings | None = None
    groups: _Groups = Field(default_factory=dict)
    accounts: Annotated[Mapping[Words, AccountSettings], refuse_twins(fold_name, "account")] = Field(
        default_factory=dict
    )


def list_abilities(
    channels: Mapping[str, ChannelSettings], kinds: Mapping[str, ChannelKind], *, broadcasts: bool
) -> dict[str, Abilities]:
    """Return what each channel that is reached can do, without what the configuration has switched off."""
    found = dict[str, Abilities]()
    for name, settings in channels.items():
        if settings.enabled and settings.connects and (kind := kinds.get(name)) is not None:
            off = {action for action in settings.actions if not is_on(settings.actions, action)}
            off |= set() if broadcasts else {"broadcast"}
            kept = tuple(action for action in kind.abilities.actions if action not in off)
            found[name] = replace(kind.abilities, actions=kept)
    return found


def check_connection(channels: Any) -> Any:
    """Refuse a key that a channel does not have, so that it is not silently ignored."""
    known = {field.alias or name for name, field in ConnectionSettings.model_fields.items()}
    for name, value in channels.items() if isinstance(channels, Mapping) else ():
        own = CONNECTION_KEYS.get(name.strip().lower()) if isinstance(name, str) else None
        if own is not None and isinstance(value, Mapping):
            for key in known.intersection(value).difference(own):
                raise ValueError(f"{name}.{key}: {name} has no such key; it takes {', '.join(own)}")
    return channels


def find_group(own: ChannelSettings, group: str) -> GroupSettings | None:
    """Return what the configuration says of a group, None where it is not answered."""
    groups = {key.strip().lower(): each for key, each in own.groups.items()}
    return next((groups[each] for each in list_group_names(group.lower(), None, groups) if each in groups), None)


def name_group(own: ChannelSettings, group: str, thread: str) -> str:
    """Return what rules know a group as: a topic of its own, where the configuration names it."""
    named, topics = {key.strip().lower() for key in own.groups}, (f"{group}:{thread}", f"{group}:topic:{thread}")
    return next((each for each in topics if thread and each.lower() in named), group)


def explain_silence(own: ChannelSettings, policy: PolicySettings, caller: Caller) -> str:
    """Return why a channel that connects here never answers a sender, "" where it may: pairing is not known here."""
    if not own.enabled:
        return "enabled is false"
    if caller.group is not None:
        return "" if find_group(own, caller.group) else "groups has neither this one nor *"
    if own.dm_policy not in ("disabled", "allowlist") or is_owner(policy, caller):
        return ""
    if own.dm_policy == "disabled":
        return "dmPolicy is disabled"
    is_listed = is_among(policy, caller, own.allow_from, at=to_channel(caller.channel or ""))
    return "" if is_listed else "dmPolicy is allowlist, and allowFrom has nobody like this"
