"""The models that are shipped for tests: they say what they were given, and tell what they were asked."""

import asyncio
from typing import Any

import pytest

import toolcrib
from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta, Usage
from toolcrib.define.message import Call, Message
from toolcrib.define.model import History, Model, ModelCard, Request
from toolcrib.define.result import Text
from toolcrib.define.tool import tool
from toolcrib.testing.models import FunctionModel, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio


def request(*words: str) -> Request:
    @tool
    async def look() -> str:
        """Look."""
        return ""

    history = History(Message(role="user", content=(Text(each),)) for each in words)
    return Request(history=history, tools=(look,), system="be kind")


async def events(model: Model, *words: str) -> list[ReplyEvent]:
    return [event async for event in model.reply(request(*words))]


def test_the_shipped_models_are_models() -> None:
    scripted: Model = ScriptedModel([])
    function: Model = FunctionModel(lambda request: "hi")
    assert scripted.card.name == function.card.name == "test:scripted"


async def test_a_scripted_model_says_its_replies_one_a_request() -> None:
    call = Call("a", "look")
    model = ScriptedModel([call_reply(call, text="let me look", usage=Usage(1, 2)), "done"])
    assert await events(model, "go") == [
        TextDelta("let me look"),
        CallDelta(0, "look", ""),
        call_reply(call, text="let me look", usage=Usage(1, 2)),
    ]
    with pytest.raises(AssertionError, match="1 of 2 replies were asked for"):
        model.done()
    assert await events(model, "go", "on") == [TextDelta("done"), text_reply("done")]
    model.done()


async def test_a_script_that_is_at_its_end_is_told() -> None:
    model = ScriptedModel(["hi"])
    await events(model)
    with pytest.raises(AssertionError, match="the script has 1 replies, and another one is wanted"):
        await events(model)
    with pytest.raises(AssertionError, match="2 of 1"):
        model.done()


async def test_an_assertion_of_a_model_reaches_the_test_that_waits_for_the_turn() -> None:
    async with toolcrib.open({}) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, model=ScriptedModel([]))
        with pytest.raises(AssertionError, match="the script has 0 replies, and another one is wanted"):
            await turn.end()


def test_a_call_in_a_script_that_no_reply_makes_is_refused_at_once() -> None:
    script: Any = [Call(id="1", name="ls", args={})]
    with pytest.raises(TypeError, match=r"^a reply is words, a Message, text_reply\(...\) or call_reply\(call\), not "):
        ScriptedModel(script)


async def test_what_a_model_was_asked_can_be_looked_at_as_it_stood_then() -> None:
    model = FunctionModel(lambda request: str(len(request.history)))
    asked = request("one")
    assert [event async for event in model.reply(asked)][-1] == text_reply("1")
    asked.history.append(Message(role="user"))
    assert [text.text for text in model.asked[0].messages[0].content if isinstance(text, Text)] == ["one"]
    assert len(model.asked[0].messages) == 1
    assert (model.asked[0].tools, model.asked[0].system) == (("look",), "be kind")
    assert model.asked[0].request is asked
    await model.close()


async def test_a_function_model_takes_words_messages_replies_and_functions_that_wait() -> None:
    message = Message(role="assistant", content=(Text("m"),), finish="length")

    async def later(request: Request) -> Replied:
        await asyncio.sleep(0)
        return text_reply("later")

    assert (await events(FunctionModel(lambda request: message)))[-1] == Replied(message)
    assert (await events(FunctionModel(later)))[-1] == text_reply("later")
    wrong = Replied(Message(role="user", content=(Text("x"),)))
    last = (await events(FunctionModel(lambda request: wrong)))[-1]
    assert isinstance(last, Replied)
    assert last.message.role == "assistant"


async def test_a_model_of_another_card_that_keeps_nothing() -> None:
    card = ModelCard(provider="test", model="other", window=10)
    model = FunctionModel(lambda request: "hi", card, keep=False)
    await events(model)
    assert (model.asked, model.card) == ([], card)
