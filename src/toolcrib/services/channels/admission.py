"""Who may write to the assistant: owners, who is listed, who was paired; and in which session they are answered.

A direct message of a stranger gets a code where `dmPolicy` is `pairing`, and no other answer; a group is answered when
the configuration lists it, or `*`. Names decide nothing: only what the service itself says of a sender counts.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from toolcrib.config.channels import ChannelSettings
from toolcrib.config.settings import SettingsSource
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import Acquaintance, HeardMessage, MessageStore
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.session import Peer, to_peer_key, to_thread_key
from toolcrib.policy.resolve import is_listed, is_owner

_CODE_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # none that looks like another
_CODE_SECONDS, _MAX_WAITING = 3_600.0, 3  # of one channel: a stranger fills no more than this
_NAME_CHARS = 64


class Guest(NamedTuple):
    """Who wrote, where it is let in: the caller it is, None where it is not; then `code` is what it is told once."""

    caller: Caller | None
    code: str = ""


class Admission:
    """Decides about the messages of all channels."""

    def __init__(self, settings: SettingsSource, store: MessageStore, now: Callable[[], float] = time.time) -> None:
        self._settings, self._store, self._now = settings, store, now
        self._pairing = asyncio.Lock()  # a message still being judged takes back nobody's yes

    async def judge(self, channel: str, message: HeardMessage) -> Guest:
        """Return who a message is from, as far as it is answered."""
        own = self._find_settings(channel)
        caller = Caller(channel=channel, sender=message.sender, group=message.group or None)
        if own is None or not (message.sender.id or message.sender.e164):
            return Guest(None)
        if message.kind != "dm":
            is_answered = self._answers_group(own, message)
            return Guest(self._place(caller, message) if is_answered else None)
        if await self._knows(own, caller):
            return Guest(self._place(caller, message))
        return Guest(None, await self._make_code(channel, message) if own.dm_policy == "pairing" else "")

    async def takes_invitation(self, channel: str, message: HeardMessage) -> bool:
        """Tell whether a chat is joined: one that the configuration names, or of somebody who may write by themselves.

        Where strangers are paired, the owner finds whoever invites among them; nobody else is told the code.
        """
        own = self._find_settings(channel)
        if own is None or not message.sender.id:
            return False
        if message.chat.lower() in {key.strip().lower() for key in own.groups}:
            return True
        if await self._knows(own, Caller(channel=channel, sender=message.sender)):
            return True
        if own.dm_policy == "pairing":
            await self._make_code(channel, message)
        return False

    def _find_settings(self, channel: str) -> ChannelSettings | None:
        own = self._settings.config.channels.get(channel)
        return own if own is not None and own.enabled else None

    def _answers_group(self, own: ChannelSettings, message: HeardMessage) -> bool:
        groups = {key.strip().lower(): each for key, each in own.groups.items()}
        name = message.group.lower()
        found = groups.get(name) or groups.get(f"{name.partition('/')[0]}/*") or groups.get("*")
        if found is None:
            return False
        return message.is_for_us or bool(message.pressed) or found.require_mention is False

    async def _knows(self, own: ChannelSettings, caller: Caller) -> bool:
        """Tell whether somebody may write by themselves: an owner, or who is let in."""
        channel, sender = caller.channel or "", caller.sender or Sender()
        if is_owner(self._settings.policy, caller):
            return True
        if own.dm_policy == "disabled":
            return False
        if own.dm_policy == "open" or is_listed(sender, own.allow_from, self._settings.policy.roles):
            return True
        known = await self._store.acquaintances(channel) if own.dm_policy == "pairing" else ()
        return any(each.sender == sender.id and not each.code for each in known)

    def _place(self, caller: Caller, message: HeardMessage) -> Caller:
        """Return the caller in its session. Only owners share the main one: nobody else reads their conversation."""
        told = self._settings.config.session
        scope = told.dm_scope
        if scope == "main" and not is_owner(self._settings.policy, caller):
            scope = "per-channel-peer"
        sender, group = message.sender, message.group
        room = group.rpartition("/")[2] if message.kind == "channel" else group  # a space has no place in a key
        peer = Peer(
            channel=caller.channel or "",
            kind=message.kind if message.kind != "invitation" else "group",
            id=room if message.kind != "dm" else sender.id or sender.e164 or "",
        )
        key = to_peer_key("main", peer, scope=scope, links=told.identity_links)
        return replace(caller, session=to_thread_key(key, message.thread))

    # Pairing

    async def _make_code(self, channel: str, message: HeardMessage) -> str:
        """Return a code for a stranger that has none yet, "" for one who was told or let in, or when too many wait."""
        sender = message.sender
        if not sender.id:
            return ""
        async with self._pairing:
            known, now = await self._store.acquaintances(channel), self._now()
            waiting = [each for each in known if each.code and each.at + _CODE_SECONDS > now]
            is_told = any(each.sender == sender.id and (not each.code or each in waiting) for each in known)
            if is_told or len(waiting) >= _MAX_WAITING:
                return ""
            code = "".join(secrets.choice(_CODE_LETTERS) for _ in range(8))
            name = (sender.name or sender.username or "")[:_NAME_CHARS]
            await self._store.keep_acquaintance(Acquaintance(channel, sender.id, message.chat, name, code, now))
        return code

    async def list_people(self) -> list[dict[str, Any]]:
        """Return who was let in, and who waits with a code that still holds."""
        now = self._now()
        people = [each for each in await self._store.acquaintances() if not each.code or each.at + _CODE_SECONDS > now]
        return [
            {"channel": each.channel, "sender": each.sender, "name": each.name, "code": each.code, "at": each.at}
            for each in people
        ]

    async def let_in(self, code: str) -> Acquaintance:
        """Let in whoever was told this code; raise ToolError for one that nobody has."""
        wanted, now = code.strip().upper().replace("-", ""), self._now()
        async with self._pairing:
            for each in await self._store.acquaintances():
                if (
                    each.code
                    and secrets.compare_digest(each.code.encode(), wanted.encode())
                    and each.at + _CODE_SECONDS > now
                ):
                    known = each._replace(code="", at=now)
                    await self._store.keep_acquaintance(known)
                    return known
        what = f"nobody waits with the code {quote_short(code)}; `toolcrib channels pair` lists who does"
        raise ToolError(what, code="not_found")

    async def turn_away(self, channel: str, sender: str) -> None:
        """Let somebody in no more."""
        if not await self._store.forget_acquaintance(channel, sender):
            raise ToolError(f"{quote_short(sender)} was not let in on {channel}", code="not_found")
