"""One call, and two hundred at once, against the same work with nothing around it.

Ours starts from the JSON text of the arguments and has everything on: the verdict, a guard and an observer, the
deadline, the fence, the record. The floor reads and checks the text in one pass of pydantic-core and awaits the body.
Then a rule about arguments: by itself, and a call with it against one without; by path, against one with a resolve.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from toolcrib import OWNER, Call, Ctx, Result, Tool, tool
from toolcrib import open as open_crib
from toolcrib.adapter.arguments import parse_arguments
from toolcrib.app import Belt
from toolcrib.registry.sources import Offer

from . import Row

__all__ = ["ARGUMENTS", "CALLS", "belt_with", "floor_call", "forecast", "measure", "nap", "our_call", "our_calls"]

CALL_BAR, PARALLEL_BAR = 7.0, 1.6
VALUE_RULE, RULE_BAR, PATH_BAR = 1e-6, 1.15, 1.5  # seconds that a rule by value takes, and how much longer calls are
CALLS, AT_ONCE = 500, 200  # calls that are timed together, and calls of one reply
BY_VALUE = {"deny": [{"tool": "forecast", "when": {"days": {"min": 9}}}]}
BY_PATH = {"deny": [{"tool": "glance", "when": {"path": "src/**"}}]}
FILE = "docs/plan.md"
ARGUMENTS = '{"city": "Paris", "days": 3}'


class Arguments(TypedDict):
    city: str
    days: int


read = TypeAdapter(Arguments).validator.validate_json


async def guard(ctx: Ctx, args: Mapping[str, Any]) -> None:
    """Have nothing against it."""


async def observer(ctx: Ctx, args: Mapping[str, Any], result: Result) -> None:
    """Leave it as it is."""


async def _forecast(city: str, days: int) -> str:
    return f"{city}:{days}"


async def _glance(path: str) -> str:
    return path


async def _nap(city: str, days: int) -> str:
    await asyncio.sleep(0.010)
    return "ok"


forecast = tool(name="forecast", description="Tell the weather.", effects=set())(_forecast)
glance = tool(name="glance", description="Look at nothing.", effects=set(), paths=("path",))(_glance)
nap = tool(name="nap", description="Sleep for ten milliseconds.", effects=set())(_nap)


def belt_with(*tools: Tool) -> Belt:
    """Return a belt with these tools and both hooks."""
    hooks = Offer(source="plugin:bench", tools=(), before=(guard,), after=(observer,))
    return open_crib({}, plugins=[hooks]).belt(OWNER, extra=tools)


async def floor_call(body: Callable[..., Awaitable[str]]) -> dict[str, str]:
    """Read, check and run, with nothing around it."""
    args = read(ARGUMENTS)
    return {"role": "tool", "tool_call_id": "c1", "content": await body(**args)}


async def our_call(belt: Belt, name: str) -> Result:
    """The same through the whole of `invoke`."""
    return await belt.call(name, parse_arguments(ARGUMENTS))


async def our_calls(belt: Belt, name: str, count: int) -> list[Result]:
    """Answer so many calls of one reply."""
    return await belt.call_all([Call(id=f"c{at}", name=name, args=parse_arguments(ARGUMENTS)) for at in range(count)])


def measure(rounds: int) -> list[Row]:
    """Return both rows, measured here and now."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> list[Row]:
    belt = belt_with(forecast, nap)
    if await our_call(belt, "forecast") != Result.text((await floor_call(_forecast))["content"]):
        raise AssertionError("a call and its floor give different answers")
    one = await _taken(
        rounds, time.process_time, CALLS, lambda: floor_call(_forecast), lambda: our_call(belt, "forecast")
    )
    many = await _taken(
        rounds,
        time.perf_counter,
        1,
        lambda: asyncio.gather(*(floor_call(_nap) for _ in range(AT_ONCE))),
        lambda: our_calls(belt, "nap", AT_ONCE),
    )
    with TemporaryDirectory() as root:
        rules = await _measure_rules(rounds, Path(root))
    return [
        Row(what="one call", ours=one[1], against="pydantic-core", floor=one[0], bar=CALL_BAR),
        Row(what=f"{AT_ONCE} calls of 10 ms", ours=many[1], against="gather", floor=many[0], bar=PARALLEL_BAR),
        *rules,
    ]


async def _measure_rules(rounds: int, root: Path) -> list[Row]:
    """Return what a rule about arguments costs by itself, and what it adds to a call."""
    (root / FILE).parent.mkdir()
    (root / FILE).touch()

    def belt(rules: Mapping[str, Any]) -> Belt:
        settings = {"tools": rules, "workspace": {"root": str(root)}}
        return open_crib(settings).belt(OWNER, extra=[forecast, glance])

    plain, by_value, by_path = belt({}), belt(BY_VALUE), belt(BY_PATH)
    about, args = by_value.selection.rules_about, parse_arguments(ARGUMENTS)

    async def judge() -> None:
        for _ in range(CALLS):
            if about is None or (rules := about(forecast)) is None or not rules.passes(args, tuple):
                raise AssertionError("a call that no rule is about is judged as if one were")

    async def resolve_and_call() -> None:
        await plain.ports.workspace.resolve(FILE)
        await plain.call("glance", {"path": FILE})

    values = await _taken(
        rounds, time.process_time, CALLS, lambda: our_call(plain, "forecast"), lambda: our_call(by_value, "forecast")
    )
    (judged,) = await _taken(rounds, time.process_time, 1, judge)
    paths = await _taken(
        rounds, time.process_time, CALLS // 10, resolve_and_call, lambda: by_path.call("glance", {"path": FILE})
    )
    judged, fixed = [each / CALLS for each in judged], [VALUE_RULE] * rounds
    return [
        Row(what="a rule by value, judged", ours=judged, against="fixed", floor=fixed, bar=1.0),
        Row(what="a call with it", ours=values[1], against="without", floor=values[0], bar=RULE_BAR),
        Row(what="a call with a rule by path", ours=paths[1], against="and a resolve", floor=paths[0], bar=PATH_BAR),
    ]


async def _taken(
    rounds: int,
    clock: Callable[[], float],
    times: int,
    *works: Callable[[], Awaitable[Any]],
) -> list[list[float]]:
    """Return the least disturbed seconds of each work in every round, the works taking turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        best = [float("inf")] * len(works)
        for _ in range(7):
            for at, work in enumerate(works):
                began = clock()
                for _ in range(times):
                    await work()
                best[at] = min(best[at], (clock() - began) / times)
        for at, least in enumerate(best):
            taken[at].append(least)
    return taken
