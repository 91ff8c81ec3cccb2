"""Who may still ask: whoever a door of ours let in is asked about before each call, and ended with what they left.

A door puts its mark on the callers that it lets in (`Caller.door`), and says here of each of them whether it still
would. Whatever goes on for a caller is listed here, so that it ends when the answer is no. A caller without a mark is
the word of the program that names it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Any, NamedTuple

from toolcrib.define.approval import name_of
from toolcrib.define.caller import UNKNOWN_DOOR, Caller
from toolcrib.define.device import DEVICE_CHANNEL, hash_token
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import HOOK_CHANNEL

from .feature import Core, Feature

log = logging.getLogger("toolcrib")

CHANNEL_DOOR = "channel"  # whoever writes on one that connects
OWNER_DOOR = "owner"  # whoever showed the owner's own secret

ExplainRefusal = Callable[[Caller, str], Awaitable[str]]


class LiveWork(NamedTuple):
    """Something that goes on for a caller, and what ends it."""

    caller: Caller
    end: Callable[[], Awaitable[Any] | None]


def mount(core: Core) -> Feature:
    """Mount the question, with the doors that need nothing but the configuration."""

    async def explain_hook(caller: Caller, mark: str) -> str:
        hooks = core.config.hooks
        if not hooks.enabled or hooks.token is None:
            return "hooks are switched off"
        return "" if mark in ("", mark_secret(hooks.token)) else "the token of hooks is another one now"

    async def explain_owner(caller: Caller, mark: str) -> str:
        return ""  # who showed an old secret is ended when there is another

    service = Revocations(core.channel_kinds)
    service.add_door(HOOK_CHANNEL, explain_hook)
    service.add_door(OWNER_DOOR, explain_owner)
    return Feature(services=(service,), close=service.close)


class Revocations:
    """The doors of one crib, and what goes on for those that they let in. `kinds` are the channels that are ours."""

    def __init__(self, kinds: Iterable[str] = ()) -> None:
        self._kinds = frozenset(kinds)
        self._doors: dict[str, ExplainRefusal] = {}
        self._live: list[Callable[[], Iterable[LiveWork]]] = []
        self._reviews: set[asyncio.Task[None]] = set()

    def add_door(self, kind: str, explain: ExplainRefusal) -> None:
        """Ask `explain` about callers with a mark of this kind: why they are no longer admitted, "" where they are.

        Its second argument is the rest of the mark, which identifies the caller.
        """
        self._doors[kind] = explain

    def watch(self, list_live: Callable[[], Iterable[LiveWork]]) -> None:
        """Have what `list_live` returns ended when its caller may ask no more."""
        self._live.append(list_live)

    async def explain(self, caller: Caller) -> str:
        """Return why a caller may not ask for anything any more, "" where they may."""
        if not (mark := find_door(caller, self._kinds)):
            return ""
        kind, _, name = mark.partition(":")
        explain = self._doors.get(kind)
        return "nobody knows the door that let them in" if explain is None else await explain(caller, name)

    async def check(self, caller: Caller) -> None:
        """Raise ToolError where a caller may not ask for anything any more."""
        if why := await self.explain(caller):
            notice = "Refused: whoever asks is let in no more. Stop here."
            raise ToolError(f"whoever asks is let in no more: {why}", code="denied", for_model=notice)

    async def review(self) -> None:
        """End whatever goes on for a caller who may ask no more."""
        known = dict[Caller, str]()
        live = self.list_live()
        for each in live:
            if each.caller not in known:
                known[each.caller] = await self._explain_safely(each.caller)
        await _end_all(each for each in live if known[each.caller])

    async def end(self, marks: Iterable[str]) -> None:
        """End whatever goes on under these marks."""
        ended = frozenset(marks)
        await _end_all(each for each in self.list_live() if find_door(each.caller, self._kinds) in ended)

    def end_soon(self, marks: Iterable[str] = ()) -> None:
        """Have somebody's things ended without waiting for that: under these marks, else of all who may ask no more."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop nothing goes on
        task = loop.create_task(self.end(found) if (found := tuple(marks)) else self.review())
        self._reviews.add(task)
        task.add_done_callback(self._reviews.discard)

    async def close(self) -> None:
        """Look no more."""
        for task in self._reviews:
            task.cancel()
        await asyncio.gather(*self._reviews, return_exceptions=True)

    def list_live(self) -> list[LiveWork]:
        return [each for list_live in self._live for each in list_live() if each.caller.door]

    async def _explain_safely(self, caller: Caller) -> str:
        try:
            return await self.explain(caller)
        except ToolError as error:  # a store that is busy: the next look tells, and each call is asked about anyway
            log.warning("whether a caller is still admitted is not known: %s", error)
            return ""


async def _end_all(live: Iterable[LiveWork]) -> None:
    await asyncio.gather(*map(_end, live))


async def _end(each: LiveWork) -> None:
    """End one thing; what fails there keeps no other from its end."""
    log.info("something that goes on for %s is ended: they are let in no more", name_of(each.caller))
    try:
        if (ending := each.end()) is not None:
            await ending
    except Exception:
        log.exception("something could not be ended whose caller is let in no more")


def mark_secret(secret: str) -> str:
    """Return what tells one secret from another, and nobody what it is."""
    return hash_token(secret)[:16]


def find_door(caller: Caller, kinds: Container[str | None]) -> str:
    """Return the mark of a caller; of one that was kept before there were marks, the one that its channel leaves.

    No program speaks for devices and hooks by their name alone.
    """
    if caller.door not in ("", UNKNOWN_DOOR):
        return caller.door
    if caller.channel == DEVICE_CHANNEL:
        return f"{DEVICE_CHANNEL}:{(caller.sender and caller.sender.id) or ''}"
    if caller.channel == HOOK_CHANNEL:
        return HOOK_CHANNEL
    return CHANNEL_DOOR if caller.door and caller.channel in kinds else ""
