"""invoke: one call, start to finish. What fails comes back as a Result; only cancellation leaves as an exception."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolcrib.agent.invoke import invoke, invoke_all
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ConfigError, ToolError
from toolcrib.define.message import Call
from toolcrib.define.record import Finished
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool, tool
from toolcrib.define.verdict import Decision, LayerName, Selection, Verdict
from toolcrib.testing import FakeApprover, fake_ctx

pytestmark = pytest.mark.anyio

REASONS: dict[Decision, str] = {
    "allow": "passes every layer",
    "ask": "a human is asked for 'greet' (tools.ask)",
    "deny": "deny has 'greet' (tools)",
}
LAYERS: dict[Decision, LayerName | None] = {"allow": None, "ask": "ask", "deny": "global"}


def belt_of(*tools: Tool, decision: Decision = "allow") -> Selection:
    """Return a belt on which every tool has this verdict."""
    layer, reason = LAYERS[decision], REASONS[decision]
    verdicts = {
        each.name: Verdict(each.name, decision, layer, each.name, "tools", reason, "remove it from tools.deny")
        for each in tools
    }
    kept = {each.name: each for each in tools if decision != "deny"}
    return Selection(tools=kept, verdicts=verdicts, steps=lambda name: ())


@tool
async def greet(ctx: Ctx, name: str, times: int = 1) -> str:
    """Greet somebody."""
    return f"{ctx.call.id}: " + " ".join([f"hello {name}"] * times)


async def called(belt: Selection, ctx: Ctx, **window: Any) -> Result:
    """Invoke the context's call at a window with nothing but what is given."""
    return await invoke(belt, ctx, CallPipeline(record=MemoryRecord(), **window))


def failing(error: BaseException) -> Tool:
    @tool
    async def fail() -> str:
        """Fail."""
        raise error

    return fail


def failure(message: str, code: str, name: str, for_model: str = "") -> Result:
    """Return the whole shape of an error."""
    details = {"status": "error", "error": message, "code": code, "tool": name}
    return Result(content=(Text(message),), details=details, status="error", for_model=for_model)


async def test_a_call_runs_with_checked_arguments() -> None:
    ctx = fake_ctx("greet", {"name": "5", "times": 2})
    assert await called(belt_of(greet), ctx) == Result.text("call_1: hello 5 hello 5")


async def test_what_was_read_otherwise_than_it_was_written_stands_in_the_details() -> None:
    @tool(aliases={"who": "name"})
    def bow(name: str, times: Annotated[int, Field(ge=1)] = 1, to: tuple[str, ...] = ()) -> Result:
        """Bow."""
        return Result.text(f"{name} {times} {to}", details={"own": 1})

    result = await called(belt_of(bow), fake_ctx("bow", {"who": 5, "times": 0, "to": '["a"]'}))
    assert (result.plain_text, result.details) == (
        "5 1 ('a',)",
        {
            "own": 1,
            "adjusted": [
                {"parameter": "name", "given": 5, "taken": "5"},
                {"parameter": "times", "given": 0},
                {"parameter": "to", "given": '["a"]', "taken": ["a"]},
            ],
        },
    )
    failed = await called(belt_of(greet), fake_ctx("greet", {"name": "x" * 300, "times": "1"}), redact=str)
    assert failed.details == {"adjusted": [{"parameter": "times", "given": "1", "taken": 1}]}


async def test_secrets_and_long_values_are_not_repeated_whole_in_the_details() -> None:
    @tool
    def keep(things: list[str]) -> str:
        """Keep."""
        return "kept"

    ctx = fake_ctx("keep", {"things": [7, "sesame", "x" * 500]})
    result = await called(belt_of(keep), ctx, redact=lambda text: text.replace("sesame", "[redacted]"))
    assert "sesame" not in str(result.details)
    assert len(str(result.details)) < 600


@pytest.mark.parametrize("spelling", ["Greet", " greet\n", "ＧＲＥＥＴ"])
async def test_another_spelling_of_a_name_means_the_same_tool(spelling: str) -> None:
    assert (await called(belt_of(greet), fake_ctx(spelling, {"name": "a"}))).status == "ok"


async def test_an_alias_means_the_tool_it_stands_for() -> None:
    run = tool(name="exec", description="Run.")(lambda: "ran")
    assert await called(belt_of(run), fake_ctx("bash")) == Result.text("ran")


@pytest.mark.parametrize(
    ("name", "message", "told"),
    [
        ("gret", "there is no tool 'gret'; the nearest are greet", "gret"),
        ("zzz", "there is no tool 'zzz'", "zzz"),
        ("gre\u200bet", "there is no tool 'gre\\u200bet'; the nearest are greet", "gre\u200bet"),
        ("", "there is no tool ''", ""),
        ("x" * 100, f"there is no tool {'x' * 64!r}", "x" * 64),
    ],
)
async def test_an_unknown_name_gets_the_nearest_names_and_is_never_repaired(name: str, message: str, told: str) -> None:
    assert await called(belt_of(greet), fake_ctx(name)) == failure(message, "not_found", told)


async def test_bad_arguments_are_told_before_anything_else_happens() -> None:
    approver = FakeApprover()
    result = await called(belt_of(greet, decision="ask"), fake_ctx("greet", {"nam": "a"}), approver=approver)
    message = "greet: there is no parameter 'nam' (did you mean 'name'?); name is required"
    assert result == failure(message, "bad_arguments", "greet")
    assert approver.asked == []


async def test_a_denied_call_says_which_rule_denies_it() -> None:
    result = await called(belt_of(greet, decision="deny"), fake_ctx("greet", {"name": "a"}))
    assert (result.status, result.details["code"], result.details["tool"]) == ("error", "denied", "greet")
    assert REASONS["deny"] in result.details["error"]


async def test_no_approval_can_lift_a_denial() -> None:
    approver = FakeApprover([True])
    result = await called(belt_of(greet, decision="deny"), fake_ctx("greet", {"name": "a"}), approver=approver)
    assert (result.details["code"], approver.asked) == ("denied", [])


async def test_with_nobody_to_ask_the_answer_is_no() -> None:
    result = await called(belt_of(greet, decision="ask"), fake_ctx("greet", {"name": "a"}))
    told = (
        "Refused: this call of greet needs a person's yes, and nobody is there to ask. Do not try again; tell the user."
    )
    assert result == failure(f"{REASONS['ask']}, and there is nobody to ask", "not_approved", "greet", told)


async def test_a_humans_yes_lets_the_call_run_and_the_human_saw_the_call() -> None:
    approver, caller = FakeApprover([True]), Caller(agent="main")
    ctx = fake_ctx("greet", {"name": "a"}, caller=caller)
    assert await called(belt_of(greet, decision="ask"), ctx, approver=approver) == Result.text("call_1: hello a")
    assert approver.asked == [(caller, ctx.call, REASONS["ask"])]


async def test_a_humans_no_is_told_and_nothing_runs() -> None:
    ran: list[str] = []
    mark = tool(name="greet", description="Greet.")(lambda: ran.append("ran"))
    result = await called(belt_of(mark, decision="ask"), fake_ctx("greet"), approver=FakeApprover([False]))
    told = "Refused: the user said no to this call of greet. Do not try again; ask what to do instead."
    assert result == failure("a human refused greet", "not_approved", "greet", told)
    assert ran == []


async def test_an_approver_that_breaks_counts_as_no() -> None:
    class Broken:
        async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str]) -> bool:
            raise RuntimeError("no screen")

    result = await called(belt_of(greet, decision="ask"), fake_ctx("greet", {"name": "a"}), approver=Broken())
    assert (result.status, result.details["code"]) == ("error", "bug")


async def test_the_question_to_a_human_is_outside_the_deadline() -> None:
    class Slow:
        async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str]) -> bool:
            decided = asyncio.Event()
            asyncio.get_running_loop().call_later(0.02, decided.set)
            return await decided.wait()

    ctx = fake_ctx("greet", {"name": "a"})
    result = await called(belt_of(greet, decision="ask"), ctx, approver=Slow(), timeout=0.01)
    assert result == Result.text("call_1: hello a")


@tool
async def hang() -> str:
    """Never finish."""
    await asyncio.Event().wait()
    return "never"


@pytest.mark.parametrize(("own", "general", "told"), [(None, 0.01, "0.01"), (0.02, 60, "0.02"), (0.01, 0.001, "0.01")])
async def test_a_body_is_stopped_at_its_deadline(own: float | None, general: float, told: str) -> None:
    result = await called(belt_of(replace(hang, timeout=own)), fake_ctx("hang"), timeout=general)
    assert result == failure(f"hang did not finish within {told} seconds", "timeout", "hang")


async def test_a_tools_own_time_out_is_not_ours() -> None:
    result = await called(belt_of(failing(TimeoutError("the database"))), fake_ctx("fail"))
    message = "fail failed unexpectedly (TimeoutError); the operator's log has the details"
    assert result == failure(message, "bug", "fail")


async def test_a_bug_is_logged_in_full_and_told_without_private_detail(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="toolcrib"):
        result = await called(belt_of(failing(KeyError("/home/me/.secret"))), fake_ctx("fail"))
    message = "fail failed unexpectedly (KeyError); the operator's log has the details"
    assert result == failure(message, "bug", "fail")
    (record,) = caplog.records
    assert record.getMessage() == "tool fail failed in call call_1"
    assert record.exc_text is not None
    assert "/home/me/.secret" in record.exc_text


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (ToolError("no job 'x'; known: none"), "no job 'x'; known: none", "failed"),
        (ToolError("gone", code="not_found"), "gone", "not_found"),
        (ToolError("first line\nsecond line"), "first line", "failed"),
        (ToolError("\n\nafter blank lines"), "after blank lines", "failed"),
        (ToolError("tab\tbell\x07 esc\x1b[31m override\u202e"), "tab bell esc override", "failed"),
        (ToolError("x" * 500), "x" * 399 + "…", "failed"),
        (ToolError(""), "it failed and did not say why", "failed"),
        (ConfigError("tools.allow is empty"), "tools.allow is empty", "failed"),
    ],
)
async def test_an_expected_failure_is_one_bounded_line(error: Exception, message: str, code: str) -> None:
    assert await called(belt_of(failing(error)), fake_ctx("fail")) == failure(message, code, "fail")


async def test_a_failure_that_a_tool_returns_says_which_tool_and_is_left_as_it_is() -> None:
    returned = Result.error("no", code="mine", details={"more": 1})
    probe = tool(name="probe", description="Probe.")(lambda: returned)
    result = await called(belt_of(probe), fake_ctx("probe"))
    assert result == returned._replace(details={**returned.details, "tool": "probe"})


async def test_cancelling_the_task_cancels_the_body_and_passes_through() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    task = asyncio.create_task(called(belt_of(wait), fake_ctx("wait")))
    async with asyncio.timeout(60):
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stopped.is_set()


async def test_a_batch_that_is_stopped_leaves_when_every_body_in_it_has_cleaned_up() -> None:
    begun, cleaned = asyncio.Event(), list[int]()

    @tool
    async def slow(steps: int) -> str:
        """Take some steps to clean up."""
        try:
            begun.set()
            return str(await asyncio.Event().wait())
        finally:
            for _ in range(steps):
                await asyncio.sleep(0)
            cleaned.append(steps)

    record = MemoryRecord()
    ctxs = [fake_ctx("slow", {"steps": 0}), fake_ctx("slow", {"steps": 50})]
    work = asyncio.ensure_future(invoke_all(belt_of(slow), ctxs, CallPipeline(record=record)))
    async with asyncio.timeout(60):
        await begun.wait()
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert cleaned == [0, 50]
    assert [entry.status for entry in record.entries if isinstance(entry, Finished)] == ["cancelled", "cancelled"]


async def test_a_declared_tool_without_body_says_so() -> None:
    result = await called(belt_of(Tool.declared("read", "Read a file.")), fake_ctx("read", {"path": "a"}))
    message = "read is declared, but this installation does not carry it yet"
    assert result == failure(message, "unavailable", "read")


@pytest.mark.parametrize("args", [{"name": {"deep": [1]}}, {"name": None}, {"name": "a", "times": 10**400}])
async def test_whatever_the_arguments_are_a_result_comes_back(args: dict[str, Any]) -> None:
    result = await called(belt_of(greet), fake_ctx("greet", args))
    assert result.status == "error"
    assert len(result.details["error"]) <= 400
