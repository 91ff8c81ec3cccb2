"""Events in their order: one that waits for the disk holds up those behind it, and nothing else."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.define.event import Event

__all__ = ["Telling"]

Late = Callable[[BaseException | None], Event | None]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An event that is told once something is kept, or has failed to be; there may be nothing left to tell by then."""

    kept: "asyncio.Future[None]"
    event: Late


class Telling:
    """Tells events, as a function does; `after` puts one in line that nobody may hear before something is kept."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._line: deque[Event | _Waiting] = deque()

    def __call__(self, event: Event) -> None:
        if self._line:
            self._line.append(event)
        else:
            self._emit(event)

    def after(self, kept: "asyncio.Future[None]", event: Late) -> None:
        """Tell what `event` returns once `kept` is done; it is told how that failed, if it did."""
        self._line.append(_Waiting(kept, event))
        kept.add_done_callback(self.go_on)

    def go_on(self, _: object = None) -> None:
        """Tell all that need not wait any more."""
        while self._line:
            first = self._line[0]
            if isinstance(first, _Waiting):
                if not first.kept.done():
                    return
                self._line.popleft()
                failure = asyncio.CancelledError() if first.kept.cancelled() else first.kept.exception()
                if (event := first.event(failure)) is not None:
                    self._emit(event)
            else:
                self._line.popleft()
                self._emit(first)
