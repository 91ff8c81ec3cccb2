"""Commands in a sandbox of bubblewrap: namespaces of their own, a read-only system, the workspace, and little else.

System calls that nothing in a sandbox needs and that reach past its namespaces are refused by a kernel filter
(seccomp). A filter is a small program for the kernel's packet machine. Everything is permitted but what is named here;
what is named fails with "not permitted", `clone3` and `openat2` with "no such call", so that libraries use calls whose
arguments can be read.
"""

import json
import os
import platform
import re
import signal
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from toolcrib.backends.files.guard import Access, list_protected_names
from toolcrib.backends.web.proxy import GuardedProxy
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandEnded, CommandLimits, Confinement
from toolcrib.threads import in_thread

from . import host
from .instruction_files import InstructionFiles, NameMark
from .network import NETWORK_ARGS, PROXY_ENV, CommandNetwork
from .profile import EMPTY_FILE_NAME, find_masked, is_seen, profile, resolve_inside
from .running import ProcessTree
from .supervisor import Spawn, SupervisorClient, open_memory
from .supervisor_process import ARGS, FILTER, SCRIPT, STATUS

_PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
_OWN_TERMINAL = ("/usr/bin/setsid", "--ctty", "--")
REACHED_BY_NETWORK = (
    "where the network is granted, HTTP and HTTPS go out by a proxy to what web.ssrf permits, and nothing else does"
)
_OTHERWISE = "or let commands run unprotected with tools.exec.host: host"

# Each call with its number on x86-64 and on ARM, in the order in which they are tested.
_NUMBERS = """
    ptrace 101 117  process_vm_readv 310 270  process_vm_writev 311 271  kcmp 312 272  pidfd_getfd 438 438
    mount 165 40  umount2 166 39  pivot_root 155 41  chroot 161 51  setns 308 268  unshare 272 97  move_mount 429 429
    open_tree 428 428  fsopen 430 430  fsconfig 431 431  fsmount 432 432  fspick 433 433  mount_setattr 442 442
    open_tree_attr 467 467  open_by_handle_at 304 265  keyctl 250 219  add_key 248 217  request_key 249 218  bpf 321 280
    perf_event_open 298 241  userfaultfd 323 282  fanotify_init 300 262  io_uring_setup 425 425
    io_uring_enter 426 426  io_uring_register 427 427  kexec_load 246 104  kexec_file_load 320 294
    init_module 175 105  finit_module 313 273  delete_module 176 106  reboot 169 142  swapon 167 224  swapoff 168 225
    acct 163 89  quotactl 179 60  syslog 103 116  clock_settime 227 112  settimeofday 164 170  vhangup 153 58
    sethostname 170 161  setdomainname 171 162  lookup_dcookie 212 18  nfsservctl 180 42  iopl 172 -  ioperm 173 -
    clone 56 220  clone3 435 435  socket 41 198  ioctl 16 29  openat2 437 437  open 2 -  openat 257 56  creat 85 -
    chmod 90 -  fchmod 91 52  fchmodat 268 53  fchmodat2 452 452  mkdir 83 -  mkdirat 258 34  mknod 133 -
    mknodat 259 33
"""
SYSCALL_NUMBERS: dict[str, tuple[int, dict[str, int]]] = {
    machine: (token, {row[0]: int(row[at]) for row in re.findall(r"(\w+) (\S+) (\S+)", _NUMBERS) if row[at] != "-"})
    for at, (machine, token) in enumerate((("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)), 1)
}

# Calls that set a mode, with the place of that among their arguments.
_MODES = {
    "openat": 3, "open": 2, "creat": 1, "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mkdir": 1,
    "mkdirat": 2, "mknod": 1, "mknodat": 2,
}  # fmt: skip
_ARGUED = ("clone", "clone3", "socket", "ioctl", "openat2", *_MODES)
REFUSED = {
    machine: tuple(name for name in names if name not in _ARGUED) for machine, (_, names) in SYSCALL_NUMBERS.items()
}

_LOAD, _JUMP_EQUAL, _JUMP_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24  # places in what the kernel shows: low halves of the arguments
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW flag but the one for time, which `clone` cannot name
_SOCKETS = (38, 40)  # to the kernel's ciphers; to the machine that hosts this one, which is in no namespace
_TYPE_INTO_TERMINAL = (0x5412, 0x541C)
_OTHERS_RIGHTS = 0o6000  # setuid and setgid: a program runs as the file's owner or group
_SPECIAL = 0o070000  # pipes, devices and sockets
_MAKES = 0x400040  # flags of `open`: a new file, with or without a name
_OTHER_NUMBERS = 0x40000000  # a second numbering of the same calls, on x86-64 only

_SIGNALS = frozenset(signal.Signals)

_Step = tuple[int, int, int, int]


def build_filter(machine: str = platform.machine()) -> bytes | None:
    """Return the filter for a kind of processor, None where the numbers of its calls are not known here."""
    if machine not in SYSCALL_NUMBERS:
        return None
    token, numbers = SYSCALL_NUMBERS[machine]
    steps: list[_Step] = [
        (_LOAD, 0, 0, _MACHINE), (_JUMP_EQUAL, 1, 0, token), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER),
    ]  # fmt: skip
    if machine == "x86_64":
        steps += [(_JUMP_LEAST, 0, 1, _OTHER_NUMBERS), (_RETURN, 0, 0, _FAIL | _ENOSYS)]
    for name, place in _MODES.items():
        if name in numbers:
            bits = _OTHERS_RIGHTS | (_SPECIAL if name.startswith("mknod") else 0)
            steps += _argument(numbers[name], _FIRST + 8 * place, [(_JUMP_BITS, bits)], makes=name.startswith("open"))
    for name in REFUSED[machine]:
        steps += [(_JUMP_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _FAIL | _EPERM)]
    for name in ("clone3", "openat2"):  # what they are asked stands behind a pointer; libraries do without them
        steps += [(_JUMP_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _FAIL | _ENOSYS)]
    steps += _argument(numbers["clone"], _FIRST, [(_JUMP_BITS, _NEW_NAMESPACES)])
    steps += _argument(numbers["socket"], _FIRST, [(_JUMP_EQUAL, family) for family in _SOCKETS])
    steps += _argument(numbers["ioctl"], _SECOND, [(_JUMP_EQUAL, request) for request in _TYPE_INTO_TERMINAL])
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _argument(number: int, place: int, tests: list[tuple[int, int]], *, makes: bool = False) -> list[_Step]:
    """Return steps that refuse a call when an argument meets a test, and permit it otherwise.

    With `makes` only where the argument before says that a file is made: else it may hold anything.
    """
    body: list[_Step] = [(_LOAD, 0, 0, place)]
    if makes:
        body = [(_LOAD, 0, 0, place - 8), (_JUMP_BITS, 1, 0, _MAKES), (_RETURN, 0, 0, _ALLOW), *body]
    for test, value in tests:
        body += [(test, 0, 1, value), (_RETURN, 0, 0, _FAIL | _EPERM)]
    body.append((_RETURN, 0, 0, _ALLOW))
    return [(_JUMP_EQUAL, 0, len(body), number), *body]


class Bubblewrap:
    """Runs commands where they see a read-only system, a workspace (`access` rw, ro or none) and nothing else.

    `folders` are further ones to be seen, read-only; `obeyed` is what commands do not change. Where the sandbox cannot
    be made, nothing is run.
    """

    def __init__(  # noqa: PLR0913  all but two by name, with a default
        self, root: str, supervisor: SupervisorClient, *, access: Access = "rw", folders: Sequence[str] = (),
        program: str | None = None, obeyed: InstructionFiles | None = None, proxy: GuardedProxy | None = None,
    ) -> None:  # fmt: skip
        self._root, self._supervisor, self._access = os.path.realpath(root), supervisor, access
        self._obeyed = obeyed or InstructionFiles(self._root, list_protected_names())
        self._running: list[dict[str, NameMark]] = []
        self._folders = tuple(os.path.realpath(folder) for folder in folders)
        self._program, self._proxy = program, proxy
        self._filter = build_filter()
        self._works = False

    async def start(self, command: Command, limits: CommandLimits, /) -> ProcessTree:
        """Return when the sandbox is being set up; a program that is not in it is refused before."""
        await self._try()
        return await self._start(command, limits)

    async def describe(self) -> Confinement:
        await self._try()
        files = {"rw": "may be changed", "ro": "may be read", "none": "is out of reach"}[self._access]
        calls = "some system calls are refused" if self._filter else "no system call is refused: unknown processor"
        return Confinement(
            kind="sandbox",
            facts=(
                f"the workspace {files}; of the rest only the system's programs can be seen",
                "no network, unless it is granted", REACHED_BY_NETWORK, "no capabilities, none to be gained", calls,
                "processes, users, host name and shared memory are its own; all end with the first process",
                *host.limit_facts(),
            ),
        )  # fmt: skip

    async def _start(self, command: Command, limits: CommandLimits) -> ProcessTree:
        bwrap, argv = self._bwrap(), host.argv_of(command)
        cwd = self._cwd(command)
        root = "" if self._access == "none" else self._root
        host.find_program(argv[0], command.env, cwd, lambda path: is_seen(path, root, self._folders))
        settings = self._supervisor.settings.folder(self._supervisor.state.make_folder())
        access: Access = "ro" if command.only_reads and self._access == "rw" else self._access
        seen = await in_thread(self._obeyed.look) if access == "rw" else {}
        covers, uncovered = self._obeyed.cover(seen, self._running)
        masked = find_masked(command.denied, self._folders)
        hidden = () if access == "none" else tuple(filter(os.path.isdir, command.hidden))
        network = CommandNetwork(self._require_proxy()) if limits.network else None
        env = {**command.env, **(PROXY_ENV if network else {})}
        args = (
            *profile(
                root=self._root, access=access, folders=self._folders, settings=settings,
                home=command.env.get("HOME", ""), limits=limits,
            ),
            *(covers if access != "none" else ()),
            *(word for path in hidden for word in ("--tmpfs", path, "--remount-ro", path)),
            *(word for path in masked for word in ("--ro-bind", f"{settings}/{EMPTY_FILE_NAME}", path)),
            *(("--perms", "0755", "--ro-bind-data", str(SCRIPT), command.held[0]) if command.held else ()),
            *(word for name, value in env.items() for word in ("--setenv", name, value)),
            "--chdir", cwd, "--json-status-fd", str(STATUS), *(NETWORK_ARGS if network else ()),
            *(("--seccomp", str(FILTER)) if self._filter else ("--disable-userns",)),
        )  # fmt: skip
        # the terminal must be the command's, not bubblewrap's, or the interrupt key would end the sandbox
        before = _OWN_TERMINAL if command.pty else ()
        status, their_status = os.pipe()
        os.set_blocking(status, False)
        extra = {"status": their_status, **(network.fds if network else {})}
        if self._filter:
            extra["filter"] = open_memory(self._filter)
        if command.held:
            extra["held"] = open_memory(command.held[1])
        process: ProcessTree | None = None
        words = ("bwrap", "--args", str(ARGS), "--", *before, *argv)
        watch = (self._root, uncovered, self._supervisor.state.make_folder()) if uncovered else None
        spawn = Spawn(program=bwrap, argv=words, env={}, fds=extra, args=args, watch=watch)
        self._running += [seen] if seen else []

        def outcome(words: host.LastWords | None, duration: float) -> CommandEnded:
            if network:
                network.close()
            self._running = [each for each in self._running if each is not seen]
            tail = process.tail(2_000) if process else b""
            return _inner_end(host.read_last_words(words, duration), _read_exit_code(status), tail)

        try:
            process = await host.launch(self._supervisor, command, limits, spawn, outcome)
        except OSError as error:
            raise host.start_error(error, bwrap) from error
        finally:
            if process is None:
                if network:
                    network.close()
                self._running = [each for each in self._running if each is not seen]
                os.close(status)
            for fd in extra.values():
                os.close(fd)
        if network:
            try:
                await network.open()
            except BaseException:
                self._supervisor.stop(process.id, 0.0)
                raise
        return process

    def _require_proxy(self) -> GuardedProxy:
        if self._proxy is None:
            raise ToolError("no way out to the network was made for this sandbox", code="unavailable")
        return self._proxy

    def _cwd(self, command: Command) -> str:
        if self._access == "none":
            if resolve_inside(self._root, command.cwd) != self._root:
                raise ToolError(f"no folder {command.cwd!r} here: the workspace is out of reach", code="not_found")
            return self._root
        cwd, fd = host.folder_of(self._root, command.cwd, command.folder)
        os.close(fd)
        return cwd

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
            Command(argv=("/usr/bin/true",), env={}),
            replace(CommandLimits(), seconds=20.0, memory=None, processes=None),
        )
        how = await running.wait()
        if not how.ok:
            output = running.tail(400).decode("utf-8", "replace").strip().replace("\n", " ") or how.sentence()
            raise ToolError(
                f"the sandbox for commands cannot be made here ({output}); allow this user to make namespaces, "
                f"{_OTHERWISE}",
                code="unavailable",
            )
        self._works = True


def _read_exit_code(status: int) -> int | None:
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


def _inner_end(how: CommandEnded, code: int | None, tail: bytes) -> CommandEnded:
    """Return how the command itself ended, from how bubblewrap did.

    Bubblewrap tells an end by signal as shells do, by 128 and the signal's number. When it passed no code on, the
    command never ran: the exit code is 127 (no such program) or 126, again as in shells.
    """
    if how.reason != "exit":
        return how
    if code is None:
        return replace(how, code=127 if b"execvp" in tail and b"No such file" in tail else 126)
    if code - 128 in _SIGNALS:
        return replace(how, reason="signal", code=None, signal=code - 128)
    return replace(how, code=code)
