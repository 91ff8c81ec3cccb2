"""A deadline cancels the task it was opened in, and only for what was given too little time."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from toolcrib.agent.deadline import Deadline, wait_to_end

pytestmark = pytest.mark.anyio


async def part(deadline: Deadline, seconds: float | None, work: Awaitable[Any]) -> Any:
    """Return what the work returns, "missed" when its time was up."""
    deadline.give(seconds)
    try:
        return await work
    except asyncio.CancelledError:
        if deadline.was_missed():
            return "missed"
        raise


async def within(seconds: float | None, work: Awaitable[Any]) -> Any:
    """The same as the only part of some work."""
    deadline = Deadline()
    try:
        return await part(deadline, seconds, work)
    finally:
        deadline.close()


async def test_work_that_never_waits_needs_no_timer() -> None:
    async def quick() -> int:
        return 3

    assert await within(1e-9, quick()) == 3


async def test_work_that_waits_too_long_is_cancelled_and_cleans_up() -> None:
    cleaned: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("yes")

    assert await within(0.01, slow()) == "missed"
    assert cleaned == ["yes"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "the task goes on as if it had never been cancelled"
    await asyncio.sleep(0)


async def test_a_timeout_of_the_works_own_is_not_the_deadline() -> None:
    async def own() -> None:
        await asyncio.sleep(0)
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await within(5, own())


async def test_cancelling_reaches_the_work_and_goes_on() -> None:
    entered, cleaned = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    task = asyncio.create_task(within(5, slow()))
    await asyncio.wait_for(entered.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()


async def test_every_part_gets_time_of_its_own() -> None:
    deadline, never = Deadline(), asyncio.Event()

    async def parts() -> list[Any]:
        return [
            await part(deadline, 0.01, never.wait()),
            await part(deadline, None, asyncio.sleep(0.05, "took its time")),
            await part(deadline, 0.01, never.wait()),
            await part(deadline, 60, asyncio.sleep(0, "quick")),
        ]

    assert await parts() == ["missed", "took its time", "missed", "quick"]
    deadline.close()


async def test_work_that_takes_no_notice_comes_to_its_end() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "went on"
        return "never"

    assert await within(0.01, stubborn()) == "went on"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_deadline_inside_another_is_told_apart() -> None:
    async def inner() -> Any:
        return await within(0.01, asyncio.Event().wait())

    assert await within(5, inner()) == "missed"

    async def outlives() -> Any:
        return await within(5, asyncio.Event().wait())

    assert await within(0.01, outlives()) == "missed"


@pytest.mark.parametrize("times", [1, 3])
async def test_what_must_be_finished_is_finished_however_often_it_is_cancelled(times: int) -> None:
    begun, may_end, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write() -> None:
        begun.set()
        await may_end.wait()
        done.set()

    task = asyncio.create_task(wait_to_end(write()))
    await begun.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()
