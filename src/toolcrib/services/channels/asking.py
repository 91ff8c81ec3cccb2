"""Questions in chats: asked in full in the direct chat of each who may answer; any other chat reads that the owner is.

A button below a question carries a mark that nobody knows but who is shown it: whatever else is pressed is text.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from secrets import compare_digest
from typing import Any

from toolcrib.define.approval import Question
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import Abilities, Button, DirectPlace, HeardMessage, MessageStore, Post
from toolcrib.define.errors import ToolError
from toolcrib.lazy import regex
from toolcrib.services.approvals import Approvals
from toolcrib.services.revocation import CHANNEL_DOOR

from .worker import ChannelWorker, wait_until_sent

PRESSED = "toolcrib:"  # what the data of our own buttons begin with, and no other's
OWNER_IS_ASKED = "The owner is asked."
_MAX_POSTS = 20
_BUTTON = regex(PRESSED + r"([0-9a-f]{16}):([0-9a-f]{16}):(approve|deny)")
_THREE = regex("(?<=``)(?=`)")
_ELSEWHERE = "answer it on the page, at the terminal or with `toolcrib approvals`"


class ChatQuestions:
    """Knows where somebody was last written to directly, and what was asked there."""

    def __init__(
        self,
        approvals: Approvals,
        store: MessageStore,
        explain_refusal: Callable[[Caller, str], Awaitable[str]],
        lines: Mapping[str, ChannelWorker],
        run_beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._approvals, self._store, self._lines = approvals, store, lines
        self._explain_refusal, self._run_beside = explain_refusal, run_beside
        self._last = dict[tuple[str, str], tuple[str, ...]]()

    async def note_place(self, caller: Caller, message: HeardMessage) -> None:
        """Keep where somebody writes directly, and show them there what was asked before and waits for their yes."""
        if caller.group is not None or message.kind != "dm":
            return
        sender, place = caller.sender or Sender(), (caller.channel or "", message.chat, message.thread)
        who = (sender.id or "", sender.e164 or "")
        here = DirectPlace(place[0], *who, *place[1:], at=time.time())
        if self._last.get(who) != place:
            await self._store.keep_direct(here)
            self._last[who] = place
        for question in await self._approvals.list_waiting():
            if self._approvals.answerers.list_rules(caller, question) and here.channel in self._lines:
                self._run_beside(self._ask_one(question, here))  # once: it has a key

    async def list_places(self, question: Question) -> list[tuple[DirectPlace, Caller]]:
        """Return the last direct chat of each whose yes would count, where they are let in now."""
        found = dict[str, tuple[DirectPlace, Caller]]()
        for each in await self._store.list_direct():
            sender = Sender(id=each.id or None, e164=each.e164 or None)
            caller = Caller(channel=each.channel, sender=sender, door=CHANNEL_DOOR)
            is_asked = each.channel in self._lines and self._approvals.answerers.list_rules(caller, question)
            if is_asked and not await self._explain_refusal(caller, ""):
                found[self._approvals.person_of(caller)] = each, caller
        return list(found.values())

    async def list_reached(self, question: Question) -> list[Caller]:
        """Return who can be asked in a chat."""
        return [caller for _, caller in await self.list_places(question)]

    async def ask(self, question: Question, origin: tuple[str, Post] | None) -> None:
        """Ask those who may answer; the chat where the call came from reads that somebody is."""
        places = [each for each, _ in await self.list_places(question)]
        asked = {(each.channel, each.chat) for each in places}
        if origin is not None and (origin[0], origin[1].chat) not in asked and origin[0] in self._lines:
            await self._say(origin[0], f"told-{question.id}", (origin[1],))
        await asyncio.gather(*(self._ask_one(question, each) for each in places))

    async def _ask_one(self, question: Question, place: DirectPlace) -> None:
        line, key = self._lines[place.channel], _name_asked(question.id, place.id or place.e164)
        posts = _write_question(question, place, line.channel.abilities)
        state = "failed"
        if len(posts) <= _MAX_POSTS:
            await self._say(line.name, key, posts)
            state, _ = await wait_until_sent(self._store, line.name, key)
        if state in ("failed", "uncertain"):
            text = (
                f"A question could not be shown here in full: {_ELSEWHERE}. Here you can refuse it: /deny {question.id}"
            )
            await self._say(line.name, f"{key}-elsewhere", (Post(chat=place.chat, thread=place.thread, text=text),))

    async def _say(self, channel: str, key: str, posts: tuple[Post, ...]) -> None:
        await self._store.say(channel, key, posts)
        self._lines[channel].wake()

    async def check_shown(self, caller: Caller, id: str) -> None:
        """Raise ToolError unless every post of a question was sent to this person here, and they may answer it."""
        await self._approvals.find_question(caller, id)
        sender = caller.sender or Sender()
        key = _name_asked(id, sender.id or sender.e164 or "")
        is_here = caller.group is None and await self._store.find_posts(caller.channel or "", key)
        if not is_here or (await wait_until_sent(self._store, caller.channel or "", key))[0] != "sent":
            what = f"that question was not shown here in full; {_ELSEWHERE}. Here you can only refuse it: /deny ID"
            raise ToolError(what, code="denied")

    async def shows(self, channel: str, message: str) -> bool:
        """Tell whether a message of a channel shows some of a question that waits."""
        for question in await self._approvals.list_waiting():
            for place, _ in await self.list_places(question):
                posts = await self._store.find_posts(channel, _name_asked(question.id, place.id or place.e164))
                if any(_fold_message(id) == _fold_message(message) for _, id in posts):
                    return True
        return False

    async def read_button(self, caller: Caller, pressed: str) -> str:
        """Return the command of a button of ours, "" where it is anybody else's."""
        if (found := _BUTTON.fullmatch(pressed)) is None:
            return ""
        try:
            question = await self._approvals.find_question(caller, found[1])
        except ToolError:
            return ""
        return f"/{found[3]} {found[1]}" if question.mark and compare_digest(question.mark, found[2]) else ""


def is_button(pressed: str) -> bool:
    """Tell whether this may be a button of ours."""
    return _BUTTON.fullmatch(pressed) is not None


def _name_asked(id: str, who: str) -> str:
    return f"ask-{id}-{who}"


def _fold_message(id: str) -> str:
    """Return the one spelling of a message's id."""
    return id.strip().rpartition("/")[2].lstrip("0")


def _write_question(question: Question, place: DirectPlace, can: Abilities) -> tuple[Post, ...]:
    """Return the posts that show all of a question, the buttons at the last."""
    data = f"{PRESSED}{question.id}:{question.mark}"
    buttons = ((Button("Allow once", f"{data}:approve"), Button("Refuse", f"{data}:deny")),) if can.buttons else ()
    last = f"May it run? /approve {question.id} or /deny {question.id}"
    lines, pieces = question.shown.split("\n"), list[str]()
    step, longest = (can.most_lines // 2, can.longest // 4) if can.most_lines else (len(lines), can.longest // 2)
    for at in range(0, len(lines), step):
        block = "\n".join(lines[at : at + step])
        pieces += [block[start : start + longest] for start in range(0, len(block), longest)]
    if can.markup:  # between such marks a sign is what it is, and nothing is hidden or a link
        pieces = [f"```\n{part}\n```" for each in pieces for part in _THREE.split(each) if part.strip()]
    shown = (Post(chat=place.chat, thread=place.thread, text=each) for each in pieces if each.strip())
    return (*shown, Post(chat=place.chat, thread=place.thread, text=last, buttons=buttons))
