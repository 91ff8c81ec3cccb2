"""What the tests of shells share: shells of both kinds, shapes of process trees, and looking for what is left."""

import gc
import os
import platform
import secrets
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import anyio
import pytest

from toolcrib.backends.exec.bubblewrap import Bubblewrap
from toolcrib.backends.exec.host import Host
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.backends.web.proxy import GuardedProxy
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandEnded, CommandLimits, RunningCommand, Shell

__all__ = [
    "COUNTS",
    "ENV",
    "KINDS",
    "SHAPES",
    "descriptors",
    "give_up",
    "left",
    "marker",
    "opened",
    "ran",
    "started",
    "until",
]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
KINDS = ("host", "sandbox")

_PRCTL = 157 if platform.machine() == "x86_64" else 167

SHAPES = {
    "child": "sleep {m} & wait",
    "grandchild": "bash -c 'sleep {m} & wait' & wait",
    "double fork": "(sleep {m} &) ; sleep {m}",
    "setsid": "(setsid env -i /usr/bin/sleep {m} &) ; sleep {m}",
    "nohup": "nohup sleep {m} >/dev/null 2>&1 & disown; sleep {m}",
    "stopped": "sleep {m} & until read -r name </proc/$!/comm && [ $name = sleep ]; do :; done; kill -STOP $!;"
    " sleep {m}",
    "another mark": f"(setsid perl -e 'syscall({_PRCTL}, 29, 50000, 0, 0, 0); fork and exit; exec qw(sleep {{m}})' &) ;"
    " sleep {m}",
}
"""Lines whose processes sleep for a marker; COUNTS says how many do."""

COUNTS = {"child": 1, "grandchild": 1, "double fork": 2, "setsid": 2, "nohup": 2, "stopped": 2, "another mark": 2}


def marker() -> str:
    """Return a number of seconds that no other process sleeps."""
    return f"1000.{secrets.randbelow(10**12):012d}"


def descriptors() -> int:
    """Return how many descriptors we hold, without those of earlier tests that nobody has collected yet."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def left(mark: str) -> list[int]:
    """Return the programs that sleep so long: not shells that merely name the number."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"sleep") and mark.encode() in words:
                found.append(int(name))
    return found


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when the condition holds; fail after so long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        await anyio.sleep(0.01)


BARE = ("--unshare-user-try", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--", "/bin/true")


def give_up(error: ToolError, bare: Sequence[str] = BARE) -> NoReturn:
    """Skip where bubblewrap by itself can do nothing on this machine; where it can, a sandbox that fails is ours."""
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    done = subprocess.run([program, *bare], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"impossible here: {error} (and bubblewrap by itself: {done.stderr.strip()[-200:]})")
    raise error


@asynccontextmanager
async def opened(
    kind: str,
    root: Path,
    *,
    access: str = "rw",
    supervisor: SupervisorClient | None = None,
    proxy: GuardedProxy | None = None,
) -> AsyncIterator[Shell]:
    """Give a shell whose commands all end with the block."""
    root.mkdir(exist_ok=True)
    own = supervisor or SupervisorClient(str(root.parent / "state"))
    shell: Shell
    if kind == "host":
        shell = Host(str(root), own)
    else:
        shell = Bubblewrap(str(root), access=access, supervisor=own, proxy=proxy)  # type: ignore[arg-type]  # one of three words
        try:
            await shell.describe()
        except ToolError as error:
            await own.close()
            give_up(error)
    try:
        yield shell
    finally:
        await own.close()


async def started(shell: Shell, line: str, limits: CommandLimits | None = None, **named: object) -> RunningCommand:
    """Start a line."""
    command = Command(**{"line": line, "env": ENV, **named})  # type: ignore[arg-type]
    return await shell.start(command, limits or CommandLimits(seconds=30.0))


async def ran(
    shell: Shell, line: str, limits: CommandLimits | None = None, **named: object
) -> tuple[CommandEnded, str]:
    """Run a line to its end; return how it ended and what it printed."""
    running = await started(shell, line, limits, **named)
    ended = await running.wait()
    return ended, running.tail().decode("utf-8", "replace")
