"""Our column in the shared harness: one JSON spec on stdin, one JSON object of metrics as the last line of stdout.

The harness starts this file by its path and puts its own `bench_adapter` on the way of imports.
"""

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

if not __package__:  # started by its path, where the package around it is not known
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import call, turn
from benchmarks.policy import CALLER, World, catalog_of, world_with
from toolcrib import OWNER, Call, Caller, Text, tool
from toolcrib import open as open_crib
from toolcrib.adapter.arguments import parse_arguments
from toolcrib.adapter.forms import to_gemini_form, to_strict_form
from toolcrib.app import Belt
from toolcrib.backends.memory.chunks import Chunk
from toolcrib.backends.memory.table import ChunkedFile, FileKey, MemoryTable
from toolcrib.config.load import load
from toolcrib.define.memory import MemoryPassage
from toolcrib.define.model import Request
from toolcrib.testing.models import FunctionModel, Reply, call_reply, text_reply
from toolcrib.tools.web._documents import read_html

__all__ = [
    "agent_loop",
    "build_index",
    "files",
    "memory",
    "parallel",
    "policy",
    "schema",
    "search",
    "tool_call",
    "web",
    "worlds_from",
]

# The groups of the documents, as the other contestants have them: theirs of `fs` holds no search.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "fs": ("read", "write", "edit", "apply_patch"),
    "runtime": ("exec", "process"),
    "sessions": ("sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"),
    "memory": ("memory_search", "memory_get"),
    "web": ("web_search", "web_fetch"),
}

BUDGET, MOST_CALLS = 2.0, 2_000  # seconds and calls a size, as the floor has them


async def tool_call(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one call takes: verdict, two hooks, deadline, fence and record on."""
    shared, belt = import_module("bench_adapter"), call.belt_with(call.forecast)
    taken: dict[str, Any] = await shared.time_calls(
        lambda: call.our_call(belt, "forecast"),
        spec["params"],
        lambda result: result.content[0].text == shared.EXPECTED,
    )
    return taken


async def parallel(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the calls of one reply take, the same on."""
    shared, belt = import_module("bench_adapter"), call.belt_with(call.nap)

    async def reply(turns: Any) -> None:
        while turns.more():
            await call.our_calls(belt, "nap", spec["params"]["calls"])

    taken: dict[str, Any] = await shared.run_parallel(reply, spec["params"])
    return taken


async def agent_loop(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a step of a long turn takes, as everybody runs one: events, record, session and limits on."""
    shared = import_module("bench_adapter")

    async def run(turns: Any) -> None:
        def answer(_: Request) -> Reply:
            if not turns.more():
                return text_reply("done")
            return call_reply(Call(id=f"c{turns.index}", name="forecast", args=parse_arguments(shared.CALL_ARGS)))

        async with open_crib({}) as crib:
            model = FunctionModel(answer, keep=False)
            end = await crib.turn("go", caller=OWNER, model=model, extra=[call.forecast], limits=turn.NO_BOUNDS).end()
            if end.reason != "done":
                raise AssertionError(end.sentence)

    taken: dict[str, Any] = await shared.run_loops(run, spec["params"])
    return taken


def schema(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what functions take to become tools with a schema, and schemas to become a provider's."""
    shared = import_module("bench_adapter")
    document = json.loads((Path(spec["data"]) / "schemas.json").read_text(encoding="utf-8"))
    schemas = [each["parameters"] for each in document]

    def built(functions: list[Any]) -> list[Any]:
        return [tool(each).parameters for each in functions]

    functions = partial(shared.fresh_functions, spec["data"])
    return {
        "build_ms": shared.best_of(built, 2, functions) * 1e3,
        "declare_ms": shared.best_of(lambda fresh: [tool(each) for each in fresh], 2, functions) * 1e3,
        "openai_ms": shared.best_of(lambda: [to_strict_form(each) for each in schemas]) * 1e3,
        "gemini_ms": shared.best_of(lambda: [to_gemini_form(each) for each in schemas]) * 1e3,
    }


def _belt_in(folder: str) -> Belt:
    """Return the belt of somebody at work in a folder, with a model that patches."""
    return open_crib({"workspace": {"root": folder}}).belt(Caller(provider="openai", model="gpt-5"))


async def _told(belt: Belt, name: str, args: Mapping[str, Any]) -> str:
    result = await belt.call(name, args)
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


async def search(spec: Mapping[str, Any]) -> Any:
    """Return what `grep` and `find` take, through the gate."""
    root = str(Path(spec["data"]) / "tree")
    belt = _belt_in(root)

    async def grep(_: str, pattern: str) -> str:
        return await _told(belt, "grep", {"pattern": pattern})

    async def find(_: str, pattern: str) -> str:
        return await _told(belt, "find", {"pattern": pattern, "limit": 100_000})

    return await import_module("tool_tasks").search(spec, grep, find)


async def files(spec: Mapping[str, Any]) -> Any:
    """Return what `edit`, `apply_patch` and `read` take, through the gate."""

    async def edit(path: str, old: str, new: str) -> str:
        belt = _belt_in(str(Path(path).parent))
        return await _told(belt, "edit", {"path": path, "oldText": old, "newText": new})

    async def patch(folder: str, text: str, _: str) -> str:
        return await _told(_belt_in(folder), "apply_patch", {"input": text})

    async def read(path: str, line: int, count: int) -> str:
        belt = _belt_in(str(Path(path).parent))
        return await _told(belt, "read", {"path": path, "offset": line, "limit": count})

    return await import_module("tool_tasks").files(spec, edit, patch, read)


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


def web(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what pages take to be read, and how much of the article and of what stands around it was kept."""
    folder, shared = Path(spec["data"]), import_module("bench_adapter")
    truth = json.loads((folder / "pages.json").read_text(encoding="utf-8"))
    pages = {name: (folder / "pages" / name).read_text(encoding="utf-8") for name in sorted(truth)}
    for html in [*pages.values()][:10]:
        read_html(html, "https://page.test/", "markdown")
    told, times = {}, []
    for name, html in pages.items():
        began = time.perf_counter()
        told[name] = read_html(html, "https://page.test/", "markdown").text
        times.append((time.perf_counter() - began) * 1e3)

    def share(kind: str) -> float:
        found = [each in told[name] for name, wanted in truth.items() for each in wanted[kind]]
        return sum(found) / len(found)

    middle, slowest = (shared.percentile(times, each) for each in (0.5, 0.99))
    taken = {"total_s": sum(times) / 1e3, "page_p50_ms": middle, "page_p99_ms": slowest}
    return {**taken, "main_kept": share("main"), "noise_kept": share("noise")}


def memory(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a search by meaning and one by words take, of the index alone; it is built once per data folder."""
    import numpy as np  # noqa: PLC0415  the other measures do without it

    folder, shared = Path(spec["data"]), import_module("bench_adapter")
    count, most = spec["params"]["queries"], 10
    vectors, queries = (np.fromfile(folder / f"{name}.f32", "f4").reshape(-1, 384) for name in ("vectors", "queries"))
    asked = [" ".join(words) for words in json.loads((folder / "queries.json").read_text(encoding="utf-8"))[:count]]
    table, began = MemoryTable(folder / "toolcrib-memory"), time.perf_counter()
    note = folder / "toolcrib-memory.s"
    if not note.exists():
        build_index(table, (folder / "chunks.txt").read_text(encoding="utf-8").splitlines(), vectors)
        note.write_text(str(time.perf_counter() - began))

    def timed(search: Callable[[Any], list[MemoryPassage]], each: Sequence[Any]) -> tuple[list[float], list[Any]]:
        times, found = [], []
        for at, question in enumerate([*each[:5], *each]):
            began = time.perf_counter()
            passages = search(question)
            if at >= 5:  # the first ones only warm it up
                times.append((time.perf_counter() - began) * 1e3)
                found.append({passage.start_line - 1 for passage in passages})
        return times, found

    by_vector, found = timed(lambda query: table.search("", query, most)[1], list(queries[:count]))
    by_words, _ = timed(lambda query: table.search(query, None, most)[1], asked)
    truth = [set(np.argpartition(vectors @ query, -most)[-most:].tolist()) for query in queries[:count]]
    size = sum(path.stat().st_size for path in folder.glob("toolcrib-memory*"))
    table.close()
    return {
        "build_s": float(note.read_text()),
        "size_mb": size / 1e6,
        "recall": sum(len(ours & right) for ours, right in zip(found, truth, strict=True)) / (most * len(truth)),
        **{f"vec_p{at}_ms": shared.percentile(by_vector, at / 100) for at in (50, 99)},
        **{f"fts_p{at}_ms": shared.percentile(by_words, at / 100) for at in (50, 99)},
    }


def _number(line: int, text: str) -> Chunk:
    """Return a chunk that is like no other: of those with the same text, one vector is kept."""
    return Chunk(line, line, text, str(line))


def build_index(table: MemoryTable, texts: Sequence[str], vectors: Any) -> None:
    """Put texts into an index, fifty to a file, the line of each its number, and their vectors."""
    for at in range(0, len(texts), 2_000):
        files = [
            ChunkedFile(
                FileKey("memory", f"memory/{first // 50}.md"),
                "1",
                [_number(line + 1, texts[line]) for line in range(first, min(first + 50, len(texts)))],
            )
            for first in range(at, min(at + 2_000, len(texts)), 50)
        ]
        table.write(files)
    table.use_model("bench")
    for at in range(0, len(texts), 1_000):
        hashes = [_number(each + 1, texts[each]).hash for each in range(at, min(at + 1_000, len(texts)))]
        table.add_vectors("bench", hashes, vectors[at : at + 1_000])


def worlds_from(document: Mapping[str, Any]) -> dict[str, World]:
    """Return the harness's tools of each size, under its configuration read as the OpenClaw file that it is."""
    config = document["config"]
    file = {
        "tools": {
            "guests": "full",  # the other contestants know no default for guests
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
    measures = [agent_loop, files, memory, parallel, policy, schema, search, tool_call, web]
    import_module("bench_adapter").serve({measure.__name__: measure for measure in measures})
