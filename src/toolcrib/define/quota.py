"""Quotas: what a sender or an agent may use in an hour or a day, what was used, and where that is counted."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from secrets import token_hex
from typing import Literal, Protocol, get_args

from toolcrib.lazy import dataclass, field

from .caller import Caller
from .tool import Tool

Measure = Literal["calls", "tokens", "cost"]
Period = Literal["hour", "day"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
OF_REPLIES: frozenset[Measure] = frozenset({"tokens", "cost"})

_SECONDS: Mapping[Period, int] = {"hour": 3_600, "day": 86_400}
_ONE_EACH = {"sender": "one sender", "agent": "one agent"}
_WARNING_SHARE = 0.8  # of a quota; above it there is a warning


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Calls that ran, tokens of replies, and what these cost in dollars."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: "QuotaUse") -> "QuotaUse":
        return QuotaUse(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one reply takes at most, kept free for it while it is under way, so that others do not count on it too."""

    most: QuotaUse
    id: str = field(default_factory=lambda: token_hex(8))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindow:
    """One quota as it counts for one caller now: what is taken from `since` on in its `bucket`, until it is free again.

    `most` holds the limits by what they are on, `who` and `tool` are as written, "" for everybody and for all tools.
    One about a role is of one member, unless it `is_shared` by all.
    """

    origin: str
    bucket: str
    since: int
    until: int
    who: str
    tool: str
    per: Period
    most: Mapping[Measure, float]
    is_shared: bool = False

    def find_full(self, taken: QuotaUse, of: Collection[Measure] = MEASURES) -> Measure | None:
        """Return what of these is used up, None when something of each is left."""
        return next((each for each, most in self.most.items() if each in of and getattr(taken, each) >= most), None)

    def list_warnings(self, before: QuotaUse, after: QuotaUse) -> Iterator[str]:
        """Yield a sentence about each limit that comes close between the two."""
        for each, most in self.most.items():
            share = most * _WARNING_SHARE
            if getattr(before, each) < share <= getattr(after, each):
                yield f"{self._tell(each, after)}; it is free again at {self.frees_at}"

    def explain_full(self, measure: Measure, taken: QuotaUse) -> str:
        """Return why nothing more may be taken, and from when on it may."""
        return f"{self._tell(measure, taken)}, so nothing is left until {self.frees_at}"

    @property
    def frees_at(self) -> str:
        """When it is free again, in local time."""
        return datetime.fromtimestamp(self.until).astimezone().strftime("%Y-%m-%d %H:%M")

    def _tell(self, measure: Measure, taken: QuotaUse) -> str:
        used, most = getattr(taken, measure), self.most[measure]
        amounts = f"${used:.4f} of ${most:.4f}" if measure == "cost" else f"{used:,} of {most:,} {measure}"
        about = f" of {self.tool}" if self.tool else ""
        about += f" by {self._name_who()}" if self.who else ""
        return f"{amounts}{about} this {self.per} are used ({self.origin})"

    def _name_who(self) -> str:
        if self.who.lower().startswith("role:"):
            return f"{'all' if self.is_shared else 'one'} of {self.who}"
        return _ONE_EACH.get(self.who, self.who)


def has_room(windows: Sequence[QuotaWindow], found: Sequence[tuple[QuotaUse, QuotaUse]]) -> bool:
    """Tell whether a reply may begin: nothing is used up by what windows hold and what is kept free of each."""
    pairs = zip(windows, found, strict=True)
    return not any(each.find_full(held + kept, OF_REPLIES) for each, (held, kept) in pairs)


def window_around(per: Period, now: float) -> tuple[int, int]:
    """Return when the hour or the day of UTC that holds `now` began, and when it ends."""
    since = int(now) // _SECONDS[per] * _SECONDS[per]
    return since, since + _SECONDS[per]


class QuotaStore(Protocol):
    """Where it is counted what was taken, by all processes together."""

    async def take(
        self, windows: Sequence[QuotaWindow], taken: QuotaUse, /, *, checked: bool, ends: str = ""
    ) -> tuple[QuotaUse, ...]:
        """Add to every window, in one step, and return what each held before; `checked`, not when one is full.

        What was kept free under the id `ends` is so no longer.
        """

    async def reserve(
        self, windows: Sequence[QuotaWindow], wanted: Reservation, process: str, is_there: Callable[[str], bool], /
    ) -> tuple[tuple[QuotaUse, QuotaUse], ...]:
        """Keep free what a reply takes at most, unless a window is full by what it holds and what others keep free.

        Return both for each window. What a process keeps free that is not there any more does not count.
        """

    async def look(self, windows: Sequence[QuotaWindow], /) -> tuple[QuotaUse, ...]:
        """Return what each window holds."""


@dataclass(frozen=True, slots=True)
class QuotaDecision:
    """What quotas say: which measure is used up and why, with the rule and its place; and what is nearly used up."""

    full: Measure | None = None
    reason: str = ""
    rule: str = ""
    origin: str = ""
    warnings: tuple[str, ...] = ()


class Meter(Protocol):
    """Counts what callers take; None is returned where nothing limits them."""

    def admit(self, caller: Caller, tool: Tool, /, *, spends: bool) -> Awaitable[QuotaDecision] | None:
        """Say whether a call may run; with `spends` it is counted, unless it may not."""

    def charge(
        self,
        caller: Caller,
        taken: QuotaUse,
        /,
        *,
        is_priced: bool,
        begins: Reservation | None = None,
        ends: Reservation | None = None,
    ) -> Awaitable[QuotaDecision] | None:
        """Count what replies took, and say whether there may be another one.

        One that `begins` waits while those that are under way may take what is left; it must be passed as `ends` later.
        """
