"""One configuration, two callers, and why each gets what: python examples/04_who_gets_what.py"""

import asyncio

import toolcrib
from toolcrib import Caller, Result, Sender, tool


@tool(group="web", effects={"network"})
async def weather(city: str) -> Result:
    """Tell the weather."""
    return Result.text(f"It is fine in {city}.", source="weather-service")


crib = toolcrib.open({
    "owners": ["telegram:id:1000"],
    "tools": {"ask": ["effect:execute"]},
    "channels": {
        "telegram": {
            "groups": {
                "*": {"toolsBySender": {"id:1000": {"allow": ["*"]}, "*": {"allow": ["weather", "group:messaging"]}}}
            }
        }
    },
})  # fmt: skip

CALLERS = {
    "the owner": Caller(channel="telegram", group="-100", sender=Sender(id="1000")),
    "a stranger": Caller(channel="telegram", group="-100", sender=Sender(id="7", name="Totally The Owner")),
}
for who, caller in CALLERS.items():
    belt = crib.belt(caller, extra=[weather])
    print(f"{who} has {len(belt.tools)} of {len(belt.verdicts)} tools")
    for name in ("weather", "read", "exec", "gateway"):
        verdict = belt.verdicts[name]
        print(f"  {name:8} {verdict.decision:6} {verdict.reason}")
    for name, args in (("weather", {"city": "Kyiv"}), ("gateway", {})):
        result = asyncio.run(belt.call(name, args))
        print(f"  calling {name}: {result.status} {result.plain_text}")
