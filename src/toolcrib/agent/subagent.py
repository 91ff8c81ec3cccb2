"""An Agent becomes a tool like any other; its body is a turn of its own, which ends with `complete_task` or a true why.

agent_tool   Agent -> Tool: kind think, its inputs as parameters, Markdown out, progress on the way
run_agent    the executor: belt with complete_task -> loop -> one last reply after a limit -> Outcome
run_task     the same as a turn in a session of its own

A subagent says by `complete_task` that it is done; neither policy nor a guard takes that away. Guards of plugins are
shown it like any other call, and may rewrite the answer within its schema. What else they say of it is logged and does
not count: it has no effects, and an agent that could not end would go on until a limit.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic_core import to_jsonable_python

from toolcrib.adapter.cut import cut
from toolcrib.define.agent import COMPLETE, OUTCOME, WORKING, Agent, completion_shape, inputs_shape
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.event import Ending, Event, TurnFinished, Usage
from toolcrib.define.log import Noted, Said
from toolcrib.define.message import Message
from toolcrib.define.model import History
from toolcrib.define.plugin import Block, Hook, Rewrite
from toolcrib.define.result import Result, Text
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool
from toolcrib.define.turn import AgentTask, Limits
from toolcrib.define.verdict import Selection, Verdict, Verdicts
from toolcrib.lazy import dataclass, field, replace
from toolcrib.policy.taint import TaintRules

from .compact import shortener
from .hooks import BoundHook, bind_guards
from .loop import Loop, TurnSetup, current_turn
from .mailbox import Inbox
from .retry import ignore
from .session_log import Journal
from .subagent_report import Activity, Outcome, Reason, ending_of, gather, words_of

log = logging.getLogger("toolcrib")

_DESCRIPTION = (
    "Hand in your answer and end your work. Call it once, when you are done or know that you cannot be; what you say "
    "outside of it may not reach whoever asked you."
)


class Completion:
    """The `complete_task` of one run: the first answer that fits is `answer`, None until there is one."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent.name
        self.answer: Mapping[str, Any] | None = None
        self.tool = Tool(
            name=COMPLETE,
            description=_DESCRIPTION,
            shape=_shape_of(agent),
            run=self._keep,
            effects=frozenset(),
            source="agent",
        )

    async def _keep(self, ctx: Ctx, args: Mapping[str, Any]) -> Result:
        if self.answer is not None:
            return Result.text("an answer was handed in already; this one was not taken")
        self.answer = args
        return Result.text("the answer was handed in")

    def on(self, belt: Selection) -> Selection:
        """Return the belt with this tool on it: still called through `invoke`, with a decision on record."""
        verdict = completion_verdict(self._agent)
        return replace(
            belt,
            tools=MappingProxyType({**belt.tools, COMPLETE: self.tool}),
            verdicts=Verdicts(
                {**dict.fromkeys(belt.verdicts), COMPLETE: None},
                lambda name: verdict if name == COMPLETE else belt.verdicts[name],
            ),
            steps=lambda name: () if name == COMPLETE else belt.steps(name),
        )

    def wrap_guards(self, guards: Iterable[BoundHook], belt: Selection) -> tuple[BoundHook, ...]:
        """Return the guards as they are asked about the calls of this run: none of them holds up its end."""
        wrapped: list[BoundHook] = []
        for guard in guards:
            if others := (guard.tools or frozenset(belt.tools)) - {COMPLETE}:
                wrapped.append(replace(guard, tools=others))
            if not guard.tools or COMPLETE in guard.tools:
                wrapped.append(replace(guard, run=self._wrap(guard), optional=True, tools=frozenset({COMPLETE})))
        return tuple(wrapped)

    def _wrap(self, guard: BoundHook) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def hear(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite | None:
            decision = await guard.run(ctx, args)
            if decision is None:
                return None
            why = f"returned {type(decision).__name__}"
            if isinstance(decision, Rewrite):
                try:
                    self.tool.check({**args, **decision.args})
                except ArgumentError as error:
                    why = f"rewrote it so that it does not fit ({error})"
                else:
                    return decision
            log.warning("guard %s %s about the end of %s, which counts all the same", guard.name, why, self._agent)
            return None

        return hear


_CACHED_SHAPES = 256
_shapes: dict[int, tuple[Agent, Shape]] = {}


def _shape_of(agent: Agent) -> Shape:
    """Return the shape of an agent's answer, made once: a run costs a thousandth of what making it does."""
    agent_known, shape = _shapes.get(id(agent), (None, None))
    if agent_known is not agent or shape is None:
        shape = completion_shape(agent)
        if len(_shapes) >= _CACHED_SHAPES:
            _shapes.clear()
        _shapes[id(agent)] = agent, shape
    return shape


def completion_verdict(agent: str) -> Verdict:
    """Return the decision on `complete_task` for every subagent: no rule can speak about it."""
    return Verdict(
        tool=COMPLETE,
        decision="allow",
        layer=None,
        rule=None,
        origin=f"agent {agent}",
        reason="a subagent may always say that it is done",
        remedy=None,
    )


GRACE = 60.0  # seconds for the last reply
_NOTE_CHARS = 2_000  # characters of an answer in the note about it; the whole of it is in the call
_RUN_SECONDS = 7 * 24 * 3600.0  # the executor has a clock of its own, which stands still while a human is asked


_REASONS: Mapping[Ending, Reason] = {
    "done": "no_completion",
    "repeating": "no_completion",
    "turns": "max_turns",
    "timeout": "timeout",
    "tokens": "budget",
    "cost": "budget",
    "stopped": "aborted",
}
_LAST_REPLY = (
    f"{{why}} This is your last reply: call {COMPLETE} now, with the best answer you can give from what you have, and "
    "say in it what is missing. Nothing else is heard any more."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListeners:
    """Who follows a run as it goes on: `tell` its parent, `emit` those who follow it, `journal` its own log.

    `inputs` are those it was started with, as JSON: a run that was cut off is gone on with from its log alone.
    """

    tell: Callable[[Result], None] = ignore
    emit: Callable[[Event], None] = ignore
    journal: Journal | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)


def agent_tool(agent: Agent) -> Tool:
    """Return the agent as a tool. Whatever runs it comes in through the caller's ports; it knows no configuration."""

    async def body(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        return await ctx.ports.perform(agent, ctx, args)

    return Tool(
        name=agent.name,
        description=agent.description,
        shape=inputs_shape(agent),
        run=body,
        label=agent.label,
        effects=frozenset(),
        source="agent",
        timeout=_RUN_SECONDS,
        markdown=True,
    )


async def run_agent(
    agent: Agent, setup: TurnSetup, start: str | History, listeners: RunListeners | None = None, grace: float = GRACE
) -> Outcome:
    """Run an agent from its first message, or from where its log stands, to its end.

    It has one last reply when it would end without an answer. Cancelled, it leaves as cancelled, and reported before
    what it had.
    """
    run = _Run(agent, setup, start, listeners or RunListeners())
    try:
        return await run.run_agent(grace)
    except asyncio.CancelledError:
        run.report_abort()
        raise


async def run_task(
    task: AgentTask, setup: TurnSetup, history: History, journal: Journal, emit: Callable[[Event], None]
) -> TurnFinished:
    """Let an agent work in a session of its own: its answer is what the turn says."""
    listeners = RunListeners(emit=emit, journal=journal, inputs=plain_inputs(task.inputs))
    outcome = await run_agent(task.agent, setup, history, listeners)
    text, reason = words_of(task.agent, outcome), ending_of(outcome)
    if reason == "done" and setup.send is not None:
        text = await setup.send(text)
    sentence = "" if reason == "done" else outcome.why
    end = TurnFinished(reason, text, sentence, outcome.turns, outcome.usage, outcome.cost)
    emit(end)
    return end


def plain_inputs(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked inputs as JSON, to be kept and checked again."""
    plain: dict[str, Any] = to_jsonable_python(dict(args), fallback=str)
    return plain


class _Run:
    """One run: its end, its journal and the loop it is in."""

    def __init__(self, agent: Agent, setup: TurnSetup, start: str | History, listeners: RunListeners) -> None:
        self.agent, self.listeners = agent, listeners
        self.journal = listeners.journal or Journal(setup.pipeline.record)
        history = start if isinstance(start, History) else History([self._say(start)])
        if (above := current_turn()) is not None:
            history.outside.update(above.history.outside)  # what its parent has read may be in the query
        self.completion = Completion(agent)
        self.activity = Activity(
            agent.name, listeners.tell, redact=setup.pipeline.redact or str, outside=lambda: self.loop.history.outside
        )
        guards = self.completion.wrap_guards(setup.pipeline.guards, setup.belt)
        self.setup = replace(
            setup,
            belt=self.completion.on(setup.belt),
            pipeline=replace(setup.pipeline, guards=guards),
            is_done=lambda: self.completion.answer is not None,
            send=None,  # what is sent is the answer, and that is in no loop's last words
            shorten=setup.shorten or shortener(setup.model, setup.retries, self.journal, setup.caller, emit=self._hear),
        )
        self.loop = Loop(self.setup, history, self.journal, self._hear)

    def _say(self, words: str) -> Message:
        message = Message(role="user", content=(Text(words),), at=self.journal.now())
        self.journal.add(Said(message))
        return message

    async def run_agent(self, grace: float) -> Outcome:
        self.journal.add(Noted(WORKING, {"agent": self.agent.name, "inputs": dict(self.listeners.inputs)}))
        end = await self.loop.run()
        ends, is_rescued = [end], False
        if self.completion.answer is None and _reason(end) != "error" and self.loop.spent.above_budget() is None:
            self.activity.note(f"{_why(end)}; it has one last reply")
            why = _why(end)
            self.loop.history.append(self._say(_LAST_REPLY.format(why=f"{why[:1].upper()}{why[1:].rstrip('.')}.")))
            setup = _last_setup(self.setup, self.completion, grace)
            self.loop = Loop(setup, self.loop.history, self.journal, self._hear)
            ends.append(await self.loop.run())
            is_rescued = self.completion.answer is not None
        reason: Reason = "rescued" if is_rescued else "goal" if self.completion.answer is not None else _reason(end)
        if self.completion.answer is None and reason != "error" and await self._hand_in(ends):
            reason = "spoken"
        outcome = self._outcome(reason, "" if reason == "goal" else _why(end), ends)
        await self._note(outcome)
        return outcome

    async def _hand_in(self, ends: Sequence[TurnFinished]) -> bool:
        """Hand in its last words, those of its last reply or of one that wanted no tool; return whether they fit.

        They go the way of every answer, past the guards and onto the record.
        """
        words = ends[-1].text if len(ends) > 1 else ""
        words = words or (ends[0].text if ends[0].reason == "done" else "")
        if not words.strip():
            return False
        await self.loop.run_aside(COMPLETE, {self.agent.output_name: words})
        return self.completion.answer is not None

    def report_abort(self) -> None:
        """Tell the parent what there is, for it gets no other report."""
        outcome = self._outcome("aborted", "it was stopped before it was done", [])
        if outcome.gathered:
            self.listeners.tell(Result(outcome.gathered, {"agent": self.agent.name, "reason": "aborted"}))

    async def _note(self, outcome: Outcome) -> None:
        """Write down how it ended; where that cannot be kept, the log says that it was cut off, and nothing false."""
        if self.listeners.journal is None:
            return
        text = cut(words_of(self.agent, outcome), _NOTE_CHARS)
        end = ending_of(outcome)
        self.journal.add(Noted(OUTCOME, {"reason": outcome.reason, "why": outcome.why, "end": end, "text": text}))
        try:
            await self.journal.flush()
        except ToolError:
            log.exception("the outcome of %s could not be kept", self.agent.name)

    def _hear(self, event: Event) -> None:
        self.activity.hear(event)
        if not isinstance(event, TurnFinished):  # of the loops: the end of the run is another
            self.listeners.emit(event)

    def _outcome(self, reason: Reason, why: str, ends: Sequence[TurnFinished]) -> Outcome:
        answer, history = self.completion.answer, self.loop.history
        return Outcome(
            reason=reason,
            why=why,
            answer=answer,
            gathered=() if answer is not None else tuple(gather(history, self.agent.name)),
            outside=tuple(history.outside),
            turns=ends[0].steps if ends else self.activity.replies,
            usage=sum((each.usage for each in ends), Usage()),
            cost=None if any(each.cost is None for each in ends) else sum(each.cost or 0.0 for each in ends),
            steps=tuple(self.activity.steps),
            end=ends[0].reason if ends else "stopped",
        )


def _last_setup(setup: TurnSetup, completion: Completion, grace: float) -> TurnSetup:
    """Return the setup of the last reply: `complete_task` is all that the model is shown, and all that is run."""

    async def last_word(ctx: Ctx, args: Mapping[str, Any]) -> Block | None:
        """Keep everything else from running behind the limit."""
        return None if ctx.call.name == COMPLETE else Block(f"only {COMPLETE} is heard in the last reply")

    return replace(
        setup,
        shown=(completion.tool,),
        pipeline=replace(setup.pipeline, guards=(*bind_guards([Hook(run=last_word)]), *setup.pipeline.guards)),
        limits=Limits(turns=1, seconds=grace, repeats=0),
        after_outside=TaintRules(),  # nobody is asked about what is not heard
        inbox=Inbox(),
    )


def _reason(end: TurnFinished) -> Reason:
    return _REASONS.get(end.reason, "error")


def _why(end: TurnFinished) -> str:
    return end.sentence or f"it stopped calling tools and did not call {COMPLETE}"
