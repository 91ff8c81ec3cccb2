"""When a search has to end: at its own time limit, or when nobody waits for it any more."""

import subprocess
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from toolcrib.define.errors import ToolError
from toolcrib.define.threads import in_thread

__all__ = ["Stop", "until_stopped"]

T = TypeVar("T")

_SECONDS = 60.0


class Stop:
    """Looked at by the thread that works, set by whoever waited. It also ends the program that the thread waits for."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._process: subprocess.Popen[bytes] | None = None
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def set(self) -> None:
        """Let the work end."""
        with self._lock:
            self._set = True
            if self._process is not None:
                self._process.kill()

    def kills(self, process: "subprocess.Popen[bytes] | None") -> None:
        """End this program when the work has to end; None when it is done."""
        with self._lock:
            self._process = process
            if process is not None and self._set:
                process.kill()

    def left(self) -> float:
        """Return the seconds that are left; raise ToolError when there are none."""
        self.check()
        return max(0.0, self._until - time.monotonic())

    def check(self) -> None:
        """Raise ToolError when the work has to end."""
        if self._set or time.monotonic() > self._until:
            raise ToolError(
                f"the search took longer than {self._seconds:.0f} s; search a smaller folder, or for something rarer",
                code="timeout",
            )


async def until_stopped(work: Callable[[Stop], T]) -> T:
    """Run the work in a thread; when the waiting is cancelled it ends, and so does what it started."""
    stop = Stop()
    try:
        return await in_thread(work, stop)
    finally:
        stop.set()
