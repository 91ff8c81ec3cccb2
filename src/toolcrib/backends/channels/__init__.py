"""The channels that come with toolcrib: each is a module of its name with a `KIND`, loaded when it is asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from toolcrib.define.channel import ChannelKind

_NAMES = ("discord", "email", "irc", "matrix", "slack", "telegram", "webhook", "whatsapp", "xmpp")


class ShippedChannels(Mapping[str, ChannelKind]):
    """The kinds of channels by name, and `more` of plugins: only who has one pays for it. No plugin takes our names."""

    def __init__(self, more: Mapping[str, ChannelKind] | None = None) -> None:
        self._more = {name: kind for name, kind in (more or {}).items() if name not in _NAMES}

    def __getitem__(self, name: str) -> ChannelKind:
        if name not in _NAMES:
            return self._more[name]
        kind: ChannelKind = import_module(f".{name}", __name__).KIND
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter((*_NAMES, *self._more))

    def __len__(self) -> int:
        return len(_NAMES) + len(self._more)
