"""Stores that live as long as a test: questions and grants, and what was accepted of MCP servers."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from toolcrib.define.approval import PENDING, Grant, Question, State, is_in_time, too_many
from toolcrib.define.mcp import Pin

_MOST_KEPT = 1_000


class MemoryApprovals:
    """An ApprovalStore that keeps nothing on disk. Nothing in it waits, so every step is whole."""

    def __init__(self) -> None:
        self._questions: dict[str, Question] = {}
        self._grants: dict[str, Grant] = {}

    async def add(self, question: Question, /, *, most: int) -> None:
        waiting = await self.pending(question.asked_at)
        if sum(each.person == question.person for each in waiting) >= most:
            raise too_many(most)
        self._questions[question.id] = question
        settled = [
            each.id
            for each in self._questions.values()
            if each.state not in ("pending", "allowed") or not _is_open(each, question.asked_at)
        ]
        for id in settled[: max(len(self._questions) - _MOST_KEPT, 0)]:
            del self._questions[id]

    async def find(self, id: str, /) -> Question | None:
        return self._questions.get(id)

    async def same(self, digest: str, /, now: float) -> Question | None:
        found = [
            each
            for each in self._questions.values()
            if each.digest == digest and each.state in ("pending", "allowed") and _is_open(each, now)
        ]
        return found[-1] if found else None

    async def pending(self, now: float, /, states: Collection[State] = PENDING) -> tuple[Question, ...]:
        return tuple(each for each in self._questions.values() if each.state in states and _is_open(each, now))

    async def settle(
        self,
        id: str,
        to: State,
        /,
        *,
        of: Collection[State],
        now: float | None = None,
        by: str = "",
        grant: Grant | None = None,
    ) -> bool:
        question = self._questions.get(id)
        if question is None or question.state not in of or (now is not None and not _is_open(question, now)):
            return False
        self._questions[id] = replace(question, state=to, by=by or question.by)
        if grant is not None:
            self._grants[grant.id] = grant
        return True

    async def find_grant(self, digests: Sequence[str], /, now: float) -> Grant | None:
        return next((each for each in await self.grants(now) if each.digest in digests), None)

    async def grants(self, now: float, /) -> tuple[Grant, ...]:
        return tuple(each for each in self._grants.values() if is_in_time(each.made_at, each.until, now))

    async def revoke(self, id: str, /) -> bool:
        return self._grants.pop(id, None) is not None


class MemoryPins:
    """A PinStore that forgets with the process."""

    def __init__(self) -> None:
        self._pins: dict[tuple[str, str], Pin] = {}

    async def pins(self, server: str, /) -> tuple[Pin, ...]:
        return tuple(pin for pin in self.list_all() if pin.server == server)

    async def pin(self, pins: Sequence[Pin], /, *, first: bool = False) -> None:
        seen = {server for server, _ in self._pins} if first else set[str]()
        self._pins |= {(pin.server, pin.tool): pin for pin in pins if pin.server not in seen}

    def list_all(self) -> tuple[Pin, ...]:
        return tuple(self._pins[key] for key in sorted(self._pins))


def _is_open(question: Question, now: float) -> bool:
    return is_in_time(question.asked_at, question.expires_at, now)
