"""attacks/resources: the json rows on the way every call takes, from the text a model wrote to what came of it."""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib import Call, Caller, Result, tool
from toolcrib.adapter.arguments import parse_arguments
from toolcrib.app import Belt
from toolcrib.define.args import Args
from toolcrib.define.errors import ArgumentError

from . import Outcome, broken, kept

Json = dict[str, Any]

_SETTLE_SECONDS = 20.0
_UNRESPONSIVE = 1.0  # seconds that a gateway may take to answer a status request


def judge(case: Json, profiles: Json) -> Outcome:
    """Send the generated text as a call and compare the verdict, the time and what was left behind."""
    asked, must = case["input"], case["must"]
    text = _text(asked["tool"], asked["args_gen"])
    _belt()  # opened before anything is measured
    before = measure_held(begins=True)
    began = time.process_time()  # all of it is work: waiting for a processor that others use does not count
    result = _called(asked["tool"], text)
    took = time.process_time() - began
    after = measure_held()
    limits = profiles[case["setup"].get("profile", "default")]["limits"]
    complaints = [*_verdict(must, result, limits, len(text)), *measure(must, took, before, after)]
    seen = {"status": result.status, "text": _said(result)[:200]}
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


@tool(name="read_probe", effects={"read"})
async def read_probe(path: str, offset: int = 1) -> str:
    """Stand where `read` stands: a typed tool."""
    return f"{len(path)} {offset}"


@tool(name="echo_args", effects=set(), parameters={"type": "object", "additionalProperties": True})
async def echo_args(args: Args) -> str:
    """Stand where a tool of a plugin stands: a raw schema that takes anything."""
    return f"{len(args)} arguments"


_STANDING_IN = {"read": "read_probe"}


@cache
def _belt() -> Belt:
    return toolcrib.open({}).belt(Caller(), extra=[read_probe, echo_args])


def _called(name: str, text: str) -> Result:
    """Read the text and make the call as the adapters of the providers do."""
    args: Mapping[str, Any] = {}
    flaw = ""
    try:
        args = parse_arguments(text)
    except ArgumentError as error:
        flaw = str(error)
    call = Call(id="1", name=_STANDING_IN.get(name, name), args=args, parse_error=flaw)
    return asyncio.run(_belt().call_all([call]))[0]


def _verdict(must: Json, result: Result, limits: Json, size: int) -> list[str]:
    said = _said(result)
    is_small = must["verdict"] == "reject_above_limit" and size <= limits["tool_args_bytes"]
    if must["verdict"] == "allow" or is_small:
        return [] if result.status == "ok" else [f"refused: {said}"]
    complaints = (
        []
        if result.status == "error" or must["verdict"] in ("bounded", "reject_or_bounded")
        else ["it was let through"]
    )
    if result.status == "error" and not 0 < len(said) <= limits["error_chars"]:
        complaints.append(f"the error has {len(said)} characters")
    if len(said) > int(must.get("result_chars") or limits["result_chars"]):
        complaints.append(f"the result has {len(said)} characters")
    return complaints


def measure(must: Json, took: float, before: Json, after: Json) -> list[str]:
    complaints = []
    if took > must.get("max_seconds", 60):
        complaints.append(f"took {took:.1f} s")
    if must.get("alive_during") and took > _UNRESPONSIVE:
        complaints.append(f"nothing else was answered for {took:.1f} s")
    until = time.monotonic() + _SETTLE_SECONDS
    most = {"fds": must.get("fds_growth", 0), "children": must.get("procs_left", 0) + must.get("zombies", 0)}
    while any(after[key] - before[key] > most[key] for key in most) and time.monotonic() < until:
        time.sleep(0.05)  # a thread that was under way lets go in its own time
        after = {**measure_held(), "mb": after["mb"]}
    grown = {key: after[key] - before[key] for key in before}
    if grown["mb"] > must.get("rss_growth_mb", 1_000):
        complaints.append(f"the process grew by {grown['mb']} MB")
    if grown["fds"] > most["fds"]:
        complaints.append(f"{grown['fds']} more files are open")
    if grown["children"] > most["children"]:
        complaints.append(f"{grown['children']} more processes are there")
    return complaints


def _read_children(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
        return []


def measure_held(*, begins: bool = False) -> Json:
    """Return what the process holds: its size, its open files and its children.

    Its size is the largest since the last measurement that began: each case has a peak of its own. What is only held in
    cycles is let go first: when that happens by itself is a matter of chance.
    """
    gc.collect()
    if begins:
        Path("/proc/self/clear_refs").write_text("5")
    children = [_read_children(path) for path in Path("/proc/self/task").glob("*/children")]
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return {
        "mb": peak // 1024,
        "fds": len(os.listdir("/proc/self/fd")),  # noqa: PTH208  only their number counts
        "children": sum(map(len, children)),
    }


def _said(result: Result) -> str:
    return result.plain_text


def _text(name: str, how: Json) -> str:
    """Return the arguments as the case describes them: the value under the tool's first parameter, or the object."""
    made = _MADE[how["json"]](how)
    return made if made.startswith("{") else f'{{"{"path" if name == "read" else "value"}": {made}}}'


def _count(how: Json) -> int:
    return int(next(how[key] for key in ("count", "depth", "bytes", "size", "length", "chars", "digits") if key in how))


def _members(how: Json, name: Callable[[int], str]) -> str:
    return "{" + ",".join(f'"{name(at)}":{at}' for at in range(_count(how))) + "}"


_MADE: dict[str, Callable[[Json], str]] = {
    "array": lambda how: "[" + ",".join(["1"] * _count(how)) + "]",
    "dup_keys": lambda how: _members(how, lambda at: "path"),
    "duplicate_keys": lambda how: _members(how, lambda at: "path"),
    "escapes": lambda how: '"' + "\\u00e9" * _count(how) + '"',
    "float": lambda how: str(how["text"]),
    "int_digits": lambda how: "9" * _count(how),
    "keys": lambda how: _members(how, lambda at: f"k{at}"),
    "long_key": lambda how: '{"' + "k" * _count(how) + '": 1}',
    "nested_arrays": lambda how: "[" * _count(how) + "]" * _count(how),
    "nested_in_string": lambda how: f'"{"[" * _count(how)}{"]" * _count(how)}"',
    "nested_objects": lambda how: '{"a":' * _count(how) + "1" + "}" * _count(how),
    "number": lambda how: str(how["text"]),
    "raw": lambda how: str(how["text"]),
    "string": lambda how: '"' + "x" * _count(how) + '"',
    "surrogates": lambda how: '"' + "\\ud800" * _count(how) + '"',
}
