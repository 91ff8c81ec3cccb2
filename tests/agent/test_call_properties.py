"""What holds for every call, whatever the belt, the hooks, the human, the body and the stores do: 200 calls every day,
20,000 with `./check full`. `call_worlds.py` says what a world is and what has to come of a call in it.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from toolcrib.agent.invoke import invoke, invoke_all
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.define.record import Answered, Decided, Finished, Judged, RecordEntry, Started
from toolcrib.define.result import Result
from toolcrib.define.verdict import Selection, Verdict

from .call_worlds import (
    THREADS,
    WORDS,
    WORLDS,
    Came,
    Doing,
    Given,
    Guarding,
    Permission,
    Run,
    World,
    belt_of,
    ctx_of,
    oracle,
    window_of,
)


async def made(run: Run) -> Result | None:
    """Make the call; None when it was cancelled. Whatever else leaves `invoke` fails the test."""
    world = run.world
    run.task = asyncio.create_task(invoke(belt_of(run.tool(), world.permission), ctx_of(world), window_of(run)))
    try:
        return await run.task
    except asyncio.CancelledError:
        return None


def check(world: World) -> None:
    run = Run(world)
    result = asyncio.run(made(run))
    came = oracle(world)
    check_the_record(run)
    if world.cancelled in ("nowhere", "twice") and not run.stopped:
        check_the_outcome(run, came, result)
    elif run.stopped:
        check_the_end(run, result)
    else:
        assert world.cancelled not in came.passed, "it never came to its station"
        check_the_outcome(run, came, result)


def check_the_record(run: Run) -> None:
    """Every call has one decision and one outcome on record, and its start between them: of every body that ran, and
    of no other call unless it was cancelled at that moment. Nothing starts without its permission.
    """
    late = run.world.body in THREADS  # a thread may take up its work when nobody waits for it any more
    check_the_words(run)
    entries = [entry for entry in run.entries if not isinstance(entry, (Judged, Answered))]
    kinds = [type(entry) for entry in entries]
    assert kinds == [kind for kind in (Decided, Started, Finished) if kind in kinds], "each once, in this order"
    for told in run.ran:
        on_record = [entry for entry in told if not isinstance(entry, (Judged, Answered))]
        assert [type(entry) for entry in on_record][:2] == [Decided, Started]
        assert len(on_record) == 2 or late
    assert len(run.ran) <= 1
    finished = [entry for entry in run.entries if isinstance(entry, Finished)]
    if Started in kinds:
        decided, started = entries[:2]
        assert isinstance(decided, Decided)
        assert isinstance(started, Started)
        assert decided.verdict is not None
        assert decided.verdict.decision == "allow" or (decided.verdict.decision == "ask" and run.world.answer == "yes")
        assert (started.tool, started.call.key) == (decided.verdict.tool, decided.call.key)
        assert run.ran or late or "start" in run.stopped
        assert all(entry.ran for entry in finished) or "start" in run.stopped
    if run.world.record in ("works", "waits"):
        assert {Decided, Finished} <= set(kinds)
        assert run.writes == len(run.entries), "each written once"
    for entry in finished:
        assert entry.ran == bool(run.ran) or (entry.ran and late)
        assert entry.call.id == "call_1"
    if run.world.permission in ("deny", "absent") or run.world.given in ("bad", "flawed"):
        assert run.ran == []
        assert run.asked == []


def check_the_words(run: Run) -> None:
    """What guards and the human said is on record: each word once, between the decision and the start, and a body runs
    after a question only where a yes is there.
    """
    words = [entry for entry in run.entries if isinstance(entry, (Judged, Answered))]
    at = [run.entries.index(word) for word in words]
    kinds = [type(entry) for entry in run.entries]
    assert at == list(range(1, 1 + len(at)))
    answers = [word.yes for word in words if isinstance(word, Answered)]
    judged = [word.decision for word in words if isinstance(word, Judged)]
    asked = run.world.permission == "ask" or "ask" in judged
    if Started in kinds:
        assert answers == ([True] if asked else [])
        assert "deny" not in judged
    spoken = [guard for guard in run.world.guards if guard.says in WORDS or not guard.optional]
    spoken = [guard for guard in spoken if guard.says not in ("nothing", "thread")]
    said = {"ask": "ask", "rewrite": "rewrite"}
    assert judged == [said.get(guard.says, "deny") for guard in spoken][: len(judged)]


def check_the_outcome(run: Run, came: Came, result: Result | None) -> None:
    """Nobody cancelled it: a Result came back that says what the oracle says."""
    assert isinstance(result, Result), "a call that nobody cancelled came back as cancelled"
    assert bool(run.ran) == came.runs or run.world.body == "slow thread"
    details = result.details if isinstance(result.details, Mapping) else {}
    code = str(details.get("code", "")) if result.status == "error" else ""
    assert code in came.codes
    if came.codes != {""} and result.status == "error":
        assert (details["status"], details["tool"]) == ("error", "probe")
        assert isinstance(details["error"], str)
        assert "private" not in details["error"]
    for entry in run.entries:
        if isinstance(entry, Finished):
            assert (entry.status, entry.code, entry.error) == (result.status, code, details.get("error", ""))
    if run.world.body == "slow thread" and run.ran:
        assert run.thread_ended.wait(60), "the thread was never told to stop"


def check_the_end(run: Run, result: Result | None) -> None:
    """It was cancelled: the cancellation went on, and there is one outcome that says so."""
    assert result is None, "the cancellation was lost"
    finished = [entry for entry in run.entries if isinstance(entry, Finished)]
    if run.world.record not in ("fails on the outcome", "fails"):
        assert len(finished) == 1
    if run.stopped[0] != "last entry":
        assert all(entry.status == "cancelled" for entry in finished)


EVERY_DAY = settings(max_examples=200, deadline=None, derandomize=True, database=None)
CAMPAIGN = settings(EVERY_DAY, max_examples=20_000, derandomize=False, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """What fails here fails on purpose, and tens of thousands of tracebacks take more room than there is."""
    log = logging.getLogger("toolcrib")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    yield
    log.setLevel(before)


@EVERY_DAY
@given(WORLDS)
@example(World(record="waits", cancelled="first entry"))
@example(World(record="waits", cancelled="last entry"))
@example(World(record="waits", cancelled="twice"))
@example(World(record="waits", cancelled="start"))
@example(World(record="works", cancelled="start"))
@example(World(record="fails on the start"))
@example(World(record="fails on a word", permission="ask", answer="yes"))
@example(World(record="fails on a word", guards=(Guarding("block"),)))
@example(World(record="waits", cancelled="word", guards=(Guarding("ask"),), answer="yes"))
@example(World(record="fails on the outcome", cancelled="body"))
@example(World(permission="ask", answer="not a bool"))
@example(World(guards=(Guarding("garbage"),)))
@example(World(guards=(Guarding("give up", optional=True),)))
@example(World(body="give up", observers=("give up", "exit")))
def test_no_world_runs_a_body_unpermitted_or_loses_an_entry(world: World) -> None:
    check(world)


@pytest.mark.full
@pytest.mark.timeout(3600)
@CAMPAIGN
@given(WORLDS)
def test_no_world_of_twenty_thousand_does(world: World) -> None:
    check(world)


# Several calls of one reply


async def made_together(runs: list[Run], *, exclusive: bool) -> list[Result] | None:
    worlds = [run.world for run in runs]
    shared = replace(worlds[0], guards=(), observers=())
    tools = {f"probe_{at}": replace(run.tool(), name=f"probe_{at}", exclusive=exclusive) for at, run in enumerate(runs)}
    verdicts = {
        name: Verdict(name, "deny" if world.permission == "absent" else world.permission, None, None, None, "", None)
        for name, world in zip(tools, worlds, strict=True)
    }
    belt = Selection(tools=tools, verdicts=verdicts, steps=lambda name: ())
    record = Run(shared)
    for run in runs:
        run.entries = record.entries
    ctxs = [ctx_of(world, id=f"call_{at}", name=f"probe_{at}") for at, world in enumerate(worlds)]
    task = asyncio.create_task(
        invoke_all(belt, ctxs, CallPipeline(record=record, approver=Run(replace(shared, answer="yes"))))
    )
    for run in runs:
        run.task = task  # type: ignore[assignment]  # cancelled in one go
    try:
        return await task
    except asyncio.CancelledError:
        return None


REPLIES = st.lists(
    st.builds(
        World,
        permission=st.sampled_from(get_args(Permission)),
        given=st.sampled_from(get_args(Given)),
        body=st.sampled_from(get_args(Doing)),
        record=st.sampled_from(["works", "waits"]),
        cancelled=st.sampled_from(["nowhere", "nowhere", "nowhere", "body"]),
    ),
    min_size=1,
    max_size=5,
)


def of_call(id: str, entries: list[RecordEntry]) -> list[Decided | Started | Finished]:
    return [each for each in entries if isinstance(each, (Decided, Started, Finished)) and each.call.id == id]


def check_reply(worlds: list[World], *, exclusive: bool) -> None:
    runs = [Run(world) for world in worlds]
    results = asyncio.run(made_together(runs, exclusive=exclusive))
    assert (results is None) == any(run.stopped for run in runs)
    assert results is None or len(results) == len(worlds)
    for at, run in enumerate(runs):
        mine = of_call(f"call_{at}", run.entries)
        kinds = [type(entry) for entry in mine]
        # a call that was still in line when the reply was cancelled was never judged
        assert kinds in ([Decided, Finished], [Decided, Started, Finished]) or (
            kinds in ([], [Finished]) and results is None and not run.ran
        )
        assert (Started in kinds) >= bool(run.ran)
        permitted = run.world.permission in ("allow", "ask") and run.world.given in ("good", "coerced")
        assert len(run.ran) <= permitted
        assert results is None or len(run.ran) == permitted or run.world.body == "slow thread"
        for entry in mine:
            if isinstance(entry, Finished):
                assert entry.ran == bool(run.ran) or (entry.ran and run.world.body in THREADS)
                assert results is None or entry.status == results[at].status
        for on_record in run.ran:
            before = [type(entry) for entry in of_call(f"call_{at}", on_record)]
            assert before[:2] == [Decided, Started]


@EVERY_DAY
@given(REPLIES, st.booleans())
def test_every_call_of_a_reply_is_on_record_once(worlds: list[World], exclusive: bool) -> None:
    check_reply(worlds, exclusive=exclusive)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(CAMPAIGN, max_examples=5_000)
@given(REPLIES, st.booleans())
def test_every_call_of_five_thousand_replies_is(worlds: list[World], exclusive: bool) -> None:
    check_reply(worlds, exclusive=exclusive)
