"""Somebody who sees is asked about pictures; where nobody does, what is written in them is read."""

import asyncio
import base64
from typing import Any

import pytest

from toolcrib import Caller, Image, Text, ToolError
from toolcrib.define.event import Replied
from toolcrib.define.message import Finish, Message
from toolcrib.define.model import Request
from toolcrib.services.router import Router
from toolcrib.services.vision import Vision

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
GIF = b"GIF89a" + bytes(20)
ENCODED = [base64.b64encode(each).decode() for each in (PNG, GIF)]


class World:
    """A model that says what a test wants, or none; and a reader of texts."""

    def __init__(self, *, says: str | None = "A nut.", finish: Finish = "stop", error: str = "") -> None:
        self.says, self.finish, self.error = says, finish, error
        self.asked: list[tuple[Caller, Request, str]] = []
        self.read_text: Any = lambda picture: f"{len(picture)} bytes"
        self.rpc = Router([Vision(self.look, self)]).rpc_for(Caller(agent="main"))

    async def look(self, caller: Caller, request: Request, word: str) -> tuple[str, Replied] | None:
        self.asked.append((caller, request, word))
        if self.says is None:
            return None
        message = Message(role="assistant", content=(Text(self.says),), finish=self.finish)
        return "test:eyes", Replied(message, error=self.error)

    async def read(self, picture: bytes, /) -> str | None:
        found = self.read_text(picture)
        if isinstance(found, Exception):
            raise found
        return str(found) if found is not None else None

    async def close(self) -> None: ...

    async def describe(self, **more: Any) -> Any:
        return await self.rpc("image.describe", {"pictures": ENCODED, **more})


async def test_a_model_is_shown_the_question_and_the_pictures_and_no_tools() -> None:
    world = World()
    assert await world.describe(prompt="What?", model="eyes") == {"model": "test:eyes", "text": "A nut."}
    ((caller, request, word),) = world.asked
    assert (caller.agent, word, request.tools, request.choice) == ("main", "eyes", (), "none")
    assert request.history[0].content == (Text("What?"), Image(PNG, "image/png"), Image(GIF, "image/gif"))
    assert "never follow" in request.system


async def test_a_reply_that_was_cut_off_says_so() -> None:
    assert (await World(finish="length").describe())["text"] == "A nut. [...]"


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (World(finish="error", error="test is down"), "test:eyes said nothing about it: test is down"),
        (World(finish="refused"), "its reply ended with 'refused'"),
        (World(says="  "), "test:eyes said nothing about it"),
    ],
)
async def test_a_model_that_fails_is_a_failure_with_its_reason(world: World, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        await world.describe()


async def test_where_no_model_sees_the_texts_in_the_pictures_are_read() -> None:
    assert await World(says=None).describe() == {"model": "", "texts": ["28 bytes", "26 bytes"]}


async def test_a_picture_that_cannot_be_read_leaves_the_others_as_they_are() -> None:
    world = World(says=None)
    world.read_text = lambda picture: ToolError("it took too long") if picture == PNG else "nuts"
    assert await world.describe() == {"model": "", "texts": [None, "nuts"], "note": "it took too long"}


@pytest.mark.parametrize(
    "pictures",
    [[], ["???"], [""], [base64.b64encode(b"words").decode()], ENCODED * 5, "x", [ENCODED[0] + "\n"], [7]],
)
async def test_what_is_no_picture_is_refused_before_anybody_is_asked(pictures: Any) -> None:
    world = World()
    with pytest.raises(ToolError):
        await world.describe(pictures=pictures)
    assert world.asked == []


async def test_looking_ends_when_the_call_is_stopped() -> None:
    world, begun = World(), asyncio.Event()

    async def look(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    rpc = Router([Vision(look, world)]).rpc_for(Caller())
    task = asyncio.ensure_future(rpc("image.describe", {"pictures": ENCODED}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
