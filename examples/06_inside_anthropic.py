"""A belt in a program that talks to Anthropic's client: python examples/06_inside_anthropic.py

Whoever answers at the other end is a script here, so that this runs without a key.
"""

import asyncio
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, TextBlock

import toolcrib
from toolcrib import Belt, ToolError, tool
from toolcrib.bridges import anthropic as bridge


@tool(group="shop", effects={"read"})
async def price(item: str) -> str:
    """Say what an item costs."""
    if item != "nut":
        raise ToolError(f"no {item!r} in the shop; there are nuts", code="not_found")
    return "3 euros"


async def ask(client: AsyncAnthropic, belt: Belt, messages: list[MessageParam]) -> str:
    while True:
        reply = await client.messages.create(
            model="claude-sonnet-5", max_tokens=1024, messages=messages, tools=bridge.tools(belt)
        )
        answers = await bridge.answers(belt, reply)
        if not answers:
            return "".join(block.text for block in reply.content if isinstance(block, TextBlock))
        messages.append({"role": "assistant", "content": reply.content})  # first the reply with its calls,
        messages += answers  # then the answers to them


def message(reason: str, *content: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = {"id": "1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "usage": usage}
    return {**said, "stop_reason": reason, "stop_sequence": None, "content": content}


SCRIPT = iter([
    message(
        "tool_use",
        {"type": "tool_use", "id": "a", "name": "price", "input": {"item": "nut"}},
        {"type": "tool_use", "id": "b", "name": "price", "input": {"item": "moon"}},
    ),
    message("end_turn", {"type": "text", "text": "A nut costs 3 euros; the moon is not for sale."}),
])  # fmt: skip
transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=next(SCRIPT)))
client = AsyncAnthropic(api_key="none", http_client=httpx2.AsyncClient(transport=transport))

belt = toolcrib.open().belt(toolcrib.OWNER, extra=[price])
messages: list[MessageParam] = [{"role": "user", "content": "What do a nut and the moon cost?"}]
said = asyncio.run(ask(client, belt, messages))
print("told:", *messages[2]["content"], sep="\n  ")
print("said:", said)
