"""One call, start to finish: the only place where a tool body runs for a caller. The order is fixed:

    1 the canonical name, looked up on the belt       6 the body, recorded as started, under its deadline
    2 the decision recorded                           7 observers
    3 arguments renamed, coerced, checked, judged     8 outside text fenced, then cut inside the fence
    4 guards, each of which may block or rewrite      9 the outcome recorded
      (what one rewrote is judged again)
    5 a human asked, where somebody says so; what guards and humans say is recorded; then the call is counted,
      and whoever a door of ours let in is asked about once more: would it still?

Nothing but cancellation leaves as an exception: what fails comes back as a Result that says so. Whoever failed, its
details hold `status`, `tool`, `error` (one line, redacted) and `code`; observers, watchers and the record get the same.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Literal

from toolcrib.adapter.fence import new_token
from toolcrib.adapter.trim import is_failure, present
from toolcrib.define.approval import AskTerms
from toolcrib.define.args import compare_args
from toolcrib.define.context import Ctx, constructor
from toolcrib.define.errors import ArgumentError, ToolError, make_unasked_error
from toolcrib.define.later import LaterWaiter, pending_result
from toolcrib.define.message import Call
from toolcrib.define.plugin import Allow, Ask, Rewrite
from toolcrib.define.record import Answered, Decided, Finished, Judged, Record, Started
from toolcrib.define.result import Result
from toolcrib.define.taint import MAX_SOURCES
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import NO_BASIS, Consent, Decision, Selection, Verdict
from toolcrib.policy.explain import explain_sentence

from .argued import ArgumentJudgement, CallBound, judge_arguments, use_grant
from .deadline import Deadline, find_cancellation, wait_to_end
from .hooks import BoundHook, apply_guard, apply_observer, copy_args, hook_failure
from .limits import count_call
from .line import CallSlot, call_slots
from .mailbox import CallWatcher
from .outcome import (
    FAILURES,
    attribute_ours,
    attribute_outside,
    complete_failure,
    describe_outcome,
    is_plain,
    note_adjusted,
    present_result,
    read_detail,
    tell_failure,
    tell_pending,
    tell_unrecorded,
)
from .pipeline import CallPipeline, CallPlan
from .reached import ReachedFiles
from .retry import run_again

log = logging.getLogger("toolcrib")


_CHANGED = "what {} would do is no longer what a human said yes to; call it again"
_OWN_APPROVER = "the program's own approver"
_DECISIONS: Mapping[type, Decision | Literal["rewrite"]] = {Allow: "allow", Ask: "ask", Rewrite: "rewrite"}
_make_call, _make_ctx = constructor(Call), constructor(Ctx)
_make_decided, _make_started, _make_finished = constructor(Decided), constructor(Started), constructor(Finished)


async def invoke_all(belt: Selection, ctxs: Sequence[Ctx], pipeline: CallPipeline) -> list[Result]:
    """Run the calls of one reply: checked in their order, run side by side, answered in their order.

    The body of an exclusive tool overlaps with no other: it waits for those before it, those behind wait for it.
    """
    slots = call_slots(len(ctxs))
    calls = [asyncio.ensure_future(invoke(belt, ctx, pipeline, at)) for ctx, at in zip(ctxs, slots, strict=True)]
    try:
        return await asyncio.gather(*calls)
    except asyncio.CancelledError:
        if calls:  # gather leaves with the first that was stopped; the others have still to clean up and say so
            await asyncio.wait(calls)
        raise


_NOTHING_YET: tuple[Tool | None, asyncio.CancelledError | None, Result | None] = (None, None, None)


def invoke(
    belt: Selection, ctx: Ctx, pipeline: CallPipeline, slot: CallSlot | None = None
) -> Coroutine[Any, Any, Result]:
    """Run `ctx.call` for `ctx.caller` if the belt permits it, when awaited, and return what came of it."""
    return _CallRun(belt, ctx, pipeline, slot).answer()


class _CallRun(Deadline):
    """One call on its way: what has become of it so far, the steps that it goes through, and how long each may take."""

    __slots__ = ("args", "belt", "ctx", "files", "judged", "pipeline", "plan", "questions", "slot", "tool")

    belt: Selection
    ctx: Ctx
    plan: CallPlan
    tool: Tool  # and the rest: since it was looked up
    args: Mapping[str, Any]
    questions: list[Ask]
    files: ReachedFiles | None

    def __init__(self, belt: Selection, ctx: Ctx, pipeline: CallPipeline, slot: CallSlot | None) -> None:
        self.belt = belt
        self.ctx = ctx
        self.pipeline = pipeline
        self.slot = slot
        self.judged: ArgumentJudgement | None = None

    async def answer(self) -> Result:
        """Return what came of the call."""
        belt, ctx, pipeline, slot = self.belt, self.ctx, self.pipeline, self.slot
        call, state = ctx.call, ctx.course
        # 1
        if pipeline.rejudge is not None:
            belt = self.belt = pipeline.rejudge(belt, ctx)
        plan = pipeline.plans.get(call.name)
        if plan is None or plan.belt is not belt:
            plan = CallPlan.of(belt, call.name, pipeline)
        self.plan = plan
        self.open()
        watched = CallWatcher(pipeline.watch, ctx, plan.verdict, pipeline.redact, plan.tool) if pipeline.watch else None
        tool, cancelled, ours = _NOTHING_YET
        try:
            try:
                tool = await (self._prepare_resumed() if state.resumed else self._prepare())
                ctx = self.ctx
                result = await self._perform(tool)
            except FAILURES as error:
                state.stopped = True  # a body in a thread sees it now, and not when everything is written
                cancelled = find_cancellation(error)
                tool = tool if state.started else None
                result = ours = self._tell_failure(error, ctx, tool)
            try:
                if pipeline.observers:
                    result = await self._observe(result)
                is_as_shown = plan.is_plain and is_plain(result, plan.limit)
                if not is_as_shown or state.sources or state.adjusted or result is ours:
                    result = await self._present(result, tool, is_ours=result is ours)
            except FAILURES as error:
                cancelled = cancelled or find_cancellation(error)
                failure = present(self._tell_failure(error, ctx, tool), new_token(), pipeline.limit)
                result = attribute_ours(failure, tool, ctx)
        finally:
            self.close()
            state.stopped = True
            if slot:
                slot.release()
        # 9
        try:
            status, code, why = describe_outcome(result, state, is_cancelled=cancelled is not None)
            if writing := pipeline.record.write(_make_finished(call, plan.name, status, code, state.started, why)):
                await wait_to_end(writing)
        except Exception as error:
            log.exception("what came of %s in call %s could not be recorded", plan.name, call.id)
            result = tell_unrecorded(error, plan.name, state, pipeline)
        if watched:
            watched.finish(result, markdown=tool is not None and tool.markdown)
        if cancelled:
            raise cancelled
        return result

    def _tell_failure(self, error: BaseException, ctx: Ctx, tool: Tool | None) -> Result:
        args: Any = ctx.call.args  # whatever a model wrote
        self.ctx, self.args = ctx, args if isinstance(args, Mapping) else {}
        return tell_failure(error, ctx, self.plan.name, self.pipeline, tool)

    async def _prepare(self) -> Tool:
        """Return the tool that may run now; raise ToolError when somebody is against it."""
        belt, ctx, pipeline, plan, slot = self.belt, self.ctx, self.pipeline, self.plan, self.slot
        call = ctx.call
        if slot:
            await slot.wait_checked()
        # 2: nothing runs before it is written down that it may
        tainted: tuple[str, ...] = ()
        if pipeline.taint is not tuple:
            outside = pipeline.taint()
            tainted = ctx.course.taint = tuple(islice(outside, MAX_SOURCES)) if outside else ()
        if writing := pipeline.record.write(
            _make_decided(call, ctx.caller, plan.verdict, plan.why, belt.grounds, tainted)
        ):
            await wait_to_end(writing)
        if pipeline.shadow is not None:
            await pipeline.shadow.judge(ctx, belt, plan.verdict, tainted)
        tool, questions = (plan.allowed, []) if plan.allowed else _permit(belt, plan.verdict, plan.why)
        # 3
        if call.parse_error or type(call.args) is not dict:
            _check_object(tool, call)
        args = tool.check(call.args)
        self.tool, self.args, self.questions = tool, args, questions
        if call.name != tool.name or call.args != args:
            ctx.course.adjusted = compare_args(call.args, args, tool.aliases)
            self._take(args)
        if plan.rules and not plan.rules.passes(args, pipeline.taint):
            await self._judge(belt)
        # 4
        before, by_rules = self.args, len(questions)
        if plan.guards:
            await self._run_guards(questions)
        # 5
        if questions or plan.is_about_files or self.args is not before or self.judged:
            await self._settle(before, by_rules)
        if slot:
            self.give(None)
            await slot.wait_exclusive(exclusive=tool.exclusive)
        if pipeline.meter and (waiting := pipeline.meter.admit(ctx.caller, tool, spends=True)):
            self.give(None)
            await count_call(waiting, self.ctx, tool.name, pipeline.record)
        return tool

    async def _prepare_resumed(self) -> Tool | None:
        """Return the tool of a call whose body ran before, None where it has gone since; raise ToolError when denied.

        The body does not run again; what came of it is still for nobody who may not use the tool any more.
        """
        self.args = self.ctx.call.args
        try:
            verdict = self.plan.verdict
            return None if verdict is None else _permit(self.belt, verdict, verdict.reason)[0]
        except ToolError:
            if self.pipeline.later is not None:
                await wait_to_end(self.pipeline.later.withdraw(self.ctx.call))
            raise

    def _take(self, args: Mapping[str, Any]) -> None:
        """Go on with the call as it was understood: hooks, humans and bodies never see another spelling."""
        call, caller, state, ports = self.ctx
        call = _make_call(call.id, self.tool.name, copy_args(args), call.key, call.signature, call.parse_error)
        self.ctx = _make_ctx(call, caller, state, ports)
        self.args = args

    async def _judge(self, belt: Selection, shown: Mapping[str, Any] | None = None) -> None:
        """Go on as the rules about its arguments leave the call, paths resolved; raise ToolError when one denies it.

        Or when a path leads elsewhere by now than it did when a human was `shown` it.
        """
        pipeline, tool = self.pipeline, self.tool
        self.judged = None
        if (rules := belt.rules_about and belt.rules_about(tool)) is None:
            return
        judged = await judge_arguments(rules, tool, self.ctx, self.args, pipeline.taint())
        if judged.args is not self.args:
            self._take(judged.args)
        await judged.settle(self.ctx, self.questions, pipeline.record, belt.rule_grounds or belt.grounds)
        if shown is not None and judged.args != shown:
            raise ToolError(_CHANGED.format(tool.name), code="changed")
        self.judged = judged

    async def _judge_files(self, belt: Selection, questions: list[Ask]) -> None:
        """Hold a guest's call to the files that it may reach; raise ToolError when it may not."""
        self.files = ReachedFiles.of(belt, self.tool, self.ctx, self.pipeline.taint)
        if self.files:
            await self.files.settle(questions, self.pipeline.record)

    async def _run_guards(self, questions: list[Ask]) -> None:
        """Go on as the guards leave the call; what they want a human to be asked is added to the questions."""
        for guard in self.plan.guards:
            self.give(guard.seconds)
            try:
                word = await guard.run(self.ctx, shown := copy_args(self.args))
                if word is None and shown == self.args == self.ctx.call.args:
                    continue
            except FAILURES as error:
                word = hook_failure(error, self)
            self.give(None)
            call = self.ctx.call._replace(args=self.args)
            self._take(await _apply_word(guard, word, self.tool, call, questions, self.pipeline.record))

    async def _settle(self, before: Mapping[str, Any], by_rules: int) -> None:
        """Judge again what guards rewrote, ask whom there is to ask, and hold the body to what was judged.

        `before` the guards there were these arguments, and so many questions `by_rules`.
        """
        pipeline, questions, granted = self.pipeline, self.questions, None
        by_guards = len(questions) > by_rules
        if self.plan.rules and self.args != before:
            await self._judge(self.belt)
        await self._judge_files(self.belt, questions)
        if questions:  # a human takes the time it takes
            self.give(None)
            by_rules_alone = not (by_guards or (self.files and self.files.asks))
            granted = await self._ask_if_left(by_rules=by_rules_alone)
            if granted:
                self._take(granted.args)
            if pipeline.rejudge is not None and (now := pipeline.rejudge(self.belt, self.ctx)) is not self.belt:
                await self._judge_again(now)
        bounds: tuple[CallBound | None, ...] = (self.judged, granted, self.files)
        for bound in filter(None, bounds):
            self.ctx = bound.confine(self.ctx)

    async def _judge_again(self, belt: Selection) -> None:
        """Go on as other settings leave the call that count since the question.

        The yes stands for a question to the same persons, never for a no, and not when guards say more against it.
        """
        tool, args, questions, repeated = self.tool, self.args, self.questions, list[Ask]()
        answered = _list_says(tool, questions)
        asked = _permit(belt, belt.verdicts.get(tool.name), f"{tool.name} has gone")[1]
        await self._run_guards(repeated)
        seen, bound = ({each for ask in asks for each in ask.binding.items()} for asks in (questions, repeated))
        if self.args != args or not bound <= seen:
            raise ToolError(_CHANGED.format(tool.name), code="changed")
        await self._judge(belt, shown=args if self.judged else None)
        await self._judge_files(belt, repeated)
        if not {*_list_says(tool, (*questions, *asked, *repeated))} <= {*answered}:
            raise ToolError(_CHANGED.format(tool.name), code="changed")

    async def _ask_if_left(self, *, by_rules: bool) -> ArgumentJudgement | None:
        """Wait for a human, outside the call's deadline; nobody is asked about what is used up, and nobody is a no.

        A grant may answer what only rules ask of the owner: what is returned then holds the call to it. A program's own
        approver speaks for the owner, and for nobody else.
        """
        ctx, tool, pipeline, questions = self.ctx, self.tool, self.pipeline, self.questions
        call, approver, people = ctx.call, pipeline.approver, pipeline.people
        says = _list_says(tool, questions)
        if pipeline.meter and (waiting := pipeline.meter.admit(ctx.caller, tool, spends=False)):
            await count_call(waiting, ctx, tool.name, pipeline.record)
        may_last = by_rules and approver is None and all(each.may_last for each in says)
        if people and may_last and (granted := await use_grant(people, tool, ctx, self.args, tuple(pipeline.taint()))):
            return granted
        reason, binding = "; ".join(question.reason for question in questions), dict[str, str]()
        for name, value in (bound for question in questions for bound in question.binding.items()):
            if binding.setdefault(name, value) != value:
                raise ToolError(f"two guards bind {name!r} differently, so {call.name} was not run", code="blocked")
        approver = approver if all(each.is_owners for each in says) else None
        if approver is None and people is None:
            raise make_unasked_error(reason, call.name)
        check = None if pipeline.preview is None else await pipeline.preview(tool, ctx, self.args, binding)
        if approver is None:
            is_yes = people is not None and await people.ask(ctx.caller, call, AskTerms(reason, binding, says))
        else:
            is_yes = await approver.approve(ctx.caller, call, reason, binding) is True  # "no" is not a yes
            writes_record = getattr(approver, "writes_record", False)
            if not writes_record and (writing := pipeline.record.write(Answered(call, _OWN_APPROVER, is_yes))):
                await wait_to_end(writing)
        if not is_yes:
            refusal = (
                f"Refused: the user said no to this call of {call.name}. Do not try again; ask what to do instead."
            )
            raise ToolError(f"a human refused {call.name}", code="not_approved", for_model=refusal)
        if check is not None:
            await check()
        return None

    async def _perform(self, tool: Tool | None) -> Result:
        """Return what the body gives back or, where it left the work to others, what they complete the call with."""
        # 6
        ctx, pipeline = self.ctx, self.pipeline
        state = ctx.course
        try:
            if ctx.caller.door and pipeline.check_caller is not None:
                await pipeline.check_caller(ctx.caller)
            if tool is None or state.resumed:  # the body ran before, in another process
                result = pending_result(ctx.call.name, state.handle)
            else:
                if writing := pipeline.record.write(_make_started(ctx.call, tool.name)):
                    self.give(None)
                    await wait_to_end(writing)
                self.give(self.plan.seconds)
                state.started, began = True, time.perf_counter()
                try:
                    result = await self._start_body(tool)
                except asyncio.CancelledError:
                    self._raise_if_late(tool)
                    raise
                finally:
                    state.seconds = time.perf_counter() - began
                if result.details is not None or result.status == "error" or tool.output is not None:
                    result = self._check_result(tool, result)
            if state.handle and pipeline.later is not None:
                result = await self._wait_for_later(tool, result, pipeline.later)
        except FAILURES:
            if state.handle and pipeline.later is not None:
                state.left = not await wait_to_end(pipeline.later.withdraw(ctx.call))
            raise
        return result

    def _start_body(self, tool: Tool) -> Awaitable[Result]:
        ctx, args, pipeline = self.ctx, self.args, self.pipeline
        between = pipeline.bodies.between
        run = partial(between, tool) if between else tool.run
        return run(ctx, args) if tool.retry is None else run_again(tool, run, ctx, args, pipeline.record)

    def _raise_if_late(self, tool: Tool) -> None:
        """Tell a deadline that was missed from a call that somebody stopped."""
        if self.was_missed():
            words = f"{tool.name} did not finish within {self.plan.seconds:g} seconds"
            raise ToolError(words, code="timeout") from None

    def _check_result(self, tool: Tool, result: Result) -> Result:
        return complete_failure(result, tool.name, self.pipeline) if is_failure(result) else tool.check_result(result)

    async def _wait_for_later(self, tool: Tool | None, result: Result, later: LaterWaiter) -> Result:
        """Return what a call was completed with; where no turn waits for that, that it is pending."""
        ctx, pipeline = self.ctx, self.pipeline
        state, call = ctx.course, ctx.call
        self.give(None)
        if self.slot:
            self.slot.release()
        if result.status != "pending":  # the body has done without
            await later.withdraw(call)
            return result
        if not state.resumed:
            if not state.in_turn:
                return result
            ended = _make_finished(call, call.name, "pending", "", True, tell_pending(state))
            if writing := pipeline.record.write(ended):
                await wait_to_end(writing)
        ctx.progress(result)
        done = await later.wait(call)
        if tool is not None and pipeline.rejudge is not None:  # whoever waited may be denied it by now
            _permit(now := pipeline.rejudge(self.belt, ctx), now.verdicts.get(tool.name), f"{tool.name} has gone")
        if is_failure(done):
            return complete_failure(done, call.name, pipeline)
        return done if tool is None else tool.check_result(done)

    async def _observe(self, result: Result) -> Result:
        """Tell the observers what came of a call; why one did not run is for none of them to say."""
        # 7
        ctx, name = self.ctx, self.plan.name
        if ctx.call.name != name:
            ctx = self.ctx = ctx._replace(call=ctx.call._replace(name=name))
        args = copy_args(self.args)
        for observer in self.pipeline.observers:
            self.give(observer.seconds)
            try:
                # a copy of the details: what an observer does to those of a failure changes nothing
                shown = result._replace(details={**result.details}) if result.status == "error" else result
                word = await observer.run(ctx, args, shown)
            except FAILURES as error:
                word = hook_failure(error, self)
            if word is None or not ctx.course.started:
                continue
            changed = apply_observer(observer, word, name, result)
            if changed is not result:  # the same in other words
                ctx.course.add_sources(part.source for part in result.content if part.source)
            if changed is not result and is_failure(changed):
                changed = complete_failure(changed, name, self.pipeline, read_detail(result, "code") or "failed")
            result = changed
        return result

    async def _present(self, result: Result, tool: Tool | None, *, is_ours: bool) -> Result:
        # 8: a failure in our own words needs no fence, and still a source
        ctx, belt, pipeline = self.ctx, self.belt, self.pipeline
        result = result if is_ours else attribute_outside(result, tool, ctx)
        result = note_adjusted(result, tool, ctx.course)
        result = await present_result(result, tool, belt, pipeline, self)
        return attribute_ours(result, tool, ctx) if is_ours else result


def _permit(belt: Selection, verdict: Verdict | None, why: str) -> tuple[Tool, list[Ask]]:
    """Return the tool, and what a human has to be asked; raise ToolError when there is none or it is denied."""
    if verdict is None:
        raise ToolError(why, code="not_found")
    if verdict.decision == "deny":
        refusal = f"Refused: {verdict.tool} is not permitted here. Do not try again; tell the user."
        raise ToolError(explain_sentence(verdict), code="denied", for_model=refusal)
    is_asked = verdict.decision == "ask"
    return belt.tools[verdict.tool], [Ask(why, says=belt.says_about(verdict.tool))] if is_asked else []


def _list_says(tool: Tool, questions: Iterable[Ask]) -> tuple[Consent, ...]:
    """Return who may answer for each rule that asks; whom a program runs for is no judge of it."""
    runs = "execute" in tool.effects
    return tuple(dict.fromkeys(replace(say, runs=runs) for each in questions for say in each.says))


def _check_object(tool: Tool, call: Call) -> None:
    if call.parse_error:
        raise ArgumentError(f"{tool.name}: {call.parse_error}")
    if not isinstance(call.args, Mapping):
        raise ArgumentError(f"{tool.name}: the arguments are not an object, but {type(call.args).__name__}")


async def _apply_word(
    guard: BoundHook, word: Any, tool: Tool, call: Call, questions: list[Ask], record: Record
) -> Mapping[str, Any]:
    """Return the arguments as a guard leaves them; its decision is written down first, also when that is no."""
    args, decision, blocked = call.args, _DECISIONS.get(type(word)), None
    try:
        args = apply_guard(guard, word, tool, args, questions)
    except ToolError as error:
        decision, blocked = "deny", error
    reason = getattr(word, "reason", "") or str(blocked or "")
    basis = getattr(word, "basis", None) or NO_BASIS
    if decision and (writing := record.write(Judged(call, guard.name, decision, reason, basis))):
        await wait_to_end(writing)
    if blocked is not None:
        raise blocked
    return args
