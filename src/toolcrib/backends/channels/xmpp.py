"""XMPP: direct chats and rooms. What was missed is read from the archives, behind a cursor for each.

A person is the bare JID that their server vouches for. In a room it is the real JID where the room tells it to us by
presence; else a sender is known by a nick that anyone may take, with an id that no list names by accident.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

import orjson

from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, ChannelKind, Hear, HeardMessage, Post, refuse_action
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http, Page, WayOut

from .xmpp_stream import CLIENT, AckRequest, XmppStream, add_element, is_named, make_element

log = logging.getLogger("toolcrib")

_PORT, _RESOURCE = 5222, "toolcrib"
_MUC, _MUC_USER = "http://jabber.org/protocol/muc", "http://jabber.org/protocol/muc#user"
_INFO, _ITEMS = "http://jabber.org/protocol/disco#info", "http://jabber.org/protocol/disco#items"
_MAM, _RSM, _DATA = "urn:xmpp:mam:2", "http://jabber.org/protocol/rsm", "jabber:x:data"
_UPLOAD, _OOB, _STATES = "urn:xmpp:http:upload:0", "jabber:x:oob", "http://jabber.org/protocol/chatstates"
_SECRET = ("{eu.siacs.conversations.axolotl}encrypted", "{urn:xmpp:omemo:2}encrypted", "{urn:xmpp:openpgp:0}openpgp")
_FORWARDED = f"{{urn:xmpp:forward:0}}forwarded/{{{CLIENT}}}message/{{{CLIENT}}}body"
_FALLBACK, _OTHERS = "{urn:xmpp:fallback:0}", ("urn:xmpp:reply:0", "urn:xmpp:forward:0")
_PAST = ("{urn:xmpp:delay}delay", "{jabber:x:delay}x")
_HEADERS = ("authorization", "cookie", "expires")  # those that a server may have us send with a file
_PAGE, _MAX_READ = 50, 100
_UPLOAD_SECONDS = 120.0


class Archived(NamedTuple):
    """A message of an archive, under the id that it has there."""

    id: str
    message: Element


class RoomState:
    """A room that we are in, or go into: our nick there, and the real JIDs by nick where they are known."""

    def __init__(self, nick: str) -> None:
        self.nick, self.people = nick, dict[str, str]()


class XmppChannel:
    """One account."""

    abilities = Abilities(
        actions=("send", "broadcast", "reply", "edit", "react", "read"), media=True, typing=True, longest=8_000
    )

    def __init__(
        self, settings: Any, way_out: WayOut, trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> None:
        self._settings, self._way_out, self._trust = settings, way_out, trust
        self._bare = settings.jid.partition("/")[0].lower()
        self._stream: XmppStream | None = None
        self._rooms: dict[str, RoomState] = {}
        self._cursor: dict[str, str] = {}  # by archive ("" is our own): the last id that was heard, "" for none yet
        self._archives = set[str]()
        self._pages: dict[str, tuple[str, list[Archived]]] = {}  # by query: whom it was asked of, and what came
        self._files_at = ""  # where our server keeps files

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Sign in, go into the rooms, read what was missed, and hear what is written."""
        settings = self._settings
        domain = self._bare.rpartition("@")[2]
        reader, writer = await self._way_out.dial_own(settings.host or domain, settings.port or _PORT)
        stream = XmppStream(reader, writer)
        nick = settings.nick or self._bare.partition("@")[0]
        wanted = (each.strip().lower() for each in (*settings.join, *settings.groups))
        self._rooms = {each: RoomState(nick) for each in wanted if "@" in each}
        self._cursor = orjson.loads(cursor) if cursor else {}
        try:
            trust = None if settings.tls is False else self._trust()
            await stream.sign_in(self._bare, settings.password, _RESOURCE, trust)
            self._stream = stream
            async with asyncio.TaskGroup() as group:
                group.create_task(stream.pump())
                await self._arrive(hear)
                ready()
                while True:
                    await self._take(await stream.inbox.get(), hear)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            self._stream = None
            stream.close()

    async def post(self, post: Post, key: str, /) -> str:
        """Send a message, and wait until our server has taken it."""
        stanza = self._new_message(post.chat, id=sha256(key.encode()).hexdigest()[:32])
        stream = self._require_stream()
        text = post.text
        if post.media:
            url = await self._upload(Path(post.media), post.filename)
            if text:  # only what is nothing but an address is shown as a picture
                await stream.tell(self._say(self._new_message(post.chat), text))
            text = url
            add_element(add_element(stanza, "x", _OOB), "url", _OOB, url)
        if post.reply_to:
            add_element(stanza, "reply", "urn:xmpp:reply:0", id=post.reply_to.rpartition("/")[2], to=post.chat)
        await stream.tell(self._say(stanza, text))
        return stanza.get("id", "")

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        """Correct one of our messages, react to one, or read the history."""
        stanza = self._new_message(chat)
        if action == "read":
            return await self._read(chat, params)
        if action not in ("edit", "react"):
            raise refuse_action("xmpp", action, self.abilities)
        what = "message" if action == "edit" else "emoji"
        id, words = str(params.get("messageId", "")).rpartition("/")[2], str(params.get(what, ""))
        if not id or not (words or params.get("remove")):
            raise ToolError(f"messageId or {what} is missing", code="bad_arguments")
        if action == "edit":
            add_element(self._say(stanza, words), "replace", "urn:xmpp:message-correct:0", id=id)
        else:
            reactions = add_element(stanza, "reactions", "urn:xmpp:reactions:0", id=id)
            if not params.get("remove"):
                add_element(reactions, "reaction", "urn:xmpp:reactions:0", words)
            add_element(stanza, "store", "urn:xmpp:hints")
        await self._require_stream().tell(stanza)
        return {"ok": True, "messageId": stanza.get("id", "")}

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return a file that came with a message, from where its sender says that it is."""
        if self._is_own(attachment.ref) and not self._files_at:
            await self._ask_slot("question", 1, "")
        page = await self._way_to(attachment.ref).get(attachment.ref, most=max_bytes)
        if page.status != 200:
            raise ToolError(f"the file was answered {page.status}", code="not_found")
        return page.body

    async def show_typing(self, chat: str, thread: str, /) -> None:
        stanza = self._new_message(chat)
        add_element(stanza, "composing", _STATES)
        add_element(stanza, "no-store", "urn:xmpp:hints")
        self._require_stream().send(stanza)

    async def close(self) -> None:
        """Say goodbye."""
        if self._stream is not None:
            self._stream.close()

    # Arrive

    async def _arrive(self, hear: Hear) -> None:
        stream = self._require_stream()
        stream.send(make_element("presence"))
        self._archives = set[str]()
        for room in self._rooms:
            self._enter(room)
        for place in ("", *self._rooms):
            try:
                found = await stream.ask(make_element("query", _INFO), place or self._bare)
            except ToolError:  # it is not there, or does not say what it is
                continue
            if any(each.get("var") == _MAM for each in found.iter(f"{{{_INFO}}}feature")):
                await self._catch_up(place, hear)
                self._archives.add(place)

    def _enter(self, room: str) -> None:
        stanza = make_element("presence", to=f"{room}/{self._rooms[room].nick}")
        add_element(add_element(stanza, "x", _MUC), "history", _MUC, maxstanzas="0")
        self._require_stream().send(stanza)

    async def _catch_up(self, place: str, hear: Hear) -> None:
        """Hear what an archive has behind the cursor; of one that is new to us, only where its end is."""
        if place not in self._cursor:
            try:
                found, _ = await self._query(place, 1, before="")
            except ToolError:  # only members may read it
                return
            self._cursor[place] = found[-1].id if found else ""
            await hear([], self._to_cursor())
        is_whole = False
        while not is_whole:
            try:
                found, is_whole = await self._query(place, _PAGE, after=self._cursor[place])
            except ToolError as error:  # what the cursor stands behind was thrown away there
                log.warning("xmpp: messages missed in %s are lost: %s", place or "direct chats", error)
                self._cursor.pop(place)
                return
            if found:
                self._cursor[place] = found[-1].id
            heard = (self._to_message(each.message, each.id, is_live=False) for each in found)
            await hear([each for each in heard if each is not None], self._to_cursor())
            is_whole = is_whole or not found

    async def _query(self, place: str, count: int, **where: str) -> tuple[list[Archived], bool]:
        """Return a page of an archive, oldest first, and whether there is no more."""
        id = token_hex(8)
        query = make_element("query", _MAM, queryid=id)
        form = add_element(query, "x", _DATA, type="submit")
        for name, value in {"FORM_TYPE": _MAM, **({"with": where.pop("of")} if "of" in where else {})}.items():
            kind = {"type": "hidden"} if name == "FORM_TYPE" else {}
            add_element(add_element(form, "field", _DATA, var=name, **kind), "value", _DATA, value)
        page = add_element(query, "set", _RSM)
        add_element(page, "max", _RSM, str(count))
        for name, value in where.items():
            if value or name == "before":
                add_element(page, name, _RSM, value)
        self._pages[id] = (place or self._bare, [])
        try:
            stream = self._require_stream()
            answer = await stream.ask(query, place, "set")
            for _ in range(stream.inbox.qsize()):  # what came stands before the answer
                each = stream.inbox.get_nowait()
                if not self._collect(each):
                    stream.inbox.put_nowait(each)
            done = answer.find(f"{{{_MAM}}}fin")
            return self._pages[id][1], done is not None and done.get("complete") == "true"
        finally:
            del self._pages[id]

    def _collect(self, stanza: Element | AckRequest) -> bool:
        """Put a stanza to the page that it belongs to; False when it is of none."""
        result = stanza.find(f"{{{_MAM}}}result") if isinstance(stanza, Element) else None
        if result is None or isinstance(stanza, AckRequest):
            return False
        place, page = self._pages.get(result.get("queryid", ""), ("", []))
        message = result.find(f"{{urn:xmpp:forward:0}}forwarded/{{{CLIENT}}}message")
        # what others send as if it were an archive's is dropped
        if message is not None and place and stanza.get("from", self._bare).lower() == place:
            delay = result.find("{urn:xmpp:forward:0}forwarded/{urn:xmpp:delay}delay")
            if delay is not None:
                message.append(delay)
            page.append(Archived(result.get("id", ""), message))
        return True

    # Hear

    async def _take(self, stanza: Element | AckRequest, hear: Hear) -> None:
        if isinstance(stanza, AckRequest):
            self._require_stream().acknowledge(stanza)
        elif self._collect(stanza):
            return
        elif is_named(stanza, "presence"):
            self._note_presence(stanza)
        elif is_named(stanza, "message"):
            place, _, _ = stanza.get("from", "").lower().partition("/")
            place = place if place in self._rooms else ""
            ids = {each.get("by", "").lower(): each.get("id", "") for each in stanza.iter("{urn:xmpp:sid:0}stanza-id")}
            id = ids.get(place or self._bare, "") if place in self._archives else ""
            message = self._to_message(stanza, id, is_live=True)
            if id:
                self._cursor[place] = id
            if message is not None or id:
                await hear([message] if message is not None else [], self._to_cursor())

    def _note_presence(self, stanza: Element) -> None:
        room, _, nick = stanza.get("from", "").partition("/")
        state = self._rooms.get(room.lower())
        if state is None:
            return
        if stanza.get("type") == "error":
            if stanza.find(f"{{{CLIENT}}}error/{{urn:ietf:params:xml:ns:xmpp-stanzas}}conflict") is not None:
                state.nick = f"{state.nick}_"
                self._enter(room.lower())
            return
        item = stanza.find(f"{{{_MUC_USER}}}x/{{{_MUC_USER}}}item")
        jid = item.get("jid", "") if item is not None else ""
        state.people.pop(nick, None)
        if stanza.get("type") != "unavailable":
            if jid:
                state.people[nick] = jid.partition("/")[0].lower()
            if any(each.get("code") == "110" for each in stanza.iter(f"{{{_MUC_USER}}}status")):
                state.nick = nick

    def _to_message(self, stanza: Element, archived: str, *, is_live: bool) -> HeardMessage | None:
        """Return what a person says with a stanza, None when it is no such thing."""
        whole, kind, own = stanza.get("from", ""), stanza.get("type", "normal"), stanza.get("id", "")
        bare, _, nick = whole.partition("/")
        bare = bare.lower()
        room = self._rooms.get(bare)
        is_group = room is not None and kind == "groupchat"
        if kind not in ("chat", "normal", "groupchat") or bare == self._bare or (kind == "groupchat") != is_group:
            return None
        # in private out of a room no sender can be identified; a correction was answered when it was wrong
        if not is_group and (room is not None or stanza.find(f"{{{_MUC_USER}}}x") is not None):
            return None
        is_correction = any(each.tag.rpartition("}")[2] == "replace" for each in stanza)
        if (is_group and (not nick or (room is not None and nick == room.nick))) or is_correction:
            return None
        text, forwarded = _cut_quoted(stanza), stanza.findtext(_FORWARDED) or ""
        text = text.replace(forwarded, "") if forwarded else text  # some say it twice
        files = tuple(_list_files(stanza))
        is_secret = any(stanza.find(each) is not None for each in _SECRET)
        if not text and not forwarded and not is_secret:
            return None
        if is_secret or any(each.ref == text.strip() for each in files):
            text = ""
        named = re.match(rf"@?{re.escape(room.nick)}\s*[:,]\s*", text, re.IGNORECASE) if room is not None else None
        is_now = is_live and not any(stanza.find(each) is not None for each in _PAST)  # the nick was another's then
        jid = bare if room is None else room.people.get(nick, "") if is_now else ""
        return HeardMessage(
            id=archived if is_group and archived else f"{archived or _to_id(own, text)}/{own}",
            chat=bare,
            sender=Sender(id=jid or f"~{bare}/{nick}", username=nick if room else None, name=nick if room else bare),
            kind="group" if is_group else "dm",
            group=bare if is_group else "",
            text=text[named.end() :] if named else text,
            forwarded=forwarded,
            is_for_us=named is not None,
            attachments=files,
            at=_read_time(stanza),
        )

    # Say

    def _require_stream(self) -> XmppStream:
        if self._stream is None:
            raise ToolError("xmpp is not connected", code="unavailable")
        return self._stream

    def _new_message(self, chat: str, id: str = "") -> Element:
        if "/" in chat:  # one device of a person, or a person in a room, whom rules know by another name
            raise ToolError(f"{quote_short(chat)} is no chat; leave out what follows the slash", code="bad_arguments")
        kind = "groupchat" if chat.lower() in self._rooms else "chat"
        return make_element("message", to=chat, type=kind, id=id or token_hex(16))

    def _say(self, stanza: Element, text: str) -> Element:
        add_element(stanza, "body", CLIENT, text)
        add_element(stanza, "active", _STATES)
        return stanza

    async def _read(self, chat: str, params: Mapping[str, Any]) -> dict[str, Any]:
        count = min(int(params.get("limit") or 20), _MAX_READ)
        room = chat.lower() if chat.lower() in self._rooms else ""
        where = {name: str(params[name]).partition("/")[0] for name in ("before", "after") if params.get(name)}
        found, _ = await self._query(room, count, **(where or {"before": ""}), **({} if room else {"of": chat}))
        rows = [
            {"id": each.id, "from": each.message.get("from", ""), "text": text, "at": _read_time(each.message)}
            for each in found
            if (text := each.message.findtext(f"{{{CLIENT}}}body"))
        ]
        return {"ok": True, "messages": rows, "source": "message:xmpp"}

    # Files

    async def _upload(self, path: Path, name: str) -> str:
        """Put a file where our server keeps them, and return its address."""
        data = await asyncio.to_thread(path.read_bytes)
        mime = _guess_mime(name or path.name)
        put, headers, url = await self._ask_slot(name or path.name, len(data), mime)
        headers = {"content-type": mime, **headers}
        page: Page = await self._way_to(put).send("PUT", put, headers=headers, body=data, seconds=_UPLOAD_SECONDS)
        if page.status not in (200, 201):
            raise ToolError(f"the XMPP server answered {page.status} to a file", code="denied")
        return url

    async def _ask_slot(self, name: str, size: int, mime: str) -> tuple[str, dict[str, str], str]:
        stream, domain = self._require_stream(), self._bare.rpartition("@")[2]
        items = await stream.ask(make_element("query", _ITEMS), domain)
        for place in (domain, *(each.get("jid", "") for each in items.iter(f"{{{_ITEMS}}}item"))):
            found = await stream.ask(make_element("query", _INFO), place)
            if any(each.get("var") == _UPLOAD for each in found.iter(f"{{{_INFO}}}feature")):
                break
        else:
            raise ToolError("the XMPP server keeps no files", code="unsupported")
        kind = {"content-type": mime} if mime else {}
        slot = await stream.ask(make_element("request", _UPLOAD, filename=name, size=str(size), **kind), place)
        put, get = slot.find(f".//{{{_UPLOAD}}}put"), slot.find(f".//{{{_UPLOAD}}}get")
        if put is None or get is None:
            raise ToolError("the XMPP server gave no place for the file", code="unavailable")
        pairs = ((each.get("name", ""), (each.text or "").strip()) for each in put.iter(f"{{{_UPLOAD}}}header"))
        self._files_at = _origin(get.get("url", ""))
        headers = {name: re.sub(r"[\r\n]", "", value) for name, value in pairs if name.lower() in _HEADERS}
        return put.get("url", ""), headers, get.get("url", "")

    def _way_to(self, url: str) -> Http:
        """Return the way to a file: the operator's own server may be anywhere, all others are judged."""
        is_own = self._is_own(url) and _origin(url) == self._files_at
        return self._way_out.for_own(url) if is_own else self._way_out.http

    def _is_own(self, url: str) -> bool:
        return bool(self._settings.host) and urlsplit(url).hostname == self._settings.host

    def _to_cursor(self) -> str:
        return orjson.dumps(self._cursor).decode()


def _list_files(stanza: Element) -> Iterable[Attachment]:
    for each in stanza.iterfind(f"{{{_OOB}}}x/{{{_OOB}}}url"):
        if re.match(r"https?://", url := (each.text or "").strip()):
            name = urlsplit(url).path.rpartition("/")[2]
            yield Attachment(url, name, _guess_mime(name))


def _guess_mime(name: str) -> str:
    from mimetypes import guess_type  # noqa: PLC0415  it reads the system's tables

    return guess_type(name)[0] or "application/octet-stream"


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _cut_quoted(stanza: Element) -> str:
    """Return what a stanza says, without what a client quotes before an answer, or writes for those who cannot show
    what is passed on (XEP-0428): a part of it, or all."""
    text, spans = stanza.findtext(f"{{{CLIENT}}}body") or "", list[tuple[str, str]]()
    for fallback in stanza.iterfind(f"{_FALLBACK}fallback"):
        parts = [each.attrib for each in fallback.iterfind(f"{_FALLBACK}body")] or [{}]
        if fallback.get("for") in _OTHERS:
            spans += [(each.get("start", "0"), each.get("end", str(len(text)))) for each in parts]
    for start, end in sorted(((int(a), int(b)) for a, b in spans if a.isdecimal() and b.isdecimal()), reverse=True):
        text = text[:start] + text[end:]
    is_answer = stanza.find("{urn:xmpp:reply:0}reply") is not None
    return re.sub(r"\A(?:>.*(?:\n|\Z))+\s*", "", text) if is_answer else text


def _to_id(own: str, text: str) -> str:
    """Return an id where no archive gives one: some clients restart their message numbers when they start."""
    return sha256(f"{own}\n{text}".encode()).hexdigest()[:16] if own else token_hex(12)


def _read_time(stanza: Element) -> float:
    delay = stanza.find("{urn:xmpp:delay}delay")
    try:
        return datetime.fromisoformat(delay.get("stamp", "")).timestamp() if delay is not None else 0.0
    except ValueError:
        return 0.0


def _make(settings: Any, way_out: WayOut) -> XmppChannel:
    if not settings.password or not re.fullmatch(r"[^@/\s'\"<>&]+@[^@/\s'\"<>&]+", settings.jid or ""):
        raise ToolError("xmpp needs jid and password: channels: {xmpp: {jid: crib@example.org, password: ..}}")
    return XmppChannel(settings, way_out)


XMPP = ChannelKind(XmppChannel.abilities, _make)
