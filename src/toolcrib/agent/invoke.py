"""One call, start to finish: the only place where a tool body runs for a caller. The order is fixed:

    1 the canonical name, looked up on the belt       6 the body, recorded as started, under its deadline
    2 the decision recorded                           7 observers
    3 arguments renamed, coerced, checked             8 outside text fenced, then cut inside the fence
    4 guards, each of which may block or rewrite      9 the outcome recorded
    5 a human asked, where somebody says so; what guards and humans say is recorded

Nothing but cancellation leaves as an exception: what fails comes back as a Result that says so. Whoever failed, its
details hold `status`, `tool`, `error` (one line, redacted) and `code`; observers, watchers and the record get the same.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from secrets import token_hex
from typing import Any, Literal

import orjson

from toolcrib.adapter.fence import NOTICE, new_token
from toolcrib.adapter.trim import (
    RESULT_CHARS,
    attribute,
    error_text,
    is_failure,
    is_long,
    present,
    reason,
    redact_result,
    result_text,
)
from toolcrib.define.args import compare_args
from toolcrib.define.context import Ctx, constructor
from toolcrib.define.display import replace_halves
from toolcrib.define.errors import ArgumentError, CribError, ToolError, make_unasked_error
from toolcrib.define.event import CallEvent
from toolcrib.define.marks import defuse
from toolcrib.define.message import Call
from toolcrib.define.names import canonical
from toolcrib.define.plugin import Allow, Ask, Rewrite
from toolcrib.define.ports import Approver, Blobs
from toolcrib.define.record import Answered, Decided, Finished, Judged, Record, Started
from toolcrib.define.result import Result, Text
from toolcrib.define.taint import MAX_SOURCES
from toolcrib.define.tool import BodyRunner, Tool
from toolcrib.define.verdict import NO_BASIS, Decision, Selection, Verdict
from toolcrib.policy.explain import explain_sentence

from .belt import no_such_tool
from .deadline import Deadline, is_cancelled, wait_to_end
from .hooks import BoundHook, apply_guard, apply_observer, copy_args, hook_failure
from .line import CallSlot, call_slots
from .mailbox import CallWatcher
from .shadow import Shadow

log = logging.getLogger("toolcrib")


Preview = Callable[[Tool, Ctx, Mapping[str, Any], dict[str, str]], Awaitable[Callable[[], Awaitable[None]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPipeline:
    """What every call goes through: who looks at it before and after, and what all callers are bound by.

    `redact` takes secrets out of a text, and is None when there is none to look for; `redact_errors`, where there is
    one, is stricter and does it for errors. `timeout` and `limit` (characters of text for the model) hold for tools
    that do not state their own, a `ceiling` for all. `notice` puts a warning before outside text, whatever its tool.
    `watch` hears how calls go, and has no say in them. `bodies` is what tests put between a call and its body.
    `rejudge` gives the belt that a call is judged by: the same one, or another one when other settings count by now.
    `preview` adds to a question what the call would change, and returns what makes sure of it after the yes. `taint`
    tells where content came from that the call may go back to. `shadow` is a policy on trial, which hears every verdict
    and changes none.
    """

    record: Record
    guards: tuple[BoundHook, ...] = ()
    observers: tuple[BoundHook, ...] = ()
    approver: Approver | None = None
    preview: Preview | None = None
    blobs: Blobs | None = None
    redact: Callable[[str], str] | None = None
    redact_errors: Callable[[str], str] | None = None
    watch: Callable[[CallEvent], None] | None = None
    timeout: float = 120.0
    limit: int = RESULT_CHARS
    ceiling: int = 0
    notice: bool = False
    bodies: BodyRunner = field(default_factory=BodyRunner)
    rejudge: Callable[[Selection, Ctx], Selection] | None = None
    taint: Callable[[], Collection[str]] = tuple
    shadow: Shadow | None = None


_numbers = count(1)


def _prefix() -> str:
    return f"call_{token_hex(12)}_"


_process = _prefix()


def new_key() -> str:
    """Return a key that no call had before."""
    return f"{_process}{next(_numbers)}"


def _new_process() -> None:
    global _process
    _process = _prefix()  # a forked child must not go on with its parent's keys


os.register_at_fork(after_in_child=_new_process)


async def present_result(
    result: Result, tool: Tool | None, belt: Selection, pipeline: CallPipeline, deadline: Deadline
) -> Result:
    """Return the result as the model reads it; a text too long for it is kept whole, where it can be paged through."""
    # 8
    limit = (tool.limit if tool else None) or pipeline.limit
    limit = min(limit, pipeline.ceiling or limit, result.limit or limit)
    if is_plain(result, limit) and pipeline.redact is None:
        return result
    deadline.give(None)
    if pipeline.redact is not None:
        result = redact_result(result, pipeline.redact)
    key = ""
    if "result_get" in belt.tools and pipeline.blobs is not None and is_long(result, limit):
        key = await _keep_whole(result, pipeline.blobs)
    notice = NOTICE if pipeline.notice or (tool and tool.notice) else ""
    return present(result, new_token(), limit, key=key, notice=notice)


def is_plain(result: Result, limit: int) -> bool:
    """Tell whether there is nothing to fence, to cut or to clean."""
    if len(result.content) != 1:
        return False
    part = result.content[0]
    return isinstance(part, Text) and part.source is None and len(part.text) <= limit and part.text.isascii()


def failure_result(name: str, message: str, code: str, pipeline: CallPipeline, source: str | None = None) -> Result:
    """Return a failure in the form that all have: `{status, tool, error, code}`, one line, bounded and redacted.

    `source` says where words of it came from when that is outside. No sentence of ours holds marks or tokens of chat
    templates: where one does, somebody else's name or words are in it.
    """
    name = canonical(name) or name[:_NAME_CHARS]
    if source is None and defuse(message) != message:
        source = f"an error of {name}"
    try:
        words = error_text(message, pipeline.redact_errors or pipeline.redact or str)
    except Exception:
        log.exception("an error of %s could not be redacted", name)
        words = f"{name} failed; what it said is not shown, because it could not be cleared of secrets"
    return Result.error(words, code=code[:_NAME_CHARS], details={"tool": name}, source=source)


def complete_failure(result: Result, name: str, pipeline: CallPipeline, code: str = "failed") -> Result:
    """Return a failure that somebody else made in the same form; what was gathered stays in content and details."""
    told = result.details
    if not isinstance(told, Mapping):
        told = {} if told is None else {"details": told}
    # a mere status is no sentence
    cleared = result._replace(details={key: each for key, each in told.items() if key != "status"})
    if redact := pipeline.redact_errors or pipeline.redact:
        cleared = redact_result(cleared, redact)  # before anything is cut: half of a secret is not recognised
    code = str(told.get("code") or ("timeout" if told.get("status") == "timeout" else code))
    made = failure_result(name, reason(cleared) or "", code, pipeline)
    return result._replace(content=result.content or made.content, details={**told, **made.details}, status="error")


async def _keep_whole(result: Result, blobs: Blobs) -> str:
    """Return the key under which the whole text is kept, "" when it could not be."""
    sources = [part.source for part in result.content if isinstance(part, Text) and part.source is not None]
    # the source goes with the text, so that every page of it is fenced again
    whole = orjson.dumps({"source": next(iter(sources), None), "text": replace_halves(result_text(result))})
    try:
        return await blobs.put(whole)
    except Exception:
        log.exception("a long result could not be kept; the model gets its beginning")
        return ""


_NAME_CHARS = 64
_FOREIGN = ("plugin:", "client:")  # bodies that somebody else wrote, and that run here
_OUTSIDE = "mcp:"  # whatever tools of such a source give back is from outside, also when an observer rewrote it
_FAILURES = (Exception, SystemExit, asyncio.CancelledError)  # what must not leave: sys.exit in a body is no exit
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
        name = canonical(name) or name[:_NAME_CHARS]
        verdict = belt.verdicts.get(name)
    watched = CallWatcher(pipeline.watch, ctx, verdict, pipeline.redact) if pipeline.watch else None
    tool, cancelled, ours = _NOTHING_YET
    try:
        try:
            tool, ctx, args = await _prepare(belt, verdict, ctx, pipeline, deadline, slot)
            result = await _run_body(tool, ctx, args, pipeline, deadline)
        except _FAILURES as error:
            course.stopped = True  # a body in a thread hears it now, and not when everybody was told
            cancelled = _cancellation(error)
            tool = tool if course.started else None
            result, args = _failure(error, ctx, name, pipeline, tool), ctx.call.args
            ours = result
        try:
            if pipeline.observers:
                ctx = ctx._replace(call=ctx.call._replace(name=name))
                result = await _observe(ctx, args, result, pipeline, deadline)
            # a failure in our own words needs no fence, and still a source
            result = result if result is ours else _attribute_outside(result, tool, ctx)
            result = await present_result(_note_adjusted(result, course.adjusted), tool, belt, pipeline, deadline)
        except _FAILURES as error:
            cancelled = cancelled or _cancellation(error)
            result = present(_failure(error, ctx, name, pipeline, tool), new_token(), pipeline.limit)
        result = _attribute_outside(result, tool, ctx)
    finally:
        deadline.close()
        course.stopped = True
        if slot:
            slot.release()
    # 9
    try:
        status = "cancelled" if cancelled else result.status
        code, why = ("", "") if status == "ok" else (_read_detail(result, "code"), _read_detail(result, "error"))
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
    why = verdict.reason if verdict else no_such_tool(call.name, belt)
    tainted = tuple(islice(pipeline.taint(), MAX_SOURCES))
    if writing := pipeline.record.write(_make_decided(call, ctx.caller, verdict, why, belt.grounds, tainted)):
        await wait_to_end(writing)
    if pipeline.shadow is not None and verdict is not None:
        await pipeline.shadow.judge(ctx, verdict)
    tool, questions = _permit(belt, verdict, why)
    # 3
    args = _check_args(tool, call)
    if call.name is not tool.name or call.args != args:
        ctx.course.adjusted = compare_args(call.args, args, tool.aliases)
        ctx = _with_checked_args(ctx, tool, args)
    # 4
    ctx, args = await _hear_guards(tool, ctx, args, questions, pipeline, deadline)
    # 5: a human takes the time it takes
    if questions:
        deadline.give(None)
        await _ask(tool, ctx, args, questions, pipeline)
        if pipeline.rejudge is not None and (now := pipeline.rejudge(belt, ctx)) is not belt:
            # other settings count since the question: the yes stands for a question, never for a no
            _permit(now, now.verdicts.get(tool.name), why)
            ctx, args = await _hear_guards(tool, ctx, args, questions, pipeline, deadline)
    if slot:
        deadline.give(None)
        await slot.wait_exclusive(exclusive=tool.exclusive)
    return tool, ctx, args


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
        except _FAILURES as error:
            said = hook_failure(error, deadline)
        deadline.give(None)
        args = await _apply_word(guard, said, tool, ctx.call._replace(args=args), questions, pipeline.record)
        ctx = _with_checked_args(ctx, tool, args)
    return ctx, args


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
        result = await (between(tool, ctx, args) if between else tool.run(ctx, args))
    except asyncio.CancelledError:
        if deadline.was_missed():
            raise ToolError(f"{tool.name} did not finish within {seconds:g} seconds", code="timeout") from None
        raise
    finally:
        course.seconds = time.perf_counter() - began
    return complete_failure(result, tool.name, pipeline) if is_failure(result) else result


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
        except _FAILURES as error:
            said = hook_failure(error, deadline)
        if said is None or not ctx.course.started:
            continue
        changed = apply_observer(observer, said, name, result)
        if changed is not result and is_failure(changed):
            changed = complete_failure(changed, name, pipeline, _read_detail(result, "code") or "failed")
        result = changed
    return result


def _attribute_outside(result: Result, tool: Tool | None, ctx: Ctx) -> Result:
    """Return the result with where it is from, where that is outside."""
    outside = tool.source if tool is not None and tool.source.startswith(_OUTSIDE) else ctx.course.outside
    return result if outside is None else attribute(result, outside)


def _note_adjusted(result: Result, adjusted: Sequence[Mapping[str, Any]]) -> Result:
    """Return the result with the arguments that were read otherwise than they were written in its details."""
    if not adjusted or not isinstance(result.details, Mapping | None):
        return result
    return result._replace(details={**(result.details or {}), "adjusted": adjusted})


def _permit(belt: Selection, verdict: Verdict | None, why: str) -> tuple[Tool, list[Ask]]:
    """Return the tool, and what a human has to be asked; raise ToolError when there is none or it is denied."""
    if verdict is None:
        raise ToolError(why, code="not_found")
    if verdict.decision == "deny":
        told = f"Refused: {verdict.tool} is not permitted here. Do not try again; tell the user."
        raise ToolError(explain_sentence(verdict), code="denied", for_model=told)
    return belt.tools[verdict.tool], [Ask(why)] if verdict.decision == "ask" else []


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


async def _ask(tool: Tool, ctx: Ctx, args: Mapping[str, Any], questions: Sequence[Ask], pipeline: CallPipeline) -> None:
    """Wait for a human, outside the call's deadline; with nobody to ask, the answer is no."""
    approver = pipeline.approver
    reason, binding = "; ".join(question.reason for question in questions), dict[str, str]()
    for name, value in (bound for question in questions for bound in question.binding.items()):
        if binding.setdefault(name, value) != value:
            raise ToolError(f"two guards bind {name!r} differently, so {ctx.call.name} was not run", code="blocked")
    if approver is None:
        raise make_unasked_error(reason, ctx.call.name)
    check = None if pipeline.preview is None else await pipeline.preview(tool, ctx, args, binding)
    is_yes = await approver.approve(ctx.caller, ctx.call, reason, binding) is True  # "no" is not a yes
    writes_record = getattr(approver, "writes_record", False)
    if not writes_record and (writing := pipeline.record.write(Answered(ctx.call, _OWN_APPROVER, is_yes))):
        await wait_to_end(writing)
    if not is_yes:
        told = f"Refused: the user said no to this call of {ctx.call.name}. Do not try again; ask what to do instead."
        raise ToolError(f"a human refused {ctx.call.name}", code="not_approved", for_model=told)
    if check is not None:
        await check()


def _cancellation(error: BaseException) -> asyncio.CancelledError | None:
    """Return the error when it is a cancellation from outside, which has to leave in the end."""
    return error if isinstance(error, asyncio.CancelledError) and is_cancelled() else None


def _failure(error: BaseException, ctx: Ctx, name: str, pipeline: CallPipeline, ran: Tool | None) -> Result:
    """Return a failure as the model may read it: what is raised on purpose in its own words, a bug of ours in ours.

    A bug in somebody else's tool that `ran` is told by its first line, which its author can mend it by.
    """
    words, code, source = _read(error), "failed", None
    if isinstance(error, CribError):
        # a subclass of somebody else's may have forgotten what ours hold
        code, source = str(getattr(error, "code", code)), getattr(error, "source", None) or ctx.course.outside
    elif isinstance(error, asyncio.CancelledError):
        words, code = f"{name} was cancelled", "cancelled"
    else:
        log.error("tool %s failed in call %s", name, ctx.call.id, exc_info=error)
        kind, code = type(error).__name__, "bug"
        if ran is not None and ran.source.startswith(_FOREIGN):
            words = f"{name} failed ({kind}): {words or 'it did not say why'}"
        else:
            words = f"{name} failed unexpectedly ({kind}); the operator's log has the details"
    result, told = failure_result(name, words, code, pipeline, source), str(getattr(error, "for_model", ""))
    # words from outside are fenced, and these would stand without a fence
    return result if source or defuse(told) != told else result._replace(for_model=told)


def _read(error: BaseException) -> str:
    """Return what an exception says, "" where that cannot be read."""
    try:
        return str(error).strip()
    except _FAILURES:
        log.exception("an exception of the type %s cannot be read", type(error).__name__)
        return ""


def _read_detail(result: Result, key: str) -> str:
    """Return what the details of a failure hold under a key."""
    details = result.details
    return str(details.get(key, "")) if result.status == "error" and isinstance(details, Mapping) else ""
