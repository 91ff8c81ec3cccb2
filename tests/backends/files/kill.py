"""A process killed at every system call that could change a disk, and what is on the disk at the next start.

A body is the source of `async def body(workspace, ctx)`; what it needs imported or warm goes into
`async def prepare(workspace, ctx)`. It runs once to count its calls, then once for each of them with strace killing
it there. After each kill the workspace is opened anew, and looked at.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolcrib.backends.files.disk import Disk, Terms

__all__ = ["STRACE", "State", "failures", "states", "tree"]

STRACE = shutil.which("strace")

State = dict[str, bytes | None]

# What changes names, contents or permissions, or waits for the disk. A kill at one call comes after the one before.
_CALLS = (
    "write,pwrite64,writev,pwritev,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,link,linkat,mkdir,mkdirat,"
    "rmdir,symlink,symlinkat,ftruncate,fallocate,fchmod,fchmodat,fchown,fchownat"
)

_PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call

async def prepare(workspace, ctx):
    pass

{body}

async def here(function, /, *args, **named):
    return function(*args, **named)  # strace counts the calls of every thread apart

async def main():
    disk = Disk(Terms(root=Path(sys.argv[1]), state=Path(sys.argv[2])))
    workspace = LocalWorkspace(disk, run=here)
    call = Call(id="call_1", name="tool", args={{}}, key="call_1")
    ctx = Ctx(call=call, caller=Caller(), course=CallState(), ports=Ports(workspace=workspace))
    await workspace.stat(".")
    await prepare(workspace, ctx)
    os.path.exists("/a-mark")
    await body(workspace, ctx)
    os.path.exists("/a-mark")

try:
    asyncio.run(main())
except ToolError as error:
    print(error, flush=True)
"""


def tree(root: Path) -> State:
    """Return everything beneath a folder: files with their contents, folders as None."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }


def states(base: Path, files: Mapping[str, bytes], body: str, every: int = 1) -> Iterator[tuple[str, State]]:
    """Kill the body at every call, or every so many; give what it was killed at, and the tree at the next start."""
    for call, ended, _, state in _tampered(base, files, body, "signal=KILL", every):
        assert ended != 0, f"was not killed at {call}"
        yield call, state


def failures(
    base: Path, files: Mapping[str, bytes], body: str, error: str, every: int = 1
) -> Iterator[tuple[str, str, State]]:
    """Let every call fail in turn; give the call, what the body said about it, and the tree afterwards."""
    for call, ended, said, state in _tampered(base, files, body, f"error={error}", every):
        assert ended == 0, f"ended with {ended} after {call}: {said}"
        yield call, said, state


def _tampered(
    base: Path, files: Mapping[str, bytes], body: str, how: str, every: int
) -> Iterator[tuple[str, int, str, State]]:
    script = base / "body.py"
    script.write_text(_PROGRAM.format(body=body))
    calls = _calls(base, files, script)
    for at, (name, number, call) in list(enumerate(calls))[::every]:
        root, state = _world(base, files)
        ran = _run(script, root, state, "-o", "/dev/null", "-e", f"inject={name}:{how}:when={number}")
        disk = Disk(Terms(root=root, state=state))
        disk.stat(".")
        disk.close()
        yield f"{at + 1} of {len(calls)}: {call}", ran.returncode, ran.stdout.strip(), tree(root)


def _calls(base: Path, files: Mapping[str, bytes], script: Path) -> list[tuple[str, int, str]]:
    """Return the calls between the marks: the name, how often it was called before (strace counts each name apart)."""
    root, state = _world(base, files)
    log = base / "calls.log"
    assert _run(script, root, state, "-o", str(log), also="stat,newfstatat,statx").returncode == 0, (
        "the body itself fails"
    )
    numbers, marks, between = Counter[str](), 0, []
    for line in log.read_text().splitlines():
        call = line.partition(" ")[2].strip()
        name = call.partition("(")[0]
        if "/a-mark" in call:
            marks += 1
        elif name in _CALLS.split(","):
            numbers[name] += 1
            if marks == 1:
                between.append((name, numbers[name], call))
    return between


def _run(script: Path, root: Path, state: Path, *options: str, also: str = "") -> subprocess.CompletedProcess[str]:
    assert STRACE is not None
    traced = f"trace={_CALLS},{also}" if also else f"trace={_CALLS}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [STRACE, "-f", "-qq", "-e", traced, *options, sys.executable, "-SB", str(script), str(root), str(state)]
    return subprocess.run(
        command, env=environment, check=False, timeout=60, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def _world(base: Path, files: Mapping[str, bytes]) -> tuple[Path, Path]:
    root, state = base / "ws", base / "state"
    for folder in (root, state):
        shutil.rmtree(folder, ignore_errors=True)
    root.mkdir()
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root, state
