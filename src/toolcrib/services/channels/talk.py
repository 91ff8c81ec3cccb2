"""What a message gets: a turn that answers it, what a chat's own command does, or the answer to a question.

    /status  /stop  /new  /why TOOL  /approve ID  /deny ID

Commands act for who wrote them, with the rights that they have there and no others.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from toolcrib.adapter.fence import fence, new_token
from toolcrib.define.approval import Question
from toolcrib.define.caller import Caller
from toolcrib.define.channel import Abilities, Button, Channel, HeardMessage, KeptMessage, MessageStore, Post
from toolcrib.define.display import strip, strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.define.turn import TurnRequest
from toolcrib.policy.explain import verdict_json
from toolcrib.services.approvals import Approvals
from toolcrib.services.chat import Chats
from toolcrib.services.chat_run import Past
from toolcrib.services.feature import TurnCore
from toolcrib.services.session_desk import SessionDesk
from toolcrib.services.sessions import Sessions
from toolcrib.services.standing import CurrentVerdicts

from .admission import Admission
from .inbox import FileIntake

log = logging.getLogger("toolcrib")

_COMMAND = re.compile(r"/([a-z]+)(?:@\S+)?(?:\s+(.*))?", re.DOTALL)
_TYPING_SECONDS = 4.0
_NO_NEWS = ("NO_REPLY", "HEARTBEAT_OK")
_NAME_CHARS = 80
_MAX_INVITATIONS = 20
_DAY = 86_400  # seconds
_TERM = re.compile(r"([1-9][0-9]{0,5})([mhx])")  # minutes, hours, or how often
_HELP = "/status, /stop, /new, /why TOOL, /approve ID [session, 10m or 5x], /deny ID"
_NO_TEXT = "There is nothing that I can read in that message: no text, picture, file or recording, or it is encrypted."
_GO_ON = "The gateway stopped while this was being answered. Go on with it; look first at what was done already."


class ChatPlace(NamedTuple):
    """Where a session is answered now."""

    channel: str
    chat: str
    thread: str
    caller: Caller


class ChannelTalk:
    """Answers the messages of all channels."""

    def __init__(self, core: TurnCore, store: MessageStore, admission: Admission, inbox: FileIntake) -> None:
        self._core, self._store, self._admission, self._inbox = core, store, admission, inbox
        self._chats, self._approvals = core.find(Chats), core.find(Approvals)
        self._desk, self._sessions = core.find(SessionDesk), core.find(Sessions)
        self.invitations: dict[tuple[str, str], tuple[str, str]] = {}  # by channel and chat: who, and why it waits
        self._places: dict[str, ChatPlace] = {}  # by session: where it was last written from
        self._commands: dict[str, Callable[[Caller, str], Awaitable[str]]] = {
            "status": self._tell_status,
            "stop": self._stop,
            "new": self._begin_anew,
            "why": self._explain,
            "approve": self._approve,
            "deny": self._deny,
            "help": self._help,
        }

    def is_command(self, message: HeardMessage) -> bool:
        """Tell whether a message waits for nobody before it: it is a command, typed or pressed."""
        found = _COMMAND.fullmatch(message.pressed or message.text.strip())
        return found is not None and found[1] in self._commands

    async def answer(self, name: str, channel: Channel, kept: KeptMessage) -> Sequence[Post]:
        """Return what a message gets; nothing where it is not answered."""
        message = kept.message
        if message.kind == "invitation":
            await self._take_invitation(name, channel, message)
            return ()
        guest = await self._admission.judge(name, message)
        back = Post(chat=message.chat, thread=message.thread, reply_to=message.id)
        if guest.caller is None:
            if not guest.code:
                return ()
            return (replace(back, text=f"I do not know you yet. My owner can let you in with the code {guest.code}."),)
        if self.is_command(message):
            said = message.pressed or message.text.strip()
            return self._cut(back, await self._obey(guest.caller, said), channel.abilities)
        if message.pressed:  # a button of `message`: its data is what was said
            message = replace(message, text=message.pressed)
        if not message.text.strip() and not message.attachments:
            return (replace(back, text=_NO_TEXT),)
        self._places[guest.caller.session or ""] = ChatPlace(name, message.chat, message.thread, guest.caller)
        typing = asyncio.create_task(self._show_typing(channel, message))
        try:
            words = await self._take_turn(name, channel, guest.caller, kept._replace(message=message))
        finally:
            typing.cancel()
            await asyncio.wait((typing,))
        return () if words.strip() in ("", *_NO_NEWS) else self._cut(back, words, channel.abilities)

    async def _take_invitation(self, name: str, channel: Channel, message: HeardMessage) -> None:
        """Join a chat that may be joined; any other one waits, and the owner sees it."""
        why = "whoever invites is not let in"
        if await self._admission.takes_invitation(name, message):
            try:
                await channel.act("join", message.chat, {})
            except ToolError as error:
                why = str(error)
            else:
                self.invitations.pop((name, message.chat), None)
                return
        log.warning("%s: an invitation waits: %s", name, why)
        if len(self.invitations) < _MAX_INVITATIONS:
            self.invitations[name, message.chat] = (message.sender.id or "", why)

    def list_invitations(self, name: str) -> list[dict[str, str]]:
        """Return the chats that somebody invites to, and why they were not joined."""
        found = ((chat, told) for (channel, chat), told in self.invitations.items() if channel == name)
        return [{"chat": chat, "sender": sender, "problem": why} for chat, (sender, why) in found]

    def find_place(self, caller: Caller) -> ChatPlace | None:
        """Return the chat that a caller is answered in, or the one that it works for; None where it is in none."""
        for session in (caller.session, *reversed(caller.parents)):
            place = self._places.get(session or "")
            if place is not None and (place.channel, place.caller.group) == (caller.channel, caller.group):
                # two owners may share a session, and each has a chat of their own
                return place if caller.group or place.caller.sender == caller.sender else None
        return None

    def show_question(self, question: Question) -> tuple[str, Post] | None:
        """Return the channel and the post in which a question is asked; None where no chat is the place for it."""
        place = self._places.get(question.asker.session or "") if question.asker else None
        if place is None or question.state != "pending":
            return None
        buttons = ((Button("Allow once", f"/approve {question.id}"), Button("Refuse", f"/deny {question.id}")),)
        text = f"{question.shown}\n\nMay it run? /approve {question.id} or /deny {question.id}"
        return place.channel, Post(chat=place.chat, thread=place.thread, text=text, buttons=buttons)

    def _cut(self, back: Post, words: str, abilities: Abilities) -> tuple[Post, ...]:
        return tuple(replace(back, text=piece) for piece in split_text(words, abilities.longest))

    # Turns

    async def _take_turn(self, name: str, channel: Channel, caller: Caller, kept: KeptMessage) -> str:
        """Return the answer of a turn; one that a restart has ended goes on."""
        said, why = await self._write_message(name, channel, caller, kept.message), ""
        for key in (f"heard-{kept.number}", f"heard-{kept.number}-again"):
            begun = await self._chats.begin(caller, TurnRequest(message=said, caller=caller), key)
            if not isinstance(begun, Past):
                end = await self._chats.wait_for_end(begun[0])
                return end.text if end is not None else f"That did not work: {begun[0].error()}"
            if begun.end.reason == "done":
                return begun.end.text
            said, why = Message(role="user", content=(Text(_GO_ON),)), begun.error
        return f"That did not work: {why}"

    async def _write_message(self, name: str, channel: Channel, caller: Caller, message: HeardMessage) -> Message:
        """Return what was said as a message of the turn: who speaks in a group stands before it, as data."""
        source = None if self._core.is_owner(caller) else f"message:{name}"
        files = await self._inbox.take_in(channel, caller, message, source)
        text = strip(message.text)
        content = (*((Text(text, source),) if text.strip() else ()), *files)
        if message.kind == "dm":
            return Message(role="user", content=content)
        who = message.sender
        about = {"id": who.id or "", "name": strip_to_line(who.name or who.username or "")[:_NAME_CHARS]}
        heading = fence("(writes what follows)", f"{name}, group {message.group}", new_token(), about=about)
        return Message(role="user", content=(Text(f"{heading}\n", f"message:{name}"), *content))

    async def _show_typing(self, channel: Channel, message: HeardMessage) -> None:
        while channel.abilities.typing:
            try:
                await channel.show_typing(message.chat, message.thread)
            except (ToolError, OSError):
                return  # the answer itself will tell
            await asyncio.sleep(_TYPING_SECONDS)

    # Commands

    async def _obey(self, caller: Caller, said: str) -> str:
        found = _COMMAND.fullmatch(said)
        if found is None or found[1] not in self._commands:
            raise ToolError(f"that is none of my commands: {_HELP}", code="bad_arguments")
        return await self._commands[found[1]](caller, (found[2] or "").strip())

    async def _help(self, caller: Caller, rest: str) -> str:
        return _HELP

    async def _tell_status(self, caller: Caller, rest: str) -> str:
        told = await self._sessions.status(caller, caller.session or "")
        running = "at work" if told["running"] else "idle"
        return f"{told['model'] or 'no model'}, {told['messages']} messages, {told['tokens']} tokens, {running}"

    async def _stop(self, caller: Caller, rest: str) -> str:
        told = await self._chats.abort(caller, caller.session or "main")
        return "stopped" if told["aborted"] else "nothing runs here"

    async def _begin_anew(self, caller: Caller, rest: str) -> str:
        await self._chats.abort(caller, caller.session or "main")
        await self._chats.settle(5.0)
        await self._desk.reset(caller, caller.session or "")
        return "A new conversation. What was said before is kept."

    async def _explain(self, caller: Caller, rest: str) -> str:
        belt = self._core.belt_of(self._core.assign_model(caller, ""))
        verdict, tools = belt.verdicts.get(rest.lower()), belt.catalog.tools
        if verdict is None:
            return f"there is no tool {strip_to_line(rest)[:_NAME_CHARS]!r}" if rest else "say which: /why TOOL"
        told = {"tools": [verdict_json(verdict, tools[verdict.tool])]}
        row = (await self._core.find(CurrentVerdicts).apply(belt.caller, told, tools))["tools"][0]
        remedy = f"; {row['remedy']}" if row["remedy"] and self._core.is_owner(caller) else ""
        return f"{verdict.tool}: {row['decision']}. {row['reason']}{remedy}"

    async def _approve(self, caller: Caller, rest: str) -> str:
        id, _, how = rest.partition(" ")
        how = how.strip().lower()
        if not how:
            return await self._answer_question(caller, id, "once")
        if how == "session":
            return await self._answer_question(caller, id, "session")
        if (found := _TERM.fullmatch(how)) is None:
            return "say how: /approve ID, or with session, a time like 10m, or a number like 5x behind it"
        if found[2] == "x":
            return await self._answer_question(caller, id, "lasting", calls=int(found[1]), seconds=_DAY)
        return await self._answer_question(
            caller, id, "lasting", seconds=int(found[1]) * (60 if found[2] == "m" else 3600)
        )

    async def _deny(self, caller: Caller, rest: str) -> str:
        return await self._answer_question(caller, rest, "no")

    async def _answer_question(self, caller: Caller, id: str, answer: Any, **how: Any) -> str:
        if not id:
            waiting = await self._approvals.waiting(caller)
            return "\n".join(f"{each['id']}  {each['tool']}" for each in waiting) or "nothing waits for your answer"
        told = await self._approvals.answer(caller, id, answer, **how)
        return f"{told['tool']}: {told['state']}"


def split_text(text: str, longest: int) -> list[str]:
    """Return a text in pieces of at most so many characters, cut at paragraphs, else at lines, else at words."""
    pieces, rest = list[str](), text.strip()
    while len(rest) > longest:
        head = rest[: longest + 1]
        at = next((found for mark in ("\n\n", "\n", " ") if (found := head.rfind(mark)) > longest // 4), longest)
        pieces.append(rest[:at].rstrip())
        rest = rest[at:].lstrip()
    return [*pieces, rest] if rest else pieces
