"""How far a request has come: read from the history, which is all the memory there is.

A request begins behind the last finished answer, or behind a call that was stopped: what a person broke off is not
taken up again by itself. Its plans are played again from their beginning at every step: what they ask for and the
history has already is handed to them, and the first thing it does not have is the next call.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from toolcrib.define.errors import ArgumentError
from toolcrib.define.history import History
from toolcrib.define.message import Call, Message
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool

from .answers import Found, Outcome, found_in, joined, rows_of
from .requests import asks_again, starts_over

__all__ = ["COMPLETE", "Course", "Seen", "Step", "course_of"]

COMPLETE = "complete_task"
_BROKEN = frozenset({"length", "refused", "error", "aborted"})
_REMEMBERED = 60  # messages before the request in which `it` and `the first file` are looked for
_CHANGING = frozenset({"write", "edit", "apply_patch", "exec", "process"})
_STOPPED = (  # how the answers begin of calls that the end of a turn cut short
    "this call was not run: ", "it was stopped while it ran", "it ran to its end, and what came of it was not kept",
    "what came of this call was never kept",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """A call that a plan wants made."""

    name: str
    args: Mapping[str, Any]


@dataclass(slots=True)
class Seen:
    """What was looked at so far: the file that `it` is, the files and the lines that were found."""

    file: str = ""
    files: tuple[str, ...] = ()
    places: tuple[Found, ...] = ()

    def note(self, step: Step, outcome: Outcome) -> None:
        """Take in what came of a call."""
        path = str(step.args.get("path") or ".")
        if not outcome.ok:
            return
        if step.name in ("read", "write", "edit"):
            self.file = path
            if path not in self.files:
                self.files, self.places = (path,), ()
        elif step.name == "grep":
            found, _ = found_in(outcome, path)
            if found:
                self.places, self.files = tuple(found), tuple(dict.fromkeys(each.path for each in found))
                self.file = found[0].path
        elif step.name in ("find", "ls"):
            rows, _ = rows_of(outcome)
            files = tuple(joined(path, row) for row in rows if not row.endswith("/") and " -> " not in row)
            if files:
                self.files, self.places, self.file = files, (), files[0]


@dataclass(slots=True)
class Course:
    """A request on its way: what was asked, what was done for it, and what was seen before."""

    said: tuple[str, ...]
    done: Sequence[tuple[Call, Outcome]]
    steps: int
    is_first: bool
    seen: Seen
    is_complete: bool = False
    _left: dict[bytes, deque[Outcome]] = field(default_factory=dict)
    _known: dict[bytes, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for call, outcome in self.done:
            self._left.setdefault(_key(call.name, call.args), deque()).append(outcome)

    def outcome(self, step: Step, tools: Mapping[str, Tool]) -> Outcome | None:
        """Return what came of a step, None when it has still to be made.

        What failed is not tried again, nor is what can only give the same as before.
        """
        key = _key(step.name, step.args)
        if waiting := self._left.get(key):
            outcome = waiting.popleft()
            if step.name in _CHANGING and outcome.ok:
                self._known = {each: known for each, known in self._known.items() if not known.ok}
            else:
                self._known[key] = outcome
            return outcome
        if known := self._known.get(key):
            return known
        return _refused(step, tools)


def course_of(history: History, *, is_child: bool = False) -> Course:
    """Return how far the last request of a history has come; that of a subagent, a child, goes on until it is done."""
    start = _start(history, is_child=is_child)
    said: list[str] = []
    done: list[tuple[Call, Outcome]] = []
    steps = 0
    for message in history.since(start):
        if message.role == "user" and (text := _text(message).strip()):
            text = _asked_before(history, start, text)
            said = [text] if starts_over(text) else [*said, text]
        elif message.role == "assistant":
            if message.finish in _BROKEN:
                said.clear()
            steps += bool(message.calls)
    done += _exchanges(history.since(start))
    seen = Seen()
    for call, outcome in _exchanges(history.since(max(0, start - _REMEMBERED))[: min(start, _REMEMBERED)]):
        seen.note(Step(call.name, call.args), outcome)
    is_complete = any(call.name == COMPLETE and outcome.ok for call, outcome in done)
    return Course(tuple(said), done, steps, is_first=_is_first(history, start), seen=seen, is_complete=is_complete)


def _start(history: History, *, is_child: bool) -> int:
    """Return where the last request begins: behind the last answer in words that had no calls, or a stopped call."""
    at = len(history)
    while at and not (_is_answer(history[at - 1]) or (not is_child and _is_stopped(history[at - 1]))):
        at -= 1
    return at


def _is_answer(message: Message) -> bool:
    return message.role == "assistant" and not message.calls and message.finish == "stop"


def _is_stopped(message: Message) -> bool:
    if message.role != "tool" or message.status == "ok" or not message.content:
        return False
    last = message.content[-1]
    return isinstance(last, Text) and last.text.startswith(_STOPPED)


def _asked_before(history: History, start: int, text: str) -> str:
    """Return what a message asks for: `again` asks for what was asked last."""
    if not asks_again(text):
        return text
    before = (
        _text(each).strip() for each in reversed(history.since(max(0, start - _REMEMBERED))) if each.role == "user"
    )
    return next((each for each in before if each and not asks_again(each)), text)


def _is_first(history: History, start: int) -> bool:
    return not any(history[at].role == "assistant" and not history[at].calls for at in range(start))


def _exchanges(messages: Sequence[Message]) -> Iterator[tuple[Call, Outcome]]:
    """Give the calls that were answered, in the order of the answers."""
    asked: dict[str, Call] = {}
    for message in messages:
        if message.role == "assistant":
            asked |= {call.id: call for call in message.calls}
        elif message.role == "tool" and (call := asked.pop(message.call_id or "", None)):
            yield call, Outcome(_text(message), message.status == "ok")


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.content if isinstance(part, Text))


def _key(name: str, args: Mapping[str, Any]) -> bytes:
    return name.encode() + orjson.dumps(dict(args), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)


def _refused(step: Step, tools: Mapping[str, Tool]) -> Outcome | None:
    """Return why a step cannot be made at all, None when it can."""
    tool = tools.get(step.name)
    if tool is None:
        return Outcome(f"the tool `{step.name}` is not on this belt, so it cannot be used here", ok=False)
    try:
        tool.check(step.args)
    except ArgumentError as error:
        return Outcome(str(error), ok=False)
    return None
