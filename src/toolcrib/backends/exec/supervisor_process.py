"""The supervisor: a process of its own that starts commands, watches over their trees and ends them.

`SupervisorClient` starts it. It stands between us and the commands for three reasons. It adopts every orphan (it is a
subreaper), so nothing gets away by losing its parents, and our own process is left as it was. When we die, however that
happens, it notices and ends what runs. And it is small, so starting a command from it is quick. It imports next to
nothing. A second process only waits for it: when the first is killed, the second ends what ran.

We send lines of JSON, a start with descriptors beside it; it answers with lines of JSON, one when a command runs (or
cannot) and one when nothing of it is left.
"""

import ctypes
import fcntl
import json
import math
import os
import random
import resource
import select
import signal
import socket
import sys
import time
from contextlib import nullcontext, suppress
from typing import Any

from . import tree
from .instruction_files import put_aside
from .limits import Group, hierarchies, remove_stale_groups

FILTER, ARGS, STATUS, SCRIPT, MADE, BLOCK = range(100, 106)
"""Descriptors that bubblewrap is given: the filter of system calls, its arguments, where it says how things went, and
with a network, where it says which namespaces it made and where it waits before it runs the command."""

PROXY_PORT = 880
"""Where the proxy listens in the network of a command: a port that the command, without privileges, cannot take."""

_PARENT_DIED, _SUBREAPER, _TIMER_SLACK = 1, 36, 29  # names of prctl
_FIRST_MARK, _LAST_MARK = 50_001, 99_999  # 50,000 is what everybody has
_AGAIN, _GIVE_UP = 0.1, 5.0  # seconds: looking again at a tree that is being ended; after the first KILL
_WATCH_SECONDS, _WEIGH_SECONDS = 1.0, 0.2
_MAX_SPARE_GROUPS = 8
_GET_OWNER, _NEW_USER, _NEW_NETWORK = 0xB701, 0x10000000, 0x40000000  # of a namespace; kinds of namespaces
_FREE_BIND, _BACKLOG = 15, 128
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT)
_RESET = (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGUSR1)

_Message = dict[str, Any]


class SupervisedCommand:
    """One command: its first process, and how far it is from its end."""

    def __init__(self, spec: _Message, pid: int, mark: int, group: Group | None) -> None:
        self.id: int = spec["id"]
        self.pid, self.mark, self.group = pid, mark, group
        self.helper = 0  # a process of ours that ends before the command begins
        self.sandboxed: bool = spec["args"] is not None
        self.began = time.monotonic()
        self.deadline = self.began + spec["seconds"] if spec["seconds"] is not None else math.inf
        self.grace: float = spec["grace"]
        self.status: int | None = None
        self.reason = ""
        self.kill_at: float | None = None
        self.killed_at: float | None = None
        self.watch, self.watch_at = spec["watch"], self.began + _WATCH_SECONDS if spec["watch"] else math.inf
        self.withheld: dict[str, None] = {}
        memory = spec["limits"].get("memory") if group is None or "memory" not in group.kinds else None
        self.memory, self.weigh_at = memory or 0, self.began + _WEIGH_SECONDS if memory else math.inf
        self.limit = ""

    def next_look(self) -> float:
        """Return when this command needs attention without anything happening."""
        if self.kill_at is not None:
            return time.monotonic() + _AGAIN if self.killed_at or self.status is not None else self.kill_at
        return min(self.watch_at, self.weigh_at, self.deadline) if self.status is None else time.monotonic()

    def put_aside(self) -> None:
        """Take away what it has made that the host would obey."""
        if self.watch:
            self.watch_at = time.monotonic() + _WATCH_SECONDS
            self.withheld.update(dict.fromkeys(put_aside(*self.watch)))


class Supervisor:
    """All commands, in one loop over one socket, the deaths of children and the clock."""

    def __init__(self, control: socket.socket) -> None:
        self._control, self._buffer = control, b""
        self._fds: list[int] = []
        self._kept: dict[int, SupervisedCommand] = {}
        self._leaders: dict[int, SupervisedCommand] = {}
        self._mark = random.randint(_FIRST_MARK, _LAST_MARK)  # noqa: S311  no secret
        self._parent, self._closing = os.getppid(), False
        self._prctl = ctypes.CDLL(None).prctl
        self._set(_SUBREAPER, 1)
        self._set(_PARENT_DIED, signal.SIGUSR1)
        self._places, self._spare = hierarchies(), list[Group]()
        for place in self._places:
            remove_stale_groups(place)
        self._wake, write = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        for number in _IGNORED:  # we end when our parent does, not on a signal to the terminal or the group
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> None:
        """Serve until our parent is gone and nothing is left."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not (self._closing and not self._kept):
            ready = dict(poll.poll(self._timeout()))
            if self._wake in ready:
                with suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            if self._control.fileno() in ready and not self._closing:
                self._receive()
            if self._closing or os.getppid() != self._parent:
                self._close(poll)
            self._reap()
            for kept in list(self._kept.values()):
                self._look(kept)
        for group in self._spare:
            group.remove()

    def _timeout(self) -> float | None:
        at = min((kept.next_look() for kept in self._kept.values()), default=math.inf)
        return None if at == math.inf else max(0.0, at - time.monotonic()) * 1000 + 1

    def _close(self, poll: "select.poll") -> None:
        if not self._closing or self._control.fileno() >= 0:
            self._closing = True
            with suppress(KeyError):
                poll.unregister(self._control)
            self._control.close()
        for kept in self._kept.values():
            self._end(kept, "lost", kept.grace)

    def _set(self, name: int, value: int) -> None:
        self._prctl(name, ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3)

    # ---- requests

    def _receive(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 65_536, 16)
        except ConnectionError:
            data, fds = b"", []
        for fd in fds:  # Python 3.11 leaves out the flag that would do it
            os.set_inheritable(fd, False)
        self._fds += fds
        if not data:
            self._closing = True
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "fds" in message:
                self._start(message)
            elif kept := self._kept.get(message["id"]):
                if "signal" in message:
                    tree.send(self._inside(kept), message["signal"])
                else:
                    self._end(kept, "stop", message["grace"])

    def _say(self, message: _Message) -> None:
        with suppress(OSError):  # the other side is closed
            self._control.sendall(json.dumps(message).encode() + b"\n")

    # ---- starting

    def _start(self, spec: _Message) -> None:
        count = len(spec["fds"])
        fds, self._fds = self._fds[:count], self._fds[count:]
        given = dict(zip(spec["fds"], fds, strict=True))
        if "paper" in given:  # too long for the socket
            spec = json.loads(tree.read_kernel_file(f"/proc/self/fd/{given['paper']}"))
        mark, group = self._next_mark(), None
        try:
            group = self._group(spec)
            pid = self._spawn(spec, given, mark, group)
            helper = _open_network(pid, given) if "network" in given else 0
        except OSError as error:
            self._keep_group(group)
            self._say({"id": spec["id"], "errno": error.errno or 0, "about": error.filename or ""})
            return
        finally:
            for fd in fds:
                os.close(fd)
        kept = SupervisedCommand(spec, pid, mark, group)
        kept.helper = helper
        self._kept[kept.id] = self._leaders[pid] = kept
        self._say({"id": kept.id, "pid": pid, "born": (tree.birth(pid) or (pid, 0))[1], "mark": mark})

    def _next_mark(self) -> int:
        used = {kept.mark for kept in self._kept.values()}
        while True:
            self._mark = self._mark + 1 if self._mark < _LAST_MARK else _FIRST_MARK
            if self._mark not in used:
                return self._mark

    def _group(self, spec: _Message) -> Group | None:
        """Return control groups for these limits: spare ones, or new ones."""
        limits = spec["limits"]
        if not self._places or not limits:
            return None
        for index, group in enumerate(self._spare):
            if group.limits == limits:
                return self._spare.pop(index)
        return Group(f"toolcrib-{os.getpid()}-{spec['id']}", limits, self._places)

    def _keep_group(self, group: Group | None) -> None:
        """Keep groups for the next command, if they are empty and not too many."""
        if group is not None:
            self._spare.append(group)
            if len(self._spare) > _MAX_SPARE_GROUPS:
                self._spare.pop(0).remove()

    def _spawn(self, spec: _Message, given: dict[str, int], mark: int, group: Group | None) -> int:
        """Start the program with these descriptors and no others, in a session of its own."""
        if "cwd" in given:
            os.fchdir(given["cwd"])
        self._set(_TIMER_SLACK, mark)
        actions: list[tuple[Any, ...]]
        if spec["tty"]:  # opened by the first process of a session, it becomes its terminal; not bubblewrap's, though
            flags = os.O_RDWR | (os.O_NOCTTY if spec["args"] is not None else 0)
            actions = [(os.POSIX_SPAWN_OPEN, 0, spec["tty"], flags, 0)]
            actions += [(os.POSIX_SPAWN_DUP2, 0, to) for to in (1, 2)]
        else:
            sources = (given["stdin"], given["out"], given.get("err", given["out"]))
            actions = [(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate(sources)]
        gate = None
        if spec["args"] is not None:
            wait, gate = os.pipe()
            given = {**given, "args": wait}
            actions += [(os.POSIX_SPAWN_DUP2, given[name], to) for name, to in _FOR_BWRAP if name in given]
        try:
            with group.enter() if group else nullcontext():
                pid = os.posix_spawn(
                    spec["program"], [os.fsencode(word) for word in spec["argv"]],
                    {os.fsencode(name): os.fsencode(value) for name, value in spec["env"].items()},
                    file_actions=actions, setsid=True, setsigmask=(), setsigdef=_RESET,
                )  # fmt: skip
            self._limit(pid, spec["limits"], group)
            if gate is not None:  # bubblewrap reads its arguments before it does anything: now it is within its limits
                with suppress(BrokenPipeError), open(os.dup(gate), "wb") as file:  # noqa: PTH123
                    file.write(b"\0".join(os.fsencode(word) for word in spec["args"]) + b"\0")
        finally:
            os.chdir("/")
            if gate is not None:
                os.close(gate)
                os.close(given["args"])
        return pid

    def _limit(self, pid: int, limits: dict[str, int], group: Group | None) -> None:
        held: set[str] = set()
        with suppress(ProcessLookupError):
            if group:
                group.join(pid)
                held = group.kinds
            if "file" in limits:
                _lower(pid, resource.RLIMIT_FSIZE, limits["file"])
            if "memory" in limits and "memory" not in held:
                _lower(pid, resource.RLIMIT_DATA, limits["memory"])
            if "pids" in limits and "pids" not in held and os.getuid():
                _lower(pid, resource.RLIMIT_NPROC, limits["pids"] + _tasks_of(os.getuid()))

    # ---- ending

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if kept := self._leaders.pop(pid, None):
                kept.status = status

    def _look(self, kept: SupervisedCommand) -> None:
        now = time.monotonic()
        if now >= kept.watch_at:
            kept.put_aside()
        if now >= kept.weigh_at and kept.kill_at is None:  # no group counts what the whole tree holds
            kept.weigh_at = now + _WEIGH_SECONDS
            if tree.count_memory(self._rest(kept), kept.memory) > kept.memory:
                kept.limit = "memory"
                self._end(kept, "", 0.0)
        if kept.kill_at is None and kept.status is None:
            if now < kept.deadline:
                return
            self._end(kept, "timeout", kept.grace)
        left = self._rest(kept)
        if not left and kept.status is not None:
            self._finish(kept, 0)
        elif kept.kill_at is None:  # the first process ended by itself and left others
            self._end(kept, "", min(kept.grace, 1.0))
        elif now >= kept.kill_at:
            kept.killed_at = kept.killed_at or now
            if now - kept.killed_at > _GIVE_UP:
                self._finish(kept, len(left))
            else:
                tree.freeze_and_kill(left)

    def _end(self, kept: SupervisedCommand, reason: str, grace: float) -> None:
        """Begin to end a tree, or be quicker about it."""
        kill_at = time.monotonic() + grace
        if kept.kill_at is None:
            kept.reason = reason if kept.status is None else ""
            kept.kill_at = kill_at
            inside = self._inside(kept)
            tree.send(inside, signal.SIGTERM)
            tree.send(inside, signal.SIGCONT)  # who was stopped cannot end
            if not inside:  # a sandbox that is still empty
                kill_at = 0.0
        kept.kill_at = min(kept.kill_at, kill_at)

    def _rest(self, kept: SupervisedCommand) -> list[int]:
        """Return what is left of a tree: what hangs beneath its first process, and its orphans, adopted by us."""
        roots = [kept.pid] if kept.status is None else []
        roots += kept.group.list_pids() if kept.group and not kept.sandboxed else []
        others = [each for each in self._kept.values() if each is not kept]
        for pid in tree.children(os.getpid()):
            # a process that hides its owner belongs to no running command: it ends with the next that ends
            is_nobodys = kept.status is not None and not any(self._owns(each, pid) for each in others)
            if pid not in self._leaders and (is_nobodys or self._owns(kept, pid)):
                roots.append(pid)
        return tree.descendants(roots)

    def _owns(self, kept: SupervisedCommand, pid: int) -> bool:
        in_group = kept.group is not None and not kept.sandboxed and pid in kept.group.list_pids()
        is_ours = pid == kept.helper or tree.timer_slack(pid) == kept.mark or tree.is_in_session(pid, kept.pid)
        return in_group or is_ours

    def _inside(self, kept: SupervisedCommand) -> list[int]:
        """Return the processes of the command itself: not those of bubblewrap, whose end is the end of all at once."""
        if not kept.sandboxed or kept.status is not None:
            return self._rest(kept)
        first = [pid for init in tree.children(kept.pid) for pid in tree.children(init)]
        return tree.descendants(first)

    def _finish(self, kept: SupervisedCommand, left: int) -> None:
        del self._kept[kept.id]
        self._leaders.pop(kept.pid, None)
        limit = kept.limit or (kept.group.hit() if kept.group and kept.status else "")
        duration = time.monotonic() - kept.began
        kept.put_aside()
        ended = {"status": kept.status, "reason": kept.reason, "left": left, "limit": limit, "duration": duration}
        self._say({"id": kept.id, "ended": {**ended, "withheld": [*kept.withheld]}})
        if not left:
            self._keep_group(kept.group)


_FOR_BWRAP = (
    ("filter", FILTER), ("args", ARGS), ("status", STATUS), ("held", SCRIPT), ("made", MADE), ("made", BLOCK),
)  # fmt: skip


def _open_network(bwrap: int, given: dict[str, int]) -> int:
    """Listen in the network of a sandbox while it is made, and hand the socket out; return who does it.

    That takes a process of its own, because who enters a namespace of users never comes back. The sandbox waits until
    it has ended; where it cannot listen, it does not end before the sandbox does.
    """
    try:
        if helper := os.fork():
            return helper
    except OSError:
        os.kill(bwrap, signal.SIGKILL)
        raise
    info, client = b"", socket.socket(fileno=given["network"])
    try:
        os.close(given["made"])
        while b"}" not in info and (data := os.read(given["news"], 4096)):
            info += data
        with suppress(FileNotFoundError, ProcessLookupError):  # a sandbox that has ended says why by itself
            if info:
                listener = _listen_within(json.loads(info))
                socket.send_fds(client, [b"+"], [listener.fileno()])
    except (OSError, ValueError, KeyError) as error:
        client.sendall(str(error).encode())
        while os.read(given["news"], 4096):
            pass
    finally:
        os._exit(0)


def _listen_within(made: _Message) -> socket.socket:
    network = os.open(f"/proc/{made['child-pid']}/ns/net", os.O_RDONLY)
    if os.fstat(network).st_ino != made["net-namespace"]:
        raise OSError("another process stands where the sandbox was")
    owner = fcntl.ioctl(network, _GET_OWNER)
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace, kind in ((owner, _NEW_USER), (network, _NEW_NETWORK)):
        if libc.setns(namespace, kind):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    listener = socket.socket()
    listener.setsockopt(socket.IPPROTO_IP, _FREE_BIND, 1)  # bubblewrap may not have come to the address yet
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(_BACKLOG)
    return listener


def _lower(pid: int, kind: int, limit: int) -> None:
    """Lower a limit of a process for good; one that is lower already stays."""
    _, hard = resource.prlimit(pid, kind)
    if hard == resource.RLIM_INFINITY or hard > limit:
        resource.prlimit(pid, kind, (limit, limit))


def _tasks_of(uid: int) -> int:
    """Return how many processes and threads a user has: the kernel counts them all, not those of one tree."""
    count = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:  # noqa: PTH116
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
    return count


def main() -> None:
    """Serve the socket that is standard input."""
    os.dup2(0, 3, inheritable=False)
    os.closerange(4, 1 << 20)  # descriptors that our parent inherited are not for commands
    control = socket.socket(fileno=3)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1):  # errors here go where our parent's go
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_SUBREAPER, ctypes.c_ulong(1), *(ctypes.c_ulong(0),) * 3)
    if supervisor := os.fork():
        control.close()
        _outlive(supervisor)
    else:
        Supervisor(control).run()
    sys.exit(0)


def _outlive(supervisor: int) -> None:
    """Wait for the supervisor to end, and end what it has left if it was killed: its orphans are ours then."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.waitpid(supervisor, 0)
    until = time.monotonic() + _GIVE_UP
    while (left := tree.children(os.getpid())) and time.monotonic() < until:
        tree.freeze_and_kill(left)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_AGAIN / 10)
