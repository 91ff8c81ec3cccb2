"""In whose name what is done in a canvas is told, and how much of it."""

from typing import Any

import pytest

from toolcrib import OWNER, Caller, Sender, Text
from toolcrib.define.errors import ToolError
from toolcrib.define.turn import TurnRequest
from toolcrib.services.canvas import Canvas, Canvases

pytestmark = pytest.mark.anyio

GROUP = "agent:main:telegram:group:-100"


class Told:
    """Chats, nodes and subagents as far as canvases know them; keeps what was said."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.said, self.beside = fails, list[TurnRequest](), list[str]()

    async def begin(self, caller: Caller, request: TurnRequest, key: str) -> None:
        if self.fails:
            raise ToolError("too many runs go on already", code="unavailable")
        self.said.append(request)

    async def tell(self, session: str, message: Any) -> None:
        self.beside.append(session)


def canvases_of(told: Any) -> Canvases:
    return Canvases(told, told, told, told, told)


async def test_the_owner_acts_as_the_owner_in_a_session_of_their_own() -> None:
    told, caller = Told(), Caller(session="agent:main:main", owner=True, provider="p", model="m")
    assert await canvases_of(told).take_action(Canvas(caller), {"name": "go"})
    (request,) = told.said
    assert (request.caller.owner, request.caller.model) == (True, None)
    lead, words = request.message.content
    assert lead == Text("The user did this in the canvas of this session:\n")
    assert isinstance(words, Text)
    assert words.source == "canvas"  # from outside
    assert '"name": "go"' in words.text


@pytest.mark.parametrize("group", [None, "-100"])
async def test_in_a_group_whoever_acts_is_nobody_in_particular(group: str | None) -> None:
    told, boss = Told(), Sender(id="7")
    caller = Caller(session=GROUP if group is None else "agent:main:x", group=group, sender=boss, owner=True)
    await canvases_of(told).take_action(Canvas(caller), {"name": "go"})
    assert (told.said[0].caller.owner, told.said[0].caller.sender) == (False, None)


async def test_a_subagent_is_told_and_starts_no_turn() -> None:
    told = Told()
    caller = Caller(session="agent:main:subagent:1", parents=("main",))
    assert await canvases_of(told).take_action(Canvas(caller), {"name": "go"})
    assert (told.said, told.beside) == ([], ["agent:main:subagent:1"])


async def test_twenty_a_minute_are_told_and_a_failure_is_no_end() -> None:
    told, canvas = Told(), Canvas(OWNER)
    taken = [await canvases_of(told).take_action(canvas, {"n": n}) for n in range(30)]
    assert (sum(taken), len(told.said)) == (20, 20)
    assert not await canvases_of(Told(fails=True)).take_action(Canvas(OWNER), {"n": 1})


async def test_a_viewer_who_is_too_slow_is_let_go() -> None:
    canvas = Canvas(OWNER)
    viewer = canvases_of(Told()).enter(canvas, 0)
    assert viewer is not None
    for n in range(1_000):
        canvas.tell(str(n))
    assert viewer.unsent.get_nowait() is None
    more = [canvases_of(Told()).enter(canvas, 0) for _ in range(30)]
    assert sum(each is not None for each in more) == 15
