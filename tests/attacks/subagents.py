"""Attacks by way of subagents, on a whole crib: its own tools and services, and models that try to go too far.

The calls of attacks/policy in the class `subagent`, and the rows of attacks/resources in the class `fanout`.
"""

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import toolcrib
from toolcrib import Call, Caller, Result
from toolcrib.app import Crib
from toolcrib.define.event import ToolFinished
from toolcrib.define.model import Request
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

REAL = frozenset({"session_status", "sessions_spawn", "subagents", "agents_list"})

_MAIN, _OTHER = "agent:main:main", "agent:other:main"
_OWN = "own-child"


def called(config: Json, caller: Caller, depth: int, name: str, args: Json) -> Result:
    """Make the call with the real tool in a crib where main has a child of its own, and somebody else has one, too."""
    return asyncio.run(_called(config, _deep(caller, depth), name, args))


def _deep(caller: Caller, depth: int) -> Caller:
    """Return the caller with as many parents as its depth says."""
    chain = (_MAIN, *(f"agent:main:subagent:p{number}" for number in range(1, depth)))
    return replace(caller, parents=chain[:depth]) if depth else caller


async def _called(config: Json, caller: Caller, name: str, args: Json) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        async with toolcrib.open({**config, "workspace": {"root": folder}}, env={}) as crib:
            target = args.get("target")
            owner = (caller.session or _MAIN) if target == _OWN else _OTHER
            if name == "subagents" and isinstance(target, str):
                await _child(crib, owner, target)
            if name == "session_status":  # both sessions are there: that of the caller, and somebody else's
                for session in dict.fromkeys((caller.session or _MAIN, _OTHER)):
                    await crib.turn(
                        "hi",
                        caller=toolcrib.OWNER,
                        session=session,
                        model=FunctionModel(lambda request: text_reply("hello")),
                    ).end()
            return await crib.belt(caller).call(name, args)


async def _child(crib: Crib, session: str, label: str) -> None:
    """Start a child of a session that does not end by itself."""
    came = asyncio.Event()

    async def answer(request: Request) -> Any:
        if ":subagent:" in request.session:
            came.set()
            await asyncio.Event().wait()
        first = len(request.history) == 1
        return call_reply(Call("s", "sessions_spawn", {"task": "wait", "label": label})) if first else text_reply("ok")

    await crib.turn("start", caller=toolcrib.OWNER, session=session, model=FunctionModel(answer)).end()
    await asyncio.wait_for(came.wait(), 60)


def fanned_out(case: Json, limits: Json) -> Outcome:
    """Let a model start children, or children of children, and count what runs."""
    asked, must = case["input"], case["must"]
    before = resources.measure_held(begins=True)
    watch = Stopwatch()
    seen = asyncio.run(_FANS[asked["op"]](asked, limits))
    took = watch.took
    complaints = resources.measure({**must, "alive_during": False}, took, before, resources.measure_held())
    if seen["spawned"] > must.get("spawned_max", seen["spawned"]):
        complaints.append(f"{seen['spawned']} were started")
    if seen["spawned"] != must.get("spawned", seen["spawned"]):
        complaints.append(f"{seen['spawned']} were started")
    if must["verdict"] == "reject" and not seen["refused"]:
        complaints.append("it was let through")
    if must["verdict"] == "allow" and seen["refused"]:
        complaints.append(f"{seen['refused']} were refused")
    if seen["longest"] > limits["error_chars"]:
        complaints.append(f"a refusal has {seen['longest']} characters")
    if must.get("alive_during") and seen["late"]:
        complaints.append(seen["late"])
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


def _config(limits: Json) -> Json:
    return {"tools": {"subagents": {"maxDepth": limits["spawn_depth"], "maxConcurrent": limits["spawn_children"]}}}


async def _chain(asked: Json, limits: Json) -> Json:
    """Every generation starts the next one; the last tries all ways, offered or not."""
    started: set[str] = set()
    refusals: list[str] = []

    def answer(request: Request) -> Any:
        if ":subagent:" in request.session:
            started.add(request.session)
        if len(request.history) == 1 and len(started) < asked["depth"]:
            offered = {tool.name for tool in request.tools}
            ways = [Call("a", "generalist", {"task": "go on"}), Call("b", "sessions_spawn", {"task": "go on"})]
            return call_reply(*(ways[:1] if "generalist" in offered else ways))
        refusals.extend(_words(message) for message in request.history if message.status == "error")
        is_child = any(tool.name == "complete_task" for tool in request.tools)
        return call_reply(Call("d", "complete_task", {"result": "done"})) if is_child else text_reply("done")

    late = Lateness()
    async with toolcrib.open(_config(limits), env={}) as crib, late:
        await crib.turn("go", caller=toolcrib.OWNER, session=_MAIN, model=FunctionModel(answer, keep=False)).end()
        await crib.subagents.idle()
    longest = max(map(len, refusals), default=0)
    return {"spawned": len(started), "refused": len(refusals), "longest": longest, "late": late.complaint}


async def _many(asked: Json, limits: Json) -> Json:
    """One reply starts all of them; none ends before all were tried."""

    async def answer(request: Request) -> Any:
        if ":subagent:" in request.session:
            await asyncio.Event().wait()
        if len(request.history) > 1:
            return text_reply("ok")
        return call_reply(*(Call(f"c{at}", "sessions_spawn", {"task": str(at)}) for at in range(asked["count"])))

    late, told = Lateness(), list[Result]()
    async with toolcrib.open(_config(limits), env={}) as crib, late:
        async for event in crib.turn(
            "go", caller=toolcrib.OWNER, session=_MAIN, model=FunctionModel(answer, keep=False)
        ):
            if isinstance(event, ToolFinished):
                told.append(event.result)
        await crib.belt(Caller(session=_MAIN, owner=True)).call("subagents", {"action": "stop", "target": "all"})
    refused = [result.details["error"] for result in told if result.status == "error"]
    longest = max(map(len, refused), default=0)
    return {"spawned": len(told) - len(refused), "refused": len(refused), "longest": longest, "late": late.complaint}


_FANS = {"spawn_chain": _chain, "spawn_many": _many}


def _words(message: Any) -> str:
    return "".join(part.text for part in message.content if isinstance(part, toolcrib.Text))
