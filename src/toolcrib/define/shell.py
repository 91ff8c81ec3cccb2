"""Commands: what is run, within which limits, while it runs, and how it ended. `backends/exec/` runs them.

    running = await shell.start(Command(line="make test", env=env), Limits(seconds=60))
    ended = await running.wait()
    running.tail(), ended.sentence()

A command is a tree of processes. It ends when its first process ends; what that one left running is ended with it. A
deadline or `stop` ends the whole tree: TERM, then KILL a little later. Whatever happens, nothing of it stays.
"""

import signal
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from toolcrib.lazy import dataclass, field

EndReason = Literal["exit", "signal", "timeout", "stop", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Either `argv`, a program and its arguments as they are, or `line`, which a pinned bash reads.

    `cwd` is a folder of the workspace. `env` is the whole environment; nothing is inherited. `stdin` is what the
    command reads before the end of its input; None leaves the input open for `write`. `pty` gives it a terminal of
    so many columns and rows, whose input is always open. `folder` is the inode that `cwd` must have.

    Where something confines it: what `only_reads` finds a workspace that it cannot change, and `held` is a file, by its
    whole path, that has these contents as long as the command runs; programs with `denied` names cannot be started, and
    `hidden` folders, by their whole paths, are empty.
    """

    argv: tuple[str, ...] | None = None
    line: str | None = None
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | None = b""
    pty: tuple[int, int] | None = None
    only_reads: bool = False
    folder: int | None = None
    held: tuple[str, bytes] | None = None
    denied: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """What a command may use. None means no limit of that kind; `Shell.describe` says which ones hold, and how.

    `memory` is in bytes, `processes` counts processes and threads, and both are for the whole tree where the kernel
    can count that; `file` is the most bytes of one file. `output` bytes of the end of what is printed are kept in
    memory (never more than a mebibyte), and the first `whole` bytes of it on disk.
    """

    seconds: float | None = 1800.0
    memory: int | None = 4 << 30
    processes: int | None = 512
    file: int | None = 4 << 30
    output: int = 200_000
    whole: int = 10_000_000
    network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnded:
    """How a command ended, for one reason: by itself with a `code`, by a `signal`, at its deadline, stopped, or lost.

    `lost` means that the supervisor of the command was killed, and the command with it. `left` counts processes
    that even KILL did not end in time. `limit` names a limit that the tree ran into: memory or processes. `withheld`
    are names it made that would be obeyed outside of its sandbox: what was there was put aside.
    """

    reason: EndReason
    duration: float
    code: int | None = None
    signal: int | None = None
    left: int = 0
    limit: str = ""
    withheld: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """The command ended by itself and calls that a success, and all that it made is there."""
        return self.reason == "exit" and self.code == 0 and not self.withheld

    def sentence(self) -> str:
        """Return what a person would say about it."""
        text = {
            "exit": f"exited with code {self.code}",
            "signal": f"was ended by signal {signal_name(self.signal or 0)}",
            "timeout": f"was still running after {self.duration:.{int(self.duration < 10)}f} s and was ended",
            "stop": "was stopped",
            "lost": "was ended, because the process that watched over it was",
        }[self.reason]
        return text + self.addendum()

    def addendum(self) -> str:
        """Return what else there is to say, to be put behind a sentence; mostly nothing."""
        ended_by = self.signal or (self.code or 0) - 128  # a shell, and the sandbox, tell a signal so
        hit = self.limit or ("the size of a file" if ended_by == signal.SIGXFSZ else "")
        limit = f"; it reached its limit of {hit}" if hit else ""
        left = f"; {self.left} of its processes could not be ended" if self.left else ""
        names = ", ".join(map(repr, self.withheld[:5]))
        aside = f"; {names} would be obeyed outside of this task, so what it made there was put aside" if names else ""
        return limit + left + aside


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The first bytes a command printed; `missing` counts those after them, and `why` says why they were not kept."""

    data: bytes
    missing: int = 0
    why: str = ""


class RunningCommand(Protocol):
    """A command that was started. Everything but `wait`, `write`, `stop` and `whole` answers at once."""

    @property
    def pid(self) -> int: ...

    @property
    def started(self) -> float:
        """When, in seconds since 1970."""

    @property
    def ended(self) -> CommandEnded | None:
        """How it ended, None while it runs."""

    async def wait(self) -> CommandEnded:
        """Return when nothing of the tree is left. A waiter that is cancelled leaves the command running."""

    @property
    def total(self) -> int:
        """Bytes printed so far, by stdout and stderr together in the order they came."""

    def tail(self, most: int | None = None) -> bytes:
        """Return the end of what was printed: all that is kept, or the last `most` bytes of it."""

    def since(self, at: int) -> tuple[int, bytes]:
        """Return what was printed from byte `at` on, as far as it is kept, and the byte it begins at."""

    async def whole(self) -> Whole:
        """Return what was printed from the beginning, up to `Limits.whole`."""

    def watch(self, listener: Callable[[bytes], None]) -> Callable[[], None]:
        """Call `listener` with new output as it comes; return what ends that. It must be quick."""

    async def write(self, data: bytes) -> None:
        """Give the command input; ToolError `closed` when it takes none (any more), `busy` when it does not read."""

    async def close_stdin(self) -> None:
        """Say that no input follows; on a terminal that is the end-of-file key."""

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""

    def screen(self) -> str:
        """Return what a person would see on the terminal, one line per row; ToolError when there is none."""

    def signal(self, number: int) -> None:
        """Send a signal to every process of the tree; nothing happens once it has ended."""

    async def stop(self, grace: float | None = None) -> CommandEnded:
        """End the whole tree, TERM and after `grace` seconds KILL; return how the command ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a shell keeps commands from, for people: `kind` is `sandbox` or `host`, `facts` are short sentences."""

    kind: Literal["sandbox", "host"]
    facts: tuple[str, ...]


class Shell(Protocol):
    """Runs commands in one workspace.

    What cannot be started is a ToolError of one sentence: `not_found` (program or folder), `unavailable` (what should
    confine it is not there; it is never run without), `busy` (too many run already), `too_large`, `bad_path`,
    `denied` (a folder outside of the workspace) or `failed`.
    """

    async def start(self, command: Command, limits: CommandLimits, /) -> RunningCommand:
        """Return when the command runs; waits for its turn while too many do."""

    async def describe(self) -> Confinement:
        """Return what confines commands here; ToolError `unavailable` when they would be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A command that was running when its crib died: `pids` are the processes that had to be ended now."""

    pid: int
    command: str
    started: float
    pids: tuple[int, ...] = ()


def signal_name(number: int) -> str:
    """Return a signal's number with its name: `15 (SIGTERM)`."""
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
