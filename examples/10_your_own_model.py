"""A model of your own, here a function: python examples/10_your_own_model.py

Whatever it answers goes through the same gate as the reply of any other model.
"""

import asyncio

import toolcrib
from toolcrib import Call, Message, Text, tool
from toolcrib.events import Replied
from toolcrib.models import Request
from toolcrib.testing import FunctionModel, call_reply, text_reply


@tool(group="shop", effects={"read"})
async def price(item: str, pieces: int = 1) -> str:
    """Say what an item costs."""
    return f"{pieces} x {item}: {3 * pieces} euros"


def words(message: Message) -> str:
    return " ".join(part.text for part in message.content if isinstance(part, Text))


def clerk(request: Request) -> Replied:
    answers = [words(message) for message in request.history if message.role == "tool"]
    if answers:
        return text_reply(f"I asked, and heard: {answers[0]}")
    pieces = next((word for word in words(request.history[-1]).split() if word.isdigit()), "1")
    return call_reply(Call("a", "price", {"item": "nut", "pieces": pieces}), Call("b", "exec", {"command": "rm -rf /"}))


async def main() -> None:
    model = FunctionModel(clerk)
    async with toolcrib.open({"tools": {"deny": ["group:runtime"]}}) as crib:
        end = await crib.turn("What do 4 nuts cost?", caller=toolcrib.OWNER, model=model, extra=[price]).end()
    print(end.reason, "|", end.text)
    for message in model.asked[-1].messages[2:]:
        print(message.role, "|", words(message))


asyncio.run(main())
