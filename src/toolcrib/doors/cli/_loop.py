"""The event loop of a command."""

import asyncio
import signal
import socket
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, and lose no Ctrl-C.

    One that comes after Python last looked for signals and before the loop waits would wait with it: the loop waits for
    the file descriptor, too, that is written to when a signal comes.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(main)
    woken, wakes = socket.socketpair()
    with woken, wakes, asyncio.Runner() as runner:
        woken.setblocking(False)
        wakes.setblocking(False)
        runner.get_loop().add_reader(woken, woken.recv, 4_096)
        before = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        try:
            return runner.run(main)
        finally:
            signal.set_wakeup_fd(before)
            runner.get_loop().remove_reader(woken)
