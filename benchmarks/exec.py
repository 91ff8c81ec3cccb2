"""Commands: against a bare asyncio spawn, against bare bubblewrap, and against a reader that keeps the end of 100 MB.

The bare bubblewrap has the same namespaces and shows the system, a workspace and little else; it limits and
filters nothing and is watched by nobody. The bare reader takes a mebibyte at a time from a pipe of that size.
"""

import asyncio
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from toolcrib.backends.exec.bubblewrap import Bubblewrap
from toolcrib.backends.exec.host import Host
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.define.shell import Command, CommandLimits, Shell

from . import Row, Work, interleaved

__all__ = ["measure", "rows_from"]

HOST_BAR, SANDBOX_BAR, OUTPUT_BAR = 1.8, 1.5, 1.6
MEGABYTES = 100
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
TRUE = ("/usr/bin/true",)
MUCH = ("/usr/bin/head", "-c", f"{MEGABYTES}000000", "/dev/zero")


def measure(rounds: int) -> list[Row]:
    """Return the rows of commands, measured here and now; none where there is no bubblewrap to compare with."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return []
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as root:
        supervisor = SupervisorClient(f"{root}/state")
        os.mkdir(f"{root}/files")  # noqa: PTH102
        host, sandbox = Host(f"{root}/files", supervisor), Bubblewrap(f"{root}/files", supervisor=supervisor)

        def work(make: Callable[[], Awaitable[object]]) -> Work:
            return lambda: loop.run_until_complete(_awaited(make()))

        quick = {
            "spawn": work(lambda: _spawned(TRUE)),
            "host": work(lambda: _run(host, TRUE)),
            "bwrap": work(lambda: _spawned((bwrap, *_bare(f"{root}/files"), "--", *TRUE))),
            "sandbox": work(lambda: _run(sandbox, TRUE)),
        }
        slow: dict[str, Work] = {
            "reader": lambda: _read(MUCH),
            "output": work(lambda: _run(host, MUCH)),
        }
        try:
            for each in (*quick.values(), *slow.values()):
                each()
            return rows_from(
                {**interleaved(quick, rounds, time.perf_counter), **interleaved(slow, rounds, time.perf_counter)}
            )
        finally:
            loop.run_until_complete(supervisor.close())
            loop.close()


def rows_from(taken: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return the promises about `taken`."""
    return [
        Row(what="true", ours=taken["host"], against="asyncio spawn", floor=taken["spawn"], bar=HOST_BAR),
        Row(what="true, sandboxed", ours=taken["sandbox"], against="bwrap", floor=taken["bwrap"], bar=SANDBOX_BAR),
        Row(
            what=f"{MEGABYTES} MB of output", ours=taken["output"], against="bounded reader", floor=taken["reader"],
            bar=OUTPUT_BAR,
        ),
    ]  # fmt: skip


async def _awaited(what: Awaitable[object]) -> object:
    return await what


async def _run(shell: Shell, argv: tuple[str, ...]) -> None:
    running = await shell.start(Command(argv=argv, env=ENV), CommandLimits())
    ended = await running.wait()
    assert ended.ok, ended.sentence()


async def _spawned(argv: tuple[str, ...]) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENV
    )
    await process.communicate()
    assert process.returncode == 0


def _bare(root: str) -> tuple[str, ...]:
    return (
        "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
        "--hostname", "sandbox", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib",
        "--symlink", "usr/lib64", "/lib64",
        "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin", "--ro-bind-try", "/etc/ssl", "/etc/ssl",
        "--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try", "/etc/passwd", "/etc/passwd",
        "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", root, root, "--chdir", root,
    )  # fmt: skip


def _read(argv: tuple[str, ...]) -> None:
    """Read all a program prints and keep the end of it."""
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 1 << 20)
    with subprocess.Popen(argv, stdout=write, env=ENV):
        os.close(write)
        end = b""
        while data := os.read(read, 1 << 20):
            end = (end + data)[-200_000:]
        os.close(read)
