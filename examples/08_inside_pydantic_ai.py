"""One pydantic-ai agent, many callers, each with the belt that is theirs: python examples/08_inside_pydantic_ai.py

The model is the framework's own fake, which calls the tools it is told to call, if it is given them.
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import toolcrib
from toolcrib import Caller, Sender, tool
from toolcrib.bridges import CribToolset


@tool(group="shop", effects={"read"})
async def price(item: str) -> str:
    """Say what an item costs."""
    return f"{item}: 3 euros"


@tool(group="shop", effects={"write"}, owner_only=True)
async def discount(percent: int) -> str:
    """Lower every price."""
    return f"everything is {percent} % cheaper"


crib = toolcrib.open({"owners": ["telegram:id:1000"]})
shop = CribToolset[Caller](lambda run: crib.belt(run.deps, extra=[price, discount]))
agent = Agent(TestModel(call_tools=["price"]), deps_type=Caller, toolsets=[shop])

for id in ("1000", "7"):
    caller = Caller(channel="telegram", group="-100", sender=Sender(id=id))
    print(f"{id} has discount: {'discount' in crib.belt(caller, extra=[price, discount]).tools}")
    print(f"{id} is told: {asyncio.run(agent.run('What does a nut cost?', deps=caller)).output}")
