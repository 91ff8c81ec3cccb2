"""openclaw-adapter-hooks on `invoke` and `Moments`: a tool, a client's tool and guards, run as a belt runs them."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.agent.belt import Belts
from toolcrib.agent.hooks import Moments, bind_guards, bind_observers
from toolcrib.agent.invoke import invoke
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.config.load import load
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call, Message, Role
from toolcrib.define.names import canonical
from toolcrib.define.plugin import Block, Guard, Hook, Moment, Observer, Rewrite, Word
from toolcrib.define.ports import Approver
from toolcrib.define.result import Result, Status, Text
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Run, Tool, tool_named
from toolcrib.registry.catalog import Catalog

from .load import Case
from .outcome import Refused, SaidError, Same, compare, is_same, mentions

Json = dict[str, Any]

_QUIET = logging.NullHandler()  # what fails here fails on purpose
_ANYTHING = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a call."""

    guards: Sequence[Hook | Guard] = ()
    observers: Sequence[Observer] = ()
    approver: Approver | None = None


async def call(tool: Tool, name: str, args: Any, around: Around = Around()) -> Result:
    """Call the one tool of the owner's belt under this name."""
    logging.getLogger("toolcrib").addHandler(_QUIET)
    caller = Caller(owner=True)
    belt = Belts(Catalog({tool.name: tool}, ()), load({}, {}).policy).belt_for(caller)
    pipeline = CallPipeline(
        record=MemoryRecord(),
        guards=bind_guards(around.guards),
        observers=bind_observers(around.observers),
        approver=around.approver,
    )
    wish = Call(id="call1", name=name, args={} if args is None else args, key="call1")
    return await invoke(belt, Ctx(call=wish, caller=caller, course=CallState()), pipeline)


def tool_of(given: Json, run: Run) -> Tool:
    """Return a tool from a recorded definition, checked against its own schema; a name that is none is refused."""
    name, schema = given["name"], given.get("parameters") or _ANYTHING
    shape = Shape(lambda: schema, check_of_schema)
    label = given.get("label") or ""
    return tool_named(canonical(name) or name, given.get("description") or "", shape, run, label=label)


def told(result: Result, *keys: str) -> Json:
    """Return a result in the recorded shape, where a failure or a delay is written as JSON into the text."""
    if result.status == "ok":
        texts = [{"type": "text", "text": part.text} for part in result.content if isinstance(part, Text)]
        return {"content": texts, "details": result.details}
    details = {key: result.details[key] for key in ("status", "tool", *keys)}
    return {"content": [{"type": "text", "text": json.dumps(details, indent=2)}], "details": details}


def _adapted(args: Json) -> Json:
    behaviour, seen = args.get("behaviour", {}), Json()

    async def run(ctx: Ctx, params: Mapping[str, Any]) -> Result:
        ctx.progress(Result.text("on it"))
        seen.update(id=ctx.call.id, params=dict(params), signal={"aborted": ctx.cancelled()}, onUpdate="function")
        if "throw" in behaviour:
            raise _thrown(behaviour["throw"])
        return Result.text("ok", details={})

    name = args.get("tool", "demo")
    tool = tool_of({"name": name, **behaviour}, run)
    outcome = asyncio.run(_outcome(tool, name, aborted=bool(args.get("signalAborted") or args.get("outerAborted"))))
    shown = {"name": tool.name, "label": tool.label or tool.name, "description": tool.description}
    return {"def": shown, "outcome": outcome, "seen": seen}


def _thrown(given: Any) -> BaseException:
    """Return what a body raises: an author's failure, or a cancellation that nobody asked for."""
    if not isinstance(given, dict):
        return ToolError(str(given))
    message = str(given.get("message", given.get("value", "")))
    return asyncio.CancelledError(message) if given.get("name") == "AbortError" else ToolError(message)


async def _outcome(tool: Tool, name: str, *, aborted: bool) -> Json:
    """Make the call; one that is aborted is cancelled on its way to the body."""
    reached = asyncio.Event()

    async def hold(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        reached.set()
        await asyncio.Event().wait()
        return None

    task = asyncio.create_task(call(tool, name, {"a": 1}, Around([hold] if aborted else ())))
    if aborted:
        await reached.wait()
        task.cancel()
    try:
        result = await task
    except asyncio.CancelledError:
        return {"ok": False, "error": {"name": "AbortError", "message": "Aborted"}}
    return {"ok": True, "value": told(result, "error")}


def _delegated(args: Json) -> Json:
    """Run a client's tool: its body hands the call over and says that somebody else will answer."""
    given, calls = args["tool"], list[list[Any]]()

    async def run(ctx: Ctx, params: Mapping[str, Any]) -> Result:
        calls.append([tool.name, dict(params)])
        message = "Tool execution delegated to client"
        return Result.pending(message, details={"tool": tool.name, "message": message})

    tool = replace(tool_of(given, run), source="client:program")
    result = asyncio.run(call(tool, given["name"], args["params"]))
    _refuse_bad_arguments(result)
    shown: Json = {"name": tool.name, "label": tool.label or tool.name, "description": tool.description}
    if "parameters" in given:
        shown["parameters"] = tool.parameters
    return {"def": shown, "outcome": {"ok": True, "value": told(result, "message")}, "calls": calls}


def _refuse_bad_arguments(result: Result) -> None:
    if result.status == "error" and result.details["code"] == "bad_arguments":
        raise SaidError(result.details["error"])


def _hooked(args: Json) -> Json:
    """Run a call past the handlers, the more urgent first."""
    seen, ran = list[Json](), list[Json]()

    async def run(ctx: Ctx, params: Mapping[str, Any]) -> Result:
        ran.append(dict(params))
        return Result.text("ok")

    handlers = args["handlers"]
    order = sorted(range(len(handlers)), key=lambda at: -(handlers[at].get("priority") or 0))
    guards = [Hook(run=_handler(handlers[at], at, seen), name=f"handler {at}") for at in order]
    tool = tool_of({"name": "exec", "description": "Run a command."}, run)
    result = asyncio.run(call(tool, args.get("tool", "bash"), args["params"], Around(guards)))
    _refuse_bad_arguments(result)
    if result.status == "error":
        error = {"name": "Error", "message": result.details["error"]}
        return {"outcome": {"ok": False, "error": error}, "seen": seen}
    return {"outcome": {"ok": True}, "executedWith": ran[0], "seen": seen}


def _handler(handler: Json, at: int, seen: list[Json]) -> Guard:
    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        seen.append({"h": at, "params": dict(args), "tool": ctx.call.name, "ctxTool": ctx.call.name})
        if "throws" in handler:
            raise RuntimeError(handler["throws"])
        match handler.get("returns"):
            case {"block": block, **more} if block:
                return Block(str(more.get("blockReason") or ""))
            case {"params": dict(params)}:
                return Rewrite(params)
        return None

    return guard


def _persisted(args: Json) -> Json | None:
    """Let the handlers make of an answer what the session keeps, the more urgent first."""
    logging.getLogger("toolcrib").addHandler(_QUIET)
    handlers = sorted(args["handlers"], key=lambda handler: -(handler.get("priority") or 0))
    spelled: list[tuple[Message, Json]] = []  # what each message was in the recorded shape

    def message_of(given: Json) -> Message:
        role: Role = "tool" if given.get("role") == "toolResult" else "user"
        content = tuple(Text(block["text"]) for block in given.get("content") or () if block["type"] == "text")
        status: Status = "error" if given.get("isError") else "ok"
        made = Message(role=role, content=content, call_id=given.get("toolCallId", "call1"), status=status)
        spelled.append((made, given))
        return made

    def hook_of(handler: Json) -> Callable[[Moment], Any]:
        async def hook(moment: Moment) -> Any:
            if "throws" in handler:
                raise RuntimeError(handler["throws"])
            match handler.get("returns"):
                case {"message": dict(message)}:
                    return {"message": message_of(message)}
                case said:
                    return said

        return hook

    moments = Moments(("tool_result_persist", hook_of(handler)) for handler in handlers)
    first = message_of(args["message"])
    kept = asyncio.run(moments.apply_to_answer(Caller(), Call("call1", "exec"), first))
    return {"message": next(given for made, given in spelled if made is kept)} if handlers else None


def _same_but_our_words(case: Case, ours: Any) -> str:
    """Compare with our own words in an error, as long as they mention what the recorded ones mention."""
    if isinstance(ours, Refused):
        return compare(case, ours)
    recorded = case.expected["result"]
    match ours, recorded:
        case {"outcome": {"error": {"message": said}}}, {"outcome": {"error": {"message": words}}}:
            missing: Sequence[str] = [word for word in mentions(words, case.args) if word not in said]
            if missing:
                return f"our error does not mention {', '.join(map(repr, missing))}"
            ours = {**ours, "outcome": recorded["outcome"]}
    return "" if is_same(ours, recorded) else "the values differ"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "beforeToolCallHook": _hooked,
    "clientToolAdapter": _delegated,
    "toolAdapter": _adapted,
    "toolResultPersistHook": _persisted,
}
SAME: dict[str, Same] = {"beforeToolCallHook": _same_but_our_words}
