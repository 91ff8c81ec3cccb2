"""A command that was started, seen from our side: its output as it comes, its input, its end."""

import asyncio
import errno
import logging
import os
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from toolcrib.define.errors import ToolError
from toolcrib.define.shell import CommandEnded, CommandLimits, Whole
from toolcrib.threads import in_thread, settle_future

from .pty import PtyScreen, PtyTerminal
from .supervisor import StartedCommand, SupervisorClient

log = logging.getLogger("toolcrib")

KILL_GRACE_SECONDS = 2.0
"""Seconds between TERM and KILL."""

_MAX_WRITTEN, _WRITE_SECONDS = 1 << 20, 10.0
_LAST = 4 << 20  # bytes read after the end: more than any pipe holds
_END_OF_FILE = b"\x04"
_TAIL_BYTES = 1 << 20  # bytes of the end, however much is asked for

Told = Callable[[bytes], None]


class Output:
    """What a command prints: the end of it in memory, the beginning on disk, new bytes to watchers.

    However much comes, memory holds at most twice the end that is asked for. The disk, where `folder` is, is touched
    only by a command that prints more than that end.
    """

    def __init__(self, limits: CommandLimits, folder: str | None = None) -> None:
        self._keep = max(1, min(limits.output, _TAIL_BYTES))
        self._most = max(0, limits.whole)
        self._folder = folder
        self._end = bytearray()
        self._watchers: dict[object, Told] = {}
        self._file: int | None = None
        self._path, self._written, self._failed = "", 0, ""
        self.total = 0

    def add(self, data: memoryview) -> None:
        if self._file is not None:
            self._spool(data)
        elif self.total + len(data) > self._keep and not self._path and not self._failed:
            self._open()
            self._spool(memoryview(bytes(self._end)))  # nothing was dropped so far
            self._spool(data)
        self.total += len(data)
        self._end += data if len(data) <= self._keep else data[-self._keep :]
        if len(self._end) > 2 * self._keep:
            del self._end[: -self._keep]
        if self._watchers:
            self._tell(bytes(data))

    def tail(self, most: int | None = None) -> bytes:
        count = self._keep if most is None else max(0, min(most, self._keep))
        return bytes(self._end[-count:]) if count else b""

    def since(self, at: int) -> tuple[int, bytes]:
        kept = min(len(self._end), self._keep)
        first = min(max(at, self.total - kept), self.total)
        return first, self.tail(self.total - first)

    def whole(self) -> Whole:
        """Return what was printed from the beginning; reads the disk."""
        if not self._path:
            data = bytes(self._end[: self._most]) if self.total <= self._keep else b""
        else:
            with open(self._path, "rb") as file:  # noqa: PTH123
                data = file.read(self._most)
        missing = self.total - len(data)
        why = self._failed or f"only the first {self._most:,} bytes are kept"
        return Whole(data=data, missing=missing, why=why if missing else "")

    def watch(self, listener: Told) -> Callable[[], None]:
        """Call `listener` with new output; return what ends that."""
        key = object()
        self._watchers[key] = listener
        return lambda: self._watchers.pop(key, None) and None

    def close(self) -> None:
        self._watchers.clear()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _tell(self, data: bytes) -> None:
        for key, listener in list(self._watchers.items()):
            try:
                listener(data)
            except Exception:  # who watches must not end what is watched
                log.exception("watching a command's output failed; the watcher gets no more of it")
                self._watchers.pop(key, None)

    def _open(self) -> None:
        try:
            self._file, self._path = tempfile.mkstemp(prefix=f"output-{os.getpid()}-", dir=self._folder)
        except OSError as error:
            self._failed = f"the disk did not take it ({error.strerror})"
            return
        weakref.finalize(self, _remove, self._path)

    def _spool(self, data: memoryview) -> None:
        if self._file is None:
            return
        data = data[: self._most - self._written]
        try:
            while data:
                count = os.write(self._file, data)
                self._written += count
                data = data[count:]
        except OSError as error:
            self._failed = f"the disk did not take it ({error.strerror})"
        if self._failed or self._written >= self._most:
            os.close(self._file)
            self._file = None


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)  # noqa: PTH108


class Streams:
    """Our ends of what a command is given: `out` to read from, `into` to write to (None when its input is closed)."""

    def __init__(self, out: int, into: int | None, terminal: PtyTerminal | None = None) -> None:
        self.out, self.into, self.terminal = out, into, terminal
        os.set_blocking(out, False)
        if into is not None:
            os.set_blocking(into, False)

    def close_input(self) -> None:
        if self.into is not None and self.into != self.out:
            os.close(self.into)
        self.into = None

    def close(self) -> None:
        self.close_input()
        if self.out >= 0:
            os.close(self.out)
            self.out = -1


class ProcessTree:
    """A tree of processes. `outcome` makes an Ended of the supervisor's last words."""

    def __init__(
        self, supervisor: SupervisorClient, started: StartedCommand, streams: Streams, limits: CommandLimits,
        outcome: Callable[[dict[str, Any] | None, float], CommandEnded], size: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        self.id, self.pid, self.started = started.id, started.pid, time.time()
        self._supervisor, self._outcome = supervisor, outcome
        self._streams, self._output = streams, Output(limits, supervisor.state.make_folder())
        self._screen = PtyScreen(size, self._answer) if size else None
        self._began = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[CommandEnded] = self._loop.create_future()
        self._writing = asyncio.Lock()
        self._loop.add_reader(streams.out, self._read)
        started.ended.add_done_callback(self._end)

    @property
    def ended(self) -> CommandEnded | None:
        return self._ended.result() if self._ended.done() else None

    @property
    def total(self) -> int:
        return self._output.total

    async def wait(self) -> CommandEnded:
        return await asyncio.shield(self._ended)

    def tail(self, most: int | None = None) -> bytes:
        return self._output.tail(most)

    def since(self, at: int) -> tuple[int, bytes]:
        return self._output.since(at)

    async def whole(self) -> Whole:
        return await in_thread(self._output.whole)

    def watch(self, listener: Callable[[bytes], None]) -> Callable[[], None]:
        return self._output.watch(listener)

    async def write(self, data: bytes) -> None:
        if len(data) > _MAX_WRITTEN:
            raise ToolError(
                f"{len(data):,} bytes are too many to write at once; at most {_MAX_WRITTEN:,}", code="too_large"
            )
        async with self._writing:
            try:
                await asyncio.wait_for(self._write(memoryview(data)), _WRITE_SECONDS)
            except TimeoutError:
                raise ToolError(f"the command did not read its input for {_WRITE_SECONDS:.0f} s", code="busy") from None

    async def close_stdin(self) -> None:
        if self._streams.terminal is not None:
            await self.write(_END_OF_FILE)
            return
        async with self._writing:
            self._streams.close_input()

    def resize(self, columns: int, rows: int) -> None:
        screen = self._require_screen()
        if self._streams.terminal is not None and not self._ended.done():
            self._streams.terminal.resize(columns, rows)
        screen.resize(columns, rows)

    def screen(self) -> str:
        return self._require_screen().text()

    def _require_screen(self) -> PtyScreen:
        if self._screen is None:
            raise ToolError("the command has no terminal; start it with pty", code="unavailable")
        return self._screen

    def signal(self, number: int) -> None:
        if not self._ended.done():
            self._supervisor.signal(self.id, number)

    async def stop(self, grace: float | None = None) -> CommandEnded:
        if not self._ended.done():
            self._supervisor.stop(self.id, KILL_GRACE_SECONDS if grace is None else max(0.0, grace))
        return await self.wait()

    async def _write(self, data: memoryview) -> None:
        while data:
            into = self._streams.into
            if into is None or self._ended.done():
                raise ToolError("the command takes no more input", code="closed")
            try:
                data = data[os.write(into, data) :]
            except BlockingIOError:
                await _writable(self._loop, into, self._ended)
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO):
                    raise
                self._streams.close_input()
                raise ToolError("the command takes no more input", code="closed") from None

    def _answer(self, data: bytes) -> None:
        """Type what a terminal answers by itself; a command that does not read it misses it."""
        if self._streams.into is not None:
            with suppress(OSError):
                os.write(self._streams.into, data)

    def _read(self) -> bool:
        """Take what came, at most a bufferful; return whether more may follow."""
        buffer = self._supervisor.buffer
        try:
            count = os.readv(self._streams.out, [buffer])
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # how a terminal says that its other end is closed
                raise
            count = 0
        if not count:
            self._loop.remove_reader(self._streams.out)
            return False
        with memoryview(buffer)[:count] as data:
            self._output.add(data)
            if self._screen is not None:
                self._screen.add(bytes(data))
        return True

    def _end(self, last: "asyncio.Future[dict[str, Any] | None]") -> None:
        if self._loop.is_closed():
            return
        before = self._output.total
        while self._output.total - before < _LAST and self._read():
            pass
        self._loop.remove_reader(self._streams.out)
        if self._streams.into is not None:
            self._loop.remove_writer(self._streams.into)
        self._streams.close()
        self._output.close()
        words = None if last.cancelled() else last.result()
        self._ended.set_result(self._outcome(words, time.monotonic() - self._began))


async def _writable(loop: asyncio.AbstractEventLoop, fd: int, ended: "asyncio.Future[CommandEnded]") -> None:
    """Return when something can be written, or when it does not matter any more."""
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(fd, settle_future, ready, None, None)
    try:
        await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not ended.done():
            loop.remove_writer(fd)
