"""How one list of lines became another, within a bounded amount of work."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

__all__ = ["Step", "steps"]

_WORK = 5_000_000  # comparisons; beyond it the lines between the first and the last difference count as all new


class Step(NamedTuple):
    """Lines `old` to `old_end` became lines `new` to `new_end`; `kept` when they are the same."""

    kept: bool
    old: int
    old_end: int
    new: int
    new_end: int


def steps(old: Sequence[object], new: Sequence[object]) -> list[Step]:
    """Return the steps from `old` to `new`, kept and changed ones in turn."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    found = [Step(True, 0, head, 0, head)] if head else []
    found += _between(old[head : len(old) - tail], new[head : len(new) - tail], head)
    if tail:
        found.append(Step(True, len(old) - tail, len(old), len(new) - tail, len(new)))
    return found


def _between(old: Sequence[object], new: Sequence[object], at: int) -> list[Step]:
    if not old and not new:
        return []
    known = Counter(old)
    pairs = sum(known[line] * times for line, times in Counter(new).items())
    if not pairs or pairs * min(len(old), len(new)) > _WORK:
        return [Step(False, at, at + len(old), at, at + len(new))]
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [Step(tag == "equal", at + a, at + b, at + c, at + d) for tag, a, b, c, d in codes]
