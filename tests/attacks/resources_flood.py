"""attacks/resources: a log that is flooded, sessions that write to each other without end, a search of a megabyte."""

import asyncio
import json
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import toolcrib
from tests.backends.models.servers import answering
from tests.doors.talking import Say, Talk, talking
from toolcrib import OWNER, Result
from toolcrib.doors.cli._log import keep_log

from . import Outcome, broken, kept, resources
from .lateness import Stopwatch

Json = Mapping[str, Any]

_LINE_CHARS = 16_000
_AGENTS = ("main", "kid")


def judge_log(case: Json) -> Outcome:
    """Log as much as the case says, and look at what the folder holds then."""
    asked, must = case["input"], case["must"]
    line = str(asked.get("unique_line", "x")) + "x" * _LINE_CHARS
    size, each = int(asked.get("mb", 0)) << 20, int(asked.get("count") or asked.get("repeat") or 0)
    before, watch, log = resources.measure_held(begins=True), Stopwatch(), logging.getLogger("toolcrib")
    with tempfile.TemporaryDirectory() as folder:
        handlers, level = list(log.handlers), log.level
        keep_log("warning", Path(folder, "toolcrib.log"))
        try:
            for number in range(each or size // len(line)):
                log.warning("%d %s", number, line)
            held = sum(path.stat().st_size for path in Path(folder).iterdir()) / (1 << 20)
        finally:
            log.handlers[:] = handlers
            log.setLevel(level)
    complaints = resources.measure({**must, "alive_during": False}, watch.took, before, resources.measure_held())
    if held > must.get("disk_mb", 50):
        complaints.append(f"the log takes {held:.0f} MB")
    return broken("; ".join(complaints), {"mb": held}) if complaints else kept({"mb": held})


def judge_ping_pong(case: Json) -> Outcome:
    """Let two agents answer each message with one to the other, and count how often a model is asked to."""
    must = case["must"]
    before, watch = resources.measure_held(begins=True), Stopwatch()
    turns = asyncio.run(_write_to_each_other(int(case["input"].get("turns", 100))))
    complaints = resources.measure({**must, "alive_during": False}, watch.took, before, resources.measure_held())
    least, most = must.get("turns_min", 1), must.get("turns_max", must.get("turns", 20))
    if not least <= turns <= most:
        complaints.append(f"{turns} messages were written")
    return broken("; ".join(complaints), {"turns": turns}) if complaints else kept({"turns": turns})


async def _write_to_each_other(most: int) -> int:
    keys, written = [f"agent:{name}:main" for name in _AGENTS], 0

    async def act(talk: Talk) -> None:
        nonlocal written
        is_message = talk.asked.body["messages"][-1]["role"] == "user" and written < most
        written += is_message
        # to both, since it does not know where it is: the one to itself is refused
        sends = [
            (key, "sessions_send", json.dumps({"sessionKey": key, "message": "?", "timeoutSeconds": 0})) for key in keys
        ]
        await answering("openai", Say(calls=tuple(sends)) if is_message else Say(text="done"))(talk)

    with tempfile.TemporaryDirectory() as folder, talking(act) as server:
        config = {
            "agents": {name: {} for name in _AGENTS},
            "tools": {"agentToAgent": {"enabled": True, "allow": ["*"]}},
            "workspace": {"root": folder},
            "models": {"default": "local:small", "local": {"baseUrl": server.base_url}},
        }
        async with toolcrib.open(config, state=Path(folder, "state"), env={}) as crib:
            for key in keys:
                await crib.turn("hello", caller=OWNER, session=key).end()
            seen = -1
            while seen != (seen := len(server.asked)):
                await crib.chat.settle(60)
    return written


async def _search(root: Path, args: Json) -> Result:
    async with toolcrib.open({"workspace": {"root": str(root)}}, env={"BRAVE_API_KEY": "k"}) as crib:
        return await crib.belt(OWNER).call("web_search", args)


def judge_search(case: Json) -> Outcome:
    """Search for as much as the case says."""
    asked, must = case["input"], case["must"]
    args = dict(asked.get("args", {}))
    if count := asked.get("args_gen", {}).get("query_bytes"):
        args["query"] = "x" * int(count)
    before, watch = resources.measure_held(begins=True), Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(_search(Path(folder), args))
    complaints = resources.measure({**must, "alive_during": False}, watch.took, before, resources.measure_held())
    is_refused = result.status == "error" and result.details.get("code") == "bad_arguments"
    if is_refused != must["verdict"].startswith("reject"):
        complaints.append(f"it was {'refused' if is_refused else 'let through'}: {result.plain_text[:200]}")
    if len(result.plain_text) > must.get("result_chars", 60_000):
        complaints.append(f"the result has {len(result.plain_text)} characters")
    return broken("; ".join(complaints), {}) if complaints else kept({"status": result.status})
