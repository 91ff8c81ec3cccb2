"""The executor of subagents: every end has a reason that is true, and carries what was gathered until then."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.agent.loop_worlds import Cues, belt_of, call, check_pairs, echo

from toolcrib.agent.hooks import bind_guards
from toolcrib.agent.loop import TurnSetup
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.subagent import Completion, RunListeners, agent_tool, run_agent
from toolcrib.agent.subagent_report import Activity, Outcome, result_of
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.agent import Agent
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Replied, ReplyEvent, TextDelta, ToolProgress, ToolStarted, Usage
from toolcrib.define.message import Call, Message
from toolcrib.define.model import Model, ModelCard, Request
from toolcrib.define.plugin import Ask, Block, Hook, Rewrite
from toolcrib.define.record import Decided
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool, tool
from toolcrib.define.turn import Limits
from toolcrib.testing.models import FunctionModel, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

CHILD = Caller(agent="worker", session="agent:worker:subagent:1", parents=("agent:main:main",))


def worker(**options: Any) -> Agent:
    return Agent(name="worker", description="works", prompt="I am worker.", inputs={}, **options)


def done(result: Any = "R", id: str = "d", name: str = "result") -> Call:
    return Call(id, "complete_task", {name: result})


async def ran(
    model: Model, *tools: Tool, agent: Agent | None = None, record: MemoryRecord | None = None, **options: Any
) -> Outcome:
    agent = agent or worker()
    grace = options.pop("grace", 5.0)
    setup = TurnSetup(
        model=model,
        belt=belt_of(tools or (echo,)),
        caller=CHILD,
        pipeline=CallPipeline(record=record or MemoryRecord()),
        limits=Limits(turns=agent.max_turns, seconds=agent.timeout, tokens=agent.max_tokens),
        **options,
    )
    async with asyncio.timeout(60):
        return await run_agent(agent, setup, "begin", grace=grace)


def ends(*script: Any, **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(script)
    return model, ran(model, **options)


def told(result: Result) -> str:
    return result.plain_text


async def test_an_answer_that_was_handed_in_is_the_goal() -> None:
    model, run = ends(call_reply(call("a")), call_reply(done()))
    outcome = await run
    model.done()
    assert (outcome.reason, outcome.turns, outcome.answer) == ("goal", 2, {"result": "R"})
    assert result_of(worker(), outcome).status == "ok"


async def test_the_first_answer_that_fits_wins() -> None:
    model, run = ends(call_reply(Call("x", "complete_task", {}), done("first"), done("second", "e")))
    outcome = await run
    model.done()
    assert (outcome.reason, outcome.answer) == ("goal", {"result": "first"})


async def test_an_answer_that_does_not_fit_can_be_mended() -> None:
    agent = worker(output={"count": {"type": "integer", "required": True}})
    model, run = ends(call_reply(done("three")), call_reply(done({"count": 3})), agent=agent)
    outcome = await run
    assert (outcome.reason, outcome.answer) == ("goal", {"result": {"count": 3}})
    refused = model.asked[1].messages[-1]
    assert refused.status == "error"
    assert result_of(agent, outcome).details["output"] == {"count": 3}


@pytest.mark.parametrize(("last", "answer"), [("It is in prices.py.", "It is in prices.py."), ("", "done")])
async def test_last_words_count_as_the_answer_where_none_was_handed_in_and_say_so(last: str, answer: str) -> None:
    model, run = ends(text_reply("done"), text_reply(last))
    outcome = await run
    model.done()
    result = result_of(worker(), outcome)
    assert (outcome.reason, outcome.answer, result.status) == ("spoken", {"result": answer}, "ok")
    assert (result.details["reason"], result.details["output"]) == ("spoken", answer)
    assert told(result).startswith("[spoken: it stopped calling tools and did not call complete_task; worker handed in")
    assert told(result).endswith(answer)


async def test_words_on_the_way_to_a_limit_are_no_answer_and_those_behind_it_are() -> None:
    for last, reason in (("", "max_turns"), ("It is here.", "spoken")):
        model, run = ends(call_reply(call("a"), text="let me look"), text_reply(last), agent=worker(max_turns=1))
        assert (await run).reason == reason
        model.done()


async def test_last_words_are_shown_to_guards_and_written_down_like_any_answer() -> None:
    async def polite(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite:
        return Rewrite({"result": f"{args['result']}, please"})

    record = MemoryRecord()
    setup = TurnSetup(
        model=ScriptedModel([text_reply("forty"), text_reply("forty")]),
        belt=belt_of((echo,)),
        caller=CHILD,
        pipeline=CallPipeline(record=record, guards=bind_guards([Hook(run=polite)])),
    )
    async with asyncio.timeout(60):
        outcome = await run_agent(worker(), setup, "begin")
    assert (outcome.reason, outcome.answer) == ("spoken", {"result": "forty, please"})
    assert [each.call.name for each in record.entries if isinstance(each, Decided)] == ["complete_task"]


async def test_words_that_are_the_answer_in_json_fit_an_output_of_parts() -> None:
    agent = worker(output={"count": {"type": "integer", "required": True}})
    _, run = ends(text_reply("about three"), text_reply('{"count": 3}'), agent=agent)
    assert (await run).answer == {"result": {"count": 3}}


async def test_an_error_comes_with_the_last_results_that_differ() -> None:
    calls = [
        call_reply(Call(f"c{at}", "echo", {"word": word})) for at, word in enumerate(["x", "y", "z", "z", "z", "z"])
    ]
    _, run = ends(*calls, text_reply(""), agent=worker(max_turns=6))
    outcome = await run
    assert [part.text for part in outcome.gathered] == ["[echo, ok] x", "[echo, ok] y", "[echo, ok] z"]


async def test_words_alone_get_one_more_reply_and_then_end_without_completion() -> None:
    agent = worker(output={"count": {"type": "integer", "required": True}})
    model, run = ends(text_reply("done"), text_reply("still text"), agent=agent)
    outcome = await run
    model.done()
    assert (outcome.reason, outcome.turns) == ("no_completion", 1)
    assert [part.text for part in outcome.gathered] == ["done", "still text"]
    result = result_of(agent, outcome)
    assert (result.status, result.details["code"], result.details["reason"]) == (
        "error", "no_completion", "no_completion",
    )  # fmt: skip
    assert "still text" in told(result)


async def test_a_run_that_was_rescued_says_so_and_why() -> None:
    model, run = ends(text_reply("done"), call_reply(done("late")))
    outcome = await run
    result = result_of(worker(), outcome)
    assert (outcome.reason, result.status, result.details["reason"]) == ("rescued", "ok", "rescued")
    assert told(result).startswith("[rescued: it stopped calling tools")
    assert told(result).endswith("late")
    assert model.asked[1].tools == ("complete_task",)


async def test_nothing_but_the_answer_runs_in_the_last_reply() -> None:
    ran_with: list[str] = []

    @tool(effects=set())
    async def look(word: str) -> str:
        """Look."""
        ran_with.append(word)
        return word

    script = [call_reply(call("a", "look", word="1")), call_reply(call("b", "look", word="2"))]
    outcome = await ran(ScriptedModel(script), look, agent=worker(max_turns=1))
    assert (outcome.reason, ran_with) == ("max_turns", ["1"])
    assert "limit of a turn" in outcome.why
    assert any("[look, ok] 1" in part.text for part in outcome.gathered)


class Hanging:
    """A model whose replies may never come; `heard` counts them."""

    card = ModelCard(provider="test", model="hanging")

    def __init__(self, *after: Replied) -> None:
        self._after, self.heard = list(after), 0

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        self.heard += 1
        if self.heard == 1:
            yield TextDelta("I begin")
            await asyncio.Event().wait()
        yield self._after[self.heard - 2]

    async def close(self) -> None:
        """Nothing is held."""


async def test_a_limit_of_time_while_the_model_answers_is_a_timeout() -> None:
    outcome = await ran(Hanging(text_reply("")), agent=worker(timeout=0.05))
    assert outcome.reason == "timeout"
    spoken = await ran(Hanging(text_reply("so far")), agent=worker(timeout=0.05))
    assert (spoken.reason, spoken.answer, "seconds" in spoken.why) == ("spoken", {"result": "so far"}, True)
    rescued = await ran(Hanging(call_reply(done())), agent=worker(timeout=0.05))
    assert (rescued.reason, rescued.answer) == ("rescued", {"result": "R"})


async def test_a_limit_of_time_while_a_tool_runs_is_a_timeout_too_and_can_be_rescued() -> None:
    cues = Cues()
    outcome = await ran(
        ScriptedModel([call_reply(call("a", "wait")), text_reply("")]), cues.tool(), agent=worker(timeout=0.05)
    )
    assert (outcome.reason, cues.happened) == ("timeout", ["a in"])
    assert any("it was stopped while it ran" in part.text for part in outcome.gathered)
    rescued = await ran(
        ScriptedModel([call_reply(call("a", "wait")), call_reply(done())]), Cues().tool(), agent=worker(timeout=0.05)
    )
    assert rescued.reason == "rescued"


async def test_the_last_reply_has_a_limit_of_its_own() -> None:
    class Never(Hanging):
        async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
            self.heard += 1
            await asyncio.Event().wait()
            yield text_reply("")

    model = Never()
    outcome = await ran(model, agent=worker(timeout=0.02), grace=0.02)
    assert (outcome.reason, model.heard) == ("timeout", 2)


async def test_tokens_of_its_own_are_a_budget_and_leave_one_last_reply() -> None:
    script = [call_reply(call("a"), usage=Usage(input=60, output=60)), call_reply(done(), usage=Usage(input=5))]
    outcome = await ran(ScriptedModel(script), agent=worker(max_tokens=100))
    assert (outcome.reason, outcome.usage.input) == ("rescued", 65)
    assert "100" in outcome.why


async def test_a_model_that_fails_is_an_error_with_its_sentence_and_no_last_reply() -> None:
    broken = Replied(Message(role="assistant", finish="error"), error="quota is used up")
    model, run = ends(call_reply(call("a")), broken)
    outcome = await run
    model.done()
    assert (outcome.reason, outcome.why) == ("error", "quota is used up")
    result = result_of(worker(), outcome)
    assert (result.status, result.details["code"]) == ("error", "error")
    assert "[echo, ok] a" in told(result)


async def test_going_round_in_circles_ends_without_completion() -> None:
    model = FunctionModel(lambda request: call_reply(Call(f"c{len(request.history)}", "echo", {"word": "again"})))
    outcome = await ran(model)
    assert outcome.reason == "no_completion"
    assert "the same calls" in outcome.why


async def test_stopping_leaves_as_stopped_with_every_body_ended() -> None:
    cues = Cues()
    task = asyncio.ensure_future(ran(ScriptedModel([call_reply(call("a", "wait"))]), cues.tool()))
    await cues.came("a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cues.happened == ["a in"]


async def test_one_that_is_stopped_has_told_its_parent_what_it_had() -> None:
    cues, told_parent = Cues(), list[Result]()
    script = [
        call_reply(call("e", "echo", word="the key is under the mat"), text="I look around"),
        call_reply(call("a", "wait")),
    ]
    setup = TurnSetup(
        model=ScriptedModel(script),
        belt=belt_of((echo, cues.tool())),
        caller=CHILD,
        pipeline=CallPipeline(record=MemoryRecord()),
    )
    task = asyncio.ensure_future(run_agent(worker(), setup, "begin", RunListeners(tell=told_parent.append)))
    await cues.came("a")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = told_parent[-1]
    assert last.details["reason"] == "aborted"
    assert told(last).startswith("I look around\n[echo, ok] ")
    assert "the key is under the mat" in told(last)


def guard(said: Any) -> Hook:
    async def strict(ctx: Ctx, args: Mapping[str, Any]) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    return Hook(run=strict)


async def test_no_guard_takes_the_end_away(caplog: pytest.LogCaptureFixture) -> None:
    async def hangs(ctx: Ctx, args: Mapping[str, Any]) -> Any:
        await asyncio.Event().wait()

    async def meddles(ctx: Ctx, args: Any) -> Any:
        args["result"] = "mine"

    words: tuple[Any, ...] = (Block("no"), Ask("may it?"), Rewrite({"result": " "}), ValueError("broken"), "what?")
    hooks = [*map(guard, words), Hook(run=hangs, seconds=0.05), Hook(run=meddles)]
    with caplog.at_level(logging.CRITICAL, "toolcrib"):
        pipeline = CallPipeline(record=MemoryRecord(), guards=bind_guards(hooks))
        setup = TurnSetup(
            model=ScriptedModel([call_reply(done("kept"))]), belt=belt_of(()), caller=CHILD, pipeline=pipeline
        )
        outcome = await run_agent(worker(), setup, "begin")
    assert (outcome.reason, outcome.answer) == ("goal", {"result": "kept"})


async def test_a_guard_sees_the_answer_and_may_rewrite_it_within_its_schema() -> None:
    seen: list[Mapping[str, Any]] = []

    async def hide(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite:
        seen.append(args)
        return Rewrite({"result": args["result"].replace("hunter2", "[hidden]")})

    pipeline = CallPipeline(record=MemoryRecord(), guards=bind_guards([hide]))
    setup = TurnSetup(
        model=ScriptedModel([call_reply(done("it is hunter2"))]), belt=belt_of(()), caller=CHILD, pipeline=pipeline
    )
    outcome = await run_agent(worker(), setup, "begin")
    assert seen == [{"result": "it is hunter2"}]
    assert outcome.answer == {"result": "it is [hidden]"}


async def test_every_other_call_of_a_subagent_is_blocked_by_its_guards_as_ever() -> None:
    pipeline = CallPipeline(record=MemoryRecord(), guards=bind_guards([guard(Block("not here"))]))
    model = ScriptedModel([call_reply(call("e", "echo", word="x")), call_reply(done())])
    outcome = await run_agent(
        worker(), TurnSetup(model=model, belt=belt_of((echo,)), caller=CHILD, pipeline=pipeline), "begin"
    )
    assert outcome.reason == "goal"
    assert "not here" in told_last(model)


def told_last(model: ScriptedModel) -> str:
    return "".join(part.text for part in model.asked[-1].messages[-1].content if isinstance(part, Text))


async def test_policy_cannot_take_the_end_away_and_every_decision_is_recorded() -> None:
    record = MemoryRecord()
    belt = belt_of(())
    setup = TurnSetup(
        model=ScriptedModel([call_reply(done())]), belt=belt, caller=CHILD, pipeline=CallPipeline(record=record)
    )
    outcome = await run_agent(worker(), setup, "begin")
    assert outcome.reason == "goal"
    (decided,) = [entry for entry in record.entries if isinstance(entry, Decided)]
    assert decided.verdict is not None
    assert (decided.verdict.tool, decided.verdict.decision) == ("complete_task", "allow")
    assert (decided.verdict.origin, decided.caller.parents) == ("agent worker", ("agent:main:main",))


async def test_a_tool_of_the_same_name_does_not_stand_in_for_the_end() -> None:
    @tool(effects=set())
    async def complete_task(result: str) -> str:
        """Pretend."""
        raise AssertionError

    outcome = await ran(ScriptedModel([call_reply(done())]), complete_task)
    assert outcome.reason == "goal"


async def test_the_verdicts_of_a_belt_with_its_end_are_all_there() -> None:
    belt = Completion(worker()).on(belt_of((echo,)))
    assert list(belt.verdicts) == ["echo", "complete_task"]
    assert (len(belt.verdicts), belt.steps("complete_task"), belt.verdicts.get("nobody")) == (2, (), None)
    assert set(belt.tools) == {"echo", "complete_task"}


async def test_markdown_that_cannot_be_made_is_told_as_json(caplog: pytest.LogCaptureFixture) -> None:
    def render(value: Any) -> str:
        raise ValueError("no")

    agent = worker(output={"n": {"type": "integer"}}, render=render)
    outcome = await ran(ScriptedModel([call_reply(done({"n": 1}))]), agent=agent)
    with caplog.at_level(logging.CRITICAL, "toolcrib"):
        result = result_of(agent, outcome)
    assert told(result) == '{\n  "n": 1\n}'


async def test_the_history_of_a_run_is_whole_however_it_ended() -> None:
    seen: list[list[Message]] = []

    def answer(request: Request) -> Replied:
        seen.append(list(request.history))
        return call_reply(call("a"), call("b")) if len(seen) == 1 else call_reply(done())

    await ran(FunctionModel(answer), agent=worker(max_turns=1))
    check_pairs(seen[-1])
    assert seen[-1][-1].role == "user"


async def test_an_agent_that_nobody_can_run_says_so() -> None:
    made = agent_tool(worker())
    ctx = Ctx(Call("1", "worker"), Caller(), CallState())
    with pytest.raises(ToolError, match="nothing that could run the agent worker"):
        await made.run(ctx, {})


@dataclass(frozen=True, slots=True)
class Heard:
    """What an activity told, in order."""

    partials: list[Result]


def test_activity_stays_small_whatever_is_heard() -> None:
    heard = Heard([])
    activity = Activity("worker", heard.partials.append, redact=lambda text: text.replace("s3cret", "***"))
    for number in range(100):
        made = Call(f"c{number}", "echo", {"word": "s3cret" * 1_000}, f"k{number}")
        activity.hear(ToolStarted(made, None))
        activity.hear(ToolProgress(made, Result.text("x" * 10_000)))
    for _ in range(1_000):
        activity.hear(TextDelta("word "))
    last = heard.partials[-1]
    assert len(last.details["activity"]) <= 25
    assert len(told(last)) < 16_000
    assert "s3cret" not in str(heard.partials)
    assert len(heard.partials) < 300


@pytest.mark.parametrize("before", ["x" * 4_780, "x" + " " * 4_790, "word " * 40, ""])
@pytest.mark.parametrize("behind", ["y" * 236, "y" * 4_796, " word" * 50, ""])
def test_activity_shows_no_half_of_a_secret(before: str, behind: str) -> None:
    heard = Heard([])
    activity = Activity("worker", heard.partials.append, redact=lambda text: text.replace("hunter2-hunter2", "***"))
    made = Call("c", "echo", {"word": f"{before}hunter2-hunter2{behind}"}, "k")
    activity.hear(ToolStarted(made, None))
    for size in range(len(behind) + 1):
        if size % 7 == 0:
            activity.hear(ToolProgress(made, Result.text(f"{before}hunter2-hunter2{behind[:size]}")))
    for letter in f"{before}hunter2-hunter2{behind}":
        activity.hear(TextDelta(letter))
    assert "unter" not in str(heard.partials)
    assert "ter2" not in str(heard.partials)
