"""IRC: lines over TCP or TLS. What comes has no cursor; what we send was taken when the server answers a ping.

Only the server knows who a sender is: where it has accounts, the account is the id, and a nick without one has an
id that no list can name by accident. No sender is admitted by a nick alone. A direct chat is `nick!account`, or else
`nick!user@host`: a message there goes to that person, under whatever nick, and not to another who has the nick by now.
"""

import asyncio
import re
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from typing import Any, NamedTuple

from toolcrib.define.caller import Sender
from toolcrib.define.channel import (
    ID_RULES,
    Abilities,
    Attachment,
    ChannelKind,
    Hear,
    HeardMessage,
    Post,
    refuse_action,
)
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.web import WayOut
from toolcrib.lazy import regex

_PORT, _TLS_PORT = 6667, 6697
_SECONDS, _TAKEN_SECONDS = 30.0, 120.0  # to connect, and for a post to be taken: servers slow down who writes much
_QUIET_SECONDS = 90.0  # after which the server is asked whether it is there
_LINE_BYTES = 400  # of text in one line
_MAX_LINES = 40  # of one post
_MAX_NICKS = 1_000
_BURST, _PACE = 4, 2.0  # lines at once, and seconds behind them: servers cut off who writes faster for long
_CAPS = "account-tag server-time message-tags"
_LINE = regex(r"(?:@(?P<tags>\S+) +)?(?::(?P<who>\S+) +)?(?P<verb>[A-Za-z0-9]+)(?P<rest>.*)")
_NO_CHAT = regex(r"[,$*]|\A[^#&!]*[@%]|\A[~&@%+!]+#")  # a list, a mask, a user on a server, those of a status
_STATUS = regex(r"\A[~&@%+!]+(?=#)")  # to those of a room who have some status, and in that room
_UNESCAPED = {r"\:": ";", r"\s": " ", r"\\": "\\", r"\r": "\r", r"\n": "\n"}


DialServer = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class IrcLine(NamedTuple):
    """One line of the protocol."""

    verb: str
    params: tuple[str, ...] = ()
    who: str = ""
    tags: Mapping[str, str] = {}

    @property
    def nick(self) -> str:
        return self.who.partition("!")[0]


def parse_line(text: str) -> IrcLine | None:
    """Read a line, None for one that is none."""
    found = _LINE.fullmatch(text)
    if found is None:
        return None
    rest, colon, last = found["rest"].partition(" :")
    params = (*rest.split(), *((last,) if colon else ()))
    pairs = (each.partition("=") for each in (found["tags"] or "").split(";") if each)
    tags = {key: re.sub(r"\\.", lambda found: _UNESCAPED.get(found[0], found[0][1:]), value) for key, _, value in pairs}
    return IrcLine(found["verb"].upper(), params, found["who"] or "", tags)


def split_line(text: str, max_bytes: int = _LINE_BYTES) -> list[str]:
    """Return a text as lines of so many bytes that break no character; blank lines are left out."""
    lines = list[str]()
    for line in text.splitlines():
        rest = line.replace("\0", "")
        while rest.strip():
            piece = rest.encode()[:max_bytes].decode(errors="ignore")
            if len(piece) < len(rest) and (blank := piece.rfind(" ")) > len(piece) // 2:
                piece = piece[:blank]
            lines.append(piece)
            rest = rest[len(piece) :].lstrip()
    return lines


class IrcChannel:
    """One nick on one server."""

    abilities = Abilities(actions=("send",), longest=4_000, most_lines=_MAX_LINES)

    def __init__(self, settings: Any, dial: DialServer) -> None:
        self._settings, self._nick, self._dial = settings, settings.nick, dial
        self._writer: asyncio.StreamWriter | None = None
        self._waits: dict[str, asyncio.Future[None]] = {}  # for the answers to PING, and to WHOIS
        self._found = set[str]()  # from WHOIS: user@host, and the account
        self._nicks: OrderedDict[str, str] = OrderedDict()  # of direct chats: the nick that their person has by now
        self._sending = asyncio.Lock()

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Connect, join, and hear what is written."""
        reader, self._writer = await self._connect()
        try:
            await self._sign_on(reader)
            for room in self._settings.join:
                self._write("JOIN", room)
            ready()
            while True:
                line = await self._read(reader)
                if line.verb == "PING":
                    self._write("PONG", *line.params)
                elif line.verb == "PONG" and line.params:
                    self._end_wait(line.params[-1])
                elif line.verb in ("311", "330", "318", "NICK", "QUIT"):
                    self._note_person(line)
                elif line.verb == "PRIVMSG" and len(line.params) == 2 and (message := self._to_message(line)):
                    await hear([message], "")
        finally:
            writer, self._writer = self._writer, None
            for waits in self._waits.values():
                waits.cancel()
            self._waits.clear()
            self._nicks.clear()  # who has which nick by now is unknown
            writer.close()

    async def post(self, post: Post, key: str, /) -> str:
        """Write the lines of a post, and wait until the server has taken them."""
        if _NO_CHAT.search(post.chat):  # several, or one by another name than rules know
            raise ToolError(f"{quote_short(post.chat)} is no chat; name one", code="bad_arguments")
        lines = split_line(post.text)
        if len(lines) > _MAX_LINES:
            lines = [*lines[:_MAX_LINES], "[the rest was left out: it is too long for IRC]"]
        async with self._sending:
            if self._writer is None:
                raise ToolError("irc is not connected", code="unavailable")
            for index in range(0, len(lines), _BURST):
                to = await self._find_nick(post.chat, is_begun=index > 0) if "!" in post.chat else post.chat
                for line in lines[index : index + _BURST]:
                    self._write("PRIVMSG", to, line)
                await asyncio.sleep(_PACE if index + _BURST < len(lines) else 0)
            await self._ask("PING", token := token_hex(8))
        return token

    async def _find_nick(self, chat: str, *, is_begun: bool) -> str:
        """Return the nick that the person of a direct chat has now; ToolError where it is another person's."""
        first, _, who = chat.partition("!")
        nick = self._nicks.get(chat, first)
        self._found.clear()
        try:
            await self._ask("WHOIS", nick)
            if _fold(who) not in self._found and self._nicks.get(chat, first) != nick:  # changed meanwhile
                return await self._find_nick(chat, is_begun=is_begun)
        except (ConnectionError, TimeoutError) as error:
            if is_begun:
                raise
            raise ToolError(str(error) or "the IRC server does not say who that is", code="unavailable") from None
        if _fold(who) not in self._found:
            rest = "the rest is" if is_begun else "it is"
            raise ToolError(f"{quote_short(nick)} is not who wrote, by now; {rest} said to nobody", code="denied")
        return nick

    async def _ask(self, verb: str, about: str) -> None:
        """Ask the server, and return when it has answered that and all before."""
        self._waits[about.lower()] = answered = asyncio.get_running_loop().create_future()
        self._write(verb, about)
        try:
            async with asyncio.timeout(_TAKEN_SECONDS):
                await answered
        except asyncio.CancelledError:
            if answered.cancelled():  # not we, but the connection
                raise ConnectionError("the connection broke while it was being sent") from None
            raise
        finally:
            self._waits.pop(about.lower(), None)

    def _end_wait(self, about: str) -> None:
        if waits := self._waits.pop(about.lower(), None):
            waits.set_result(None)

    def _note_person(self, line: IrcLine) -> None:
        """Note what the server reports of a user: an answer to WHOIS, a change of nick, or leaving."""
        match line.verb, line.params:
            case "311", (_, _, user, host, *_):
                self._found.add(_fold(f"{user}@{host}"))
            case "330", (_, _, account, *_):
                self._found.add(_fold(account))
            case "318", (_, nick, *_):
                self._end_wait(nick)
            case "NICK", (nick, *_) if line.nick == self._nick:
                self._nick = nick
            case (("NICK" | "QUIT"), params):
                for chat in [chat for chat, nick in self._nicks.items() if nick == line.nick]:
                    self._nicks[chat] = params[0] if line.verb == "NICK" and params else chat.partition("!")[0]

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        raise refuse_action("irc", action, self.abilities)

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        raise ToolError("irc carries no files", code="unsupported")

    async def show_typing(self, chat: str, thread: str, /) -> None:
        """Do nothing: there is no such thing."""

    async def close(self) -> None:
        """Say goodbye."""
        if self._writer is not None:
            self._write("QUIT", "goodbye")
            self._writer.close()

    # Connection

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        settings = self._settings
        secure = True if settings.tls is None else settings.tls
        port = settings.port or (_TLS_PORT if secure else _PORT)
        async with asyncio.timeout(_SECONDS):
            reader, writer = await self._dial(settings.host, port)
            try:
                if secure:
                    await writer.start_tls(ssl.create_default_context(), server_hostname=settings.host)
            except BaseException:
                writer.transport.abort()
                raise
        return reader, writer

    async def _sign_on(self, reader: asyncio.StreamReader) -> None:
        self._nick = self._settings.nick
        if self._settings.password:
            self._write("PASS", self._settings.password)
        self._write("CAP", "LS", "302")
        self._write("NICK", self._nick)
        self._write("USER", self._nick, "0", "*", self._nick)
        async with asyncio.timeout(_SECONDS):
            while (line := await self._read(reader)).verb != "001":
                match line.verb, line.params:
                    case "CAP", (_, "LS", *_, offered):
                        wanted = [each for each in _CAPS.split() if each in offered.split()]
                        self._write("CAP", "REQ", " ".join(wanted)) if wanted else self._write("CAP", "END")
                    case "CAP", (_, "ACK" | "NAK", *_):
                        self._write("CAP", "END")
                    case "PING", _:
                        self._write("PONG", *line.params)
                    case "433", _:  # that nick is taken; ours is taken back when it is free
                        self._nick = f"{self._nick}_"
                        self._write("NICK", self._nick)
                    case (("464" | "465" | "ERROR"), _):
                        why = line.params[-1] if line.params else line.verb
                        raise ToolError(f"the IRC server refused to let us in: {why}", code="denied")

    async def _read(self, reader: asyncio.StreamReader) -> IrcLine:
        """Return the next line; a server that says nothing is asked, and left when it does not answer."""
        for asks in (True, False):
            try:
                async with asyncio.timeout(_QUIET_SECONDS):
                    while True:
                        raw = await reader.readuntil(b"\n")
                        line = parse_line(raw.decode(errors="replace").strip("\r\n"))
                        if line is not None:
                            return line
            except TimeoutError:
                if asks:
                    self._write("PING", "there")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                raise ConnectionError(f"the IRC server ended the connection ({type(error).__name__})") from None
        raise ConnectionError("the IRC server says nothing any more")

    def _write(self, verb: str, *params: str) -> None:
        if self._writer is None:
            raise ConnectionError("irc is not connected")
        *middle, last = params
        words = (verb, *(re.sub(r"\s", "", each) for each in middle), ":" + re.sub(r"[\r\n\0]", " ", last))
        self._writer.write(" ".join(words).encode() + b"\r\n")

    def _to_message(self, line: IrcLine) -> HeardMessage | None:
        target, text = _STATUS.sub("", line.params[0]), line.params[1]
        if line.nick == self._nick or text.startswith("\1"):
            return None
        account = line.tags.get("account", "")
        sender = Sender(id=account or f"~{line.who}", username=line.nick, name=line.nick)
        is_room = target[:1] in "#&!+"
        chat = target if is_room else f"{line.nick}!{account or line.who.partition('!')[2]}"
        if not is_room:
            self._nicks[chat] = line.nick
            self._nicks.move_to_end(chat)
            while len(self._nicks) > _MAX_NICKS:
                self._nicks.popitem(last=False)
        named = re.match(rf"{re.escape(self._nick)}\s*[:,]\s*", text, re.IGNORECASE)
        return HeardMessage(
            id=line.tags.get("msgid") or token_hex(12),
            chat=chat,
            sender=sender,
            kind="group" if is_room else "dm",
            group=target if is_room else "",
            text=text[named.end() :] if named else text,
            is_for_us=named is not None,
        )


_fold = ID_RULES["irc"].fold


def _make(settings: Any, way_out: WayOut) -> IrcChannel:
    if not settings.host or not settings.nick:
        raise ToolError("irc needs host and nick: channels: {irc: {host: .., nick: ..}}", code="bad_arguments")
    return IrcChannel(settings, way_out.dial_own)


IRC = ChannelKind(IrcChannel.abilities, _make)
