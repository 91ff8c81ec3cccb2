"""The service of background subagents: places, what a log tells of a run, and ends that cannot be told."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib.backends.stores.memory_sessions import MemorySessions
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import TurnFinished, Usage
from toolcrib.define.log import Body, Ended, Line, Noted, Said, SessionHead
from toolcrib.define.mandate import OUTCOME, WORKING
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.services.subagents import STOPPED, Errand, Places, Run, Spawned, Subagents, Ways

pytestmark = pytest.mark.anyio

MAIN = "agent:main:main"
CHILD = "agent:main:subagent:1"
OWNER = Caller(session=MAIN)


class FakeRun:
    """A turn that ends when it is told to."""

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self._end: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()

    def ends(self, end: TurnFinished | Exception) -> None:
        if isinstance(end, Exception):
            self._end.set_exception(end)
        else:
            self._end.set_result(end)

    async def end(self) -> TurnFinished:
        return await self._end

    def steer(self, message: Message, /) -> None:
        self.heard.append(message)

    def stop(self) -> None:
        if not self._end.done():  # as a task that is done takes no word any more
            self.ends(TurnFinished("stopped"))


class World:
    """The service over a store in memory, with turns that a test ends."""

    def __init__(self, **ways: Any) -> None:
        self.store, self.runs, self.told = MemorySessions(), list[FakeRun](), list[tuple[str, Spawned]]()
        self.noted: list[tuple[str, Body]] = []
        self.places = Places()
        given: dict[str, Any] = {
            "start": self._start,
            "words": lambda caller, text: Message(role="user", content=(Text(text),)),
            "announce": self._announce,
            "note": self._note,
            "agents": {"main": ""},
            "allowed": lambda agent: (),
            "tools": lambda caller: {},
            "is_tool": lambda agent: False,
            "model": lambda word: None,
            "most": lambda caller: 2,
            "root": lambda caller: caller.session or "",
            "is_owner": lambda caller: True,
            "is_enabled": lambda caller: True,
        }
        self.service = Subagents(self.store, Ways(**{**given, **ways}), self.places, now=lambda: 1_000.0)

    async def _start(self, caller: Caller, errand: Errand) -> Run:
        await self.store.make(SessionHead(key=errand.key, made_at=900.0, changed_at=900.0, parents=(MAIN,)))
        await asyncio.sleep(0)  # others may come in between
        self.runs.append(FakeRun())
        return self.runs[-1]

    async def _announce(self, parent: str, spawned: Spawned) -> None:
        self.told.append((parent, spawned))

    async def _note(self, key: str, body: Body) -> None:
        self.noted.append((key, body))

    async def kept(self, *bodies: Body) -> list[dict[str, Any]]:
        """Put a session of a child into the store, and list it."""
        head = SessionHead(key=CHILD, made_at=900.0, changed_at=900.0, parents=(MAIN,), title="sheep")
        lines = [Line(f"l{at}", f"l{at - 1}" if at else None, 990.0, body) for at, body in enumerate(bodies)]
        await self.store.add(head, lines)
        return await self.service.listed(OWNER)


def message(role: Any, text: str) -> Said:
    return Said(Message(role=role, content=(Text(text),)))


def ended(reason: Any) -> Ended:
    return Ended(reason, "", Usage(), 0.0)


def working() -> Noted:
    return Noted(WORKING, {"agent": "counter", "inputs": {}})


def outcome(end: str, text: str) -> Noted:
    return Noted(OUTCOME, {"reason": "any", "why": "why", "end": end, "text": text})


async def settled(world: World) -> None:
    await asyncio.wait_for(world.service.idle(), 60)


@pytest.mark.parametrize(
    ("bodies", "state", "text"),
    [
        ([message("user", "go")], "interrupted", ""),
        ([message("user", "go"), message("assistant", "on my way")], "interrupted", "on my way"),
        ([message("user", "go"), message("assistant", "done"), ended("done")], "done", "done"),
        ([message("user", "go"), ended("stopped")], "interrupted", ""),
        ([message("user", "go"), ended("stopped"), Noted(STOPPED, True)], "stopped", ""),
        ([message("user", "go"), ended("timeout")], "timeout", ""),
        # the loops of an agent's run end before the run does: what it comes to is not known before it is noted
        ([message("user", "go"), working(), message("assistant", "hm"), ended("done")], "interrupted", "hm"),
        ([message("user", "go"), working(), ended("turns"), message("user", "last")], "interrupted", ""),
        ([message("user", "go"), working(), ended("stopped"), Noted(STOPPED, True)], "stopped", ""),
        ([message("user", "go"), working(), ended("turns"), ended("done"), outcome("done", "forty")], "done", "forty"),
        ([message("user", "go"), working(), ended("done"), outcome("no_completion", "")], "no_completion", "why"),
        (
            [message("user", "go"), working(), ended("done"), outcome("done", "40"), message("user", "and?")],
            "interrupted",
            "",
        ),
        (
            [message("user", "go"), ended("stopped"), Noted(STOPPED, True), message("user", "again")],
            "interrupted",
            "",
        ),
        (
            [message("user", "go"), ended("stopped"), Noted(STOPPED, True), message("user", "again"), ended("stopped")],
            "interrupted",
            "",
        ),
    ],
)
async def test_a_log_tells_how_its_run_stands(bodies: Sequence[Body], state: str, text: str) -> None:
    (row,) = await World().kept(*bodies)
    assert (row["state"], row["text"], row["label"], row["runId"]) == (state, text, "sheep", "1")


async def test_a_run_holds_a_place_until_it_has_ended_however_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.service.spawn(OWNER, "one")
    await world.service.spawn(OWNER, "two")
    with pytest.raises(ToolError, match="2 subagents run already") as refused:
        await world.service.spawn(OWNER, "three")
    assert refused.value.code == "busy"
    with caplog.at_level(logging.CRITICAL, "toolcrib"):
        world.runs[0].ends(RuntimeError("a secret"))
        world.runs[1].ends(TurnFinished("done", "fine"))
        await settled(world)
    assert sorted((parent, spawned.end.reason) for parent, spawned in world.told) == [(MAIN, "done"), (MAIN, "error")]
    assert not any("a secret" in spawned.end.sentence for _, spawned in world.told)
    await world.service.spawn(OWNER, "three")


async def test_what_cannot_be_started_gives_its_place_back() -> None:
    async def refuse(caller: Caller, errand: Errand) -> Run:
        raise CribError("no such model")

    world = World(start=refuse)
    for _ in range(3):
        with pytest.raises(ToolError, match="no such model"):
            await world.service.spawn(OWNER, "go")
    assert await world.service.listed(OWNER) == []


async def test_an_outcome_that_cannot_be_told_takes_nobody_along(caplog: pytest.LogCaptureFixture) -> None:
    async def full(parent: str, spawned: Spawned) -> None:
        raise ToolError("the disk is full")

    world = World(announce=full)
    await world.service.spawn(OWNER, "go")
    world.runs[0].ends(TurnFinished("done", "fine"))
    await settled(world)
    (row,) = await world.service.listed(OWNER)
    assert row["state"] == "done"
    assert "could not be told" in caplog.text


async def test_one_that_is_stopped_is_noted_as_such_and_not_announced() -> None:
    world = World()
    started = await world.service.spawn(OWNER, "go", label="sheep")
    stopped = await world.service.stop(OWNER, "sheep")
    assert stopped == {"status": "stopped", "stopped": [started["childSessionKey"]]}
    assert (world.told, world.noted) == ([], [(started["childSessionKey"], Noted(STOPPED, True))])
    again = await world.service.stop(OWNER, "sheep")
    assert again["status"] == "ended"


async def test_one_that_was_done_before_it_could_be_stopped_is_announced_and_not_called_stopped() -> None:
    world = World()
    await world.service.spawn(OWNER, "go", label="sheep")
    world.runs[0].ends(TurnFinished("done", "forty"))
    assert await world.service.stop(OWNER, "sheep") == {"status": "ended", "stopped": []}
    await settled(world)
    assert ([spawned.end.text for _, spawned in world.told], world.noted) == (["forty"], [])


class SlowRun(FakeRun):
    """A turn that takes its time to stop."""

    def stop(self) -> None:
        pass


async def test_whoever_stops_one_while_all_is_closed_does_not_wait_for_ever() -> None:
    async def start(caller: Caller, errand: Errand) -> Run:
        return SlowRun()

    world = World(start=start)
    await world.service.spawn(OWNER, "go", label="sheep")
    stopping = asyncio.ensure_future(world.service.stop(OWNER, "sheep"))
    await asyncio.sleep(0)
    await world.service.close()
    await asyncio.wait_for(stopping, 60)


async def test_two_who_speak_to_one_that_has_ended_start_it_once() -> None:
    world = World()
    await world.service.spawn(OWNER, "go", label="sheep")
    world.runs[0].ends(TurnFinished("done", "forty"))
    await settled(world)
    said = await asyncio.gather(*(world.service.steer(OWNER, "sheep", each) for each in ("and goats?", "and cows?")))
    assert [each["status"] for each in said] == ["resumed", "steered"]
    assert [len(run.heard) for run in world.runs] == [0, 1]
    assert len((await world.service.stop(OWNER, "all"))["stopped"]) == 1


@pytest.mark.parametrize("cleanup", ["delete", "keep"])
async def test_one_whose_session_was_deleted_does_not_go_on(cleanup: Any) -> None:
    world = World()
    started = await world.service.spawn(OWNER, "go", label="sheep", cleanup=cleanup)
    world.runs[0].ends(TurnFinished("done", "forty"))
    await settled(world)
    await world.store.delete(started["childSessionKey"])  # by somebody else, where it is kept
    with pytest.raises(ToolError, match="its session was deleted"):
        await world.service.steer(OWNER, "sheep", "and goats?")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"allowed": ()}, "main may not start 'clerk'"), ({"is_enabled": False}, "tools.subagents.enabled is false")],
)
async def test_one_that_has_ended_goes_on_only_where_it_could_be_started(change: dict[str, Any], words: str) -> None:
    now: dict[str, Any] = {"allowed": ("clerk",), "is_enabled": True}
    world = World(
        agents={"main": "", "clerk": ""},
        allowed=lambda agent: now["allowed"],
        is_enabled=lambda caller: now["is_enabled"],
    )
    await world.service.spawn(OWNER, "go", label="sheep", agent="clerk")
    world.runs[0].ends(TurnFinished("done", "forty"))
    await settled(world)
    now |= change
    with pytest.raises(ToolError, match=words):
        await world.service.steer(OWNER, "sheep", "and goats?")


async def test_closing_tells_nothing_and_leaves_no_task_behind() -> None:
    world, before = World(), asyncio.all_tasks()
    await world.service.spawn(OWNER, "go")
    assert asyncio.all_tasks() > before
    await world.service.close()
    assert world.told == []
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    ("ways", "caller", "words"),
    [
        ({}, Caller(session=CHILD, parents=(MAIN,)), "a subagent starts no others"),
        ({"is_enabled": lambda caller: False}, OWNER, "tools.subagents.enabled is false"),
    ],
)
async def test_who_may_not_start_any_is_refused_here_too(ways: dict[str, Any], caller: Caller, words: str) -> None:
    with pytest.raises(ToolError, match=words) as refused:
        await World(**ways).service.spawn(caller, "go")
    assert refused.value.code == "denied"


async def test_only_the_owner_chooses_a_model() -> None:
    world = World(is_owner=lambda caller: False, model=lambda word: word)
    with pytest.raises(ToolError, match="only the owner"):
        await world.service.spawn(OWNER, "go", model="openai:gpt-5")


async def test_those_who_come_at_once_come_in_one_after_another() -> None:
    places, happened = Places(), list[str]()

    async def come(name: str) -> None:
        await places.come_in()
        happened.append(name)

    async def look() -> None:
        for _ in range(3):
            happened.append("others")
            await asyncio.sleep(0)

    await asyncio.gather(come("a"), come("b"), come("c"), look())
    assert happened == ["a", "others", "b", "others", "c", "others"]
