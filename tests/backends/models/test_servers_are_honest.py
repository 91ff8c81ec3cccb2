"""The servers of these tests are honest: the providers' own packages read them, and we read the same."""

from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from toolcrib.adapter.cards import Api
from toolcrib.define.event import CallDelta, TextDelta, ThinkingDelta, Usage
from toolcrib.define.message import Thinking
from toolcrib.define.result import Text

from .asking import KEY, heard, model_at
from .servers import APIS, Say, answering, serving

pytestmark = pytest.mark.anyio

SAYS = {
    "words": Say(text="Hello, naïve 😀 world."),
    "calls": Say(
        thinking="Two notes are wanted.",
        text="I note both.",
        calls=(("call_1", "note", '{"text": "one"}'), ("call_2", "note", '{"text": "zwölf"}')),
        usage=Usage(input=120, output=33, cached=100),
    ),
}
MESSAGE = {"role": "user", "content": "Note it."}


@pytest.fixture(params=SAYS)
def say(request: pytest.FixtureRequest) -> Say:
    return SAYS[request.param]


async def test_openai_reads_our_chat_completions(say: Say) -> None:
    async with (
        serving(answering("openai", say)) as server,
        openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as client,
    ):
        asked: Any = {"model": "m", "messages": [MESSAGE]}
        async with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            streamed = await stream.get_final_completion()
        whole = await client.chat.completions.create(**asked)
    got: Any
    for got in (streamed, whole):
        message = got.choices[0].message
        assert (message.content or "") == say.text
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        assert tuple(calls) == say.calls
        assert got.usage.prompt_tokens == say.usage.input
        assert got.usage.prompt_tokens_details.cached_tokens == say.usage.cached


async def test_openai_reads_our_responses(say: Say) -> None:
    async with (
        serving(answering("responses", say)) as server,
        openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url, max_retries=0) as client,
    ):
        async with client.responses.stream(model="m", input="Note it.") as stream:
            pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            streamed = await stream.get_final_response()
        whole = await client.responses.create(model="m", input="Note it.")
    assert "".join(pieces) == say.text
    got: Any
    for got in (streamed, whole):
        assert got.output_text == say.text
        calls = [(each.call_id, each.name, each.arguments) for each in got.output if each.type == "function_call"]
        assert tuple(calls) == say.calls
        assert got.usage
        assert (got.usage.input_tokens, got.usage.output_tokens) == (say.usage.input, say.usage.output)
        assert got.usage.input_tokens_details.cached_tokens == say.usage.cached


async def test_anthropic_reads_our_messages(say: Say) -> None:
    async with (
        serving(answering("anthropic", say)) as server,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=server.origin, max_retries=0) as client,
    ):
        asked: Any = {"model": "m", "max_tokens": 100, "messages": [MESSAGE]}
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        whole = await client.messages.create(**asked)
    got: Any
    for got in (streamed, whole):
        assert "".join(block.text for block in got.content if block.type == "text") == say.text
        assert "".join(block.thinking for block in got.content if block.type == "thinking") == say.thinking
        calls = [(block.id, block.name, block.input) for block in got.content if block.type == "tool_use"]
        assert [(id, name) for id, name, _ in calls] == [(id, name) for id, name, _ in say.calls]
        assert [args["text"] for _, _, args in calls] == ["one", "zwölf"][: len(calls)]
        assert got.usage.output_tokens == say.usage.output
        assert got.usage.cache_read_input_tokens == say.usage.cached


async def test_google_reads_our_contents(say: Say) -> None:
    async with serving(answering("gemini", say)) as server:
        client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=server.origin))
        stream = await client.aio.models.generate_content_stream(model="m", contents="Note it.")
        chunks = [chunk async for chunk in stream]
        whole = await client.aio.models.generate_content(model="m", contents="Note it.")
        await client.aio.aclose()
        client.close()
    for got in (chunks, [whole]):
        contents = [chunk.candidates[0].content for chunk in got if chunk.candidates]
        parts = [part for content in contents if content for part in content.parts or ()]
        assert "".join(part.text or "" for part in parts if not part.thought) == say.text
        assert "".join(part.text or "" for part in parts if part.thought) == say.thinking
        calls = [part.function_call for part in parts if part.function_call]
        assert [(call.id, call.name) for call in calls] == [(id, name) for id, name, _ in say.calls]
        usage = got[-1].usage_metadata
        assert usage
        assert (usage.prompt_token_count, usage.cached_content_token_count) == (say.usage.input, say.usage.cached)


@pytest.mark.parametrize("api", APIS)
async def test_our_providers_read_the_same(api: Api, say: Say) -> None:
    async with serving(answering(api, say)) as server:
        model = model_at(api, server.base_url)
        events, replied = await heard(model)
        again = (await heard(model))[1]
        await model.close()
    message = replied.message
    assert (replied.error, message.finish) == ("", "calls" if say.calls else "stop")
    assert "".join(part.text for part in message.content if isinstance(part, Text)) == say.text
    assert "".join(part.text for part in message.content if isinstance(part, Thinking)) == say.thinking
    assert [(call.id, call.name, call.parse_error) for call in message.calls] == [
        (id, name, "") for id, name, _ in say.calls
    ]
    assert [call.args["text"] for call in message.calls] == ["one", "zwölf"][: len(say.calls)]
    assert replied.usage == say.usage
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == say.text
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == say.thinking
    assert {event.at for event in events if isinstance(event, CallDelta)} == set(range(len(say.calls)))
    assert again == replied
    assert server.connections == 1  # a connection that was read to its end is used again
    assert [asked.headers["accept-encoding"] for asked in server.asked] == ["identity"] * 2
