"""Quotas in worlds made by chance: one more adds no call, explain says what happens, both stores count alike."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.memory_stores import MemoryQuotas
from toolcrib.backends.stores.approvals import SqliteQuotas
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import SettingsInForce, load
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.quota import Measure, QuotaStore, QuotaUse, QuotaWindow, window_around
from toolcrib.define.tool import Tool
from toolcrib.registry.catalog import groups_of
from toolcrib.services.quotas import Quotas

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000.0
TOOLS = (
    Tool.declared("read", "", effects={"read"}, group="fs"),
    Tool.declared("write", "", effects={"write"}, group="fs"),
    Tool.declared("exec", "", effects={"execute"}, group="runtime"),
)
WHO = (None, "sender", "agent", "id:7", "ID:8", "e164:+38012345", "agent:dev", "agent:main")
ENTRIES = (None, "*", "read", "WRITE", "group:fs", "effect:write", "r*", "bash")
CALLERS = (
    OWNER,
    Caller(channel="telegram", sender=Sender(id="7")),
    Caller(channel="Telegram", sender=Sender(id="7", name="x"), agent="Dev"),
    Caller(channel="irc", sender=Sender(id="8", e164="+38012345")),
    Caller(channel="irc", sender=Sender(username="7")),
    Caller(session="agent:helper:subagent:1", parents=("agent:dev:main",), sender=Sender(id="7"), channel="telegram"),
)


def quota(chance: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"who": chance.choice(WHO), "tool": chance.choice(ENTRIES)}
    limits = {"calls": chance.randrange(6), "tokens": chance.randrange(60), "cost": chance.random() * 3}
    for name in chance.sample(sorted(limits), chance.randint(1, 3)):
        made[name] = limits[name]
    return {"per": chance.choice(("hour", "day")), **{name: value for name, value in made.items() if value is not None}}


def quotas_over(written: list[dict[str, Any]], clock: list[float], store: MemoryQuotas | None = None) -> Quotas:
    settings = SettingsInForce(load({"quotas": written, "agents": {"dev": {}, "helper": {}}}), {})
    return Quotas(settings, store or MemoryQuotas(), groups_of, now=lambda: clock[0])


async def live(quotas: Quotas, seed: str, clock: list[float]) -> None:
    """Make calls and take replies by chance, and compare what is told of each call with what becomes of it."""
    chance, passed = random.Random(seed), list[bool]()
    for _ in range(40):
        clock[0] += chance.choice((0, 0, 1, 1800, 3600))
        caller, tool = chance.choice(CALLERS), chance.choice(TOOLS)
        taken = QuotaUse(tokens=chance.randrange(9), cost=chance.random() / 3)
        if chance.random() < 0.3:  # what was taken counts, whoever may go on
            asked = quotas.charge(caller, taken, is_priced=True)
            passed.append(asked is None or (await asked).full is None)
            continue
        word, told = await quotas.show(caller, tool)
        asked = quotas.admit(caller, tool, spends=True)
        passed.append(asked is None or (await asked).full is None)
        assert passed[-1] == (word.full is None), "explain says otherwise than what happens"
        used_up = [each for each in told for name in ("calls", "tokens", "cost") if each.get(name, {}).get("left") == 0]
        assert bool(used_up) == (not passed[-1])


@pytest.mark.parametrize("seed", range(40))
async def test_explain_of_quotas_says_what_happens(seed: int) -> None:
    chance, clock = random.Random(seed), [NOW]
    await live(quotas_over([quota(chance) for _ in range(chance.randrange(1, 5))], clock), f"{seed}", clock)


@pytest.mark.parametrize("seed", range(40))
async def test_one_more_quota_never_lets_a_call_through_that_was_refused(seed: int) -> None:
    chance, store = random.Random(seed), MemoryQuotas()
    written = [quota(chance) for _ in range(chance.randrange(4))]
    more = [*written, quota(chance)]
    chance.shuffle(more)
    few, many = (quotas_over(each, [NOW], store) for each in (written, more))
    for _ in range(40):
        caller, tool = chance.choice(CALLERS), chance.choice(TOOLS)
        word, _ = await few.show(caller, tool)
        stricter, _ = await many.show(caller, tool)
        assert word.full is None or stricter.full is not None, (written, more, caller, tool)
        if (taking := many.admit(caller, tool, spends=True)) is not None:
            await taking
        if (charging := many.charge(caller, QuotaUse(tokens=3, cost=0.1), is_priced=True)) is not None:
            await charging


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> QuotaStore:
    return MemoryQuotas() if request.param == "memory" else SqliteQuotas(SqliteFile(tmp_path / "crib.db"))


def window(bucket: str, since: int = 0, calls: int = 9) -> QuotaWindow:
    most: dict[Measure, float] = {"calls": calls}
    return QuotaWindow(origin="q", bucket=bucket, since=since, until=since + 60, who="", tool="", per="hour", most=most)


async def test_a_store_adds_to_all_windows_or_to_none(store: QuotaStore) -> None:
    narrow, wide = window("a", calls=1), window("b", calls=9)
    assert await store.look([narrow, wide]) == (QuotaUse(), QuotaUse())
    assert await store.take([narrow, wide], QuotaUse(calls=1), checked=True) == (QuotaUse(), QuotaUse())
    assert await store.take([narrow, wide], QuotaUse(calls=1), checked=True) == (QuotaUse(1), QuotaUse(1))
    assert await store.look([narrow, wide]) == (QuotaUse(1), QuotaUse(1))
    await store.take([narrow, narrow], QuotaUse(tokens=5, cost=0.5), checked=False)  # one bucket is counted once
    assert await store.look([narrow, window("a", since=60)]) == (QuotaUse(1, 5, 0.5), QuotaUse())


@pytest.mark.parametrize("per", ["hour", "day"])
def test_windows_follow_each_other_without_a_gap(per: Any) -> None:
    at = NOW
    for _ in range(400):
        since, until = window_around(per, at)
        assert since <= at < until
        assert window_around(per, until - 1)[0] == since
        assert window_around(per, until)[0] == until
        at = float(until)
