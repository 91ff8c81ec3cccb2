"""Whatever happens in whatever order: no yes is spent twice, and none is spent that the right person did not give."""

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory_stores import MemoryApprovals
from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.approval import ApprovalStore, Question
from toolcrib.define.errors import ToolError
from toolcrib.services.approvals import Approvals

from .approval_world import BOB, CALL, EVE, OWNER, Clock, approvals_over

ANSWERS = [(OWNER, "once"), (BOB, "once"), (EVE, "once"), (OWNER, "no"), (EVE, "no")]
CALLS = [CALL, CALL._replace(args={"path": "b.txt", "content": "x"})]

asks = st.tuples(st.just("ask"), st.integers(0, 1), st.integers(0, 1))
answers = st.tuples(st.just("answer"), st.integers(0, 3), st.integers(0, 2), st.sampled_from(ANSWERS))
ticks = st.tuples(st.just("tick"), st.sampled_from([1, 150, 299, 301]))
ends = st.tuples(st.sampled_from(["cancel", "restart"]), st.integers(0, 3))
# two processes that wait for one question, answered in a third, both look at the same moment
RACE = [("ask", 0, 0), ("ask", 0, 1), ("answer", 0, 2, (OWNER, "once")), ("tick", 1)]
some = st.lists(asks | asks | answers | answers | ticks | ends, min_size=1, max_size=5)
steps = st.lists(some | st.just(RACE), max_size=6).map(lambda parts: [step for part in parts for step in part])


class Mortal:
    """A store as one process sees it: slow at random moments, and gone when the process is."""

    def __init__(self, store: ApprovalStore, delays: Sequence[int]) -> None:
        self._store, self._delays, self.is_gone = store, cycle(delays or [0]), False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def step(*args: Any, **named: Any) -> Any:
            await self._wait()
            value = await getattr(self._store, name)(*args, **named)
            await self._wait()
            return value

        return step

    async def _wait(self) -> None:
        for _ in range(next(self._delays)):
            await asyncio.sleep(0)
        if self.is_gone:
            raise ToolError("this process is gone")


class World:
    """Two processes that ask and a third that only answers, over one store; killed ones are started again."""

    def __init__(self, store: ApprovalStore, delays: Sequence[int]) -> None:
        self.store, self.delays, self.clock = store, delays, Clock()
        self.heard: list[Question] = []
        self.tasks: list[tuple[int, asyncio.Task[bool]]] = []
        self.processes: dict[int, tuple[Mortal, Approvals, set[asyncio.Task[bool]]]] = {}
        self.given, self.spent = Counter[int](), Counter[int]()
        for process in range(3):
            self.start(process)

    def start(self, process: int) -> None:
        mortal = Mortal(self.store, self.delays)
        approvals = approvals_over(mortal, self.clock)
        approvals.on_question(self.heard.append)
        self.processes[process] = mortal, approvals, set()

    async def take(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("ask", which, process):
                _, approvals, own = self.processes[process]
                task = asyncio.create_task(approvals.approve(BOB, CALLS[which], "why", {}))
                self.tasks.append((which, task))
                own.add(task)
            case ("answer", at, process, (who, answer)):
                await self.answer(self.processes[process][1], at, who, answer)
            case ("tick", seconds):
                self.clock.pass_(seconds)
            case ("cancel", at):
                if self.tasks:
                    self.tasks[at % len(self.tasks)][1].cancel()
            case ("restart", at):
                mortal, _, own = self.processes[at % 2]
                mortal.is_gone = True
                for task in own:
                    task.cancel()
                self.start(at % 2)
        for _ in range(40):
            await asyncio.sleep(0)
        self.look()

    async def answer(self, approvals: Approvals, at: int, who: Any, answer: Any) -> None:
        asked = list({each.id: each for each in self.heard}.values())
        if not asked:
            return
        question = asked[-1 - at % len(asked)]
        is_late = self.clock.time >= question.expires_at
        try:
            await approvals.answer(who, question.id, answer)
        except ToolError:
            return
        assert who is OWNER
        assert not is_late
        if answer == "once":
            self.given[CALLS.index(next(call for call in CALLS if call.args["path"] in question.shown))] += 1

    def look(self) -> None:
        self.spent = Counter(
            which
            for which, task in self.tasks
            if task.done() and not task.cancelled() and task.exception() is None and task.result()
        )
        for which, count in self.spent.items():
            assert count <= self.given[which], "a yes was spent that nobody gave, or twice"
        for _, task in self.tasks:
            if task.done() and not task.cancelled():
                assert isinstance(task.exception(), (ToolError, type(None)))

    async def end(self) -> None:
        """Let all time pass: whoever still waits gets an answer."""
        for _ in range(4):
            await self.take(("tick", 1_000))
        for _, task in self.tasks:
            assert task.done()


async def lived(store: ApprovalStore, delays: Sequence[int], program: Sequence[tuple[Any, ...]]) -> World:
    world = World(store, delays)
    for step in program:
        await world.take(step)
    await world.end()
    return world


async def here(function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    return function(*args, **named)


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Any:
    """A process that is gone says so for every question it cannot take back."""
    logging.getLogger("toolcrib").disabled = True
    yield
    logging.getLogger("toolcrib").disabled = False


@settings(max_examples=200)
@given(st.lists(st.integers(0, 3), max_size=7), steps)
def test_in_memory_no_yes_is_spent_twice(delays: list[int], program: list[tuple[Any, ...]]) -> None:
    asyncio.run(lived(MemoryApprovals(), delays, program))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 3), max_size=7), steps)
def test_in_a_file_no_yes_is_spent_twice(delays: list[int], program: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = SqliteFile(Path(folder) / "crib.db")
        asyncio.run(lived(SqliteApprovals(file, run=here), delays, program))
        file.close()


@pytest.mark.full
@pytest.mark.timeout(900)
@settings(max_examples=5_000)
@given(st.lists(st.integers(0, 3), max_size=7), steps)
def test_in_many_orders_no_yes_is_spent_twice(delays: list[int], program: list[tuple[Any, ...]]) -> None:
    asyncio.run(lived(MemoryApprovals(), delays, program))


@pytest.mark.parametrize("delays", [[0], [1], [2], [0, 1], [3]])
def test_of_two_processes_that_see_one_yes_one_spends_it(delays: list[int]) -> None:
    world = asyncio.run(lived(MemoryApprovals(), delays, RACE))
    assert (world.given, world.spent) == ({0: 1}, {0: 1})


def test_the_worlds_above_do_spend() -> None:
    program = [
        ("ask", 0, 0), ("answer", 0, 0, (OWNER, "once")), ("ask", 1, 1), ("restart", 1),
        ("answer", 0, 2, (OWNER, "once")), ("ask", 1, 0), ("ask", 1, 1), ("answer", 0, 1, (BOB, "once")),
    ]  # fmt: skip
    world = asyncio.run(lived(MemoryApprovals(), [1], program))
    assert (world.given, world.spent) == ({0: 1, 1: 1}, {0: 1, 1: 1})
