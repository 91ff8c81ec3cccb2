"""Delivers the outcome of a job, an event or a heartbeat: as a `message` of its author, by the rules in force then.

It goes to the chat that is named, else to the one that it was made in, else to where its session was last written from.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, NamedTuple

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.job import DeliveredPart
from toolcrib.define.result import Text
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.services.channels import Channels
from toolcrib.services.channels.actions import ChannelActions
from toolcrib.services.channels.webchat import WEBCHAT
from toolcrib.services.feature import TurnCore

_TEXT_CHARS = 8_000
NO_NEWS = ("", "NO_REPLY", "HEARTBEAT_OK")
_LAST = "last"  # as OpenClaw calls the chat that is not named


class ChatTarget(NamedTuple):
    """A chat."""

    channel: str
    chat: str
    thread: str = ""


class Delivery:
    """Says what came of something."""

    def __init__(self, core: TurnCore) -> None:
        self._core, self._channels, self._desk = core, core.find(Channels), core.find(ChannelActions)

    def find_place(self, caller: Caller) -> tuple[str, ...]:
        """Return the channel, chat and thread that a caller is in, nothing where it is in none."""
        return place[:3] if (place := self._channels.talk.find_place(caller)) else ()

    def find_target(self, wanted: DeliveredPart, place: tuple[str, ...], caller: Caller) -> ChatTarget | None:
        """Return the chat to deliver to, None for none; raise ToolError where it cannot be determined."""
        if wanted.deliver is False:
            return None
        last = self._channels.talk.places.get(caller.session or "")
        if last and self._core.is_owner(caller) and not self._core.is_owner(last.caller):
            last = None  # whoever was an owner when they wrote there
        here = ChatTarget(*(place or (last[:3] if last else ("", ""))))
        channel = here.channel if wanted.channel in (None, _LAST) else wanted.channel
        chat = (wanted.to or "").strip() or (here.chat if channel == here.channel else "")
        if chat and channel:
            return here if (channel, chat) == here[:2] else ChatTarget(channel, chat)
        if wanted.deliver or wanted.channel or wanted.to:
            missing = (
                f"on {channel} it goes to nobody: name `to`, the id of a chat there" if channel else "name `channel`"
            )
            raise ToolError(f"no chat is known to deliver it to: {missing}", code="bad_arguments")
        return None

    def check(self, caller: Caller, wanted: DeliveredPart, place: tuple[str, ...]) -> None:
        """Raise ToolError where the outcome could be delivered to nobody."""
        target = self.find_target(wanted, place, caller)
        if target is None:
            return
        named = self._core.config.channels.get(target.channel)
        if target.channel != WEBCHAT and (named is None or not named.enabled or not named.connects):
            known = [name for name, each in self._core.config.channels.items() if each.enabled and each.connects]
            there = f"; there are: {', '.join(known)}" if known else ""
            raise ToolError(f"no channel {target.channel[:64]!r} connects here{there}", code="not_found")
        if self._channels.is_open:
            self._channels.check_reach(caller, "send", self._channels.find_line(target.channel, caller), target.chat)
        verdict = self._core.belt_of(self._core.assign_model(caller, "")).verdicts["message"]
        if verdict.decision == "deny":
            what = "the outcome could not be delivered, because `message` is denied"
            raise ToolError(f"{what} ({verdict.reason}); write deliver: false to deliver nothing", code="denied")

    async def say(self, caller: Caller, wanted: DeliveredPart, place: tuple[str, ...], message: Text) -> str:
        """Send a text from a session of the caller's to a chat, by a call of `message`.

        Returns why it did not arrive; "" where it did, where there is no target, and for no news.
        """
        text = message.text.strip()
        try:
            target = self.find_target(wanted, place, caller)
            if target is None or text in NO_NEWS:
                return ""
            text = text if len(text) <= _TEXT_CHARS else f"{text[:_TEXT_CHARS]}…"
            sent = await self._send(caller, target, text, [message.source] if message.source else [])
        except ToolError as error:
            return str(error)
        return "" if sent.get("status") == "sent" else f"it waits for {target.channel}, which is not reached"

    async def _send(self, caller: Caller, target: ChatTarget, text: str, sources: Sequence[str]) -> Mapping[str, Any]:
        params = {"target": target.chat, "message": text} | ({"threadId": target.thread} if target.thread else {})
        send = partial(self._desk.perform, caller, "send", token_hex(12), target.channel, JsonObject(params))
        belt = self._core.belt_of(self._core.assign_model(caller, ""), sources=sources)
        result: Mapping[str, Any] = await belt.call_instead(
            "message", {"action": "send", "channel": target.channel, **params}, send
        )
        return result
