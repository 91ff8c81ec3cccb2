"""Stores that live as long as a test: questions and grants, and what was accepted of MCP servers."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from toolcrib.define.approval import PENDING, Grant, Question, State, Yes, is_in_time, too_many
from toolcrib.define.mcp import Pin
from toolcrib.define.quota import QuotaUse, QuotaWindow, Reservation, has_room

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

    async def same(self, digest: str, /, now: float, key: str = "") -> Question | None:
        found = [each for each in self._questions.values() if each.digest == digest and _is_open(each, now)]
        denied = [each for each in found if each.state == "denied" and key and each.key == key]
        return next(reversed(denied or [each for each in found if each.state in ("pending", "allowed")]), None)

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
    ) -> bool:
        question = self._questions.get(id)
        if question is None or question.state not in of or (now is not None and not _is_open(question, now)):
            return False
        self._questions[id] = replace(question, state=to, by=by or question.by)
        return True

    async def say_yes(self, id: str, yes: Yes, /, *, now: float, grant: Grant | None = None) -> Question | None:
        question = self._questions.get(id)
        if question is None or question.state != "pending" or not _is_open(question, now):
            return None
        said = self._questions[id] = question.add(yes)
        if grant is not None:
            self._grants[grant.id] = grant
        return said

    async def use_grant(self, digests: Sequence[str], /, now: float) -> Grant | None:
        found = [each for each in await self.grants(now) if each.digest in digests]
        grant = min(found, key=lambda each: each.calls_left or 0, default=None)
        if grant is not None and grant.calls_left is not None:
            grant = self._grants[grant.id] = replace(grant, calls_left=grant.calls_left - 1)
        return grant

    async def grants(self, now: float, /) -> tuple[Grant, ...]:
        held = (each for each in self._grants.values() if is_in_time(each.made_at, each.until, now))
        return tuple(each for each in held if each.calls_left != 0)

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


class MemoryQuotas:
    """A QuotaStore that forgets with the process."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], QuotaUse] = {}
        self._reserved: dict[str, tuple[str, set[tuple[str, int]], QuotaUse]] = {}

    async def take(
        self, windows: Sequence[QuotaWindow], taken: QuotaUse, /, *, checked: bool, ends: str = ""
    ) -> tuple[QuotaUse, ...]:
        self._reserved.pop(ends, None)
        before = await self.look(windows)
        if not checked or not any(each.find_full(held) for each, held in zip(windows, before, strict=True)):
            for key in {(each.bucket, each.since) for each in windows}:
                self._counts[key] = self._counts.get(key, QuotaUse()) + taken
        return before

    async def reserve(
        self, windows: Sequence[QuotaWindow], wanted: Reservation, process: str, is_there: Callable[[str], bool], /
    ) -> tuple[tuple[QuotaUse, QuotaUse], ...]:
        self._reserved = {id: each for id, each in self._reserved.items() if is_there(each[0])}
        kept = [
            sum((most for _, keys, most in self._reserved.values() if (each.bucket, each.since) in keys), QuotaUse())
            for each in windows
        ]
        found = tuple(zip(await self.look(windows), kept, strict=True))
        if has_room(windows, found):
            self._reserved[wanted.id] = process, {(each.bucket, each.since) for each in windows}, wanted.most
        return found

    async def look(self, windows: Sequence[QuotaWindow], /) -> tuple[QuotaUse, ...]:
        return tuple(self._counts.get((each.bucket, each.since), QuotaUse()) for each in windows)
