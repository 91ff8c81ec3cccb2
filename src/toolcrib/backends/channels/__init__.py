"""The channels that come with toolcrib, each in a module of its name that is loaded when it is asked for."""

from collections.abc import Iterator, Mapping

from toolcrib.define.channel import ChannelKind

_NAMES = ("discord", "email", "irc", "matrix", "slack", "telegram", "webhook", "whatsapp", "xmpp")


class ShippedChannels(Mapping[str, ChannelKind]):
    """The kinds of channels by name: only who has one pays for it."""

    def __getitem__(self, name: str) -> ChannelKind:
        match name:
            case "discord":
                from .discord import DISCORD as kind  # noqa: PLC0415
            case "email":
                from .email import EMAIL as kind  # noqa: PLC0415
            case "irc":
                from .irc import IRC as kind  # noqa: PLC0415
            case "matrix":
                from .matrix import MATRIX as kind  # noqa: PLC0415
            case "slack":
                from .slack import SLACK as kind  # noqa: PLC0415
            case "telegram":
                from .telegram import TELEGRAM as kind  # noqa: PLC0415
            case "webhook":
                from .webhook import WEBHOOK as kind  # noqa: PLC0415
            case "whatsapp":
                from .whatsapp import WHATSAPP as kind  # noqa: PLC0415
            case "xmpp":
                from .xmpp import XMPP as kind  # noqa: PLC0415
            case _:
                raise KeyError(name)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)
