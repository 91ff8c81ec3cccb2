"""Model and tools until done: one turn, told as it happens.

    look at the limits -> ask the model -> write its reply down -> run its calls -> hear who steers -> again

It ends when a reply wants no tool and nobody has more to say, or with the reason why it could not go on. However it
ends, the history is whole: every call has an answer, and says so when it did not run.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from toolcrib.adapter.conversation import answer
from toolcrib.adapter.fence import new_token
from toolcrib.adapter.overflow import is_overflow
from toolcrib.adapter.trim import for_watchers, present
from toolcrib.define.caller import Caller
from toolcrib.define.context import Course, Ctx, Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.event import (
    CallEvent,
    Ending,
    Event,
    Received,
    Replied,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from toolcrib.define.history import History
from toolcrib.define.log import Ended, Said
from toolcrib.define.message import Call, Message
from toolcrib.define.model import Effort, Model, Request
from toolcrib.define.result import Result, Text
from toolcrib.define.verdict import Belt

from .clock import Clock, Unhurried
from .deadline import finished
from .inbox import Inbox
from .invoke import invoke
from .journal import Journal
from .keys import new_key
from .limits import Limits, Spent
from .line import Place, line_of
from .repeats import Repeats
from .retry import Patience, reply_to
from .window import Window

__all__ = ["Keep", "Loop", "Setup", "Shorten"]

log = logging.getLogger("toolcrib")

_How = tuple[Ending, str]
_DONE: _How = ("done", "")

# Makes a history shorter where that is due, or in any case; None when there is nothing to take away.
Shorten = Callable[[History, bool], Awaitable[History | None]]
# Says what is kept of an answer.
Keep = Callable[[Call, Message], Awaitable[Message]]

_MOST_CUT_OFF = 3  # replies in a row whose calls were cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Who answers, for whom, with which tools and within which bounds; who may steer it, and change what is kept."""

    model: Model
    belt: Belt
    caller: Caller
    window: Window
    ports: Ports = field(default_factory=Ports)
    limits: Limits = field(default_factory=Limits)
    patience: Patience = field(default_factory=Patience)
    system: str = ""
    effort: Effort = ""
    after_outside: frozenset[str] = frozenset()
    inbox: Inbox = field(default_factory=Inbox)
    shorten: Shorten | None = None
    keep: Keep | None = None


class Loop:
    """One turn. `run` it once; `history` is its conversation, also while it goes on."""

    def __init__(self, setup: Setup, history: History, journal: Journal, emit: Callable[[Event], None]) -> None:
        self.setup, self.history, self.journal = setup, history, journal
        self._emit, self._inbox = emit, setup.inbox
        self._clock = Clock(setup.limits.seconds)
        approver = setup.window.approver
        self._window = replace(
            setup.window,
            record=journal,
            watch=self._hear,
            approver=None if approver is None else Unhurried(approver, self._clock),
        )
        self._tools = tuple(setup.belt.tools.values())
        self._spent = Spent(setup.limits)
        self._repeats = Repeats(setup.limits.repeats)
        self._open: dict[str, _Open] = {}  # the calls of the last reply, by key, until their answers are in the history
        self._text = ""
        self._cut_off = 0
        self._has_overflowed = False
        self._stops = 0  # how often somebody had stopped the task before the turn began

    async def run(self) -> TurnFinished:
        """Answer what stands last in the history. Cancelled, it leaves as cancelled, after the history was mended."""
        self._stops = _stops()
        leaves: BaseException | None = None
        how: _How = ("error", "the turn failed unexpectedly; the operator's log has the details")
        try:
            how = await self._within_its_time()
        except asyncio.CancelledError as error:
            leaves, how = error, ("stopped", "stopped before it was done")
        except ToolError as error:  # the store says why nothing more can be kept
            how = ("error", str(error))
        except Exception as error:  # noqa: BLE001  it leaves again, once the history is whole
            leaves = error
        closing = asyncio.ensure_future(self._close(how))
        try:
            await finished(closing)
        except asyncio.CancelledError as error:
            leaves = leaves or error
        end = closing.result()
        self._emit(end)
        if leaves is not None:
            raise leaves
        return end

    async def _within_its_time(self) -> _How:
        try:
            async with self._clock.running():
                return await self._steps()
        except TimeoutError:
            if not self._clock.is_over:
                raise
            return (
                "timeout",
                f"stopped after {self.setup.limits.seconds:g} seconds, the limit of a turn (limits.seconds)",
            )

    async def _steps(self) -> _How:
        is_answered = False
        while True:
            if over := self._spent.over():
                return over
            if heard := self._inbox.next_steering() or (self._inbox.next_following() if is_answered else None):
                said = self._say(heard)
                if not self.journal.is_settled:
                    await finished(self.journal.settled())
                self._emit(Received(said))
            replied = await self._asked()
            message = self._taken(replied)
            self._heed_stop()
            ended = self._outcome(message, replied)
            if ended is None:
                if self._repeats.has(await self._ran()) and not self._inbox.has_steering:
                    return "repeating", f"stopped: the same calls gave the same results {self._repeats.most} times"
                self._heed_stop()
            elif ended != _DONE:
                if not await self._recovered(replied, ended):
                    return ended
            elif self._inbox.is_empty:
                return ended
            is_answered = ended == _DONE

    def _heed_stop(self) -> None:
        """Stop also when a body or a model has swallowed the word."""
        if _stops() > self._stops:
            raise asyncio.CancelledError

    async def _asked(self) -> Replied:
        setup = self.setup
        await self._shortened(force=False)
        request = Request(
            history=self.history,
            tools=self._tools,
            system=setup.system,
            effort=setup.effort,
            session=setup.caller.session or "",
        )
        return await reply_to(request, setup.model, self._emit, setup.patience)

    def _taken(self, replied: Replied) -> Message:
        """Take a reply into the history and the log; each of its calls gets the id and the key it keeps."""
        message = replied.message
        calls = _told_apart(message.calls)
        message = replace(message, calls=calls, at=self.journal.now())
        cost = self._spent.add(replied.usage, self.setup.model.card.price)
        self.history.append(message, replied.usage)
        self.journal.add(Said(message, replied.usage, cost))
        self._open = {call.key: _Open(call) for call in calls}
        self._text = "".join(part.text for part in message.content if isinstance(part, Text)) or self._text
        self._emit(replace(replied, message=message))
        return message

    def _outcome(self, message: Message, replied: Replied) -> _How | None:
        """Return how the turn ends with this reply, None when its calls are to be run or answered first."""
        match message.finish:
            case "stop" | "calls":
                self._cut_off = 0
                return None if message.calls else _DONE
            case "length":
                self._cut_off += 1
                self._answer("the reply was cut off at its longest; write less at once")
                if message.calls and self._cut_off < _MOST_CUT_OFF:
                    return None
                return "length", "the reply was cut off at its longest; say `go on` for the rest"
            case "refused":
                self._answer("the reply was refused")
                return "refused", replied.error or "the model refused to answer"
            case "error" | "aborted":
                self._answer("the reply broke off")
                return "error", replied.error or "the reply broke off"

    async def _recovered(self, replied: Replied, ended: _How) -> bool:
        """Return whether a reply that failed is worth another try: once, with less to read, when it was too much."""
        if self._has_overflowed or ended[0] != "error" or not is_overflow(replied, self.setup.model.card.window):
            return False
        self._has_overflowed = True
        return await self._shortened(force=True)

    async def _shortened(self, *, force: bool) -> bool:
        if self.setup.shorten is None:
            return False
        shorter = await self.setup.shorten(self.history, force)
        if shorter is not None:
            self.history = shorter
        return shorter is not None

    async def _ran(self) -> list[tuple[Call, Result]]:
        """Run the calls of a reply; their answers stand in the history in the order of the calls."""
        opened = list(self._open.values())
        if len(opened) == 1:
            results = [await self._one(opened[0], None)]
        else:
            running = [
                asyncio.ensure_future(self._one(*each)) for each in zip(opened, line_of(len(opened)), strict=True)
            ]
            try:
                results = await asyncio.gather(*running)
            except BaseException:
                # no body outlives its turn
                for each in running:
                    each.cancel()
                await asyncio.gather(*running, return_exceptions=True)
                raise
        self._answer()
        for still in opened:
            if still.failure is not None:
                raise still.failure
        return [(still.call, result) for still, result in zip(opened, results, strict=True)]

    async def _one(self, still: "_Open", place: Place | None) -> Result:
        """Run one call; its answer is kept before anybody is told of it."""
        setup, call = self.setup, still.call
        result = await invoke(setup.belt, Ctx(call, setup.caller, still.course, setup.ports), self._window, place)
        message = answer(call, result, self.journal.now())
        if setup.keep is not None:
            still.is_done = True
            message = await setup.keep(call, message)
        still.answer = message
        self.journal.add(Said(message))
        if not self.journal.is_settled:
            try:
                await finished(self.journal.settled())
            except ToolError as error:
                still.failure = error
        self._tell(still)
        return result

    def _hear(self, event: CallEvent) -> None:
        still = self._open.get(event.call.key)
        if still is None:
            return
        match event:
            case ToolStarted():
                still.is_shown = True
            case ToolProgress():
                still.partial = event.partial
            case ToolFinished():
                still.outcome = event  # told once the answer is kept
                return
        self._emit(event)

    def _tell(self, still: "_Open") -> None:
        """Tell what came of a call, once."""
        if still.is_shown and still.outcome is not None:
            still.is_shown = False
            if still.failure is not None:
                what = "what came of it could not be kept" if still.course.started else "it was not run"
                still.outcome = ToolFinished(still.call, Result.error(f"{what}: {still.failure}", code="unrecorded"))
            self._emit(still.outcome)

    def _answer(self, why: str = "") -> list["_Open"]:
        """Put the answers of all calls into the history, in their order; those that have none are told why."""
        answered = list(self._open.values())
        for still in answered:
            if still.answer is None:
                result = self._unanswered(still, why)
                still.answer = answer(still.call, result, self.journal.now())
                still.outcome = ToolFinished(still.call, for_watchers(result))
                self.journal.add(Said(still.answer))
            self.history.append(still.answer)
        self._open = {}
        return answered

    def _unanswered(self, still: "_Open", why: str) -> Result:
        """Return what is known of a call that never ran, or was stopped while it did."""
        if not still.course.started:
            return Result.error(f"this call was not run: {why}", code="not_run")
        if still.is_done:
            return Result.error(f"it ran to its end, and what came of it was not kept ({why})", code="interrupted")
        gathered = present(Result(still.partial.content), new_token(), self._window.limit).content
        words = f"it was stopped while it ran, so it may have done a part of its work ({why})"
        result = Result.error(words, code="interrupted")
        return result._replace(content=(*gathered, *result.content))

    def _say(self, message: Message) -> Message:
        message = replace(message, at=self.journal.now())
        self.history.append(message)
        self.journal.add(Said(message))
        return message

    async def _close(self, how: _How) -> TurnFinished:
        reason, sentence = how
        answered = self._answer(sentence or "the turn ended")
        unheard = [self._say(message) for message in self._inbox.close()]  # the next turn will hear it
        spent = self._spent
        self.journal.add(Ended(reason, sentence, spent.usage, spent.cost))
        failure: ToolError | None = None
        try:
            await self.journal.settled()
        except ToolError as error:
            failure = error
            if reason in ("done", "stopped"):
                reason, sentence = "error", str(error)
            log.exception("the end of a turn could not be kept")
        else:
            for message in unheard:
                self._emit(Received(message))
        for still in answered:
            still.failure = failure
            self._tell(still)
        return TurnFinished(reason, self._text, sentence, spent.steps, spent.usage, spent.cost)


class _Open:
    """A call of the last reply: how far it is, what it has shown so far, and its answer, once there is one.

    `is_shown` while watchers know that it was taken up and not what came of it; `is_done` when its body is through.
    """

    __slots__ = ("answer", "call", "course", "failure", "is_done", "is_shown", "outcome", "partial")

    def __init__(self, call: Call) -> None:
        self.call, self.course, self.partial = call, Course(), Result()
        self.is_shown = self.is_done = False
        self.answer: Message | None = None
        self.outcome: ToolFinished | None = None
        self.failure: ToolError | None = None


def _told_apart(calls: Iterable[Call]) -> tuple[Call, ...]:
    """Return the calls of a reply, each with a key, and with an id that no other of them has: all get their answer."""
    ids, keys, apart = set[str](), set[str](), list[Call]()
    for call in calls:
        id, key, number = call.id, call.key, 1
        while id in ids:
            number += 1
            id = f"{call.id}-{number}"
        if not key or key in keys:
            key = new_key()
        ids.add(id)
        keys.add(key)
        apart.append(call if id is call.id and key is call.key else call._replace(id=id, key=key))
    return tuple(apart)


def _stops() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
