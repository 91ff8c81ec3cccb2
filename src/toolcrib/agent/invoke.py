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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Literal

from toolcrib.adapter.fence import new_token
from toolcrib.adapter.trim import (
    is_failure,
    present,
)
from toolcrib.define.approval import AskTerms
from toolcrib.define.args import compare_args
from toolcrib.define.context import Ctx, constructor
from toolcrib.define.errors import ArgumentError, ToolError, make_unasked_error
from toolcrib.define.later import LaterWaiter, pending_result
from toolcrib.define.message import Call
from toolcrib.define.names import canonical
from toolcrib.define.plugin import Allow, Ask, Rewrite
from toolcrib.define.record import Answered, Decided, Finished, Judged, Record, Started
from toolcrib.define.result import Result
from toolcrib.define.taint import MAX_SOURCES
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import NO_BASIS, Consent, Decision, Selection, Verdict
from toolcrib.policy.explain import explain_sentence

from .argued import ArgumentJudgement, CallBound, judge_arguments, use_grant
from .belt import no_such_tool
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
    failure_result,
    note_adjusted,
    present_result,
    read_detail,
    tell_failure,
    tell_pending,
)
from .pipeline import CallPipeline
from .reached import ReachedFiles
from .retry import run_again

log = logging.getLogger("toolcrib")


_NAME_CHARS = 64
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


async def invoke(belt: Selection, ctx: Ctx, pipeline: CallPipeline, slot: CallSlot | None = None) -> Result:
    """Run `ctx.call` for `ctx.caller` if the belt permits it, and return what came of it."""
    call, course, deadline = ctx.call, ctx.course, Deadline()
    belt = belt if pipeline.rejudge is None else pipeline.rejudge(belt, ctx)
    name, verdict = call.name, belt.verdicts.get(call.name)
    if verdict is None:
        name = belt.find(name) or canonical(name) or name[:_NAME_CHARS]
        verdict = belt.verdicts.get(name)
    watch = pipeline.watch
    watched = CallWatcher(watch, ctx, verdict, pipeline.redact, belt.tools.get(name)) if watch else None
    tool, cancelled, ours = _NOTHING_YET
    try:
        try:
            prepare = _prepare_resumed if course.resumed else _prepare
            tool, ctx, args = await prepare(belt, verdict, ctx, pipeline, deadline, slot)
            result = await _perform(belt, tool, ctx, args, pipeline, deadline, slot)
        except FAILURES as error:
            course.stopped = True  # a body in a thread hears it now, and not when everybody was told
            cancelled = find_cancellation(error)
            tool = tool if course.started else None
            result, args = tell_failure(error, ctx, name, pipeline, tool), ctx.call.args
            ours = result
        try:
            if pipeline.observers:
                ctx = ctx._replace(call=ctx.call._replace(name=name))
                result = await _observe(ctx, args, result, pipeline, deadline)
            # a failure in our own words needs no fence, and still a source
            result, is_ours = (result, True) if result is ours else (attribute_outside(result, tool, ctx), False)
            result = await present_result(note_adjusted(result, tool, course), tool, belt, pipeline, deadline)
        except FAILURES as error:
            cancelled, is_ours = cancelled or find_cancellation(error), True
            result = present(tell_failure(error, ctx, name, pipeline, tool), new_token(), pipeline.limit)
        result = attribute_ours(result, tool, ctx) if is_ours else result
    finally:
        deadline.close()
        course.stopped = True
        if slot:
            slot.release()
    # 9
    try:
        status, code, why = describe_outcome(result, course, is_cancelled=cancelled is not None)
        if writing := pipeline.record.write(_make_finished(call, name, status, code, course.started, why)):
            await wait_to_end(writing)
    except Exception as error:
        log.exception("what came of %s in call %s could not be recorded", name, call.id)
        how = "ran" if course.started else "did not run"
        why = f": {error}" if isinstance(error, ToolError) else ""
        result = failure_result(name, f"{name} {how}, and that could not be recorded{why}", "unrecorded", pipeline)
    if watched:
        watched.finish(result, markdown=tool is not None and tool.markdown)
    if cancelled:
        raise cancelled
    return result


async def _prepare(
    belt: Selection,
    verdict: Verdict | None,
    ctx: Ctx,
    pipeline: CallPipeline,
    deadline: Deadline,
    slot: CallSlot | None,
) -> tuple[Tool, Ctx, Mapping[str, Any]]:
    """Return the tool that may run now, and with what; raise ToolError when somebody is against it."""
    call = ctx.call
    if slot:
        await slot.wait_checked()
    # 2: nothing runs before it is written down that it may
    why = verdict.reason if verdict else no_such_tool(call.name, belt.tools)
    tainted = ctx.course.taint = tuple(islice(pipeline.taint(), MAX_SOURCES))
    if writing := pipeline.record.write(_make_decided(call, ctx.caller, verdict, why, belt.grounds, tainted)):
        await wait_to_end(writing)
    if pipeline.shadow is not None:
        await pipeline.shadow.judge(ctx, belt, verdict, tainted)
    tool, questions = _permit(belt, verdict, why)
    # 3
    args = _check_args(tool, call)
    if call.name is not tool.name or call.args != args:
        ctx.course.adjusted = compare_args(call.args, args, tool.aliases)
        ctx = _with_checked_args(ctx, tool, args)
    rules, judged = belt.rules_about and belt.rules_about(tool), None
    if rules and not rules.passes(args, pipeline.taint):
        ctx, args, judged = await _judge(belt, tool, ctx, args, questions, pipeline)
    # 4
    before, by_rules, granted = args, len(questions), None
    ctx, args = await _hear_guards(tool, ctx, args, questions, pipeline, deadline)
    by_guards = len(questions) > by_rules
    if rules and args != before:
        ctx, args, judged = await _judge(belt, tool, ctx, args, questions, pipeline)
    files = await _judge_files(belt, tool, ctx, questions, pipeline) if belt.is_guests else None
    # 5: a human takes the time it takes
    if questions:
        deadline.give(None)
        by_rules_alone = not (by_guards or (files and files.asks))
        granted = await _ask_if_left(tool, ctx, args, questions, pipeline, by_rules=by_rules_alone)
        ctx, args = (_with_checked_args(ctx, tool, granted.args), granted.args) if granted else (ctx, args)
        if pipeline.rejudge is not None and (now := pipeline.rejudge(belt, ctx)) is not belt:
            again = await _judge_again(now, tool, ctx, args, questions, pipeline, deadline, judged)
            ctx, args, judged, files = again
    bounds: tuple[CallBound | None, ...] = (judged, granted, files)
    for each in filter(None, bounds):
        ctx = each.confine(ctx)
    if slot:
        deadline.give(None)
        await slot.wait_exclusive(exclusive=tool.exclusive)
    if pipeline.meter and (waiting := pipeline.meter.admit(ctx.caller, tool, spends=True)):
        deadline.give(None)
        await count_call(waiting, ctx, tool.name, pipeline.record)
    return tool, ctx, args


def _make_changed_error(tool: Tool) -> ToolError:
    return ToolError(f"what {tool.name} would do is no longer what a human said yes to; call it again", code="changed")


async def _judge(  # noqa: PLR0913  all that one call has
    belt: Selection,
    tool: Tool,
    ctx: Ctx,
    args: Mapping[str, Any],
    questions: list[Ask],
    pipeline: CallPipeline,
    shown: Mapping[str, Any] | None = None,
) -> tuple[Ctx, Mapping[str, Any], ArgumentJudgement | None]:
    """Return the call as the rules about its arguments leave it, paths resolved; raise ToolError when one denies it.

    Or when a path leads elsewhere by now than it did when a human was `shown` it.
    """
    if (rules := belt.rules_about and belt.rules_about(tool)) is None:
        return ctx, args, None
    judged = await judge_arguments(rules, tool, ctx, args, pipeline.taint())
    ctx = ctx if judged.args is args else _with_checked_args(ctx, tool, judged.args)
    await judged.settle(ctx, questions, pipeline.record, belt.rule_grounds or belt.grounds)
    if shown is not None and judged.args != shown:
        raise _make_changed_error(tool)
    return ctx, judged.args, judged


async def _judge_files(
    belt: Selection, tool: Tool, ctx: Ctx, questions: list[Ask], pipeline: CallPipeline
) -> ReachedFiles | None:
    """Return what holds a guest's call to the files that it may reach; raise ToolError when it may not."""
    if files := ReachedFiles.of(belt, tool, ctx, pipeline.taint):
        await files.settle(questions, pipeline.record)
    return files


async def _hear_guards(
    tool: Tool, ctx: Ctx, args: Mapping[str, Any], questions: list[Ask], pipeline: CallPipeline, deadline: Deadline
) -> tuple[Ctx, Mapping[str, Any]]:
    """Return the call as the guards leave it; what they want a human to be asked is added to the questions."""
    for guard in pipeline.guards:
        if guard.tools and tool.name not in guard.tools:
            continue
        deadline.give(guard.seconds)
        try:
            said = await guard.run(ctx, shown := copy_args(args))
            if said is None and shown == args == ctx.call.args:
                continue
        except FAILURES as error:
            said = hook_failure(error, deadline)
        deadline.give(None)
        args = await _apply_word(guard, said, tool, ctx.call._replace(args=args), questions, pipeline.record)
        ctx = _with_checked_args(ctx, tool, args)
    return ctx, args


async def _judge_again(  # noqa: PLR0913  all that one call has
    belt: Selection,
    tool: Tool,
    ctx: Ctx,
    args: Mapping[str, Any],
    questions: list[Ask],
    pipeline: CallPipeline,
    deadline: Deadline,
    judged: ArgumentJudgement | None,
) -> tuple[Ctx, Mapping[str, Any], ArgumentJudgement | None, ReachedFiles | None]:
    """Return the call as other settings leave it that count since the question.

    The yes stands for a question to the same persons, never for a no, and not when guards say more against the call.
    """
    answered, heard = _list_says(tool, questions), list[Ask]()
    asked = _permit(belt, belt.verdicts.get(tool.name), f"{tool.name} has gone")[1]
    ctx, changed = await _hear_guards(tool, ctx, args, heard, pipeline, deadline)
    seen, bound = ({each for ask in asks for each in ask.binding.items()} for asks in (questions, heard))
    if changed != args or not bound <= seen:
        raise _make_changed_error(tool)
    ctx, args, judged = await _judge(belt, tool, ctx, args, questions, pipeline, shown=args if judged else None)
    files = await _judge_files(belt, tool, ctx, heard, pipeline)
    if not {*_list_says(tool, (*questions, *asked, *heard))} <= {*answered}:
        raise _make_changed_error(tool)
    return ctx, args, judged, files


async def _run_body(
    tool: Tool, ctx: Ctx, args: Mapping[str, Any], pipeline: CallPipeline, deadline: Deadline
) -> Result:
    # 6
    seconds, course = tool.timeout or pipeline.timeout, ctx.course
    if writing := pipeline.record.write(_make_started(ctx.call, tool.name)):
        deadline.give(None)
        await wait_to_end(writing)
    deadline.give(seconds)
    course.started, began = True, time.perf_counter()
    try:
        between = pipeline.bodies.between
        run = partial(between, tool) if between else tool.run
        result = await (run(ctx, args) if tool.retry is None else run_again(tool, run, ctx, args, pipeline.record))
    except asyncio.CancelledError:
        if deadline.was_missed():
            raise ToolError(f"{tool.name} did not finish within {seconds:g} seconds", code="timeout") from None
        raise
    finally:
        course.seconds = time.perf_counter() - began
    return complete_failure(result, tool.name, pipeline) if is_failure(result) else tool.check_result(result)


async def _perform(  # noqa: PLR0913  all that one call has
    belt: Selection,
    tool: Tool | None,
    ctx: Ctx,
    args: Mapping[str, Any],
    pipeline: CallPipeline,
    deadline: Deadline,
    slot: CallSlot | None,
) -> Result:
    """Return what the body gives back or, where it left the work to others, what they complete the call with."""
    course, later = ctx.course, pipeline.later
    try:
        if ctx.caller.door and pipeline.check_caller is not None:
            await pipeline.check_caller(ctx.caller)
        if tool is None or course.resumed:  # the body ran before, in another process
            result = pending_result(ctx.call.name, course.handle)
        else:
            result = await _run_body(tool, ctx, args, pipeline, deadline)
        if not course.handle or later is None:
            return result
        deadline.give(None)
        if slot:
            slot.release()
        return await _wait_for_later(belt, tool, ctx, result, pipeline, later)
    except FAILURES:
        if course.handle and later is not None:
            course.left = not await wait_to_end(later.withdraw(ctx.call))
        raise


async def _prepare_resumed(
    belt: Selection, verdict: Verdict | None, ctx: Ctx, pipeline: CallPipeline, *_: object
) -> tuple[Tool | None, Ctx, Mapping[str, Any]]:
    """Return the tool of a call whose body ran before, None where it has gone since; raise ToolError when it is denied.

    The body does not run again; what came of it is still for nobody who may not use the tool any more.
    """
    try:
        return None if verdict is None else _permit(belt, verdict, verdict.reason)[0], ctx, ctx.call.args
    except ToolError:
        if pipeline.later is not None:
            await wait_to_end(pipeline.later.withdraw(ctx.call))
        raise


async def _wait_for_later(
    belt: Selection, tool: Tool | None, ctx: Ctx, result: Result, pipeline: CallPipeline, later: LaterWaiter
) -> Result:
    """Return what a call was completed with; where no turn waits for that, that it is pending."""
    course, call = ctx.course, ctx.call
    if result.status != "pending":  # the body has done without
        await later.withdraw(call)
        return result
    if not course.resumed:
        if not course.in_turn:
            return result
        ended = _make_finished(call, call.name, "pending", "", True, tell_pending(course))
        if writing := pipeline.record.write(ended):
            await wait_to_end(writing)
    ctx.progress(result)
    done = await later.wait(call)
    if tool is not None and pipeline.rejudge is not None:  # whoever waited may be denied it by now
        _permit(now := pipeline.rejudge(belt, ctx), now.verdicts.get(tool.name), f"{tool.name} has gone")
    if is_failure(done):
        return complete_failure(done, call.name, pipeline)
    return done if tool is None else tool.check_result(done)


async def _observe(ctx: Ctx, args: Any, result: Result, pipeline: CallPipeline, deadline: Deadline) -> Result:
    """Tell the observers what came of a call; why one did not run is for none of them to say."""
    # 7
    name, args = ctx.call.name, copy_args(args) if isinstance(args, Mapping) else {}
    for observer in pipeline.observers:
        deadline.give(observer.seconds)
        try:
            # a copy of the details: what an observer does to those of a failure changes nothing
            shown = result._replace(details={**result.details}) if result.status == "error" else result
            said = await observer.run(ctx, args, shown)
        except FAILURES as error:
            said = hook_failure(error, deadline)
        if said is None or not ctx.course.started:
            continue
        changed = apply_observer(observer, said, name, result)
        if changed is not result:  # the same in other words
            ctx.course.add_sources(part.source for part in result.content if part.source)
        if changed is not result and is_failure(changed):
            changed = complete_failure(changed, name, pipeline, read_detail(result, "code") or "failed")
        result = changed
    return result


def _permit(belt: Selection, verdict: Verdict | None, why: str) -> tuple[Tool, list[Ask]]:
    """Return the tool, and what a human has to be asked; raise ToolError when there is none or it is denied."""
    if verdict is None:
        raise ToolError(why, code="not_found")
    if verdict.decision == "deny":
        told = f"Refused: {verdict.tool} is not permitted here. Do not try again; tell the user."
        raise ToolError(explain_sentence(verdict), code="denied", for_model=told)
    is_asked = verdict.decision == "ask"
    return belt.tools[verdict.tool], [Ask(why, says=belt.says_about(verdict.tool))] if is_asked else []


def _list_says(tool: Tool, questions: Iterable[Ask]) -> tuple[Consent, ...]:
    """Return who may answer for each rule that asks; whom a program runs for is no judge of it."""
    runs = "execute" in tool.effects
    return tuple(dict.fromkeys(replace(say, runs=runs) for each in questions for say in each.says))


def _check_args(tool: Tool, call: Call) -> Mapping[str, Any]:
    if call.parse_error:
        raise ArgumentError(f"{tool.name}: {call.parse_error}")
    if type(call.args) is not dict and not isinstance(call.args, Mapping):
        raise ArgumentError(f"{tool.name}: the arguments are not an object, but {type(call.args).__name__}")
    return tool.check(call.args)


def _with_checked_args(ctx: Ctx, tool: Tool, args: Mapping[str, Any]) -> Ctx:
    """Return the context with the call as it was understood: hooks, humans and bodies never see another spelling."""
    call = ctx.call
    call = _make_call(call.id, tool.name, copy_args(args), call.key, call.signature, call.parse_error)
    return _make_ctx(call, ctx.caller, ctx.course, ctx.ports)


async def _apply_word(
    guard: BoundHook, said: Any, tool: Tool, call: Call, questions: list[Ask], record: Record
) -> Mapping[str, Any]:
    """Return the arguments as a guard leaves them; what it said is written down first, also when that is no."""
    args, decision, blocked = call.args, _DECISIONS.get(type(said)), None
    try:
        args = apply_guard(guard, said, tool, args, questions)
    except ToolError as error:
        decision, blocked = "deny", error
    reason = getattr(said, "reason", "") or str(blocked or "")
    basis = getattr(said, "basis", None) or NO_BASIS
    if decision and (writing := record.write(Judged(call, guard.name, decision, reason, basis))):
        await wait_to_end(writing)
    if blocked is not None:
        raise blocked
    return args


async def _ask_if_left(
    tool: Tool, ctx: Ctx, args: Mapping[str, Any], questions: Sequence[Ask], pipeline: CallPipeline, *, by_rules: bool
) -> ArgumentJudgement | None:
    """Wait for a human, outside the call's deadline; nobody is asked about what is used up, and nobody is a no.

    A grant may answer what only rules ask of the owner: what is returned then holds the call to it. A program's own
    approver speaks for the owner, and for nobody else.
    """
    says, approver, people = _list_says(tool, questions), pipeline.approver, pipeline.people
    if pipeline.meter and (waiting := pipeline.meter.admit(ctx.caller, tool, spends=False)):
        await count_call(waiting, ctx, tool.name, pipeline.record)
    may_last = by_rules and approver is None and all(each.may_last for each in says)
    if people and may_last and (granted := await use_grant(people, tool, ctx, args, tuple(pipeline.taint()))):
        return granted
    reason, binding = "; ".join(question.reason for question in questions), dict[str, str]()
    for name, value in (bound for question in questions for bound in question.binding.items()):
        if binding.setdefault(name, value) != value:
            raise ToolError(f"two guards bind {name!r} differently, so {ctx.call.name} was not run", code="blocked")
    approver = approver if all(each.is_owners for each in says) else None
    if approver is None and people is None:
        raise make_unasked_error(reason, ctx.call.name)
    check = None if pipeline.preview is None else await pipeline.preview(tool, ctx, args, binding)
    if approver is None:
        is_yes = people is not None and await people.ask(ctx.caller, ctx.call, AskTerms(reason, binding, says))
    else:
        is_yes = await approver.approve(ctx.caller, ctx.call, reason, binding) is True  # "no" is not a yes
        writes_record = getattr(approver, "writes_record", False)
        if not writes_record and (writing := pipeline.record.write(Answered(ctx.call, _OWN_APPROVER, is_yes))):
            await wait_to_end(writing)
    if not is_yes:
        told = f"Refused: the user said no to this call of {ctx.call.name}. Do not try again; ask what to do instead."
        raise ToolError(f"a human refused {ctx.call.name}", code="not_approved", for_model=told)
    if check is not None:
        await check()
    return None
