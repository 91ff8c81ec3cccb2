"""The registered agents, as an operator sees them: what each takes and gives, its tools, its limits and its prompt."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from toolcrib.define.agent import inputs_shape, output_schema
from toolcrib.define.errors import ToolError
from toolcrib.define.names import suggest
from toolcrib.define.ports import rpc

from .feature import Core, Feature, RegisteredAgent


def mount(core: Core) -> Feature:
    """Mount the look at registered agents."""
    return Feature(services=(AgentMethods(core.agents, core.agent_problems),))


class AgentMethods:
    """All agents that may be used, and a sentence about each that was left out."""

    def __init__(self, agents: Mapping[str, RegisteredAgent], problems: Sequence[str] = ()) -> None:
        self._agents, self._problems = agents, problems

    @rpc("agents.registered", clients="admin")
    async def registered(self) -> dict[str, Any]:
        """List every agent that may be used, and say what was left out and why."""
        return {"agents": [_summarize(each) for each in self._agents.values()], "problems": list(self._problems)}

    @rpc("agents.show", clients="admin")
    async def show(self, name: Annotated[str, "the name of an agent"]) -> dict[str, Any]:
        """Return one agent with its prompt and what it gives."""
        found = self._agents.get(name)
        if found is None:
            hint = suggest(name, self._agents, "`toolcrib agents list` shows what there is")
            raise ToolError(f"there is no agent {name[:64]!r}{hint}", code="not_found")
        agent = found.agent
        output = None if agent.output is None else output_schema(agent.output, name)
        return {
            **_summarize(found),
            "prompt": agent.prompt,
            "query": agent.query,
            "output": output,
            "outputName": agent.output_name,
        }


def _summarize(each: RegisteredAgent) -> dict[str, Any]:
    agent = each.agent
    return {
        "name": agent.name,
        "label": agent.label or agent.name,
        "description": agent.description,
        "source": each.source,
        "file": each.file or None,
        "tools": None if agent.tools is None else list(agent.tools),
        "model": agent.model or "inherit",
        "maxTurns": agent.max_turns,
        "timeoutSec": agent.timeout,
        "maxTokens": agent.max_tokens,
        "inputs": inputs_shape(agent).schema,
    }
