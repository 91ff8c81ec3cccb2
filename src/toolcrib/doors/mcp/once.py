"""Once: a call awaited so that it is cancelled once.

The SDK is built on anyio, which goes on cancelling a task at every turn of the loop until it is gone. A tool's body is
written for asyncio: it is told once, and what it does then in its `finally` (ending a process, putting a file back)
runs to its end.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from math import inf
from typing import Any, Generic, TypeVar

import anyio

__all__ = ["Once"]

T = TypeVar("T")


class Once(Generic[T]):
    """Returns what the call returns, when awaited; from the first cancellation on it is shielded from more of them."""

    __slots__ = ("_call",)

    def __init__(self, call: Coroutine[Any, Any, T]) -> None:
        self._call = call

    def __await__(self) -> Generator[Any, Any, T]:
        shield: anyio.CancelScope | None = None
        go_on: Callable[[], Any] = partial(self._call.send, None)
        try:
            while True:
                try:
                    waits_for = go_on()
                except StopIteration as end:
                    value: T = end.value
                    return value
                try:
                    go_on = partial(self._call.send, (yield waits_for))
                except BaseException as error:  # noqa: BLE001  whatever it is, it is the call's, and is handed on to it
                    # a deadline within the call cancels it, too: then there is nothing to be shielded from
                    is_cancelled = isinstance(error, asyncio.CancelledError)
                    if is_cancelled and shield is None and anyio.current_effective_deadline() == -inf:
                        shield = anyio.CancelScope(shield=True)
                        shield.__enter__()
                    go_on = partial(self._call.throw, error)
        finally:
            self._call.close()
            if shield is not None:
                shield.__exit__(None, None, None)
