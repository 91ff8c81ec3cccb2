"""What a turn and its calls have taken, against limits and quotas, and whether it goes round in circles."""

from collections import deque
from collections.abc import Awaitable, Iterable, Mapping

from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Ending, Usage
from toolcrib.define.marks import MARK
from toolcrib.define.message import Call
from toolcrib.define.model import ModelCard, Price
from toolcrib.define.quota import Meter, QuotaDecision, QuotaUse, Reservation
from toolcrib.define.record import Judged, Record
from toolcrib.define.result import Content, Result, Text
from toolcrib.define.turn import Limits
from toolcrib.define.verdict import Basis
from toolcrib.lazy import regex

from .deadline import wait_to_end

_NO_DECISION = QuotaDecision()


class Spent:
    """What a turn has taken so far. Looked at before every reply, so that a limit is passed by one reply at most.

    The last words of a turn that was stopped come behind that.
    """

    def __init__(self, limits: Limits, above: "Spent | None" = None, meter: Meter | None = None) -> None:
        self._limits, self._above = limits, above  # what a subagent takes counts in the turn above it, too
        self._meter, self._uncharged = meter, QuotaUse()
        self.steps = 0
        self.usage = Usage()
        self.cost: float | None = 0.0

    def add(self, usage: Usage, price: Price | None) -> float | None:
        """Count one reply; return what it cost, None when its price is not known."""
        self.steps += 1
        return self.add_aside(usage, price)

    def add_aside(self, usage: Usage, price: Price | None, *, is_charged: bool = False) -> float | None:
        """Count what was no step of the turn: a summary, a subagent, by which it `is_charged` to quotas already."""
        if self._above is not None:
            self._above.add_aside(usage, price, is_charged=True)
        if not usage.input and not usage.output:
            return 0.0
        self.usage += usage
        cost = price.of(usage) if price else None
        if not is_charged:
            self._uncharged += QuotaUse(tokens=usage.input + usage.output, cost=cost or 0.0)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        return cost

    async def charge(
        self,
        caller: Caller,
        price: Price | None,
        begins: Reservation | None = None,
        ends: Reservation | None = None,
    ) -> QuotaDecision:
        """Count against quotas what was taken since the last time, each reply once; return what they say of more.

        A reply that `begins` has what it may take kept free for it, until it `ends`.
        """
        if self._meter is None:
            return _NO_DECISION
        taken, self._uncharged = self._uncharged, QuotaUse()
        is_priced = price is not None and self.cost is not None
        waiting = self._meter.charge(caller, taken, is_priced=is_priced, begins=begins, ends=ends)
        try:
            return _NO_DECISION if waiting is None else await waiting
        except ToolError:
            self._uncharged += taken  # the end of the turn tries again
            raise

    def over(self) -> tuple[Ending, str] | None:
        """Return which limit is reached, and the sentence that says so."""
        limits = self._limits
        if limits.turns is not None and self.steps >= limits.turns:
            replies = "1 reply" if self.steps == 1 else f"{self.steps} replies"
            return "turns", f"stopped after {replies}, the limit of a turn (limits.turns)"
        return self.over_budget()

    def over_budget(self) -> tuple[Ending, str] | None:
        """Return which limit on tokens or money is reached, here or in a turn above."""
        limits = self._limits
        if limits.tokens is not None and (tokens := self.usage.input + self.usage.output) >= limits.tokens:
            sentence = f"stopped after {tokens:,} tokens; the limit of a turn is {limits.tokens:,} (limits.tokens)"
            return "tokens", sentence
        if limits.cost is not None and (self.steps or self.usage != Usage()):
            if self.cost is None:
                return "cost", "stopped: limits.cost is set, and the price of this model is not known"
            if self.cost >= limits.cost:
                sentence = f"stopped after ${self.cost:.4f}; the limit of a turn is ${limits.cost:.4f} (limits.cost)"
                return "cost", sentence
        return self.above_budget()

    def above_budget(self) -> tuple[Ending, str] | None:
        """Return which limit on tokens or money is reached in a turn above."""
        return self._above.over_budget() if self._above is not None else None


def reserve_for(card: ModelCard) -> Reservation:
    """Return what a reply of a model takes at most: what it is shown and says fit its window."""
    most = Usage(input=card.window), Usage(output=card.window)
    return Reservation(QuotaUse(tokens=card.window, cost=max(map(card.price.of, most)) if card.price else 0.0))


async def count_call(waiting: Awaitable[QuotaDecision], ctx: Ctx, name: str, record: Record) -> None:
    """Wait for what quotas say of a call; raise ToolError, on record, when nothing is left of one."""
    word = await waiting
    if word.full:
        entry = Judged(ctx.call, "quota", "deny", word.reason, Basis(word.rule, word.origin))
        if writing := record.write(entry):
            await wait_to_end(writing)
        refusal = f"Refused: {word.reason}. Do not try again before; tell the user."
        raise ToolError(f"{name} is over its quota: {word.reason}", code="quota", for_model=refusal)
    if warn := ctx.course.warn:
        for sentence in word.warnings:
            warn(sentence)


_TOKEN = regex(f'{MARK} id="[0-9a-f]+"')
_CYCLE_STEPS = 3  # steps: a, then b, then c, then a again ...
REPEATED = Text(
    "This call was made before, and its result stands above. Do not repeat it: answer the user, or call another tool."
)


class Repeats:
    """Looks whether the last steps were the same `most` times over, or a cycle of two or three steps half as often.

    A command that still runs may be asked about as often as the model likes: its answer is no result yet.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._steps: deque[int] = deque(maxlen=most * _CYCLE_STEPS)
        self._seen: set[int] = set()

    def mark(self, call: Call, result: Result) -> Result:
        """Return the result as the model reads it: a call of an earlier step, with the same result, says only that.

        A small model that reads the same twice makes the call a third time.
        """
        if self._seen and _key_of(call, result) in self._seen:
            return result._replace(content=(REPEATED,), head="", end="", for_model="")
        return result

    def forget(self) -> None:
        """Take note that what earlier calls gave is no longer there to be read."""
        self._seen.clear()

    def count(self, done: Iterable[tuple[Call, Result]]) -> int:
        """Note the calls of a step; return how often they came now where that is one time too many, else 0."""
        if not self.most:
            return 0
        step = [_key_of(call, result) for call, result in done]
        self._seen.update(key for key in step if key is not None)
        if None in step:
            self._steps.clear()
        if None in step or not step:
            return 0
        self._steps.append(hash(tuple(step)))
        tail = list(self._steps)
        for cycle in range(1, _CYCLE_STEPS + 1):
            times = self.most if cycle == 1 else max(2, (self.most + 1) // 2)
            if len(tail) >= times * cycle and tail[-times * cycle :] == tail[-cycle:] * times:
                return times
        return 0


def _key_of(call: Call, result: Result) -> int | None:
    """Return what is the same for a call that is made again with the same result, None for one that still runs."""
    details = result.details
    if result.status == "pending" or (isinstance(details, Mapping) and details.get("status") == "running"):
        return None
    return hash((call.name, repr(call.args), result.status, *map(drop_token, result.content)))


def drop_token(part: Content) -> Content | str:
    """Return a part without the token of its fence, which differs every time."""
    return _TOKEN.sub(MARK, part.text) if isinstance(part, Text) and part.source is not None else part


_LOOK_EVERY, _TAIL = 1_000, 4_000  # characters
_TIMES, _UNIT_CHARS, _MIN_CHARS = 10, 400, 600


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
        return any(self._repeats(size) for size in range(2, min(_UNIT_CHARS, len(self._tail) // _TIMES) + 1))

    def _repeats(self, size: int) -> bool:
        times = max(_TIMES, -(-_MIN_CHARS // size))
        unit = self._tail[-size:]
        # rows of dashes, dots, blanks and zeros are how people draw
        return self._tail.endswith(unit * times) and len({each for each in unit if each.isalpha()}) > 1
