"""How long an event loop was not there for anybody else, told so that a busy machine does not count."""

import asyncio
import time
from pathlib import Path

_BEAT = 0.02  # seconds between two looks
_UNRESPONSIVE = 1.0  # seconds that a gateway may take to answer a status request
_STUCK = 20.0  # seconds by the clock alone: what waits in a system call uses no processor


class Stopwatch:
    """How long something took on a machine that has nothing else to do, from the moment this was made.

    The time in which anything here was ready to run and no processor was free is left out, but for a tenth of what
    is more than a minute: what hangs is found out on a busy machine, too.
    """

    def __init__(self) -> None:
        self._clock, self._waited = time.perf_counter(), _waited()

    @property
    def took(self) -> float:
        """The seconds since then."""
        by_clock = time.perf_counter() - self._clock
        return max(by_clock - (_waited() - self._waited), (by_clock - 60) / 10)


def _waited() -> float:
    """Return the seconds so far in which something on this machine waited for a processor."""
    try:
        some = Path("/proc/pressure/cpu").read_text().split("\n")[0]
    except OSError:  # a kernel that does not tell: then the clock alone decides
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6


class Lateness:
    """Looks every few milliseconds whether the loop is there.

    What counts is the processor time that this process took meanwhile: waiting for a processor that others use is no
    fault of the loop's.
    """

    def __init__(self) -> None:
        self.longest = self._by_clock = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.ensure_future(self._look())
        await asyncio.sleep(0)

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _look(self) -> None:
        while True:
            clock, worked = time.perf_counter(), time.process_time()
            await asyncio.sleep(_BEAT)
            late = time.perf_counter() - clock - _BEAT
            self._by_clock = max(self._by_clock, late)
            self.longest = max(self.longest, min(late, time.process_time() - worked))

    @property
    def complaint(self) -> str:
        """What is wrong, "" where nothing is."""
        if self.longest <= _UNRESPONSIVE and self._by_clock <= _STUCK:
            return ""
        return f"nothing else was answered for {max(self.longest, self._by_clock):.1f} s"
