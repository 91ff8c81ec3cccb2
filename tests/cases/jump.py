"""An event loop whose clock jumps: when all there is to do is to wait, the time that was waited for is there."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_TICK = 1e-9  # whoever begins to wait later, waits longer
_PATIENCE = 5.0  # real seconds, for what no clock can bring


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end; delays and deadlines in it take no time and come in their order."""
    with asyncio.Runner(loop_factory=_Jumping) as runner:
        return runner.run(work)


class _Jumping(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        self.now += _TICK
        return self.now


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: _Jumping) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None:
            self._loop.now += max(timeout, 0)
            return super().select(0)
        ready = super().select(_PATIENCE)
        if not ready:
            raise RuntimeError("everybody waits, and nobody will do anything")
        return ready
