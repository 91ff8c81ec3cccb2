"""What becomes of a batch of calls by our rules, told without running it: for differences/*.toml.

Checked in the order of the calls, run side by side (a tool that writes or waits alone), answered in that order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["asked_about", "batch", "rules_on"]

Json = dict[str, Any]
Call = tuple[str, str, Json]  # id, tool, arguments

_ALONE = ("write_file", "replace")
_FAILURES = {
    "unknown": "tool_not_registered",
    "refused": "policy_violation",
    "invalid": "invalid_tool_params",
    "throws": "unhandled_exception",
    "error": "execution_failed",
}


def batch(args: Json) -> Json:
    """Return the results, who was asked about, and which bodies ran when, in the form of the adapter."""
    calls = list(_calls(args))
    ends, carried, asked, stopped = list[str](), set[str](), list[str](), len(calls)
    for at, call in enumerate(calls):
        end, words = _decided(args, call) if at <= stopped else ("cancelled", ())
        if end in ("ask", "abort", "cancel"):
            asked.append(call[0])
            stopped = at if end == "abort" else stopped
            end, words = _ran(args, call) if end == "ask" else ("cancelled", ())
        ends.append(end)
        carried.update(words)
    begun = [at for at, end in enumerate(ends) if end in ("ok", "throws", "error")]
    steps = list(_steps(args, calls, begun))
    if stopped < len(calls):  # whoever was still running when it was stopped
        ends = [
            "cancelled" if at in begun and _spec(args, calls[at][1]).get("delay") else end
            for at, end in enumerate(ends)
        ]
    cut = {f"end:{_label(args, calls[at])}" for at, end in enumerate(ends) if end == "cancelled"}
    return {
        "results": [f"{id}:{_status(end)}" for (id, _, _), end in zip(calls, ends, strict=True)],
        "kinds": [_FAILURES.get(end) for end in ends],
        "outputs": [_output(args, call[1]) for call, end in zip(calls, ends, strict=True) if end == "ok"],
        "carried": sorted(carried),
        "asked": asked,
        "prompts": len(asked),
        "execution": [step for _, lines in steps for step in lines if step not in cut],
        "behind": sorted(
            id
            for at, (id, _, _) in enumerate(calls)
            if at in begun and _is_behind(calls, at, asked, _begins(args, calls, begun))
        ),
    }


def _calls(args: Json) -> Iterator[Call]:
    for id, name, *more in args["calls"]:
        yield id, name, (more[0] if more else None) or {}


def _spec(args: Json, name: str) -> Json:
    return args["tools"].get(name) or {}


def _hook(args: Json, name: str) -> Json:
    return (args.get("hook") or {}).get(name) or {}


def rules_on(args: Json, name: str) -> set[str]:
    """Return what the rules say about a tool, whatever their order."""
    return {rule["decision"] for rule in args.get("rules") or () if rule["toolName"] in (name, "*")}


def asked_about(args: Json) -> list[str]:
    """Return the ids of the calls that a person is asked about, were there one."""
    return [
        id
        for id, name, _ in _calls(args)
        if "ask_user" in rules_on(args, name) or _hook(args, name).get("decision") == "ask"
    ]


def _decided(args: Json, call: Call) -> tuple[str, Sequence[str]]:
    """Return what a call comes to, and the words of the case that its failure carries."""
    id, name, given = call
    if name not in args["tools"]:
        return "unknown", [name]
    if "deny" in rules_on(args, name):
        return "refused", ()
    if missing := _missing(args, name, given):
        return "invalid", missing
    said = _hook(args, name)
    if said.get("continue") is False or said.get("decision") in ("block", "deny"):
        words = (said.get("stopReason") if said.get("continue") is False else None) or said.get("reason")
        return "refused", [str(words)] if words else ()
    if id not in asked_about(args):
        return _ran(args, call)
    if args.get("interactive") is False or args.get("nonInteractive"):
        return "refused", ()
    answers = args.get("answers") or {}
    names = {each: called for each, called, _ in _calls(args)}
    lasting = (word for of, word in answers.items() if "always" in word and names.get(of) == name)
    answer = answers.get(id) or next(lasting, "cancel")
    return ("abort" if answer == "ABORT" else "ask" if answer.startswith("proceed") else "cancel"), ()


def _missing(args: Json, name: str, given: Json) -> list[str]:
    spec = _spec(args, name)
    wanted = [*spec.get("required", ()), *(spec.get("schema") or {}).get("required", ())]
    return [each for each in wanted if each not in given]


def _ran(args: Json, call: Call) -> tuple[str, Sequence[str]]:
    spec = _spec(args, call[1])
    if "throws" in spec:
        return "throws", ()
    return ("error", [str(spec["error"])]) if "error" in spec else ("ok", ())


def _output(args: Json, name: str) -> str:
    spec = _spec(args, name)
    return str(spec.get("result", spec.get("llmContent", "ok")))


def _status(end: str) -> str:
    return {"ok": "success", "cancelled": "cancelled"}.get(end, "error")


def _label(args: Json, call: Call) -> str:
    _, name, given = call
    changed = (_hook(args, name).get("hookSpecificOutput") or {}).get("tool_input") or {}
    return f"{name}{changed.get('v', given.get('v', ''))}"


def _is_alone(args: Json, name: str) -> bool:
    return name in _ALONE or any(called == name and given.get("wait_for_previous") for _, called, given in _calls(args))


def _begins(args: Json, calls: Sequence[Call], begun: Sequence[int]) -> Mapping[int, float]:
    """Return when each body begins: behind the last one that runs alone, or behind all others if it does."""
    begins, over, barrier = dict[int, float](), [0.0], 0.0
    for at in begun:
        name = calls[at][1]
        begins[at] = max(over) if _is_alone(args, name) else barrier
        over.append(begins[at] + _spec(args, name).get("delay", 0))
        barrier = over[-1] if _is_alone(args, name) else barrier
    return begins


def _steps(args: Json, calls: Sequence[Call], begun: Sequence[int]) -> list[tuple[Any, list[str]]]:
    """Return what bodies do, in order; those that end leave before others begin."""
    steps: list[tuple[Any, list[str]]] = []
    for at, begins in _begins(args, calls, begun).items():
        label, delay = _label(args, calls[at]), _spec(args, calls[at][1]).get("delay", 0)
        if delay:
            steps += [((begins, 1, at), [f"start:{label}"]), ((begins + delay, 0, at), [f"end:{label}"])]
        else:
            steps.append(((begins, 1, at), [f"start:{label}", f"end:{label}"]))
    return sorted(steps)


def _is_behind(calls: Sequence[Call], at: int, asked: Sequence[str], begins: Mapping[int, float]) -> bool:
    """Tell whether a body began after a question about another call: one before it, or any if it had to wait."""
    id = calls[at][0]
    before = [other for other, _, _ in (calls if begins[at] else calls[:at])]
    return any(other in asked for other in before if other != id)
