"""A server that is a program: started by the supervisor, spoken to in lines, ended with all it has started."""

import asyncio
import fcntl
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from toolcrib.backends.exec.host import find_program, start_error
from toolcrib.backends.exec.supervisor import Spawn, StartedCommand, SupervisorClient
from toolcrib.define.display import strip
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import LinkTerms

from .peer import MESSAGE_BYTES, Linked, MakePeer, ServerPeer, decode, encode

_PIECE = 1 << 18  # bytes that are read at a time
_MAX_UNSENT = 32 * 1024 * 1024  # bytes that wait for a server which does not read
_MAX_NOISE = 1_000  # lines that are no message; some servers write their log to the wrong place
_TAIL = 16 * 1024  # bytes of what a server writes for its operator
_MOMENT = 0.5  # seconds
_GRACE = 1.0  # seconds between closing its input, TERM and KILL


class Program(NamedTuple):
    """What is started: a command, its words, its environment as it was built, and where it runs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


class Stdio:
    """Lines to and from one process, by the descriptors of its input, its output and what it tells its operator."""

    def __init__(
        self, supervisor: SupervisorClient, begun: StartedCommand, fds: Sequence[int], peer: ServerPeer
    ) -> None:
        self._supervisor, self._started, self._peer = supervisor, begun, peer
        self._in, self._out, self._err = fds
        self._loop = asyncio.get_running_loop()
        self._line, self._noise, self._said = bytearray(), 0, b""
        self._unsent = bytearray()
        for fd in fds:
            os.set_blocking(fd, False)
        self._loop.add_reader(self._out, self._read)
        self._loop.add_reader(self._err, self._listen)
        begun.ended.add_done_callback(self._handle_end)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Hand over a message; a server that does not read for long is cut off."""
        if self._in < 0:
            raise ToolError("the program takes no more messages", code="unavailable")
        self._unsent += encode(message) + b"\n"
        if len(self._unsent) > _MAX_UNSENT:
            self._lose(f"was cut off: it does not read what it is sent ({_MAX_UNSENT:,} bytes wait)")
            return
        self._write()

    def agree(self, version: str) -> None:
        """Do nothing: a message between us and a program does not say the version."""

    def diagnostics(self) -> str:
        """Return the end of what the program wrote for its operator."""
        return strip(self._said.decode(errors="replace")).strip()

    async def close(self) -> None:
        """End the program: its input is closed, then it is asked to end, then it is killed."""
        self._close_input()
        ended = (self._started.ended,)
        try:
            await asyncio.wait(ended, timeout=_GRACE)
            if not self._started.ended.done():
                self._supervisor.stop(self._started.id, _GRACE)
                await asyncio.wait(ended)
        finally:
            if not self._started.ended.done():
                self._supervisor.stop(self._started.id, 0.0)
            self._close_all()

    def _read(self) -> bool:
        """Take what came, at most a piece of it; return whether more may follow."""
        try:
            piece = os.read(self._out, _PIECE)
        except BlockingIOError:
            return False
        if not piece:
            self._loop.remove_reader(self._out)
            self._lose_soon("closed its output")
            return False
        first, *others = piece.split(b"\n")
        self._line += first
        if len(self._line) > MESSAGE_BYTES:
            self._lose(f"was cut off: it sent a line of more than {MESSAGE_BYTES:,} bytes")
            return False
        for end in others:
            line, self._line = bytes(self._line), bytearray(end)
            self._take(line.strip())
            if self._out < 0:
                return False
        return True

    def _take(self, line: bytes) -> None:
        if not (weight := self._peer.admit(line)):
            if self._peer.lost.done() and self._out >= 0:
                self._loop.remove_reader(self._out)
            return
        try:
            message = decode(line)
        except ValueError:
            message = None
        if isinstance(message, dict | list):
            self._peer.receive(message, weight)
        elif line.startswith(b"{"):  # meant as a message: its caller would wait for ever
            self._lose("was cut off: it sent a message that is no JSON")
        else:
            self._noise += 1
            if self._noise > _MAX_NOISE:
                self._lose(f"was cut off: it wrote {_MAX_NOISE:,} lines to its output that are no messages")

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            piece = os.read(self._err, _PIECE)
            self._said = (self._said + piece)[-_TAIL:]
            if not piece:
                self._loop.remove_reader(self._err)

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._in, self._unsent[:_PIECE])]
        except BlockingIOError:
            self._loop.add_writer(self._in, self._write)
            return
        except OSError:
            self._close_input()
            self._lose_soon("closed its input")
            return
        self._loop.remove_writer(self._in)

    def _handle_end(self, ended: "asyncio.Future[dict[str, Any] | None]") -> None:
        if self._loop.is_closed():
            return
        while self._out >= 0 and self._read():
            pass
        words = None if ended.cancelled() else ended.result()
        status = words["status"] if words else None
        code = os.waitstatus_to_exitcode(status) if status is not None else None
        if code is None:
            self._lose("was ended")
        else:
            self._lose(f"ended with the code {code}" if code >= 0 else f"was ended by the signal {-code}")

    def _lose_soon(self, why: str) -> None:
        """Wait a moment for the end of the process, which says more than the end of its pipes."""
        self._loop.call_later(_MOMENT, self._lose, why)

    def _lose(self, why: str) -> None:
        """No more is read or written; the process is ended by `close`, which the caller of this calls."""
        if self._err >= 0 and not self._loop.is_closed():
            self._listen()
        self._close_all()
        if not self._started.ended.done():
            self._supervisor.stop(self._started.id, _GRACE)
        self._peer.lose(why)

    def _close_input(self) -> None:
        if self._in >= 0:
            self._loop.remove_writer(self._in)
            os.close(self._in)
            self._in = -1

    def _close_all(self) -> None:
        self._close_input()
        for fd in {self._out, self._err} - {-1}:
            self._loop.remove_reader(fd)
            os.close(fd)
        self._out = self._err = -1


async def connect_over_stdio(
    program: Program, supervisor: SupervisorClient, terms: LinkTerms, make_peer: MakePeer
) -> Linked:
    """Start a program and shake hands with it; raise ToolError, nothing of it left, when that fails."""
    peer = make_peer(lambda message: transport.send(message))
    transport = await _start(supervisor, program, peer)
    link = Linked(peer, transport, terms)
    await link.open()
    return link


async def _start(supervisor: SupervisorClient, program: Program, peer: ServerPeer) -> Stdio:
    """Start a program and return the way to talk to it; raise ToolError when it cannot be started."""
    name = program.argv[0]
    path = find_program(name, program.env, program.cwd, lambda _: True)
    with ExitStack() as theirs, ExitStack() as ours:
        fds: dict[str, int] = {}
        mine: list[int] = []
        try:
            fds["cwd"] = os.open(program.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"its folder cannot be used: {error.strerror}", code="not_found") from None
        theirs.callback(os.close, fds["cwd"])
        for which in ("stdin", "out", "err"):
            read, write = os.pipe()
            fds[which], own = (read, write) if which == "stdin" else (write, read)
            theirs.callback(os.close, fds[which])
            ours.callback(os.close, own)
            mine.append(own)
        with suppress(OSError):  # a small pipe is only slower
            fcntl.fcntl(mine[1], fcntl.F_SETPIPE_SZ, 1 << 20)
        # shown are neither its words nor its environment: either may hold a secret
        spawn = Spawn(
            program=path, argv=program.argv, env=program.env, fds=fds, grace=_GRACE,
            shown=f"the MCP server {peer.name}",
        )  # fmt: skip
        try:
            begun = await supervisor.start(spawn)
        except OSError as error:
            raise start_error(error, name) from None
        ours.pop_all()
        return Stdio(supervisor, begun, mine, peer)
