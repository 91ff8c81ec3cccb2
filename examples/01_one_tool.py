"""Declare one tool and call it: python examples/01_one_tool.py"""

import asyncio
from typing import Annotated

import toolcrib
from toolcrib import tool


@tool(effects=set())
def greet(name: Annotated[str, "whom to greet"], times: Annotated[int, "how often"] = 1) -> str:
    """Greet somebody."""
    return " ".join([f"Hello {name}!"] * times)


belt = toolcrib.open().belt(toolcrib.OWNER, extra=[greet])
for args in ({"name": "Ann", "times": "2"}, {"nmae": "Ann"}):  # a model's spelling, and a model's mistake
    result = asyncio.run(belt.call("greet", args))
    print(result.status, "|", *(part.text for part in result.content if isinstance(part, toolcrib.Text)))
