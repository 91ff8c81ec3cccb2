"""How a run of a subagent ended, and what its parent reads of it.

ending_of    Outcome -> how a turn that ended so is called
gathered     a conversation -> its last words and results, for a run that did not finish
result_of    Outcome -> Result: an answer is ok, a limit or a failure is an error with what was gathered until then
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from toolcrib.adapter.cut import cut
from toolcrib.define.agent import Agent, answer_text
from toolcrib.define.event import Ending, Usage
from toolcrib.define.model import History
from toolcrib.define.result import Result, Text

__all__ = ["Outcome", "Reason", "ending_of", "gathered", "result_of", "words_of"]

log = logging.getLogger("toolcrib")

_LONGEST_TEXT, _LONGEST_RESULT, _MOST_TEXTS = 2_000, 800, 3  # of what is told of a run that did not finish

# Why a run ended. One that somebody stopped leaves as cancelled, like any other body; what it had is told before that.
Reason = Literal["goal", "rescued", "timeout", "max_turns", "budget", "aborted", "no_completion", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: `answer` are the checked arguments of `complete_task`, `why` says what kept it from its goal.

    `gathered` is what it had said and seen by then; `outside` where texts that it read came from; `end` how its first
    loop ended, before any rescue.
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
    end: Ending = "done"


def ending_of(outcome: Outcome) -> Ending:
    """Return how a turn of its own, in which the run took place, ended."""
    if outcome.answer is not None:
        return "done"
    return "no_completion" if outcome.end == "done" else outcome.end


def gathered(history: History, agent: str) -> Iterator[Text]:
    """Yield the last words of an agent's conversation and the last results in it, oldest first."""
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
            texts.append(Text(cut(said, _LONGEST_TEXT), _source(agent, history.outside)))
        elif message.role == "tool" and len(results) < _MOST_TEXTS:
            name = names.get(message.call_id or "", "a tool")
            results.append(Text(f"[{name}, {message.status}] {cut(said, _LONGEST_RESULT)}", source))
    yield from reversed(texts)
    yield from reversed(results)


def words_of(agent: Agent, outcome: Outcome) -> str:
    """Return the answer in Markdown, and that it was rescued; else what was gathered."""
    parts = result_of(agent, outcome).content if outcome.answer is not None else outcome.gathered
    return "\n".join(part.text for part in parts if isinstance(part, Text))


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
    content = (Text(text, _source(agent.name, outcome.outside)),)
    if outcome.reason == "rescued":
        note = f"[rescued: {outcome.why}; {agent.name} then handed in what it had, which may be incomplete]"
        details["display"] = f"**{title}** was rescued: {outcome.why}\n\n{text}"
        return Result((Text(note), *content), details)
    details["display"] = f"**{title}** finished after {took}\n\n{text}"
    return Result(content, details)


def _source(agent: str, outside: Iterable[str]) -> str | None:
    """Return how words of an agent are marked: they may go back to what it read, and stay marked as from there."""
    first = next(iter(outside), None)
    return f"agent:{agent} after {first}" if first else None


def _rendered(agent: Agent, answer: Mapping[str, Any]) -> str:
    try:
        return answer_text(agent, answer)
    except Exception:  # the author's own function: an answer is not lost by it
        log.exception("agent %s could not write its answer as Markdown; it is told as JSON", agent.name)
        return answer_text(replace(agent, render=None), answer)
