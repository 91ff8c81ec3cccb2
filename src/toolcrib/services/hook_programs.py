"""Programs as hooks (`tools.hooks`): each reads an event as JSON on its input, and answers with JSON or a code.

    exit code 0   what it printed counts: nothing, or an object
    exit code 2   the call must not run; the reason is what it wrote to stderr
    any other     it failed: a guard that fails blocks, unless it is optional

The object is read as Claude Code and gemini-cli write it: `decision` (allow, approve, ask, deny, block) with `reason`,
`continue: false` with `stopReason`, and in `hookSpecificOutput` `permissionDecision` with `permissionDecisionReason`,
`updatedInput` or `tool_input` for other arguments, `additionalContext` for words behind a result.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.config.settings import HookProgramSettings
from toolcrib.define.approval import to_plain
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.display import strip
from toolcrib.define.errors import ToolError
from toolcrib.define.names import is_name
from toolcrib.define.plugin import Allow, Ask, Block, Hook, Moment, Rewrite, TimedObserver, Word
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool
from toolcrib.policy.match import Inventory, matcher_for
from toolcrib.services.exec.judge import CommandRunner
from toolcrib.services.feature import Core, Feature

_REASON_CHARS, _SHOWN_CHARS = 2_000, 1_000_000
_ALLOW, _DENY = ("allow", "approve"), ("deny", "block")
# what Claude Code and gemini-cli call tools that do the same, where that is more than another spelling
THEIR_NAMES = {
    "webfetch": "web_fetch", "websearch": "web_search", "glob": "find", "multiedit": "edit", "task": "sessions_spawn",
    "run_shell_command": "exec", "read_file": "read", "write_file": "write", "replace": "edit", "list_directory": "ls",
    "search_file_content": "grep", "google_web_search": "web_search",
}  # fmt: skip
_ABOUT_CALLS = ("before_tool_call", "after_tool_call")
_REPLACING = {"updatedToolOutput", "updatedMCPToolOutput"}  # what others would show instead, perhaps without a secret


def mount(core: Core) -> Feature:
    """Mount the programs that the configuration names; mounted last, they are asked before any other feature."""
    runner, programs = core.find(CommandRunner), core.config.tools.hooks
    others = {**THEIR_NAMES, **core.config.tools.aliases}
    named = {other: frozenset((own,)) for other, own in others.items()}  # another name is a group
    known = Inventory(core.tools, {**named, **core.groups})
    hooks = [HookProgram(each, at, runner, known) for at, each in enumerate(programs)]
    listeners = [(each.settings.on, each.tell) for each in hooks if each.settings.on not in _ABOUT_CALLS]
    return Feature(
        guards=[each.to_guard() for each in hooks if each.settings.on == "before_tool_call"],
        observers=[each.to_observer() for each in hooks if each.settings.on == "after_tool_call"],
        moments=listeners,
    )


class HookProgram:
    """One program, asked about the calls that its `tools` name; no list means all."""

    def __init__(self, settings: HookProgramSettings, index: int, runner: CommandRunner, known: Inventory) -> None:
        self.settings, self.name, self._runner, self._known = settings, f"tools.hooks[{index}]", runner, known
        self._patience = settings.timeout_sec + 5.0  # it was killed by then, which differs from one that hangs
        self._named = matcher_for(settings.tools, known).select(frozenset(known.tools))

    def is_about(self, name: str) -> bool:
        """Tell whether a call is its business; of a tool that came later only the name is known, so it is in doubt."""
        if not self.settings.tools or name in self._named:
            return True
        if name in self._known.tools:
            return False
        by_kind = any(":" in each for each in self.settings.tools)
        names = frozenset(filter(is_name, (name, f"mcp__{name}")))  # as Claude Code calls a server's
        late = Inventory({each: Tool.declared(each, "A tool that came later.") for each in names}, self._known.groups)
        return by_kind or bool(matcher_for(self.settings.tools, late).select(names))

    def to_guard(self) -> Hook:
        """Return it as what stands before a call."""

        async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
            if not self.is_about(ctx.call.name):
                return None
            word = read_word(await self._ask(ctx, "PreToolUse", {"tool_input": to_plain(args)}))
            return Ask(f"{self.name} wants a human to look at it") if word == Ask("") else word

        return Hook(run=guard, name=self.name, optional=self.settings.optional, seconds=self._patience)

    def to_observer(self) -> TimedObserver:
        """Return it as what looks at a result: it may call it an error, or add words. One that fails does the first."""

        async def observe(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result | None:
            if not self.is_about(ctx.call.name):
                return None
            shown = {"text": result.plain_text[:_SHOWN_CHARS], "status": result.status}
            withheld = f", so what came of {ctx.call.name} is withheld"
            try:
                answer = await self._ask(ctx, "PostToolUse", {"tool_input": to_plain(args), "tool_response": shown})
                word, words = read_word_behind(answer), _find_specific(answer).get("additionalContext")
            except ToolError as error:
                if self.settings.optional:
                    raise
                return Result.error(f"{self.name} failed: {error}{withheld}", code="blocked")
            if isinstance(word, Block):
                return Result.error(word.reason or f"{self.name} is against it{withheld}", code="blocked")
            return result._replace(content=(*result.content, Text(words))) if isinstance(words, str) else None

        return TimedObserver(run=observe, name=self.name, seconds=self._patience)

    async def tell(self, moment: Moment) -> None:
        """Tell it of a moment; it can change nothing about that, and an answer that would is logged as its failure."""
        event = {"hook_event_name": moment.name, "session_id": moment.caller.session or "", **moment.data}
        answer = await self._run(moment.caller, event)
        if read_word(answer) is not None or _find_specific(answer).get("additionalContext"):
            raise ToolError(f"{self.name} has an answer to {moment.name}, where nothing can be answered")

    async def _ask(self, ctx: Ctx, event: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
        about = {"hook_event_name": event, "session_id": ctx.caller.session or "", "tool_use_id": ctx.call.id}
        return await self._run(ctx.caller, {**about, "tool_name": ctx.call.name, **more})

    async def _run(self, caller: Caller, event: Mapping[str, Any]) -> Mapping[str, Any]:
        code, out, err = await self._runner.run_named(caller, self.settings, event)
        return read_printed(code, out, err)


def read_printed(code: int | None, out: bytes, err: bytes) -> Mapping[str, Any]:
    """Return a program's answer; ToolError when it failed or printed no valid one. Without a code it was killed."""
    try:
        text = out.decode()
        # some programs print their answer as a text that holds it
        answer = parse_arguments(orjson.loads(text) if text.lstrip().startswith('"') else text)
    except (ToolError, ValueError):
        answer = None
    if code == 2:
        words = out.decode(errors="replace") if answer is None else answer.get("reason", "")
        reason = strip(err.decode(errors="replace") or str(words)).strip()
        return {"decision": "deny", "reason": reason}
    if code != 0:
        raise ToolError("it was ended" if code is None else f"it ended with exit code {code}", code="failed")
    if answer is None:
        raise ToolError("it printed no JSON object", code="failed")
    return answer


def read_word(answer: Mapping[str, Any]) -> Word:
    """Return what an answer means for a call: no, a question, other arguments, or nothing; ToolError for no word.

    A decision counts wherever it stands; of two the stricter one does.
    """
    places = (_find_specific(answer), answer)
    decisions = _list_values(places, "permissionDecision", "decision")
    reason = "".join(map(str, _list_values(places, "permissionDecisionReason", "reason", "stopReason")[:1]))
    goes_on = answer.get("continue")
    if goes_on is False or any(each in _DENY for each in decisions):
        return Block(reason[:_REASON_CHARS])
    if strange := [each for each in decisions if each != "ask" and each not in _ALLOW]:
        raise ToolError(f"{strange[0]!r} is no decision; there are allow, ask and deny", code="failed")
    if goes_on not in (None, True):
        raise ToolError("continue is true or false", code="failed")
    changed = _list_values(places, "updatedInput") + _list_values(places[:1], "tool_input")
    if any(not isinstance(each, dict) for each in changed):
        raise ToolError("other arguments are an object", code="failed")
    if "ask" in decisions:
        if changed:
            raise ToolError("it asks about other arguments at once; let one program change them, another ask")
        return Ask(reason[:_REASON_CHARS])
    if changed:
        return Rewrite(changed[0])
    return Allow(reason[:_REASON_CHARS]) if decisions and reason else None


def read_word_behind(answer: Mapping[str, Any]) -> Word:
    """Return what an answer means for what came of a call: no, or nothing; ToolError for what is for before one."""
    word = read_word(answer)
    if isinstance(word, Ask | Rewrite) or not _REPLACING.isdisjoint({*answer, *_find_specific(answer)}):
        raise ToolError("behind a call it can say no or add words, and nothing else", code="failed")
    return word


def _list_values(places: Iterable[Mapping[str, Any]], *names: str) -> list[Any]:
    return [each[name] for each in places for name in names if each.get(name) is not None]


def _find_specific(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    specific = {} if (found := answer.get("hookSpecificOutput")) is None else found
    if not isinstance(specific, Mapping):
        raise ToolError("hookSpecificOutput is an object", code="failed")
    return specific
