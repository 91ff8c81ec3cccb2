"""The journal: what is handed in before what, who waits for what, and what happens when it cannot be kept."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from toolcrib.agent.hooks import bind_guards
from toolcrib.agent.session_log import Journal
from toolcrib.backends.stores.memory import MemoryRecord, MemorySessions
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import ToolFinished, ToolStarted
from toolcrib.define.log import Began, Ended, Line, Said, SessionHead
from toolcrib.define.message import Call
from toolcrib.define.plugin import Ask
from toolcrib.define.record import Finished, RecordEntry, Started
from toolcrib.testing import FakeApprover
from toolcrib.testing.models import ScriptedModel, call_reply, text_reply

from .loop_worlds import KEY, Cues, World, call, check_pairs, user

pytestmark = pytest.mark.anyio


class Hand(MemorySessions):
    """A store and a record in one, where every write is on the disk when a test says so."""

    def __init__(self, *, waits: bool = True) -> None:
        super().__init__()
        self.waits = waits
        self.handed: list[str] = []
        self.waiting: list[asyncio.Future[None]] = []

    def append(self, key: str, lines: Sequence[Line], /, *, at: int) -> Awaitable[None] | None:  # type: ignore[override]  # the port's own promise
        super().append(key, lines, at=at)
        for line in lines:
            match line.body:
                case Said(message=message):
                    self.handed.append(f"said {message.role}")
                case body:
                    self.handed.append(type(body).__name__)
        return self._future()

    def write(self, entry: RecordEntry, /) -> Awaitable[None] | None:
        self.handed.append(type(entry).__name__)
        return self._future()

    def _future(self) -> Awaitable[None] | None:
        if not self.waits:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return future

    def sync(self) -> None:
        """Put all that was handed in on the disk."""
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            future.set_result(None)


async def settle() -> None:
    """Let everybody do what they can without the disk."""
    for _ in range(50):
        await asyncio.sleep(0)


def world_of(hand: Hand, *calls: Call, cues: Cues) -> World:
    return World(ScriptedModel([call_reply(*calls), text_reply("done")]), (cues.tool(),), store=hand, record=hand)


async def test_the_reply_the_decision_and_the_start_are_handed_in_and_on_the_disk_before_the_body_runs() -> None:
    hand, cues = Hand(), Cues()
    world = world_of(hand, call("a", "wait"), cues=cues)
    await world.begin()
    await settle()
    assert hand.handed == ["said user", "said assistant", "Decided", "Began", "Started"]
    assert cues.happened == []
    for future in hand.waiting[:-1]:  # all but the last of them is not enough
        future.set_result(None)
    await settle()
    assert cues.happened == []
    hand.waiting.pop().set_result(None)
    hand.waiting.clear()
    await cues.came("a")
    world.task.cancel()
    await settle()
    hand.sync()
    await world.stopped()


async def test_the_outcome_and_the_answer_are_on_the_disk_before_anybody_is_told() -> None:
    hand, cues = Hand(), Cues()
    world = world_of(hand, call("a", "wait"), cues=cues)
    await world.begin()
    await settle()
    hand.sync()
    cues.give("a")
    await settle()
    # the model is asked meanwhile, and what it says waits its turn
    assert hand.handed[-4:] == ["Finished", "said tool", "said assistant", "Ended"]
    assert isinstance(world.events[-1], ToolStarted)
    hand.waiting.pop().set_result(None)
    await settle()
    assert not any(isinstance(event, ToolFinished) for event in world.events)
    hand.sync()
    await settle()
    told = [type(event).__name__ for event in world.events]
    assert told[told.index("ToolFinished") :] == ["ToolFinished", "TextDelta", "Replied", "TurnFinished"]
    assert (await world.task).reason == "done"
    await world.check_whole()


async def test_of_two_calls_side_by_side_each_body_waits_for_its_own_start() -> None:
    hand, cues = Hand(), Cues()
    world = world_of(hand, call("a", "wait"), call("b", "wait"), cues=cues)
    await world.begin()
    await settle()
    assert hand.handed[2:] == ["Decided", "Began", "Started"] * 2
    assert cues.happened == []
    first, hand.waiting = hand.waiting[:5], hand.waiting[5:]
    for future in first:  # the reply and what is about the first call
        future.set_result(None)
    await settle()
    assert cues.happened == ["a in"]
    hand.sync()
    await cues.came("b")
    cues.give("a")
    cues.give("b")
    while not world.task.done():
        hand.sync()
        await settle()
    assert (await world.task).reason == "done"
    await world.check_whole()


async def test_nobody_is_asked_about_a_call_before_the_reply_that_made_it_is_on_the_disk() -> None:
    async def ask(ctx: Ctx, args: Mapping[str, Any]) -> Ask:
        return Ask("may it?")

    hand, cues, approver = Hand(), Cues(), FakeApprover([False])
    world = world_of(hand, call("a", "wait"), cues=cues)
    world.window = {"guards": bind_guards([ask]), "approver": approver}
    await world.begin()
    await settle()
    assert (hand.handed[:2], approver.asked) == (["said user", "said assistant"], [])
    hand.sync()
    await settle()
    assert [asked.id for _, asked, _ in approver.asked] == ["a"]
    while not world.task.done():
        hand.sync()
        await settle()
    assert cues.happened == []
    await world.check_whole()


async def test_two_who_wait_at_once_wait_for_all_that_was_taken_before_either_of_them() -> None:
    hand = Hand()
    await hand.make(SessionHead(key=KEY, made_at=1, changed_at=1))
    journal = Journal(hand, hand, KEY)
    journal.add(Said(user()))
    first, second = asyncio.ensure_future(journal.flush()), asyncio.ensure_future(journal.flush())
    await settle()
    assert not first.done()
    assert not second.done()
    assert not journal.is_settled
    hand.sync()
    await asyncio.gather(first, second)
    assert journal.is_settled


async def test_a_store_that_waits_for_nothing_costs_no_wait() -> None:
    hand = Hand(waits=False)
    await hand.make(SessionHead(key=KEY, made_at=1, changed_at=1))
    journal = Journal(hand, hand, KEY)
    journal.add(Said(user()))
    assert journal.write(Started(call("a"), "echo")) is None
    assert journal.is_settled
    assert hand.handed == ["said user", "Began", "Started"]


async def test_lines_stand_behind_one_another_with_ids_of_their_own() -> None:
    store = MemorySessions()
    await store.make(SessionHead(key=KEY, made_at=1, changed_at=1))
    first = Journal(MemoryRecord(), store, KEY, now=lambda: 7.0)
    first.add(Said(user("one")))
    first.add(Said(user("two")))
    second = Journal(MemoryRecord(), store, KEY, path=first.path[:1], count=first.count, now=lambda: 8.0)
    second.add(Said(user("another two")))
    lines = await store.lines(KEY)
    assert [line.parent for line in lines] == [None, lines[0].id, lines[0].id]
    assert len({line.id for line in lines}) == 3
    assert [line.at for line in lines] == [7.0, 7.0, 8.0]
    assert second.path == [lines[0], lines[2]]
    await second.flush()


async def test_without_a_store_only_the_record_is_kept() -> None:
    record = MemoryRecord()
    journal = Journal(record)
    journal.add(Said(user()))
    journal.write(Started(call("a"), "echo"))
    assert list(record.entries) == [Started(call("a"), "echo")]
    assert journal.path == []


class Full(MemorySessions):
    """A store and a record in one, whose disk is full from the n-th write on."""

    def __init__(self, room: int, fail: Callable[[], Exception], *, now: bool) -> None:
        super().__init__()
        self.room, self.fail, self.now = room, fail, now
        self.record = MemoryRecord()

    def append(self, key: str, lines: Sequence[Line], /, *, at: int) -> Awaitable[None] | None:  # type: ignore[override]  # the port's own promise
        return self._taken(lambda: super(Full, self).append(key, lines, at=at))

    def write(self, entry: RecordEntry, /) -> Awaitable[None] | None:
        return self._taken(lambda: self.record.write(entry))

    def _taken(self, keep: Callable[[], None]) -> Awaitable[None] | None:
        self.room -= 1
        if self.room >= 0:
            keep()
            return None if self.now else asyncio.sleep(0)
        if self.now:
            raise self.fail()
        return self._late()

    async def _late(self) -> None:
        await asyncio.sleep(0)
        raise self.fail()


def no_room() -> Exception:
    return ToolError("the disk is full; make room", code="full")


def no_space() -> Exception:
    return OSError(28, "No space left on device")


@pytest.mark.parametrize("now", [True, False])
@pytest.mark.parametrize("fail", [no_room, no_space])
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("room", range(20))
async def test_a_full_disk_ends_the_turn_wherever_it_is_met(
    room: int, calls: int, fail: Callable[[], Exception], now: bool
) -> None:
    disk, cues = Full(room, fail, now=now), Cues()
    wish = [call(id, "wait") for id in "ab"[:calls]]
    world = World(ScriptedModel([call_reply(*wish), text_reply("done")]), (cues.tool(),), store=disk, record=disk)
    for each in wish:
        cues.give(each.id)
    end = await world.run()
    check_pairs(world.history)
    kept = await disk.lines(KEY)
    began = [line.body.call.args["word"] for line in kept if isinstance(line.body, Began)]
    started = [entry.call.args["word"] for entry in disk.record.entries if isinstance(entry, Started)]
    ran = [word.removesuffix(" in") for word in cues.happened if word.endswith(" in")]
    # no body ran whose start was not kept
    assert set(ran) <= set(began)
    assert set(ran) <= set(started)
    # nobody was told an outcome that was not kept
    answered = {line.body.message.call_id for line in kept if isinstance(line.body, Said) and line.body.message.call_id}
    told = {event.call.id for event in world.events if isinstance(event, ToolFinished) and event.result.status == "ok"}
    assert told <= answered
    is_kept = any(isinstance(line.body, Ended) for line in kept)
    finished = sum(isinstance(entry, Finished) for entry in disk.record.entries) == calls
    if is_kept and finished:
        assert end.reason == "done"
    else:
        assert (end.reason in ("error", "done"), bool(end.sentence)) == (True, end.reason == "error")
        if not is_kept:
            assert end.reason == "error"
            assert "full" in end.sentence or "No space" in end.sentence or "could not" in end.sentence
