"""Quotas: count the calls, tokens and money that callers take, refuse what is over, and tell what is left.

Hours and days are those of UTC, whatever the time zone of a process. What is counted together is spelled in a
`bucket`: the quota as written without its limits, and whom it is about.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

from toolcrib.config.services import QuotaSettings
from toolcrib.config.settings import SettingsSource
from toolcrib.define.caller import Caller
from toolcrib.define.names import fold_name
from toolcrib.define.quota import (
    MEASURES,
    OF_REPLIES,
    Measure,
    QuotaDecision,
    QuotaStore,
    QuotaUse,
    QuotaWindow,
    Reservation,
    has_room,
    window_around,
)
from toolcrib.define.session import to_agent, to_channel
from toolcrib.define.tool import Tool
from toolcrib.policy.chats import find_sender
from toolcrib.policy.identities import ANYWHERE
from toolcrib.policy.match import Groups, Inventory, matcher_for
from toolcrib.policy.resolve import is_among, person_of, resolve
from toolcrib.policy.settings import PolicySettings

from .feature import Core, Feature
from .members import Members

GroupsOf = Callable[[tuple[Tool, ...]], Groups]

_LOOK_EVERY = 0.1  # seconds, for what another process has used up or not


def mount(core: Core, groups_of: GroupsOf) -> Feature:
    """Mount the counts; nothing is looked at while there are no quotas."""
    return Feature(services=(Quotas(core.settings, core.stores.quotas, groups_of, members=core.stores.members),))


class Quotas:
    """The Meter of a crib: what is configured now, against what all processes have counted."""

    def __init__(
        self,
        settings: SettingsSource,
        store: QuotaStore,
        groups_of: GroupsOf,
        *,
        members: Members | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._store, self._now = settings, store, now
        self._members = members or Members()
        self._is_meant = lru_cache(maxsize=4096)(partial(_is_meant, groups_of))

    def admit(self, caller: Caller, tool: Tool, /, *, spends: bool) -> Awaitable[QuotaDecision] | None:
        if not self._settings.config.quotas or not (windows := self.windows_for(caller, tool)):
            return None
        return self._admit(windows, spends and any("calls" in each.most for each in windows))

    def charge(
        self,
        caller: Caller,
        taken: QuotaUse,
        /,
        *,
        is_priced: bool,
        begins: Reservation | None = None,
        ends: Reservation | None = None,
    ) -> Awaitable[QuotaDecision] | None:
        """Count what replies took, and say whether there may be another one: a quota on tools stops no replies."""
        if not self._settings.config.quotas:
            return None
        windows = [each for each in self.windows_for(caller) if not OF_REPLIES.isdisjoint(each.most)]
        return self._charge(windows, taken, is_priced, begins, ends) if windows else None

    def windows_for(self, caller: Caller, tool: Tool | None = None) -> list[QuotaWindow]:
        """Return the quotas that count for a caller now, with a tool those that are about it."""
        found, now = list[QuotaWindow](), self._now()
        for index, quota in enumerate(self._settings.config.quotas):
            entry = "" if quota.tool in (None, "*") else fold_name(quota.tool or "")
            if tool is not None and entry and not self._is_meant(entry, tool):
                continue
            since, until = window_around(quota.per, now)
            for subject in dict.fromkeys(_list_subjects(quota, self._settings.policy, caller)):
                who = fold_name(quota.who or "")
                found.append(
                    QuotaWindow(
                        origin=f"quotas[{index}]",
                        bucket=json.dumps([who, subject, entry, quota.per]),
                        since=since,
                        until=until,
                        who=quota.who or "",
                        is_shared=quota.shared,
                        tool=entry,
                        per=quota.per,
                        most={each: limit for each in MEASURES if (limit := getattr(quota, each)) is not None},
                    )
                )
        return found

    async def show(self, caller: Caller, tool: Tool) -> tuple[QuotaDecision, list[dict[str, Any]]]:
        """Return the decision on a call of this tool now, and for every quota about it what is used and left."""
        windows = self.windows_for(caller, tool) if self._settings.config.quotas else []
        if not windows:
            return QuotaDecision(), []
        held = await self._store.look(windows)
        return _find_word(windows, held), [_to_json(*each) for each in zip(windows, held, strict=True)]

    async def _admit(self, windows: Sequence[QuotaWindow], spends: bool) -> QuotaDecision:
        one = QuotaUse(calls=1)
        held = await (self._store.take(windows, one, checked=True) if spends else self._store.look(windows))
        word = _find_word(windows, held)
        return word if word.full or not spends else QuotaDecision(warnings=_list_warnings(windows, held, one))

    async def _charge(
        self,
        windows: Sequence[QuotaWindow],
        taken: QuotaUse,
        is_priced: bool,
        begins: Reservation | None,
        ends: Reservation | None,
    ) -> QuotaDecision:
        if taken != QuotaUse() or ends:
            held = await self._store.take(windows, taken, checked=False, ends=ends.id if ends else "")
        else:
            held = await self._store.look(windows)
        limiting = [(each, before + taken) for each, before in zip(windows, held, strict=True) if not each.tool]
        for each, _ in limiting:
            if not is_priced and "cost" in each.most:
                why = f"{each.origin}.cost is set, and the price of this model is not known"
                return QuotaDecision("cost", why, _spell(each, "cost"), each.origin)
        word = _find_word([each for each, _ in limiting], [after for _, after in limiting], OF_REPLIES)
        if not word.full and begins and limiting:
            word = await self._reserve([each for each, _ in limiting], begins)
        return word if word.full else QuotaDecision(warnings=_list_warnings(windows, held, taken))

    async def _reserve(self, windows: Sequence[QuotaWindow], begins: Reservation) -> QuotaDecision:
        """Wait until a reply may begin; return what is used up where it may not."""
        members = self._members
        while True:
            found = await self._store.reserve(windows, begins, members.name, members.is_alive)
            if has_room(windows, found):
                return QuotaDecision()
            if (word := _find_word(windows, [held for held, _ in found], OF_REPLIES)).full:
                return word
            await asyncio.sleep(_LOOK_EVERY)


def _list_subjects(quota: QuotaSettings, policy: PolicySettings, caller: Caller) -> Iterator[str]:
    """Yield whose share of a quota this caller takes: none when it is about others.

    What a subagent takes is taken by its parents, too. Whoever has no identity shares one with all who have none.
    """
    kind, _, named = (quota.who or "").partition(":")
    match kind.lower():
        case "":
            yield ""
        case "sender":
            yield _name_person(policy, caller)
        case "role":  # a name that anyone can take makes somebody a member, too: a quota only takes away
            if find_sender({quota.who or "": None}, policy, caller):
                yield "" if quota.shared else _name_person(policy, caller)
        case "agent":
            who = resolve(policy, caller)
            agents = [who.agent, *(parent.agent for parent in who.parents)]
            yield from agents if not named else [each for each in agents if each == to_agent(named.strip())][:1]
        case _:
            if is_among(policy, caller, [quota.who or ""], at=ANYWHERE):
                yield ""


def _name_person(policy: PolicySettings, caller: Caller) -> str:
    return person_of(policy, caller) or json.dumps([to_channel(caller.channel or "") or ""])


def _is_meant(groups_of: GroupsOf, entry: str, tool: Tool) -> bool:
    inventory = Inventory({tool.name: tool}, groups_of((tool,)))
    return matcher_for((entry,), inventory).entry_for(tool.name) is not None


def _find_word(
    windows: Sequence[QuotaWindow], held: Sequence[QuotaUse], of: frozenset[Measure] = frozenset(MEASURES)
) -> QuotaDecision:
    """Return the decision for the quota that is used up, of several for the one that lasts the longest."""
    full = [
        (each, measure, taken)
        for each, taken in zip(windows, held, strict=True)
        if (measure := each.find_full(taken, of))
    ]
    if not full:
        return QuotaDecision()
    each, measure, taken = max(full, key=lambda found: found[0].until)
    return QuotaDecision(measure, each.explain_full(measure, taken), _spell(each, measure), each.origin)


def _list_warnings(windows: Sequence[QuotaWindow], held: Sequence[QuotaUse], taken: QuotaUse) -> tuple[str, ...]:
    pairs = zip(windows, held, strict=True)
    return tuple(sentence for each, before in pairs for sentence in each.list_warnings(before, before + taken))


def _spell(window: QuotaWindow, measure: Measure) -> str:
    return f"{measure}: {window.most[measure]:g} per {window.per}"


def _to_json(window: QuotaWindow, held: QuotaUse) -> dict[str, Any]:
    used: Mapping[str, float] = asdict(held)
    row: dict[str, Any] = {"origin": window.origin, "who": window.who or None, "tool": window.tool or None}
    row |= {"shared": True} if window.is_shared else {}
    row |= {"per": window.per, "since": window.since, "freeAt": window.until}
    measures = {
        each: {"limit": limit, "used": used[each], "left": max(0, limit - used[each])}
        for each, limit in window.most.items()
    }
    return row | measures
