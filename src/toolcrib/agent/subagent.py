"""An Agent becomes a tool like any other; its body is a turn of its own, which ends with `complete_task` or a true why.

wrapped      Agent -> Tool: kind think, its inputs as parameters, Markdown out, progress on the way
worked       the executor: belt with complete_task -> loop -> one last reply after a limit -> Outcome
result_of    Outcome -> Result: an answer is ok, a limit or a failure is an error with what was gathered until then
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from toolcrib.adapter.cut import cut
from toolcrib.define.agent import Agent
from toolcrib.define.context import Ctx
from toolcrib.define.event import Ending, TurnFinished, Usage
from toolcrib.define.history import History
from toolcrib.define.hook import Block, Hook
from toolcrib.define.mandate import COMPLETE, answer_text, inputs_shape
from toolcrib.define.message import Message
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool

from .activity import Activity
from .compact import Shorter, compacted, is_due
from .completion import Completion
from .hooks import Ready, ready_guards
from .inbox import Inbox
from .journal import Journal
from .limits import Limits
from .loop import Loop, Setup, Shorten, turn_above
from .outside import outside_guard

__all__ = ["GRACE", "Outcome", "Reason", "result_of", "worked", "wrapped"]

log = logging.getLogger("toolcrib")

GRACE = 60.0  # seconds for the last reply
_LONGEST_RUN = 7 * 24 * 3600.0  # the executor has a clock of its own, which stands still while a human is asked
_LONGEST_TEXT, _LONGEST_RESULT, _MOST_TEXTS = 2_000, 800, 3  # of what is told of a run that did not finish

# Why a run ended. One that somebody stopped leaves as cancelled, like any other body.
Reason = Literal["goal", "rescued", "timeout", "max_turns", "budget", "no_completion", "error"]

_REASONS: Mapping[Ending, Reason] = {
    "done": "no_completion",
    "repeating": "no_completion",
    "turns": "max_turns",
    "timeout": "timeout",
    "tokens": "budget",
    "cost": "budget",
}
_LAST_WORD = (
    f"{{why}} This is your last reply: call {COMPLETE} now, with the best answer you can give from what you have, and "
    "say in it what is missing. Nothing else is heard any more."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: `answer` are the checked arguments of `complete_task`, `why` says what kept it from its goal.

    `gathered` is what it had said and seen by then; `outside` where texts that it read came from.
    """

    reason: Reason
    why: str = ""
    answer: Mapping[str, Any] | None = None
    gathered: tuple[Text, ...] = ()
    outside: tuple[str, ...] = ()
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    steps: tuple[Mapping[str, Any], ...] = ()


def wrapped(agent: Agent) -> Tool:
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
        timeout=_LONGEST_RUN,
    )


async def worked(
    agent: Agent, setup: Setup, query: str, tell: Callable[[Result], None], grace: float = GRACE
) -> Outcome:
    """Run an agent from its first message to its end, with one last reply when it would end without an answer."""
    completion = Completion(agent)
    history = History([Message(role="user", content=(Text(query),))])
    if (above := turn_above()) is not None:
        history.outside.update(above.history.outside)  # what its parent has read may be in the query
    loop: Loop
    activity = Activity(agent.name, tell, redact=setup.window.redact, outside=lambda: loop.history.outside)
    guards = setup.window.guards
    if setup.after_outside:
        guards = (outside_guard(setup.after_outside, lambda: loop.history.outside), *guards)
    setup = replace(
        setup,
        belt=completion.on(setup.belt),
        window=replace(setup.window, guards=guards),
        is_done=lambda: completion.answer is not None,
        shorten=_shortener(setup),
    )
    journal = Journal(setup.window.record)
    loop = Loop(setup, history, journal, activity.hear)
    end = await loop.run()
    ends, reason = [end], _reason(end)
    if completion.answer is None and reason != "error" and loop.spent.above_budget() is None:
        activity.note(f"{_why(end)}; it has one last reply")
        loop = Loop(_last(setup, completion, grace), loop.history, journal, activity.hear)
        loop.history.append(Message(role="user", content=(Text(_LAST_WORD.format(why=_sentence(_why(end)))),)))
        ends.append(await loop.run())
        rescued: Reason = "rescued"
    else:
        rescued = "goal"
    return Outcome(
        reason=reason if completion.answer is None else rescued,
        why="" if completion.answer is not None and rescued == "goal" else _why(end),
        answer=completion.answer,
        gathered=() if completion.answer is not None else tuple(_gathered(loop.history)),
        outside=tuple(loop.history.outside),
        turns=end.steps,
        usage=sum((each.usage for each in ends), Usage()),
        cost=None if any(each.cost is None for each in ends) else sum(each.cost or 0.0 for each in ends),
        steps=tuple(activity.steps),
    )


def _last(setup: Setup, completion: Completion, grace: float) -> Setup:
    """Return the setup of the last reply: `complete_task` is all that the model is shown, and all that is run."""
    only = _only_completion()
    return replace(
        setup,
        shown=(completion.tool,),
        window=replace(setup.window, guards=(only, *setup.window.guards)),
        limits=Limits(turns=1, seconds=grace, repeats=0),
        inbox=Inbox(),
    )


def _only_completion() -> Ready:
    async def last_word(ctx: Ctx, args: Mapping[str, Any]) -> Block | None:
        """Keep everything else from running behind the limit."""
        return None if ctx.call.name == COMPLETE else Block(f"only {COMPLETE} is heard in the last reply")

    (guard,) = ready_guards([Hook(run=last_word)])
    return guard


def _shortener(setup: Setup) -> Shorten:
    hopeless = 0  # tokens of a history from which nothing could be taken

    async def shorten(history: History, force: bool) -> Shorter | None:
        nonlocal hopeless
        if not force and (history.tokens <= hopeless or not is_due(history.tokens, setup.model.card.window)):
            return None
        shorter = await compacted(history, setup.model, force=force, patience=setup.patience)
        if shorter is None:
            hopeless = history.tokens * 11 // 10
            return None
        shorter.history.outside.update(history.outside)
        return shorter

    return shorten


def _reason(end: TurnFinished) -> Reason:
    return _REASONS.get(end.reason, "error")


def _why(end: TurnFinished) -> str:
    return end.sentence or f"it stopped calling tools and did not call {COMPLETE}"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def _gathered(history: History) -> Iterator[Text]:
    """Yield the last words of a conversation and the last results in it, oldest first."""
    names = {call.id: call.name for message in history for call in message.calls}
    texts: list[Text] = []
    results: list[Text] = []
    for message in reversed(list(history)):
        words = [part for part in message.content if isinstance(part, Text) and part.text.strip()]
        if not words or message.role == "user":
            continue
        source = next((part.source for part in words if part.source), None)
        said = "\n".join(part.text for part in words)
        if message.role == "assistant" and len(texts) < _MOST_TEXTS:
            texts.append(Text(cut(said, _LONGEST_TEXT), source))
        elif message.role == "tool" and len(results) < _MOST_TEXTS:
            name = names.get(message.call_id or "", "a tool")
            results.append(Text(f"[{name}, {message.status}] {cut(said, _LONGEST_RESULT)}", source))
    yield from reversed(texts)
    yield from reversed(results)


def result_of(agent: Agent, outcome: Outcome) -> Result:
    """Return what the parent reads: the answer in Markdown, or why there is none and what was gathered until then."""
    title = agent.label or agent.name
    details: dict[str, Any] = {
        "agent": agent.name,
        "reason": outcome.reason,
        "turns": outcome.turns,
        "tokens": outcome.usage.input + outcome.usage.output,
        "cost": outcome.cost,
        "activity": list(outcome.steps),
        "format": "markdown",
    }
    if outcome.answer is None:
        sentence = f"{agent.name} did not finish: {outcome.why}"
        details["display"] = f"**{title}** did not finish: {outcome.why}"
        known = "what it had until then follows" if outcome.gathered else "it had found nothing yet"
        error = Result.error(sentence, code=outcome.reason, details=details)
        return error._replace(content=(Text(f"{sentence} ({known})"), *outcome.gathered))
    text = _rendered(agent, outcome.answer)
    took = f"{outcome.turns} {'reply' if outcome.turns == 1 else 'replies'}"
    details["output"] = to_jsonable_python(outcome.answer[agent.output_name], fallback=str)
    # what it says may go back to what it read: it stays marked as coming from there
    source = f"agent:{agent.name} after {outcome.outside[0]}" if outcome.outside else None
    content = (Text(text, source),)
    if outcome.reason == "rescued":
        note = f"[rescued: {outcome.why}; {agent.name} then handed in what it had, which may be incomplete]"
        details["display"] = f"**{title}** was rescued: {outcome.why}\n\n{text}"
        return Result((Text(note), *content), details)
    details["display"] = f"**{title}** finished after {took}\n\n{text}"
    return Result(content, details)


def _rendered(agent: Agent, answer: Mapping[str, Any]) -> str:
    try:
        return answer_text(agent, answer)
    except Exception:  # the author's own function: an answer is not lost by it
        log.exception("agent %s could not write its answer as Markdown; it is told as JSON", agent.name)
        return answer_text(replace(agent, render=None), answer)
