"""The channels that come with toolcrib, each in a module of its name that is loaded when it is asked for."""

from collections.abc import Iterator, Mapping

from toolcrib.define.channel import ChannelKind

_NAMES = ("discord", "email", "irc", "matrix", "slack", "telegram", "webhook", "whatsapp", "xmpp")


class ShippedChannels(Mapping[str, ChannelKind]):
    """The kinds of channels by name, and `more` of plugins: only who has one pays for it. No plugin takes our names."""

    def __init__(self, more: Mapping[str, ChannelKind] | None = None) -> None:
        self._more = {name: kind for name, kind in (more or {}).items() if name not in _NAMES}

    def __getitem__(self, name: str) -> ChannelKind:
        match name:
            case "discord":
                from .discord import DISCORD  # noqa: PLC0415

                return DISCORD
            case "email":
                from .email import EMAIL  # noqa: PLC0415

                return EMAIL
            case "irc":
                from .irc import IRC  # noqa: PLC0415

                return IRC
            case "matrix":
                from .matrix import MATRIX  # noqa: PLC0415

                return MATRIX
            case "slack":
                from .slack import SLACK  # noqa: PLC0415

                return SLACK
            case "telegram":
                from .telegram import TELEGRAM  # noqa: PLC0415

                return TELEGRAM
            case "webhook":
                from .webhook import WEBHOOK  # noqa: PLC0415

                return WEBHOOK
            case "whatsapp":
                from .whatsapp import WHATSAPP  # noqa: PLC0415

                return WHATSAPP
            case "xmpp":
                from .xmpp import XMPP  # noqa: PLC0415

                return XMPP
        return self._more[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*_NAMES, *self._more))

    def __len__(self) -> int:
        return len(_NAMES) + len(self._more)
