"""attacks/resources: who judges which rows; here those about what a provider streams, and its calls run for real."""

import asyncio
from collections.abc import Mapping
from typing import Any

import toolcrib
from tests.backends.models.asking import asked_for, ended, model_at, runnable
from tests.backends.models.servers import Say, Server, Talk, answering, said, serving
from tests.backends.models.spoken import event
from tests.backends.models.wrong import calling, endless_arguments
from toolcrib import Caller, tool
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta
from toolcrib.define.message import Call
from toolcrib.tools import SHELF

from . import (
    Outcome,
    UnknownWordError,
    archives,
    broken,
    jobs,
    jobs_at_work,
    kept,
    resources,
    resources_commands,
    resources_fetch,
    resources_files,
    resources_flood,
    resources_inbound,
    resources_pictures,
    resources_turns,
    subagents,
)
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

_PIECE = 60_000  # characters of a piece of long arguments
_TOGETHER = 65_536  # bytes that are sent at once


def judge(case: Json, profiles: Json) -> Outcome:
    """Give the case to who knows its operation, or its tool."""
    asked = case["input"]
    limits = profiles[case["setup"].get("profile", "default")]["limits"]
    match asked.get("op"), asked.get("tool"):
        case "log_flood", _:
            return resources_flood.judge_log(case)
        case "ping_pong", _:
            return resources_flood.judge_ping_pong(case)
        case None, "web_search":
            return resources_flood.judge_search(case)
        case op, _ if op in resources_inbound.OPERATIONS:
            return resources_inbound.judge(case)
        case "provider_stream", _:
            return _streamed(case)
        case "cron_add", _:
            return jobs.judge_many(case)
        case "clock_jump" | "cron_same_minute" | "cron_self_add", _:
            return jobs_at_work.judge(case, limits)
        case "extract", _:
            return archives.judge(case)
        case "skill_load", _:
            return archives.judge_skill(case)
        case "spawn_chain" | "spawn_many", _:
            return subagents.fanned_out(case, limits)
        case "tool_loop", _:
            return resources_turns.judge_loop(case)
        case "disk_full", _:
            return resources_turns.judge_full_disk(case)
        case None, "web_fetch":
            return resources_fetch.judge(case, limits)
        case None, "message":
            return _attached(case)
        case None, "image":
            return resources_pictures.judge(case)
        case None, "exec":
            return resources_commands.judge(case, profiles)
        case None, ("read" | "echo_args") if "json" in asked.get("args_gen", {}):
            return resources.judge(dict(case), dict(profiles))
        case None, tool if tool in resources_files.TOOLS:
            return resources_files.judge(case, profiles)
    raise UnknownWordError(str(asked.get("op") or asked.get("tool")))


def _streamed(case: Json) -> Outcome:
    """Stream what the case describes, run the calls that may run, and measure."""
    before = resources.measure_held(begins=True)
    watch = Stopwatch()
    seen = asyncio.run(_seen(case["input"]["gen"]))
    took = watch.took
    after = resources.measure_held()
    must = case["must"]
    complaints = _complaints(must, seen)
    complaints += resources.measure({**must, "alive_during": False}, took, before, after)
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


def _attached(case: Json) -> Outcome:
    """Have `message` send a file of that size, where a channel takes it."""
    text = "A" * int(case["input"]["args_gen"]["attachment_base64_bytes"])
    before, watch = resources.measure_held(begins=True), Stopwatch()
    error, late = asyncio.run(_attach(text))
    must, took, after = case["must"], watch.took, resources.measure_held()
    complaints = _complaints(must, {"error": error, "ran": 0, "lost": 0, "late": late})
    complaints += resources.measure({**must, "alive_during": False}, took, before, after)
    return broken("; ".join(complaints), error) if complaints else kept(error)


async def _attach(text: str) -> tuple[str, str]:
    async def take(method: str, params: Mapping[str, Any], /, progress: Any = None) -> Any:
        return {"ok": True, "channel": "telegram"}

    given = {"action": "send", "target": "x", "message": "hi", "buffer": text}
    ctx = Ctx(Call("1", "message", given, "1"), Caller(), CallState(), Ports(rpc=take))
    (message,) = (each for each in SHELF if each.name == "message")
    lateness = Lateness()
    async with lateness:
        try:
            await message.run(ctx, message.check(given))
        except ToolError as error:
            return str(error), lateness.complaint
    return "", lateness.complaint


def _complaints(must: Json, seen: Json) -> list[str]:
    found = []
    if must["verdict"] == "allow" and seen["error"]:
        found.append(f"refused: {seen['error']}")
    if must["verdict"] == "reject" and (not seen["error"] or seen["ran"]):
        found.append("it was let through")
    if "calls" in must and seen["ran"] != must["calls"]:
        found.append(f"{seen['ran']} calls ran")
    if seen["ran"] > must.get("calls_max", seen["ran"]):
        found.append(f"{seen['ran']} calls ran")
    if seen["lost"] and must["verdict"] == "allow":
        found.append(f"{seen['lost']} characters were lost")
    if must.get("alive_during") and seen["late"]:
        found.append(seen["late"])
    return found


async def _seen(how: Json) -> Json:
    ran = 0

    @tool(effects=set())
    async def note(text: str) -> str:
        """Note a text."""
        nonlocal ran
        ran += 1
        return text

    heard = 0

    def hear(news: ReplyEvent) -> None:
        nonlocal heard
        heard += len(news.text) if isinstance(news, TextDelta | CallDelta) else 0

    belt = toolcrib.open({}).belt(Caller(), extra=[note])
    lateness = Lateness()
    async with lateness, serving(_act(how)) as server:
        replied = await _replied(server, hear)
        may_run = set(runnable(replied))
        await belt.call_all([call for call in replied.message.calls if call.id in may_run])
    wanted = how.get("deltas", 0) * how.get("bytes_each", 0)
    flaw = next((call.parse_error for call in replied.message.calls if call.parse_error), "")
    return {"error": replied.error or flaw, "ran": ran, "late": lateness.complaint, "lost": max(0, wanted - heard)}


async def _replied(server: Server, hear: Any) -> Replied:
    model = model_at("openai", server.base_url)
    try:
        return await ended(model, asked_for(), hear)
    finally:
        await model.close()


def _act(how: Json) -> Any:
    if "tool_args_bytes" in how:
        endless = endless_arguments(_PIECE, how["tool_args_bytes"])

        async def act(talk: Talk) -> None:
            await endless(talk, "openai")

        return act
    if "parallel_tool_calls" in how:
        return answering("openai", calling(how["parallel_tool_calls"]))
    if {"deltas", "bytes_each"} <= how.keys():
        return _many_words(how["deltas"], how["bytes_each"])
    if "stall_s" in how:
        return _stalling(how["stall_s"])
    raise UnknownWordError(f"a stream that is made by {sorted(how)}")


def _stalling(seconds: float) -> Any:
    """Return what begins a reply and says nothing for so long, or until nobody listens any more."""
    first, *_ = said("openai", Say(text="x"))

    async def act(talk: Talk) -> None:
        await talk.head()
        await talk.send(first)
        await asyncio.sleep(seconds)
        await talk.end()

    return act


def _many_words(deltas: int, each: int) -> Any:
    """Return what sends that many pieces of text, made while they are sent: the server is in this process, too."""
    first, _, *last = said("openai", Say(text="x"))
    piece = event({"choices": [{"index": 0, "delta": {"content": "x" * each}, "finish_reason": None}]})
    together = max(1, _TOGETHER // len(piece))

    async def act(talk: Talk) -> None:
        await talk.head()
        await talk.send(first)
        for at in range(0, deltas, together):
            await talk.send(piece * min(together, deltas - at))
            await asyncio.sleep(0)  # whoever else is here gets its turn
        await talk.send(b"".join(last))
        await talk.end()

    return act
