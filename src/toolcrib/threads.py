"""Plain functions beside the event loop, each in a thread where it can hold up nobody.

The threads are our own: one that hangs must neither starve the loop's few shared ones nor keep the program from ending.
"""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from toolcrib.define.errors import ToolError

log = logging.getLogger("toolcrib")

T = TypeVar("T")


class Runner(Protocol):
    """Calls a plain function where it holds up nobody, as `in_thread` does."""

    def __call__(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Awaitable[T]: ...


_MAX_THREADS, _SPARE_THREADS = 128, 8  # threads at work at once, and threads kept for the next function
_MAX_TURNS = 32  # of them for work of our own

_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", threading.Lock, Callable[[], Any]]

_turns = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]()
_lock = threading.Lock()
_idle: list[SimpleQueue[_Job]] = []
_at_work = 0


async def in_thread(function: Callable[..., T], /, *args: Any, **named: Any) -> T:
    """Return what the function returns.

    Cancelled before it began, it never begins; cancelled later, only the waiting stops: it has to look for the end.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    begin = threading.Lock()  # held by who comes first: the thread that runs it, or the one who calls it off
    _worker().put((loop, outcome, begin, partial(contextvars.copy_context().run, function, *args, **named)))
    try:
        return await outcome
    except asyncio.CancelledError:
        begin.acquire(blocking=False)
        raise


async def in_turn(function: Callable[..., T], /, *args: Any, **named: Any) -> T:
    """Return what the function returns: short work of our own, so that of many at once some wait for the others."""
    async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_MAX_TURNS)):
        return await in_thread(function, *args, **named)


def _worker() -> SimpleQueue[_Job]:
    """Return the in-tray of a thread that has nothing to do."""
    global _at_work
    with _lock:
        if _at_work >= _MAX_THREADS:
            raise ToolError(
                f"{_MAX_THREADS} plain functions are running at once; try again when one is done", code="busy"
            )
        _at_work += 1
        if _idle:
            return _idle.pop()
    tray: SimpleQueue[_Job] = SimpleQueue()
    threading.Thread(target=_run_jobs, args=(tray,), name="toolcrib-body", daemon=True).start()
    return tray


def _run_jobs(tray: SimpleQueue[_Job]) -> None:
    while _run_job(tray.get(), tray):
        pass


def _run_job(job: _Job, tray: SimpleQueue[_Job]) -> bool:
    """Run one function and tell its loop; return whether the thread should wait for another."""
    global _at_work
    loop, outcome, begin, run = job
    value, error = None, None
    try:
        value = run() if begin.acquire(blocking=False) else None
    except BaseException as raised:  # noqa: BLE001  whatever it is, it belongs to who waits
        error = raised
    with _lock:
        _at_work -= 1
        stays = len(_idle) < _SPARE_THREADS
        if stays:
            _idle.append(tray)
    try:
        loop.call_soon_threadsafe(settle_future, outcome, value, error)
    except RuntimeError:
        log.debug("a plain function ended after its event loop")
    return stays


def settle_future(outcome: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    """Give a future a value or an error, unless it has one already."""
    if outcome.done():  # nobody waits any more
        return
    if error is None:
        outcome.set_result(value)
    elif isinstance(error, StopIteration):  # a future cannot carry it
        outcome.set_exception(RuntimeError(f"a function in a thread raised {error!r}"))
    else:
        outcome.set_exception(error)
