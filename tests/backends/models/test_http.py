"""A reply is asked for once, streamed as it comes, and let go of when nobody wants it any more."""

import asyncio

import pytest

from toolcrib.adapter.cards import Api
from toolcrib.backends.models.http import HttpModel, Patience
from toolcrib.define.event import Replied, TextDelta

from .asking import asked_for, ended, model_at
from .servers import APIS, Say, Talk, answering, said, serving

pytestmark = pytest.mark.anyio

SAY = Say(text="Once upon a time.", piece=4)


@pytest.mark.parametrize("api", APIS)
async def test_words_are_heard_before_the_reply_ends(api: Api) -> None:
    heard = asyncio.Event()

    async def act(talk: Talk) -> None:
        *most, last = said(api, SAY)
        await talk.head()
        for event in most[: len(most) // 2 + 1]:
            await talk.send(event)
        await heard.wait()
        for event in [*most[len(most) // 2 + 1 :], last]:
            await talk.send(event)
        await talk.end()

    async with serving(act) as server, asyncio.timeout(60):
        model = model_at(api, server.base_url)
        text = ""
        async for event in model.reply(asked_for()):
            if isinstance(event, TextDelta):
                text += event.text
                heard.set()
        assert isinstance(event, Replied)
        assert (event.error, text) == ("", SAY.text)
        await model.close()


@pytest.mark.parametrize("stops", [0, 1], ids=["before the first word", "after it"])
async def test_a_reply_that_is_given_up_closes_its_connection(stops: int) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def act(talk: Talk) -> None:
        await talk.head()
        for event in said("openai", SAY)[: 2 * stops]:
            await talk.send(event)
        asked.set()
        await talk.hold()
        closed.set()

    async with serving(act) as server, asyncio.timeout(60):
        model = model_at("openai", server.base_url)
        heard = asyncio.Event()

        async def listen() -> None:
            async for event in model.reply(asked_for()):
                assert not isinstance(event, Replied)
                heard.set()

        task = asyncio.create_task(listen())
        await (heard if stops else asked).wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await closed.wait()
        await model.close()


async def test_many_replies_are_read_at_once() -> None:
    async with serving(answering("anthropic", SAY)) as server, asyncio.timeout(60):
        model = model_at("anthropic", server.base_url)
        replies = await asyncio.gather(*(ended(model) for _ in range(20)))
        assert {replied.error for replied in replies} == {""}
        await model.close()


async def test_a_closed_model_can_be_asked_again() -> None:
    async with serving(answering("openai", SAY)) as server:
        model = model_at("openai", server.base_url)
        for _ in range(2):
            assert (await ended(model)).error == ""
            await model.close()


def test_a_model_outlives_an_event_loop() -> None:
    async def act(talk: Talk) -> None:
        await talk.head(connection="close")  # what is kept open in a loop that is gone cannot be closed
        await talk.raw(b"".join(said("openai", SAY)))

    async def ask(port: int) -> int:
        async with serving(act, port) as server:
            model = models.setdefault(0, model_at("openai", server.base_url))
            assert (await ended(model)).error == ""
            if port:
                await model.close()
            return server.port

    models: dict[int, HttpModel] = {}
    port = asyncio.run(ask(0))
    assert asyncio.run(ask(port)) == port


async def test_what_has_no_measure_is_stopped_by_its_bytes() -> None:
    async def act(talk: Talk) -> None:
        await talk.head()
        for _ in range(1_000):
            await talk.send(b": nothing to say\n" * 100)

    async with serving(act) as server, asyncio.timeout(60):
        model = model_at("openai", server.base_url, Patience(bytes=100_000))
        replied = await ended(model)
        assert "100,000 bytes" in replied.error
        assert replied.retry is None
        await model.close()
