"""A crib whose jobs go by a clock that tests turn."""

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolcrib.app import Crib, Given, build
from toolcrib.app.features import FEATURES, TURN_FEATURES
from toolcrib.app.sources import offers_from_program
from toolcrib.config.load import load
from toolcrib.define.tool import Tool
from toolcrib.services import cron
from toolcrib.services.cron.work import JobRunner, work_in
from toolcrib.services.feature import TurnCore

__all__ = ["START_MS", "ManualClock", "crib_at", "settle"]

START_MS = 1_700_000_000_000


class ManualClock:
    """The time as it is told, which may be wrong, and the time that passes, which waits go by."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self.told, self.passed = start_ms / 1000, 0.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._paused, self._count = asyncio.Event(), 0

    def now(self) -> float:
        return self.told

    async def pause(self, seconds: float) -> None:
        self._count += 1
        self._paused.set()
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.passed + seconds, self._count, future))
        await future

    @property
    def pauses(self) -> int:
        """How often somebody has waited."""
        return self._count

    def jump(self, seconds: float) -> None:
        """Set the clock, by so much forward or back; no time passes."""
        self.told += seconds

    async def advance(self, seconds: float, *, frozen: bool = False) -> None:
        """Let time pass, and everybody who waits do what they do meanwhile; a frozen clock tells the same all along."""
        end = self.passed + seconds
        await settle()
        while self._waiting and self._waiting[0][0] <= end:
            at, _, future = heapq.heappop(self._waiting)
            if future.done():
                continue
            self.told += 0 if frozen else at - self.passed
            self.passed = at
            future.set_result(None)
            await self._settle(self._count)
        self.told += 0 if frozen else end - self.passed
        self.passed = end

    async def _settle(self, count: int) -> None:
        """Let everything go on until somebody waits again, and a little longer."""
        for _ in range(100):
            await asyncio.sleep(0)
            if self._count > count:
                break
        else:  # its store has a thread
            await self.until_paused(count)
        await settle(3)

    async def until_paused(self, count: int = 0) -> None:
        """Wait until somebody has waited more often than that."""
        async with asyncio.timeout(20):
            while self._count <= count:
                self._paused.clear()
                await self._paused.wait()


async def settle(rounds: int = 12) -> None:
    """Let everything that can go on do so."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def crib_at(
    clock: ManualClock,
    config: Mapping[str, Any] | Path | None = None,
    state: Path | None = None,
    *,
    tools: Sequence[Tool] = (),
    works: Callable[[TurnCore], JobRunner] = work_in,
) -> Crib:
    """Return a crib whose jobs go by this clock."""
    mounts = [each for each in TURN_FEATURES if each is not cron.mount]
    jobs = partial(cron.mount, now=clock.now, pause=clock.pause, works=works)
    given = Given(env={}, folder=state, offers=tuple(offers_from_program(tools, ())))
    return build(load(config or {}, {}), given, FEATURES, (*mounts, jobs))
