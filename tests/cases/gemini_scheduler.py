"""gemini-scheduler on `call_all`: fakes on a belt, rules as `deny` and `ask`, hooks as guards, a person as an Approver.

What is compared: the results in their order, what kind of failure each is and which words of the case it carries, who
was asked about, which bodies ran and how they overlap, and who had to wait for somebody else's question. A tool that
writes files, and one that a call wants to wait for those before it, is declared exclusive.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import toolcrib
from toolcrib.app import Belt
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import CallEvent, ToolFinished
from toolcrib.define.message import Call
from toolcrib.define.plugin import Guard, Hook, Word
from toolcrib.define.result import Result, Text
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool, tool_named
from toolcrib.registry.sources import Offer
from toolcrib.services.hook_programs import read_word

from .jump import run
from .load import Case
from .outcome import Theirs, check_keys

Json = dict[str, Any]

_QUIET = logging.NullHandler()  # what fails here fails on purpose
_LISTS = {"deny": "deny", "ask_user": "ask"}
_WRITING = ("write_file", "replace")
_OURS = {
    "bad_arguments": "invalid_tool_params",
    "blocked": "policy_violation",
    "bug": "unhandled_exception",
    "denied": "policy_violation",
    "not_approved": "policy_violation",
    "not_found": "tool_not_registered",
}


class _Stage:
    """One case: the fakes, the person, and what happens, in order."""

    def __init__(self, args: Json) -> None:
        self.args, self.log = args, list[str]()
        self.ended: dict[int, Result] = {}
        self.work: asyncio.Future[Any] | None = None

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        """Answer as the person of the case; one who was given no answer says no."""
        self.log.append(f"ask {call.id}")
        if (answer := self._answer(call)) == "ABORT":
            self.abort()
        await asyncio.sleep(0)
        self.log.append(f"settle {call.id}")
        return answer.startswith("proceed")

    def _answer(self, call: Call) -> str:
        answers: dict[str, str] = self.args.get("answers") or {}
        if call.id in answers:
            return answers[call.id]
        names = {id: name for id, name, *_ in self.args["calls"]}
        lasting = (said for id, said in answers.items() if "always" in said and names.get(id) == call.name)
        return next(lasting, "cancel")

    def abort(self) -> None:
        if self.work is not None:
            self.work.cancel()

    def tool(self, name: str, spec: Json) -> Tool:
        waiting = {called for _, called, *more in self.args["calls"] if more and more[0].get("wait_for_previous")}
        schema = spec.get("schema") or {
            "type": "object",
            "properties": {"v": {"type": "string"}, **{each: {} for each in spec.get("required", ())}},
            "required": spec.get("required", []),
        }
        body = self._body(name, spec)
        exclusive = name in waiting or name in _WRITING
        return tool_named(name, f"{name}.", Shape(lambda: schema, check_of_schema), body, exclusive=exclusive)

    def _body(self, name: str, spec: Json) -> Callable[[Ctx, Mapping[str, Any]], Any]:
        async def body(ctx: Ctx, args: Mapping[str, Any]) -> Result:
            label = f"{name}{args.get('v', '')}"
            self.log += [f"run {ctx.call.id}", f"start:{label}"]
            try:
                if any("abort" in key.lower() for key in spec):
                    self.abort()
                    await asyncio.sleep(0)
                if "delay" in spec:
                    await asyncio.sleep(spec["delay"] / 1000)
            finally:
                self.log.append(f"end:{label}")
            if "throws" in spec:
                raise RuntimeError(spec["throws"])
            if "error" in spec:
                raise ToolError(spec["error"])
            return Result.text(str(spec.get("result", spec.get("llmContent", "ok"))))

        return body

    def heard(self, event: CallEvent) -> None:
        if isinstance(event, ToolFinished):
            self.ended[int(event.call.key)] = event.result


def _scheduled(args: Json) -> Json:
    logging.getLogger("toolcrib").addHandler(_QUIET)
    check_keys(args, "answers calls clientInitiated hook interactive nonInteractive rules tools", "a case")
    for spec in args["tools"].values():
        check_keys(spec, "delay error llmContent required result schema tail throws", "a tool")
    return run(_played(_Stage(args)))


async def _played(stage: _Stage) -> Json:
    args = stage.args
    lists: dict[str, list[str]] = {"deny": [], "ask": []}
    for rule in args.get("rules") or ():
        if rule["decision"] in _LISTS:
            lists[_LISTS[rule["decision"]]].append(rule["toolName"])
    guards = [Hook(run=_guard(said), name="the hook", tools=frozenset({on})) for on, said in _hooks(args)]
    crib = toolcrib.open({"tools": lists}, plugins=[Offer(source="plugin:hooks", tools=(), before=tuple(guards))])
    tools = [stage.tool(name, spec) for name, spec in args["tools"].items()]
    belt = crib.belt(toolcrib.OWNER, extra=tools).watched_by(stage.heard)
    approver = None if args.get("interactive") is False or args.get("nonInteractive") else stage
    belt = replace(belt, pipeline=replace(belt.pipeline, approver=approver))
    try:
        return _told(args, await _results(stage, belt), stage.log)
    finally:
        await crib.close()


async def _results(stage: _Stage, belt: Belt) -> list[Result]:
    """Return what came of every call; of an aborted batch, what watchers heard of it."""
    calls = [
        Call(id, name, more[0] if more else {}, key=str(at)) for at, (id, name, *more) in enumerate(stage.args["calls"])
    ]
    stage.work = asyncio.ensure_future(belt.call_all(calls))
    for key, after in stage.args.items():
        if "abort" in key.lower() and isinstance(after, (int, float)):
            asyncio.get_running_loop().call_later(0 if after is True else after / 1000, stage.abort)
    try:
        return list(await stage.work)
    except asyncio.CancelledError:  # of one that was stopped before it began nobody hears anything
        return [stage.ended.get(at) or Result.error("never began", code="cancelled") for at in range(len(calls))]


def _hooks(args: Json) -> Iterable[tuple[str, Json]]:
    return (args.get("hook") or {}).items()


def _guard(said: Json) -> Guard:
    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        return read_word(said)

    return guard


# Both sides in one form


def _told(args: Json, results: Sequence[Result], log: Sequence[str]) -> Json:
    asked = [line.removeprefix("ask ") for line in log if line.startswith("ask ")]
    told = [
        {"callId": id, **_outcome(result, asked=id in asked)}
        for (id, *_), result in zip(args["calls"], results, strict=True)
    ]
    execution = [line for line in log if line.startswith(("start:", "end:"))]
    return _form(args, told, asked, execution, _behind(asked, list(log), "settle {}", "run {}"))


def _outcome(result: Result, *, asked: bool) -> Json:
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    if result.status == "ok":
        return {"status": "success", "errorType": None, "response": {"output": text}}
    code = result.details["code"]
    response = {"error": result.details["error"]}
    if code == "cancelled" or (code == "not_approved" and asked):
        return {"status": "cancelled", "errorType": None, "response": response}
    return {"status": "error", "errorType": _OURS.get(code, "execution_failed"), "response": response}


def _recorded(case: Case) -> Json:
    args, expected = case.args, case.expected
    changes = expected["stateChanges"]
    asked = [change.split(":")[0] for change in changes if change.endswith(":awaiting_approval")]
    settled: list[str] = []  # the first change of a call after its question settles it
    for at, change in enumerate(changes):
        id, _, state = change.partition(":")
        before = [each for each in changes[:at] if each.startswith(f"{id}:")]
        settled += [f"settle {id}"] if before[-1:] == [f"{id}:awaiting_approval"] else []
        settled += [f"run {id}"] if state == "executing" else []
    behind = _behind(asked, settled, "settle {}", "run {}")
    return {
        **_form(args, expected["results"], asked, expected["execution"], behind),
        "prompts": expected["prompts"],
    }


def _form(
    args: Json, results: Sequence[Json], asked: Sequence[str], execution: Sequence[str], behind: Sequence[str]
) -> Json:
    cut = {f"end:{_label(args, each['callId'])}" for each in results if each["status"] == "cancelled"}
    failures = [each["response"].get("error", "") for each in results if each["status"] != "success"]
    return {
        "results": [f"{each['callId']}:{each['status']}" for each in results],
        "kinds": [each["errorType"] for each in results],
        "outputs": [each["response"]["output"] for each in results if each["status"] == "success"],
        "carried": sorted(word for word in _words(args) if any(_holds(said, word) for said in failures)),
        "asked": list(asked),
        "execution": [step for step in execution if step not in cut],
        "behind": list(behind),
        "prompts": len(asked),
    }


def _behind(asked: Sequence[str], log: Sequence[str], settle: str, ran: str) -> list[str]:
    """Return the calls whose body began only after a question about another call was settled."""
    ids = [line.removeprefix("run ") for line in log if line.startswith("run ")]
    found = []
    for id in ids:
        before = log[: log.index(ran.format(id))]
        if any(settle.format(other) in before for other in asked if other != id):
            found.append(id)
    return sorted(found)


def _label(args: Json, id: str) -> str:
    return next(f"{name}{(more[0] if more else {}).get('v', '')}" for each, name, *more in args["calls"] if each == id)


def _words(args: Json) -> Iterator[str]:
    """Yield the words of a case that a failure may have to carry to the model."""
    found: set[str] = set()
    for spec in args["tools"].values():
        found |= {str(spec[key]) for key in ("error", "throws") if key in spec}
        found |= {*spec.get("required", ()), *(spec.get("schema") or {}).get("required", ())}
    for _, said in _hooks(args):
        found |= {str(said[key]) for key in ("reason", "stopReason") if key in said}
    found |= {rule["denyMessage"] for rule in args.get("rules") or () if "denyMessage" in rule}
    found |= {name for _, name, *_ in args["calls"] if name not in args["tools"]}
    yield from found


def _holds(sentence: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sentence) is not None


ADAPTERS: dict[str, Callable[[Json], Any]] = {"gemini.Scheduler.schedule": _scheduled}
THEIRS: dict[str, Theirs] = {"gemini.Scheduler.schedule": _recorded}
