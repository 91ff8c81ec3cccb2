"""Every place in the settings where a rule can stand, with its path: what lint walks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from toolcrib.define.mcp_names import beginning_of
from toolcrib.define.verdict import Rule

from .settings import ListSettings, PolicySettings, ToolsSettings

__all__ = ["Scope", "scopes_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A rule and its path. `about` tells rules for everybody from those of one sandbox, subagent or source.

    `within` is what the names of the tools begin with that the rule calls as their MCP server does.
    """

    origin: str
    rule: Rule
    about: Literal["everything", "sandbox", "subagent", "source"] = "everything"
    additive: bool = False
    within: str = ""

    def lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each list by the key it is written under."""
        names = ("include", "exclude") if self.origin.endswith(".subagents") else ("allow", "deny")
        yield names[0], self.rule.allow or ()
        yield names[1], self.rule.deny
        yield "alsoAllow", self.rule.also
        yield "ask", self.rule.ask


def scopes_of(settings: PolicySettings) -> Iterator[Scope]:
    """Yield every rule that is written down."""
    yield from _tools("tools", settings.tools)
    for agent in settings.agents.values():
        yield from _tools(f"{agent.origin}.tools", agent.tools)
    for channel in settings.channels.values():
        for groups in (channel.groups, *channel.accounts.values()):
            for group in groups.values():
                if group.tools is not None:
                    yield Scope(origin=f"{group.origin}.tools", rule=group.tools.rule())
                for sender, lists in group.by_sender.items():
                    yield Scope(origin=f"{group.origin}.toolsBySender.{sender}", rule=lists.rule())
    for source, (origin, narrowed) in settings.sources.items():
        yield Scope(origin=origin, rule=narrowed.rule(), about="source", within=beginning_of(source))


def _tools(origin: str, tools: ToolsSettings) -> Iterator[Scope]:
    yield Scope(origin=origin, rule=tools.rule(), additive=True)
    for key, entry in tools.by_provider.items():
        yield Scope(origin=f"{origin}.byProvider.{key}", rule=entry.rule(), additive=True)
    yield from _nested(f"{origin}.sandbox.tools", tools.sandbox.tools, "sandbox")
    yield from _nested(f"{origin}.subagents.tools", tools.subagents.tools, "subagent")
    handed = Rule(allow=tools.subagents.include, deny=tools.subagents.exclude)
    if handed.allow is not None or handed.deny:
        yield Scope(origin=f"{origin}.subagents", rule=handed, about="subagent")


def _nested(origin: str, lists: ListSettings, about: Literal["sandbox", "subagent"]) -> Iterator[Scope]:
    if lists.model_fields_set:
        yield Scope(origin=origin, rule=lists.rule(), about=about)
