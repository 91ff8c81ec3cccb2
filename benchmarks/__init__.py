"""Speed as ratios to floors that run beside it: what a row of the table promises, and how works are timed."""

import gc
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Row", "Work", "interleaved"]

Work = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise: `ours` takes at most `bar` times as long as `floor`. Both are seconds, one figure a round."""

    what: str
    ours: Sequence[float]
    against: str
    floor: Sequence[float]
    bar: float

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios: the two sides of one round had the same neighbours on the machine."""
        return statistics.median(ours / floor for ours, floor in zip(self.ours, self.floor, strict=True))

    @property
    def over(self) -> bool:
        return self.ratio > self.bar


def interleaved(works: Mapping[str, Work], rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Return the seconds of each work, one figure a round: its least disturbed call while all of them took turns."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for at in range(rounds):
        order = list(works)
        random.Random(at).shuffle(order)
        best = _least({name: works[name] for name in order}, clock)
        for name in works:
            taken[name].append(best[name])
    return taken


def _least(
    works: Mapping[str, Work], clock: Callable[[], float], turns: int = 5, budget: float = 0.5
) -> dict[str, float]:
    """Do the works in turn, `turns` times and on until `budget` seconds are over; return the least time of each."""
    gc.collect()
    best = dict.fromkeys(works, float("inf"))
    done, until = 0, clock() + budget
    while done < turns or clock() < until:
        for name, work in works.items():
            began = clock()
            work()
            best[name] = min(best[name], clock() - began)
        done += 1
    return best
