"""Progress and stop: what watchers hear of a call, and what a body in a thread can see."""

import asyncio
import threading

import pytest

from toolcrib.agent.invoke import invoke
from toolcrib.agent.line import new_key
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import CallEvent, ToolFinished, ToolProgress, ToolStarted
from toolcrib.define.message import Call
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool, tool
from toolcrib.threads import in_thread

from .test_invoke import belt_of

pytestmark = pytest.mark.anyio


@tool
async def count(ctx: Ctx, to: int) -> str:
    """Count."""
    for number in range(to):
        ctx.progress(Result.text(str(number)))
    return "done"


@tool
def count_beside(ctx: Ctx, to: int) -> str:
    """Count in a thread."""
    for number in range(to):
        ctx.progress(Result.text(str(number)))
    return "done"


def ctx_of(name: str, **args: object) -> Ctx:
    return Ctx(Call(id="1", name=name, args=args), Caller(), CallState())


async def heard(this: Tool, ctx: Ctx) -> list[CallEvent]:
    """Return what a watcher hears of the call."""
    events: list[CallEvent] = []
    await invoke(belt_of(this), ctx, CallPipeline(record=MemoryRecord(), watch=events.append))
    return events


@pytest.mark.parametrize("this", [count, count_beside], ids=lambda this: this.name)
async def test_watchers_hear_a_call_begin_go_on_and_end(this: Tool) -> None:
    ctx = ctx_of(this.name, to=2)
    started, *progress, finished = await heard(this, ctx)
    assert isinstance(started, ToolStarted)
    assert started.verdict is not None
    assert progress == [ToolProgress(ctx.call, Result.text("0")), ToolProgress(ctx.call, Result.text("1"))]
    assert finished == ToolFinished(ctx.call, Result.text("done"))


async def test_watchers_hear_of_a_call_that_does_not_exist() -> None:
    started, finished = await heard(count, ctx_of("nothing"))
    assert started == ToolStarted(Call(id="1", name="nothing"), None)
    assert isinstance(finished, ToolFinished)
    assert finished.result.status == "error"


async def test_watchers_see_a_bounded_part_without_controls() -> None:
    @tool
    async def shout(ctx: Ctx) -> Result:
        """Say much."""
        ctx.progress(Result.text("\x1b[2J" + "x" * 20_000))
        return Result.text("y" * 20_000)

    _, progress, finished = await heard(shout, ctx_of("shout"))
    assert isinstance(progress, ToolProgress)
    assert isinstance(finished, ToolFinished)
    for result in (progress.partial, finished.result):
        words = "".join(part.text for part in result.content if isinstance(part, Text))
        assert len(words) < 8_200
        assert "\x1b" not in words


async def test_progress_after_the_end_is_not_heard() -> None:
    kept: list[Ctx] = []

    @tool
    async def leave(ctx: Ctx) -> str:
        """Keep the context."""
        kept.append(ctx)
        return "done"

    events: list[CallEvent] = []
    await invoke(belt_of(leave), ctx_of("leave"), CallPipeline(record=MemoryRecord(), watch=events.append))
    kept[0].progress(Result.text("late"))
    assert not any(isinstance(event, ToolProgress) for event in events)


async def test_a_watcher_that_fails_changes_nothing() -> None:
    def fail(event: CallEvent) -> None:
        raise OSError("gone")

    result = await invoke(belt_of(count), ctx_of("count", to=1), CallPipeline(record=MemoryRecord(), watch=fail))
    assert result == Result.text("done")


@pytest.mark.parametrize("how", ["deadline", "cancelled"])
async def test_a_body_in_a_thread_sees_that_it_should_stop(how: str) -> None:
    entered, stopped = threading.Event(), threading.Event()

    @tool
    def wait(ctx: Ctx) -> str:
        """Wait until told to stop."""
        entered.set()
        while not ctx.cancelled():
            threading.Event().wait(0.001)
        stopped.set()
        return "never read"

    pipeline = CallPipeline(record=MemoryRecord(), timeout=0.01 if how == "deadline" else 60)
    if how == "cancelled":
        task = asyncio.ensure_future(invoke(belt_of(wait), ctx_of("wait"), pipeline))
        assert await in_thread(entered.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    while not entered.is_set():  # on a busy machine the time may be over before it has begun
        assert (await invoke(belt_of(wait), ctx_of("wait"), pipeline)).details["code"] == "timeout"
    assert await in_thread(stopped.wait, 60)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), StopIteration("x")])
async def test_no_body_ends_the_program_or_the_turn(error: BaseException) -> None:
    @tool(name="fail")
    async def fail() -> str:
        """Fail."""
        raise error

    @tool(name="fail_beside")
    def fail_beside() -> str:
        """Fail in a thread."""
        raise error

    for this in (fail, fail_beside):
        result = await invoke(belt_of(this), ctx_of(this.name), CallPipeline(record=MemoryRecord()))
        assert result.status == "error"


async def test_a_call_whose_arguments_could_not_be_read_is_answered_and_never_run() -> None:
    ran: list[str] = []

    @tool
    async def note() -> str:
        """Note."""
        ran.append("ran")
        return "done"

    ctx = Ctx(Call(id="1", name="note", parse_error="the arguments are not JSON"), Caller(), CallState())
    result = await invoke(belt_of(note), ctx, CallPipeline(record=MemoryRecord()))
    assert (result.details["error"], ran) == ("note: the arguments are not JSON", [])


async def test_more_functions_than_there_are_threads_are_refused_and_room_is_made_again() -> None:
    gate = threading.Event()
    waiting = [asyncio.ensure_future(in_thread(gate.wait, 60)) for _ in range(128)]
    await asyncio.sleep(0)
    with pytest.raises(ToolError, match="at once"):
        await in_thread(print)
    gate.set()
    await asyncio.gather(*waiting)
    assert await in_thread(lambda: 5) == 5


def test_no_two_calls_have_one_key() -> None:
    assert len({new_key() for _ in range(1000)}) == 1000
