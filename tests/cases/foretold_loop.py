"""What a scripted turn comes to by our rules, from what was recorded of theirs: for differences/*.toml."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

__all__ = ["around_in_circles", "calls_of", "executed", "newest", "repeats", "stopped", "stops"]

Json = dict[str, Any]

_NEWEST = ("0.73", "0.58", "0.51", "all")
_TIMES = 5  # replies with the same calls and the same results
_WHILE = "it was stopped while it ran, so it may have done a part of its work (stopped before it was done)"
_NEVER = "this call was not run: stopped before it was done"


def newest(recorded: Json) -> Json:
    """Return what was recorded of the newest version, its events in the order in which the adapter tells them."""
    run = next(recorded[version] for version in _NEWEST if version in recorded)
    return {**run, "events": side_by_side(run["events"])}


def side_by_side(events: Sequence[str]) -> list[str]:
    """Return the events with the calls of a reply taken up first, told in the order of their ends, answered last."""
    batch, ordered = list[str](), list[str]()
    for event in [*events, ""]:
        if "tool_execution" in event or ":toolResult:" in event:
            batch.append(event)
            continue
        for part in ("tool_execution_start", "tool_execution_update", "tool_execution_end", ":toolResult:"):
            ordered += [each for each in batch if part in each]
        batch.clear()
        ordered.append(event)
    return ordered[:-1]


def calls_of(turn: Json) -> list[Json]:
    """Return the calls of a reply."""
    return [block for block in turn["content"] if block["type"] == "toolCall"]


def _how(args: Json, call: Json) -> Json:
    return (args.get("tools") or {}).get(call["name"]) or {}


def _until(run: Json, turns: int, args: Json) -> Json:
    """Return a run as far as the end of so many turns."""
    ended = [at for at, event in enumerate(run["events"]) if event == "turn_end"][:turns]
    ids = [call["id"] for turn in args["turns"][:turns] for call in calls_of(turn)]
    return {
        **run,
        "llmCalls": turns,
        "events": run["events"][: ended[-1] + 1] if ended else [],
        "executed": [each for each in run["executed"] if each.split(":")[1] in ids],
        "toolResults": [each for each in run["toolResults"] if each["id"] in ids],
        "contextRoles": run["contextRoles"][:turns],
    }


# Going round in circles


def repeats(args: Json) -> int:
    """Return after how many replies a turn goes nowhere: the same calls so many times over; 0 where it does not."""
    made = [[[call["name"], call["arguments"]] for call in calls_of(turn)] for turn in args["turns"]]
    for at in range(len(made) - _TIMES + 1):
        window = made[at : at + _TIMES]
        if window[0] and all(one == other for one, other in pairwise(window)):
            return at + _TIMES
    return 0


def around_in_circles(args: Json, recorded: Json) -> Json:
    """Return a run that ends where it repeats itself."""
    run = _until(newest(recorded), repeats(args), args)
    return {**run, "events": [*run["events"], "agent_end"], "lastStopReason": "toolUse"}


# Stopped by somebody


def stops(args: Json) -> int:
    """Return which reply has a call during which somebody stops the turn; IndexError where none has."""
    found = [at for at, turn in enumerate(args["turns"]) if any(_stops(args, call) for call in calls_of(turn))]
    return found[0]


def _stops(args: Json, call: Json) -> bool:
    return bool(_how(args, call).get("abortDuring"))


def stopped(args: Json, recorded: Json) -> Json:
    """Return a run that ends there: what runs is told that it was stopped, what had not begun that it never did."""
    at, theirs = stops(args), newest(recorded)
    run, calls = _until(theirs, at, args), calls_of(args["turns"][at])
    last = next(number for number, call in enumerate(calls) if _stops(args, call))
    began = theirs["events"][len(run["events"]) :]
    end = next(place for place, event in enumerate(began) if event == "message_end:assistant")
    results: list[Json] = []
    done: list[str] = []
    for number, call in enumerate(calls):
        how, text = _how(args, call), _WHILE if number <= last else _NEVER
        if number <= last:
            done.append(f"run:{call['id']}:{json.dumps(call['arguments'], separators=(',', ':'))}")
            done += [] if _stops(args, call) or how.get("delay") or "throws" in how else [f"done:{call['id']}"]
            text = how["throws"] if "throws" in how and not _stops(args, call) and not how.get("delay") else text
        results.append({"id": call["id"], "isError": True, "text": text})
    begun = [call["id"] for call in calls[: last + 1]]
    return {
        **run,
        "llmCalls": at + 1,
        "events": [
            *run["events"],
            *began[: end + 1],
            *[f"tool_execution_start:{id}" for id in begun],
            *[
                f"tool_execution_update:{call['id']}"
                for call in calls[: last + 1]
                for _ in _how(args, call).get("updates", ())
            ],
            *[f"tool_execution_end:{id}:err" for id in begun],
            *[f"message_{part}:toolResult:{call['id']}" for call in calls for part in ("start", "end")],
            "turn_end",
            "agent_end",
        ],
        "executed": [*run["executed"], *done],
        "toolResults": [*run["toolResults"], *results],
        "lastStopReason": "toolUse",
        "contextRoles": theirs["contextRoles"][: at + 1],
    }


# Alone and side by side


def executed(args: Json) -> list[str]:
    """Return when bodies begin and end that run side by side, but for those of tools that run alone."""
    return [each for turn in args["turns"] for each in _ran(args, calls_of(turn))]


def _ran(args: Json, calls: Sequence[Json]) -> list[str]:
    steps, over, barrier = list[tuple[float, int, int, str]](), [0.0], 0.0
    for at, call in enumerate(calls):
        how = _how(args, call)
        alone = args.get("toolExecution") == "sequential" or how.get("executionMode") == "sequential"
        begins = max(over) if alone else barrier
        over.append(begins + how.get("delay", 0))
        barrier = over[-1] if alone else barrier
        steps.append((begins, 1, at, f"run:{call['id']}:{json.dumps(call['arguments'], separators=(',', ':'))}"))
        if "throws" not in how:
            steps.append((over[-1], 0 if how.get("delay") else 1, at, f"done:{call['id']}"))
    return [step for *_, step in sorted(steps, key=lambda each: each[:3])]
