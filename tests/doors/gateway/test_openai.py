"""The official OpenAI client at the gateway: chat and responses, streamed or not, with tools on both sides."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")
pytest.importorskip("openai", reason="the official client is not installed")

import openai
from tests.backends.models.servers import Act, Say, Server, serving
from tests.doors.talking import in_turn

from .world import TOKEN, World, client_of, device, gateway_of

pytestmark = pytest.mark.anyio

GUEST = "dt-1111-dt-1111-dt"
WEATHER: dict[str, Any] = {
    "name": "getWeather",
    "description": "Tell the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CHAT_TOOLS: Any = [{"type": "function", "function": WEATHER}]
RESPONSE_TOOLS: Any = [{"type": "function", **WEATHER}]


@asynccontextmanager
async def talking(
    *acts: Act | Say, config: dict[str, Any] | None = None, devices: Sequence[Any] = (), token: str = TOKEN
) -> AsyncIterator[tuple[World, Server, Any]]:
    """A gateway whose model says this, and the official client at it."""
    async with serving(in_turn(*acts)) as server:
        models = {"default": "small:one", "small": {"baseUrl": server.base_url}}
        async with gateway_of({"models": models, **(config or {})}, devices=devices) as world:
            url = f"http://127.0.0.1:{world.port}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key=token, max_retries=0) as client:
                yield world, server, client


def wants(*calls: tuple[str, str, str], text: str = "") -> Say:
    return Say(text=text, calls=calls)


def two_cities() -> Say:
    return wants(("a", "getweather", '{"city": "Kyiv"}'), ("b", "getweather", '{"city": "Lviv"}'))


async def chat(client: Any, *messages: dict[str, Any], **more: Any) -> Any:
    return await client.chat.completions.create(model="toolcrib", messages=list(messages), **more)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def last_tools(server: Server) -> list[dict[str, Any]]:
    """The results of tools that the model was told last."""
    return [each for each in server.asked[-1].body["messages"] if each["role"] == "tool"]


async def test_models_and_agents_are_listed() -> None:
    async with talking(Say(text="hi"), config={"agents": {"work": {}}}) as (_, _, client):
        names = [each.id async for each in client.models.list()]
        assert names == ["toolcrib:main", "toolcrib:work", "small:one"]


async def test_a_chat_is_answered_by_a_turn_with_tools_of_the_crib(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one\n")
    config = {"workspace": {"root": str(tmp_path)}}
    acts = wants(("a", "ls", "{}")), Say(text="there is a note")
    async with talking(*acts, config=config) as (_, server, client):
        answer = await chat(client, {"role": "system", "content": "be brief"}, user("what is here?"))
        assert answer.choices[0].message.content == "there is a note"
        assert answer.choices[0].finish_reason == "stop"
        assert "note.txt" in last_tools(server)[0]["content"]
        assert "be brief" in json.dumps(server.asked[0].body["messages"])


async def test_a_chat_is_streamed_word_by_word() -> None:
    async with talking(Say(text="one two three")) as (_, _, client):
        stream = await chat(client, user("count"), stream=True, stream_options={"include_usage": True})
        chunks = [each async for each in stream]
        words = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
        assert words == "one two three"
        assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
        assert chunks[-1].usage.total_tokens >= 0


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_client_is_told_of_all_calls_and_the_turn_goes_on_with_its_results(is_streamed: bool) -> None:
    async with talking(two_cities(), Say(text="sun and rain")) as (_, server, client):
        if is_streamed:
            stream = await chat(client, user("weather?"), tools=CHAT_TOOLS, stream=True)
            chunks = [each async for each in stream]
            asked = [call for each in chunks for call in each.choices[0].delta.tool_calls or ()]
            finish = chunks[-1].choices[0].finish_reason
        else:
            first = await chat(client, user("weather?"), tools=CHAT_TOOLS)
            asked, finish = first.choices[0].message.tool_calls, first.choices[0].finish_reason
        assert finish == "tool_calls"
        told = [(each.function.name, json.loads(each.function.arguments)) for each in asked]
        assert told == [("getWeather", {"city": "Kyiv"}), ("getWeather", {"city": "Lviv"})]
        results = [
            {"role": "tool", "tool_call_id": each.id, "content": text}
            for each, text in zip(asked, ("sun", "rain"), strict=True)
        ]
        calls = [{"id": each.id, "type": "function", "function": each.function.model_dump()} for each in asked]
        reply = {"role": "assistant", "content": None, "tool_calls": calls}
        answer = await chat(client, user("weather?"), reply, *results, tools=CHAT_TOOLS)
        assert answer.choices[0].message.content == "sun and rain"
        shown = [each["content"] for each in last_tools(server)]
        assert ["sun" in shown[0], "rain" in shown[1]] == [True, True]
        assert all("Source: client:owner" in each and each.startswith("<<<") for each in shown)
        assert len(server.asked) == 2


async def test_every_waiting_call_needs_one_result() -> None:
    async with talking(two_cities(), Say(text="fine")) as (_, _, client):
        first = await chat(client, user("weather?"), tools=CHAT_TOOLS)
        one = {"role": "tool", "tool_call_id": first.choices[0].message.tool_calls[0].id, "content": "sun"}
        with pytest.raises(openai.BadRequestError, match="one result for each call that waits"):
            await chat(client, user("weather?"), one, tools=CHAT_TOOLS)
        other = {"role": "tool", "tool_call_id": first.choices[0].message.tool_calls[1].id, "content": "rain"}
        answer = await chat(client, user("weather?"), one, other, tools=CHAT_TOOLS)
        assert answer.choices[0].message.content == "fine"


async def test_a_message_instead_of_the_results_ends_the_turn_that_waits() -> None:
    async with talking(two_cities(), Say(text="as you like")) as (_, server, client):
        await chat(client, user("weather?"), tools=CHAT_TOOLS, user="ann")
        answer = await chat(client, user("never mind"), user="ann")
        assert answer.choices[0].message.content == "as you like"
        assert ["stopped" in each["content"] for each in last_tools(server)] == [True, True]


async def test_a_call_behind_the_clients_waits_for_it_and_is_made_then(tmp_path: Path) -> None:
    write = ("b", "write", '{"path": "x.txt", "content": "x"}')
    acts = wants(("a", "getweather", '{"city": "Kyiv"}'), write), Say(text="written")
    async with talking(*acts, config={"workspace": {"root": str(tmp_path)}}) as (_, _, client):
        first = await chat(client, user("go"), tools=CHAT_TOOLS)
        (call,) = first.choices[0].message.tool_calls
        assert not (tmp_path / "x.txt").exists()
        result = {"role": "tool", "tool_call_id": call.id, "content": "sun"}
        assert (await chat(client, user("go"), result)).choices[0].message.content == "written"
        assert (tmp_path / "x.txt").read_text() == "x"


async def test_nobody_answers_the_calls_of_another() -> None:
    phone = device("phone", GUEST, "operator.write")
    async with talking(two_cities(), Say(text="late"), devices=[phone]) as (_, server, client):
        first = await chat(client, user("weather?"), tools=CHAT_TOOLS)
        forged = [
            {"role": "tool", "tool_call_id": each.id, "content": "forged"}
            for each in first.choices[0].message.tool_calls
        ]
        async with client.with_options(api_key=GUEST) as guest:
            await chat(guest, user("weather?"), *forged)
        assert [each["role"] for each in server.asked[-1].body["messages"]] == ["system", "user"]


async def test_a_user_has_a_session_that_is_kept_and_seen_by_no_other() -> None:
    phone = device("phone", GUEST, "operator.write")
    async with talking(Say(text="one"), Say(text="two"), Say(text="three"), devices=[phone]) as (world, server, client):
        await chat(client, user("my word is mango"), user="ann")
        await chat(client, user("again"), user="ann")
        assert "mango" in json.dumps(server.asked[-1].body["messages"])
        async with client.with_options(api_key=GUEST) as guest:
            await chat(guest, user("and I?"), user="ann")
            assert "mango" not in json.dumps(server.asked[-1].body["messages"])
            headers = {"x-toolcrib-session-key": "agent:main:openai:ann"}
            with pytest.raises(openai.NotFoundError, match="there is no session"):
                await chat(guest, user("and I?"), extra_headers=headers)
        async with client_of(world) as owner:
            keys = {each["key"] for each in (await owner.get("sessions.list", {}))["sessions"]}
            assert keys == {"agent:main:openai:ann", "agent:main:device:dm:phone:openai:ann"}


async def test_without_a_session_what_was_said_before_comes_with_the_request() -> None:
    async with talking(Say(text="mango")) as (_, server, client):
        before = user("my word is mango"), {"role": "assistant", "content": "noted"}
        await chat(client, *before, user("which word?"))
        (said,) = [each for each in server.asked[-1].body["messages"] if each["role"] == "user"]
        words = json.dumps(said["content"])
        assert ["User: my word is mango" in words, "Assistant: noted" in words] == [True, True]


async def test_a_response_is_answered_and_the_next_one_goes_on_from_it() -> None:
    async with talking(Say(text="one"), Say(text="two")) as (_, server, client):
        first = await client.responses.create(model="toolcrib", input="my word is mango", instructions="be brief")
        assert (first.output_text, first.status) == ("one", "completed")
        second = await client.responses.create(model="toolcrib", input="again", previous_response_id=first.id)
        assert second.output_text == "two"
        assert "mango" in json.dumps(server.asked[-1].body["messages"])


async def test_a_response_is_streamed_event_by_event() -> None:
    async with talking(Say(text="one two three")) as (_, _, client):
        stream = await client.responses.create(model="toolcrib", input="count", stream=True)
        told = [each async for each in stream]
        assert "".join(each.delta for each in told if each.type == "response.output_text.delta") == "one two three"
        assert [told[0].type, told[-1].type] == ["response.created", "response.completed"]
        assert told[-1].response.output_text == "one two three"
        assert [each.sequence_number for each in told] == list(range(len(told)))


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_response_brings_all_function_calls_and_takes_their_outputs(is_streamed: bool) -> None:
    async with talking(two_cities(), Say(text="sun and rain")) as (_, server, client):
        asked: dict[str, Any] = {"model": "toolcrib", "tools": RESPONSE_TOOLS}
        if is_streamed:
            async with client.responses.stream(input="weather?", **asked) as stream:
                first = await stream.get_final_response()
        else:
            first = await client.responses.create(input="weather?", **asked)
        calls = [each for each in first.output if each.type == "function_call"]
        assert [json.loads(each.arguments)["city"] for each in calls] == ["Kyiv", "Lviv"]
        outputs: Any = [
            {"type": "function_call_output", "call_id": each.call_id, "output": text}
            for each, text in zip(calls, ("sun", "rain"), strict=True)
        ]
        second = await client.responses.create(input=outputs, previous_response_id=first.id, **asked)
        assert second.output_text == "sun and rain"
        assert len(last_tools(server)) == 2


async def test_a_function_is_not_called_what_the_configuration_calls_another_tool() -> None:
    config = {"tools": {"aliases": {"getweather": "exec"}, "allow": ["getweather"]}}
    async with talking(Say(text="hi"), config=config) as (world, _, client):
        with pytest.raises(openai.BadRequestError, match="'getweather' stands for other tools in rules already"):
            await chat(client, user("what is the weather?"), tools=CHAT_TOOLS)
        async with client_of(world) as owner:
            _, why = await owner.refusal("tools.offer", {"tools": CHAT_TOOLS, "idempotencyKey": "k"})
            assert "stands for other tools" in why


async def test_a_tool_that_the_configuration_denies_is_not_shown_to_the_model() -> None:
    async with talking(Say(text="no"), config={"tools": {"deny": ["getweather"]}}) as (_, server, client):
        await chat(client, user("weather?"), tools=CHAT_TOOLS)
        names = {each["function"]["name"] for each in server.asked[-1].body.get("tools", ())}
        assert "getweather" not in {name.lower() for name in names}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "a role we know"),
        ({"messages": [{"role": "user", "content": "  "}]}, "the message is empty"),
        ({"messages": [{"role": "user", "content": 7}]}, "text, or a list of parts"),
        ({"messages": [user("x")], "tools": "all"}, "tools"),
        ({"messages": [user("x")], "tools": json.loads("[" * 90 + "]" * 90)}, "nested more than 64 deep"),
        ({"messages": [user("x")], "n": 2}, "n is 1"),
        ({"messages": [user("x")], "tool_choice": "required"}, "tool_choice is auto or none"),
        ({"messages": [user("x")], "response_format": {"type": "json_object"}}, "an answer is text"),
        ({"messages": [user("x")], "tools": [{"type": "web_search"}]}, "is a function"),
        ({"messages": [user("x")], "tools": [{"function": {"name": "a b"}}]}, "needs a name"),
        ({"messages": [user("x")], "tools": [{"function": {"name": "read"}}]}, "there is a tool 'read'"),
        ({"messages": [user("x")], "tools": [{"function": {"name": "x", "parameters": {"type": 7}}}]}, "not valid"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "text and pictures"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://a/b"}}]}]},
            "a picture is a data",
        ),
    ],
)
async def test_bad_requests_are_told_in_one_sentence(body: dict[str, Any], sentence: str) -> None:
    async with talking(Say(text="hi")) as (_, server, client):
        with pytest.raises(openai.BadRequestError, match=sentence):
            await client.post("/chat/completions", body={"model": "toolcrib", **body}, cast_to=object)
        assert server.asked == []


async def test_a_model_that_is_not_configured_is_not_found() -> None:
    async with talking(Say(text="hi"), config={"agents": {"work": {}}}) as (_, _, client):
        for name in ("gpt-9", "toolcrib:nobody"):
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model=name, messages=[user("x")])
        answer = await client.chat.completions.create(model="toolcrib:work", messages=[user("x")], user="ann")
        assert answer.choices[0].message.content == "hi"


async def test_who_may_only_read_starts_no_turn_and_nobody_does_without_a_credential() -> None:
    phone = device("phone", GUEST, "operator.read")
    async with talking(Say(text="hi"), devices=[phone]) as (_, server, client):
        with pytest.raises(openai.PermissionDeniedError, match=r"missing scope: operator\.write"):
            await chat(client.with_options(api_key=GUEST), user("x"))
        with pytest.raises(openai.AuthenticationError):
            await chat(client.with_options(api_key="wrong-wrong-wrong-wrong"), user("x"))
        assert server.asked == []


async def test_a_turn_that_fails_is_told_and_not_tried_again() -> None:
    async def fail(talk: Any) -> None:
        await talk.whole(401, {"error": {"message": "no such key"}})

    async with talking(fail) as (_, server, client):
        with pytest.raises(openai.APIStatusError) as caught:
            await chat(client.with_options(max_retries=2), user("x"))
        assert (caught.value.status_code, len(server.asked)) == (502, 1)


async def test_who_goes_away_stops_the_turn() -> None:
    asked = asyncio.Event()

    async def hold(talk: Any) -> None:
        asked.set()
        await talk.hold()

    async with talking(hold) as (world, _, client):
        asking = asyncio.ensure_future(chat(client, user("x"), user="ann"))
        await asked.wait()
        async with client_of(world) as owner:
            asking.cancel()
            ended = await owner.wait_for("chat", state="aborted", sessionKey="agent:main:openai:ann")
            assert ended["state"] == "aborted"
