"""What the tests of approvals stand on: a clock turned by hand, people, and a crib's approvals over any store."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from tests.memory_stores import MemoryApprovals
from toolcrib.define.approval import ApprovalStore, Question
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.message import Call
from toolcrib.services.approvals import Approvals, ApprovalTerms

__all__ = ["BOB", "CALL", "EVE", "OWNER", "Clock", "Door", "approvals_over", "settled"]

OWNER = Caller()
BOB = Caller(channel="telegram", sender=Sender(id="7", name="Bob"))
EVE = Caller(channel="telegram", sender=Sender(id="8", name="Bob", username="bob"))
CALL = Call("call_1", "write", {"path": "a.txt", "content": "x"}, "key_1")
SECONDS = 300.0


class Clock:
    """Time that passes when the test says so, for everybody who waits."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self._waiting: set[asyncio.Event] = set()

    def now(self) -> float:
        return self.time

    async def pause(self, event: asyncio.Event, seconds: float) -> None:
        self._waiting.add(event)
        try:
            await event.wait()
        finally:
            self._waiting.discard(event)

    def pass_(self, seconds: float) -> None:
        self.time += seconds
        for event in self._waiting:
            event.set()


class Door:
    """A door that keeps what it heard."""

    def __init__(self, approvals: Approvals) -> None:
        self.heard: list[Question] = []
        self._came = asyncio.Event()
        self.detach = approvals.on_question(self._hear)

    def _hear(self, question: Question) -> None:
        self.heard.append(question)
        self._came.set()

    async def question(self) -> Question:
        """Return the last question that was asked, when there is one."""
        async with asyncio.timeout(60):
            while not any(each.state == "pending" for each in self.heard):
                self._came.clear()
                await self._came.wait()
        return next(each for each in reversed(self.heard) if each.state == "pending")


def _no_lend(call: Call, binding: Mapping[str, str]) -> str | None:
    return "exec can run something else" if call.name == "exec" and "argv" not in binding else None


def approvals_over(store: ApprovalStore | None = None, clock: Clock | None = None, **terms: Any) -> Approvals:
    """Return approvals that lend to everything but an `exec` whose words are not known."""
    clock = clock or Clock()
    approvals = Approvals(
        store or MemoryApprovals(),
        is_owner=lambda caller: caller.channel is None,
        can_lend=_no_lend,
        terms=ApprovalTerms(seconds=SECONDS, **terms),
        now=clock.now,
        pause=clock.pause,
    )
    approvals.lend_lines("exec", "command", _no_lend)
    return approvals


async def settled(work: Awaitable[Any]) -> Any:
    """Return what `work` returns, or the error it raises, within five seconds."""
    async with asyncio.timeout(60):
        try:
            return await work
        except Exception as error:  # noqa: BLE001  the test looks at it
            return error
