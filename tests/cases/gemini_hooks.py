"""gemini-hooks and gemini-hook-runner on `invoke` and `Moments`: what hooks and programs say about a call or turn."""

import asyncio
import json
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.agent.hooks import Moments
from toolcrib.config.load import load
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.plugin import Block, Guard, Hook, Moment, Observer, Word
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool
from toolcrib.policy.match import Inventory
from toolcrib.services.hook_programs import HookProgram, read_printed, read_word

from .adapter_hooks import Around, call, tool_of
from .load import Case
from .outcome import Refused, Same, compare, is_same

Json = dict[str, Any]

_AROUND_A_CALL = ("BeforeTool", "AfterTool")
# Those of their other events that hooks are told of here: about a turn or a session, never about one request.
_MOMENTS = {
    "BeforeAgent": "before_agent_start",
    "AfterAgent": "agent_end",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "PreCompress": "before_compaction",
}


class _Human:
    """Says yes, and keeps the question."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str]) -> bool:
        self.asked.append(reason)
        return True


class _Probe:
    """A tool that keeps what it ran with."""

    def __init__(self) -> None:
        self.ran: list[Json] = []
        self.tool = tool_of({"name": "probe", "description": "Probe."}, self._run)

    async def _run(self, ctx: Ctx, args: Mapping[str, Any]) -> Result:
        self.ran.append(dict(args))
        return Result.text("done")


def _aggregated(args: Json) -> Json:
    """Let every hook say its word around one call, and tell what came of it in their words."""
    if args["event"] not in _AROUND_A_CALL:
        return _told_of(args)
    results, before = args["results"], args["event"] == "BeforeTool"
    failed, probe, human = list[int](), _Probe(), _Human()
    around = Around(
        [Hook(run=_guard(each, failed), name=f"hook {at}") for at, each in enumerate(results) if before],
        [_observer(each, failed) for each in results if not before],
        human,
    )
    result = asyncio.run(call(probe.tool, "probe", {}, around))
    made: Json = {"continue": True, "suppressOutput": False, **_decision(result, human.asked)}
    words = [part.text for part in result.content[1:] if isinstance(part, Text)]
    if probe.ran and probe.ran[0]:
        made["hookSpecificOutput"] = {"tool_input": probe.ran[0]}
    elif words:
        made["hookSpecificOutput"] = {"additionalContext": "\n".join(words)}
    silent = result.status == "ok" and len(failed) == len(results)
    return {"success": not failed, "finalOutput": None if silent else made, "errors": len(failed)}


def _told_of(args: Json) -> Json:
    """Tell every hook of a moment, and what they made of it in their words."""
    if args["event"] not in _MOMENTS:
        raise ToolError(f"no hook is told of {args['event']}: nobody changes what one request says")
    name, results, failed = _MOMENTS[args["event"]], args["results"], list[int]()
    logging.getLogger("toolcrib").addHandler(logging.NullHandler())  # what fails here fails on purpose

    def hook_of(said: Json) -> Callable[[Moment], Any]:
        async def hook(moment: Moment) -> Json | None:
            match _output(said, failed).get("hookSpecificOutput"):
                case {"additionalContext": str(words)} if name == "before_agent_start":
                    return {"prependContext": words}
            return None

        return hook

    moments = Moments((name, hook_of(each)) for each in results)
    told = asyncio.run(moments.apply(name, Caller()))
    made: Json = {"continue": True, "suppressOutput": False, "decision": "allow"}
    if "prependContext" in told:
        made["hookSpecificOutput"] = {"additionalContext": told["prependContext"]}
    silent = len(failed) == len(results)
    return {"success": not failed, "finalOutput": None if silent else made, "errors": len(failed)}


def _decision(result: Result, asked: Sequence[str]) -> Json:
    if result.status == "error":
        return {"decision": "deny", "reason": result.details["error"]}
    if asked:
        return {"decision": "ask", **({"reason": asked[0]} if asked[0] else {})}
    return {"decision": "allow"}


def _guard(said: Json, failed: list[int]) -> Guard:
    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        return read_word(_output(said, failed))

    return guard


def _observer(said: Json, failed: list[int]) -> Observer:
    async def observer(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result | None:
        output = _output(said, failed)
        match read_word(output), output.get("hookSpecificOutput"):
            case Block(reason), _:
                return Result.error(reason)
            case _, {"additionalContext": str(words)}:
                return Result(content=(*result.content, Text(words)), details=result.details, status=result.status)
        return None

    return observer


def _output(said: Json, failed: list[int]) -> Json:
    if said.get("success") is False or "error" in said:
        failed.append(1)
        raise RuntimeError(said.get("error"))
    output: Json = said.get("output") or {}
    return output


def _executed(args: Json) -> Json:
    """Ask a program as a guard asks it: arguments in, a word out; whatever else it does, it has failed."""
    if args.get("source") == "project" and not args.get("trustedFolder"):
        return _executed_in_folder(args["command"])
    probe, human, ended = _Probe(), _Human(), Json()
    guard = Hook(run=_program(args["command"], ended), name="the program", seconds=args["timeoutMs"] / 1000)
    result = asyncio.run(call(probe.tool, "probe", {}, Around([guard], approver=human)))
    code = {"exitCode": ended["code"]} if "code" in ended else {}
    if "said" not in ended:
        return {"success": False, **code, "output": {"decision": "deny"}, "error": result.details["error"]}
    return {"success": ended["code"] == 0, **code, "output": _decision(result, human.asked), "error": None}


def _executed_in_folder(command: str) -> Json:
    """Ask a program that lies in a workspace and that nobody has accepted."""
    probe = _Probe()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        (work / "hook.sh").write_text(command)
        hook = {"on": "BeforeTool", "run": ["sh", "hook.sh"]}
        config = {"workspace": {"root": str(work)}, "tools": {"hooks": [hook]}}
        result = asyncio.run(_call_in(config, Path(folder, "state"), probe.tool))
    return {"success": False, "output": None, "error": result.details["error"].replace(folder, "FOLDER")}


async def _call_in(config: Json, state: Path, probe: Tool) -> Result:
    async with toolcrib.open(config, state=state, tools=[probe]) as crib:
        return await crib.belt(toolcrib.OWNER).call(probe.name, {})


def _program(command: str, ended: Json) -> Guard:
    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec("/bin/sh", "-c", command, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            event = {"hook_event_name": "BeforeTool", "tool_name": ctx.call.name, "tool_input": dict(args)}
            out, err = await process.communicate(json.dumps(event).encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        ended["code"] = process.returncode
        word = read_word(read_printed(process.returncode, out, err))
        ended["said"] = True
        return word

    return guard


def _match(args: Json) -> bool:
    """Tell whether a program is asked about a tool, by the entries that a matcher of theirs becomes here."""
    hook = {"on": "BeforeTool", "run": ["true"], "tools": [args["matcher"]] if args["matcher"] else []}
    (settings,) = load({"tools": {"hooks": [hook]}}, {}).config.tools.hooks
    runner: Any = None
    return HookProgram(settings, 0, runner, Inventory({}, {})).is_about(args["toolName"])


def _same_decision(case: Case, ours: Any) -> str:
    """Compare what is decided, and the reason where one was given: without one, ours says who blocked."""
    if isinstance(ours, Refused):
        return compare(case, ours)
    key, recorded = "finalOutput" if "finalOutput" in ours else "output", case.expected
    theirs = dict(recorded[key]) if isinstance(recorded[key], dict) else {}
    mine = dict(ours[key] or {})
    if "decision" in theirs:
        theirs["decision"] = {"block": "deny", "approve": "allow"}.get(theirs["decision"], theirs["decision"])
    if mine.get("decision") == "deny" and isinstance(read_word(theirs), Block) and "reason" not in theirs:
        mine = {name: value for name, value in mine.items() if name != "reason"}
    if key == "output" and read_word(theirs) == read_word(mine):
        mine = theirs
    return "" if is_same({**ours, key: mine}, {**recorded, key: theirs}) else "the values differ"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.HookAggregator": _aggregated,
    "gemini.HookRunner.executeHook": _executed,
}
SAME: dict[str, Same] = dict.fromkeys(ADAPTERS, _same_decision)
ADAPTERS["gemini.HookPlanner.match"] = _match
