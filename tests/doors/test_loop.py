"""The event loop of a command hears Ctrl-C whenever it comes."""

import asyncio
import signal
import threading

import pytest

from toolcrib.doors.cli._loop import run_loop


def test_a_signal_that_interrupts_no_wait_ends_it_all_the_same() -> None:
    """Another thread takes the signal: so it is when it comes just before the loop begins to wait."""

    async def wait() -> None:
        loop, asleep = asyncio.get_running_loop(), threading.Event()

        def interrupt() -> None:
            asleep.wait()
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        loop.call_soon(asleep.set)  # the last thing it does before it waits
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_loop(wait())


def test_what_was_woken_by_signals_before_is_so_afterwards() -> None:
    before = signal.set_wakeup_fd(-1)
    try:
        assert run_loop(asyncio.sleep(0, "done")) == "done"
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.set_wakeup_fd(before)
