"""Asking a model until it has answered: what passes is asked for again, what does not is told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from toolcrib.agent.retry import Retries
from toolcrib.define.event import Replied, ReplyEvent, Retrying, TextDelta, Usage
from toolcrib.define.message import Message, join_text
from toolcrib.define.model import ModelCard, Request
from toolcrib.define.result import Text
from toolcrib.testing.models import FunctionModel, ScriptedModel, call_reply, text_reply

from .loop_worlds import World, call

pytestmark = pytest.mark.anyio


def failed(error: str = "overloaded", retry: float | None = 0.0, text: str = "") -> Replied:
    content = (Text(text),) if text else ()
    return Replied(
        Message(role="assistant", content=content, calls=(call("x"),), finish="error"), Usage(), error, retry
    )


class Waits:
    """A sleep that takes no time and is written down."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def options(self, **retries: float) -> dict[str, Retries]:
        return {"retries": Retries(sleep=self, **retries)}  # type: ignore[arg-type]  # numbers, all of them


class Speaker:
    """A model that does what a function of a generator does."""

    card = ModelCard(provider="test", model="speaker")

    def __init__(self, speak: Callable[[Request], AsyncIterator[ReplyEvent]]) -> None:
        self.reply = speak

    async def close(self) -> None:
        """Nothing is held."""


async def test_a_passing_failure_is_asked_again_and_leaves_nothing_behind() -> None:
    waits = Waits()
    model = ScriptedModel([failed(text="half a sent"), failed("busy"), text_reply("whole")])
    world = World(model, options=waits.options())
    end = await world.run()
    assert (end.reason, end.text, end.steps) == ("done", "whole", 1)
    assert world.told() == [
        "text half a sent", "retrying 2", "retrying 3", "text whole", "replied stop", "end done",
    ]  # fmt: skip
    assert [event.error for event in world.events if isinstance(event, Retrying)] == ["overloaded", "busy"]
    assert [join_text(message) for message in world.history] == ["go", "whole"]
    assert [len(asked.messages) for asked in model.asked] == [1, 1, 1]
    await world.check_whole()


async def test_the_waits_grow_with_some_spread_and_never_beyond_the_longest() -> None:
    waits = Waits()
    world = World(ScriptedModel([failed()] * 6), options=waits.options(tries=6, first=1.0, longest=5.0))
    end = await world.run()
    assert (end.reason, end.sentence) == ("error", "overloaded")
    for seconds, most in zip(waits.seconds, [1, 2, 4, 5, 5], strict=True):
        assert most * 0.75 <= seconds <= most
    assert waits.seconds == [event.seconds for event in world.events if isinstance(event, Retrying)]


async def test_the_time_that_a_provider_asks_for_is_waited() -> None:
    waits = Waits()
    world = World(ScriptedModel([failed(retry=17.5), text_reply("done")]), options=waits.options())
    assert (await world.run()).reason == "done"
    assert waits.seconds == [17.5]


@pytest.mark.parametrize(("retry", "error"), [(61.0, "come back later"), (None, "no such model")])
async def test_too_long_a_wait_is_not_waited_and_a_lasting_failure_not_asked_again(
    retry: float | None, error: str
) -> None:
    waits = Waits()
    world = World(ScriptedModel([failed(error, retry)]), options=waits.options())
    end = await world.run()
    assert (end.reason, end.sentence, waits.seconds) == ("error", error, [])
    assert world.answers() == {"x": "this call was not run: the reply broke off"}
    await world.check_whole()


async def test_it_is_asked_so_many_times_and_then_no_more() -> None:
    waits = Waits()
    model = ScriptedModel([failed()] * 4)
    world = World(model, options=waits.options())
    assert (await world.run()).reason == "error"
    model.done()
    assert len(waits.seconds) == 3


async def test_stop_while_it_waits_ends_the_turn() -> None:
    reached = asyncio.Event()

    async def sleep(seconds: float) -> None:
        reached.set()
        await asyncio.Event().wait()

    world = World(ScriptedModel([failed()]), options={"retries": Retries(sleep=sleep)})
    await world.begin()
    await reached.wait()
    world.task.cancel()
    assert (await world.stopped()).reason == "stopped"
    assert len(world.history) == 1
    await world.check_whole()


async def test_a_model_that_raises_is_a_reply_that_failed_with_what_it_had_said() -> None:
    async def speak(request: Request) -> AsyncIterator[ReplyEvent]:
        yield TextDelta("I was about to ")
        raise ConnectionResetError("secret detail")

    world = World(Speaker(speak))
    end = await world.run()
    assert end.reason == "error"
    assert end.sentence == (
        "test:speaker failed unexpectedly (ConnectionResetError); the operator's log has the details"
    )
    assert join_text(world.history[-1]) == "I was about to "
    await world.check_whole()


async def test_a_model_that_never_says_how_its_reply_ended_has_failed() -> None:
    async def speak(request: Request) -> AsyncIterator[ReplyEvent]:
        yield TextDelta("and")

    world = World(Speaker(speak))
    end = await world.run()
    assert (end.reason, end.sentence) == ("error", "test:speaker ended its reply without saying how")


async def test_what_comes_behind_the_end_of_a_reply_is_not_heard_and_cannot_take_it_back() -> None:
    async def speak(request: Request) -> AsyncIterator[ReplyEvent]:
        try:
            yield text_reply("done")
            yield TextDelta("one more thing")
        finally:
            raise OSError("could not hang up")

    world = World(Speaker(speak))
    assert (await world.run()).reason == "done"
    assert world.told() == ["replied stop", "end done"]


async def test_a_model_that_babbles_is_broken_off() -> None:
    spoken: list[int] = []

    async def speak(request: Request) -> AsyncIterator[ReplyEvent]:
        for number in range(100_000):
            spoken.append(number)
            yield TextDelta("and so it goes on, ")
        yield text_reply("never")

    world = World(Speaker(speak))
    end = await world.run()
    assert (end.reason, len(spoken) < 200) == ("error", True)
    assert "over and over" in end.sentence
    assert join_text(world.history[-1]).startswith("and so it goes on, and so")
    await world.check_whole()


@pytest.mark.parametrize("answer", [lambda request: 1 / 0, lambda request: object()])
async def test_a_function_that_fails_is_a_reply_that_failed(answer: Callable[[Request], str]) -> None:
    world = World(FunctionModel(answer))
    assert (await world.run()).reason == "error"
    await world.check_whole()


async def test_calls_of_a_failed_attempt_never_run() -> None:
    waits, ran = Waits(), list[Sequence[str]]()
    world = World(ScriptedModel([failed(), call_reply(call("a")), text_reply("done")]), options=waits.options())
    world.on_event = lambda event: (
        ran.append([event.message.calls[0].id]) if isinstance(event, Replied) and event.message.calls else None
    )
    assert (await world.run()).reason == "done"
    assert ran == [["a"]]
    assert world.answers() == {"a": "a"}
