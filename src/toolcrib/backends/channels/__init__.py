"""The channels that can be made, by name: each maker takes its settings and the way out, and loads what it needs."""

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.define.channel import Channel
from toolcrib.define.errors import ToolError
from toolcrib.define.web import WayOut


def _make_irc(settings: Any, way_out: WayOut) -> Channel:
    from .irc import IrcChannel  # noqa: PLC0415  only who has one pays

    if not settings.host or not settings.nick:
        raise ToolError("irc needs host and nick: channels: {irc: {host: .., nick: ..}}", code="bad_arguments")
    return IrcChannel(settings, way_out.dial_own)


def _make_telegram(settings: Any, way_out: WayOut) -> Channel:
    from .telegram import BASE, TelegramChannel  # noqa: PLC0415  likewise

    if not settings.bot_token:
        raise ToolError("telegram needs botToken, from @BotFather: channels: {telegram: {botToken: ${TELEGRAM_TOKEN}}}")
    base = settings.api_base or BASE
    return TelegramChannel(settings.bot_token, base, way_out.for_own(base))


def _make_matrix(settings: Any, way_out: WayOut) -> Channel:
    from .matrix import MatrixChannel  # noqa: PLC0415  likewise

    if not settings.homeserver or not (settings.access_token or (settings.user_id and settings.password)):
        raise ToolError("matrix needs homeserver, and accessToken or userId with password")
    return MatrixChannel(settings, way_out.for_own(settings.homeserver))


CHANNELS: Mapping[str, Callable[[Any, WayOut], Channel]] = {
    "irc": _make_irc,
    "matrix": _make_matrix,
    "telegram": _make_telegram,
}
