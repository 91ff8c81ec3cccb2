"""An XMPP stream: TLS, signing in, and stanzas each way; questions find their answers, the rest waits in a queue.

Written here and not taken from a library: what the server sends is acknowledged only after it was kept, in the order in
which it came, and connections are dialled by the guard.
"""

import asyncio
import base64
import hashlib
import hmac
import ssl
from collections.abc import Mapping
from secrets import token_hex, token_urlsafe
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, ParseError, XMLPullParser
from xml.sax.saxutils import escape, quoteattr

from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.lazy import regex

CLIENT, STREAMS = "jabber:client", "http://etherx.jabber.org/streams"
TLS, SASL, BIND = (f"urn:ietf:params:xml:ns:xmpp-{name}" for name in ("tls", "sasl", "bind"))
ACKS = "urn:xmpp:sm:3"
_HEADER = "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='{}' version='1.0' to='{}'>"
_READ_BYTES, _STANZA_BYTES = 65_536, 4 << 20
_SECONDS, _QUIET_SECONDS = 30.0, 90.0  # for an answer, and after which the server is asked whether it is there
_COMPLAINT_CHARS = 300
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}
_NO_XML = regex("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class AckRequest(NamedTuple):
    """What the server asks: whether so many stanzas are kept."""

    stanzas: int


def make_element(tag: str, namespace: str = CLIENT, text: str = "", **attributes: str) -> Element:
    """Return an element; characters that XML cannot hold are left out."""
    made = Element(f"{{{namespace}}}{tag}", {name: _NO_XML.sub("", value) for name, value in attributes.items()})
    made.text = _NO_XML.sub("", text) or None
    return made


def add_element(parent: Element, tag: str, namespace: str, text: str = "", **attributes: str) -> Element:
    """Put an element into another, and return it."""
    child = make_element(tag, namespace, text, **attributes)
    parent.append(child)
    return child


def is_named(element: Element, tag: str, namespace: str = CLIENT) -> bool:
    return element.tag == f"{{{namespace}}}{tag}"


def complaint_of(stanza: Element) -> tuple[str, str]:
    """Return what is wrong by a stanza of type error, in a few words, and the kind of error that it is."""
    error = stanza.find(f"{{{CLIENT}}}error")
    parts = [] if error is None else [each.text or each.tag.rpartition("}")[2] for each in error]
    kind = "" if error is None else error.get("type", "")
    return strip_to_line(", ".join(parts))[:_COMPLAINT_CHARS] or "no reason given", kind


class XmppStream:
    """One connection, signed in by `sign_in`; `pump` reads it to its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[str, asyncio.Future[Element]] = {}
        self._received = 0
        self._root: Element | None = None
        self.inbox: asyncio.Queue[Element | AckRequest] = asyncio.Queue()
        self.me = ""

    async def sign_in(self, jid: str, password: str, resource: str, trust: ssl.SSLContext | None) -> None:
        """Sign in, over TLS where there is `trust`; raise ToolError when the server does not let us in."""
        user, _, domain = jid.partition("@")
        async with asyncio.timeout(_SECONDS):
            features = await self._open(domain)
            if trust is not None:
                if features.find(f"{{{TLS}}}starttls") is None:
                    raise ToolError(f"{domain} offers no TLS, and without it nothing is safe", code="denied")
                self.send(make_element("starttls", TLS))
                if not is_named(await self._next(), "proceed", TLS):
                    raise ToolError(f"{domain} refused TLS", code="denied")
                await self._writer.start_tls(trust, server_hostname=domain)
                features = await self._open(domain)
            offered = {each.text for each in features.iter(f"{{{SASL}}}mechanism")}
            await self._authenticate(user, password, offered, is_safe=trust is not None)
            features = await self._open(domain)
            asked = make_element("iq", type="set", id="bind")
            add_element(add_element(asked, "bind", BIND), "resource", BIND, resource)
            self.send(asked)
            bound = (await self._next()).find(f"{{{BIND}}}bind/{{{BIND}}}jid")
            if bound is None or not bound.text:
                raise ToolError(f"{domain} gave us no address", code="denied")
            self.me = bound.text
            if features.find(f"{{{ACKS}}}sm") is not None:
                self.send(make_element("enable", ACKS))
                await self._next()

    async def pump(self) -> None:
        """Read until the connection ends: answers go to who waits for them, all else into the inbox."""
        try:
            while True:
                stanza = await self._next_or_ask()
                if stanza.tag.rpartition("}")[2] in ("iq", "message", "presence"):
                    self._received += 1
                if is_named(stanza, "r", ACKS):
                    self.inbox.put_nowait(AckRequest(self._received))
                elif is_named(stanza, "iq") and stanza.get("type") in ("get", "set"):
                    self._answer(stanza)
                elif is_named(stanza, "iq") or (is_named(stanza, "message") and stanza.get("type") == "error"):
                    waits = self._waiting.get(f"{stanza.get('from', '')} {stanza.get('id', '')}")
                    if waits is not None and not waits.done():
                        waits.set_result(stanza)
                elif not is_named(stanza, "a", ACKS):
                    self.inbox.put_nowait(stanza)
        finally:
            for waits in self._waiting.values():
                waits.cancel()

    async def ask(self, question: Element, to: str = "", kind: str = "get") -> Element:
        """Return the answer to a query; ToolError when it is refused, ConnectionError without an answer."""
        stanza = make_element("iq", type=kind, id=token_hex(8), **({"to": to} if to else {}))
        stanza.append(question)
        answer = await self._exchange(stanza, to)
        if answer.get("type") == "error":
            why, kind = complaint_of(answer)
            raise ToolError(f"the XMPP server refused it: {why}", code="busy" if kind == "wait" else "denied")
        return answer

    async def tell(self, stanza: Element) -> None:
        """Send a message and wait until the server has worked on it: it takes everything in order, so a ping tells."""
        refused = asyncio.get_running_loop().create_future()
        id = f"{stanza.get('to', '')} {stanza.get('id', '')}"
        self._waiting[id] = refused
        try:
            self.send(stanza)
            ping = make_element("iq", type="get", id=token_hex(8))
            ping.append(make_element("ping", "urn:xmpp:ping"))
            await self._exchange(ping, "")
            if refused.done():
                why, kind = complaint_of(refused.result())
                raise ToolError(f"the XMPP server refused it: {why}", code="busy" if kind == "wait" else "denied")
        finally:
            del self._waiting[id]

    def send(self, stanza: Element) -> None:
        """Write a stanza."""
        if self._writer.is_closing():
            raise ConnectionError("the connection to the XMPP server is closed")
        self._writer.write(_to_xml(stanza, CLIENT).encode())

    def acknowledge(self, request: AckRequest) -> None:
        """Tell that what was sent before the request is kept."""
        self.send(make_element("a", ACKS, h=str(request.stanzas)))

    def close(self) -> None:
        """End the connection."""
        if not self._writer.is_closing():
            self._writer.write(b"</stream:stream>")
            self._writer.transport.abort()  # the goodbye of TLS would wait for the other side

    # Sign in

    async def _open(self, domain: str) -> Element:
        """Begin the stream, again after each step, and return what the server offers."""
        self._parser: Any = XMLPullParser(("start", "end"))  # as typed, an event may be anything
        self._depth, self._size, self._root = 0, 0, None
        self._writer.write(_HEADER.format(CLIENT, STREAMS, domain).encode())
        features = await self._next()
        if not is_named(features, "features", STREAMS):
            raise ConnectionError("the XMPP server did not say what it offers")
        return features

    async def _authenticate(self, user: str, password: str, offered: set[str | None], *, is_safe: bool) -> None:
        name = next((each for each in _HASHES if each in offered), "")
        if not name and is_safe and "PLAIN" in offered:
            first = f"\0{user}\0{password}".encode()
            proof = None
            name = "PLAIN"
        elif name:
            proof = ScramProof(_HASHES[name], user, password)
            first = proof.first.encode()
        else:
            raise ToolError("the XMPP server offers no way to sign in that is safe", code="denied")
        self.send(make_element("auth", SASL, base64.b64encode(first).decode(), mechanism=name))
        while not is_named(stanza := await self._next(), "success", SASL):
            if proof is None or not is_named(stanza, "challenge", SASL):
                raise ToolError("the XMPP server does not know this password; check channels.xmpp", code="denied")
            answer = proof.answer(_decode(stanza.text))
            self.send(make_element("response", SASL, base64.b64encode(answer.encode()).decode()))
        if proof is not None and not proof.is_shown(_decode(stanza.text)):
            raise ToolError("the XMPP server could not prove that it knows us", code="denied")

    # Read

    async def _next(self) -> Element:
        while True:
            stanza: Element
            for event, stanza in self._parser.read_events():
                if event == "start":
                    self._depth += 1
                    self._root = stanza if self._root is None else self._root
                    continue
                self._depth -= 1
                if self._depth == 0:
                    raise ConnectionError("the XMPP server ended the stream")
                if self._depth == 1 and self._root is not None:
                    self._root.clear()
                    self._size = 0
                    if is_named(stanza, "error", STREAMS):
                        why = ", ".join(each.text or each.tag.rpartition("}")[2] for each in stanza)
                        raise ConnectionError(f"the XMPP server ended the stream: {strip_to_line(why)}")
                    return stanza
            data = await self._reader.read(_READ_BYTES)
            self._size += len(data)
            if not data or self._size > _STANZA_BYTES:
                raise ConnectionError("the XMPP server ended the connection" if not data else "a stanza is too large")
            try:
                self._parser.feed(data)
            except ParseError as error:
                raise ConnectionError(f"the XMPP server wrote what is no XML ({error})") from None

    async def _next_or_ask(self) -> Element:
        for asks in (True, False):
            try:
                async with asyncio.timeout(_QUIET_SECONDS):
                    return await self._next()
            except TimeoutError:
                if asks:
                    question = make_element("iq", type="get", id="there")
                    question.append(make_element("ping", "urn:xmpp:ping"))
                    self.send(question)
        raise ConnectionError("the XMPP server says nothing any more")

    async def _exchange(self, stanza: Element, to: str) -> Element:
        waits: asyncio.Future[Element] = asyncio.get_running_loop().create_future()
        ids = [f"{who} {stanza.get('id')}" for who in ({to} if to else {"", self.me, *_homes(self.me)})]
        self._waiting.update(dict.fromkeys(ids, waits))
        try:
            self.send(stanza)
            async with asyncio.timeout(_SECONDS):
                return await waits
        except asyncio.CancelledError:
            if waits.cancelled() and not _is_cancelling():  # not we, but the connection
                raise ConnectionError("the connection broke while it was being sent") from None
            raise
        except TimeoutError:
            raise ConnectionError("the XMPP server did not answer in time") from None
        finally:
            for id in ids:
                self._waiting.pop(id, None)

    def _answer(self, question: Element) -> None:
        """Answer a ping; all else that is asked of us we do not do."""
        kind = "result" if question.find("{urn:xmpp:ping}ping") is not None else "error"
        answer = make_element("iq", type=kind, id=question.get("id", ""), to=question.get("from", self.me))
        if kind == "error":
            error = add_element(answer, "error", CLIENT, type="cancel")
            add_element(error, "service-unavailable", "urn:ietf:params:xml:ns:xmpp-stanzas")
        self.send(answer)


class ScramProof:
    """Shows that we know the password, and asks the server to show it as well (RFC 5802)."""

    def __init__(self, algorithm: str, user: str, password: str) -> None:
        self._algorithm, self._password = algorithm, password.encode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._nonce = token_urlsafe(18)
        self._bare = f"n={name},r={self._nonce}"
        self.first = f"n,,{self._bare}"
        self._shown = b""

    def answer(self, challenge: str) -> str:
        """Return the answer to a challenge."""
        pairs = _read_pairs(challenge)
        rounds = pairs.get("i", "")
        if not pairs.get("r", "").startswith(self._nonce) or not rounds.isdigit() or not 4096 <= int(rounds) <= 10**6:
            raise ToolError("the XMPP server asked for a proof that is none", code="denied")
        salted = hashlib.pbkdf2_hmac(self._algorithm, self._password, base64.b64decode(pairs.get("s", "")), int(rounds))
        final = f"c=biws,r={pairs['r']}"
        signed = f"{self._bare},{challenge},{final}".encode()
        key = self._sign(salted, b"Client Key")
        signature = self._sign(hashlib.new(self._algorithm, key).digest(), signed)
        self._shown = self._sign(self._sign(salted, b"Server Key"), signed)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return f"{final},p={base64.b64encode(proof).decode()}"

    def is_shown(self, final: str) -> bool:
        """Tell whether the server knows the password, too."""
        signature = _read_pairs(final).get("v", "")
        return bool(self._shown) and hmac.compare_digest(signature, base64.b64encode(self._shown).decode())

    def _sign(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._algorithm).digest()


def _to_xml(element: Element, around: str) -> str:
    """Return an element as text, its namespace named where it is another: not all servers read prefixes."""
    namespace, _, tag = element.tag[1:].partition("}")
    named = "" if namespace == around else f" xmlns={quoteattr(namespace)}"
    attributes = "".join(f" {name}={quoteattr(value)}" for name, value in element.items())
    inside = escape(element.text or "") + "".join(_to_xml(each, namespace) for each in element)
    return f"<{tag}{named}{attributes}>{inside}</{tag}>"


def _read_pairs(text: str) -> Mapping[str, str]:
    return dict(each.split("=", 1) for each in text.split(",") if "=" in each)


def _decode(text: str | None) -> str:
    try:
        return base64.b64decode(text or "").decode()
    except ValueError:
        return ""


def _homes(jid: str) -> tuple[str, str]:
    bare = jid.partition("/")[0]
    return bare, bare.rpartition("@")[2]


def _is_cancelling() -> bool:
    task: Any = asyncio.current_task()
    return bool(task and task.cancelling())
