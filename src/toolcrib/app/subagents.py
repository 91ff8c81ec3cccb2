"""Subagents of a crib: which agents become tools, and what runs them for whoever calls one."""

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from secrets import token_hex
from time import time
from typing import Any

from toolcrib.agent.belt import Belts
from toolcrib.agent.loop import Loop, TurnSetup
from toolcrib.agent.notes import gather_found
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.prompt import subagent_prompt
from toolcrib.agent.session_log import Journal
from toolcrib.agent.subagent import RunListeners, agent_tool, plain_inputs, run_agent
from toolcrib.agent.subagent_report import result_of
from toolcrib.agent.turn import title_of
from toolcrib.config.settings import LimitSettings, SettingsSource
from toolcrib.define.agent import Agent, make_called_key, prompts_of
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx, Ports
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.log import SessionHead, SessionStore
from toolcrib.define.model import Model
from toolcrib.define.names import fold_name
from toolcrib.define.result import Result
from toolcrib.define.taint import join_sources
from toolcrib.define.tool import Tool
from toolcrib.define.turn import Limits
from toolcrib.lazy import dataclass, replace
from toolcrib.policy.reach import reaches_as_much
from toolcrib.policy.resolve import agent_of, child_of, max_subagents
from toolcrib.policy.settings import SubagentSettings
from toolcrib.policy.taint import taint_rules_for
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.services.router import RunMethod
from toolcrib.services.subagents.runs import SubagentSlots
from toolcrib.services.subagents.service import root_of

from .methods import call_instead, make_call, turn_of
from .models import Models

_EVERY_AGENT = "group:agents"


def with_agents(catalog: Catalog, agents: Iterable[Agent], settings: SubagentSettings) -> Catalog:
    """Return the catalog with every permitted agent as a tool; one that cannot be is a problem, and the others stay."""
    tools, problems = dict(catalog.tools), list(catalog.problems)
    for agent in _select_permitted(tuple(agents), settings) if settings.enabled else ():
        try:
            tool = agent_tool(agent)
        except CribError as error:
            problems.append(Problem("agents", f"agent {agent.name} cannot be a tool ({error}); it was left out"))
            continue
        if tools.setdefault(tool.name, tool) is not tool:
            taken = tools[tool.name].source
            problems.append(Problem("agents", f"there is a tool {tool.name!r} from {taken}; the agent was left out"))
    return Catalog(tools, tuple(problems))


def _select_permitted(agents: tuple[Agent, ...], settings: SubagentSettings) -> list[Agent]:
    """Return the agents that `include` and `exclude` leave; an `include` that names no agent is about tools alone."""
    included = [agent for agent in agents if any(_is_named(entry, agent) for entry in settings.include or ())]
    return [agent for agent in (included or agents) if not any(_is_named(entry, agent) for entry in settings.exclude)]


def _is_named(entry: str, agent: Agent) -> bool:
    folded = fold_name(entry)
    return folded == _EVERY_AGENT or fnmatchcase(agent.name, folded)


@dataclass(frozen=True, slots=True)
class Within:
    """What a caller has, and its subagents never leave: the belts, the program's own tools, the pipeline."""

    belts: Belts
    extra: tuple[Tool, ...]
    pipeline: CallPipeline


class SubagentRunner:
    """Runs agents for callers of one crib; `store` keeps the log of every run, None keeps none."""

    def __init__(
        self,
        settings: SettingsSource,
        models: Models,
        ports_of: Callable[..., Ports],
        slots: SubagentSlots,
        store: SessionStore | None = None,
    ) -> None:
        self._settings, self._models, self._ports_of = settings, models, ports_of
        self._slots, self._store = slots, store

    def ports(self, caller: Caller, within: Within) -> Ports:
        """Return the caller's ports, with the one that runs agents for it."""

        async def perform(agent: Agent, ctx: Ctx, args: Mapping[str, Any]) -> Result:
            with self._slots.hold(root_of(ctx.caller), max_subagents(self._settings.policy, ctx.caller)):
                await self._slots.stagger()
                return await self._run(agent, ctx, args, within)

        async def judge(ctx: Ctx, call: tuple[str, Mapping[str, Any]], run: RunMethod) -> Any:
            above, belt = turn_of(ctx.caller), within.belts.belt_for(ctx.caller, within.extra)
            name, args = call
            is_judged = ctx.call.name == name and ctx.course.started and not ctx.course.stopped
            if is_judged and ((tool := belt.tools.get(name)) is None or reaches_as_much(tool, ctx.call.args, args)):
                return await run()
            pipeline = within.pipeline if above is None else above.aside
            return await call_instead(belt, ctx._replace(call=make_call(*call)), pipeline, run)

        settings = within.belts.settings
        is_bound = settings.narrowed is not None or settings.only is not None or bool(settings.bounds)
        return replace(self._ports_of(caller, is_bound=is_bound, judge=judge), perform=perform)

    async def _run(self, agent: Agent, ctx: Ctx, args: Mapping[str, Any], within: Within) -> Result:
        above = turn_of(ctx.caller)
        prompts = prompts_of(agent, args)
        setup = self._setup(agent, ctx.caller, within, above)
        place = describe_place(setup.ports)
        system = subagent_prompt(
            prompts.system, setup.belt.tools, agent=agent.name, date=today(), place=place, found=gather_found(above)
        )
        setup = replace(setup, system=system)
        listeners = RunListeners(
            tell=ctx.progress, journal=await self._journal(setup, prompts.query, above), inputs=plain_inputs(args)
        )
        return result_of(agent, await run_agent(agent, setup, prompts.query, listeners))

    async def _journal(self, setup: TurnSetup, query: str, above: Loop | None) -> Journal | None:
        """Return the log of a run, in a session of its own under its parent's."""
        if self._store is None:
            return None
        now, key = time(), setup.caller.session or ""
        parents, title = setup.caller.parents, title_of(query)
        source = join_sources(above.history.outside) if above else ""
        head = SessionHead(key=key, made_at=now, changed_at=now, parents=parents, title=title, source=source)
        await self._store.make(head)
        return Journal(setup.pipeline.record, self._store, key)

    def _setup(self, agent: Agent, parent: Caller, within: Within, above: Loop | None) -> TurnSetup:
        """Return who works: its own model, belt and limits, within what its parent has."""
        model = self.model_of(agent, parent, above)
        child = child_of(self._settings.policy, parent, agent.name, make_called_key(agent.name, token_hex(8)))
        child = replace(child, provider=model.card.provider, model=model.card.model)
        belt, catalog = within.belts.belt_for(child, within.extra), within.belts.catalog_with(within.extra)
        return TurnSetup(
            model=model,
            belt=belt,
            caller=child,
            pipeline=within.pipeline
            if above is None
            else replace(within.pipeline, approver=above.aside.approver, people=above.aside.people, later=above.later),
            ports=self.ports(child, within),
            limits=self.limits_of(agent),
            effort=above.setup.effort if above else "",
            after_outside=taint_rules_for(self._settings.policy, child, catalog.tools, catalog.groups),
        )

    def limits_of(self, agent: Agent) -> Limits:
        """Return the limits of a run: the agent's, and those of the configuration where they are lower."""
        own = self._settings.config.agent(agent.name)
        limits = own.limits if own else LimitSettings()

        def least(*found: Any) -> Any:
            return min((each for each in found if each is not None), default=None)

        return Limits(
            turns=least(agent.max_turns, limits.turns),
            seconds=least(agent.timeout, limits.seconds),
            tokens=least(agent.max_tokens, limits.tokens),
            cost=limits.cost,
        )

    def model_of(self, agent: Agent, parent: Caller, above: Loop | None) -> Model:
        """Return the model that the configuration or the agent names, else its parent's."""
        own = self._settings.config.agent(agent.name)
        named = (own.model if own else None) or agent.model
        if named is None and above is not None:
            return above.setup.model
        try:
            return self._models.get(named or self._models.name_for(agent_of(parent)))
        except CribError as error:
            raise ToolError(f"{agent.name} has no model that could answer: {error}", code="unavailable") from error


def describe_place(ports: Ports) -> str:
    """Return the folder that tools work in and the platform, as a prompt names them."""
    name = ports.folder.rpartition("/")[2] or ports.folder  # a small model takes a whole path apart
    return f"{escape_unprintable(name)}, on {os.uname().sysname}" if ports.folder else ""


def today() -> str:
    """Return the date where we are."""
    return datetime.now().astimezone().date().isoformat()
