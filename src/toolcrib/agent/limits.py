"""What a turn has taken, against its limits."""

from toolcrib.define.event import Ending, Usage
from toolcrib.define.model import Price
from toolcrib.define.turn import Limits

__all__ = ["Spent"]


class Spent:
    """What a turn has taken so far. Looked at before every reply, so that a limit is passed by one reply at most."""

    def __init__(self, limits: Limits, above: "Spent | None" = None) -> None:
        self._limits, self._above = limits, above  # what a subagent takes counts in the turn above it, too
        self.steps = 0
        self.usage = Usage()
        self.cost: float | None = 0.0

    def add(self, usage: Usage, price: Price | None) -> float | None:
        """Count one reply; return what it cost, None when its price is not known."""
        self.steps += 1
        return self.add_aside(usage, price)

    def add_aside(self, usage: Usage, price: Price | None) -> float | None:
        """Count what was no step of the turn: a summary, a subagent."""
        if self._above is not None:
            self._above.add_aside(usage, price)
        if not usage.input and not usage.output:
            return 0.0
        self.usage += usage
        cost = price.of(usage) if price else None
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        return cost

    def over(self) -> tuple[Ending, str] | None:
        """Return which limit is reached, and the sentence that says so."""
        limits = self._limits
        if limits.turns is not None and self.steps >= limits.turns:
            return "turns", f"stopped after {_many(self.steps, 'reply', 'replies')}, the limit of a turn (limits.turns)"
        return self.over_budget()

    def over_budget(self) -> tuple[Ending, str] | None:
        """Return which limit on tokens or money is reached, here or in a turn above."""
        limits = self._limits
        if limits.tokens is not None and (tokens := self.usage.input + self.usage.output) >= limits.tokens:
            return (
                "tokens",
                f"stopped after {tokens:,} tokens; the limit of a turn is {limits.tokens:,} (limits.tokens)",
            )
        if limits.cost is not None and (self.steps or self.usage != Usage()):
            if self.cost is None:
                return "cost", "stopped: limits.cost is set, and the price of this model is not known"
            if self.cost >= limits.cost:
                return (
                    "cost",
                    f"stopped after ${self.cost:.4f}; the limit of a turn is ${limits.cost:.4f} (limits.cost)",
                )
        return self.above_budget()

    def above_budget(self) -> tuple[Ending, str] | None:
        """Return which limit on tokens or money is reached in a turn above."""
        return self._above.over_budget() if self._above is not None else None


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
