"""Commands in a sandbox of bubblewrap: namespaces of their own, a read-only system, the workspace, and little else."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from toolcrib.backends.files.guard import Access
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, Confinement, Ended, Limits

from . import seccomp
from .host import memory_fact, processes_fact
from .limits import hierarchies
from .profile import View, environment, inside, is_seen, profile
from .running import GRACE, Process
from .start import (
    Words,
    argv_of,
    ended,
    find_program,
    folder_of,
    group_limits,
    is_fatal,
    launch,
    refused,
    shown,
)
from .supervisor import Keeper, Spawn, given
from .supervisor_process import ARGS, FILTER, STATUS

__all__ = ["Bubblewrap"]

_PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
_OWN_TERMINAL = ("/usr/bin/setsid", "--ctty", "--")
_OTHERWISE = "or let commands run unprotected with tools.exec.host: host"


class Bubblewrap:
    """Runs commands where they see a read-only system, a workspace (`access` rw, ro or none) and nothing else.

    `folders` are further ones to be seen, read-only. Where the sandbox cannot be made, nothing is run.
    """

    def __init__(
        self, root: str, *, access: Access = "rw", folders: Sequence[str] = (), keeper: Keeper | None = None,
        program: str | None = None,
    ) -> None:  # fmt: skip
        self._root, self._access = os.path.realpath(root), access
        self._folders = tuple(os.path.realpath(folder) for folder in folders)
        self._keeper = keeper or Keeper()
        self._owned = keeper is None
        self._program = program
        self._filter = seccomp.program()
        self._works = False

    async def start(self, command: Command, limits: Limits, /) -> Process:
        """Return when the sandbox is being set up; a program that is not in it is refused before."""
        await self._try()
        return await self._start(command, limits)

    async def describe(self) -> Confinement:
        """Return what holds here."""
        await self._try()
        kinds = {kind for place in hierarchies() for kind in place.kinds}
        files = {"rw": "may be changed", "ro": "may be read", "none": "is out of reach"}[self._access]
        calls = "some system calls are refused" if self._filter else "no system call is refused: unknown processor"
        return Confinement(
            kind="sandbox",
            facts=(
                f"the workspace {files}; of the rest only the system's programs can be seen",
                "no network, unless it is granted", "no capabilities, none to be gained", calls,
                "processes, users, host name and shared memory are its own; all end with the first process",
                memory_fact(kinds), processes_fact(kinds),
            ),
        )  # fmt: skip

    async def close(self) -> None:
        """End every command that still runs, unless the keeper is shared with others."""
        if self._owned:
            await self._keeper.close()

    async def _start(self, command: Command, limits: Limits) -> Process:
        bwrap, argv = self._bwrap(), argv_of(command)
        cwd = self._cwd(command)
        find_program(argv[0], command.env, cwd, lambda path: self._sees(path))
        args = (
            *profile(self._view(command.env.get("HOME", ""), network=limits.network)),
            *environment(command.env), "--chdir", cwd, "--json-status-fd", str(STATUS),
            *(("--seccomp", str(FILTER)) if self._filter else ("--disable-userns",)),
        )  # fmt: skip
        # the terminal must be the command's, not bubblewrap's, or the interrupt key would end the sandbox
        before = _OWN_TERMINAL if command.pty else ()
        status, their_status = os.pipe()
        os.set_blocking(status, False)
        extra = {"status": their_status, **({"filter": given(self._filter)} if self._filter else {})}
        process: Process | None = None

        def spawn(fds: dict[str, int]) -> Spawn:
            return Spawn(
                program=bwrap, argv=("bwrap", "--args", str(ARGS), "--", *before, *argv), env={}, fds={**fds, **extra},
                seconds=limits.seconds, grace=GRACE, limits=group_limits(limits), args=args, shown=shown(command),
                tty=os.ttyname(fds["terminal"]) if command.pty else "",
            )  # fmt: skip

        def outcome(words: Words | None, duration: float) -> Ended:
            said = _said(status)
            return _inner(ended(words, duration), said, process.tail(2_000) if process else b"")

        try:
            process = await launch(self._keeper, command, limits, spawn, outcome)
        except OSError as error:
            raise refused(error, bwrap) from error
        finally:
            if process is None:
                os.close(status)
            for fd in extra.values():
                os.close(fd)
        return process

    def _view(self, home: str, *, network: bool) -> View:
        settings = self._keeper.settings.folder(self._keeper.state.made(), network=network)
        return View(
            root=self._root, access=self._access, folders=self._folders, settings=settings, home=home, network=network
        )

    def _cwd(self, command: Command) -> str:
        if self._access == "none":
            if inside(self._root, command.cwd) != self._root:
                raise ToolError(f"no folder {command.cwd!r} here: the workspace is out of reach", code="not_found")
            return self._root
        cwd, fd = folder_of(self._root, command.cwd)
        os.close(fd)
        return cwd

    def _sees(self, path: str) -> bool:
        return is_seen(path, self._root if self._access != "none" else "", self._folders)

    def _bwrap(self) -> str:
        for path in (self._program,) if self._program else _PLACES:
            if os.access(path, os.X_OK):
                return path
        raise ToolError(
            "commands run in a sandbox, and bubblewrap, which makes it, is not installed; install the Debian package "
            f"bubblewrap, {_OTHERWISE}",
            code="unavailable",
        )

    async def _try(self) -> None:
        """Make the sandbox once with nothing in it; ToolError when that cannot be done here."""
        if self._works:
            return
        if os.uname().sysname != "Linux":
            raise ToolError(
                f"sandboxes are made on Linux only; use a machine with it, {_OTHERWISE}", code="unavailable"
            )
        running = await self._start(
            Command(argv=("/usr/bin/true",), env={}), replace(Limits(), seconds=20.0, memory=None, processes=None)
        )
        how = await running.wait()
        if not how.ok:
            said = running.tail(400).decode("utf-8", "replace").strip().replace("\n", " ") or how.sentence()
            raise ToolError(
                f"the sandbox for commands cannot be made here ({said}); allow this user to make namespaces, "
                f"{_OTHERWISE}",
                code="unavailable",
            )
        self._works = True


def _said(status: int) -> int | None:
    """Return the exit code that bubblewrap passed on, None when the command never ran or never ended."""
    try:
        with suppress(OSError, ValueError):
            for line in os.read(status, 65_536).splitlines():
                code = json.loads(line).get("exit-code")
                if isinstance(code, int):
                    return code
        return None
    finally:
        os.close(status)


def _inner(how: Ended, code: int | None, tail: bytes) -> Ended:
    """Return how the command itself ended, from how bubblewrap did.

    Bubblewrap tells an end by signal as shells do, by 128 and the signal's number. When it passed no code on, the
    command never ran: that is told by 127 (no such program) and 126, again as shells do.
    """
    if how.reason != "exit":
        return how
    if code is None:
        return replace(how, code=127 if b"execvp" in tail and b"No such file" in tail else 126)
    if code > 128 and is_fatal(code - 128):
        return replace(how, reason="signal", code=None, signal=code - 128)
    return replace(how, code=code)
