"""The protocol over stdin and stdout, one message a line; whatever else would be printed there goes to stderr.

Nothing here waits in a thread: a thread that reads stdin could not be stopped, and would keep the program from ending.
"""

import asyncio
import fcntl
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from toolcrib.threads import settle_future

_MESSAGE_BYTES = 32 * 1024 * 1024  # bytes of one message
_PIECE = 64 * 1024


@contextmanager
def claim_stdio() -> Iterator[tuple[int, int]]:
    """Take stdin and stdout for the protocol and yield their descriptors.

    Meanwhile whoever reads stdin, here or in a child, is at its end, and what is printed to stdout goes to stderr.
    """
    sys.stdout.flush()
    ours = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield ours[0], ours[1]
    finally:
        sys.stdout.flush()
        for fd, own in enumerate(ours):
            os.dup2(own, fd)
            os.close(own)


async def serve_stdio(server: Server, stdin: int, stdout: int) -> None:
    """Serve one client until it closes our stdin, or does not read our stdout any more; then every call is stopped."""
    incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()
    answers, outgoing = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as group:
        group.start_soon(_read_messages, stdin, incoming, answers.clone())
        group.start_soon(_write_messages, stdout, outgoing, group.cancel_scope)
        await server.run(messages, answers, server.create_initialization_options())


async def _read_messages(
    stdin: int,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    answers: MemoryObjectSendStream[SessionMessage],
) -> None:
    async with incoming, answers:
        async for line in _lines(stdin):
            try:
                message = jsonrpc_message_adapter.validate_json(line or b"", by_name=False)
            except ValidationError:
                too_long = f"a message has at most {_MESSAGE_BYTES:,} bytes"
                what = too_long if line is None else "this is no JSON-RPC message"
                fault = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=PARSE_ERROR, message=what))
                await answers.send(SessionMessage(fault))
            else:
                await incoming.send(SessionMessage(message))


async def _lines(stdin: int) -> AsyncIterator[bytes | None]:
    """Yield every line that is not blank, None for one that is too long to be read."""
    begun, is_too_long = bytearray(), False
    while piece := await _read(stdin):
        *lines, rest = piece.split(b"\n")
        for line in lines:
            begun += line
            if is_too_long:
                yield None
            elif begun.strip():
                yield bytes(begun)
            begun, is_too_long = bytearray(), False
        begun += rest
        if len(begun) > _MESSAGE_BYTES:
            begun, is_too_long = bytearray(), True
    if begun.strip():
        yield bytes(begun)


async def _write_messages(
    stdout: int, outgoing: MemoryObjectReceiveStream[SessionMessage], everything: anyio.CancelScope
) -> None:
    async with outgoing:
        async for message in outgoing:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await _write(stdout, f"{line}\n".encode())
            except OSError:  # nobody reads our answers any more
                everything.cancel()
                return


async def _read(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    await _ready(fd, loop.add_reader, loop.remove_reader)
    return os.read(fd, _PIECE)


async def _write(fd: int, data: bytes) -> None:
    """Write it all; a pipe that is ready takes PIPE_BUF bytes without holding us up."""
    loop, rest = asyncio.get_running_loop(), memoryview(data)
    while rest:
        await _ready(fd, loop.add_writer, loop.remove_writer)
        rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]


async def _ready(fd: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        add(fd, settle_future, ready, None, None)
    except PermissionError:  # a file, which is always ready
        return
    try:
        await ready
    finally:
        remove(fd)
