"""Taint: what is asked about or denied once content from outside is in a conversation, by where it came from.

`tools.denyAfterOutside` and `tools.askAfterOutside`, everybody's and the agents' own; a subagent has its parents', too.
A denial goes before a question, and neither permits anything.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple

from toolcrib.define.caller import Caller
from toolcrib.define.taint import MAX_SOURCES, matches_source
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import LayerStep, Verdict
from toolcrib.lazy import dataclass, field, replace

from .match import Groups, Inventory, matcher_for
from .resolve import resolve
from .settings import OutsideEntries, PolicySettings, TaintEntry, ToolsSettings

_SOURCE_CHARS = 100  # characters of a source in a sentence


class TaintRule(NamedTuple):
    """One entry: what it decides, about which tools, after which sources, and where it stands."""

    decision: Literal["ask", "deny"]
    rule: str
    origin: str
    taint: str = "*"

    def explain(self, source: str) -> str:
        """Return why a call is asked about or denied."""
        return f"content from outside is in this conversation ({source[:_SOURCE_CHARS]}; {self.origin})"


@dataclass(frozen=True, slots=True)
class TaintRules:
    """The rules that count for a caller, by tool; `agents` are those whose own are among them."""

    tools: Mapping[str, tuple[TaintRule, ...]] = field(default_factory=dict)
    agents: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tools)

    def judge(self, tool: str, sources: Collection[str]) -> tuple[TaintRule, str] | None:
        """Return the rule that decides about a tool after these sources, and the source that it means."""
        found = ((rule, source) for rule in self.tools.get(tool, ()) for source in sources)
        return next((each for each in found if matches_source(each[0].taint, each[1])), None)

    def apply(self, verdict: Verdict, sources: Collection[str]) -> Verdict:
        """Return the verdict as it is after these sources."""
        found = self.judge(verdict.tool, sources)
        if found is None or verdict.decision in ("deny", found[0].decision):
            return verdict
        rule, source = found
        remedy = f"begin a new conversation, or take {rule.rule!r} out of {rule.origin.rpartition('[')[0]}"
        changed = replace(verdict, decision=rule.decision, layer="taint", rule=rule.rule, origin=rule.origin)
        return replace(changed, reason=rule.explain(source), remedy=remedy)

    def step(self, tool: str, sources: Collection[str]) -> tuple[LayerStep, ...]:
        """Return what the layer says about a tool, nothing where it is silent."""
        found = self.judge(tool, sources)
        return (LayerStep("taint", found[0].origin, found[0].decision, found[0].rule),) if found else ()

    def to_json(self, tool: str, sources: Iterable[str]) -> dict[str, Any]:
        """Return what `explain` adds of a tool: the rules about it, and where content of the conversation is from."""
        fields: dict[str, Any] = {"afterOutside": [rule._asdict() for rule in self.tools.get(tool, ())]}
        fields["taint"] = list(islice(sources, MAX_SOURCES))
        return {name: value for name, value in fields.items() if value}


def taint_rules(
    settings: PolicySettings, agents: Iterable[str], tools: Mapping[str, Tool], groups: Groups
) -> TaintRules:
    """Return what counts for an agent and its parents, about these tools."""
    names = tuple(dict.fromkeys(agents))
    found: dict[str, tuple[TaintRule, ...]] = {}
    for rule in list_taint_rules(settings, names):
        for name in matcher_for((rule.rule,), Inventory(tools, groups)).select(frozenset(tools)):
            found[name] = (*found.get(name, ()), rule)
    return TaintRules(found, names)


def taint_rules_for(settings: PolicySettings, caller: Caller, tools: Mapping[str, Tool], groups: Groups) -> TaintRules:
    """Return what counts for a caller: everybody's rules, its agent's, and those of the agents above it."""
    if not any(_has_rules(each) for each in (settings.tools, *(agent.tools for agent in settings.agents.values()))):
        return TaintRules()
    who = resolve(settings, caller)
    return taint_rules(settings, (each.agent for each in (who, *who.ceiling)), tools, groups)


def _has_rules(tools: ToolsSettings) -> bool:
    return bool(tools.ask_after_outside or tools.deny_after_outside)


def list_taint_rules(settings: PolicySettings, agents: Iterable[str]) -> Iterator[TaintRule]:
    """Yield everybody's rules and those of these agents, the denials first."""
    own = [settings.agents[agent] for agent in agents if agent in settings.agents]
    scopes = {"tools": settings.tools, **{f"{agent.origin}.tools": agent.tools for agent in own}}
    for scope, tools in scopes.items():
        yield from _read("deny", f"{scope}.denyAfterOutside", tools.deny_after_outside)
    for scope, tools in scopes.items():
        yield from _read("ask", f"{scope}.askAfterOutside", tools.ask_after_outside)


def _read(decision: Literal["ask", "deny"], origin: str, entries: OutsideEntries) -> Iterator[TaintRule]:
    for index, entry in enumerate(entries):
        rule, taint = (entry.tool, entry.taint) if isinstance(entry, TaintEntry) else (entry, "*")
        yield TaintRule(decision, rule, f"{origin}[{index}]", taint)
