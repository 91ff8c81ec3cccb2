"""What becomes of a scripted run of a subagent by our rules, told without running it: for differences/*.toml."""

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

__all__ = ["coerces", "foretold", "limit_in_a_tool", "names_chosen_by_pattern", "undeclared"]

Json = dict[str, Any]
Step = dict[str, Any]

_COMPLETE = "complete_task"
_INPUTS = ("q",)  # what the agent of these recordings declares
_REPEATS = 5  # replies with the same calls and the same results


def foretold(args: Json) -> Json:
    """Return how the run ends: a limit or a silence leaves one last reply, in which only `complete_task` is heard."""
    script = [*args["script"], {}]
    at, end, asked = 0, "", [list[list[str]]()]
    while not end:
        step = script[min(at, len(script) - 1)]
        end, results = _turn(args, script[: at + 1], step)
        at += 1
        end = end or ("MAX_TURNS" if at >= args.get("maxTurns", 30) else "")
        if not end:
            asked.append(results)
    answered = [each for results in asked for each in results]
    run = {"result": None, "turns": at, "modelCalls": at, "offered": _offered(args), "answered": answered}
    if end in ("GOAL", "ABORTED", "ERROR"):
        step = args["script"][at - 1]
        return {**run, "reason": end, "result": {"GOAL": _answer(args, step), "ERROR": step.get("throws")}.get(end)}
    last = script[min(at, len(script) - 1)]
    if last.get("abortUser"):
        return {**run, "reason": "ABORTED", "modelCalls": at + 1}
    is_heard = "throws" not in last and not last.get("hangUntilAbort")
    answer = _answer(args, last) if is_heard else None
    return {**run, "reason": end if answer is None else "RESCUED", "result": answer, "modelCalls": at + 1}


def _turn(args: Json, until: Sequence[Step], step: Step) -> tuple[str, list[list[str]]]:
    """Return how a reply ends the run, "" when it does not, and what its calls are answered."""
    if step.get("abortUser"):
        return "ABORTED", []
    if step.get("hangUntilAbort"):
        return "TIMEOUT", []
    if "throws" in step:
        return "ERROR", []
    if not step.get("calls"):
        return "ERROR_NO_COMPLETE_TASK_CALL", []
    results = [[name, _said(args, name, given)] for name, given in _calls(step)]
    if any(_aborts(_tool(args, name)) for name, _ in _calls(step)):
        return "ABORTED", results
    if _answer(args, step) is not None:
        return "GOAL", results
    if sum(_took(args, each) for each in until) > args.get("maxTimeMinutes", 10) * 60_000:
        return "TIMEOUT", results
    latest = [list(_calls(each)) for each in until[-_REPEATS:]]
    circling = len(latest) == _REPEATS and all(one == other for one, other in pairwise(latest))
    return "ERROR_NO_COMPLETE_TASK_CALL" if circling else "", results


def _calls(step: Step) -> Iterator[tuple[str, Any]]:
    """Yield names and arguments; None for arguments that are no JSON."""
    for name, *more in step.get("calls", ()):
        given = more[0] if more and more[0] is not None else {}
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except ValueError:
                given = None
        yield name, given


def _tool(args: Json, name: str) -> Json:
    return args.get("tools", {}).get(name) or {}


def _aborts(how: Json) -> bool:
    return any("abort" in key.lower() and how[key] for key in how)


def _took(args: Json, step: Step) -> float:
    """Return the milliseconds that the calls of a reply take; they run side by side."""
    return max((float(_tool(args, name).get("delay", 0)) for name, _ in _calls(step)), default=0.0)


def _said(args: Json, name: str, given: Any) -> str:
    how = _tool(args, name)
    if name not in _offered(args) or name == _COMPLETE or given is None or "error" in how or "throws" in how:
        return "error"
    if _missing(how, given) or (_decided(args, name, "ask_user") and not args.get("answers")):
        return "error"
    content = how.get("llmContent", how.get("result", "ok"))
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if "text" in part)
    return str(content)


def _missing(how: Json, given: Json) -> bool:
    schema = how.get("schema") or {}
    wanted = schema.get("properties") or {}
    kinds = {name: each.get("type") for name, each in wanted.items() if name in given}
    misfit = any(kind == "number" and not _number(given[name]) for name, kind in kinds.items())
    return misfit or any(name not in given for name in schema.get("required", ()))


def _number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _offered(args: Json) -> list[str]:
    """Return what the model is shown: in the order of the catalog, what is listed and not denied; agents are not."""
    listed = (args.get("toolConfig") or {"tools": ["*"]})["tools"]
    names = [
        name
        for name, how in args.get("tools", {}).items()
        if (how or {}).get("kind") != "agent"
        and any(fnmatchcase(name, entry) for entry in listed if isinstance(entry, str))
        and not _decided(args, name, "deny")
    ]
    return [*names, _COMPLETE]


def _decided(args: Json, name: str, decision: str) -> bool:
    for rule in args.get("rules") or ():
        named = rule["toolName"] if isinstance(rule["toolName"], list) else [rule["toolName"]]
        if rule["decision"] == decision and rule.get("subagent", "worker") == "worker" and {name, "*"} & set(named):
            return True
    return False


def _answer(args: Json, step: Step) -> str | None:
    """Return the first answer in a reply that fits."""
    output = args.get("output")
    name = output["name"] if output else "result"
    for called, given in _calls(step):
        value = given.get(name) if called == _COMPLETE and isinstance(given, dict) else None
        if isinstance(value, dict) and output and output.get("schema") != "string":
            if "summary" in value or not _says_summary(args):
                texts = {key: str(each) if key == "summary" else each for key, each in value.items()}
                return json.dumps(texts, ensure_ascii=False, indent=2)
        elif not output or output.get("schema") == "string":
            text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
            if isinstance(text, str) and (text.strip() or output):
                return text
    return None


def _says_summary(args: Json) -> bool:
    return '"summary"' in json.dumps(args["script"])


# What the rows ask


def limit_in_a_tool(args: Json) -> bool:
    """Tell whether the time is over while tools run."""
    limit = float(args.get("maxTimeMinutes", 10)) * 60_000
    return sum(_took(args, step) for step in args["script"]) > limit


def undeclared(args: Json) -> bool:
    """Tell whether a prompt has a `${name}` that is no input of the agent."""
    prompts = f"{args.get('query', '')} {args.get('systemPrompt', '')}"
    for name in _INPUTS:
        prompts = prompts.replace(f"${{{name}}}", "")
    return "${" in prompts


def coerces(args: Json) -> bool:
    """Tell whether a call gives a number for a text or the other way round."""
    return any(_coerced(args, name, given) for step in args["script"] for name, given in _calls(step) if given)


def _coerced(args: Json, name: str, given: Any) -> bool:
    if name == _COMPLETE:
        inside = [inner for each in given.values() if isinstance(each, dict) for inner in each.values()]
        return any(isinstance(each, int | float) for each in [*given.values(), *inside])
    wanted = (_tool(args, name).get("schema") or {}).get("properties") or {}
    return any(
        (each.get("type") in ("number", "integer", "boolean") and isinstance(given.get(key), str))
        or (each.get("type") == "string" and isinstance(given.get(key), int | float))
        for key, each in wanted.items()
    )


def names_chosen_by_pattern(args: Json) -> bool:
    """Tell whether the list of an agent's tools has patterns, or another order than the tools have."""
    listed = [entry for entry in args["toolConfig"]["tools"] if isinstance(entry, str)]
    tools = list(args.get("tools", {}))
    order = [tools.index(name) for name in listed if name in tools]
    return any("*" in entry and entry != "*" for entry in listed) or order != sorted(order)
