"""Work in processes side by side; one that dies fails what it was at, and another one takes up the rest."""

import gc
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

T = TypeVar("T")

_FORK = get_context("fork")  # a child has all that was read and imported: numbers go in, and results come out


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    left: deque[int] = field(default_factory=deque)

    def take(self, chunk: Iterable[int] | None) -> None:
        """Send it numbers to work on, None to end it; whether it is still there is seen by whoever listens."""
        self.left = deque(chunk or ())
        with suppress(BrokenPipeError):
            self.pipe.send(chunk and list(self.left))


def in_processes(
    work: Callable[[int], T], chunks: Sequence[Sequence[int]], processes: int, dead: Callable[[int, int | None], T]
) -> dict[int, T]:
    """Return `work` of every number, or what `dead` makes of one whose process died with that exit code."""
    waiting, found = deque[Iterable[int]](chunks), dict[int, T]()
    workers = dict[Any, _Worker]()
    while waiting or workers:
        while waiting and len(workers) < processes:
            worker = _start(work)
            worker.take(waiting.popleft())
            workers[worker.pipe] = worker
        for pipe in wait(list(workers)):
            worker = workers[pipe]
            try:
                at, told = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                del workers[pipe]
                worker.process.join()
                if worker.left:
                    at = worker.left.popleft()
                    found[at] = dead(at, worker.process.exitcode)
                if worker.left:
                    waiting.appendleft(worker.left)
                continue
            found[at] = told
            worker.left.remove(at)
            if not worker.left:
                worker.take(waiting.popleft() if waiting else None)
    return found


def _start(work: Callable[[int], Any]) -> _Worker:
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_serve, args=(work, theirs))
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(work: Callable[[int], Any], pipe: "Connection[Any, Any]") -> None:
    gc.freeze()  # the rows that measure what is held collect garbage: not in all that was read and imported before
    for chunk in iter(pipe.recv, None):
        for at in chunk:
            pipe.send((at, work(at)))
