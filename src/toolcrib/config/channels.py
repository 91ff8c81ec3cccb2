"""How each channel is reached: the keys of `channels.<name>` besides those about who may write there."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from toolcrib.policy.settings import Section

from .values import Bool, Password, Port, Token, Url, Words

# Which of them a channel of ours takes; one of a plugin's may take any.
CONNECTION_KEYS: Mapping[str, tuple[str, ...]] = {
    "irc": ("host", "port", "tls", "nick", "password", "join"),
    "matrix": ("homeserver", "userId", "accessToken", "password"),
    "telegram": ("botToken", "apiBase"),
}


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
    access_token: Token | None = Field(default=None, alias="accessToken", repr=False)
    bot_token: Token | None = Field(default=None, alias="botToken", repr=False)
    api_base: Url | None = Field(default=None, alias="apiBase")

    @property
    def connects(self) -> bool:
        """Whether it says where the channel is: one that does not is only about who may do what."""
        return any(getattr(self, name) is not None for name in ("host", "homeserver", "bot_token"))


def check_connection(channels: Any) -> Any:
    """Refuse a key that a channel does not have, so that nobody waits for what it would do."""
    known = {field.alias or name for name, field in ConnectionSettings.model_fields.items()}
    for name, value in channels.items() if isinstance(channels, Mapping) else ():
        own = CONNECTION_KEYS.get(name.strip().lower()) if isinstance(name, str) else None
        if own is not None and isinstance(value, Mapping):
            for key in known.intersection(value).difference(own):
                raise ValueError(f"{name}.{key}: {name} has no such key; it takes {', '.join(own)}")
    return channels
