"""attacks/resources: floods of messages over a channel, answered by real turns: all is kept, little of it is held."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.define.caller import Sender
from toolcrib.define.channel import Abilities, Attachment, Hear, HeardMessage, Post
from toolcrib.services.channels.worker import ChannelWorker as ChannelLine

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

OPERATIONS = ("inbound_distinct", "inbound_flood", "inbound_same_id")


def judge(case: Json) -> Outcome:
    """Tell as many messages as the case has, as fast as they are taken."""
    asked, must = case["input"], case["must"]
    count = int(asked.get("count") or asked.get("n") or asked.get("per_s", 1) * asked.get("seconds", 1))
    before, watch = resources.measure_held(begins=True), Stopwatch()
    wanted = must.get("turns_min", must.get("turns", 1))
    turns, late = asyncio.run(_flood(asked["op"], count, wanted))
    complaints = resources.measure({**must, "alive_during": False}, watch.took, before, resources.measure_held())
    if must.get("alive_during") and late:
        complaints.append(late)
    if not wanted <= turns <= must.get("turns_max", must.get("turns", turns)):
        complaints.append(f"{turns} messages were answered")
    seen = {"turns": turns}
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


class _Flood:
    """A service that tells everything at once."""

    abilities = Abilities()

    def __init__(self, messages: Sequence[HeardMessage]) -> None:
        self._messages, self.told, self.answers = messages, asyncio.Event(), list[str]()

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        ready()
        for at in range(0, len(self._messages), 20):
            await hear(self._messages[at : at + 20], str(at))
        self.told.set()
        await asyncio.Event().wait()

    async def post(self, post: Post, key: str, /) -> str:
        self.answers.append(post.text)
        return key

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        return {}

    async def fetch(self, attachment: Attachment, most: int, /) -> bytes:
        return b""

    async def show_typing(self, chat: str, thread: str, /) -> None: ...
    async def close(self) -> None: ...


def _message(op: str, number: int) -> HeardMessage:
    who = f"p{number}" if op == "inbound_distinct" else "p"
    id = "same" if op == "inbound_same_id" else str(number)
    return HeardMessage(id=id, chat=who, sender=Sender(id=who), text="/status" if number % 50 == 49 else "hello")


async def _flood(op: str, count: int, wanted: int) -> tuple[int, str]:
    late = Lateness()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "work")
        root.mkdir()
        own = {"botToken": "1:x", "dmPolicy": "open", "allowFrom": ["*"]}
        config = {"channels": {"telegram": own}, "workspace": {"root": str(root)}}
        async with toolcrib.open(config, state=Path(folder, "state")) as crib, late:
            channel = _Flood([_message(op, number) for number in range(count)])
            answer, urgent = partial(crib.channels.talk.answer, "telegram", channel), crib.channels.talk.is_command
            line = ChannelLine("telegram", channel, crib.channels.store, answer, is_urgent=urgent)
            task = asyncio.create_task(line.run())
            await channel.told.wait()
            while len(channel.answers) < wanted:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait((task,))
    return len(channel.answers), late.complaint
