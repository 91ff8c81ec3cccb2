"""The time of a turn, which stands still while a human is asked."""

import asyncio
from collections.abc import Mapping

from toolcrib.define.caller import Caller
from toolcrib.define.message import Call
from toolcrib.define.ports import Approver

__all__ = ["Clock", "Unhurried"]


class Clock:
    """So many seconds for what is done within `running()`, without those between `hold` and `go_on`."""

    def __init__(self, seconds: float | None) -> None:
        self._left, self._asking = seconds, 0
        self._timeout: asyncio.Timeout | None = None

    def running(self) -> asyncio.Timeout:
        """Return the block within which the time runs."""
        self._timeout = asyncio.timeout(self._left)
        return self._timeout

    @property
    def is_over(self) -> bool:
        return self._timeout is not None and self._timeout.expired()

    def hold(self) -> None:
        """Stand still until `go_on` was said as often."""
        self._asking += 1
        timeout = self._timeout
        if self._asking > 1 or timeout is None or timeout.expired():
            return
        if (when := timeout.when()) is not None:
            self._left = when - asyncio.get_running_loop().time()
            timeout.reschedule(None)

    def go_on(self) -> None:
        """Go on with what was left."""
        self._asking -= 1
        timeout = self._timeout
        if self._asking or timeout is None or timeout.expired() or self._left is None:
            return
        timeout.reschedule(asyncio.get_running_loop().time() + self._left)


class Unhurried:
    """An approver whose time is not the turn's."""

    def __init__(self, approver: Approver, clock: Clock) -> None:
        self._approver, self._clock = approver, clock

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        self._clock.hold()
        try:
            return await self._approver.approve(caller, call, reason, binding)
        finally:
            self._clock.go_on()
