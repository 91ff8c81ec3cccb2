"""A deadline that costs nothing until somebody waits.

Most bodies and hooks finish without ever suspending; for those a timer would cost more than the work. So the first
step is taken right away, and only what then waits is put under a timer. A body that blocks the loop could not be
stopped by a timer either.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from types import CoroutineType
from typing import Any, Generic, TypeVar

__all__ = ["DeadlineError", "within"]

T = TypeVar("T")


class DeadlineError(Exception):
    """The time was up; told apart from a TimeoutError of the work's own."""


async def within(seconds: float, work: Awaitable[T]) -> T:
    """Return what `work` returns; raise DeadlineError, with the work cancelled, when it takes longer."""
    if not isinstance(work, CoroutineType):
        work = _awaited(work)
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            return await _Resumed(work, waits_for)
    except TimeoutError:
        if timer.expired():
            raise DeadlineError from None
        raise


async def _awaited(work: Awaitable[T]) -> T:
    return await work


class _Resumed(Generic[T]):
    """A coroutine that has taken its first step already, to be awaited from there."""

    __slots__ = ("_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work, self._waits_for = work, waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except GeneratorExit:
                    self._work.close()
                    raise
                except BaseException as error:  # noqa: BLE001  handed on to the work itself, as `await` would
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(sent)
        except StopIteration as done:
            result: T = done.value
            return result
