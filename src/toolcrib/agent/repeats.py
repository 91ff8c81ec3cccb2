"""Going round in circles: calls that repeat with the same results, and words that repeat without end."""

import re
from collections import deque
from collections.abc import Iterable, Mapping

from toolcrib.adapter.fence import MARK
from toolcrib.define.message import Call
from toolcrib.define.result import Content, Result, Text

__all__ = ["Babble", "Repeats"]

_TOKEN = re.compile(f'{MARK} id="[0-9a-f]+"')
_LONGEST_CYCLE = 3  # steps: a, then b, then c, then a again ...


class Repeats:
    """Looks whether the last steps were the same `most` times over, in a cycle of up to three.

    A command that still runs may be asked about as often as the model likes: its answer is no result yet.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._steps: deque[int] = deque(maxlen=most * _LONGEST_CYCLE)

    def has(self, done: Iterable[tuple[Call, Result]]) -> bool:
        """Note the calls of a step; return whether it is one too many of its kind."""
        if not self.most:
            return False
        step = []
        for call, result in done:
            if result.status == "pending" or _still_runs(result):
                self._steps.clear()
                return False
            step.append((call.name, repr(call.args), result.status, *map(_same_again, result.content)))
        if not step:
            return False
        steps = self._steps
        steps.append(hash(tuple(step)))
        if len(steps) < self.most or steps.count(steps[-1]) < self.most:
            return False
        tail = list(steps)
        return any(
            len(tail) >= self.most * cycle and tail[-self.most * cycle :] == tail[-cycle:] * self.most
            for cycle in range(1, _LONGEST_CYCLE + 1)
        )


def _same_again(part: Content) -> Content | str:
    """Return a part without the token of its fence, which differs every time."""
    return _TOKEN.sub(MARK, part.text) if isinstance(part, Text) and part.source is not None else part


def _still_runs(result: Result) -> bool:
    return isinstance(result.details, Mapping) and result.details.get("status") == "running"


_LOOK_EVERY, _TAIL = 1_000, 4_000  # characters
_TIMES, _LONGEST_UNIT, _LEAST = 10, 400, 600


class Babble:
    """Listens to the words of a reply for a phrase that comes ten times in a row."""

    __slots__ = ("_new", "_tail")

    def __init__(self) -> None:
        self._new = 0
        self._tail = ""

    def hears(self, words: str) -> bool:
        """Take more words; return whether they only repeat themselves."""
        self._tail = (self._tail + words)[-_TAIL:]
        self._new += len(words)
        if self._new < _LOOK_EVERY:
            return False
        self._new = 0
        return any(self._repeats(size) for size in range(2, min(_LONGEST_UNIT, len(self._tail) // _TIMES) + 1))

    def _repeats(self, size: int) -> bool:
        times = max(_TIMES, -(-_LEAST // size))
        unit = self._tail[-size:]
        # rows of dashes, dots, blanks and zeros are how people draw
        return self._tail.endswith(unit * times) and len({each for each in unit if each.isalpha()}) > 1
