"""The words of a verdict, and verdicts as rows of a table, as JSON, as one sentence: the same verdict in each."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from toolcrib.define.context import Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Consent, Decision, Layer, LayerStep, Selection, Verdict
from toolcrib.define.web import WayOut

from .arguments import resolve_places
from .reach import read_declared
from .resolve import ResolvedCaller

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
    known = {"tool": tool.name, "source": tool.source, "group": tool.group, "effects": sorted(tool.effects)}
    return known | asdict(verdict) | ({"aliases": list(tool.other_names)} if tool.other_names else {})


def caller_json(who: ResolvedCaller) -> dict[str, Any]:
    """Return who was asked about, with what was decided about them."""
    facts = asdict(replace(who.caller, agent=who.agent, owner=who.is_owner, sandboxed=who.is_sandboxed))
    del facts["parent_models"], facts["made_through"], facts["door"]
    return {**facts, "parents": list(who.caller.parents)}


def explain_json(
    caller: Mapping[str, Any],
    belt: Selection,
    tools: Mapping[str, Tool],
    only: str | None = None,
    judge: Callable[[Verdict], Verdict] = lambda verdict: verdict,
) -> dict[str, Any]:
    """Return the whole answer of `toolcrib explain`; with `only`, that tool and the step of every layer.

    A verdict is the mildest that any arguments can get; the `conditions` beside it say which get another.
    """
    names = [only] if only else list(tools)
    answer: dict[str, Any] = {
        "caller": dict(caller),
        "tools": [
            verdict_json(judge(belt.verdicts[name]), tools[name]) | list_conditions(belt, tools[name]) for name in names
        ],
    }
    if only:
        answer["steps"] = [asdict(step) for step in belt.steps(only)]
    return answer


def list_conditions(belt: Selection, tool: Tool) -> dict[str, Any]:
    """Return the rules about a tool's arguments as JSON, nothing where there are none."""
    if belt.rules_about is None or tool.name not in belt.tools or not (rules := belt.rules_about(tool)):
        return {}
    return {"conditions": [dict(zip(("decision", "rule", "origin"), each, strict=True)) for each in rules.conditions]}


def with_call(answer: dict[str, Any], verdict: Verdict, tainted: Verdict, found: Iterable[Verdict]) -> dict[str, Any]:
    """Return an answer about one tool with the steps of a call of it; the strictest decision counts, then the first.

    Heard in the order of a call: the `verdict`, rules about arguments, what it is once `tainted`, then hosts.
    """
    ranks, found = ("deny", "ask", "allow"), list(found)
    argued = [each for each in found if each.layer == "argument"]
    heard = (verdict, *argued, tainted, *found)
    first = min(heard, key=lambda each: ranks.index(each.decision))
    steps = [asdict(LayerStep(each.layer, each.origin, each.decision, each.rule)) for each in found if each.layer]
    answer["tools"] = [{**answer["tools"][0], **asdict(first)}]
    return {**answer, "steps": [*answer["steps"], *steps]}


class JudgedCall(NamedTuple):
    """What the rules decide on a call that is not made, and its arguments as it would be made."""

    found: list[Verdict]
    args: Mapping[str, Any]
    says: tuple[Consent, ...] = ()  # who may answer for each rule about arguments that asks


async def judge_call(
    belt: Selection, tool: Tool, call: tuple[Mapping[str, Any], Collection[str]], ports: Ports, way_out: WayOut
) -> JudgedCall:
    """Return what the rules about arguments, and those about hosts, say of a call.

    It is given as its checked arguments and where that came from which is in the conversation.
    """
    args, sources = call
    rules = belt.rules_about(tool) if belt.rules_about is not None else None
    found, says = list[Verdict](), tuple[Consent, ...]()
    if rules is not None:
        try:
            args, values = await resolve_places(rules, tool, args, ports, sources)
        except ToolError as error:
            refusal = Verdict(tool.name, "deny", "argument", None, None, str(error), "call it with other arguments")
            return JudgedCall([refusal], args)
        passed = Verdict(tool.name, "allow", "argument", None, None, "passes every rule about its arguments", None)
        found.append(rules.judge(values) or passed)
        says = rules.list_says(values)
    for url in read_declared(tool, "url", args):
        found += await _judge_host(tool.name, url, way_out.explain)
    if tool.source.startswith("mcp:"):
        found += await _judge_host(tool.name, tool.source, way_out.explain_server)
    listed = way_out.rules()
    if tool.urls or "network" not in tool.effects or (listed.allow is None and not listed.deny):
        return JudgedCall(found, args, says)
    if tool.group == "runtime" or tool.source.startswith("plugin:"):
        why = "each connection is judged as it is made"
        found.append(Verdict(tool.name, "allow", "hosts", "each connection", "tools.hosts", why, None))
    elif tool.name == "web_search":
        found += await _judge_host(tool.name, "search", way_out.explain_server)
    return JudgedCall(found, args, says)


async def _judge_host(tool: str, place: str, explain: Callable[[str], Awaitable[Any]]) -> list[Verdict]:
    try:
        await explain(place)
    except (OSError, ToolError) as error:
        if getattr(error, "code", "") != "denied":  # it has no address, or is none: that is no refusal
            return []
        reason = str(error)
        origin = "tools.hosts" if "tools.hosts" in reason else "web.ssrf.allowPrivate"
        return [Verdict(tool, "deny", "hosts", place, origin, reason, f"change {origin}, or ask for another address")]
    return [Verdict(tool, "allow", "hosts", None, None, "is let out to", None)]


# Why a tool is denied or asked about, and what would change it

# Settings that stand for lists which are not written in the file, and what they do to a tool.
_VALUE_MEANINGS = {
    "profile": "not in allow",
    "--profile": "not in allow",
    "enabled": "subagents are switched off",
    "maxDepth": "subagents go no deeper",
    "maxSpawnDepth": "subagents go no deeper",  # as an OpenClaw file calls it
    "workspaceAccess": "its files are out of reach",
    "mode": "nothing is handed over",
    "security": "no command runs",
    "default": "in a direct message a sender whom no rule names has no more",  # of decisions from before `guests`
    "guests": "whoever is not the owner has no more, unless a rule of the chat says what they may have",
}


def value_at_origin(layer: Layer) -> str | None:
    """Return the value that stands at the layer's origin where that is no list: the profile's name, the depth."""
    return layer.note.partition(",")[0] or None if _leaf(layer) in _VALUE_MEANINGS else None


def reason_for(layer: Layer, decision: Decision, rule: str | None) -> str:
    """Return one clause that names the entry that decided and the place it stands in."""
    if decision == "ask":
        return f"a human is asked for {rule} ({layer.origin})"
    value = value_at_origin(layer)
    if value is not None:
        note = layer.note.removeprefix(value)
        return f"{_VALUE_MEANINGS[_leaf(layer)]} ({layer.origin}={value}{note})"
    place = ", ".join((layer.origin, *filter(None, layer.note.split(", "))))
    if rule is not None:
        return f"deny has {rule!r} ({place})"
    if layer.rule.allow == () and not layer.rule.when:
        return f"allow is empty and permits nothing ({place})"
    return f"not in allow ({place})"


def remedy_for(tool: Tool, layer: Layer, decision: Decision, rule: str | None) -> str:
    """Return what a person would change to get the other answer."""
    if decision == "ask":
        return f"answer the question, or take {rule!r} out of {layer.origin}"
    if layer.origin.startswith("built-in"):
        return _built_in_remedy(rule, layer)
    leaf = _leaf(layer)
    if layer.origin.startswith("agent "):
        return f"add {tool.name!r} to the tools that {layer.origin} declares"
    if layer.name == "job":
        return "make the job anew" if layer.note else f"change the tools of {layer.origin}"
    if leaf == "--profile":
        return "choose a wider --profile, or leave it out"
    if layer.origin == "only":
        return f"add {tool.name!r} to `only`, or leave `only` out"
    if leaf == "profile":
        scope = layer.origin.removesuffix(".profile")
        return f"add {tool.name!r} to {scope}.alsoAllow or choose a wider {layer.origin}"
    if layer.name == "guests":
        chat = layer.note.rpartition(", ")[2]
        if "." not in chat:
            return "name a channel for the caller, and write what they may have in its rules"
        return f"write {tool.name!r} into the `allow` of the sender in {chat}.toolsBySender, or of all in {chat}.tools"
    if leaf in _VALUE_MEANINGS:
        return f"change {layer.origin}"
    allow, deny = ("include", "exclude") if leaf == "subagents" else ("allow", "deny")
    if rule is not None:
        return f"take {rule!r} out of {layer.origin}.{deny}"
    return f"add {tool.name!r} to {layer.origin}.{allow}"


def _leaf(layer: Layer) -> str:
    head, _, leaf = layer.origin.rpartition(".")
    return "" if head.endswith(".toolsBySender") else leaf  # a sender may be called like a setting


def _built_in_remedy(rule: str | None, layer: Layer) -> str:
    if layer.name == "sandbox":
        key = "deny" if rule is not None else "allow"
        return f"write your own tools.sandbox.tools.{key}, or leave the sandbox"
    if layer.origin == "built-in subagent depth":
        return "set tools.subagents.maxDepth"
    return "call it from the main agent; nothing else lifts it"


def own_words(tool: Tool, step: LayerStep) -> tuple[str, str]:
    """Return why the tool's own fields keep it from the caller, and what would lift that."""
    kind, _, which = (step.rule or "").partition(":")
    match step.layer, kind:
        case "owner", _:
            return "only the owner sees this tool", "list the sender in owners by id or E.164, or ask the owner"
        case "requires", "setting":
            return f"{which}.enabled is false", f"set {which}.enabled to true"
        case "requires", "caller":
            what = "failed to make it" if which else "does not bring it"
            return f"its plugin {what} for this caller", "ask as another caller, or change the plugin"
        case "requires", _:
            needs = {
                "channel": f"channels.{which}, with its token",
                "model": f"a model of the {which} family",
                "secret": f"the secret {which}",
            }
            need = needs.get(kind, step.rule)
            return f"this host lacks {need}", f"provide {need}"
    owner = tool.source.partition(":")[2]
    names = f"{tool.name!r} or {owner!r}" if owner else repr(tool.name)
    return "optional, and no allow list names it or its plugin", f"add {names} to an allow or alsoAllow list"
