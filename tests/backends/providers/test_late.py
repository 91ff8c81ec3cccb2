"""A model that is made when it is first asked: once, beside the event loop, and never for nothing."""

import asyncio
import threading

import pytest

from toolcrib.backends.providers.late import LateModel
from toolcrib.backends.providers.offline import CARD
from toolcrib.define.event import Replied
from toolcrib.define.message import Message
from toolcrib.define.model import History, Model, Request
from toolcrib.define.result import Text
from toolcrib.testing.models import FunctionModel, said

pytestmark = pytest.mark.anyio


async def asked(model: Model) -> str:
    request = Request(history=History([Message(role="user", content=(Text("hello"),))]), tools=())
    events = [event async for event in model.reply(request)]
    assert isinstance(events[-1], Replied)
    return "".join(part.text for part in events[-1].message.content if isinstance(part, Text))


async def test_a_model_is_made_once_in_a_thread_while_the_loop_goes_on() -> None:
    may_go, made = threading.Event(), list[threading.Thread]()

    def make() -> Model:
        made.append(threading.current_thread())
        assert may_go.wait(5)
        return FunctionModel(lambda request: said("hi"))

    model = LateModel(CARD, make)
    both = [asyncio.ensure_future(asked(model)) for _ in range(2)]
    while not made:
        await asyncio.sleep(0)
    may_go.set()  # the loop is free to say so
    assert await asyncio.wait_for(asyncio.gather(*both), 60) == ["hi", "hi"]
    assert len(made) == 1
    assert made[0] is not threading.main_thread()


async def test_a_model_that_nobody_asked_is_not_made_to_be_closed() -> None:
    made = list[Model]()

    def make() -> Model:
        made.append(FunctionModel(lambda request: said("hi")))
        return made[-1]

    await LateModel(CARD, make).close()
    assert made == []
