"""Commands on the bare machine: no sandbox, but a tree that can be ended, limits, and an environment that was built.

Also what every shell does to start a command: check it, give it its descriptors, hand it to the supervisor.
"""

import asyncio
import errno
import fcntl
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

from toolcrib.backends.files.beneath import Beneath
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandEnded, CommandLimits, Confinement
from toolcrib.lazy import regex, replace

from .limits import hierarchies
from .profile import holds_system
from .pty import PtyTerminal
from .running import KILL_GRACE_SECONDS, ProcessTree, Streams
from .supervisor import Spawn, SupervisorClient, open_memory

LastWords = dict[str, Any]
"""The supervisor's last words about a command."""

_BASH = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
_ARGUMENT_BYTES = 131_071  # bytes of one argument that the kernel takes
_PIPE = 1 << 20
_NAME = regex(r"[^=\0]+")
_OWN_PROGRAMS = ("rg",)  # in wheels of ours: as trusted as toolcrib itself


def argv_of(command: Command) -> tuple[str, ...]:
    """Return the program and its arguments; a line is for bash, which reads no file of the user before it."""
    if (command.argv is None) == (command.line is None):
        raise ToolError("a command is either argv or a line", code="bad_arguments")
    argv = command.argv
    if argv is None:
        bash = next((path for path in _BASH if os.access(path, os.X_OK)), None)
        if bash is None:
            raise ToolError("there is no bash on this machine to read the line; install it", code="unavailable")
        argv = (bash, "--noprofile", "--norc", "-c", "--", command.line or "")
    _check(argv, command.env)
    return argv


def folder_of(root: str, cwd: str, inode: int | None = None) -> tuple[str, int]:
    """Return a folder of the workspace, every link resolved, and a descriptor of it. The root is resolved already."""
    try:
        if cwd in ("", "."):
            return root, os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        beneath = Beneath(root)
    except OSError as error:
        raise ToolError(f"the workspace {root!r} cannot be opened ({error.strerror})", code="not_found") from error
    try:
        fd = beneath.open(cwd, os.O_PATH | os.O_DIRECTORY)
    except ToolError as error:
        if error.code == "not_found":
            raise ToolError(f"no folder {cwd!r} in the workspace to run the command in", code="not_found") from None
        if error.code == "not_folder":
            raise ToolError(f"{cwd!r} is not a folder; a command runs in one", code="not_found") from None
        raise
    finally:
        beneath.close()
    if inode is not None and os.fstat(fd).st_ino != inode:
        os.close(fd)
        raise ToolError(f"the folder {cwd!r} is not the one that was shown any more; ask again", code="changed")
    return os.readlink(f"/proc/self/fd/{fd}"), fd  # noqa: PTH115


def limit_path(path: str) -> str:
    """Return the folders of a PATH in which programs of ours are looked for: with a whole name, and outside of the
    folder that we stand in, where a tool may have put something."""
    here = os.path.realpath(os.curdir)
    is_work = here not in ("/", os.path.expanduser("~")) and not holds_system(here)  # noqa: PTH111  Path's own raises
    folders = [each for each in path.split(":") if os.path.isabs(each)]  # noqa: PTH117
    return ":".join(each for each in folders if not (is_work and f"{os.path.realpath(each)}/".startswith(f"{here}/")))


def find_program(name: str, env: Mapping[str, str], cwd: str, seen: Callable[[str], bool]) -> str:
    """Return the path of a program as a shell would find it; ToolError when none that is `seen` can be run."""
    folders = env.get("PATH", "").split(":")
    places = [name] if "/" in name else [f"{folder or '.'}/{name}" for folder in folders]
    for place in places:
        path = place if place.startswith("/") else f"{cwd}/{place}"
        if seen(path) and os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
    shown = name if len(name) <= 200 else f"{name[:200]}…"
    if any(os.path.isfile(place) for place in places if place.startswith("/") and seen(place)):  # noqa: PTH113
        raise ToolError(f"{shown!r} is not a program: its permissions forbid running it", code="not_found")
    raise ToolError(f"no program {shown!r} here; check its spelling, or install it", code="not_found")


async def launch(
    supervisor: SupervisorClient, command: Command, limits: CommandLimits, spawn: Spawn,
    outcome: Callable[[LastWords | None, float], CommandEnded],
) -> ProcessTree:  # fmt: skip
    """Start a program within the limits of a command, with input and output of its own, and watch over it."""
    kernel_limits = {"pids": limits.processes, "memory": limits.memory, "file": limits.file}
    streams, theirs = _streams(command)
    try:
        try:
            spawn = replace(
                spawn, fds={**theirs, **spawn.fds}, seconds=limits.seconds, grace=KILL_GRACE_SECONDS,
                limits={kind: limit for kind, limit in kernel_limits.items() if limit is not None},
                shown=command.line if command.line is not None else " ".join(command.argv or ()),
                tty=os.ttyname(theirs["terminal"]) if command.pty else "",
            )  # fmt: skip
            started = await supervisor.start(spawn)
        finally:
            for fd in set(theirs.values()):
                os.close(fd)
        return ProcessTree(supervisor, started, streams, limits, outcome, command.pty)
    except BaseException:
        streams.close()
        raise


def read_last_words(words: LastWords | None, duration: float) -> CommandEnded:
    """Return how a command ended whose first process the supervisor started itself."""
    if words is None:
        return CommandEnded(reason="lost", duration=duration)
    details = {"withheld": tuple(words["withheld"]), **{key: words[key] for key in ("duration", "left", "limit")}}
    if words["reason"]:
        return CommandEnded(reason=words["reason"], **details)
    if words["status"] is None:
        return CommandEnded(reason="lost", **details)
    code = os.waitstatus_to_exitcode(words["status"])
    if code < 0:
        return CommandEnded(reason="signal", signal=-code, **details)
    return CommandEnded(reason="exit", code=code, **details)


async def run_to_end(supervisor: SupervisorClient, spawn: Spawn) -> CommandEnded:
    """Run a program, and return how it ended; ToolError when it cannot be started. It ends with its caller."""
    try:
        started = await supervisor.start(spawn)
    except OSError as error:
        raise start_error(error, spawn.argv[0]) from None
    try:
        await asyncio.wait((started.ended,))
    finally:
        if not started.ended.done():  # cancelled
            supervisor.stop(started.id, 0.0)
            await asyncio.wait((started.ended,))
    return read_last_words(started.ended.result(), 0.0)


def start_error(error: OSError, name: str) -> ToolError:
    """Return why the system did not start a program, as one sentence."""
    if error.errno == errno.E2BIG:
        return ToolError("the command and its environment are too long for the system", code="too_large")
    if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR):
        why = {errno.ENOEXEC: "it is no program, and no #! line says what should read it"}.get(
            error.errno, os.strerror(error.errno).lower()
        )
        return ToolError(f"{name!r} could not be run: {why}", code="not_found")
    return ToolError(f"{name!r} could not be started: the system says {error.strerror!r}")


def _streams(command: Command) -> tuple[Streams, dict[str, int]]:
    """Return our ends and the command's."""
    if command.pty is not None:
        terminal = PtyTerminal(command.pty)
        return Streams(terminal.master, terminal.master, terminal), {"terminal": terminal.slave}
    with ExitStack() as undo:
        out, their_out = os.pipe()
        undo.callback(os.close, out)
        undo.callback(os.close, their_out)
        with suppress(OSError):  # a small pipe is only slower
            fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, _PIPE)
        into = None
        if command.stdin is None:
            stdin, into = os.pipe()
        elif command.stdin:
            stdin = open_memory(command.stdin)
        else:
            stdin = os.open("/dev/null", os.O_RDONLY)
        undo.pop_all()
    return Streams(out, into), {"stdin": stdin, "out": their_out}


def _check(argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Refuse what the kernel would misunderstand."""
    if not argv or not argv[0]:
        raise ToolError("a command names a program", code="bad_arguments")
    if any("\0" in word for word in (*argv, *env.values())) or not all(map(_NAME.fullmatch, env)):
        raise ToolError(
            "a command and its environment hold no NUL, and no name is empty or has =", code="bad_arguments"
        )
    longest = max(len(os.fsencode(word)) for word in argv)
    if longest > _ARGUMENT_BYTES:
        raise ToolError(
            f"an argument of {longest:,} bytes is too long for the system, which takes {_ARGUMENT_BYTES:,}; "
            "write it to a file first",
            code="too_large",
        )


@cache
def own_programs() -> Mapping[str, str]:
    """Return where the programs are that came in wheels, beside this interpreter; one that did not is left out."""
    beside = os.pathsep.join((sysconfig.get_path("scripts"), str(Path(sys.executable).parent)))
    found = {name: shutil.which(name, path=beside) for name in _OWN_PROGRAMS}
    return {name: os.path.realpath(path) for name, path in found.items() if path}


class Host:
    """Runs commands as our user, in the folders of a workspace. The operator chose this; nothing is confined."""

    def __init__(self, root: str, supervisor: SupervisorClient) -> None:
        self._root, self._supervisor = os.path.realpath(root), supervisor

    async def start(self, command: Command, limits: CommandLimits, /) -> ProcessTree:
        argv = argv_of(command)
        cwd, fd = folder_of(self._root, command.cwd, command.folder)
        try:
            program = find_program(argv[0], command.env, cwd, lambda _: True)
            spawn = Spawn(program=program, argv=argv, env={**command.env, "PWD": cwd}, fds={"cwd": fd})
            return await launch(self._supervisor, command, limits, spawn, read_last_words)
        except OSError as error:
            raise start_error(error, argv[0]) from error
        finally:
            os.close(fd)

    async def describe(self) -> Confinement:
        if os.uname().sysname != "Linux":
            raise ToolError("commands are run on Linux only", code="unavailable")
        return Confinement(
            kind="host",
            facts=(
                f"runs as user {os.getuid()} with everything that user may do, network included",
                "the whole tree is ended with its first process, at its deadline, and when this program dies",
                *limit_facts(),
            ),
        )


def limit_facts() -> tuple[str, str]:
    """Return how memory and processes are limited here."""
    kinds = {kind for place in hierarchies() for kind in place.kinds}
    memory = "memory is limited for the whole tree, by a control group"
    if "memory" not in kinds:
        memory = "memory is limited for the whole tree, by a look every 0.2 s: no control group can be made here"
    if "pids" in kinds:
        return memory, "processes are limited for the whole tree, by a control group"
    if os.getuid():
        return memory, "processes are limited together with the others of this user: no control group can be made here"
    return memory, "processes are not limited: root is exempt, and no control group can be made here"
