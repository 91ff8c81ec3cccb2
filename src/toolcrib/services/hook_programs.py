"""Programs as hooks (`tools.hooks`): each is told of an event as JSON on its input, and answers with JSON or a code.

    exit code 0   what it printed counts: nothing, or an object
    exit code 2   the call must not run; the reason is what it wrote to stderr
    any other     it failed: a guard that fails blocks, unless it is optional

The object is read as Claude Code and gemini-cli write it: `decision` (allow, approve, ask, deny, block) with `reason`,
`continue: false` with `stopReason`, and in `hookSpecificOutput` `permissionDecision` with `permissionDecisionReason`,
`updatedInput` or `tool_input` for other arguments, `additionalContext` for words behind a result.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from toolcrib.config.settings import HookProgramSettings
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.display import strip
from toolcrib.define.errors import ToolError
from toolcrib.define.plugin import Allow, Ask, Block, Hook, Moment, Observer, Rewrite, Word
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool
from toolcrib.policy.match import Inventory, matcher_for
from toolcrib.services.exec.judge import CommandRunner
from toolcrib.services.feature import Core, Feature

_REASON_CHARS, _SHOWN_CHARS = 2_000, 20_000
_ALLOW, _DENY = ("allow", "approve"), ("deny", "block")
_ABOUT_CALLS = ("before_tool_call", "after_tool_call")


def mount(core: Core) -> Feature:
    """Mount the programs that the configuration names; mounted last, they are asked before any other feature."""
    runner, programs = core.find(CommandRunner), core.config.tools.hooks
    hooks = [HookProgram(each, at, runner, Inventory(core.tools, core.groups)) for at, each in enumerate(programs)]
    listeners = [(each.settings.on, each.tell) for each in hooks if each.settings.on not in _ABOUT_CALLS]
    return Feature(
        guards=[each.to_guard() for each in hooks if each.settings.on == "before_tool_call"],
        observers=[each.to_observer() for each in hooks if each.settings.on == "after_tool_call"],
        moments=listeners,
    )


class HookProgram:
    """One program, asked about the calls that its `tools` name; no list means all."""

    def __init__(self, settings: HookProgramSettings, at: int, runner: CommandRunner, known: Inventory) -> None:
        self.settings, self.name, self._runner, self._known = settings, f"tools.hooks[{at}]", runner, known.tools
        self._named = matcher_for(settings.tools, known).select(frozenset(known.tools))

    def is_about(self, name: str) -> bool:
        """Tell whether a call is its business; of a tool that came later only the name is known, so it is in doubt."""
        if not self.settings.tools or name in self._named:
            return True
        if name in self._known:
            return False
        by_kind = any(":" in each for each in self.settings.tools)
        late = Inventory({name: Tool.declared(name, "A tool that came later.")}, {})
        return by_kind or bool(matcher_for(self.settings.tools, late).select(frozenset((name,))))

    def to_guard(self) -> Hook:
        """Return it as what stands before a call."""

        async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
            if not self.is_about(ctx.call.name):
                return None
            return read_word(await self._ask(ctx, "PreToolUse", {"tool_input": dict(args)}))

        seconds = self.settings.timeout_sec + 5.0  # it is ended by then, and can be told from one that hangs
        return Hook(run=guard, name=self.name, optional=self.settings.optional, seconds=seconds)

    def to_observer(self) -> Observer:
        """Return it as what looks at a result: it may call it an error, or add words."""

        async def observe(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result | None:
            if not self.is_about(ctx.call.name):
                return None
            shown = {"text": result.plain_text[:_SHOWN_CHARS], "status": result.status}
            said = await self._ask(ctx, "PostToolUse", {"tool_input": dict(args), "tool_response": shown})
            if isinstance(word := read_word(said), Block):
                return Result.error(word.reason, code="blocked")
            words = _find_own(said).get("additionalContext")
            return result._replace(content=(*result.content, Text(words))) if isinstance(words, str) else None

        observe.__name__ = self.name
        return observe

    async def tell(self, moment: Moment) -> None:
        """Tell it of a moment; what it says about that changes nothing."""
        told = {"hook_event_name": moment.name, "session_id": moment.caller.session or "", **moment.data}
        await self._run(moment.caller, told)

    async def _ask(self, ctx: Ctx, event: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
        about = {"hook_event_name": event, "session_id": ctx.caller.session or "", "tool_use_id": ctx.call.id}
        return await self._run(ctx.caller, {**about, "tool_name": ctx.call.name, **more})

    async def _run(self, caller: Caller, event: Mapping[str, Any]) -> Mapping[str, Any]:
        given = orjson.dumps(event, default=str)
        code, out, err = await self._runner.run_named(caller, self.settings, given)
        return read_printed(code, out, err)


def read_printed(code: int | None, out: bytes, err: bytes) -> Mapping[str, Any]:
    """Return what a program said; ToolError when it failed, or said what is no answer. Without a code it was ended."""
    said: Any = {}
    try:
        said = orjson.loads(out) if out.strip() else {}
        said = orjson.loads(said) if isinstance(said, str) else said
    except orjson.JSONDecodeError:
        said = None
    if code == 2:
        words = said.get("reason", "") if isinstance(said, dict) else out.decode(errors="replace")
        reason = strip(err.decode(errors="replace") or str(words)).strip()
        return {"decision": "deny", "reason": reason}
    if code != 0:
        raise ToolError("it was ended" if code is None else f"it ended with exit code {code}", code="failed")
    if not isinstance(said, dict):
        raise ToolError("it printed no JSON object", code="failed")
    return said


def read_word(said: Mapping[str, Any]) -> Word:
    """Return what an answer means for a call: no, a question, other arguments, or nothing; ToolError for no word."""
    own = _find_own(said)
    decision = own.get("permissionDecision", said.get("decision"))
    reason = str(own.get("permissionDecisionReason") or said.get("reason") or said.get("stopReason") or "")
    if said.get("continue") is False or decision in _DENY:
        return Block(reason[:_REASON_CHARS])
    if decision == "ask":
        return Ask(reason[:_REASON_CHARS])
    if decision is not None and decision not in _ALLOW:
        raise ToolError(f"{decision!r} is no decision; there are allow, ask and deny", code="failed")
    changed = own.get("updatedInput", own.get("tool_input"))
    if changed is not None:
        if not isinstance(changed, dict):
            raise ToolError("other arguments are an object", code="failed")
        return Rewrite(changed)
    return Allow(reason[:_REASON_CHARS]) if decision is not None and reason else None


def _find_own(said: Mapping[str, Any]) -> Mapping[str, Any]:
    own = said.get("hookSpecificOutput")
    return own if isinstance(own, Mapping) else {}
