"""Progress: what a body shows of its work, sent to the client that asked for it, in order and before the result."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from toolcrib.adapter.mcp import encode_result as written
from toolcrib.adapter.trim import for_watchers
from toolcrib.define.result import Result

__all__ = ["Progress"]

log = logging.getLogger("toolcrib")

Send = Callable[[float, float | None, str | None], Awaitable[None]]

_MOST_WAITING = 64  # of a client that is slow to read the oldest are left out
_LARGEST = 2**53  # beyond that, one more is no more
_LONGEST = 4_000  # characters of one message: the end of them, where the newest stands


class _Step(NamedTuple):
    done: float
    total: float | None
    words: str


class Progress:
    """Sends what it hears of one call. The numbers grow from step to step, as the protocol wants.

    Most bodies show nothing, and that costs nothing: what sends is started by the first step.
    """

    __slots__ = ("_is_over", "_last", "_loop", "_news", "_send", "_sending", "_thread", "_waiting")

    def __init__(self, send: Send) -> None:
        self._send, self._loop, self._thread = send, asyncio.get_running_loop(), threading.get_ident()
        self._sending: asyncio.Task[None] | None = None
        self._is_over = False

    def hear(self, partial: Result) -> None:
        """Take note of a step, from whichever thread."""
        shown = for_watchers(partial)
        if threading.get_ident() == self._thread:
            self._take(shown)
            return
        try:
            self._loop.call_soon_threadsafe(self._take, shown)
        except RuntimeError:
            log.debug("progress came after its event loop had closed")

    def _take(self, partial: Result) -> None:
        if self._is_over:
            return
        if self._sending is None:
            self._last, self._news = 0.0, asyncio.Event()
            self._waiting: deque[_Step] = deque(maxlen=_MOST_WAITING)
            self._sending = asyncio.create_task(self._tell())
        self._waiting.append(self._step(partial))
        self._news.set()

    async def sent(self) -> None:
        """Wait until the client was sent all that was heard."""
        if self._sending is not None:
            self._is_over = True
            self._news.set()
            await self._sending

    def stop(self) -> None:
        """Send nothing more."""
        self._is_over = True
        if self._sending is not None:
            self._sending.cancel()

    async def _tell(self) -> None:
        while self._waiting or not self._is_over:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._send(*self._waiting.popleft())

    def _step(self, partial: Result) -> _Step:
        """Return a step; what a body says in its details, how much of how much, counts as long as it grows."""
        said = partial.details if isinstance(partial.details, Mapping) else {}
        done, total = _number(said.get("progress")), _number(said.get("total"))
        if done is None or done <= self._last:
            done, total = self._last + 1, None
        self._last = done
        words = "\n".join(block["text"] for block in written(partial)["content"] if block["type"] == "text")
        return _Step(done, total, words[-_LONGEST:])


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        return None
    return float(value)
