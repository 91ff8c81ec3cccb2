"""What comes of a call: failures in one form, where a result is from, and what the model and the record get."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Literal

import orjson

from toolcrib.adapter.fence import NOTICE, new_token
from toolcrib.adapter.trim import error_text, is_long, present, reason, redact_result, result_text
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.display import replace_halves
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.marks import defuse
from toolcrib.define.names import canonical
from toolcrib.define.ports import Blobs
from toolcrib.define.result import Result, Text
from toolcrib.define.sourced import attribute
from toolcrib.define.taint import join_sources
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Selection

from .deadline import Deadline
from .pipeline import FOREIGN_BODIES, CallPipeline, has_own_way_out, may_bring_outside

log = logging.getLogger("toolcrib")

FAILURES = (Exception, SystemExit, asyncio.CancelledError)  # what must not leave: sys.exit in a body is no exit

_NAME_CHARS = 64


def is_plain(result: Result, limit: int) -> bool:
    """Tell whether there is nothing to fence, to cut or to clean."""
    if len(content := result.content) != 1 or type(part := content[0]) is not Text or part.source is not None:
        return False
    return len(text := part.text) <= (min(limit, result.limit) if result.limit else limit) and text.isascii()


async def keep_whole(result: Result, blobs: Blobs) -> str:
    """Return the key under which the whole text is kept, "" when it could not be."""
    source = join_sources(part.source for part in result.content if isinstance(part, Text) and part.source)
    # the sources go with the text, so that every page of it is fenced again
    whole = orjson.dumps({"source": source or None, "text": replace_halves(result_text(result))})
    try:
        return await blobs.put(whole)
    except Exception:
        log.exception("a long result could not be kept; the model gets its beginning")
        return ""


def attribute_outside(result: Result, tool: Tool | None, ctx: Ctx) -> Result:
    """Return the result with all that the call has gathered of where it is from, where that is outside."""
    sources = _list_sources(result, tool, ctx)
    return attribute(result, sources) if sources else result


def attribute_ours(result: Result, tool: Tool | None, ctx: Ctx) -> Result:
    """Return a failure in our own words, which needs no fence, with the sources of its call."""
    if not (sources := _list_sources(result, tool, ctx)):
        return result
    source = join_sources(sources)
    return result._replace(content=tuple(part._replace(source=source) for part in result.content))


def _list_sources(result: Result, tool: Tool | None, ctx: Ctx) -> tuple[str, ...]:
    sources = ctx.course.sources
    if tool is None or not may_bring_outside(tool):
        return sources
    is_unsaid = not result.content or any(part.source is None for part in result.content)
    return (tool.source, *sources) if is_unsaid or tool.source.startswith("mcp:") else sources


def note_adjusted(result: Result, tool: Tool | None, state: CallState) -> Result:
    """Return the result with the arguments that were read otherwise than they were written in its details.

    The details of a tool that declares its output hold that alone.
    """
    if not state.adjusted or not isinstance(result.details, Mapping | None) or (tool and tool.output):
        return result
    return result._replace(details={**(result.details or {}), "adjusted": state.adjusted})


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
        key = await keep_whole(result, pipeline.blobs)
    notice = NOTICE if pipeline.notice or (tool and tool.notice) else ""
    return present(result, new_token(), limit, key=key, notice=notice)


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
        words = f"{name} failed; its text is not shown, because it could not be cleared of secrets"
    return Result.error(words, code=code[:_NAME_CHARS], details={"tool": name}, source=source)


def complete_failure(result: Result, name: str, pipeline: CallPipeline, code: str = "failed") -> Result:
    """Return a failure that somebody else made in the same form; what was gathered stays in content and details."""
    details = result.details
    if not isinstance(details, Mapping):
        details = {} if details is None else {"details": details}
    # a mere status is no sentence
    cleared = result._replace(details={key: each for key, each in details.items() if key != "status"})
    if redact := pipeline.redact_errors or pipeline.redact:
        cleared = redact_result(cleared, redact)  # before anything is cut: half of a secret is not recognised
    code = str(details.get("code") or ("timeout" if details.get("status") == "timeout" else code))
    parts, error = result.content, details.get("error")
    # a mere sentence is bounded like one that was raised; what a body has in hand stays
    is_sentence = len(parts) == 1 and isinstance(parts[0], Text) and parts[0].text == error
    made = failure_result(name, reason(cleared) or "", code, pipeline, parts[0].source if is_sentence else None)
    content = made.content if is_sentence or not parts else parts
    return result._replace(content=content, details={**details, **made.details}, status="error")


def tell_failure(error: BaseException, ctx: Ctx, name: str, pipeline: CallPipeline, ran: Tool | None) -> Result:
    """Return a failure as the model may read it: what is raised on purpose in its own words, a bug of ours in ours.

    A bug in somebody else's tool that `ran` is shown by its first line, which its author can mend it by.
    """
    words, code, source = _read(error), "failed", None
    around = (ran.source,) if ran is not None and has_own_way_out(ran) else ()
    if isinstance(error, CribError):
        # a subclass of somebody else's may have forgotten what ours hold
        code, own = str(getattr(error, "code", code)), getattr(error, "source", None)
        source = join_sources([*([own] if own else ()), *around, *ctx.course.sources]) or None
    elif isinstance(error, asyncio.CancelledError):
        words, code = f"{name} was cancelled", "cancelled"
    else:
        log.error("tool %s failed in call %s", name, ctx.call.id, exc_info=error)
        kind, code = type(error).__name__, "bug"
        if ran is not None and ran.source.startswith(FOREIGN_BODIES):
            words = f"{name} failed ({kind}): {words or 'it did not say why'}"
            source = join_sources([*around, *ctx.course.sources]) or None
        else:
            words = f"{name} failed unexpectedly ({kind}); the operator's log has the details"
    result, for_model = failure_result(name, words, code, pipeline, source), str(getattr(error, "for_model", ""))
    # words from outside are fenced, and these would stand without a fence
    return result if source or defuse(for_model) != for_model else result._replace(for_model=for_model)


def tell_unrecorded(error: Exception, name: str, state: CallState, pipeline: CallPipeline) -> Result:
    """Return the result of a call of which nobody could write down what came of it."""
    how = "ran" if state.started else "did not run"
    why = f": {error}" if isinstance(error, ToolError) else ""
    return failure_result(name, f"{name} {how}, and that could not be recorded{why}", "unrecorded", pipeline)


def _read(error: BaseException) -> str:
    """Return what an exception says, "" where that cannot be read."""
    try:
        return str(error).strip()
    except FAILURES:
        log.exception("an exception of the type %s cannot be read", type(error).__name__)
        return ""


def describe_outcome(
    result: Result, state: CallState, *, is_cancelled: bool
) -> tuple[Literal["ok", "error", "pending", "cancelled"], str, str]:
    """Return what the record says of an end: the status, the code and the sentence."""
    if result.status == "ok" and not is_cancelled and not state.left:
        return "ok", "", ""
    if state.left or (result.status == "pending" and state.handle):
        return "pending", "", tell_pending(state)
    return "cancelled" if is_cancelled else result.status, read_detail(result, "code"), read_detail(result, "error")


def read_detail(result: Result, key: str) -> str:
    """Return what the details of a failure hold under a key."""
    details = result.details
    return str(details.get(key, "")) if result.status == "error" and isinstance(details, Mapping) else ""


def tell_pending(state: CallState) -> str:
    """Return what is recorded of a call that somebody completes later."""
    return f"pending under the handle {state.handle!r}"
