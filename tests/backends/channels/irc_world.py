"""A real IRC server on loopback, and people who write there."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.apart import unpack_apart

from toolcrib.backends.channels.irc import IrcLine, parse_line

SECONDS = 240.0  # the server takes its time with who writes much


@contextmanager
def irc_server(folder: Path) -> Iterator[int]:
    """Run ngIRCd in the foreground; give its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    conf = folder / "ngircd.conf"
    conf.write_text(
        f"[Global]\nName = irc.test\nInfo = test\nListen = 127.0.0.1\nPorts = {port}\nMotdPhrase = hi\n"
        "[Limits]\nMaxConnectionsIP = 0\nMaxNickLength = 30\n[Options]\nDNS = no\nIdent = no\nPAM = no\n"
    )
    unpacked = unpack_apart("ngircd", "libident")
    (library,) = {each.parent for each in unpacked.rglob("libident.so.*")}
    process = subprocess.Popen(
        [str(unpacked / "usr/sbin/ngircd"), "-n", "-f", str(conf)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"LD_LIBRARY_PATH": str(library)},
    )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


class Person:
    """Somebody at an IRC client."""

    def __init__(self, nick: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.nick, self._reader, self._writer = nick, reader, writer

    def write(self, line: str) -> None:
        self._writer.write(line.encode() + b"\r\n")

    def say(self, to: str, text: str) -> None:
        self.write(f"PRIVMSG {to} :{text}")

    async def hears(self, *words: str, verb: str = "PRIVMSG") -> IrcLine:
        """Return the next line of this kind that holds these words."""
        async with asyncio.timeout(SECONDS):
            while True:
                line = await self.next_line()
                if line.verb == verb and all(word in " ".join(line.params) for word in words):
                    return line

    async def next_line(self) -> IrcLine:
        while True:
            line = parse_line((await self._reader.readuntil(b"\n")).decode(errors="replace").strip())
            if line is not None and line.verb == "PING":
                self.write(f"PONG :{line.params[-1]}")
            elif line is not None:
                return line

    async def is_silent(self) -> bool:
        """Tell that nothing was said to this person before the server answered a ping."""
        self.write("PING :quiet")
        async with asyncio.timeout(SECONDS):
            while True:
                line = await self.next_line()
                if line.verb in ("PRIVMSG", "PONG"):
                    return line.verb == "PONG"


@asynccontextmanager
async def person(port: int, nick: str, *rooms: str) -> AsyncIterator[Person]:
    """Give somebody who has signed on."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        await asyncio.sleep(0.05)
    who = Person(nick, reader, writer)
    who.write(f"NICK {nick}")
    who.write(f"USER {nick} 0 * :{nick}")
    await who.hears(verb="001")
    for room in rooms:
        who.write(f"JOIN {room}")
        await who.hears(room, verb="JOIN")
    try:
        yield who
    finally:
        writer.close()
