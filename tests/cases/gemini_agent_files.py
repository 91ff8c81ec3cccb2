"""gemini-agent-files on backends/agent_files.py, with the tools of our shelf to choose from."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from toolcrib.backends.agent_files import Header, read_agent_text
from toolcrib.config.parse import parse_yaml
from toolcrib.define.agent import Agent, inputs_shape
from toolcrib.registry.agents import AgentOffer, KnownNames, collect_agents
from toolcrib.registry.sources import Offer, collect_catalog
from toolcrib.tools import SHELF

from .load import Case
from .outcome import Refused, SaidError, Same, Theirs, compare

Json = dict[str, Any]


@cache
def _shelf() -> KnownNames:
    return KnownNames(collect_catalog([Offer(source="core", tools=SHELF)]))


def _read(args: Json) -> Json:
    """Read a file as a folder of agents is read: text, then tools."""
    header = Header("agent.md")
    agent = read_agent_text(args["text"], header, parse_yaml)
    if agent is None:
        raise SaidError("; ".join(header.complaints))
    offer = AgentOffer(agent=agent, source="user", file="agent.md", lines=header.lines)
    found = collect_agents([offer], _shelf())
    if found.problems:
        raise SaidError(found.problems[0].sentence)
    return {"ok": True, "definitions": [_definition(agent)]}


def _definition(agent: Agent) -> Json:
    """Return an agent in their words, as far as both have them."""
    said: Json = {
        "name": agent.name,
        "description": agent.description,
        "systemPrompt": agent.prompt,
        "query": agent.query,
        "model": agent.model or "inherit",
        "maxTurns": agent.max_turns,
        "maxTimeMinutes": agent.timeout / 60,
        "inputs": inputs_shape(agent).schema["properties"],
    }
    if agent.label:
        said["displayName"] = agent.label
    if agent.tools is not None:
        said["tools"] = list(agent.tools)
    return said


def _same(case: Case, ours: Any) -> str:
    """Compare what both say about an agent; what is wrong with a file each says in its own words."""
    if not case.expected["ok"]:
        return "" if isinstance(ours, Refused) else "recorded is an error, ours is not"
    return compare(case, ours, _theirs)


def _theirs(case: Case) -> Json:
    """Return what both have words for.

    They have a temperature besides. Their one input is optional, and a call without it fails before the first turn;
    ours is asked for.
    """
    return {"ok": True, "definitions": [_in_common(each) for each in case.expected.get("definitions", ())]}


def _in_common(recorded: Mapping[str, Any]) -> Json:
    if recorded["kind"] == "remote":
        return {**recorded}
    return {
        **{key: recorded[key] for key in ("name", "description", "displayName") if key in recorded},
        **recorded.get("promptConfig", {}),
        "model": recorded.get("modelConfig", {}).get("model"),
        **recorded.get("runConfig", {}),
        **recorded.get("toolConfig", {}),
        "inputs": recorded["inputConfig"]["inputSchema"]["properties"],
    }


ADAPTERS: dict[str, Callable[[Json], Any]] = {"gemini.parseAgentMarkdown+markdownToAgentDefinition": _read}
SAME: dict[str, Same] = {"gemini.parseAgentMarkdown+markdownToAgentDefinition": _same}
THEIRS: dict[str, Theirs] = {"gemini.parseAgentMarkdown+markdownToAgentDefinition": _theirs}
