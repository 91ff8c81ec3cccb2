"""A turn of a thousand steps, each a reply and one call, against a bare loop; kept, against bare commits.

Ours is `crib.turn` as everybody calls it: events, verdicts, deadline, record, session and limits on. The bare loop asks
the same model, checks the arguments in one pass of pydantic-core, awaits the body and appends to a list. Bare commits
write as many rows as long as ours, each durable by itself, with nothing around SQLite; ours come in groups.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from toolcrib import OWNER, Call
from toolcrib import open as open_crib
from toolcrib.adapter.arguments import parse_arguments
from toolcrib.app import Crib
from toolcrib.define.model import Request
from toolcrib.define.turn import Limits
from toolcrib.testing.models import FunctionModel, Reply, call_reply, text_reply

from . import Row
from .call import ARGUMENTS, floor_call, forecast

__all__ = ["NO_BOUNDS", "Paced", "measure", "our_turn"]

STEPS, KEPT_STEPS, CHUNKS = 1_000, 50, 5
MEMORY_BAR, GROWTH_BAR, KEPT_BAR = 3.5, 1.2, 1.5
NO_BOUNDS = Limits(turns=None, seconds=None, repeats=0)


class Paced:
    """A script of so many calls; it notes when it was asked."""

    def __init__(self, steps: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.steps, self._clock = steps, clock
        self.stamps: list[float] = []

    def more(self) -> bool:
        """Note the time; return whether there is another call to ask for."""
        self.stamps.append(self._clock())
        return len(self.stamps) <= self.steps

    def answer(self, _: Request) -> Reply:
        """Ask for the next call, or be done."""
        if not self.more():
            return text_reply("done")
        return call_reply(Call(id=f"c{len(self.stamps)}", name="forecast", args=parse_arguments(ARGUMENTS)))

    def taken(self, first: float = 0.0, last: float = 1.0) -> float:
        """Return the median seconds of a step in a part of the turn."""
        gaps = [later - earlier for earlier, later in zip(self.stamps, self.stamps[1:], strict=False)]
        return statistics.median(gaps[int(len(gaps) * first) : max(1, int(len(gaps) * last))])


async def our_turn(crib: Crib, script: Paced) -> None:
    """Run the whole script as one turn."""
    model = FunctionModel(script.answer, keep=False)
    end = await crib.turn("go", caller=OWNER, model=model, extra=[forecast], limits=NO_BOUNDS).end()
    if end.reason != "done" or end.steps != script.steps + 1:
        raise AssertionError(f"the turn ended after {end.steps} steps: {end.reason} {end.sentence}")


async def bare_turn(script: Paced) -> None:
    """The same with nothing around it."""
    history: list[Any] = [{"role": "user", "content": "go"}]

    async def model(_: list[Any]) -> dict[str, Any]:
        if not script.more():
            return {"role": "assistant", "content": "done"}
        return {"role": "assistant", "calls": [{"id": f"c{len(script.stamps)}", "arguments": ARGUMENTS}]}

    while "calls" in (reply := await model(history)):
        history += [reply, *await asyncio.gather(*(floor_call(_forecast) for _ in reply["calls"]))]


async def _forecast(city: str, days: int) -> str:
    return f"{city}:{days}"


ROWS = (("lines", 420), ("lines", 160), ("lines", 190), ("record", 560), ("record", 260), ("record", 240))  # and bytes


def bare_commits(folder: Path, script: Paced, *, at_once: int) -> None:
    """Write the rows of a step, as many and as long as ours, `at_once` of them to a transaction."""
    db = apsw.Connection(str(folder / "bare.db"))
    for sql in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", *(_TABLE.format(name) for name in TABLES)):
        db.execute(sql).fetchall()
    while script.more():
        for first in range(0, len(ROWS), at_once):
            db.execute("BEGIN IMMEDIATE")
            for table, size in ROWS[first : first + at_once]:
                db.execute(f"INSERT INTO {table} (id, at, body) VALUES (?, ?, ?)", (f"a{size}", 1.0, "x" * size))
            db.execute("COMMIT")
    db.close()
    (folder / "bare.db").unlink()


TABLES = ("lines", "record")
_TABLE = "CREATE TABLE {} (number INTEGER PRIMARY KEY, id TEXT, at REAL, body TEXT)"


def measure(rounds: int) -> list[Row]:
    """Return the rows, measured here and now."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> list[Row]:
    ours, bare, early, late, kept, commits = (list[float]() for _ in range(6))
    for _ in range(rounds):
        async with open_crib({}) as crib:
            await our_turn(crib, Paced(20))
            mine, floor = Paced(STEPS, time.process_time), Paced(STEPS, time.process_time)
            await our_turn(crib, mine)
            await bare_turn(floor)
        ours.append(mine.taken())
        bare.append(floor.taken())
        early.append(mine.taken(0.005, 0.105))
        late.append(mine.taken(0.9))
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            async with open_crib({}, state=folder) as crib:
                await our_turn(crib, Paced(5))
                least = [float("inf")] * 2
                for _ in range(CHUNKS):  # taking turns: what else the disk has to do is the same for both
                    mine, floor = Paced(KEPT_STEPS), Paced(KEPT_STEPS)
                    await our_turn(crib, mine)
                    bare_commits(Path(folder), floor, at_once=1)
                    least = [min(least[0], mine.taken()), min(least[1], floor.taken())]
            kept.append(least[0])
            commits.append(least[1])
    return [
        Row(what=f"a step of {STEPS:,}, in memory", ours=ours, against="bare loop", floor=bare, bar=MEMORY_BAR),
        Row(what="the last tenth of them", ours=late, against="the first tenth", floor=early, bar=GROWTH_BAR),
        Row(what="a step that is kept", ours=kept, against="bare commits", floor=commits, bar=KEPT_BAR),
    ]
