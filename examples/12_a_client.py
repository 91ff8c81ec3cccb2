"""A client of a gateway: it says something, and lends the model a function: python examples/12_a_client.py [URL]

`toolcrib gateway` starts one; its token, which is in `gateway.token` in the state folder, goes into TOOLCRIB_TOKEN.
The words are for the offline model, which takes a tool's name and arguments for a request.
"""

import asyncio
import sys

import toolcrib
from toolcrib import ToolError

PRICES = {"nut": 3, "bolt": 5}


def price(item: str, count: int = 1) -> str:
    """Tell what something costs in this shop."""
    if item not in PRICES:
        raise ToolError(f"no {item!r} in the shop; there are {', '.join(PRICES)}")
    return f"{count} x {item}: {count * PRICES[item]} euros"


async def main(url: str) -> None:
    async with toolcrib.connect(url) as crib:
        print("connected:", (await crib.ask("health"))["ok"])
        await crib.offer([price], session="shop")
        for words in ('price {"item": "nut", "count": 4}', 'price {"item": "moon"}'):
            print(">", words)
            print(await crib.say(words, session="shop"))
        verdict = (await crib.call("price", {"item": "bolt"}, session="shop"))["verdict"]
        print(f"{verdict['tool']}: {verdict['decision']}, {verdict['reason']}")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:18789"))
