"""What a subagent is doing, as its parent and the watchers see it: thoughts, calls and results, short and redacted."""

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from toolcrib.adapter.cut import cut
from toolcrib.adapter.trim import text_of
from toolcrib.define.display import strip
from toolcrib.define.event import (
    Compacted,
    Event,
    Replied,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Result, Text

__all__ = ["Activity"]

_MOST = 24  # steps that are shown at once
_LONGEST = 240  # characters of one step
_READ, _MARGIN = 20 * _LONGEST, 1_000  # characters that are looked at for it, and of the longest secret
_OFTEN = 160  # characters of a thought after which it is shown again while it grows
_SECRET = re.compile(r"pass(word|wd|phrase)?$|secret|token$|api[_-]?key|authorization|credential|private[_-]?key", re.I)

Json = dict[str, Any]


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
        self._steps: deque[Json] = deque(maxlen=_MOST)
        self._calls: dict[str, Json] = {}
        self._thought, self._shown = "", 0
        self.replies = 0

    def hear(self, event: Event) -> None:
        """Take an event of the turn."""
        match event:
            case TextDelta(text=text) | ThinkingDelta(text=text):
                self._think(text)
                return
            case Replied(message=message):
                self._replied(message)
            case ToolStarted(call=call, verdict=verdict):
                made: Json = {"kind": "call", "tool": call.name, "args": self._args(call), "status": "running"}
                if verdict is not None and verdict.decision != "allow":
                    made["decision"] = verdict.decision
                self._calls[call.key] = made
                self._steps.append(made)
            case ToolProgress(call=call, partial=partial):
                if (step := self._calls.get(call.key)) is None:
                    return
                step["progress"] = self._end_of(text_of(partial))
            case ToolFinished(call=call, result=result):
                if (step := self._calls.pop(call.key, None)) is None:
                    return
                step.pop("progress", None)
                step |= {"status": result.status, "result": self._short(text_of(result))}
            case Retrying(error=error):
                self._steps.append({"kind": "retry", "text": self._short(error)})
            case Compacted():
                self._steps.append({"kind": "note", "text": "the conversation was shortened"})
            case _:
                return
        self._show()

    def note(self, text: str) -> None:
        """Put in a step of the executor itself."""
        self._steps.append({"kind": "note", "text": self._short(text)})
        self._show()

    @property
    def steps(self) -> list[Json]:
        """The last steps, oldest first."""
        return [dict(step) for step in self._steps]

    def _think(self, text: str) -> None:
        self._thought += text
        if len(self._thought) - self._shown >= _OFTEN:
            self._shown = len(self._thought)
            self._show()

    def _replied(self, message: Message) -> None:
        self.replies += 1
        self._thought, self._shown = "", 0
        words = [part.text for part in message.content if isinstance(part, Text | Thinking) and part.text.strip()]
        if words:
            self._steps.append({"kind": "thought", "text": self._short("\n".join(words))})

    def _show(self) -> None:
        growing = self._end_of(_whole_words(self._thought[-2 * _READ :]))
        steps = [*self.steps, *([{"kind": "thought", "text": growing}] if growing else [])]
        source = next(iter(self._outside()), None)
        details = {"agent": self._name, "status": "running", "turns": self.replies, "activity": steps}
        self._tell(Result((Text("\n".join(map(_line, steps)), source),), details))

    def _short(self, text: str) -> str:
        # redacted before it is cut: half of a secret is not recognised
        known = self._redact(text[:_READ])
        return cut(_on_one_line(known[:-_MARGIN] if len(text) > _READ else known), _LONGEST)

    def _end_of(self, text: str) -> str:
        known = self._redact(text[-_READ:])
        return _on_one_line(known[_MARGIN:] if len(text) > _READ else known)[-_LONGEST:]

    def _args(self, call: Call) -> str:
        return self._short(json.dumps(_masked(call.args), ensure_ascii=False, default=str))


def _on_one_line(text: str) -> str:
    return " ".join(strip(text).split())


def _whole_words(text: str) -> str:
    """Return a text that grows without the word at its end: it may be half of a secret as yet."""
    words = text.rsplit(maxsplit=1)
    return text if text[-1:].isspace() or not words else text[: len(text) - len(words[-1])]


def _masked(value: Any) -> Any:
    """Return arguments without what stands under a name that secrets have."""
    if isinstance(value, Mapping):
        return {
            key: "[redacted]" if isinstance(key, str) and _SECRET.search(key) else _masked(each)
            for key, each in value.items()
        }
    return [_masked(each) for each in value] if isinstance(value, list | tuple) else value


_MARKS = {"running": "…", "ok": "✓", "error": "✗", "pending": "?"}


def _line(step: Json) -> str:
    if step["kind"] != "call":
        return f"- {step['text']}"
    said = step.get("result") or step.get("progress") or ""
    return f"- {_MARKS[step['status']]} {step['tool']} {step['args']}" + (f": {said}" if said else "")
