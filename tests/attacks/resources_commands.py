"""attacks/resources, the rows about commands: run in the sandbox, watched from outside, nothing left afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.commands import cribbed, said
from toolcrib.app import Belt
from toolcrib.define.result import Result

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

_EXEC = {"host": "sandbox", "security": "full", "ask": "off"}
_SANDBOX = {"processes": 128, "memoryMb": 1024}
_BEAT, _PATIENCE = 0.02, 20.0  # seconds between two looks, until all is gone


def judge(case: Json, profiles: Json) -> Outcome:
    """Run the command as the case describes, and measure."""
    if case["input"].get("then", "").startswith("gateway_"):
        return _outlived(case)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "ws"
        root.mkdir()
        seen = asyncio.run(_seen(root, case["input"]))
    complaints = _complaints(case["must"], seen)
    shown = {**seen, "said": [text[:200] for text in seen["said"][:3]], "polled": seen["polled"][:200]}
    return broken("; ".join(complaints), shown) if complaints else kept(shown)


def _complaints(must: Json, seen: Json) -> list[str]:
    found = []
    if must["verdict"] == "allow" and not all(seen["ran"]):
        found.append(f"refused: {seen['said'][0][:200]}")
    if any(must.get("output_has", "") not in text for text in seen["said"]):
        found.append(f"the output lacks {must['output_has']!r}")
    if must.get("poll_has", "") not in seen["polled"]:
        found.append(f"the poll lacks {must['poll_has']!r}")
    if max(map(len, seen["said"])) > must.get("result_chars", 60_000):
        found.append(f"the result has {max(map(len, seen['said']))} characters")
    if seen["took"] > must.get("max_seconds", 60):
        found.append(f"took {seen['took']:.1f} s")
    if must.get("alive_during") and seen["late"]:
        found.append(seen["late"])
    for what, most in (("procs_left", 0), ("zombies", 0), ("fds_growth", 2), ("rss_growth_mb", 1_000)):
        if seen[what] > must.get(what, most):
            found.append(f"{what} is {seen[what]}")
    return found


async def _seen(root: Path, asked: Json) -> Json:
    lateness = Lateness()
    async with cribbed(root, _EXEC, sandbox=_SANDBOX) as (belt, _):
        await belt.call("exec", {"command": "true"})  # what every command needs is there before anything is measured
        known, before = set(_descendants()), resources.measure_held(begins=True)
        async with lateness:
            watch = Stopwatch()
            results = await _called(belt, asked)
            took = watch.took
            polled = "".join([await _polled(belt, result) for result in results])
            until = time.perf_counter() + _PATIENCE
            while set(_descendants()) - known and time.perf_counter() < until:
                await asyncio.sleep(_BEAT)
            left = {pid: state for pid, state in _descendants().items() if pid not in known}
            after = resources.measure_held()
    return {
        "said": [said(result) for result in results],
        "ran": ["sessionId" in (result.details or {}) for result in results],
        "polled": polled,
        "took": took,
        "late": lateness.complaint,
        "procs_left": sum(state != "Z" for state in left.values()),
        "zombies": sum(state == "Z" for state in left.values()),
        "fds_growth": after["fds"] - before["fds"],
        "rss_growth_mb": after["mb"] - before["mb"],
    }


async def _called(belt: Belt, asked: Json) -> list[Result]:
    if "abort_after_s" in asked:
        return [await _aborted(belt, asked)]
    if "stdin" in asked or asked.get("then") == "close_stdin":
        started = await belt.call("exec", {**asked["args"], "background": True})
        more = {"data": asked.get("stdin", ""), "eof": asked.get("then") == "close_stdin"}
        await belt.call("process", {"action": "write", "sessionId": started.details["sessionId"], **more})
        return [started]
    if "concurrent" in asked:
        return list(await asyncio.gather(*(belt.call("exec", asked["args"]) for _ in range(asked["concurrent"]))))
    results = [await belt.call("exec", asked["args"]) for _ in range(asked.get("repeat", 1))]
    for result in results:  # a command that went to the background by itself is waited for
        if result.details.get("status") == "running" and not asked["args"].get("background"):
            await _polled(belt, result)
    return results


async def _aborted(belt: Belt, asked: Json) -> Result:
    task = asyncio.ensure_future(belt.call("exec", asked["args"]))
    await asyncio.wait([task], timeout=asked["abort_after_s"])
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return Result.text("aborted", details={"sessionId": ""})


def _outlived(case: Json) -> Outcome:
    """End a crib that has the command in the background, start it again where the case says so, and look around."""
    asked = case["input"]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "ws"
        root.mkdir()
        with _living(root, asked["args"]["command"]) as process:
            assert process.stdout is not None
            heard = process.stdout.readline()
            process.send_signal(signal.SIGTERM if asked["then"] == "gateway_sigterm" else signal.SIGKILL)
            process.wait()
        if asked["then"] == "gateway_sigkill_and_restart":
            with _living(root, "sleep 1000") as process:  # a short one may have ended before it is told
                assert process.stdout is not None
                heard = process.stdout.readline() or heard
        until = time.perf_counter() + _PATIENCE
        while (left := _at_work_in(root)) and time.perf_counter() < until:
            time.sleep(_BEAT)
    seen = {"heard": heard, "procs_left": len(left)}
    most = case["must"].get("procs_left", 0)
    if "running" not in heard or len(left) > most:
        return broken(f"procs_left is {len(left)}, and the crib said {heard!r}", seen)
    return kept(seen)


@contextmanager
def _living(root: Path, command: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-c", _LIFE, str(root), command],
        cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    with process:
        yield process
        if process.stdin is not None:
            process.stdin.close()  # whoever is still there ends by that


_LIFE = """
import asyncio, sys
from pathlib import Path
from tests.commands import cribbed

async def live(root, command):
    async with cribbed(root, {"host": "sandbox", "security": "full", "ask": "off"}) as (belt, _):
        result = await belt.call("exec", {"command": command, "background": True})
        print(result.details["status"], flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(live(Path(sys.argv[1]), sys.argv[2]))
"""


def _at_work_in(root: Path) -> list[str]:
    """Return the processes that are in this folder."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError):
            if name.isdigit() and Path(os.readlink(f"/proc/{name}/cwd")).is_relative_to(root):  # noqa: PTH115
                found.append(name)
    return found


async def _polled(belt: Belt, result: Result) -> str:
    """Follow a command in the background to its end; return what it printed."""
    if (result.details or {}).get("status") != "running":
        return ""
    texts = []
    while True:
        args = {"action": "poll", "sessionId": result.details["sessionId"], "timeoutMs": 5_000}
        look = await belt.call("process", args)
        texts.append(said(look))
        if look.status == "error" or look.details["status"] != "running":
            return "\n".join(texts)


def _descendants() -> dict[int, str]:
    """Return the processes that we and our children have started, with their state."""
    parents: dict[int, tuple[int, str]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError, IndexError, ValueError):
            if name.isdigit():
                state, parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
                parents[int(name)] = int(parent), state
    found = {os.getpid(): ""}
    while more := {pid: state for pid, (parent, state) in parents.items() if parent in found and pid not in found}:
        found |= more
    del found[os.getpid()]
    return found
