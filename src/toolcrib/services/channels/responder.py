"""What a message gets: a turn that answers it, what a chat's own command does, or the answer to a question.

    /status  /stop  /new  /why TOOL  /approve ID  /deny ID

Commands act for who wrote them, with the rights that they have there and no others.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from toolcrib.adapter.fence import fence, new_token
from toolcrib.define.approval import Question
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import Abilities, Channel, ChatPlace, HeardMessage, KeptMessage, Post
from toolcrib.define.display import strip, strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Message
from toolcrib.define.ports import Why, check_why
from toolcrib.define.result import Text
from toolcrib.define.turn import TurnRequest
from toolcrib.lazy import dataclass, regex, replace
from toolcrib.policy.explain import verdict_json
from toolcrib.services.approvals import Approvals
from toolcrib.services.chat import Chats
from toolcrib.services.chat_run import FinishedRun
from toolcrib.services.effective import EffectiveVerdicts
from toolcrib.services.feature import TurnCore
from toolcrib.services.revocation import Revocations
from toolcrib.services.session_commands import SessionCommands
from toolcrib.services.sessions import Sessions

from .admission import Admission
from .asking import OWNER_IS_ASKED, ChatQuestions, is_button
from .inbox import FileIntake

log = logging.getLogger("toolcrib")

_COMMAND = regex(r"/([a-z]+)(?:\s+(.*))?", re.DOTALL)
_TYPING_SECONDS = 4.0
_NO_NEWS = ("NO_REPLY", "HEARTBEAT_OK")
_NAME_CHARS = 80
_MAX_INVITATIONS, _KNOCK_SECONDS = 20, 3_600.0
_DAY = 86_400  # seconds
_TERM = regex(r"([1-9][0-9]{0,5})([mhx])")  # minutes, hours, or how often
_HELP = "/status, /stop, /new, /why TOOL, /approve ID [session, 10m or 5x], /deny ID"
_NO_TEXT = "There is nothing that I can read in that message: no text, picture, file or recording, or it is encrypted."
_GO_ON = "The gateway stopped while this was being answered. Go on with it; look first at what was done already."


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """What answers a command that is typed in a chat, and why guests may type it."""

    answer: Callable[[Caller, str], Awaitable[str]]
    why: Why = ""

    def __post_init__(self) -> None:
        check_why(f"the chat command of {self.answer!r}", self.why)


class ChannelResponder:
    """Answers the messages of all channels."""

    def __init__(self, core: TurnCore, questions: ChatQuestions, admission: Admission, inbox: FileIntake) -> None:
        self._core, self.questions, self._admission, self._inbox = core, questions, admission, inbox
        self._store = core.stores.messages
        self._chats, self._approvals = core.find(Chats), core.find(Approvals)
        self._revocations = core.find(Revocations)
        self._desk, self._sessions = core.find(SessionCommands), core.find(Sessions)
        self.invitations: dict[tuple[str, str], tuple[str, str]] = {}  # by channel and chat: who, and why it waits
        self._knocks: dict[str, float] = {}  # by channel: when an owner was last notified of strangers
        self.places: dict[str, ChatPlace] = {}  # by session: where it was last written from
        self._commands = {
            "status": ChatCommand(self._tell_status, "own"),
            "stop": ChatCommand(self._stop, "own"),
            "new": ChatCommand(self._begin_anew, "own"),
            "why": ChatCommand(self._explain, "gate"),
            "approve": ChatCommand(self._approve, "gate"),
            "deny": ChatCommand(self._deny, "gate"),
            "help": ChatCommand(self._help, "harmless"),
        }

    def is_command(self, message: HeardMessage) -> bool:
        """Tell whether a message waits for nobody before it: a command that is typed, or a button of ours."""
        if message.pressed:
            return is_button(message.pressed)
        found = _COMMAND.fullmatch(message.text.strip())
        return found is not None and found[1] in self._commands

    async def answer(self, name: str, channel: Channel, kept: KeptMessage) -> Sequence[Post]:
        """Return what a message gets; nothing where it is not answered."""
        message = kept.message
        if message.kind == "invitation":
            await self._handle_invitation(name, channel, message)
            return ()
        guest = await self._admission.judge(name, message)
        back = Post(chat=message.chat, thread=message.thread, reply_to=message.id)
        if guest.caller is None:
            if not guest.code:
                return ()
            await self._tell_of_knock(name)
            return (replace(back, text=f"I do not know you yet. My owner can let you in with the code {guest.code}."),)
        try:
            if self.is_command(message) and (
                command := await self.questions.read_button(guest.caller, message.pressed)
                if message.pressed
                else message.text.strip()
            ):
                return self._cut(back, await self._obey(guest.caller, command), channel.abilities)
        finally:  # so that a command answers nothing that is shown with it
            await self.questions.note_place(guest.caller, message)
        if message.pressed:  # a button of `message`: its data is the text
            message = replace(message, text=message.pressed)
        if not (message.text + message.forwarded).strip() and not message.attachments:
            return (replace(back, text=_NO_TEXT),)
        await self._keep_place(guest.caller.session or "", ChatPlace(name, message.chat, message.thread, guest.caller))
        typing = asyncio.create_task(self._show_typing(channel, message))
        try:
            words = await self._take_turn(name, channel, guest.caller, kept._replace(message=message))
        finally:
            typing.cancel()
            await asyncio.wait((typing,))
        if await self._revocations.explain(guest.caller):  # since it was asked
            return ()
        return () if words.strip() in ("", *_NO_NEWS) else self._cut(back, words, channel.abilities)

    async def _handle_invitation(self, name: str, channel: Channel, message: HeardMessage) -> None:
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

    async def _tell_of_knock(self, name: str) -> None:
        """Tell an owner in their own chat that strangers write, once an hour and channel at most."""
        mine = (each for each in self.places.values() if each.channel == name and each.caller.group is None)
        place, now = next((each for each in mine if self._core.is_owner(each.caller)), None), time.time()
        if place is not None and now - self._knocks.get(name, 0.0) >= _KNOCK_SECONDS:
            self._knocks[name] = now
            text = (
                "A stranger wrote and got a code. `toolcrib channels pair` lists who waits; I tell of it once an hour."
            )
            await self._store.say(name, f"knock-{int(now)}", (Post(chat=place.chat, thread=place.thread, text=text),))

    def list_invitations(self, name: str) -> list[dict[str, str]]:
        """Return the chats that somebody invites to, and why they were not joined."""
        found = ((chat, waiting) for (channel, chat), waiting in self.invitations.items() if channel == name)
        return [{"chat": chat, "sender": sender, "problem": why} for chat, (sender, why) in found]

    async def _keep_place(self, session: str, place: ChatPlace) -> None:
        if (before := self.places.get(session)) == place:
            return
        kept = {session: place}
        if before is not None and (whose := _whose(before.caller)) != _whose(place.caller):
            kept[f"{session} {whose}"] = before  # who shares a session has a chat of their own
        self.places |= kept
        for key, each in kept.items():
            await self._store.keep_place(key, each)

    def find_place(self, caller: Caller) -> ChatPlace | None:
        """Return the chat that a caller is answered in, or the one that it works for; None where it is in none."""
        for session in (caller.session, *reversed(caller.parents)):
            for key in (session or "", f"{session} {_whose(caller)}"):
                place = self.places.get(key)
                if place is not None and _whose(place.caller) == _whose(caller):
                    return place
        return None

    def list_here(self, caller: Caller) -> tuple[str, ...]:
        """Return what the chat that a caller is answered in may be called, its own id first."""
        place, who = self.find_place(caller), caller.sender
        place_ids = (place.chat, place.thread) if place else ()
        known = (*place_ids, caller.group) if caller.group or who is None else (*place_ids, who.id, who.e164)
        return tuple(dict.fromkeys(each for each in known if each))

    def find_origin(self, question: Question) -> tuple[str, Post] | None:
        """Return the channel that a question came from, with the post to send there; None where that is no chat."""
        place = self.places.get(question.asker.session or "") if question.asker else None
        return place and (place.channel, Post(chat=place.chat, thread=place.thread, text=OWNER_IS_ASKED))

    def _cut(self, back: Post, words: str, abilities: Abilities) -> tuple[Post, ...]:
        return tuple(replace(back, text=piece) for piece in split_text(words, abilities.longest))

    # Turns

    async def _take_turn(self, name: str, channel: Channel, caller: Caller, kept: KeptMessage) -> str:
        """Return the answer of a turn; one that a restart has ended goes on."""
        message, why = await self._write_message(name, channel, caller, kept.message), ""
        for key in (f"heard-{kept.number}", f"heard-{kept.number}-again"):
            begun = await self._chats.begin(caller, TurnRequest(message=message, caller=caller), key)
            if not isinstance(begun, FinishedRun):
                end = await self._chats.wait_for_end(begun[0])
                return end.text if end is not None else f"That did not work: {begun[0].error()}"
            if begun.end.reason == "done":
                return begun.end.text
            message, why = Message(role="user", content=(Text(_GO_ON),)), begun.error
        return f"That did not work: {why}"

    async def _write_message(self, name: str, channel: Channel, caller: Caller, message: HeardMessage) -> Message:
        """Return a chat message as one of the turn; in a group its sender precedes it, as data."""
        source = None if self._core.is_owner(caller) else f"message:{name}"
        passed_on = f"message:forwarded/{name}"  # whoever passes it on: it is not their word
        if message.pressed and (made := await self._store.find_button(name, message.chat, message.pressed)):
            message, passed_on = replace(message, text="", forwarded=message.text), made
        files = await self._inbox.take_in(channel, caller, message, source, passed_on)
        words = (Text(strip(message.text), source), Text(strip(message.forwarded), passed_on))
        content = tuple(
            part._replace(text=fence(part.text, passed_on, new_token()))
            if isinstance(part, Text) and part.source == passed_on
            else part
            for part in (*(each for each in words if each.text.strip()), *files)
        )
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

    async def _obey(self, caller: Caller, text: str) -> str:
        found = _COMMAND.fullmatch(text)
        if found is None or found[1] not in self._commands:
            raise ToolError(f"that is none of my commands: {_HELP}", code="bad_arguments")
        rest = (found[2] or "").strip().partition("\n")[0]  # a letter says more
        return await self._commands[found[1]].answer(caller, rest)

    async def _help(self, caller: Caller, rest: str) -> str:
        return _HELP

    async def _tell_status(self, caller: Caller, rest: str) -> str:
        status = await self._sessions.status(caller, caller.session or "")
        running = "at work" if status["running"] else "idle"
        running += f". {OWNER_IS_ASKED}" if self._approvals.waits_in(caller.session or "") else ""
        return f"{status['model'] or 'no model'}, {status['messages']} messages, {status['tokens']} tokens, {running}"

    async def _stop(self, caller: Caller, rest: str) -> str:
        outcome = await self._chats.abort(caller, caller.session or "main")
        return "stopped" if outcome["aborted"] else "nothing runs here"

    async def _begin_anew(self, caller: Caller, rest: str) -> str:
        if caller.group is not None and not self._core.is_owner(caller):
            raise ToolError("only the owner begins anew in a group", code="denied")
        await self._chats.abort(caller, caller.session or "main")
        await self._chats.settle(5.0)
        await self._desk.reset(caller, caller.session or "")
        return "A new conversation. The old one is kept."

    async def _explain(self, caller: Caller, rest: str) -> str:
        belt = self._core.belt_of(self._core.assign_model(caller, ""))
        verdict, tools = belt.verdicts.get(rest.lower()), belt.catalog.tools
        if verdict is None:
            return f"there is no tool {strip_to_line(rest)[:_NAME_CHARS]!r}" if rest else "say which: /why TOOL"
        report = {"tools": [verdict_json(verdict, tools[verdict.tool])]}
        row = (await self._core.find(EffectiveVerdicts).apply(belt.caller, report, tools))["tools"][0]
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
            if caller.group is not None:
                return OWNER_IS_ASKED if waiting else "nothing waits for your answer"
            return "\n".join(f"{each['id']}  {each['tool']}" for each in waiting) or "nothing waits for your answer"
        if answer != "no":
            await self.questions.check_shown(caller, id)
        try:
            question = await self._approvals.answer(caller, id, answer, **how)
        except ToolError as error:
            if caller.group is None or error.code != "settled":
                raise
            raise ToolError(
                "that question is settled already", code="settled"
            ) from None  # a group does not learn by whom
        return question["state"] if caller.group is not None else f"{question['tool']}: {question['state']}"


def _whose(caller: Caller) -> tuple[str | None, ...]:
    """Return what tells who is answered in one chat from others: their channel, and their group or who they are."""
    who = (caller.sender if caller.group is None else None) or Sender()
    return caller.channel, caller.group, who.id, who.e164


def split_text(text: str, max_chars: int) -> list[str]:
    """Return a text in pieces of at most so many characters, cut at paragraphs, else at lines, else at words."""
    pieces, rest = list[str](), text.strip()
    while len(rest) > max_chars:
        head = rest[: max_chars + 1]
        end = next((found for mark in ("\n\n", "\n", " ") if (found := head.rfind(mark)) > max_chars // 4), max_chars)
        pieces.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*pieces, rest] if rest else pieces
