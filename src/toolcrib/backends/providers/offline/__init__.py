"""The offline model: a small set of rules that drives the real tools when no language model is connected.

Words become tasks (requests), tasks become calls (plans), and what came of them becomes an answer (answers). How far a
request has come is read from the history (course), anew at every step.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import orjson

from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta, Usage
from toolcrib.define.history import estimate
from toolcrib.define.message import Call, Message
from toolcrib.define.model import ModelCard, Price, Request
from toolcrib.define.result import Text
from toolcrib.define.threads import in_thread

from .agents import tasks_of
from .answers import Answer, clipped
from .complete import completion
from .course import COMPLETE, Course, Step, course_of
from .plans import FOOTER, Desk, plan_of
from .tasks import Task

__all__ = ["CARD", "OfflineModel"]

CARD = ModelCard(provider="offline", model="rules", window=1_000_000, price=Price(input=0, output=0))

_MOST_STEPS = 12
_PIECE = 24  # characters of a delta, about


@dataclass(frozen=True, slots=True)
class _Move:
    """What is done next: calls, or an answer when there are none."""

    calls: tuple[Step, ...] = ()
    text: str = ""


class OfflineModel:
    """A model that needs no key and no network, because it is none: rules for plain requests in English."""

    def __init__(self, new_id: Callable[[], str] = lambda: f"call_{secrets.token_hex(6)}") -> None:
        self.card = CARD
        self._new_id = new_id
        self._thinking = asyncio.Lock()

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        """Answer the last request of the history, or ask for the next calls that it takes."""
        # in a thread, one at a time: the first takes as long as a hundred patterns take to compile
        async with self._thinking:
            move = await in_thread(_move, request)
        for piece in _pieces(move.text):
            yield TextDelta(piece)
        calls = tuple(Call(id=self._new_id(), name=step.name, args=dict(step.args)) for step in move.calls)
        for at, call in enumerate(calls):
            for piece in _pieces(orjson.dumps(call.args).decode()):
                yield CallDelta(at, call.name, piece)
        content = (Text(move.text),) if move.text else ()
        message = Message(
            role="assistant", content=content, calls=calls, finish="calls" if calls else "stop", by=CARD.name
        )
        yield Replied(message, Usage(input=request.history.tokens, output=estimate(message)))

    async def close(self) -> None:
        """Nothing is held."""


def _move(request: Request) -> _Move:
    tools = {} if request.choice == "none" else {tool.name: tool for tool in request.tools}
    course = course_of(request.history, is_child=COMPLETE in tools)
    if course.is_complete:
        return _Move(text="Done.")
    desk = Desk({name: tool for name, tool in tools.items() if name != COMPLETE}, course.seen)
    answers: list[Answer] = []
    for task in tasks_of(course.said, desk.tools, is_child=COMPLETE in tools):
        done = _played(task, course, desk, is_over=course.steps >= _MOST_STEPS)
        if not isinstance(done, Answer):
            return _Move(done)
        answers.append(done)
    answer = Answer(
        "\n\n".join(each.text for each in answers), tuple(place for each in answers for place in each.places)
    )
    if COMPLETE in tools and not any(call.name == COMPLETE for call, _ in course.done):
        trace = [
            clipped(f"{call.name} {orjson.dumps(dict(call.args), default=str).decode()}") for call, _ in course.done
        ]
        if last := completion(tools[COMPLETE], answer, trace):
            return _Move((last,))
    is_told = "OPENAI_API_KEY" in answer.text or not course.is_first or COMPLETE in tools
    return _Move(text=answer.text if is_told else f"{answer.text}\n\n{FOOTER}")


def _played(task: Task, course: Course, desk: Desk, *, is_over: bool) -> Answer | tuple[Step, ...]:
    """Play a plan as far as the history goes: return its answer, or the calls that it needs next."""
    plan = plan_of(task, desk)
    try:
        steps = next(plan)
        while True:
            known = [course.outcome(step, desk.tools) for step in steps]
            missing = tuple(step for step, outcome in zip(steps, known, strict=True) if outcome is None)
            if missing and is_over:
                return Answer(f"I stopped after {_MOST_STEPS} steps; what is above is what I have.")
            if missing:
                return missing
            outcomes = tuple(outcome for outcome in known if outcome is not None)
            for step, outcome in zip(steps, outcomes, strict=True):
                desk.seen.note(step, outcome)
            steps = plan.send(outcomes)
    except StopIteration as end:
        answer: Answer = end.value
        return answer


def _pieces(text: str) -> Iterator[str]:
    """Give a text in small pieces, cut behind blanks where there are any."""
    start = 0
    while start < len(text):
        end = text.find(" ", start + _PIECE // 2, start + _PIECE) + 1 or start + _PIECE
        yield text[start:end]
        start = end
