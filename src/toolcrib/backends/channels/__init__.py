"""The channels that come with toolcrib: each is a module of its name with a `KIND`, loaded when it is asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from toolcrib.define.channel import ChannelKind

_NAMES = ("email", "irc", "matrix", "telegram", "xmpp")


class ShippedChannels(Mapping[str, ChannelKind]):
    """The kinds of channels by name: only who has one pays for it."""

    def __getitem__(self, name: str) -> ChannelKind:
        if name not in _NAMES:
            raise KeyError(name)
        kind: ChannelKind = import_module(f".{name}", __name__).KIND
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)
