"""The worker of one channel: stays connected, answers messages in order, and sends each queued post once."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from toolcrib.define.channel import Channel, HeardMessage, KeptMessage, KeptPost, MessageStore, Post, PostState
from toolcrib.define.errors import ToolError

from .places import MAX_WAITING, ChannelPlaces, PlaceOwner

log = logging.getLogger("toolcrib")

_SENT_SECONDS = 30.0  # to wait for a post to be sent
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 300.0
_MAX_AT_ONCE = 2  # urgent messages of one person, or of strangers, that wait for nobody; any more are in line
_MAX_LINED_UP, _PAGE = 1_000, 50  # chats that wait for that, and messages of one that are not left in the store

# Answers one message; returns the posts to send.
AnswerMessage = Callable[[KeptMessage], Awaitable[Sequence[Post]]]
# Says who writes, as far as places go by it.
FindPlaceOwner = Callable[[HeardMessage], Awaitable[PlaceOwner]]
LineState = Literal["connecting", "connected", "waiting", "stopped"]


class ChannelWorker:
    """Keeps one channel going. `answer` says what a message gets, `is_urgent` whether it waits for those before it;
    `release` is called with the file of a post that was sent or given up."""

    def __init__(  # noqa: PLR0913  those behind the star by name
        self,
        name: str,
        channel: Channel,
        store: MessageStore,
        answer: AnswerMessage,
        *,
        is_urgent: Callable[[HeardMessage], bool] = lambda _: False,
        release: Callable[[str], Awaitable[None]] | None = None,
        find_principal: FindPlaceOwner | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name, self.channel, self._store, self._answer = name, channel, store, answer
        self._is_urgent, self._pause, self._release = is_urgent, pause, release
        self.state: LineState = "connecting"
        self.why = ""
        self._failures = 0
        self._connected, self._heard, self._written = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._queues = dict[str, deque[KeptMessage]]()  # by chat: what is lined up
        self._backlogged = set[str]()  # chats of which more is in the store
        self._urgent = dict[int, PlaceOwner]()  # by number: messages that are answered at once, and whose
        self._slowed = set[tuple[str, str]]()  # chats, and whose urgent messages there wait for those before them
        self._last = 0  # the number of the last message that was taken in
        self._drained = asyncio.Event()
        self._places, self._find_principal = ChannelPlaces(), find_principal

    async def run(self) -> None:
        """Work until it is cancelled, or the store fails; begun again, it takes up whatever is unanswered."""
        self._queues.clear()
        self._backlogged.clear()
        self._urgent.clear()
        self._connected.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stay_connected())
            group.create_task(self._send())
            group.create_task(self._take_in(group))

    def wake(self) -> None:
        """Wake the sender: a post was queued."""
        self._written.set()

    def give_back(self, chat: str, thread: str) -> None:
        """Let others have the place of a turn that waits for a person."""
        self._places.give_back(f"{chat}\n{thread}")

    def to_json(self) -> dict[str, Any]:
        """Return how it stands."""
        return {"channel": self.name, "state": self.state, **({"problem": self.why} if self.why else {})}

    # Connect

    async def _stay_connected(self) -> None:
        while True:
            self.state = "connecting"
            try:
                await self.channel.listen(self._hear, await self._store.cursor(self.name), self._note_ready)
                self.why = "the other side ended the connection"
            except (ToolError, OSError, TimeoutError) as error:
                self.why = str(error) or type(error).__name__
            self._connected.clear()
            self.state = "waiting"
            delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2**self._failures)
            self._failures = min(self._failures + 1, 16)
            log.warning("%s: %s; it is tried again in %.0f s", self.name, self.why, delay)
            await self._pause(delay * random.uniform(0.5, 1.0))  # noqa: S311  so that not all come back at once

    def _note_ready(self) -> None:
        self.state, self.why, self._failures = "connected", "", 0
        self._connected.set()

    async def _hear(self, messages: Sequence[HeardMessage], cursor: str) -> None:
        if await self._store.hear(self.name, messages, cursor):
            self._heard.set()

    # Answer

    async def _take_in(self, group: asyncio.TaskGroup) -> None:
        self._last = 0
        while True:
            self._heard.clear()
            while found := await self._store.list_unanswered(self.name, after=self._last, most=_PAGE):
                for each in found:
                    self._last = each.number
                    if self._is_urgent(each.message) and await self._goes_first(each):
                        group.create_task(self._answer_at_once(each))
                    else:
                        await self._enqueue(each, group)
            await self._heard.wait()

    async def _goes_first(self, kept: KeptMessage) -> bool:
        """Tell whether an urgent message waits for none before it: not of who has many such under way."""
        place = _name_chat(kept), kept.message.sender.id or ""
        if place in self._slowed and place[0] in self._queues:
            return False
        who = await self._find_principal(kept.message) if self._find_principal else None
        if who is not None and sum(each == who for each in self._urgent.values()) >= _MAX_AT_ONCE:
            self._slowed.add(place)
            return False
        self._urgent[kept.number] = who
        return True

    async def _answer_at_once(self, kept: KeptMessage) -> None:
        try:
            await self._answer_one(kept)
        finally:
            self._urgent.pop(kept.number, None)

    async def _enqueue(self, kept: KeptMessage, group: asyncio.TaskGroup) -> None:
        """Put a message behind those of its chat; of a chat that says much, what is behind them waits in the store."""
        chat = _name_chat(kept)
        if chat not in self._queues:
            who = await self._find_principal(kept.message) if self._find_principal else None
            if not self._places.has_room(who):
                await self._leave_out(kept, who)
                return
            while who is not None and len(self._queues) >= _MAX_LINED_UP:
                self._drained.clear()
                await self._drained.wait()
            self._queues[chat] = deque((kept,))
            group.create_task(self._answer_chat(chat, who))
        elif chat not in self._backlogged and len(self._queues[chat]) < _PAGE:
            self._queues[chat].append(kept)
        else:
            self._backlogged.add(chat)

    async def _leave_out(self, kept: KeptMessage, who: PlaceOwner) -> None:
        log.warning("%s: %d conversations of %s wait already", self.name, MAX_WAITING, who or "strangers")
        text = f"{MAX_WAITING} of your conversations wait already; say it again when one was answered."
        post = Post(chat=kept.message.chat, thread=kept.message.thread, text=text)
        await self._store.answer(self.name, kept.number, (post,) if who else ())
        self.wake()

    async def _answer_chat(self, chat: str, who: PlaceOwner) -> None:
        """Answer the messages of one chat, one after the other."""
        queue = self._queues[chat]
        async with self._places.wait(chat, who):
            while queue:
                kept = queue[0]
                async with self._places.take(chat, who):
                    await self._answer_one(kept)
                queue.popleft()
                if not queue:
                    await self._refill(chat, kept)
        del self._queues[chat]
        self._slowed = {each for each in self._slowed if each[0] in self._queues}
        self._drained.set()

    async def _refill(self, chat: str, last: KeptMessage) -> None:
        """Line up what a chat has in the store; whatever comes meanwhile is newer than that."""
        queue, after = self._queues[chat], last.number
        while chat in self._backlogged and not queue:
            self._backlogged.discard(chat)
            page = await self._store.list_unanswered(self.name, after=after, most=_PAGE, chat=last.message.chat)
            found = [each for each in page if _name_chat(each) == chat and not self._may_go_first(each)]
            known = {each.number for each in found}
            came = [each for each in queue if each.number not in known]
            queue.clear()
            queue.extend(found)
            if len(page) == _PAGE:  # there is more, and what came is behind it
                self._backlogged.add(chat)
                after = page[-1].number
            else:
                queue.extend(came)

    def _may_go_first(self, kept: KeptMessage) -> bool:
        """Tell whether an urgent message is answered at once, or whether nobody has looked yet."""
        return kept.number in self._urgent or (kept.number > self._last and self._is_urgent(kept.message))

    async def _answer_one(self, kept: KeptMessage) -> None:
        try:
            posts = await self._answer(kept)
        except ToolError as error:
            posts = (Post(chat=kept.message.chat, thread=kept.message.thread, text=str(error)),)
        except Exception:
            log.exception("%s: a message could not be answered", self.name)
            posts = ()
        await self._store.answer(self.name, kept.number, posts)
        self.wake()

    # Send

    async def _send(self) -> None:
        for kept in await self._store.outgoing(self.name):
            # its process ended while it was under way
            if kept.state == "sending" and not self.channel.abilities.knows_keys:
                await self._mark_uncertain(kept, "the gateway stopped while it was being sent")
        while True:
            self._written.clear()
            for kept in await self._store.outgoing(self.name):
                while not await self._send_one(kept):
                    await self._pause(_FIRST_DELAY)
            await self._written.wait()

    async def _send_one(self, kept: KeptPost) -> bool:
        """Send a post once; False when it surely was not taken, and is to be tried again."""
        await self._connected.wait()
        await self._store.move_post(kept.number, "sending")
        try:
            id = await self.channel.post(kept.post, f"{self.name}/{kept.key}")
        except (OSError, TimeoutError) as error:
            if self.channel.abilities.knows_keys:
                return False
            await self._mark_uncertain(kept, str(error) or type(error).__name__)
        except ToolError as error:
            if error.code in ("unavailable", "busy"):
                log.info("%s: %s; it is tried again", self.name, error)
                return False
            log.warning("%s refused a message: %s", self.name, error)
            await self._end_post(kept, "failed", str(error))
        else:
            await self._end_post(kept, "sent", id)
        return True

    async def _mark_uncertain(self, kept: KeptPost, why: str) -> None:
        log.warning("%s: nobody knows whether a message arrived (%s); it is not sent again", self.name, why)
        await self._end_post(kept, "uncertain", why)

    async def _end_post(self, kept: KeptPost, state: PostState, detail: str) -> None:
        await self._store.move_post(kept.number, state, detail=detail)
        if kept.post.media and self._release is not None:
            await self._release(kept.post.media)


async def wait_until_sent(store: MessageStore, channel: str, key: str) -> tuple[str, str]:
    """Wait until all posts of a key are done with, and return how the last one is; "queued" after a while."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _SENT_SECONDS
    while loop.time() < end:
        found = await store.find_posts(channel, key)
        if found and all(state in ("sent", "failed", "uncertain") for state, _ in found):
            return next((each for each in found if each[0] != "sent"), found[-1])
        await asyncio.sleep(0.05)
    return "queued", ""


def _name_chat(kept: KeptMessage) -> str:
    return f"{kept.message.chat}\n{kept.message.thread}"
