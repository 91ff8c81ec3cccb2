"""What others read of a subagent: what it is doing, how it ended, and what its parent reads of that."""

import json
import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from toolcrib.adapter.cut import cut
from toolcrib.adapter.trim import result_text
from toolcrib.define import event as events
from toolcrib.define.agent import Agent, answer_text
from toolcrib.define.display import strip
from toolcrib.define.message import Message, Thinking
from toolcrib.define.model import History
from toolcrib.define.result import Result, Text
from toolcrib.define.taint import join_sources, source_after
from toolcrib.lazy import dataclass, field, regex, replace

from .limits import REPEATED, drop_token

log = logging.getLogger("toolcrib")

_SHOWN_STEPS = 24  # steps that are shown at once
_STEP_CHARS = 240  # characters of one step
_READ, _MARGIN = 20 * _STEP_CHARS, 1_000  # characters that are looked at for it, and of the longest secret
_SHOW_EVERY_CHARS = 160  # characters of a thought after which it is shown again while it grows
_SECRET = regex(r"pass(word|wd|phrase)?$|secret|token$|api[_-]?key|authorization|credential|private[_-]?key", re.I)

_Json = dict[str, Any]


class Activity:
    """Hears the events of a subagent's turn and tells each change as a partial result.

    `redact` takes secrets out of texts; `outside` names where texts in the subagent's conversation came from.
    """

    def __init__(
        self,
        name: str,
        tell: Callable[[Result], None],
        *,
        redact: Callable[[str], str] = str,
        outside: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._name, self._tell, self._redact, self._outside = name, tell, redact, outside
        self._steps: deque[_Json] = deque(maxlen=_SHOWN_STEPS)
        self._calls: dict[str, _Json] = {}
        self._thought, self._shown = "", 0
        self.replies = 0

    def hear(self, event: events.Event) -> None:
        """Take an event of the turn."""
        match event:
            case events.TextDelta(text=text) | events.ThinkingDelta(text=text):
                self._thought += text
                if len(self._thought) - self._shown >= _SHOW_EVERY_CHARS:
                    self._shown = len(self._thought)
                    self._show()
                return
            case events.Replied(message=message):
                self._on_reply(message)
            case events.ToolStarted(call=call, verdict=verdict):
                args = self._short(json.dumps(_mask(call.args), ensure_ascii=False, default=str))
                made: _Json = {"kind": "call", "tool": call.name, "args": args, "status": "running"}
                if verdict is not None and verdict.decision != "allow":
                    made["decision"] = verdict.decision
                self._calls[call.key] = made
                self._steps.append(made)
            case events.ToolProgress(call=call, partial=partial):
                if (step := self._calls.get(call.key)) is None:
                    return
                step["progress"] = self._end_of(result_text(partial))
            case events.ToolFinished(call=call, result=result):
                if (step := self._calls.pop(call.key, None)) is None:
                    return
                step.pop("progress", None)
                step |= {"status": result.status, "result": self._short(result_text(result))}
            case events.Retrying(error=error):
                self._steps.append({"kind": "retry", "text": self._short(error)})
            case events.Compacted():
                self._steps.append({"kind": "note", "text": "the conversation was shortened"})
            case _:
                return
        self._show()

    def note(self, text: str) -> None:
        """Put in a step of the executor itself."""
        self._steps.append({"kind": "note", "text": self._short(text)})
        self._show()

    @property
    def steps(self) -> list[_Json]:
        """The last steps, oldest first."""
        return [dict(step) for step in self._steps]

    def _on_reply(self, message: Message) -> None:
        self.replies += 1
        self._thought, self._shown = "", 0
        words = [part.text for part in message.content if isinstance(part, Text | Thinking) and part.text.strip()]
        if words:
            self._steps.append({"kind": "thought", "text": self._short("\n".join(words))})

    def _show(self) -> None:
        growing = self._end_of(_drop_last_word(self._thought[-2 * _READ :]))
        steps = [*self.steps, *([{"kind": "thought", "text": growing}] if growing else [])]
        source = join_sources(self._outside()) or None
        details = {"agent": self._name, "status": "running", "turns": self.replies, "activity": steps}
        self._tell(Result((Text("\n".join(map(_line, steps)), source),), details))

    def _short(self, text: str) -> str:
        # redacted before it is cut: half of a secret is not recognised
        known = self._redact(text[:_READ])
        return cut(_on_one_line(known[:-_MARGIN] if len(text) > _READ else known), _STEP_CHARS)

    def _end_of(self, text: str) -> str:
        known = self._redact(text[-_READ:])
        return _on_one_line(known[_MARGIN:] if len(text) > _READ else known)[-_STEP_CHARS:]


def _on_one_line(text: str) -> str:
    return " ".join(strip(text).split())


def _drop_last_word(text: str) -> str:
    """Return a text that grows without the word at its end: it may be half of a secret as yet."""
    words = text.rsplit(maxsplit=1)
    return text if text[-1:].isspace() or not words else text[: len(text) - len(words[-1])]


def _mask(value: Any) -> Any:
    """Return arguments without what stands under a name that secrets have."""
    if isinstance(value, Mapping):
        return {
            key: "[redacted]" if isinstance(key, str) and _SECRET.search(key) else _mask(each)
            for key, each in value.items()
        }
    return [_mask(each) for each in value] if isinstance(value, list | tuple) else value


_MARKS = {"running": "…", "ok": "✓", "error": "✗", "pending": "?"}


def _line(step: _Json) -> str:
    if step["kind"] != "call":
        return f"- {step['text']}"
    text = step.get("result") or step.get("progress") or ""
    return f"- {_MARKS[step['status']]} {step['tool']} {step['args']}" + (f": {text}" if text else "")


_HANDED_IN: Mapping[str, str] = {
    "rescued": "then handed in what it had, which may be incomplete",
    "spoken": "handed in nothing, so its last words stand here as its answer",
}
_TEXT_CHARS, _RESULT_CHARS, _QUOTED_TEXTS = 2_000, 800, 3  # of the report of a run that did not finish

# Why a run ended. One that somebody stopped leaves as cancelled, like any other body; what it had is reported first.
Reason = Literal["goal", "rescued", "spoken", "timeout", "max_turns", "budget", "aborted", "no_completion", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: `answer` are the checked arguments of `complete_task`, `why` says what kept it from its goal.

    `gathered` is what it wrote and saw by then; `outside` where texts that it read came from; `end` how its first
    loop ended, before any rescue.
    """

    reason: Reason
    why: str = ""
    answer: Mapping[str, Any] | None = None
    gathered: tuple[Text, ...] = ()
    outside: tuple[str, ...] = ()
    turns: int = 0
    usage: events.Usage = field(default_factory=events.Usage)
    cost: float | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    end: events.Ending = "done"


def ending_of(outcome: Outcome) -> events.Ending:
    """Return how a turn of its own, in which the run took place, ended."""
    if outcome.answer is not None:
        return "done"
    return "no_completion" if outcome.end == "done" else outcome.end


def gather(history: History, agent: str) -> Iterator[Text]:
    """Yield the last words of an agent's conversation and the last results in it that differ, oldest first."""
    names = {call.id: call.name for message in history for call in message.calls}
    texts: list[Text] = []
    results: list[Text] = []
    for message in reversed(list(history)):
        words = [part for part in message.content if isinstance(part, Text) and part.text.strip() and part != REPEATED]
        if not words or message.role == "user":
            continue
        source = join_sources(part.source for part in words if part.source) or None
        text = "\n".join(part.text for part in words)
        if message.role == "assistant" and len(texts) < _QUOTED_TEXTS:
            texts.append(Text(cut(text, _TEXT_CHARS), _source(agent, history.outside)))
        elif message.role == "tool" and len(results) < _QUOTED_TEXTS:
            name = names.get(message.call_id or "", "a tool")
            result = Text(f"[{name}, {message.status}] {cut(text, _RESULT_CHARS)}", source)
            if drop_token(result) not in map(drop_token, results):
                results.append(result)
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
    }
    if outcome.answer is None:
        sentence = f"{agent.name} did not finish: {outcome.why}"
        known = "what it had until then follows" if outcome.gathered else "it had found nothing yet"
        error = Result.error(sentence, code=outcome.reason, details=details)
        content = (Text(f"{sentence} ({known})"), *outcome.gathered)
        return error._replace(content=content, display=f"{title} did not finish: {outcome.why}")
    text = _render(agent, outcome.answer)
    took = f"{outcome.turns} {'reply' if outcome.turns == 1 else 'replies'}"
    details["output"] = to_jsonable_python(outcome.answer[agent.output_name], fallback=str)
    content = (Text(text, _source(agent.name, outcome.outside)),)
    if how := _HANDED_IN.get(outcome.reason):
        note = f"[{outcome.reason}: {outcome.why}; {agent.name} {how}]"
        display = f"**{title}** {how}: {outcome.why}\n\n{text}"
        return Result((Text(note), *content), details, display=display)
    return Result(content, details, display=f"**{title}** finished after {took}\n\n{text}")


def _source(agent: str, outside: Iterable[str]) -> str | None:
    """Return how words of an agent are marked: they may go back to what it read, and stay marked as from there."""
    return source_after(f"agent:{agent}", outside)


def _render(agent: Agent, answer: Mapping[str, Any]) -> str:
    try:
        return answer_text(agent, answer)
    except Exception:  # the author's own function: an answer is not lost by it
        log.exception("agent %s could not write its answer as Markdown; it is shown as JSON", agent.name)
        return answer_text(replace(agent, render=None), answer)
