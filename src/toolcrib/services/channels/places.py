"""The places of one channel: how many chats are answered at once, by who writes in them.

An owner's chats wait for nobody else's. Of anybody else a few are answered at once, strangers together are one of them,
and a turn that waits for a person's answer gives its place back.
"""

from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MAX_WAITING = 64  # chats of one person that are answered or wait for it
_AT_ONCE = 64  # chats of all but the owner, and the owner's
_OF_ONE, _OF_STRANGERS = 8, 16

PlaceOwner = str | None
"""Who writes: a person, "" for any stranger, None for an owner."""


class ChannelPlaces:
    """Who is answered now."""

    def __init__(self) -> None:
        self._owners, self._others = Semaphore(_AT_ONCE), Semaphore(_AT_ONCE)
        self._own: dict[str, Semaphore] = {}  # by principal, while they have a chat here
        self._chats: dict[str, str] = {}  # of others: by chat, whose it is
        self._held: dict[str, list[Semaphore]] = {}  # by chat, what its turn holds

    def has_room(self, who: PlaceOwner) -> bool:
        """Tell whether one more chat of somebody's may wait."""
        return who is None or sum(each == who for each in self._chats.values()) < MAX_WAITING

    @asynccontextmanager
    async def wait(self, chat: str, who: PlaceOwner) -> AsyncIterator[None]:
        """Count a chat as one that is answered or waits for it."""
        if who is not None:
            self._chats[chat] = who
        try:
            yield
        finally:
            self._chats.pop(chat, None)
            if who is not None and who not in self._chats.values():
                self._own.pop(who, None)

    @asynccontextmanager
    async def take(self, chat: str, who: PlaceOwner) -> AsyncIterator[None]:
        """Hold a place for one turn, until it ends or waits for a person."""
        needed = [self._owners]
        if who is not None:
            own = self._own.setdefault(who, Semaphore(_OF_ONE if who else _OF_STRANGERS))
            needed = [own, self._others]  # in this order: who waits for their own holds nobody up
        held = self._held[chat] = list[Semaphore]()
        try:
            for each in needed:
                await each.acquire()
                held.append(each)
            yield
        finally:
            self.give_back(chat)
            del self._held[chat]

    def give_back(self, chat: str) -> None:
        """Let others have the place of a chat whose turn waits for somebody."""
        held = self._held.get(chat, [])
        while held:
            held.pop().release()
