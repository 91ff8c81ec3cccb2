"""Who may write to the assistant: owners, who is listed, who was paired; and in which session they are answered.

A direct message of a stranger gets a code where `dmPolicy` is `pairing`, and no other answer; a group is answered when
the configuration lists it, or `*`. Names decide nothing: only what the service itself says of a sender counts.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from toolcrib.config.channels import ChannelSettings, explain_silence, find_group, name_group
from toolcrib.config.settings import SettingsSource
from toolcrib.define.caller import Caller
from toolcrib.define.channel import Acquaintance, HeardMessage, MessageStore
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.log import SessionStore
from toolcrib.define.session import Peer, escape_id, is_escaped, to_peer_key, to_thread_key
from toolcrib.policy.identities import rules_of, spell_link
from toolcrib.policy.resolve import is_among, is_owner, person_of
from toolcrib.services.revocation import CHANNEL_DOOR

_CODE_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # none that looks like another
_CODE_SECONDS = 3_600.0
_MAX_PROVEN, _MAX_UNPROVEN = 64, 8  # codes of a channel that wait, of ids that it vouches for and of others
_NAME_CHARS = 64
_ID_CHARS, _THREAD_CHARS = 150, 60  # of a key


class Guest(NamedTuple):
    """Who wrote: the caller, or None where it is not admitted; `code` is then the pairing code, sent once."""

    caller: Caller | None
    code: str = ""


class Admission:
    """Decides about the messages of all channels."""

    def __init__(
        self,
        settings: SettingsSource,
        store: MessageStore,
        sessions: SessionStore,
        find_refusal: Callable[[Caller], str] = lambda _: "",
    ) -> None:
        self._settings, self._store, self._sessions, self._now = settings, store, sessions, time.time
        self._find_refusal = find_refusal  # where an OpenClaw file does not let somebody in
        self._pairing = asyncio.Lock()  # a message still being judged takes back nobody's yes

    async def judge(self, channel: str, message: HeardMessage) -> Guest:
        """Return who a message is from, as far as it is answered."""
        own = self._find_settings(channel)
        group = name_group(own, message.group, message.thread) if own else message.group
        caller = Caller(channel=channel, sender=message.sender, group=group or None, door=CHANNEL_DOOR)
        if own is None or not (message.sender.id or message.sender.e164) or self._find_refusal(caller):
            return Guest(None)
        if message.kind != "dm":
            is_answered = self._answers_group(own, group, message)
            return Guest(await self._place(caller, message) if is_answered else None)
        if await self._knows(own, caller):
            return Guest(await self._place(caller, message))
        return Guest(None, await self._make_code(channel, message) if own.dm_policy == "pairing" else "")

    async def find_principal(self, channel: str, message: HeardMessage) -> str | None:
        """Return who writes as far as bounds go by it: None for an owner, "" for any stranger."""
        caller, policy = Caller(channel=channel, sender=message.sender), self._settings.policy
        own = self._find_settings(channel)
        if own is None or is_owner(policy, caller):
            return "" if own is None else None
        is_known = is_among(policy, caller, own.allow_from, at=channel) or await self._is_paired(caller)
        return person_of(policy, caller) if is_known else ""

    async def explain_refusal(self, caller: Caller, _: str) -> str:
        """Say why somebody who was let in would not be any more, "" while they would."""
        own = self._find_settings(caller.channel or "")
        if own is None or not own.connects:
            return "their channel is switched off"
        if refused := self._find_refusal(caller):
            return refused
        if caller.group is not None:
            return "" if find_group(own, caller.group) else "their group is answered no more"
        return "" if await self._knows(own, caller) else "they may not write there any more"

    async def takes_invitation(self, channel: str, message: HeardMessage) -> bool:
        """Tell whether a chat is joined: one that the configuration names, or of somebody who may write by themselves.

        Where strangers are paired, whoever invites is listed among them for the owner; nobody else gets the code.
        """
        settings = self._find_settings(channel)
        if settings is None or not message.sender.id:
            return False
        if message.chat.lower() in {key.strip().lower() for key in settings.groups}:
            return True
        if await self._knows(settings, Caller(channel=channel, sender=message.sender)):
            return True
        if settings.dm_policy == "pairing":
            await self._make_code(channel, message)
        return False

    def _find_settings(self, channel: str) -> ChannelSettings | None:
        own = self._settings.config.channels.get(channel)
        return own if own is not None and own.enabled else None

    def _answers_group(self, own: ChannelSettings, group: str, message: HeardMessage) -> bool:
        found = find_group(own, group)
        if found is None:
            return False
        return message.is_for_us or bool(message.pressed) or found.require_mention is False

    async def _knows(self, own: ChannelSettings, caller: Caller) -> bool:
        """Tell whether somebody may write by themselves: an owner, or who is let in."""
        channel, policy = caller.channel or "", self._settings.policy
        if own.dm_policy != "pairing":
            return not explain_silence(own, policy, caller)
        if is_owner(policy, caller) or is_among(policy, caller, own.allow_from, at=channel):
            return True
        return await self._is_paired(caller)

    async def _is_paired(self, caller: Caller) -> bool:
        known = await self._store.acquaintances(caller.channel or "")
        return caller.sender is not None and any(each.sender == caller.sender.id and not each.code for each in known)

    async def _place(self, caller: Caller, message: HeardMessage) -> Caller:
        """Return the caller in its session, with the messages that an older spelling of its key holds."""
        key, old = self._name_session(caller, message)
        with contextlib.suppress(ToolError):  # the old key is none, and nothing lies under it
            if old != key and await self._sessions.find(old) and await self._is_theirs(key, old):
                await self._sessions.rename(old, key)
        return replace(caller, session=key)

    async def _is_theirs(self, key: str, old: str) -> bool:
        """Tell whether what lies under an old key is whose messages lie under the new one: the first that is kept."""
        for channel, message in await self._store.list_heard():
            now, before = self._name_session(Caller(channel=channel, sender=message.sender), message)
            if before == old:
                return now == key
        return True

    def _name_session(self, caller: Caller, message: HeardMessage) -> tuple[str, str]:
        """Return the key of a message's session, and the one of before ids were escaped.

        Only owners share the main one: nobody else reads their conversation. An id alone is somebody only on the
        channel that ids mean which name none.
        """
        settings, policy, channel = self._settings.config.session, self._settings.policy, caller.channel or ""
        scope, links, rules = settings.dm_scope, settings.identity_links, rules_of(policy.ids, channel)
        if scope == "main" and not is_owner(policy, caller):
            scope = "per-channel-peer"
        listed = ((name, [spell_link(each) for each in ids]) for name, ids in links.items())
        name = next((name for name, ids in listed if is_among(policy, caller, ids)), "")
        group, kind = message.group, message.kind
        room = group.rpartition("/")[2] if kind == "channel" else group  # a space has no place in a key
        id = room if kind != "dm" else name or message.sender.id or message.sender.e164 or ""
        word = escape_id(id.lower() if name else rules.fold(id), _ID_CHARS)
        linked = {escape_id(each.lower(), _ID_CHARS) for each in links}
        is_taken = kind == "dm" and not name and word in linked
        if word and (is_taken or not (name or rules.folds_case or "=" in word)):  # else it is what another one had
            word = f"={ord(word[0]):02x}{word[1:]}"
        peer = Peer(channel=channel, kind="group" if kind == "invitation" else kind, id=word)
        is_clear = bool(name) or channel == policy.bare
        new = to_peer_key("main", peer, scope=scope if is_clear or scope != "per-peer" else "per-channel-peer")
        key = to_thread_key(new, escape_id(rules.fold(message.thread), _THREAD_CHARS))
        old = to_thread_key(to_peer_key("main", replace(peer, id=id), scope=scope), message.thread)
        first, *rest = to_thread_key(id, message.thread).lower().split(":thread:", 1)
        # one that is spelled as keys are today is somebody else's, whatever it was before
        is_todays = all(is_escaped(each) for each in (first, *rest)) and (
            rules.folds_case or "=" in first or first in linked
        )
        return key, key if is_taken or is_todays else old

    # Pairing

    async def _make_code(self, channel: str, message: HeardMessage) -> str:
        """Return a code for a stranger that has none yet, "" for one who has a code or was admitted."""
        sender = message.sender
        if not sender.id:
            return ""
        async with self._pairing:
            known, now = await self._store.acquaintances(channel), self._now()
            waiting = [each for each in known if each.code and each.at + _CODE_SECONDS > now]
            is_told = any(each.sender == sender.id and (not each.code or each in waiting) for each in known)
            if is_told:
                return ""
            mark = rules_of(self._settings.policy.ids, channel).unproven or "\n"  # no id begins with that
            is_unproven = sender.id.startswith(mark)
            alike = [each for each in waiting if each.sender.startswith(mark) == is_unproven]
            if len(alike) >= (_MAX_UNPROVEN if is_unproven else _MAX_PROVEN):  # the oldest gives way
                await self._store.forget_acquaintance(channel, min(alike, key=lambda each: each.at).sender)
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

    async def admit(self, code: str) -> Acquaintance:
        """Admit the sender who was given this code; raise ToolError for an unknown one."""
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

    async def revoke(self, channel: str, sender: str) -> None:
        """Let somebody in no more."""
        if not await self._store.forget_acquaintance(channel, sender):
            raise ToolError(f"{quote_short(sender)} was not let in on {channel}", code="not_found")
