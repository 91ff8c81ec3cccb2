"""The two conversations of e-mail, over connections of the guard: IMAP reads a mailbox, SMTP hands a message over."""

import asyncio
import base64
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError

_SECONDS, _IDLE_SECONDS, _POLL_SECONDS = 60.0, 240.0, 20.0
_BUSY_SECONDS = 20.0  # before what a server put off is tried again
_LITERAL_BYTES = 64 << 20
_COMPLAINT_CHARS = 300

DialMail = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class MailRoute(NamedTuple):
    """How servers are reached, and whom TLS trusts."""

    dial: DialMail
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context

    async def open(self, server: Any, port: int, *, is_direct: bool) -> "MailLines":
        """Return a connection to a server, over TLS from its first byte on where that is its way."""
        async with asyncio.timeout(_SECONDS):
            reader, writer = await self.dial(server.host, port)
            lines = MailLines(reader, writer)
            try:
                if is_direct:
                    await self.secure(lines, server)
            except BaseException:
                lines.hang_up()
                raise
        return lines

    async def secure(self, lines: "MailLines", server: Any) -> None:
        """Go on over TLS."""
        await lines.writer.start_tls(self.trust(), server_hostname=server.host)


class MailLines(NamedTuple):
    """A connection that is written and read in lines."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def write(self, line: str) -> None:
        """Write a line, and nothing that would be another one."""
        if "\r" in line or "\n" in line:
            raise ToolError("a line for the mail server holds a line break", code="bad_arguments")
        if self.writer.is_closing():
            raise ConnectionError("the connection to the mail server is closed")
        self.writer.write(f"{line}\r\n".encode())

    def hang_up(self) -> None:
        """End the connection at once: the goodbye of TLS would wait for the other side."""
        self.writer.transport.abort()

    async def read(self) -> bytes:
        """Return a line."""
        try:
            return await self.reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionError(f"the mail server ended the connection ({type(error).__name__})") from None


class MailReply(NamedTuple):
    """One answer of IMAP: its text, and the bytes that it carries."""

    text: str
    data: bytes = b""


class ImapSession:
    """A mailbox that is open, to be read only."""

    def __init__(self, lines: MailLines) -> None:
        self._lines, self._count = lines, 0
        self._can: set[str] = set()

    @classmethod
    async def open(cls, server: Any, route: MailRoute) -> "ImapSession":
        """Sign in."""
        port = server.port or (993 if server.tls else 143)
        is_direct = server.tls and port != 143
        session = cls(await route.open(server, port, is_direct=is_direct))
        try:
            async with asyncio.timeout(_SECONDS):
                await session._read_reply()
                if server.tls and not is_direct:
                    await session.ask("STARTTLS")
                    await route.secure(session._lines, server)
                responses = await session.ask("CAPABILITY")
                session._can = {word for each in responses for word in each.text.upper().split()}
                words = f"\0{server.user}\0{server.password}".encode()
                await session.ask("AUTHENTICATE PLAIN", then=base64.b64encode(words).decode())
        except BaseException:
            session.close()
            raise
        return session

    async def select(self) -> tuple[int, int]:
        """Open the inbox, and return what its numbers hold for, and the number that comes next."""
        status = " ".join(each.text for each in await self.ask("EXAMINE INBOX"))
        validity, coming = (re.search(rf"\[{name} (\d+)\]", status) for name in ("UIDVALIDITY", "UIDNEXT"))
        if validity is None or coming is None:
            raise ToolError("the mail server does not number its messages", code="unsupported")
        return int(validity[1]), int(coming[1])

    async def list_behind(self, uid: int) -> list[tuple[int, int]]:
        """Return the numbers of what came behind one, and how large each is."""
        pairs = list[tuple[int, int]]()
        for each in await self.ask(f"UID FETCH {uid + 1}:* (UID RFC822.SIZE)"):
            number, size = (re.search(rf"\b{name} (\d+)", each.text) for name in ("UID", "RFC822.SIZE"))
            if number is not None and size is not None and int(number[1]) > uid:
                pairs.append((int(number[1]), int(size[1])))
        return sorted(pairs)

    async def fetch(self, uid: int, max_bytes: int) -> bytes:
        """Return a message, of at most so many bytes; it is not marked as read."""
        responses = await self.ask(f"UID FETCH {uid} (UID BODY.PEEK[]<0.{max_bytes}>)")
        return next((each.data for each in responses if each.data), b"")

    async def wait(self) -> None:
        """Return when something came, or after a while."""
        if "IDLE" not in self._can:
            await asyncio.sleep(_POLL_SECONDS)
            await self.ask("NOOP")
            return
        tag = self._write("IDLE")
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                while not re.match(r"\* \d+ EXISTS", (await self._read_reply()).text):
                    pass
        except TimeoutError:
            pass  # servers end a connection that is idle for long
        self._lines.write("DONE")
        await self._read_to(tag)

    async def ask(self, command: str, then: str = "") -> list[MailReply]:
        """Return the answers to a command; `then` is sent when the server asks for more."""
        return await self._read_to(self._write(command), then)

    def close(self) -> None:
        """End the connection."""
        self._lines.hang_up()

    def _write(self, command: str) -> str:
        self._count += 1
        self._lines.write(f"t{self._count} {command}")
        return f"t{self._count}"

    async def _read_to(self, tag: str, then: str = "") -> list[MailReply]:
        replies = list[MailReply]()
        async with asyncio.timeout(_SECONDS):
            while not (reply := await self._read_reply()).text.startswith(f"{tag} "):
                if reply.text.startswith("+") and then:
                    self._lines.write(then)
                replies.append(reply)
        if not reply.text.upper().startswith(f"{tag.upper()} OK"):
            why = strip_to_line(reply.text.partition(" ")[2])[:_COMPLAINT_CHARS]
            raise ToolError(f"the mail server refused it: {why}", code="denied")
        return [*replies, reply]

    async def _read_reply(self) -> MailReply:
        text, data = "", b""
        while True:
            line = (await self._lines.read()).decode(errors="replace").rstrip("\r\n")
            text += line
            found = re.search(r"\{(\d+)\}\Z", line)
            if found is None:
                if text.upper().startswith("* BYE"):
                    raise ConnectionError(f"the mail server ended the session: {strip_to_line(text[6:])}")
                return MailReply(text, data)
            if int(found[1]) > _LITERAL_BYTES:
                raise ConnectionError("the mail server sends more than anybody asked for")
            try:
                data = await self._lines.reader.readexactly(int(found[1]))
            except asyncio.IncompleteReadError:
                raise ConnectionError("the mail server ended the connection within a message") from None


async def hand_over(server: Any, route: MailRoute, sender: str, to: str, message: bytes) -> None:
    """Give a message to a server: ToolError when it surely was not taken, ConnectionError when that is unknown."""
    port = server.port or (465 if server.tls else 25)
    is_direct = server.tls and port == 465
    lines = await route.open(server, port, is_direct=is_direct)
    is_sent = False
    try:
        async with asyncio.timeout(_SECONDS * 2):
            await _expect(lines)
            offers = await _expect(lines, "EHLO toolcrib.invalid")
            if server.tls and not is_direct:
                await _expect(lines, "STARTTLS")
                await route.secure(lines, server)
                offers = await _expect(lines, "EHLO toolcrib.invalid")
            if server.user:
                if not re.search(r"(?i)AUTH[ =].*\bPLAIN\b", offers):
                    raise ToolError("the mail server offers no way to sign in", code="denied")
                words = base64.b64encode(f"\0{server.user}\0{server.password}".encode()).decode()
                await _expect(lines, f"AUTH PLAIN {words}")
            await _expect(lines, f"MAIL FROM:<{sender}>")
            await _expect(lines, f"RCPT TO:<{to}>")
            await _expect(lines, "DATA")
            stuffed = re.sub(rb"(?m)^\.", b"..", re.sub(rb"\r?\n", b"\r\n", message))
            is_sent = True
            lines.writer.write(stuffed.removesuffix(b"\r\n") + b"\r\n.\r\n")
            await _expect(lines)
    except (OSError, TimeoutError) as error:
        if is_sent:
            raise ConnectionError(f"the mail server did not say whether it took a message: {error}") from error
        raise ToolError(f"the mail server cannot be reached: {error}", code="unavailable") from error
    finally:
        lines.hang_up()


async def _expect(lines: MailLines, command: str = "") -> str:
    """Say something, and return what is answered when that is a yes."""
    if command:
        lines.write(command)
    answer = ""
    while True:
        line = (await lines.read()).decode(errors="replace").rstrip("\r\n")
        answer += f"\n{line}"
        if line[3:4] != "-":
            break
    if line[:1] in ("2", "3"):
        return answer
    why = strip_to_line(line)[:_COMPLAINT_CHARS]
    if line[:1] == "4":
        await asyncio.sleep(_BUSY_SECONDS)
        raise ToolError(f"the mail server takes nothing for now: {why}", code="busy")
    raise ToolError(f"the mail server refused it: {why}", code="denied")
