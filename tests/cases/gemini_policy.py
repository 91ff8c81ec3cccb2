"""gemini-policy on the configuration, the gate and the judge: rules as our lists, a call of a fake tool, or a command.

Whether a tool runs, is asked about or denied is seen by calling it. A command is judged and not run; every program a
line may name counts as installed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import toolcrib
from toolcrib.app import Belt, Crib
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.names import tool_name
from toolcrib.define.result import Result
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import EFFECTS, Tool, tool_named
from toolcrib.define.verdict import Layer, Rule
from toolcrib.policy.command import judge, look_up_in, rules_from
from toolcrib.policy.gate import gate
from toolcrib.registry.catalog import groups_of

from .gemini_bus import caller_of
from .gemini_rules import EFFECTS as MARKS
from .gemini_rules import Lists, entries_of, our_name, prefix_of, rules_in_force
from .jump import run
from .load import Case
from .outcome import Refused, Same, is_same

Json = dict[str, Any]

_ANYTHING = {"type": "object"}
_DECISIONS = {"allow": "allow", "run": "allow", "ask": "ask_user", "deny": "deny"}


class _Human:
    """Says yes, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        self.asked.append(reason)
        return True


def _checked(args: Json) -> Json:
    config = args["config"]
    if any("checker" in key.lower() for key in config):
        raise ToolError("what is checked beside the lists is checked by guards, which plugins bring")
    tool, lists, chain = _tool(args), Lists(), (args["subagent"].split("/") if args.get("subagent") else [])
    rules = [_of_the_call(rule, args, tool) for rule in rules_in_force(config)]
    for rule in rules:
        lists.add(rule)
    otherwise = config.get("defaultDecision", "allow" if config.get("approvalMode") == "yolo" else "ask_user")
    if otherwise == "allow":
        lists.tools["exec"]["security"] = "full"
    elif tool.name != "exec" and not any(rule["decision"] == "allow" and _means(rule, tool, ()) for rule in rules):
        lists.tools["ask" if otherwise == "ask_user" else "deny"].append(tool.name)
    crib = toolcrib.open(lists.config())
    belt = crib.belt(replace(caller_of(chain), owner=True), extra=[] if tool.name == "exec" else [tool])
    if tool.name == "exec":
        decision, is_about_words = _commanded(args, crib, belt)
    else:
        decision, is_about_words = run(_called(args, crib, belt, tool)), False
    said = [
        rule["toolName"]
        for rule in rules
        if rule["decision"] == decision
        and _means(rule, tool, chain)
        and (prefix_of(rule) is not None) is is_about_words
    ]
    if decision == "ask_user" and config.get("nonInteractive"):
        decision = "deny"  # with nobody to ask, refused
    return {"decision": decision, "rule": said[0] if said else None}


def _of_the_call(rule: Json, args: Json, tool: Tool) -> Json:
    """Return a rule that has the very name of a tool of a server with what we call that tool."""
    is_named = rule["toolName"] == args["call"]["name"] and "mcpName" not in rule and tool.source.startswith("mcp:")
    return {**rule, "ours": tool.name} if is_named else rule


def _tool(args: Json) -> Tool:
    """Return the tool that is called: a fake of their name, our exec, or the agent that they call by argument."""
    name, source = args["call"]["name"], "core"
    if name == "invoke_agent":
        name, source = args["call"]["args"]["agent_name"], "agent"
    marks = args.get("toolAnnotations") or {}
    effects = frozenset(effect for mark, effect in MARKS.items() if marks.get(mark) is True) or EFFECTS

    async def body(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        return Result.text("done")

    server, own = _server_of(args)
    name, shape = tool_name(server, own) if server else our_name(name), Shape(lambda: _ANYTHING, check_of_schema)
    tool = tool_named(name, f"{name}.", shape, body, effects=effects)
    return replace(tool, source=f"mcp:{server}" if server else source)


def _server_of(args: Json) -> tuple[str, str]:
    """Return which server a tool comes from and what it is called there: a name says so only where nobody else does."""
    name, said = args["call"]["name"], args.get("serverName") or ""
    server, _, own = name.removeprefix("mcp_").partition("_") if name.startswith("mcp_") else ("", "", "")
    if said:
        return said, name.removeprefix(f"mcp_{said}_")
    return (server, own) if own else ("", name)


def _means(rule: Json, tool: Tool, chain: Sequence[str]) -> bool:
    """Tell whether a rule is about a tool, as our own gate matches its entries; what a subagent is allowed is not."""
    if rule.get("subagent", "").rpartition("/")[2] not in ("", *chain) or (
        prefix_of(rule) is None and "argsPattern" in rule
    ):
        return rule["decision"] != "allow" and "argsPattern" in rule
    entries = tuple(entry for entry in entries_of(rule) if entry)
    stated = Rule(allow=entries) if rule["decision"] == "allow" else Rule(deny=entries)
    belt = gate({tool.name: tool}, groups_of([tool]), [Layer("global", "tools", stated)])
    return (tool.name in belt.tools) is (rule["decision"] == "allow")


async def _called(args: Json, crib: Crib, belt: Belt, tool: Tool) -> str:
    human = _Human()
    approver = None if args["config"].get("nonInteractive") else human
    try:
        result = await replace(belt, pipeline=replace(belt.pipeline, approver=approver)).call(
            tool.name, args["call"].get("args")
        )
    finally:
        await crib.close()
    if result.status == "ok":
        return "ask_user" if human.asked else "allow"
    return {"denied": "deny", "not_approved": "ask_user"}[result.details["code"]]


def _commanded(args: Json, crib: Crib, belt: Belt) -> tuple[str, bool]:
    """Return what is decided about a command, and whether an entry for its words decided it: lists, then the judge."""
    decision = belt.verdicts["exec"].decision
    if decision != "allow":
        return _DECISIONS[decision], False
    rules = rules_from(crib.config.tools.exec)
    for id, agent in crib.config.list_agents():
        if id == belt.caller.agent:
            rules = rules_from(agent.tools.exec, f"agents.{id}.tools.exec", over=rules)
    line = str((args["call"].get("args") or {}).get("command", ""))
    found = judge(line, rules, look_up_in(("/usr/bin",)))
    return _DECISIONS[found.decision], found.rule.startswith(("allow", "deny"))


def _same(case: Case, ours: Any) -> str:
    """Compare the decision and whose rule it was; an error must be one of ours, in our words."""
    if "error" in case.expected:
        return "" if isinstance(ours, Refused) else "recorded is an error, ours is not"
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    return "" if is_same(ours, case.expected) else "the decisions differ"


ADAPTERS: dict[str, Callable[[Json], Any]] = {"gemini.PolicyEngine.check": _checked}
SAME: dict[str, Same] = {"gemini.PolicyEngine.check": _same}
