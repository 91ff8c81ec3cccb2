"""A shell that runs nothing, and commands that do what a test says."""

import asyncio
from collections.abc import Callable, Mapping

from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandEnded, CommandLimits, Confinement, Whole
from toolcrib.lazy import dataclass

from .files import as_bytes, list_names


@dataclass(frozen=True, slots=True)
class FakeRun:
    """What a fake command prints, and the code it ends with at once; None leaves it running."""

    output: bytes | str = ""
    code: int | None = 0


class FakeRunning:
    """A command that does what the test says: `prints`, `ends`. What it was sent is in `written` and `signals`."""

    def __init__(self, command: Command, limits: CommandLimits, pid: int, started: float) -> None:
        self.command, self.limits, self.pid, self.started = command, limits, pid, started
        self.written, self.signals, self.is_closed = bytearray(), list[int](), command.stdin is not None
        self._printed = bytearray()
        self._watchers: dict[object, Callable[[bytes], None]] = {}
        self._over = asyncio.Event()
        self.ended: CommandEnded | None = None

    def prints(self, data: bytes | str) -> None:
        """Print something now."""
        self._printed += as_bytes(data)
        for listener in tuple(self._watchers.values()):
            listener(as_bytes(data))

    def ends(self, code: int | None = 0, *, ended: CommandEnded | None = None) -> None:
        """End now, with this code or in another way."""
        if self.ended is None:
            self.ended = ended or CommandEnded(reason="exit", duration=1.0, code=code)
            self._over.set()

    @property
    def total(self) -> int:
        return len(self._printed)

    async def wait(self) -> CommandEnded:
        await self._over.wait()
        assert self.ended is not None
        return self.ended

    def tail(self, most: int | None = None) -> bytes:
        count = min(self.limits.output, self.limits.output if most is None else most)
        return bytes(self._printed[-count:]) if count else b""

    def since(self, at: int) -> tuple[int, bytes]:
        begin = min(max(at, self.total - self.limits.output), self.total)
        return begin, bytes(self._printed[begin:])

    async def whole(self) -> Whole:
        data = bytes(self._printed[: self.limits.whole])
        return Whole(data=data, missing=self.total - len(data))

    def watch(self, told: Callable[[bytes], None]) -> Callable[[], None]:
        key = object()
        self._watchers[key] = told
        return lambda: self._watchers.pop(key, None) and None

    async def write(self, data: bytes) -> None:
        if self.is_closed and self.command.pty is None:
            raise ToolError("the command takes no more input", code="closed")
        self.written += data

    async def close_stdin(self) -> None:
        self.is_closed = True

    def resize(self, columns: int, rows: int) -> None:
        self.screen()

    def screen(self) -> str:
        if self.command.pty is None:
            raise ToolError("the command has no terminal; start it with pty", code="unavailable")
        return f"[a screen of {self.command.pty[0]} columns]"

    def signal(self, number: int) -> None:
        self.signals.append(number)

    async def stop(self, grace: float | None = None) -> CommandEnded:
        self.ends(ended=CommandEnded(reason="stop", duration=1.0))
        return await self.wait()


class FakeShell:
    """A shell that runs nothing: commands do what `runs` says about their line, or about their words joined by blanks.

    `started` lists every command in order.
    """

    def __init__(self, runs: Mapping[str, FakeRun | str | ToolError] | None = None, *, at: float = 0.0) -> None:
        self.runs, self.at = dict(runs or {}), at
        self.started: list[FakeRunning] = []

    async def start(self, command: Command, limits: CommandLimits, /) -> FakeRunning:
        line = command.line if command.line is not None else " ".join(command.argv or ())
        run = self.runs.get(line)
        if run is None:
            raise ToolError(f"no program {line!r} here; there are {list_names(self.runs)}", code="not_found")
        if isinstance(run, ToolError):
            raise run
        run = FakeRun(run) if isinstance(run, str) else run
        running = FakeRunning(command, limits, 100 + len(self.started), self.at)
        self.started.append(running)
        running.prints(run.output)
        if run.code is not None:
            running.ends(run.code)
        return running

    async def describe(self) -> Confinement:
        return Confinement(kind="host", facts=("nothing is run",))

    async def close(self) -> None:
        for running in self.started:
            await running.stop()
