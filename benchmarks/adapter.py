"""Our column in the shared harness: one JSON spec on stdin, one JSON object of metrics as the last line of stdout.

The harness starts this file by its path and puts its own `bench_adapter` on the way of imports.
"""

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

if not __package__:  # started by its path, where the package around it is not known
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.policy import CALLER, World, catalog_of, world_with
from toolcrib.config.load import load

__all__ = ["policy", "worlds_from"]

# The groups of the documents, as the other contestants have them: theirs of `fs` holds no search.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "fs": ("read", "write", "edit", "apply_patch"),
    "runtime": ("exec", "process"),
    "sessions": ("sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"),
    "memory": ("memory_search", "memory_get"),
    "web": ("web_search", "web_fetch"),
}

BUDGET, MOST_CALLS = 2.0, 2_000  # seconds and calls a size, as the floor has them


def policy(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the median microseconds of one resolve for each size, and which tools were kept."""
    document = json.loads((Path(spec["data"]) / "policy.json").read_text(encoding="utf-8"))
    result: dict[str, Any] = {}
    for size, world in worlds_from(document).items():
        times: list[float] = []
        until = time.perf_counter() + BUDGET
        while time.perf_counter() < until and len(times) < MOST_CALLS:
            began = time.perf_counter()
            belt = world.belt()
            times.append(time.perf_counter() - began)
        kept = ",".join(belt.tools)
        result[f"us_{size}"] = statistics.median(times) * 1e6
        result[f"kept_{size}"] = len(belt.tools)
        result[f"hash_{size}"] = hashlib.sha1(kept.encode(), usedforsecurity=False).hexdigest()[:8]
    return result


def worlds_from(document: Mapping[str, Any]) -> dict[str, World]:
    """Return the harness's tools of each size, under its configuration read as the OpenClaw file that it is."""
    config = document["config"]
    file = {
        "tools": {
            **config["tools"],
            "sandbox": {"tools": config["sandbox"]},
            "subagents": {"tools": config["subagent"]},
        },
        "agents": {**config["agents"], "defaults": {"sandbox": {"mode": "all"}}},
        "channels": {CALLER.channel: {"groups": {CALLER.group: {"tools": config["group"]}}}},
    }
    settings = load(file, {}, openclaw=True).policy
    return {
        size: world_with(catalog_of([(tool["name"], tool.get("plugin")) for tool in tools], GROUPS), settings, CALLER)
        for size, tools in document["tools"].items()
    }


if __name__ == "__main__":
    import_module("bench_adapter").serve({"policy": policy})
