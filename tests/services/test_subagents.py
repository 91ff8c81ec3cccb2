"""The service of background subagents: places, what a log tells of a run, and ends that cannot be told."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib.backends.stores.memory import MemorySessions
from toolcrib.config.load import load
from toolcrib.define.agent import OUTCOME, WORKING
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import TurnFinished, Usage
from toolcrib.define.log import Body, Ended, Line, Noted, Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.define.turn import TurnHandle
from toolcrib.services.subagents.runs import STOPPED, AgentListing, SpawnRequest, SubagentSlots
from toolcrib.services.subagents.service import Subagents

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
    """The service over a store in memory, in a host whose turns a test ends."""

    def __init__(
        self, start: type[FakeRun] | Exception = FakeRun, tell: Exception | None = None, **subagents: Any
    ) -> None:
        self.store, self.runs, self.told = MemorySessions(), list[FakeRun](), list[tuple[str, Message]]()
        self.noted: list[tuple[str, Body]] = []
        self.agents = {"main": AgentListing(may_start=("clerk",)), "clerk": AgentListing()}
        self._starts, self._fails = start, tell
        self.service = self.serve(**subagents)

    def serve(self, **subagents: Any) -> Subagents:
        """Return the service under a policy on subagents."""
        subagents = {"maxConcurrent": 2, **subagents}
        settings = load({"tools": {"subagents": subagents}}, {})
        return Subagents(self.store, settings, self, SubagentSlots(), now=lambda: 1_000.0)

    def agent_tools(self, caller: Caller, /) -> dict[str, str]:
        return {}

    def is_tool(self, agent: str, /) -> bool:
        return False

    def choose_model(self, caller: Caller, word: str, /) -> str:
        return word

    def message(self, caller: Caller, text: str, /) -> Message:
        return Message(role="user", content=(Text(text),))

    async def start(self, caller: Caller, request: SpawnRequest, /) -> TurnHandle:
        if isinstance(self._starts, Exception):
            raise self._starts
        await self.store.make(SessionHead(key=request.key, made_at=900.0, changed_at=900.0, parents=(MAIN,)))
        await asyncio.sleep(0)  # others may come in between
        self.runs.append(self._starts())
        return self.runs[-1]

    async def tell(self, session: str, message: Message, /) -> None:
        if self._fails is not None:
            raise self._fails
        self.told.append((session, message))

    async def add(self, session: str, body: Body, /) -> None:
        self.noted.append((session, body))

    def reports(self) -> list[str]:
        """Return what was told to the session they worked for."""
        assert all(session == MAIN for session, _ in self.told)
        return ["".join(part.text for part in each.content if isinstance(part, Text)) for _, each in self.told]

    async def kept(self, *bodies: Body) -> list[dict[str, Any]]:
        """Put a session of a child into the store, and list it."""
        head = SessionHead(key=CHILD, made_at=900.0, changed_at=900.0, parents=(MAIN,), title="sheep")
        lines = [Line(f"l{at}", f"l{at - 1}" if at else None, 990.0, body) for at, body in enumerate(bodies)]
        await self.store.add(head, lines)
        return await self.service.list_runs(OWNER)


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
    failed, done = sorted(world.reports(), key=lambda report: " is done. " in report)
    assert "ended without finishing: it failed unexpectedly" in failed
    assert "a secret" not in failed
    assert "is done" in done
    assert "fine" in done
    await world.service.spawn(OWNER, "three")


async def test_what_cannot_be_started_gives_its_place_back() -> None:
    world = World(start=CribError("no such model"))
    for _ in range(3):
        with pytest.raises(ToolError, match="no such model"):
            await world.service.spawn(OWNER, "go")
    assert await world.service.list_runs(OWNER) == []


async def test_an_outcome_that_cannot_be_told_takes_nobody_along(caplog: pytest.LogCaptureFixture) -> None:
    world = World(tell=ToolError("the disk is full"))
    await world.service.spawn(OWNER, "go")
    world.runs[0].ends(TurnFinished("done", "fine"))
    await settled(world)
    (row,) = await world.service.list_runs(OWNER)
    assert row["state"] == "done"
    assert "could not be reported" in caplog.text


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
    (report,) = world.reports()
    assert "forty" in report
    assert world.noted == []


class SlowRun(FakeRun):
    """A turn that takes its time to stop."""

    def stop(self) -> None:
        pass


async def test_whoever_stops_one_while_all_is_closed_does_not_wait_for_ever() -> None:
    world = World(start=SlowRun)
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
    ("may_start", "is_enabled", "words"),
    [((), True, "main may not start 'clerk'"), (("clerk",), False, "tools.subagents.enabled is false")],
)
async def test_one_that_has_ended_goes_on_only_where_it_could_be_started(
    may_start: tuple[str, ...], is_enabled: bool, words: str
) -> None:
    world = World()
    started = await world.service.spawn(OWNER, "go", agent="clerk")
    world.runs[0].ends(TurnFinished("done", "forty"))
    await settled(world)
    world.agents["main"] = AgentListing(may_start=may_start)  # as another configuration says
    with pytest.raises(ToolError, match=words):
        await world.serve(enabled=is_enabled).steer(OWNER, started["runId"], "and goats?")


async def test_closing_tells_nothing_and_leaves_no_task_behind() -> None:
    world, before = World(), asyncio.all_tasks()
    await world.service.spawn(OWNER, "go")
    assert asyncio.all_tasks() > before
    await world.service.close()
    assert world.told == []
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    ("is_enabled", "caller", "words"),
    [
        (True, Caller(session=CHILD, parents=(MAIN,)), "a subagent starts no others"),
        (False, OWNER, "tools.subagents.enabled is false"),
    ],
)
async def test_who_may_not_start_any_is_refused_here_too(is_enabled: bool, caller: Caller, words: str) -> None:
    with pytest.raises(ToolError, match=words) as refused:
        await World(enabled=is_enabled).service.spawn(caller, "go")
    assert refused.value.code == "denied"


async def test_those_who_come_at_once_come_in_one_after_another() -> None:
    slots, happened = SubagentSlots(), list[str]()

    async def come(name: str) -> None:
        await slots.stagger()
        happened.append(name)

    async def look() -> None:
        for _ in range(3):
            happened.append("others")
            await asyncio.sleep(0)

    await asyncio.gather(come("a"), come("b"), come("c"), look())
    assert happened == ["a", "others", "b", "others", "c", "others"]
