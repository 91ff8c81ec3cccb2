"""Model and tools until done: one turn, with its events as they happen.

    look at the limits -> ask the model -> write its reply down -> run its calls -> hear who steers -> again

It ends when a reply wants no tool and nobody has more to say, or with the reason why it could not go on. However it
ends, the history is whole: every call has an answer, and says so when it did not run.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

from toolcrib.adapter.conversation import answer_message
from toolcrib.adapter.fence import new_token
from toolcrib.adapter.reply import is_overflow
from toolcrib.adapter.trim import for_watchers, present
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
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
    Warned,
)
from toolcrib.define.later import LaterWaiter, PendingCall
from toolcrib.define.log import Ended, Said
from toolcrib.define.message import Call, Message, join_text
from toolcrib.define.model import Choice, Effort, History, Model, Request
from toolcrib.define.quota import Reservation
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool
from toolcrib.define.turn import Limits
from toolcrib.define.verdict import Selection
from toolcrib.lazy import dataclass, field, replace
from toolcrib.policy.taint import TaintRules

from .compact import ShortHistory
from .deadline import Clock, Unhurried, UnhurriedPeople, UnhurriedWaiter, wait_to_end
from .declare import Declarations
from .hooks import taint_guards
from .invoke import invoke
from .limits import Repeats, Spent, reserve_for
from .line import CallInTurn, CallSlot, call_slots, new_key, with_unique_ids
from .mailbox import Inbox, OrderedEmitter
from .outcome import failure_result
from .pipeline import CallPipeline
from .retry import Retries, reply_to
from .session_log import Journal

log = logging.getLogger("toolcrib")

_How = tuple[Ending, str]
_DONE: _How = ("done", "")

# Makes a history shorter where that is due, or in any case; None when there is nothing to take away.
Shorten = Callable[[History, bool], Awaitable[ShortHistory | None]]
Keep = Callable[[Call, Message], Awaitable[Message]]  # says what is kept of an answer
Send = Callable[[str], Awaitable[str]]  # says what the one who asked reads in the end

_CUT_OFF_REPLIES = 3  # replies in a row whose calls were cut off

_WORDS_AFTER: frozenset[Ending] = frozenset({"repeating", "turns", "tokens", "cost", "timeout"})
_GRACE_SECONDS = 60.0  # for the last words of a turn that was stopped
_LAST_WORDS = (
    "[Not from the user: the work was {why}. No tool can be called any more. Tell the user in a few words what was "
    "done, what was found and what is missing. Claim nothing that no result shows.]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSetup:
    """Who answers, for whom, with which tools and within which bounds; who may steer it, and change what is kept.

    `after_outside` says what is asked about or denied once something from outside was read. `shown` are the tools that
    the model sees, where that is not the whole belt; `is_done` ends the turn behind the calls that made it true.
    It begins with the calls that are `waiting` since another process took the last reply; of those `pending`, by their
    keys, the body has run there.
    """

    model: Model
    belt: Selection
    caller: Caller
    pipeline: CallPipeline
    ports: Ports = field(default_factory=Ports)
    limits: Limits = field(default_factory=Limits)
    retries: Retries = field(default_factory=Retries)
    system: str = ""
    effort: Effort = ""
    after_outside: TaintRules = field(default_factory=TaintRules)
    inbox: Inbox = field(default_factory=Inbox)
    shorten: Shorten | None = None
    keep: Keep | None = None
    send: Send | None = None
    shown: tuple[Tool, ...] | None = None
    is_done: Callable[[], bool] | None = None
    waiting: tuple[Call, ...] = ()
    pending: Mapping[str, PendingCall] = field(default_factory=dict)


_going: "ContextVar[Loop | None]" = ContextVar("toolcrib_turn", default=None)


def current_turn() -> "Loop | None":
    """Return the turn in which the code that asks is running, a tool's body for one; None outside of every turn."""
    return _going.get()


class Loop:
    """One turn. `run` it once; `history` is its conversation, also while it goes on."""

    def __init__(self, setup: TurnSetup, history: History, journal: Journal, emit: Callable[[Event], None]) -> None:
        self.setup, self.history, self.journal = setup, history, journal
        self._emit, self._inbox, self._clock = OrderedEmitter(emit), setup.inbox, Clock(setup.limits.seconds)
        approver, guards, later = setup.pipeline.approver, setup.pipeline.guards, setup.pipeline.later
        people = setup.pipeline.people
        self._pipeline = replace(
            setup.pipeline,
            record=journal,
            guards=(*taint_guards(setup.after_outside, setup.belt, lambda: self.history.outside), *guards),
            taint=lambda: self.history.outside,
            watch=self._hear,
            # a quarter of what the model can be shown, at four characters a token
            ceiling=setup.model.card.window,
            approver=None if approver is None else Unhurried(approver, self._clock, journal.flush),
            people=None if people is None else UnhurriedPeople(people, self._clock, journal.flush),
            later=None if later is None else UnhurriedWaiter(later, self._clock),
        )
        self.declarations = Declarations(setup.belt, setup.model.card)
        above = current_turn()
        # what the turn has taken so far, its subagents included
        self.spent: Spent = Spent(setup.limits, above.spent if above else None, setup.pipeline.meter)
        self._reserved = reserve_for(setup.model.card)  # while a reply is under way
        self._notes: list[str] = []  # for the person, behind the last words
        self._repeats = Repeats(setup.limits.repeats)
        # of the last reply, until all are answered
        self._open = {call.key: CallInTurn(call, setup.pending.get(call.key)) for call in setup.waiting}
        self._text = ""
        self._cut_off = 0
        self._has_overflowed = False
        self._task: asyncio.Task[Any] | None = None
        self._stops = 0  # how often somebody had stopped the task before the turn began

    @property
    def later(self) -> LaterWaiter | None:
        """What calls wait through that are finished later; the time of the turn stands still meanwhile, too."""
        return self._pipeline.later

    @property
    def aside(self) -> CallPipeline:
        """What a call goes through that another one's body makes: on record like its own, and not in the history."""
        return replace(self._pipeline, record=self.setup.pipeline.record, watch=None)

    async def run(self) -> TurnFinished:
        """Answer what stands last in the history. Cancelled, it leaves as cancelled, after the history was mended."""
        if task := asyncio.current_task():
            self._task, self._stops = task, task.cancelling()
        going = _going.set(self)
        try:
            return await self._run()
        finally:
            _going.reset(going)

    async def _run(self) -> TurnFinished:
        leaves: BaseException | None = None
        how: _How = ("error", "the turn failed unexpectedly; the operator's log has the details")
        try:
            how = await self._within_its_time()
            await self._say_last_words(*how)
        except asyncio.CancelledError as error:
            leaves, how = error, ("stopped", "stopped before it was done")
        except ToolError as error:  # the store says why nothing more can be kept
            how = ("error", str(error))
        except Exception as error:  # noqa: BLE001  it leaves again, once the history is whole
            leaves = error
        closing = asyncio.ensure_future(self._close(how))
        try:
            await wait_to_end(closing)
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
        if self._open:
            await self._run_calls()
            self._raise_if_stopped()
        while True:
            self.journal.check()
            if over := self.spent.over() or await self.charge(begins=self._reserved):
                return over
            if heard := self._inbox.next_steering() or (self._inbox.next_following() if is_answered else None):
                message = self._say(heard)
                if not self.journal.is_settled:
                    await wait_to_end(self.journal.flush())
                self._emit(Received(message))
            replied = await self._ask_model()
            message = self._take_reply(replied)
            await self.charge(ends=self._reserved)  # its calls may wait for days, and others ask meanwhile
            self.journal.check()
            self._raise_if_stopped()
            ended = self._outcome(message, replied)
            if ended is None:
                ran = await self._run_calls()
                if self.setup.is_done is not None and self.setup.is_done():
                    return _DONE
                if (times := self._repeats.count(ran)) and not self._inbox.has_steering:
                    return "repeating", f"stopped: the same calls gave the same results {times} times"
                self._raise_if_stopped()
            elif ended != _DONE:
                if not await self._recover(replied, ended):
                    return ended
            elif self._inbox.is_empty:
                return ended
            is_answered = ended == _DONE

    async def charge(
        self, model: Model | None = None, begins: Reservation | None = None, ends: Reservation | None = None
    ) -> _How | None:
        """Count what replies took against quotas; return which leaves no room for one more, of this model, and why."""
        if self.setup.pipeline.meter is None:
            return None
        price = (model or self.setup.model).card.price
        word = await self.spent.charge(self.setup.caller, price, begins, ends)
        self._notes += [f"{each}." for each in (*word.warnings, word.reason) if each]
        for sentence in word.warnings:
            self._emit(Warned(sentence))
        return None if word.full is None or word.full == "calls" else (word.full, word.reason)

    def _raise_if_stopped(self) -> None:
        """Stop also when a body or a model has swallowed the word."""
        if self._task is not None and self._task.cancelling() > self._stops:
            raise asyncio.CancelledError

    async def _ask_model(self) -> Replied:
        if self.setup.model.card.window > 0:  # else nobody knows when a conversation is too long
            await self._shorten(force=False)
        return await reply_to(self._request(self.history), self.setup.model, self._emit, self.setup.retries)

    def _request(self, history: History, choice: Choice = "auto") -> Request:
        setup = self.setup
        return Request(
            history=history,
            tools=self.declarations.choose(history.offered) if setup.shown is None else setup.shown,
            system=setup.system,
            choice=choice,
            effort=setup.effort,
            session=setup.caller.session or "",
        )

    async def _say_last_words(self, reason: Ending, sentence: str) -> None:
        """Ask for one reply without tools where the turn was stopped behind its calls: a person reads what is true.

        It is asked within what the model has read already, and what it is asked then is kept nowhere. Where there is
        no such reply, the turn ends as it would have. A subagent has a last reply of its own.
        """
        # what another one costs nobody knows, or a quota has no room for it
        is_silent = (reason == "cost" and self.spent.cost is None) or f"{sentence}." in self._notes
        if reason not in _WORDS_AFTER or self.setup.is_done is not None or is_silent:
            return
        if reason == "timeout":
            if not any(still.course.started for still in self._open.values()):  # it is the model that took too long
                return
            answered = self._answer(sentence)
            await self.journal.flush()
            for still in answered:
                self._emit_outcome(still)
        if self.history[-1].role != "tool":
            return
        asked = History([*self.history, Message(role="user", content=(Text(_LAST_WORDS.format(why=sentence)),))])
        asked.outside.update(self.history.outside)
        asked.offered = self.history.offered
        try:
            async with asyncio.timeout(min(_GRACE_SECONDS, self.setup.limits.seconds or _GRACE_SECONDS)):
                once = replace(self.setup.retries, tries=1)
                replied = await reply_to(self._request(asked, "none"), self.setup.model, self._emit, once)
        except TimeoutError:
            return
        if replied.message.finish not in ("error", "aborted"):
            self._take_reply(replied, is_step=False)

    def _take_reply(self, replied: Replied, *, is_step: bool = True) -> Message:
        """Take a reply into the history and the log; each of its calls gets the id and the key it keeps."""
        message = replied.message
        calls = with_unique_ids(message.calls, new_key)
        message = Message(
            role="assistant",
            content=message.content,
            calls=calls,
            finish=message.finish,
            by=message.by,
            at=self.journal.now(),
        )
        add = self.spent.add if is_step else self.spent.add_aside
        cost = add(replied.usage, self.setup.model.card.price)
        self.history.append(message, replied.usage)
        self.journal.add(Said(message, replied.usage, cost))
        self._open = {call.key: CallInTurn(call) for call in calls}
        if message.content:
            self._text = join_text(message) or self._text
        self._emit(Replied(message, replied.usage, replied.error, replied.retry))
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
                if message.calls and self._cut_off < _CUT_OFF_REPLIES:
                    return None
                return "length", "the reply was cut off at its longest; say `go on` for the rest"
            case "refused":
                self._answer("the reply was refused")
                return "refused", replied.error or "the model refused to answer"
            case "error" | "aborted":
                self._answer("the reply broke off")
                return "error", replied.error or "the reply broke off"

    async def _recover(self, replied: Replied, ended: _How) -> bool:
        """Return whether a reply that failed is worth another try: once, with less to read, when it was too much."""
        if self._has_overflowed or ended[0] != "error" or not is_overflow(replied, self.setup.model.card.window):
            return False
        self._has_overflowed = True
        return await self._shorten(force=True)

    async def _shorten(self, *, force: bool) -> bool:
        if self.setup.shorten is None:
            return False
        shorter = await self.setup.shorten(self.history, force)
        if shorter is None:
            return False
        self.spent.add_aside(shorter.usage, self.setup.model.card.price)
        self.history = shorter.history
        self._repeats.forget()
        return True

    async def _run_calls(self) -> list[tuple[Call, Result]]:
        """Run the calls of a reply; their answers stand in the history in the order of the calls."""
        opened = list(self._open.values())
        if len(opened) == 1:
            results = [await self._run_call(opened[0], None)]
        else:
            running = [
                asyncio.ensure_future(self._run_call(*each))
                for each in zip(opened, call_slots(len(opened)), strict=True)
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
        return [(still.call, result) for still, result in zip(opened, results, strict=True)]

    async def _run_call(self, still: CallInTurn, slot: CallSlot | None) -> Result:
        """Run one call; its answer is kept before anybody sees it, while the model may be asked already."""
        setup, call = self.setup, still.call
        result = await invoke(setup.belt, Ctx(call, setup.caller, still.course, setup.ports), self._pipeline, slot)
        message = answer_message(call, self._repeats.mark(call, result), self.journal.now())
        if setup.keep is not None:
            still.is_done = True
            message = await setup.keep(call, message)
        still.answer = message
        self.journal.add(Said(message))
        if still.course.handle and self.later is not None:
            await wait_to_end(self.journal.flush())
            await self.later.take(call)
        if self.journal.is_settled:
            self._emit_outcome(still)
        else:
            self._emit.after(self.journal.flush(), partial(self._take_outcome, still))
        return result

    async def run_aside(self, name: str, args: Mapping[str, Any]) -> Result:
        """Run a call that no reply made, once the turn is over: on record like any other, not in the history."""
        key, setup = new_key(), self.setup
        ctx = Ctx(Call(key, name, args, key), setup.caller, CallState(), setup.ports)
        return await invoke(setup.belt, ctx, setup.pipeline)

    def _hear(self, event: CallEvent) -> None:
        still = self._open.get(event.call.key) if event.call else None
        if still is None:
            return
        match event:
            case Warned(sentence=sentence):
                self._notes.append(f"{sentence}.")
            case ToolStarted():
                still.is_shown = True
            case ToolProgress():
                still.partial = event.partial
            case ToolFinished():
                still.outcome = event  # sent once the answer is kept
                return
        self._emit(event)

    def _emit_outcome(self, still: CallInTurn, failure: ToolError | None = None) -> None:
        if (event := self._take_outcome(still, failure)) is not None:
            self._emit(event)

    def _take_outcome(self, still: CallInTurn, failure: BaseException | None) -> ToolFinished | None:
        """Return what came of a call, once."""
        if not still.is_shown or still.outcome is None:
            return None
        still.is_shown = False
        if failure is None:
            return still.outcome
        what = "what came of it could not be kept" if still.course.started else "it was not run"
        return ToolFinished(still.call, self._fail(still, f"{what}: {failure}", "unrecorded"))

    def _fail(self, still: CallInTurn, words: str, code: str) -> Result:
        return failure_result(still.call.name, words, code, self._pipeline)

    def _answer(self, why: str = "") -> list[CallInTurn]:
        """Put the answers of all calls into the history, in their order; those that have none get the reason."""
        answered = list(self._open.values())
        for still in answered:
            if still.answer is None:
                result = self._missing_result(still, why)
                still.answer = answer_message(still.call, result, self.journal.now())
                still.outcome = ToolFinished(still.call, for_watchers(result))
                self.journal.add(Said(still.answer))
            self.history.append(still.answer)
        self._open = {}
        return answered

    def _missing_result(self, still: CallInTurn, why: str) -> Result:
        """Return what is known of a call that never ran, or was stopped while it did."""
        if not still.course.started:
            return self._fail(still, f"this call was not run: {why}", "not_run")
        if still.is_done:
            return self._fail(still, f"it ran to its end, and what came of it was not kept ({why})", "interrupted")
        gathered = present(Result(still.partial.content), new_token(), self._pipeline.limit).content
        words = f"it was stopped while it ran, so it may have done a part of its work ({why})"
        result = self._fail(still, words, "interrupted")
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
        spent = self.spent
        self.journal.add(Ended(reason, sentence, spent.usage, spent.cost))
        failure: ToolError | None = None
        try:
            await self.journal.flush()
            await self.charge(ends=self._reserved)
        except ToolError as error:
            failure = error
            if reason in ("done", "stopped"):
                reason, sentence = "error", str(error)
            log.exception("the end of a turn could not be kept")
        else:
            for message in unheard:
                self._emit(Received(message))
        self._emit.go_on()
        for still in answered:
            self._emit_outcome(still, failure)
        if reason == "done" and self.setup.send is not None:
            self._text = await self.setup.send(self._text)
        text = "\n\n".join(dict.fromkeys(filter(None, (self._text, *self._notes))))
        return TurnFinished(reason, text, sentence, spent.steps, spent.usage, spent.cost)
