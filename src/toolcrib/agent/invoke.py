"""One call, start to finish: the only place where a tool body runs. The order is fixed:

    1 the canonical name, looked up on the belt       6 the body, under its deadline
    2 arguments renamed, coerced, checked             7 observers
    3 the decision recorded                           8 outside text fenced, then cut inside the fence
    4 guards, each of which may block or rewrite      9 the outcome recorded
    5 a human asked, where somebody says so

Nothing but cancellation leaves as an exception: what fails comes back as a Result that says so.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from toolcrib.adapter.fence import new_token
from toolcrib.adapter.fence_clean import writable
from toolcrib.adapter.trim import LIMIT, error_text, is_long, present, text_of
from toolcrib.define.context import Ctx
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.names import canonical, nearest
from toolcrib.define.ports import Approver, Blobs
from toolcrib.define.record import Decided, Finished, Record
from toolcrib.define.result import Content, Result, Text
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Belt, Verdict
from toolcrib.policy.explain import explain_sentence

from .deadline import DeadlineError, within
from .hooks import Ready, guarded, observed

__all__ = ["Window", "invoke"]

log = logging.getLogger("toolcrib")

_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The crib's window: who looks at a call before and after it, and what everybody is bound by.

    `timeout` and `limit` (characters of text for the model) hold for tools that do not state their own.
    """

    record: Record
    guards: tuple[Ready, ...] = ()
    observers: tuple[Ready, ...] = ()
    approver: Approver | None = None
    blobs: Blobs | None = None
    redact: Callable[[str], str] = str
    timeout: float = 120.0
    limit: int = LIMIT


class _Progress:
    """How far a call has come."""

    __slots__ = ("started",)

    def __init__(self) -> None:
        self.started = False


async def invoke(belt: Belt, ctx: Ctx, window: Window) -> Result:
    """Run `ctx.call` for `ctx.caller` if the belt permits it, and return what came of it."""
    asked = ctx.call.name
    name = asked if asked in belt.verdicts else canonical(asked) or ""
    progress = _Progress()
    try:
        result = await _run(belt, name, ctx, window, progress)
    except ToolError as error:
        result = _failed(name or asked[:_LONGEST_NAME], str(error), error.code, window)
    except CribError as error:
        result = _failed(name, str(error), "failed", window)
    except asyncio.CancelledError:
        await window.record.write(Finished(ctx.call, name, "cancelled", "cancelled", progress.started))
        raise
    except Exception as error:
        log.exception("tool %s failed in call %s", name, ctx.call.id)
        kind = type(error).__name__
        words = f"{name} failed unexpectedly ({kind}); the operator's log has the details"
        result = _failed(name, words, "bug", window)
    await window.record.write(Finished(ctx.call, name, result.status, _code(result), progress.started))
    return result


async def _run(belt: Belt, name: str, ctx: Ctx, window: Window, progress: _Progress) -> Result:
    tool, verdict = await _judged(belt, name, ctx, window)
    args = tool.check(ctx.call.args)
    asked = [verdict.reason] if verdict.decision == "ask" else []
    if window.guards:
        ctx = _as_checked(ctx, name, args)
        args, questions = await guarded(window.guards, tool, ctx, args)
        asked += questions
    if asked:
        await _ask(_as_checked(ctx, name, args), asked, window.approver)
    progress.started = True
    try:
        result = await within(tool.timeout or window.timeout, tool.run(ctx, args))
    except DeadlineError:
        seconds = tool.timeout or window.timeout
        raise ToolError(f"{tool.name} did not finish within {seconds:g} seconds", code="timeout") from None
    if window.observers:
        result = await observed(window.observers, ctx, args, result)
    return await _presented(result, tool.limit or window.limit, window.blobs if "result_get" in belt.tools else None)


def _as_checked(ctx: Ctx, name: str, args: Mapping[str, Any]) -> Ctx:
    """Return the context with the call as it was understood: hooks and humans never see another spelling."""
    if ctx.call.name == name and ctx.call.args == args:
        return ctx
    return replace(ctx, call=replace(ctx.call, name=name, args=args))


async def _judged(belt: Belt, name: str, ctx: Ctx, window: Window) -> tuple[Tool, Verdict]:
    """Return the tool and its verdict, recorded; raise ToolError when there is none or it is denied."""
    call = ctx.call
    if name not in belt.verdicts:
        close = nearest(call.name, belt.tools, 3)
        hint = f"; the nearest are {', '.join(close)}" if close else ""
        sentence = f"there is no tool {call.name[:_LONGEST_NAME]!r}{hint}"
        await window.record.write(Decided(call, ctx.caller, None, sentence))
        raise ToolError(sentence, code="not_found")
    verdict = belt.verdicts[name]
    await window.record.write(Decided(call, ctx.caller, verdict, verdict.reason))
    if verdict.decision == "deny":
        raise ToolError(explain_sentence(verdict), code="denied")
    return belt.tools[name], verdict


async def _ask(ctx: Ctx, reasons: Sequence[str], approver: Approver | None) -> None:
    """Wait for a human, outside the call's deadline; with nobody to ask, the answer is no."""
    reason = "; ".join(reasons)
    if approver is None:
        raise ToolError(f"{reason}, and there is nobody to ask", code="not_approved")
    if not await approver.approve(ctx.caller, ctx.call, reason):
        raise ToolError(f"a human refused {ctx.call.name}", code="not_approved")


async def _presented(result: Result, limit: int, blobs: Blobs | None) -> Result:
    """Return the result as the model reads it; a text too long for it is kept whole, where it can be paged through."""
    if len(result.content) == 1 and _is_plain(result.content[0], limit):
        return result
    key = ""
    if blobs is not None and is_long(result, limit):
        sources = [part.source for part in result.content if isinstance(part, Text) and part.source is not None]
        # the source goes with the text, so that every page of it is fenced again
        key = await blobs.put(orjson.dumps({"source": next(iter(sources), None), "text": writable(text_of(result))}))
    return present(result, new_token(), limit, key=key)


def _is_plain(part: Content, limit: int) -> bool:
    """Tell whether there is nothing to fence, to cut or to clean."""
    return isinstance(part, Text) and part.source is None and len(part.text) <= limit and part.text.isascii()


def _failed(name: str, message: str, code: str, window: Window) -> Result:
    """Return the failure as a model may read it: `{status, tool, error}`, one line, bounded and redacted."""
    return Result.error(error_text(message, window.redact), code=code, details={"tool": name})


def _code(result: Result) -> str:
    details = result.details
    return str(details.get("code", "")) if result.status == "error" and isinstance(details, Mapping) else ""
