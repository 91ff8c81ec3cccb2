"""The policy package on its own, with your own tools and layers: python examples/02_policy_alone.py

For a program that has tools and a configuration already and only wants to know who may use which, and why. Nothing
here reads a file, knows a model or runs a tool: settings and a caller go in, verdicts come out.
"""

from toolcrib import Caller, Sender, Tool
from toolcrib.policy import (
    AgentPolicy,
    Facts,
    Layer,
    PolicySettings,
    Rule,
    ToolsSettings,
    explain_rows,
    explain_sentence,
    gate,
    is_owner,
    layers_for,
)

# your tools: a name, a description, and what they do to the world
TOOLS = {
    tool.name: tool
    for tool in (
        Tool.declared("search", "Search the shop.", group="shop", effects={"read"}),
        Tool.declared("order", "Place an order.", group="shop", effects={"write"}),
        Tool.declared("refund", "Give money back.", group="money", effects={"write", "send"}),
        Tool.declared("shell", "Run a command.", owner_only=True),  # says no effects, so it counts as having all
    )
}
GROUPS = {"group:shop": frozenset({"search", "order"}), "group:money": frozenset({"refund"})}


def show(title: str, layers: tuple[Layer, ...], facts: Facts) -> None:
    selection = gate(TOOLS, GROUPS, layers, facts)
    print(f"{title}: {', '.join(selection.tools) or 'nothing'}")
    for tool, verdict, layer, because in explain_rows(selection.verdicts.values()):
        print(f"  {tool:7} {verdict:6} {layer:16} {because}")


# 1. layers by hand: each is an AND, deny comes first, and `origin` is what a verdict will point at
by_hand = (
    Layer("global", "house-rules.toml", Rule(deny=("refund",))),
    Layer("agent", "agents/clerk.toml", Rule(allow=("group:shop", "group:money"))),
    Layer("ask", "house-rules.toml", Rule(ask=("effect:write",))),
)
show("a clerk", by_hand, Facts(owner=False))

# 2. layers from settings and a caller: profiles, providers, agents, groups, senders, sandbox and subagents
settings = PolicySettings(
    tools=ToolsSettings.model_validate({"deny": ["group:money"], "byProvider": {"tiny": {"allow": ["effect:read"]}}}),
    agents={"clerk": AgentPolicy(origin="agents.clerk", tools=ToolsSettings.model_validate({"allow": ["group:shop"]}))},
    owners=("telegram:id:1",),
    guests="full",  # toolcrib bounds whoever is not the owner; all of these tools are ours, and meant for its callers
)
clerk = Caller(agent="clerk", provider="tiny", channel="irc", group="#shop", sender=Sender(id="7"))
facts = Facts(owner=is_owner(settings, clerk))
show("a clerk with a tiny model", layers_for(settings, clerk), facts)

# 3. one verdict as one sentence, and what every layer said
selection = gate(TOOLS, GROUPS, layers_for(settings, clerk), facts)
print(explain_sentence(selection.verdicts["refund"]))
for step in selection.steps("refund"):
    if step.rule or step.decision != "allow":
        print(f"  {step.layer}: {step.decision} by {step.rule!r} in {step.origin}")
