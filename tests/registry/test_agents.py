"""Which agents exist: the first of a name stays, and one that cannot work is left out without taking others along."""

from typing import Any

import pytest

from toolcrib.define.agent import Agent
from toolcrib.registry.agents import AgentOffer, Agents, KnownNames, collect_agents
from toolcrib.registry.sources import Offer, collect_catalog
from toolcrib.tools import AGENTS, SHELF

KNOWN = KnownNames(collect_catalog([Offer(source="core", tools=SHELF)]), servers=("GitHub",))


def offer(name: str, tools: Any = (), *, source: str = "user") -> AgentOffer:
    agent = Agent(name=name, description="D.", prompt="P.", inputs={}, tools=tools)
    lines: dict[tuple[str | int, ...], int] = {("name",): 2, ("tools",): 3}
    lines |= {("tools", at): 4 + at for at in range(len(tools or ()))}
    file = "" if source.partition(":")[0] in ("core", "plugin") else f"{name}.md"
    return AgentOffer(agent=agent, source=source, file=file, lines=lines)


def told(agents: Agents) -> list[str]:
    return [problem.sentence for problem in agents.problems]


def test_the_shelf_s_own_agents_can_work() -> None:
    found = collect_agents([AgentOffer(agent=agent, source="core") for agent in AGENTS], KNOWN)
    assert ([agent.name for agent in found], told(found)) == (["codebase_investigator", "generalist"], [])


@pytest.mark.parametrize(
    "entry",
    ["read", "Read", "bash", "*", "mem*", "group:fs", "group:agents", "effect:read", "other", "github__create_issue"],
)
def test_an_entry_may_be_a_tool_a_group_a_glob_an_effect_an_agent_or_a_tool_of_a_server(entry: str) -> None:
    found = collect_agents([offer("a", (entry,)), offer("other")], KNOWN)
    assert told(found) == []
    assert sorted(found.offers) == ["a", "other"]


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("gerp", "there is no tool 'gerp'; did you mean 'grep'?"),
        ("teleport", "there is no tool 'teleport'; `toolcrib tools list` shows what there is"),
        ("group:fss", "there is no group 'group:fss'; did you mean 'group:fs'?"),
        ("effect:fly", "no effect is called 'fly'; there are execute, network, read, send, write"),
        ("re[ad]*", "'re[ad]*' can match no tool; * is the only wildcard"),
        ("gitlab__x", "there is no tool 'gitlab__x'; `toolcrib tools list` shows what there is"),
    ],
)
def test_a_tool_that_nobody_has_is_told_at_its_line_and_the_others_stay(entry: str, complaint: str) -> None:
    found = collect_agents([offer("a", ("read", entry)), offer("b", ("a",))], KNOWN)
    assert told(found) == [f"a.md:5: {complaint} (the agent was left out)"]
    assert list(found.offers) == ["b"]


def test_while_plugins_are_not_loaded_nobody_knows_whether_a_tool_is_missing() -> None:
    found = collect_agents([offer("a", ("plugin_agent",))], KnownNames(KNOWN.catalog, is_whole=False))
    assert (list(found.offers), told(found)) == (["a"], [])


def test_a_circle_leaves_out_those_in_it_each_at_its_line_and_nobody_else() -> None:
    offers = [
        offer("a", ("read", "b")),
        offer("b", ("c",)),
        offer("c", ("A", "grep")),
        offer("self", ("self",)),
        offer("outside", ("a",)),
        offer("wide", ("*", "group:agents")),
    ]
    found = collect_agents(offers, KNOWN)
    assert sorted(found.offers) == ["outside", "wide"]
    assert told(found) == [
        "a.md:5: a → b → c → a: it leads back to itself (the agent was left out)",
        "b.md:4: b → c → a → b: it leads back to itself (the agent was left out)",
        "c.md:4: c → a → b → c: it leads back to itself (the agent was left out)",
        "self.md:4: self → self: it leads back to itself (the agent was left out)",
    ]


def test_a_long_chain_is_no_circle() -> None:
    chain = [offer(f"a{at}", (f"a{at + 1}",)) for at in range(200)]
    assert len(collect_agents([*chain, offer("a200")], KNOWN)) == 201


def test_the_first_of_a_name_stays_whatever_the_order_of_the_offers() -> None:
    sources = ["workspace", "user", "plugin:x", "core"]
    found = collect_agents([offer("a", source=source) for source in sources], KNOWN)
    assert found.offers["a"].source == "core"
    assert told(found) == [
        "agent a (plugin:x): core has an agent 'a'; this one was left out, rename it",
        "a.md:2: core has an agent 'a'; this one was left out, rename it",
        "a.md:2: core has an agent 'a'; this one was left out, rename it",
    ]


@pytest.mark.parametrize("name", ["read", "complete_task"])
def test_an_agent_is_never_taken_for_a_tool(name: str) -> None:
    found = collect_agents([offer(name)], KNOWN)
    assert (len(found), told(found)) == (
        0,
        [f"{name}.md:2: there is a tool {name!r}; the agent was left out, give it another name"],
    )
