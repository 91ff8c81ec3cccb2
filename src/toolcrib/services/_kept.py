"""The commands that are known, by id: all that run, and for a time those that ended in the background."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcrib.define.errors import ToolError
from toolcrib.define.names import nearest

from ._labels import new_id, short_name
from ._process import Process, outcome

__all__ = ["Kept", "ProcessTerms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTerms:
    """How many commands of one scope run in the background, how many ended ones are kept for it, and for how long.

    `bytes` is how much output of ended commands is kept, whosoever they are.
    """

    running: int = 32
    ended: int = 32
    bytes: int = 32 << 20
    seconds: float = 1_800.0


class Kept:
    """Whose commands are where; what belongs to one scope is never found from another."""

    def __init__(self, terms: ProcessTerms, now: Callable[[], float]) -> None:
        self._terms, self._now = terms, now
        self._processes: dict[str, Process] = {}

    def new_id(self) -> str:
        """Return an id that no command has that is known."""
        return new_id(self._processes)

    def add(self, process: Process) -> None:
        """Know a command."""
        self._processes[process.id] = process

    def forget(self, process: Process) -> None:
        """Know it no longer."""
        self._processes.pop(process.id, None)

    def all(self) -> list[Process]:
        """Return every command."""
        return list(self._processes.values())

    def of(self, scope: str) -> list[Process]:
        """Return the commands of a scope that are or were in the background."""
        self._tidy()
        return [each for each in self._processes.values() if each.scope == scope and each.seen.background]

    def running(self, scope: str) -> list[Process]:
        """Return those of them that run."""
        return [each for each in self.of(scope) if each.ended is None]

    def has_room(self, scope: str) -> bool:
        """Tell whether one more may go to the background."""
        return len(self.running(scope)) < self._terms.running

    def find(self, scope: str, id: str) -> Process:
        """Return a command of this scope; ToolError names the nearest when there is none of that id."""
        mine = {each.id: each for each in self.of(scope)}
        process = mine.get(id.strip())
        if process is None:
            close = nearest(id, mine)
            known = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(mine) or 'none'}"
            raise ToolError(f"no command {id[:64]!r} in the background; {known}", code="not_found")
        return process

    def notices(self, scope: str) -> list[dict[str, Any]]:
        """Return which commands of a scope have ended in the background since it last heard; each is told once."""
        told = []
        for each in self.of(scope):
            if each.ended is not None and not each.seen.told:
                each.seen.told = True
                told.append({"sessionId": each.id, "name": short_name(each.line), **outcome(each.ended, each.seconds)})
        return told

    def _tidy(self) -> None:
        """Forget ended commands that are too old, too many, or too large together; the oldest first."""
        ended = sorted(
            (each for each in self._processes.values() if each.seen.ended_at is not None),
            key=lambda each: each.seen.ended_at or 0.0,
            reverse=True,
        )
        count: Counter[str] = Counter()
        size = 0
        for each in ended:
            count[each.scope] += 1
            size += each.size
            is_old = self._now() - (each.seen.ended_at or 0.0) > self._terms.seconds
            if is_old or count[each.scope] > self._terms.ended or size > self._terms.bytes:
                self.forget(each)
