"""A channel whose connection comes and goes: what was heard is answered once, in order; nothing is said twice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.backends.exec.shells import until
from toolcrib.backends.stores.messages import SqliteMessages
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, Hear, HeardMessage, KeptMessage, Post
from toolcrib.define.errors import ToolError
from toolcrib.services.channels.responder import split_text
from toolcrib.services.channels.worker import ChannelWorker

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

ANN = Sender(id="ann")


class Flapping:
    """A service that tells its messages from a cursor on, and cuts the connection after so many of them."""

    def __init__(self, inbox: Sequence[HeardMessage], *, each: int = 7, knows_keys: bool = True) -> None:
        self.abilities = Abilities(knows_keys=knows_keys)
        self._inbox, self._each = inbox, each
        self.said: dict[str, str] = {}
        self.posts, self.connections = 0, 0

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        self.connections += 1
        ready()
        for at in range(int(cursor or 0), min(len(self._inbox), int(cursor or 0) + self._each)):
            await hear(self._inbox[max(at - 1, 0) : at + 1], str(at + 1))  # the one before it is told again
        if int(cursor or 0) + self._each < len(self._inbox):
            raise ConnectionResetError("cut")
        await asyncio.Event().wait()

    async def post(self, post: Post, key: str, /) -> str:
        self.posts += 1
        if self.posts % 7 == 0:
            raise ToolError("too many at once", code="busy")
        self.said.setdefault(key, post.text)
        if self.posts % 5 == 0:
            raise ConnectionResetError("cut")  # it was taken, and the answer was lost
        return key

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        raise NotImplementedError

    async def fetch(self, attachment: Attachment, most: int, /) -> bytes:
        raise NotImplementedError

    async def show_typing(self, chat: str, thread: str, /) -> None: ...
    async def close(self) -> None: ...


def said(number: int, chat: str) -> HeardMessage:
    return HeardMessage(id=str(number), chat=chat, sender=ANN, text=f"message {number}")


async def echo(kept: KeptMessage) -> Sequence[Post]:
    return (Post(chat=kept.message.chat, text=f"{kept.message.chat}: {kept.message.text}"),)


@asynccontextmanager
async def at_work(folder: Path, channel: Flapping, answer: Any = echo) -> AsyncIterator[ChannelWorker]:
    store = SqliteMessages(SqliteFile(folder / "crib.db", sync=False))
    line = ChannelWorker("svc", channel, store, answer, pause=lambda _: asyncio.sleep(0))
    task = asyncio.create_task(line.run())
    try:
        yield line
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_a_thousand_messages_over_a_flapping_connection_are_answered_once_and_in_order(tmp_path: Path) -> None:
    inbox = [said(number, f"chat {number % 5}") for number in range(1_000)]
    channel = Flapping(inbox)
    async with at_work(tmp_path, channel):
        await until(lambda: len(channel.said) == 1_000, 300)
    answers = list(channel.said.values())
    assert channel.connections > 100
    for chat in {each.chat for each in inbox}:
        wanted = [f"{chat}: {each.text}" for each in inbox if each.chat == chat]
        assert [each for each in answers if each.startswith(f"{chat}:")] == wanted


async def test_what_may_have_arrived_is_not_said_again_where_nobody_would_notice(tmp_path: Path) -> None:
    channel = Flapping([said(number, "chat") for number in range(20)], each=50, knows_keys=False)
    store = SqliteMessages(SqliteFile(tmp_path / "crib.db", check=False))
    async with at_work(tmp_path, channel):
        await until(lambda: len(channel.said) == 20)
        while await store.outgoing("svc"):
            await asyncio.sleep(0.01)
    numbers = range(1, 2 * 20)  # a message that is told again takes one, too
    states = [state for number in numbers for state, _ in await store.find_posts("svc", f"heard-{number}")]
    assert states.count("uncertain") >= 3
    assert set(states) <= {"sent", "uncertain"}


async def test_a_flood_waits_in_the_store_in_order_and_holds_up_nobody(tmp_path: Path) -> None:
    hold, lined_up = asyncio.Event(), list[int]()

    async def slowly(kept: KeptMessage) -> Sequence[Post]:
        if kept.message.chat == "flood":
            await hold.wait()
            lined_up.append(sum(map(len, line._queues.values())))
        return await echo(kept)

    inbox = [replace(said(number, "flood"), thread=str(number % 2)) for number in range(1_500)]
    channel = Flapping([*inbox, said(1_500, "quick")], each=10_000)
    async with at_work(tmp_path, channel, slowly) as line:
        await until(lambda: "quick: message 1500" in channel.said.values(), 240)
        hold.set()
        await until(lambda: len(channel.said) == 1_501, 300)
    assert max(lined_up) <= 150
    for thread in "01":
        wanted = [f"flood: {each.text}" for each in inbox if each.thread == thread]
        assert [each for each in channel.said.values() if each in set(wanted)] == wanted


async def test_one_chat_waits_for_no_other(tmp_path: Path) -> None:
    hold = asyncio.Event()

    async def slowly(kept: KeptMessage) -> Sequence[Post]:
        if kept.message.chat == "slow":
            await hold.wait()
        return await echo(kept)

    channel = Flapping([said(0, "slow"), said(1, "slow"), said(2, "quick")], each=50)
    async with at_work(tmp_path, channel, slowly):
        await until(lambda: "quick: message 2" in channel.said.values())
        assert len(channel.said) == 1
        hold.set()
        await until(lambda: len(channel.said) == 3)


async def test_a_message_that_nobody_can_answer_is_told_so_and_holds_up_none(tmp_path: Path) -> None:
    async def fail(kept: KeptMessage) -> Sequence[Post]:
        if kept.message.id == "0":
            raise ToolError("the disk is full")
        if kept.message.id == "1":
            raise LookupError("a bug")
        return await echo(kept)

    channel = Flapping([said(number, "chat") for number in range(3)], each=50)
    async with at_work(tmp_path, channel, fail):
        await until(lambda: "chat: message 2" in channel.said.values())
    assert list(channel.said.values()) == ["the disk is full", "chat: message 2"]


async def test_what_a_store_that_failed_left_is_answered_when_it_is_begun_again(tmp_path: Path) -> None:
    class Full(SqliteMessages):
        fails = 1

        async def answer(self, channel: str, number: int, posts: Sequence[Post], /) -> None:
            if self.fails:
                self.fails -= 1
                raise ToolError("the disk is full")
            await super().answer(channel, number, posts)

    channel = Flapping([said(0, "chat"), said(1, "chat")], each=50)
    line = ChannelWorker("svc", channel, Full(SqliteFile(tmp_path / "crib.db", sync=False)), echo)
    with pytest.raises(ExceptionGroup):
        await line.run()
    task = asyncio.create_task(line.run())
    await until(lambda: list(channel.said.values()) == ["chat: message 0", "chat: message 1"])
    task.cancel()
    await asyncio.wait((task,))


@pytest.mark.parametrize(
    ("text", "longest", "pieces"),
    [
        ("one\n\ntwo", 100, ["one\n\ntwo"]),
        ("one two\n\nthree four", 12, ["one two", "three four"]),
        ("one two\nthree", 10, ["one two", "three"]),
        ("one two three", 8, ["one two", "three"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("  \n ", 10, []),
    ],
)
def test_a_long_answer_is_cut_at_paragraphs(text: str, longest: int, pieces: list[str]) -> None:
    assert split_text(text, longest) == pieces
