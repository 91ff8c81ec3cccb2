"""The loops that docs/bridges.md shows, run against providers that refuse what the real ones refuse."""

import asyncio
import json
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, ToolParam
from google import genai
from google.genai import types
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from tests.doors.bridges.wires import checked

EXAMPLES = Path(__file__).parents[3] / "examples"


def serve(check: Callable[[Any], None], replies: Sequence[Any], heard: list[Any]) -> httpx2.AsyncClient:
    """Return the way to a provider that looks at each request as a real one does before it answers."""
    left = iter(replies)

    def handle(request: httpx2.Request) -> httpx2.Response:
        check(body := json.loads(request.content))
        heard.append(body)
        return httpx2.Response(200, json=next(left))

    return httpx2.AsyncClient(transport=httpx2.MockTransport(handle))


def check_openai(body: Any) -> None:
    checked(list[ChatCompletionFunctionToolParam], body["tools"])
    open_calls = list[str]()
    for message in checked(list[ChatCompletionMessageParam], body["messages"]):
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])  # an answer without its call before it
        else:
            assert open_calls == [], "a call without its answer"
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    assert open_calls == [], "a call without its answer"


def check_anthropic(body: Any) -> None:
    checked(list[ToolParam], body["tools"])
    uses = list[str]()
    for at, message in enumerate(checked(list[MessageParam], body["messages"])):
        assert message["role"] == ("assistant" if at % 2 else "user")
        blocks = [] if isinstance(message["content"], str) else message["content"]
        assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == uses
        uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert uses == []


def check_genai(body: Any) -> None:
    calls = list[str]()
    for tool in body["tools"]:
        types.Tool.model_validate_json(json.dumps(tool))
    for content in body["contents"]:
        parts = types.Content.model_validate_json(json.dumps(content)).parts or []
        assert [part.function_response.name for part in parts if part.function_response] == calls
        calls = [part.function_call.name or "" for part in parts if part.function_call]
    assert calls == []


def openai_client(transport: httpx2.AsyncClient) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="none", http_client=transport, max_retries=0)


def anthropic_client(transport: httpx2.AsyncClient) -> AsyncAnthropic:
    return AsyncAnthropic(api_key="none", http_client=transport, max_retries=0)


def genai_client(transport: httpx2.AsyncClient) -> genai.Client:
    return genai.Client(api_key="none", http_options=types.HttpOptions(httpx_async_client=transport))


def openai_replies(example: dict[str, Any]) -> list[Any]:
    calls = [example["wish"](id, "price", '{"item": "nut"}') for id in "ab"]
    make = example["completion"]
    return [
        make("tool_calls", tool_calls=calls),
        make("tool_calls", tool_calls=calls[:1]),
        make("stop", content="done"),
    ]


def anthropic_replies(example: dict[str, Any]) -> list[Any]:
    uses = [{"type": "tool_use", "id": id, "name": "price", "input": {"item": "nut"}} for id in "ab"]
    make = example["message"]
    return [make("tool_use", *uses), make("tool_use", uses[0]), make("end_turn", {"type": "text", "text": "done"})]


def genai_replies(example: dict[str, Any]) -> list[Any]:
    call = {"name": "weather", "args": {"city": "Kyiv"}}
    make = example["response"]
    return [make(functionCall=call), make(functionCall=call), make(text="done")]


OPENAI: Any = {"role": "user", "content": "go"}
GENAI = types.Content(role="user", parts=[types.Part(text="go")])


@pytest.mark.parametrize(
    ("script", "check", "client", "replies", "first", "lengths"),
    [
        ("05_inside_openai.py", check_openai, openai_client, openai_replies, OPENAI, [1, 4, 6]),
        ("06_inside_anthropic.py", check_anthropic, anthropic_client, anthropic_replies, OPENAI, [1, 3, 5]),
        ("07_inside_genai.py", check_genai, genai_client, genai_replies, GENAI, [1, 3, 5]),
    ],
    ids=["openai", "anthropic", "genai"],
)
def test_the_loop_of_a_bridge_sends_what_its_provider_takes(
    script: str,
    check: Callable[[Any], None],
    client: Callable[[httpx2.AsyncClient], Any],
    replies: Callable[[dict[str, Any]], list[Any]],
    first: Any,
    lengths: list[int],
) -> None:
    example, heard = runpy.run_path(str(EXAMPLES / script)), list[Any]()
    said = asyncio.run(example["ask"](client(serve(check, replies(example), heard)), example["belt"], [first]))
    assert said == "done"
    assert [len(body.get("messages") or body["contents"]) for body in heard] == lengths
