"""One command of a caller: what it has printed and how it goes, while it runs and for a time after its end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toolcrib.define.shell import Ended, Running

from ._labels import duration, short_name
from ._printed import draws, plain, unfinished

__all__ = ["Process", "Seen", "followed", "outcome"]

_TAIL = 2_000  # characters that a row or a report of progress shows
_PAUSE = 0.1  # seconds between two reports of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A command that was started; what changes about it is in `seen`."""

    id: str
    scope: str
    line: str
    cwd: str
    seconds: float
    terminal: bool
    running: Running
    seen: "Seen"

    @property
    def ended(self) -> Ended | None:
        return self.running.ended

    @property
    def is_cut(self) -> bool:
        """Whether more was printed than is kept in memory."""
        return self.running.total > len(self.running.tail())

    @property
    def size(self) -> int:
        """How many bytes of memory it takes, about."""
        return len(self.running.tail()) + 1_000

    def text(self) -> str:
        """Return what was printed, as far as it is kept; of a program that draws, what stands on its screen."""
        data = self.running.tail()
        if self.terminal and draws(data):
            return self.running.screen()
        return plain(data, inside=self.running.total > len(data))

    def tail(self) -> str:
        """Return the last characters of that."""
        if self.terminal:
            return self.text()[-_TAIL:]
        data = self.running.tail(4 * _TAIL)
        return plain(data, inside=self.running.total > len(data))[-_TAIL:]

    def news(self) -> tuple[str, int]:
        """Return what was printed since the last look, and how many bytes before it are not kept any more."""
        begin, data = self.running.since(self.seen.cursor)
        missed = begin - self.seen.cursor
        held = unfinished(data) if self.ended is None else 0
        self.seen.cursor = begin + len(data) - held
        if self.terminal and draws(self.running.tail()):
            return self.running.screen() if data else "", 0
        return plain(data[: len(data) - held], inside=missed > 0), missed

    def row(self, now: float) -> dict[str, Any]:
        """Return the process as a list shows it."""
        ended = self.ended
        took = (ended.duration if ended else now - self.running.started) * 1000
        row = {
            "sessionId": self.id, "status": status_of(ended), "pid": self.running.pid,
            "startedAt": round(self.running.started * 1000), "cwd": self.cwd, "command": self.line,
            "name": short_name(self.line), "tail": self.tail(),
            "truncated": self.is_cut,
            "runtimeMs": round(took), "runtime": duration(took),
        }  # fmt: skip
        return {**row, **(outcome(ended, self.seconds) if ended else {})}


@dataclass(slots=True)
class Seen:
    """What the caller knows of a process: how much of its output, and whether of its end; when it ended."""

    cursor: int = 0
    background: bool = False
    told: bool = False
    ended_at: float | None = None
    key: str = ""


def status_of(ended: Ended | None) -> str:
    """Return running, completed or failed."""
    return "running" if ended is None else "completed" if ended.ok else "failed"


def outcome(ended: Ended, seconds: float) -> dict[str, Any]:
    """Return how a command ended that had so many seconds: facts for programs, and one sentence."""
    if ended.reason == "timeout":
        left = f"; {ended.left} of its processes could not be ended" if ended.left else ""
        sentence = f"did not end within {seconds:g} s and was ended{left}"
    else:
        sentence = ended.sentence()
    return {
        "status": status_of(ended), "exitCode": ended.code, "signal": ended.signal,
        "timedOut": ended.reason == "timeout", "durationMs": round(ended.duration * 1000), "reason": ended.reason,
        "sentence": sentence, "limit": ended.limit, "left": ended.left,
    }  # fmt: skip


@contextmanager
def followed(process: Process, tell: Callable[[Any], None]) -> Iterator[None]:
    """Tell how far a process is whenever it has printed something, but not more often than somebody can read."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.TimerHandle | None = None

    def report() -> None:
        nonlocal waiting
        waiting = None
        tell({"sessionId": process.id, "pid": process.running.pid, "tail": process.tail()})

    def printed(_: bytes) -> None:
        nonlocal waiting
        if waiting is None:
            waiting = loop.call_later(_PAUSE, report)

    stop = process.running.watch(printed)
    try:
        yield
    finally:
        stop()
        if waiting is not None:
            waiting.cancel()
