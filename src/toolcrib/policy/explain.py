"""Verdicts as rows of a table, as JSON, as one sentence. The same verdict in each."""

from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.define.caller import Caller
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Selection, Verdict

__all__ = ["COLUMNS", "caller_json", "explain_json", "explain_rows", "explain_sentence", "verdict_json"]

COLUMNS = ("tool", "verdict", "layer", "because")


def explain_rows(verdicts: Iterable[Verdict]) -> list[tuple[str, str, str, str]]:
    """Return the table's rows: tool, verdict, layer, because."""
    return [(v.tool, v.decision, v.layer or "-", v.reason) for v in verdicts]


def explain_sentence(verdict: Verdict) -> str:
    """Return the verdict as one sentence for people and models."""
    if verdict.decision == "allow":
        return f"{verdict.tool} is allowed: it {verdict.reason}"
    word = "denied" if verdict.decision == "deny" else "asked about"
    return f"{verdict.tool} is {word} at the {verdict.layer} layer: {verdict.reason}; to change it, {verdict.remedy}"


def verdict_json(verdict: Verdict, tool: Tool) -> dict[str, Any]:
    """Return the verdict with what identifies its tool."""
    return {
        "tool": verdict.tool,
        "source": tool.source,
        "group": tool.group,
        "effects": sorted(tool.effects),
        "decision": verdict.decision,
        "layer": verdict.layer,
        "rule": verdict.rule,
        "origin": verdict.origin,
        "reason": verdict.reason,
        "remedy": verdict.remedy,
    }


def caller_json(caller: Caller, *, owner: bool, sandboxed: bool, agent: str) -> dict[str, Any]:
    """Return who was asked about, with what was decided about them."""
    sender = caller.sender
    return {
        "session": caller.session,
        "agent": agent,
        "provider": caller.provider,
        "model": caller.model,
        "channel": caller.channel,
        "account": caller.account,
        "group": caller.group,
        "sender": None
        if sender is None
        else {"id": sender.id, "e164": sender.e164, "username": sender.username, "name": sender.name},
        "owner": owner,
        "sandboxed": sandboxed,
        "parents": list(caller.parents),
    }


def explain_json(
    caller: Mapping[str, Any], belt: Selection, tools: Mapping[str, Tool], only: str | None = None
) -> dict[str, Any]:
    """Return the whole answer of `toolcrib explain`; with `only`, that tool and what every layer said about it."""
    names = [only] if only else list(tools)
    answer: dict[str, Any] = {
        "caller": dict(caller),
        "tools": [verdict_json(belt.verdicts[name], tools[name]) for name in names],
    }
    if only:
        answer["steps"] = [
            {"layer": step.layer, "origin": step.origin, "decision": step.decision, "rule": step.rule}
            for step in belt.steps(only)
        ]
    return answer
