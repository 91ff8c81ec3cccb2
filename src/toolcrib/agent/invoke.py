"""One call, start to finish: the only place where a tool body runs.

Belt lookup, the check of the arguments, the verdict, the question to a human, the body under its deadline. Nothing
but cancellation leaves as an exception: what fails comes back as a Result that says so.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from toolcrib.define.context import Ctx
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.names import canonical, nearest
from toolcrib.define.ports import Approver
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Belt, Verdict
from toolcrib.policy.explain import explain_sentence

__all__ = ["invoke"]

log = logging.getLogger("toolcrib")

_LONGEST_ERROR = 400
_LONGEST_NAME = 64


async def invoke(belt: Belt, ctx: Ctx, *, approver: Approver | None = None, timeout: float = 120.0) -> Result:
    """Run `ctx.call` for `ctx.caller` if the belt permits it, and return what came of it."""
    name = canonical(ctx.call.name) or ""
    try:
        tool, verdict = _lookup(belt, ctx.call.name, name)
        args = tool.check(ctx.call.args)
        await _ask(ctx, verdict, approver)
        return await _body(tool, ctx, args, tool.timeout or timeout)
    except ToolError as error:
        return _failed(name or ctx.call.name[:_LONGEST_NAME], str(error), error.code)
    except CribError as error:
        return _failed(name, str(error), "failed")
    except Exception as error:
        log.exception("tool %s failed in call %s", name, ctx.call.id)
        return _failed(
            name, f"{name} failed unexpectedly ({type(error).__name__}); the operator's log has the details", "bug"
        )


def _lookup(belt: Belt, asked: str, name: str) -> tuple[Tool, Verdict]:
    verdict = belt.verdicts.get(name)
    if verdict is None:
        close = nearest(asked, belt.tools, 3)
        hint = f"; the nearest are {', '.join(close)}" if close else ""
        raise ToolError(f"there is no tool {asked[:_LONGEST_NAME]!r}{hint}", code="not_found")
    if verdict.decision == "deny":
        raise ToolError(explain_sentence(verdict), code="denied")
    return belt.tools[name], verdict


async def _ask(ctx: Ctx, verdict: Verdict, approver: Approver | None) -> None:
    """Wait for a human where the verdict says so; with nobody to ask, the answer is no."""
    if verdict.decision != "ask":
        return
    if approver is None:
        raise ToolError(f"{verdict.reason}, and there is nobody to ask", code="not_approved")
    if not await approver.approve(ctx.caller, ctx.call, verdict.reason):
        raise ToolError(f"a human refused {verdict.tool}", code="not_approved")


async def _body(tool: Tool, ctx: Ctx, args: Mapping[str, Any], seconds: float) -> Result:
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await tool.run(ctx, args)
    except TimeoutError:
        if not deadline.expired():  # the body's own time-out is not ours
            raise
        raise ToolError(f"{tool.name} did not finish within {seconds:g} seconds", code="timeout") from None


def _failed(name: str, message: str, code: str) -> Result:
    """Return the failure as a model may read it: one line, bounded, without control characters."""
    line = next((line for line in message.splitlines() if line.strip()), f"{name} failed and did not say why")
    clean = "".join(char if char.isprintable() else " " for char in line)[:_LONGEST_ERROR]
    return Result.error(clean, code=code, details={"tool": name})
