"""What a turn may take: each limit by itself, and none where there is none."""

import pytest

from toolcrib.agent.limits import Spent
from toolcrib.define.event import Usage
from toolcrib.define.model import Price
from toolcrib.define.turn import Limits

FREE = Limits(turns=None, seconds=None)
PRICE = Price(input=2.0, output=10.0)


def test_nothing_is_over_before_anything_was_spent_and_without_limits_never() -> None:
    assert Spent(Limits(turns=1, tokens=1, cost=0.01)).over() is None
    spent = Spent(FREE)
    for _ in range(1000):
        spent.add(Usage(1_000_000, 1_000_000), None)
    assert spent.over() is None
    assert (spent.steps, spent.cost) == (1000, None)


@pytest.mark.parametrize(
    ("limits", "reason", "words"),
    [
        (Limits(turns=1), "turns", "1 reply, the limit"),
        (Limits(turns=2), None, ""),
        (Limits(tokens=1_500_000), "tokens", "1,500,000 tokens"),
        (Limits(tokens=1_500_001), None, ""),
        (Limits(cost=7.0), "cost", "$7.0000"),
        (Limits(cost=7.01), None, ""),
    ],
)
def test_a_limit_is_reached_when_as_much_was_spent(limits: Limits, reason: str | None, words: str) -> None:
    spent = Spent(limits)
    assert spent.add(Usage(1_000_000, 500_000), PRICE) == 7.0
    over = spent.over()
    assert (over[0] if over else None) == reason
    assert words in (over[1] if over else "")


def test_a_price_that_is_not_known_once_makes_the_whole_unknown() -> None:
    spent = Spent(Limits(cost=100.0))
    spent.add(Usage(10, 10), PRICE)
    assert spent.over() is None
    assert spent.add(Usage(10, 10), None) is None
    spent.add(Usage(10, 10), PRICE)
    assert spent.cost is None
    assert spent.over() == ("cost", "stopped: limits.cost is set, and the price of this model is not known")


def test_a_reply_that_took_nothing_costs_nothing() -> None:
    spent = Spent(FREE)
    assert spent.add(Usage(), None) == 0.0
    assert (spent.steps, spent.usage, spent.cost) == (1, Usage(), 0.0)


def test_what_was_read_from_a_cache_has_its_own_price() -> None:
    price = Price(input=2.0, output=10.0, cached=0.2, written=2.5)
    assert price.of(Usage(1_000_000, 0, cached=500_000, written=200_000)) == pytest.approx(0.6 + 0.1 + 0.5)
