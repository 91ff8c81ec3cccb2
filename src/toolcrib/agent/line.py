"""The calls of one reply, in line: checked one after another, run side by side, exclusive bodies alone.

Also the keys that tell all calls apart.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from itertools import count
from secrets import token_hex

from toolcrib.define.context import CallState
from toolcrib.define.event import ToolFinished
from toolcrib.define.later import PendingCall
from toolcrib.define.message import Call, Message
from toolcrib.define.result import Result

_CHECKED_AT_ONCE = 16  # calls that are looked at before others get a turn


class Latch:
    """Something to wait for. Most are open before anybody waits, so the means to wait are made late."""

    __slots__ = ("_event", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._event: asyncio.Event | None = None

    def open(self) -> None:
        self.is_open = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        if self._event is None:
            self._event = asyncio.Event()
        if not self.is_open:
            await self._event.wait()


class CallSlot:
    """One call of a reply. Each slot waits only on earlier slots, so there is no deadlock."""

    __slots__ = ("barrier", "before", "checked", "done", "pauses")

    def __init__(self, before: "CallSlot | None" = None, *, pauses: bool = False) -> None:
        self.before, self.pauses = before, pauses
        self.checked, self.done = Latch(), Latch()
        self.barrier: CallSlot | None = None  # whom the next one waits for: the last exclusive body up to here

    async def wait_checked(self) -> None:
        """Wait until every call before this one is through its checks."""
        if self.before is not None:
            if not self.before.checked.is_open:
                await self.before.checked.wait()
            self.barrier = self.before.barrier
        if self.pauses:
            await asyncio.sleep(0)

    async def wait_exclusive(self, *, exclusive: bool) -> None:
        """Let the next one be checked; wait for the bodies that this one must not overlap with."""
        barrier, other = self.barrier, self.before
        if exclusive:
            self.barrier = self
        self.checked.open()
        while exclusive and other is not None and other is not barrier:
            await other.done.wait()
            other = other.before
        if barrier is not None:  # it waited for all before it
            await barrier.done.wait()

    def release(self) -> None:
        """Hold up no later slot any more."""
        self.checked.open()
        self.done.open()


def call_slots(calls: int) -> list[CallSlot]:
    """Return a slot for each of so many calls, in the order in which the model wrote them."""
    slots: list[CallSlot] = []
    for number in range(calls):
        # a thousand calls in one reply must not keep everybody else waiting until the last is through its checks
        slots.append(CallSlot(slots[-1] if slots else None, pauses=number % _CHECKED_AT_ONCE == _CHECKED_AT_ONCE - 1))
    return slots


def with_unique_ids(calls: Iterable[Call], new_key: Callable[[], str]) -> tuple[Call, ...]:
    """Return the calls of a reply, each with a key, and with an id that no other of them has: all get their answer."""
    ids: set[str] = set()
    keys: set[str] = set()
    apart: list[Call] = []
    for call in calls:
        id, key, number = call.id, call.key, 1
        while id in ids:
            number += 1
            id = f"{call.id}-{number}"
        if not key or key in keys:
            key = new_key()
        ids.add(id)
        keys.add(key)
        is_same = id is call.id and key is call.key
        apart.append(call if is_same else Call(id, call.name, call.args, key, call.signature, call.parse_error))
    return tuple(apart)


_numbers = count(1)


def _prefix() -> str:
    return f"call_{token_hex(12)}_"


_process = _prefix()


def new_key() -> str:
    """Return a key that no call had before."""
    return f"{_process}{next(_numbers)}"


def _new_process() -> None:
    global _process
    _process = _prefix()  # a forked child must not go on with its parent's keys


os.register_at_fork(after_in_child=_new_process)


class CallInTurn:
    """A call of the last reply: how far it is, what it has shown so far, and its answer, once there is one.

    `is_shown` while watchers know that it was taken up and not what came of it; `is_done` when its body is through.
    """

    __slots__ = ("answer", "call", "course", "is_done", "is_shown", "outcome", "partial")

    def __init__(self, call: Call, pending: PendingCall | None = None) -> None:
        self.call, self.partial = call, Result()
        if pending is None:
            self.course = CallState()
            self.course.in_turn = True
        else:
            self.call, self.course = pending.call, CallState.of_pending(pending.handle, pending.outside, in_turn=True)
        self.is_shown = self.is_done = False
        self.answer: Message | None = None
        self.outcome: ToolFinished | None = None
