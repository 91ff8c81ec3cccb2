"""The window: what looks at a call before and after it, and what is written down."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.adapter.fence import NOTICE
from toolcrib.agent.hooks import bind_guards, bind_observers
from toolcrib.agent.invoke import invoke
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.memory import InMemoryBlobs, MemoryRecord
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.plugin import Ask, Block, Hook, Rewrite, Word
from toolcrib.define.record import Decided, Finished, Started
from toolcrib.define.result import Image, Result, Text
from toolcrib.define.tool import Tool, tool
from toolcrib.testing import FakeApprover, fake_ctx

from .test_invoke import belt_of

pytestmark = pytest.mark.anyio


def echo(**options: Any) -> tuple[Tool, list[str]]:
    """Return a tool that says what it was given, and the list of everything it ran with."""
    ran: list[str] = []

    @tool(name="echo", **options)
    async def body(text: str, path: str = "") -> str:
        """Say it again."""
        ran.append(text)
        return text + path

    return body, ran


async def run(
    this: Tool, args: Mapping[str, Any], record: MemoryRecord | None = None, *, name: str = "echo", **window: Any
) -> Result:
    guards, observers = bind_guards(window.pop("guards", ())), bind_observers(window.pop("observers", ()))
    made = CallPipeline(record=record or MemoryRecord(), guards=guards, observers=observers, **window)
    return await invoke(belt_of(this), fake_ctx(name, args), made)


# The record


async def test_a_call_that_runs_is_recorded_before_and_after() -> None:
    record, (this, _) = MemoryRecord(), echo()
    await run(this, {"text": "a"}, record)
    decided, started, finished = record.entries
    assert isinstance(decided, Decided)
    assert decided.verdict is not None
    assert (decided.verdict.tool, decided.verdict.decision, decided.reason) == ("echo", "allow", "passes every layer")
    assert isinstance(started, Started)
    assert (started.tool, started.call.args) == ("echo", {"text": "a"})
    assert isinstance(finished, Finished)
    assert (finished.tool, finished.status, finished.code, finished.ran) == ("echo", "ok", "", True)


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [("echo", {"txt": "a"}, "bad_arguments"), ("nothing", {}, "not_found"), ("ech\u200bo", {}, "not_found")],
)
async def test_a_call_that_does_not_run_is_recorded_too(name: str, args: dict[str, Any], code: str) -> None:
    record, (this, ran) = MemoryRecord(), echo()
    await run(this, args, record, name=name)
    finished = record.entries[-1]
    assert isinstance(record.entries[0], Decided)
    assert isinstance(finished, Finished)
    assert (finished.status, finished.code, finished.ran, ran) == ("error", code, False, [])


async def test_a_cancelled_call_is_recorded_and_stays_cancelled() -> None:
    entered, record = asyncio.Event(), MemoryRecord()

    @tool
    async def hang() -> str:
        """Wait for ever."""
        entered.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(run(hang, {}, record, name="hang"))
    await asyncio.wait_for(entered.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    finished = record.entries[-1]
    assert isinstance(finished, Finished)
    assert (finished.status, finished.ran) == ("cancelled", True)


async def test_a_record_that_cannot_be_written_stops_the_call() -> None:
    class Full:
        async def write(self, entry: object, /) -> None:
            raise OSError("no space left")

    this, ran = echo()
    result = await run(this, {"text": "a"}, Full())  # type: ignore[arg-type]  # a record of another make
    assert (result.details["code"], ran) == ("unrecorded", [])


# Guards


async def test_a_guard_sees_checked_arguments_under_their_own_names() -> None:
    this, _ = echo(aliases={"file_path": "path"})
    seen: list[dict[str, Any]] = []

    async def look(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        seen.append({"name": ctx.call.name, **args})
        return None

    await run(this, {"text": 5, "file_path": "/x"}, name="ECHO", guards=[look])
    assert seen == [{"name": "echo", "text": "5", "path": "/x"}]


async def test_each_guard_sees_what_the_one_before_made() -> None:
    this, ran = echo()

    async def add(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        return Rewrite({"text": args["text"] + "+"})

    await run(this, {"text": "a"}, guards=[add, add])
    assert ran == ["a++"]


async def test_what_a_guard_rewrites_is_checked_again() -> None:
    this, ran = echo()

    async def spoil(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        return Rewrite({"nonsense": 1})

    result = await run(this, {"text": "a"}, guards=[spoil])
    assert (result.status, result.details["code"], ran) == ("error", "bad_arguments", [])


async def test_a_block_ends_it_with_its_reason() -> None:
    this, ran = echo()
    later: list[str] = []

    async def block(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        return Block("not today")

    async def after(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        later.append("asked")
        return None

    result = await run(this, {"text": "a"}, guards=[block, after])
    assert (result.details["error"], result.details["code"]) == ("not today", "blocked")
    assert (ran, later) == ([], [])


@pytest.mark.parametrize("optional", [False, True])
async def test_a_guard_that_fails_blocks_unless_it_is_optional(optional: bool) -> None:
    this, ran = echo()

    async def boom(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        raise RuntimeError("secret detail")

    result = await run(this, {"text": "a"}, guards=[Hook(run=boom, name="scan", optional=optional)])
    assert ran == (["a"] if optional else [])
    if not optional:
        assert result.details["error"] == "scan failed (RuntimeError), so echo was not run"


async def test_a_guard_that_hangs_blocks() -> None:
    this, ran = echo()

    async def hang(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        await asyncio.Event().wait()
        return None

    result = await run(this, {"text": "a"}, guards=[Hook(run=hang, name="scan", seconds=0.01)])
    assert (result.details["error"], ran) == ("scan did not answer in time, so echo was not run", [])


async def test_a_plain_function_can_be_a_guard() -> None:
    this, ran = echo()
    await run(this, {"text": "a"}, guards=[lambda ctx, args: Rewrite({"text": "b"})])
    assert ran == ["b"]


@pytest.mark.parametrize(("answer", "expected"), [(True, ["a"]), (False, [])])
async def test_a_guard_can_ask_for_a_human(answer: bool, expected: list[str]) -> None:
    this, ran = echo()

    async def ask(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        return Ask("it looks odd")

    approver = FakeApprover([answer])
    await run(this, {"text": "a"}, guards=[ask], approver=approver)
    assert ran == expected


# Observers


async def test_each_observer_sees_what_the_one_before_made() -> None:
    async def mark(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result:
        part = result.content[0]
        assert isinstance(part, Text)
        return Result.text(part.text + "!")

    result = await run(echo()[0], {"text": "a"}, observers=[mark, mark])
    assert result == Result.text("a!!")


async def test_an_observer_that_fails_changes_nothing() -> None:
    async def boom(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result:
        raise RuntimeError

    assert await run(echo()[0], {"text": "a"}, observers=[boom]) == Result.text("a")


# Fence and trim


async def test_outside_text_is_fenced_with_marks_of_this_call() -> None:
    @tool
    async def fetch() -> Result:
        """Fetch."""
        return Result.text("hello", source="web:https://a.test")

    results = [await run(fetch, {}, name="fetch") for _ in range(2)]
    first, second = (part.text for result in results for part in result.content if isinstance(part, Text))
    assert "hello" in first
    assert "web:https://a.test" in first
    assert first != second


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("own", "general"), [(False, False), (True, False), (False, True), (True, True)])
async def test_the_notice_before_outside_text_can_be_asked_for(own: bool, general: bool, fails: bool) -> None:
    @tool(notice=own)
    async def fetch() -> Result:
        """Fetch."""
        if fails:
            raise ToolError("it said no", source="web:https://a.test")
        return Result((Text("ours"), Text("one", "web:https://a.test"), Text("two", "web:https://b.test")))

    said = (await run(fetch, {}, name="fetch", notice=general)).plain_text
    assert said.count(NOTICE) == (own or general)
    assert "EXTERNAL_UNTRUSTED_CONTENT" in said
    if own or general:
        assert f"{NOTICE}\n\n<<<EXTERNAL_UNTRUSTED_CONTENT" in said


async def test_no_notice_stands_before_words_of_our_own() -> None:
    assert await run(echo(notice=True)[0], {"text": "a"}, notice=True) == Result.text("a")


async def test_a_long_text_is_cut() -> None:
    result = await run(echo()[0], {"text": "x" * 9_000}, blobs=InMemoryBlobs(), limit=100)
    shown = "".join(part.text for part in result.content if isinstance(part, Text))
    assert shown.count("x") < 200
    assert "100 of 9,000 characters" in shown


async def test_a_tool_states_its_own_bound() -> None:
    result = await run(echo(limit=20_000)[0], {"text": "x" * 9_000}, limit=100)
    assert result == Result.text("x" * 9_000)


async def test_pictures_pass_as_they_are() -> None:
    @tool
    async def look() -> Result:
        """Look."""
        return Result(content=(Image(b"\x89PNG", "image/png"),))

    assert (await run(look, {}, name="look")).content == (Image(b"\x89PNG", "image/png"),)


def test_blobs_forget_the_oldest_first() -> None:
    async def fill() -> None:
        blobs = InMemoryBlobs(most=10)
        first, second = await blobs.put(b"a" * 6), await blobs.put(b"b" * 6)
        assert await blobs.get(second) == b"b" * 6
        with pytest.raises(ToolError, match="any more"):
            await blobs.get(first)

    asyncio.run(fill())
