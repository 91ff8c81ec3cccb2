"""The client of the supervisor: a process that starts commands and ends their trees, one for all shells of a crib."""

import asyncio
import errno
import json
import os
import shutil
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Leftover
from toolcrib.lazy import dataclass, field
from toolcrib.threads import in_thread

from . import tree
from .instruction_files import put_aside
from .profile import Settings

_SOURCE = str(Path(__file__).parents[3])
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from toolcrib.backends.exec.supervisor_process import main; main()"
_LINE_BYTES = 2_048  # what is longer goes beside the line: as many as may run at once fit into the socket
_PATIENCE = 60.0  # seconds a command waits for its turn
_NOTE_CHARS = 500  # of a command line
_END_SECONDS = 2.0

_Message = dict[str, Any]


class SupervisorState:
    """The commands of one supervisor, written down in `folder`, or held in memory only.

    The supervisor ends everything when we die. This is for when it was killed too: the next start finds what the crash
    has left. A command is a small file; its name says which process, its content what it was and who kept it.
    """

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self._held: dict[str, _Message] = {}
        self._made = False
        self._owner = tree.birth(os.getpid()) or (0, 0)

    def add(self, pid: int, born: int, mark: int, spawn: "Spawn") -> str:
        """Write a command down; return its name."""
        name = f"command-{pid}-{born}.json"
        note: _Message = {
            "pid": pid, "born": born, "mark": mark, "owner": self._owner,
            "command": spawn.shown[:_NOTE_CHARS], "started": time.time(), "watch": spawn.watch,
        }  # fmt: skip
        self._held[name] = note
        folder = self.make_folder()
        if folder is not None:
            with suppress(OSError):  # a full disk is no reason not to run
                new = f"{folder}/note-{os.getpid()}-{name}"  # half of it looks torn to a crib that starts
                fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                try:
                    os.write(fd, json.dumps(note).encode())
                finally:
                    os.close(fd)
                os.rename(new, f"{folder}/{name}")  # noqa: PTH104
        return name

    def make_folder(self) -> str | None:
        """Return the folder, made when it was not there; None when there is none or it cannot be made."""
        if self.folder is not None and not self._made:
            with suppress(OSError):
                os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
                self._made = True
        return self.folder if self._made else None

    def remove(self, name: str) -> None:
        self._held.pop(name, None)
        if self.folder is not None:
            with suppress(OSError):
                os.unlink(f"{self.folder}/{name}")  # noqa: PTH108

    def take(self) -> dict[str, _Message]:
        """Return the notes by name, for `end`, and forget them."""
        held, self._held = self._held, {}
        return held

    def end(self, notes: dict[str, _Message]) -> None:
        """Kill what notes name; takes a while."""
        for name, note in notes.items():
            _end(note)
            self.remove(name)


def end_leftovers(folder: str) -> list[Leftover]:
    """Return the commands that ran when their crib died, after ending what was still there of them."""
    found = []
    for path in sorted(Path(folder).glob("command-*.json")):
        try:
            note = json.loads(path.read_bytes())
            if tree.is_alive(tuple(note["owner"])):
                continue
            pids = _end(note)
            left = Leftover(pid=note["pid"], command=note["command"], started=note["started"], pids=tuple(pids))
        except FileNotFoundError:  # its command ended just now
            continue
        except (ValueError, KeyError, TypeError):  # torn by the crash: it was about to run
            left = Leftover(pid=0, command="", started=0.0)
        found.append(left)
        path.unlink(missing_ok=True)
    for kind in ("output", "settings", "note"):
        for path in Path(folder).glob(f"{kind}-*"):
            _remove_old(path)
    return found


def _end(note: _Message) -> list[int]:
    """Kill the processes of a command, waiting a little until they are gone; return their numbers."""
    leader, mark = (int(str(note["pid"])), int(str(note["born"]))), int(str(note["mark"]))
    ended: set[int] = set()
    until = time.monotonic() + _END_SECONDS
    while True:
        roots = [pid for pid in tree.find_marked(mark, leader) if pid != os.getpid()]
        if tree.is_alive(leader):
            roots.append(leader[0])
        pids = tree.descendants(roots)
        if not pids or time.monotonic() > until:
            if note.get("watch"):
                put_aside(*note["watch"])
            return sorted(ended)
        ended.update(pids)
        tree.freeze_and_kill(pids)
        time.sleep(0.01)


def _remove_old(path: Path) -> None:
    """Remove what a crib that is gone has kept: nothing refers to it."""
    owner = path.name.split("-")[1]
    if not owner.isdigit() or tree.stat(int(owner)) is not None:
        return
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """What the supervisor starts: a program, what it is given, and the descriptors it gets by name.

    `args` are for bubblewrap, which reads them only after its limits are set; None for everything else. `seconds` is
    how long it may run, `grace` what it has between TERM and KILL, `watch` what `put_aside` is asked about it.
    """

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    fds: Mapping[str, int]
    seconds: float | None = None
    grace: float = 0.0
    limits: Mapping[str, int] = field(default_factory=dict)
    args: tuple[str, ...] | None = None
    tty: str = ""
    shown: str = ""
    watch: tuple[str, Mapping[str, str], str | None] | None = None


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """A command that runs; `ended` becomes the supervisor's last words about it, None when that itself ended."""

    id: int
    pid: int
    ended: "asyncio.Future[_Message | None]"


class SupervisorClient:
    """Starts at most `most` commands at once; `waiting` more wait for their turn. `state` is a folder of ours."""

    def __init__(self, state: str | None = None, *, most: int = 64, waiting: int = 1_000) -> None:
        self.state, self.settings = SupervisorState(state), Settings()
        self.buffer = bytearray(1 << 18)  # what is read from commands passes through here
        self._most, self._most_waiting = most, waiting
        self._running = 0
        self._turns: deque[asyncio.Future[None]] = deque()
        self._control: socket.socket | None = None
        self._pid, self._line, self._next = 0, b"", 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: dict[int, asyncio.Future[_Message]] = {}
        self._ended: dict[int, asyncio.Future[_Message | None]] = {}
        self._burials: set[asyncio.Future[None]] = set()

    async def start(self, spawn: Spawn) -> StartedCommand:
        """Return when the program runs; OSError when the system did not start it."""
        await self._turn()
        try:
            id = self._send_start(spawn)
        except BaseException:
            self._pass_on()
            raise
        loop = asyncio.get_running_loop()
        reply = self._starting[id] = loop.create_future()
        ended = self._ended[id] = loop.create_future()
        ended.add_done_callback(lambda _: self._pass_on())
        try:
            answer = await reply
        except asyncio.CancelledError:
            self.stop(id, 0.0)  # in order behind the start, whether that has happened or not
            raise
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["about"] or None)
        kept = self.state.add(answer["pid"], answer["born"], answer["mark"], spawn)
        ended.add_done_callback(lambda _: self.state.remove(kept))
        return StartedCommand(id, answer["pid"], ended)

    def signal(self, id: int, number: int) -> None:
        self._send({"id": id, "signal": number})

    def stop(self, id: int, grace: float) -> None:
        """End a command: TERM, and KILL after so many seconds."""
        self._send({"id": id, "grace": grace})

    async def close(self) -> None:
        """End everything that runs; return when nothing of it is left."""
        self.settings.close()
        if self._burials:
            await asyncio.wait(self._burials, timeout=10.0)
        if self._control is None:
            return
        for id in list(self._ended):
            self.stop(id, 1.0)
        if self._ended:
            await asyncio.wait(list(self._ended.values()), timeout=10.0)
        pid = self._pid
        self._forget()
        with suppress(ChildProcessError):
            await in_thread(os.waitpid, pid, 0)

    # ---- turns

    async def _turn(self) -> None:
        if self._running < self._most:
            self._running += 1
            return
        if len(self._turns) >= self._most_waiting:
            raise ToolError(
                f"{self._most} commands run and {len(self._turns)} wait already; end some of them first", code="busy"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await asyncio.wait_for(turn, _PATIENCE)
        except TimeoutError:
            raise ToolError(
                f"{self._most} commands run already and none ended within {_PATIENCE:.0f} s; end one first", code="busy"
            ) from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a turn to who has waited longest."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    # ---- talking to the process

    def _send_start(self, spawn: Spawn) -> int:
        control = self._connect()
        self._next += 1
        line = _line({
            "id": self._next, "program": spawn.program, "argv": spawn.argv, "env": spawn.env, "seconds": spawn.seconds,
            "grace": spawn.grace, "limits": spawn.limits, "args": spawn.args, "tty": spawn.tty, "fds": [*spawn.fds],
            "watch": spawn.watch,
        })  # fmt: skip
        fds, paper = [*spawn.fds.values()], None
        if len(line) > _LINE_BYTES:
            paper = open_memory(line)
            fds, line = [*fds, paper], _line({"fds": [*spawn.fds, "paper"]})
        try:
            socket.send_fds(control, [line + b"\n"], fds)
        except OSError as error:
            raise ToolError(f"the keeper of commands does not listen ({error.strerror})") from error
        finally:
            if paper is not None:
                os.close(paper)
        return self._next

    def _send(self, message: _Message) -> None:
        if self._control is not None:
            with suppress(OSError):  # it is gone, and so are its commands
                self._control.sendall(json.dumps(message).encode() + b"\n")

    def _connect(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        if self._control is None:
            self._control, theirs = socket.socketpair()
            with theirs:
                self._pid = _spawn(theirs.fileno())
            self._control.setblocking(False)
        if self._loop is not loop:  # a crib may live through several loops, one after the other
            if self._loop is not None and not self._loop.is_closed():
                raise ToolError("the commands of this crib belong to another event loop")
            self._loop = loop
            loop.add_reader(self._control.fileno(), self._receive)
        return self._control

    def _receive(self) -> None:
        if self._control is None:
            return
        try:
            data = self._control.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._clean_up()
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))

    def _handle(self, message: _Message) -> None:
        id = message["id"]
        if "ended" in message:
            _settle(self._ended.pop(id, None), message["ended"])
            return
        _settle(self._starting.pop(id, None), message)
        if "errno" in message:
            _settle(self._ended.pop(id, None), None)

    def _clean_up(self) -> None:
        """End what a supervisor that is gone has left, and settle every wait for it."""
        starting, self._starting = self._starting, {}
        ended, self._ended = self._ended, {}
        pid, notes = self._pid, self.state.take()

        def reap() -> None:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            self.state.end(notes)

        seeing_to = asyncio.ensure_future(in_thread(reap))
        self._forget()

        def settle_all(_: "asyncio.Future[None]") -> None:
            self._burials.discard(seeing_to)
            for reply in starting.values():
                _settle(reply, {"errno": errno.EIO, "about": ""})
            for end in ended.values():
                _settle(end, None)

        self._burials.add(seeing_to)
        seeing_to.add_done_callback(settle_all)

    def _forget(self) -> None:
        if self._control is None:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._control.fileno())
        self._control.close()
        self._control, self._loop, self._line = None, None, b""


def open_memory(data: bytes) -> int:
    """Return a descriptor from which these bytes can be read."""
    fd = os.memfd_create("toolcrib", os.MFD_CLOEXEC)
    with memoryview(data) as rest:
        done = 0
        while done < len(data):
            done += os.write(fd, rest[done:])
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _line(message: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:  # bytes that are no text, as surrogates
        return json.dumps({**message, "env": dict(message["env"])}).encode()


def _spawn(control: int) -> int:
    """Start the process; it gets nothing of our environment."""
    actions = [(os.POSIX_SPAWN_DUP2, control, 0)]
    argv = [sys.executable, "-I", "-S", "-c", _RUN, _SOURCE]
    return os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True, setsigmask=())


def _settle(future: "asyncio.Future[Any] | None", value: Any) -> None:
    if future is not None and not future.done() and not future.get_loop().is_closed():
        future.set_result(value)
