"""What every store of approvals keeps to, in memory and in a file."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.memory_stores import MemoryApprovals

from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.approval import ApprovalStore, Grant, Lasting, Question, State, Yes
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

ASKED = Question(
    id="q1", digest="d1", tool="exec", reason="why", shown="all\nof it", person="bob", asked_at=100.0, expires_at=400.0,
    lasting=(Lasting("exactly this call", "d1"), Lasting("begins with", "d2")),
)  # fmt: skip
GRANT = Grant(id="g1", digest="d1", tool="exec", shown="x", person="bob", by="me", made_at=100.0, until=200.0)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> ApprovalStore:
    made: dict[str, Callable[[], ApprovalStore]] = {
        "memory": MemoryApprovals,
        "sqlite": lambda: SqliteApprovals(SqliteFile(tmp_path / "state" / "crib.db")),
    }
    return made[request.param]()


async def test_an_empty_store_holds_nothing(store: ApprovalStore) -> None:
    assert await store.find("q1") is None
    assert await store.same("d1", 100) is None
    assert (await store.pending(100), await store.grants(100), await store.use_grant(["d1"], 100)) == ((), (), None)
    assert not await store.settle("q1", "allowed", of=["pending"])
    assert not await store.revoke("g1")


async def test_a_question_comes_back_as_it_was(store: ApprovalStore) -> None:
    only_once = replace(ASKED, id="q2", digest="d9", lasting=(), once="it can run something else", asked_at=101.0)
    await store.add(ASKED, most=9)
    await store.add(only_once, most=9)
    assert await store.find("q1") == ASKED
    assert await store.find("q") is None
    assert await store.pending(101) == (ASKED, only_once)
    assert await store.same("d1", 101) == ASKED


@pytest.mark.parametrize(("now", "is_open"), [(0, False), (41, True), (399.9, True), (400, False)])
async def test_only_what_is_in_time_is_open(store: ApprovalStore, now: float, is_open: bool) -> None:
    await store.add(ASKED, most=9)
    assert await store.pending(now) == ((ASKED,) if is_open else ())
    assert await store.same("d1", now) == (ASKED if is_open else None)
    assert await store.settle("q1", "allowed", of=["pending"], now=now) is is_open
    assert await store.find("q1") == (replace(ASKED, state="allowed") if is_open else ASKED)


@pytest.mark.parametrize(
    ("of", "to", "moves"),
    [
        (["pending"], "denied", True),
        (["pending", "allowed"], "withdrawn", True),
        (["allowed"], "spent", False),
        (["denied", "spent", "expired", "withdrawn"], "allowed", False),
    ],
)
async def test_a_question_moves_only_from_where_it_is(
    store: ApprovalStore, of: list[State], to: State, moves: bool
) -> None:
    await store.add(ASKED, most=9)
    assert await store.settle("q1", to, of=of, by="me") is moves
    assert await store.find("q1") == (replace(ASKED, state=to, by="me") if moves else ASKED)


async def test_a_yes_is_spent_once_by_whoever_comes_first(store: ApprovalStore) -> None:
    await store.add(ASKED, most=9)
    await store.settle("q1", "allowed", of=["pending"], by="me")
    tries = [store.settle("q1", "spent", of=["allowed"], now=101) for _ in range(20)]
    assert sorted(await asyncio.gather(*tries)) == [False] * 19 + [True]
    assert await store.find("q1") == replace(ASKED, state="spent", by="me")
    assert await store.same("d1", 101) is None


async def test_the_newest_of_equal_questions_is_found(store: ApprovalStore) -> None:
    for number in range(3):
        await store.add(replace(ASKED, id=f"q{number}"), most=9)
    found = await store.same("d1", 101)
    assert found is not None
    assert found.id == "q2"
    await store.settle("q2", "denied", of=["pending"])
    found = await store.same("d1", 101)
    assert found is not None
    assert found.id == "q1"


async def test_a_no_is_found_by_the_call_that_got_it_alone(store: ApprovalStore) -> None:
    await store.add(replace(ASKED, id="q1", key="k1"), most=9)
    await store.settle("q1", "denied", of=["pending"])
    await store.add(replace(ASKED, id="q2", key="k2"), most=9)
    found = [await store.same("d1", 101, key) for key in ("k1", "k2", "")]
    assert [each and each.id for each in found] == ["q1", "q2", "q2"]
    assert await store.same("d2", 101, "k1") is None
    assert await store.same("d1", 400, "k1") is None


async def test_a_grant_is_kept_with_its_answer_or_not_at_all(store: ApprovalStore) -> None:
    await store.add(ASKED, most=9)
    yes = Yes("the owner", "", True, (0,))
    assert await store.say_yes("q1", yes, now=400, grant=GRANT) is None
    assert await store.grants(101) == ()
    assert await store.say_yes("q1", yes, now=101, grant=GRANT) == replace(
        ASKED, state="allowed", by="the owner", yeses=(yes,)
    )
    assert await store.say_yes("q1", yes, now=101, grant=GRANT) is None
    assert await store.grants(101) == (GRANT,)
    assert [await store.use_grant(["d0", "d1"], now) for now in (0, 101, 199, 200)] == [None, GRANT, GRANT, None]
    assert await store.use_grant(["d2"], 101) is None
    assert await store.use_grant([], 101) is None
    assert await store.revoke("g1")
    assert not await store.revoke("g1")
    assert await store.use_grant(["d1"], 101) is None


async def test_a_person_cannot_pile_up_questions(store: ApprovalStore) -> None:
    for number in range(2):
        await store.add(replace(ASKED, id=f"q{number}"), most=2)
    with pytest.raises(ToolError, match="2 questions are waiting for an answer already") as refused:
        await store.add(replace(ASKED, id="q2"), most=2)
    assert refused.value.code == "busy"
    await store.add(replace(ASKED, id="q3", person="eve"), most=2)
    await store.settle("q0", "denied", of=["pending"])
    await store.add(replace(ASKED, id="q4"), most=2)
    await store.add(replace(ASKED, id="q5", asked_at=500.0, expires_at=800.0), most=2)


async def test_old_questions_give_way_and_open_ones_never(store: ApprovalStore) -> None:
    await store.add(replace(ASKED, id="open", expires_at=9e9), most=9)
    await store.add(replace(ASKED, id="yes", expires_at=9e9), most=9)
    await store.settle("yes", "allowed", of=["pending"])
    for number in range(1_050):
        at = 1_000.0 + number
        await store.add(replace(ASKED, id=f"q{number}", person="eve", asked_at=at, expires_at=at + 1), most=9)
    assert [(await store.find(id)) is not None for id in ("open", "yes", "q0", "q1049")] == [True, True, False, True]
