"""A crib whose assistant is on a channel of a program's, with a model that says what a test has it say."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import toolcrib
from tests.backends.models.servers import Say, Server, serving
from tests.doors.talking import in_turn
from toolcrib import Plugin, Sender, tool
from toolcrib.app import Crib
from toolcrib.channels import Abilities, ChannelKind, HeardMessage, Post

__all__ = ["Box", "Held", "PersonWorld", "person_world", "until"]


async def until(holds: Callable[[], Any], seconds: float = 20.0) -> None:
    """Return when it holds, or fail; the seconds are this loop's own, longer while the machine is busy."""
    for _ in range(round(seconds * 100)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(f"it did not hold within {seconds} seconds")


class Box:
    """A channel in memory: what is put in is heard, what is posted stays."""

    abilities = Abilities(actions=("send", "edit", "delete"), longest=4_000, knows_keys=True, buttons=True, cards=True)

    def __init__(self) -> None:
        self.heard, self.posts, self.keys = asyncio.Queue[HeardMessage](), list[Post](), list[str]()
        self._count = 0

    def put(self, who: str, text: str, group: str = "") -> None:
        self._count += 1
        kind: Any = "group" if group else "dm"
        about: dict[str, Any] = {"id": str(self._count), "chat": group or who, "sender": Sender(id=who), "text": text}
        self.heard.put_nowait(HeardMessage(**about, kind=kind, group=group, is_for_us=True))

    def press(self, who: str, data: str) -> None:
        self._count += 1
        self.heard.put_nowait(HeardMessage(id=str(self._count), chat=who, sender=Sender(id=who), pressed=data))

    async def listen(self, hear: Any, cursor: str, ready: Callable[[], None]) -> None:
        ready()
        while True:
            await hear([message := await self.heard.get()], message.id)

    async def post(self, post: Post, key: str) -> str:
        self.posts.append(post)
        self.keys.append(key)
        return key

    async def act(self, action: str, chat: str, params: Any) -> dict[str, Any]:
        return {}

    async def fetch(self, attachment: Any, most: int) -> bytes:
        return b""

    async def show_typing(self, chat: str, thread: str) -> None: ...
    async def close(self) -> None: ...


class Held:
    """A tool whose body waits until a test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.stopped, self.done, self.go = 0, 0, 0, asyncio.Event()

        @tool
        async def hold(what: str = "") -> str:
            """Wait."""
            self.begun += 1
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.stopped += 1
                raise
            self.done += 1
            return "held"

        self.tool = hold


class PersonWorld:
    """One assistant on the channel `box`, its configuration in a file."""

    def __init__(self, crib: Crib, box: Box, held: Held, file: Path, server: Server) -> None:
        self.crib, self.box, self.held, self.file, self.server = crib, box, held, file, server

    def reload(self, **channel: Any) -> None:
        """Change what the channel's settings say, and read them again."""
        config = json.loads(self.file.read_text())
        config["channels"]["box"] |= channel
        self.file.write_text(json.dumps(config))
        self.crib.settings.reload()

    async def pair(self, who: str) -> None:
        """Let somebody in by a code."""
        count = len(self.box.posts)
        self.box.put(who, "hi")
        await until(lambda: len(self.box.posts) > count)
        await self.crib.channels.pair(self.box.posts[-1].text.rpartition(" ")[2].rstrip("."))
        await until(lambda: len(self.box.posts) > count + 1)

    async def ask(self, method: str, caller: toolcrib.Caller, **params: Any) -> Any:
        return await self.crib.ask(method, params, caller=caller)


@asynccontextmanager
async def person_world(folder: Path, *acts: Say, config: dict[str, Any] | None = None) -> AsyncIterator[PersonWorld]:
    """Open the assistant; `config` are further sections, `channels.box` among them."""
    box, held = Box(), Held()
    kind = ChannelKind(Box.abilities, lambda settings, way_out: box)
    more = dict(config or {})
    own = {"options": {"at": "here"}, **more.pop("box", {})}
    (folder / "work").mkdir()
    async with serving(in_turn(*acts)) as server:
        told = {
            "workspace": {"root": str(folder / "work")},
            "models": {"default": "small:one", "small": {"baseUrl": server.base_url}},
            "channels": {"box": own},
            **more,
        }
        file = folder / "toolcrib.json"
        file.write_text(json.dumps(told))
        plugins = [Plugin(name="post", channels={"box": kind})]
        async with toolcrib.open(file, tools=[held.tool], plugins=plugins, state=folder / "state", env={}) as crib:
            await crib.channels.open()
            yield PersonWorld(crib, box, held, file, server)
