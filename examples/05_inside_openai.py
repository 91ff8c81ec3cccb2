"""A belt in a program that talks to OpenAI's client: python examples/05_inside_openai.py

Whoever answers at the other end is a script here, so that this runs without a key.
"""

import asyncio
from typing import Any

import httpx2
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

import toolcrib
from toolcrib import Belt, Caller, Sender, tool
from toolcrib.bridges import openai as bridge


@tool(group="shop", effects={"read"})
async def price(item: str, pieces: int = 1) -> str:
    """Say what an item costs."""
    return f"{pieces} x {item}: {3 * pieces} euros"


async def ask(client: AsyncOpenAI, belt: Belt, messages: list[ChatCompletionMessageParam]) -> str | None:
    while True:
        reply = await client.chat.completions.create(model="gpt-5", messages=messages, tools=bridge.tools(belt))
        answers = await bridge.answers(belt, reply)
        if not answers:
            return reply.choices[0].message.content
        kept: Any = reply.choices[0].message  # the client takes its own replies back as they are
        messages.append(kept)  # first the reply with its calls,
        messages += answers  # then the answers to them


def completion(finish: str, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-5", "choices": [choice]}


def wish(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


SCRIPT = iter([
    completion("tool_calls", tool_calls=[wish("a", "price", '{"item": "nut", "pieces": 4}'), wish("b", "exec", "{}")]),
    completion("stop", content="Four nuts cost 12 euros."),
])  # fmt: skip
transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=next(SCRIPT)))
client = AsyncOpenAI(api_key="none", http_client=httpx2.AsyncClient(transport=transport))

crib = toolcrib.open({"tools": {"deny": ["group:runtime"]}})
belt = crib.belt(Caller(channel="telegram", group="-100", sender=Sender(id="7")), extra=[price])
messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What do four nuts cost?"}]
said = asyncio.run(ask(client, belt, messages))
for answer in messages[2:]:
    print("told:", answer.get("content"))
print("said:", said)
