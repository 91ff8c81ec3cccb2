"""Fifty subagents at once, each with a model and two real tools: how long the loop is away, and how stop ends them.

The floor is a stated time: 50 ms for the longest that nobody else was answered, one second from stop to the end of all.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib import Call, Caller, Result
from toolcrib.app import Crib
from toolcrib.define.event import TurnFinished
from toolcrib.define.model import Request
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

from . import Row

__all__ = ["measure"]

MANY = 50
LONGEST, STOP = 0.050, 1.0  # seconds
_LOOK = 0.002  # seconds between two looks at the clock

Answer = Callable[[Request], Any]


def measure(rounds: int) -> list[Row]:
    """Return the rows, measured here and now."""
    return asyncio.run(_measure(max(3, rounds // 4)))


async def _measure(rounds: int) -> list[Row]:
    root = Path(toolcrib.__file__).parent / "agent"
    config = {"workspace": {"root": str(root)}, "tools": {"subagents": {"maxConcurrent": MANY}}}
    async with toolcrib.open(config, env={}) as crib:
        await _away(crib)  # what is made once is not measured
        away = [await _away(crib) for _ in range(rounds)]
        offline = [await _away_offline(crib) for _ in range(rounds)]  # the first use of that model included
        stop = [await _stopped(crib) for _ in range(rounds)]
    return [
        Row(what=f"{MANY} subagents, loop away", ours=away, against="50 ms", floor=[LONGEST] * rounds, bar=1.0),
        Row(what=f"{MANY} offline, loop away", ours=offline, against="50 ms", floor=[LONGEST] * rounds, bar=1.0),
        Row(what=f"{MANY} subagents, stop", ours=stop, against="1 s", floor=[STOP] * rounds, bar=1.0),
    ]


async def _away(crib: Crib) -> float:
    """Return the longest that the loop answered nobody while fifty worked and finished."""
    model = FunctionModel(_answers(_working), keep=False)
    return await _longest(crib.turn("go", caller=toolcrib.OWNER, model=model).end())


async def _away_offline(crib: Crib) -> float:
    """Return the same for fifty whose model is the offline one: its six verbs and one real search."""
    belt, asked = crib.belt(Caller(session="agent:main:main")), {"objective": "search class Loop in *.py"}
    calls = (belt.call("codebase_investigator", asked) for _ in range(MANY))
    return await _longest(_all_found(calls))


async def _all_found(calls: Iterable[Awaitable[Result]]) -> TurnFinished:
    wrong = [result for result in await asyncio.gather(*calls) if result.status != "ok"]
    return TurnFinished("error", sentence=str(wrong[0])) if wrong else TurnFinished("done")


async def _longest(work: Coroutine[Any, Any, TurnFinished]) -> float:
    longest = 0.0

    async def look() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(_LOOK)
            longest = max(longest, time.perf_counter() - before - _LOOK)

    looking = asyncio.ensure_future(look())
    end = await work
    looking.cancel()
    if end.reason != "done":
        raise AssertionError(f"the turn ended otherwise: {end.sentence}")
    return longest


async def _stopped(crib: Crib) -> float:
    """Return the seconds from stop to the end of a turn with fifty subagents whose models never answer."""
    came, all_came = 0, asyncio.Event()

    async def hang(request: Request) -> Any:
        nonlocal came
        came += 1
        if came == MANY:
            all_came.set()
        await asyncio.Event().wait()

    turn = crib.turn("go", caller=toolcrib.OWNER, model=FunctionModel(_answers(hang), keep=False))
    await asyncio.wait_for(all_came.wait(), 30)
    before = time.perf_counter()
    turn.stop()
    await turn.end()
    return time.perf_counter() - before


def _answers(child: Answer) -> Answer:
    def answer(request: Request) -> Any:
        if ":subagent:" in request.session:
            return child(request)
        if len(request.history) > 1:
            return text_reply("ok")
        return call_reply(*(Call(f"c{at}", "codebase_investigator", {"objective": "look"}) for at in range(MANY)))

    return answer


def _working(request: Request) -> Any:
    match len(request.history):
        case 1:
            return call_reply(Call("l", "ls", {"path": "."}))
        case 3:
            return call_reply(Call("f", "find", {"pattern": "*.py"}))
    return call_reply(Call("d", "complete_task", {"report": {"summary": "seen"}}))
