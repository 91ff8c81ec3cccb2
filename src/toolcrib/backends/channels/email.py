"""E-mail: a mailbox is read over IMAP behind a cursor, answers go out over SMTP. One chat is one address.

Anyone can put any name and address into a letter. `From` counts where the server that took the message in vouches
for it; an address that nothing authenticates has an id that no list names by accident. What machines write is not
answered, so that two of them never talk for ever.
"""

import asyncio
import logging
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import formatdate, parsedate_to_datetime
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, ChannelKind, Hear, HeardMessage, Post, refuse_action
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.web import WayOut
from toolcrib.lazy import regex

from .mail_results import is_authenticated
from .mail_text import decode_part, list_letter_files, read_letter
from .mail_wire import ImapSession, MailRoute, hand_over

log = logging.getLogger("toolcrib")

_MAIL_BYTES = 25 << 20  # of one message that are read
_MAX_AN_HOUR, _HOUR = 30, 3_600.0  # messages of one sender that are heard: a machine that does not say so is one
_MAX_LATER = 1_000  # letters that are put off; any more are passed over
_MAX_SUBJECTS, _SUBJECT_CHARS = 1_000, 200
_ADDRESS = regex(r"[!#-'*+./0-9=?A-Z^-~-]{1,64}@[A-Za-z0-9.-]{1,250}")  # in ASCII: no letter that looks like one
_ID = regex(r"<([!-;=?-~]{1,250})>")
_MACHINES = regex(r"(?i)(mailer-daemon|postmaster|bounces?|no-?reply|do-?not-?reply)([+-].*)?@.*")


class EmailChannel:
    """One mailbox."""

    abilities = Abilities(actions=("send", "broadcast", "reply"), media=True, longest=100_000)

    def __init__(self, settings: Any, route: MailRoute, now: Callable[[], float] = time.time) -> None:
        self._settings, self._route, self._now = settings, route, now
        self._address = settings.address.lower()
        self._subjects: OrderedDict[str, str] = OrderedDict()  # by thread
        self._later: dict[int, str] = {}  # letters that are put off, and whose
        self._times: dict[str, deque[float]] = {}  # by sender: when the last messages came

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Read what comes; what was there before the first time is not answered."""
        box = await ImapSession.open(self._settings.imap, self._route)
        try:
            validity, coming = await box.select()
            known, _, rest = cursor.partition(":")
            last, _, later = rest.partition(";")
            uid = int(last) if known == str(validity) else coming - 1
            self._later = {int(each): "" for each in later.split(",") if each and known == str(validity)}
            if known not in ("", str(validity)):
                log.warning("email: the mailbox was numbered anew; what came meanwhile is not answered")
            if not cursor.startswith(f"{validity}:"):
                await hear([], f"{validity}:{uid}")
            ready()
            while True:
                coming_now = [each for each, _ in await box.list_behind(uid)]
                for each in (*self._list_due(), *coming_now):
                    raw = await box.fetch(each, _MAIL_BYTES)
                    # in a thread: a letter can be made so that the parser takes seconds
                    message = await asyncio.to_thread(
                        self._read, raw, f"{validity}:{each}", is_whole=len(raw) < _MAIL_BYTES
                    )
                    uid = max(uid, each)
                    self._later.pop(each, None)
                    if message is not None and self._puts_off(each, message.sender.id or ""):
                        message = None
                    later = f";{','.join(map(str, self._later))}" if self._later else ""
                    await hear([message] if message else [], f"{validity}:{uid}{later}")
                await box.wait()
        finally:
            box.close()

    async def post(self, post: Post, key: str, /) -> str:
        """Send a message; its id follows from its key, so that who gets it twice can tell."""
        if not _ADDRESS.fullmatch(post.chat):
            raise ToolError(f"{strip_to_line(post.chat)[:80]!r} is no e-mail address", code="bad_arguments")
        made = EmailMessage(policy=policy.SMTP)
        id = f"{sha256(key.encode()).hexdigest()[:32]}.toolcrib@{self._address.rpartition('@')[2]}"
        answered = [each for each in dict.fromkeys((post.thread, post.reply_to)) if _ID.fullmatch(f"<{each}>")]
        first = strip_to_line(post.text)[:60] or post.filename or "a file"
        subject = self._subjects.get(post.thread, "your message" if answered else first)
        made["From"], made["To"], made["Date"] = self._address, post.chat, formatdate(self._now())
        made["Message-ID"], made["Auto-Submitted"] = f"<{id}>", "auto-replied" if answered else "auto-generated"
        made["Subject"] = re.sub(r"(?i)\A(re:\s*)*", "Re: ", subject) if answered else subject
        if answered:
            made["In-Reply-To"] = f"<{answered[-1]}>"
            made["References"] = " ".join(f"<{each}>" for each in answered)
        else:
            self._note_subject(id, subject)
        made.set_content(post.text.encode(errors="replace").decode() or " ")
        if post.media:
            name = strip_to_line(post.filename) or Path(post.media).name
            kind, _, part = (guess_type(name)[0] or "application/octet-stream").partition("/")
            data = await asyncio.to_thread(Path(post.media).read_bytes)
            made.add_attachment(data, maintype=kind, subtype=part, filename=name)
        await hand_over(self._settings.smtp, self._route, self._address, post.chat, made.as_bytes())
        return id

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        raise refuse_action("email", action, self.abilities)

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        """Return what came with a message, which is read from the mailbox again."""
        validity, uid, index = (int(each) for each in attachment.ref.split(":"))
        box = await ImapSession.open(self._settings.imap, self._route)
        try:
            is_there = (await box.select())[0] == validity
            raw = await box.fetch(uid, _MAIL_BYTES) if is_there else b""
        finally:
            box.close()
        parts = list_letter_files(message_from_bytes(raw, policy=policy.default))
        if index >= len(parts):
            raise ToolError("the message is no longer in the mailbox", code="not_found")
        data = decode_part(parts[index].part)
        if len(data) > max_bytes:
            raise ToolError(f"the file has {len(data)} bytes, and {max_bytes} is the most", code="too_large")
        return data

    async def show_typing(self, chat: str, thread: str, /) -> None:
        """Do nothing: there is no such thing."""

    async def close(self) -> None:
        """Do nothing: who listens ends its own connection."""

    # What is heard

    def _read(self, raw: bytes, place: str, *, is_whole: bool) -> HeardMessage | None:
        """Return what a message says, None where it is not for us to answer."""
        try:
            return self._to_message(message_from_bytes(raw, policy=policy.default), place, is_whole=is_whole)
        except Exception:  # one that breaks the parser would stand before all others for ever
            log.exception("email: a message cannot be read; it is passed over")
            return None

    def _to_message(self, mail: EmailMessage, place: str, *, is_whole: bool) -> HeardMessage | None:
        address = find_author(mail)
        if not address or address == self._address or is_automatic(mail) or _MACHINES.fullmatch(address):
            return None
        own, answered = _find_ids(mail, "Message-ID"), _find_ids(mail, "References", "In-Reply-To")
        thread = (*answered, *own, "")[0]
        subject = strip_to_line(str(mail.get("Subject", "")))[:_SUBJECT_CHARS]
        self._note_subject(thread, subject)
        letter = read_letter(mail, subject, is_answer=bool(answered))
        text, forwarded, title = letter.own, letter.forwarded, "" if answered else subject
        if title and letter.is_forward:  # it is of who wrote first
            forwarded = f"{title}\n\n{forwarded}"
        elif title and not text.startswith("/"):
            text = f"{title}\n\n{text}".strip()
        files = tuple(
            Attachment(
                f"{place}:{index}", strip_to_line(part.get_filename() or ""), part.get_content_type(), size,
                is_forwarded=is_inner or letter.is_forward,
            )
            for index, (part, is_inner) in enumerate(list_letter_files(mail))
            if (size := len(decode_part(part))) and is_whole
        )  # fmt: skip
        # an address that begins with our own mark would look like one that is not authenticated
        is_authentic = address[0] != "~" and is_authenticated(mail, address, self._settings.auth_serv or "")
        return HeardMessage(
            id=(*own, place)[0],
            chat=address,
            sender=Sender(id=address if is_authentic else f"~{address}", name=_find_name(mail)),
            thread=thread,
            forwarded=forwarded,
            text=text if is_whole else f"{text}\n\n[the message is too large: what came with it is left out]",
            attachments=files,
            at=_find_time(mail),
        )

    def _list_due(self) -> list[int]:
        """Return the letters that were put off, of those who may write again."""
        now = self._now()
        return [uid for uid, who in self._later.items() if not who or self._times.get(who, (0.0,))[0] + _HOUR <= now]

    def _puts_off(self, uid: int, who: str) -> bool:
        """Put off a letter of who writes too often; `who` is the id that they got: forged letters have another."""
        if not self._is_too_often(who):
            return False
        if len(self._later) < _MAX_LATER:
            log.warning("email: %s writes more than %d messages an hour; one is put off", who, _MAX_AN_HOUR)
            self._later[uid] = who
        return True

    def _is_too_often(self, address: str) -> bool:
        now = self._now()
        self._times = {who: each for who, each in self._times.items() if each[-1] + _HOUR > now}
        times = self._times.setdefault(address, deque(maxlen=_MAX_AN_HOUR))
        if len(times) == _MAX_AN_HOUR and times[0] + _HOUR > now:
            return True
        times.append(now)
        return False

    def _note_subject(self, thread: str, subject: str) -> None:
        if thread and subject:
            self._subjects.setdefault(thread, subject)
            while len(self._subjects) > _MAX_SUBJECTS:
                self._subjects.popitem(last=False)


def find_author(mail: EmailMessage) -> str:
    """Return the address that a message says it is from; "" when it names none, or more than one."""
    fields = mail.get_all("From", [])
    groups = fields[0].groups if len(fields) == 1 else ()
    # behind the name of a group another reader may see another address
    found = [who.addr_spec for each in groups for who in each.addresses if each.display_name is None]
    return found[0].lower() if len(found) == 1 and _ADDRESS.fullmatch(found[0]) else ""


def is_automatic(mail: EmailMessage) -> bool:
    """Tell whether a machine wrote a message, or a list sent it on."""
    submitted = str(mail.get("Auto-Submitted", "no")).partition(";")[0].strip().lower()
    bulk = str(mail.get("Precedence", "")).strip().lower() in ("bulk", "list", "junk", "auto_reply")
    is_bounce = any(str(each).strip() == "<>" for each in mail.get_all("Return-Path", []))
    return submitted != "no" or bulk or is_bounce or "List-Id" in mail or mail.get_content_type() == "multipart/report"


def _find_ids(mail: EmailMessage, *names: str) -> tuple[str, ...]:
    return tuple(id for name in names for field in mail.get_all(name, []) for id in _ID.findall(str(field)))


def _find_name(mail: EmailMessage) -> str | None:
    return strip_to_line(mail["From"].addresses[0].display_name)[:80] or None


def _find_time(mail: EmailMessage) -> float:
    try:
        return parsedate_to_datetime(str(mail.get("Date", ""))).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _make(settings: Any, way_out: WayOut) -> EmailChannel:
    if not (settings.imap and settings.smtp and _ADDRESS.fullmatch(settings.address or "")):
        raise ToolError("email needs address, imap and smtp: channels: {email: {address: .., imap: {host: ..}, ..}}")
    if not (settings.imap.user and settings.imap.password):
        raise ToolError("email needs imap.user and imap.password, to read the mailbox")
    return EmailChannel(settings, MailRoute(way_out.dial_own))


EMAIL = ChannelKind(EmailChannel.abilities, _make)
