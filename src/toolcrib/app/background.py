"""Subagents in the background, joined to the sessions and turns of a crib.

Two kinds of run: a turn of an agent of the configuration, whose last words are its outcome; and a run of a registered
agent, which goes by the same executor as one that is waited for: typed inputs, `complete_task`, one last reply.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from time import time
from typing import Any

from toolcrib.agent.turn import Turns
from toolcrib.config.settings import SettingsSource
from toolcrib.define import session
from toolcrib.define.agent import WORKING, Agent, inputs_from, inputs_shape, prompts_of
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.log import Line, Noted, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.model import Model
from toolcrib.define.result import Text
from toolcrib.define.taint import join_sources, source_after, sources_of
from toolcrib.define.turn import AgentTask, TurnRequest
from toolcrib.policy.explain import explain_sentence
from toolcrib.policy.resolve import agent_of, child_of
from toolcrib.services.subagents.runs import AUTHOR, AgentListing, SpawnRequest

from .belt import BeltSource
from .methods import turn_of
from .models import Models
from .subagents import SubagentRunner
from .turns import Running, TurnStarter, limits_of

_TASK = (
    "You work on this alone and in the background; nobody answers questions on the way. Your last words are handed to "
    "whoever asked for it.\n\n"
)


class SubagentStarter:
    """The `SubagentHost` of a crib: starts the turns of subagents, within what whoever starts them has."""

    def __init__(  # noqa: PLR0913  the crib's own parts, each by name
        self,
        settings: SettingsSource,
        registered: Iterable[Agent],
        models: Models,
        *,
        belts: BeltSource,
        runner: SubagentRunner,
        starter: TurnStarter,
        turns: Turns,
    ) -> None:
        self._settings, self._store = settings, turns.store
        self._belts, self._runner, self._starter = belts, runner, starter
        self._registered = {session.to_agent(agent.name): agent for agent in registered}
        self.choose_model, self.tell, self.add = models.choose, turns.tell, turns.add

    @property
    def agents(self) -> dict[str, AgentListing]:
        """The agents of the configuration, by id."""
        return {
            session.to_agent(id): AgentListing(each.name or "", each.subagents.allow_agents)
            for id, each in self._settings.config.list_agents()
        }

    def is_tool(self, agent: str, /) -> bool:
        """Tell whether there is such an agent among the tools."""
        return agent in self._registered

    def agent_tools(self, caller: Caller, /) -> dict[str, str]:
        """Return the agents among the caller's tools, and what they are for."""
        tools = self._belts.belt(caller).tools
        return {id: agent.description for id, agent in self._registered.items() if agent.name in tools}

    def message(self, caller: Caller, text: str, /) -> Message:
        """Return the caller's words: they may go back to what it has read, and stay marked as such."""
        above = turn_of(caller)
        source = source_after(caller.session or agent_of(caller), above.history.outside) if above else None
        return Message(role="user", content=(Text(text, source),))

    async def start(self, caller: Caller, request: SpawnRequest, /) -> Running:
        """Start a turn for a child of the caller: asked about by the same human, with the same tools of a program."""
        agent = self._registered.get(request.agent)
        task = None if agent is None else await self._task(agent, caller, request)
        child = child_of(self._settings.policy, caller, request.agent, request.key)
        now, title = time(), request.label or request.text[:80]
        source = join_sources(sources_of([self.message(caller, title)]))
        head = SessionHead(
            key=request.key, made_at=now, changed_at=now, parents=child.parents, title=title, source=source
        )
        known = await self._store.make(head)
        await self.add(request.key, Noted(AUTHOR, asdict(caller)))
        above = turn_of(caller)
        # of the belt's tools, those that were handed to it alone go to the child
        tools, catalog = above.setup.belt.tools.values() if above else (), self._belts.catalog
        if task is None:
            limits, model = limits_of(self._settings.config, request.agent), self._inherit_model(request.agent, caller)
            first = f"{_TASK}{request.text}"
        else:
            limits, model = self._runner.limits_of(task.agent), self._runner.model_of(task.agent, caller, above)
            first = prompts_of(task.agent, task.inputs).query
        if request.seconds:
            limits = replace(limits, seconds=min(request.seconds, limits.seconds or request.seconds))
        return self._starter.start(
            TurnRequest(
                message=self.message(caller, request.text if known.count else first),
                session=request.key,
                caller=child,
                model=request.model or model,
                extra=tuple(tool for tool in tools if tool.source.startswith("client:") and tool.name not in catalog),
                approver=above.setup.pipeline.approver if above else None,
                limits=limits,
                effort=request.effort,
                task=task,
            )
        )

    def _inherit_model(self, agent: str, caller: Caller) -> Model | None:
        """Return the parent's model where a child has it: when it is the same agent, or none that names one."""
        above, own = turn_of(caller), self._settings.config.agent(agent)
        is_same = agent == agent_of(caller) or own is None or own.model is None
        return above.setup.model if above and is_same else None

    async def _task(self, agent: Agent, caller: Caller, request: SpawnRequest) -> AgentTask:
        """Return what a registered agent works on: what it is asked, or what its log says that it was asked."""
        held = self._belts.belt(caller)
        if agent.name not in held.tools:
            verdict = held.verdicts.get(agent.name)
            why = explain_sentence(verdict) if verdict else f"there is no tool {agent.name}"
            raise ToolError(why, code="denied")
        kept = _find_inputs(await self._store.lines(request.key)) if await self._store.find(request.key) else None
        # an agent may have changed since: what it was asked has to fit it as it is now
        inputs = inputs_from(agent, request.text) if kept is None else inputs_shape(agent).check(kept)
        return AgentTask(agent, inputs)


def _find_inputs(lines: Iterable[Line]) -> Mapping[str, Any] | None:
    """Return what a run was asked, by its log; None when that does not say."""
    noted = [line.body.data for line in lines if isinstance(line.body, Noted) and line.body.name == WORKING]
    inputs = noted[-1].get("inputs") if noted and isinstance(noted[-1], Mapping) else None
    return inputs if isinstance(inputs, Mapping) else None
