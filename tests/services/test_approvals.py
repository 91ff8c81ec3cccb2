"""Approvals: exact, shown in full, answered by the right person in time, spent once, lasting only where safe."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.memory_stores import MemoryApprovals
from toolcrib.agent.hooks import bind_guards
from toolcrib.agent.invoke import invoke
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.approval import AskTerms, Question
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.message import Call
from toolcrib.define.plugin import Ask, Rewrite
from toolcrib.define.ports import SCOPES
from toolcrib.define.tool import tool
from toolcrib.define.verdict import Selection, Verdict
from toolcrib.services.approvals import Approvals
from toolcrib.services.router import TOOL_SCOPES, Router
from toolcrib.testing import FakeApprover, fake_ctx

from .approval_world import BOB, CALL, EVE, OWNER, Clock, Door, approvals_over, settled

pytestmark = pytest.mark.anyio

LINE = Call("1", "exec", {"command": "git push origin"})
WORDS = {"argv": '["git","push","origin"]', "dir": "/ws"}


def asking(approvals: Approvals, caller: Caller = BOB, call: Call = CALL, **binding: str) -> "asyncio.Task[bool]":
    return asyncio.create_task(approvals.approve(caller, call, "a human is asked", binding))


async def answered(approvals: Approvals, answer: str, by: Caller = OWNER, call: Call = CALL, **more: Any) -> Any:
    """Ask, answer, and return what came of it."""
    door = Door(approvals)
    asked = asking(approvals, call=call, **more.pop("binding", {}))
    question = await door.question()
    door.detach()
    await Router([approvals]).ask(
        "approvals.answer", {"id": question.id, "answer": answer, **more}, caller=by, scopes=SCOPES
    )
    return await settled(asked)


@pytest.mark.parametrize(("answer", "result"), [("once", True), ("no", False)])
async def test_the_right_person_decides(answer: str, result: bool) -> None:
    assert await answered(approvals_over(), answer, OWNER) is result


@pytest.mark.parametrize(
    "by",
    [BOB, EVE, Caller(channel="slack", sender=BOB.sender), Caller(channel="telegram"), Caller(parents=("main",))],
    ids=["who asked", "a namesake", "the same id elsewhere", "nobody", "an agent of the owner's"],
)
async def test_anybody_else_is_told_there_is_no_such_question(by: Caller) -> None:
    approvals = approvals_over()
    door = Door(approvals)
    asked = asking(approvals)
    question = await door.question()
    ask = Router([approvals]).rpc_for(by, SCOPES)
    assert await ask("approvals.list", {}) == []
    with pytest.raises(ToolError) as refused:
        await ask("approvals.answer", {"id": question.id, "answer": "once"})
    with pytest.raises(ToolError) as unknown:
        await ask("approvals.answer", {"id": "0" * 16, "answer": "once"})
    assert str(refused.value).replace(question.id, "0" * 16) == str(unknown.value)
    assert not asked.done()
    asked.cancel()


async def test_a_model_cannot_say_yes_to_itself() -> None:
    approvals = approvals_over()
    door = Door(approvals)
    asked = asking(approvals)
    question = await door.question()
    own = Router([approvals]).rpc_for(BOB, TOOL_SCOPES)
    for method, params in (("answer", {"id": question.id, "answer": "once"}), ("revoke", {"id": "g"})):
        with pytest.raises(ToolError, match="needs the scope 'approve'"):
            await own(f"approvals.{method}", params)
    asked.cancel()


@pytest.mark.parametrize("cut", [0, 1, 8, 15])
async def test_part_of_an_id_is_no_id(cut: int) -> None:
    approvals = approvals_over()
    door = Door(approvals)
    asked = asking(approvals)
    with pytest.raises(ToolError, match="there is no question"):
        await approvals.answer(OWNER, (await door.question()).id[:cut], "once")
    asked.cancel()


async def test_every_door_is_shown_the_whole_call_escaped() -> None:
    approvals = approvals_over()
    doors = [Door(approvals), Door(approvals)]
    call = Call("1", "write", {"path": "c\u0430t\u202e", "content": "y" * 20_000})
    asked = asking(approvals, call=call, dir="/ws")
    for door in doors:
        shown = (await door.question()).shown
        assert "c\\u0430t\\u202e" in shown
        assert "y" * 20_000 in shown
        assert 'dir: "/ws"' in shown
    listed = await approvals.waiting(OWNER)
    assert [each["shown"] for each in listed] == [shown]
    asked.cancel()


async def test_what_is_too_large_to_show_is_refused() -> None:
    approvals = approvals_over(largest=1_000)
    Door(approvals)
    with pytest.raises(ToolError, match=r"cannot be approved: it takes \d+ characters to show it whole") as refused:
        await approvals.approve(BOB, CALL._replace(args={"path": "x" * 1_000}), "why", {})
    assert refused.value.code == "not_approved"


async def test_a_yes_is_for_this_call_only_and_only_once() -> None:
    approvals = approvals_over()
    assert await answered(approvals, "once") is True
    with pytest.raises(ToolError, match="a human is asked, and there is nobody to ask"):
        await approvals.approve(BOB, CALL, "a human is asked", {})


async def test_two_equal_calls_are_two_questions() -> None:
    approvals = approvals_over()
    door = Door(approvals)
    tasks = [asking(approvals) for _ in range(2)]
    async with asyncio.timeout(60):
        while len(door.heard) < 2:
            await asyncio.sleep(0)
    first, second = door.heard
    await approvals.answer(OWNER, first.id, "once")
    await approvals.answer(OWNER, second.id, "no")
    assert sorted(await asyncio.gather(*tasks)) == [False, True]


async def test_with_nobody_to_ask_the_answer_is_no_at_once() -> None:
    store = MemoryApprovals()
    with pytest.raises(ToolError, match="a human is asked, and there is nobody to ask") as refused:
        await approvals_over(store).approve(BOB, CALL, "a human is asked", {})
    assert refused.value.code == "not_approved"
    assert await store.pending(1_000.0) == ()


async def test_the_configuration_may_say_to_wait_for_another_process() -> None:
    store, clock = MemoryApprovals(), Clock()
    here, elsewhere = approvals_over(store, clock, waits=True), approvals_over(store, clock)
    asked = asking(here)
    async with asyncio.timeout(60):
        while not (waiting := await elsewhere.waiting(OWNER)):
            await asyncio.sleep(0)
    await elsewhere.answer(OWNER, waiting[0]["id"], "once")
    clock.pass_(1)
    assert await settled(asked) is True


async def test_nobody_answers_and_the_late_answer_is_told_so() -> None:
    clock = Clock()
    approvals = approvals_over(clock=clock)
    door = Door(approvals)
    asked = asking(approvals)
    question = await door.question()
    clock.pass_(299)
    await asyncio.sleep(0)
    assert not asked.done()
    clock.pass_(1)
    error = await settled(asked)
    assert (str(error), error.code) == ("nobody answered within 300 seconds whether write may run", "not_approved")
    assert [each.state for each in door.heard] == ["pending", "expired"]
    with pytest.raises(ToolError, match=r"the answer is too late: question \w+ has expired and was refused") as late:
        await approvals.answer(OWNER, question.id, "once")
    assert late.value.code == "expired"


async def test_how_long_a_question_waits_is_what_was_set_or_what_the_door_says() -> None:
    set_to: list[float | None] = [None]
    approvals = approvals_over(timeout=lambda: set_to[0])
    approvals.wait_for(86_400.0)
    assert approvals.seconds == 86_400.0
    set_to[0] = 30.0
    assert approvals.seconds == 30.0


async def test_an_answer_that_comes_second_is_told_so() -> None:
    approvals = approvals_over()
    door = Door(approvals)
    asked = asking(approvals)
    question = await door.question()
    await approvals.answer(OWNER, question.id, "no")
    with pytest.raises(ToolError, match="is settled already: denied by the terminal"):
        await approvals.answer(OWNER, question.id, "once")
    assert await settled(asked) is False


async def test_a_cancelled_call_takes_its_question_back() -> None:
    approvals = approvals_over()
    door = Door(approvals)
    asked = asking(approvals)
    question = await door.question()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [each.state for each in door.heard] == ["pending", "withdrawn"]
    assert await approvals.waiting(OWNER) == []
    with pytest.raises(ToolError, match="is settled already: withdrawn"):
        await approvals.answer(OWNER, question.id, "once")


async def test_a_door_that_fails_keeps_no_other_from_asking(caplog: pytest.LogCaptureFixture) -> None:
    approvals = approvals_over()

    def fail(question: Question) -> None:
        raise RuntimeError("no screen")

    approvals.on_question(fail)
    with caplog.at_level(logging.ERROR, "toolcrib"):
        assert await answered(approvals, "once") is True
    assert "a door failed to show question" in caplog.text


# over a restart


async def killed(store: SqliteApprovals, clock: Clock) -> str:
    """Ask in a process that is gone in the next moment, and leave its question behind."""
    asked = approvals_over(store, clock)._question(BOB, CALL, AskTerms("a human is asked", {}))
    await store.add(asked, most=64)
    return asked.id


async def test_a_question_survives_and_is_asked_again(tmp_path: Path) -> None:
    store, clock = SqliteApprovals(SqliteFile(tmp_path / "crib.db")), Clock()
    id = await killed(store, clock)
    after = approvals_over(SqliteApprovals(SqliteFile(tmp_path / "crib.db")), clock)
    assert [each["id"] for each in await after.waiting(OWNER)] == [id]
    door = Door(after)
    asked = asking(after)
    assert (await door.question()).id == id
    await after.answer(OWNER, id, "once")
    assert await settled(asked) is True


async def test_an_answer_given_while_nothing_ran_is_spent_once(tmp_path: Path) -> None:
    store, clock = SqliteApprovals(SqliteFile(tmp_path / "crib.db")), Clock()
    id = await killed(store, clock)
    await approvals_over(store, clock).answer(OWNER, id, "once")
    after = approvals_over(SqliteApprovals(SqliteFile(tmp_path / "crib.db")), clock)
    other = CALL._replace(args={**CALL.args, "content": "y"})
    results = [await settled(asking(after, call=call)) for call in (other, CALL, CALL)]
    assert [type(results[0]), results[1], type(results[2])] == [ToolError, True, ToolError]


async def test_a_no_given_while_nothing_ran_is_for_that_call_alone(tmp_path: Path) -> None:
    store, clock = SqliteApprovals(SqliteFile(tmp_path / "crib.db")), Clock()
    id = await killed(store, clock)
    await approvals_over(store, clock).answer(OWNER, id, "no")
    after = approvals_over(SqliteApprovals(SqliteFile(tmp_path / "crib.db")), clock)
    assert await settled(asking(after)) is False
    door = Door(after)
    asked = asking(after, call=CALL._replace(key="key_2"))
    assert (await door.question()).id != id
    asked.cancel()


async def test_an_answer_is_not_kept_longer_than_its_question(tmp_path: Path) -> None:
    store, clock = SqliteApprovals(SqliteFile(tmp_path / "crib.db")), Clock()
    id = await killed(store, clock)
    approvals = approvals_over(store, clock)
    await approvals.answer(OWNER, id, "once")
    clock.pass_(300)
    assert isinstance(await settled(asking(approvals)), ToolError)


# for a time


async def test_a_grant_holds_for_exactly_that_call_until_its_time() -> None:
    clock = Clock()
    approvals = approvals_over(clock=clock)
    assert await answered(approvals, "lasting", seconds=600) is True
    same = [await approvals.approve(BOB, CALL, "a human is asked", {}) for _ in range(3)]
    assert same == [True] * 3
    for caller, call, binding in (
        (EVE, CALL, {}),
        (OWNER, CALL, {}),
        (BOB, CALL._replace(args={"path": "b.txt", "content": "x"}), {}),
        (BOB, CALL, {"dir": "/"}),
    ):
        assert isinstance(await settled(approvals.approve(caller, call, "why", binding)), ToolError)
    clock.pass_(600)
    assert isinstance(await settled(asking(approvals)), ToolError)


async def test_a_grant_may_be_for_the_first_words_of_a_command() -> None:
    approvals = approvals_over()
    assert await answered(approvals, "lasting", call=LINE, binding=WORDS, seconds=60, which=2) is True
    listed = await approvals.grants(OWNER)
    assert [each["shown"] for each in listed] == ['every call that begins with ["git", "push"]']
    assert await approvals.grants(BOB) == []

    async def may(line: str, words: str, **change: str) -> bool:
        call = LINE._replace(args={"command": line})
        return await settled(approvals.approve(BOB, call, "why", {**WORDS, "argv": words, **change})) is True

    assert await may("git push fork", '["git","push","fork"]')
    assert not await may("git pull", '["git","pull"]')
    assert not await may("git push fork", '["git","push","fork"]', dir="/")
    assert not await may("git pushy", '["git","pushy"]')


async def test_what_can_run_something_else_gets_no_lasting_yes() -> None:
    approvals = approvals_over()
    door = Door(approvals)
    asked = asking(approvals, call=LINE)
    question = await door.question()
    assert (question.lasting, question.once) == ((), "exec can run something else")
    with pytest.raises(ToolError, match="exec can only be allowed once: exec can run something else"):
        await approvals.answer(OWNER, question.id, "lasting")
    await approvals.answer(OWNER, question.id, "once")
    assert await settled(asked) is True


async def test_a_grant_counts_only_as_long_as_the_call_may_have_one() -> None:
    store, clock = MemoryApprovals(), Clock()
    assert await answered(approvals_over(store, clock), "lasting") is True
    stricter = Approvals(
        store, is_owner=lambda caller: True, can_lend=lambda *_: "it runs", now=clock.now, pause=clock.pause
    )
    assert isinstance(await settled(stricter.approve(BOB, CALL, "why", {})), ToolError)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"seconds": 0}, "a grant lasts 1 to 86400, not 0"),
        ({"seconds": 86_401}, "a grant lasts 1 to 86400, not 86401"),
        ({"which": 1}, "there are 1 choices, counted from 0, not 1"),
        ({"which": -1}, "counted from 0, not -1"),
    ],
)
async def test_a_grant_has_a_stated_time_and_a_known_reach(more: dict[str, Any], complaint: str) -> None:
    approvals = approvals_over()
    door = Door(approvals)
    asked = asking(approvals)
    with pytest.raises(ArgumentError, match=complaint):
        await approvals.answer(OWNER, (await door.question()).id, "lasting", **more)
    assert not asked.done()
    asked.cancel()


async def test_a_grant_is_revoked_by_the_owner() -> None:
    approvals = approvals_over()
    await answered(approvals, "lasting")
    (grant,) = await approvals.grants(OWNER)
    with pytest.raises(ToolError, match="there is no grant"):
        await approvals.revoke(BOB, grant["id"])
    assert await approvals.revoke(OWNER, grant["id"]) == grant
    assert isinstance(await settled(asking(approvals)), ToolError)
    with pytest.raises(ToolError, match="there is no grant"):
        await approvals.revoke(OWNER, grant["id"])


# from a guard to the human


@tool
async def deploy(place: str) -> str:
    """Deploy."""
    return f"deployed to {place}"


def belt() -> Selection:
    verdict = Verdict("deploy", "allow", None, None, None, "passes", None)
    return Selection(tools={"deploy": deploy}, verdicts={"deploy": verdict}, steps=lambda name: ())


async def called(approver: FakeApprover, *words: Any) -> Any:
    def guard(word: Any) -> Any:
        async def say(ctx: Any, args: Any) -> Any:
            return word

        return say

    pipeline = CallPipeline(record=MemoryRecord(), guards=bind_guards(guard(word) for word in words), approver=approver)
    result = await invoke(belt(), fake_ctx("deploy", {"place": "a"}), pipeline)
    return result.details["code"] if result.status == "error" else "ran"


async def test_what_guards_bind_reaches_the_human_together() -> None:
    person = FakeApprover([True])
    assert await called(person, Ask("one", {"dir": "/ws"}), Ask("two"), Ask("three", {"file": "00"})) == "ran"
    assert [reason for _, _, reason in person.asked] == ["one; two; three"]
    assert person.bound == [{"dir": "/ws", "file": "00"}]


async def test_guards_that_bind_one_thing_differently_block() -> None:
    assert await called(FakeApprover(), Ask("one", {"dir": "/ws"}), Ask("two", {"dir": "/"})) == "blocked"


async def test_what_a_question_is_bound_to_is_not_rewritten_behind_it() -> None:
    assert await called(FakeApprover(), Ask("one", {"dir": "/ws"}), Rewrite({"place": "b"})) == "blocked"
    assert await called(FakeApprover([True]), Ask("one"), Rewrite({"place": "b"})) == "ran"
