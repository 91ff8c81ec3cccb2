"""Subagents in the background, joined to the sessions and turns of a crib.

Two kinds of run: a turn of an agent of the configuration, whose last words are its outcome; and a run of a registered
agent, which goes by the same executor as one that is waited for: typed inputs, `complete_task`, one last reply.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import time
from typing import Any

from toolcrib.adapter.fence import fence, new_token
from toolcrib.agent.journal import Journal
from toolcrib.agent.limits import Limits
from toolcrib.agent.loop import Setup
from toolcrib.agent.outcome import ending_of, words_of
from toolcrib.agent.outside import sources_of
from toolcrib.agent.subagent import Told, worked
from toolcrib.agent.turn import Turns, Work
from toolcrib.config.load import Loaded
from toolcrib.define import session
from toolcrib.define.agent import Agent
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Event, TurnFinished
from toolcrib.define.history import History
from toolcrib.define.log import Line, Noted, Said, SessionHead, SessionStore
from toolcrib.define.mandate import WORKING, inputs_from, inputs_shape, prompts_of
from toolcrib.define.message import Message
from toolcrib.define.model import Model
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool
from toolcrib.policy.explain import explain_sentence
from toolcrib.policy.resolve import agent_of, child_of, is_owner, max_subagents
from toolcrib.policy.settings import PolicySettings
from toolcrib.services.subagents import Errand, Places, Spawned, Subagents, Ways

from .belt import Belt
from .models import Models
from .subagents import Agency, plain_inputs, root_of, system_of, turn_of
from .turns import Running, Wanted, limits_of

__all__ = ["Background"]

_LONGEST = 8_000  # characters of an outcome
_TASK = (
    "You work on this alone and in the background; nobody answers questions on the way. Your last words are handed to "
    "whoever asked for it.\n\n"
)

StartTurn = Callable[[Message, Wanted], Running]


class Background:
    """The ways of the service `Subagents`. What needs the service's own router is joined later."""

    def __init__(
        self, loaded: Loaded, store: SessionStore, turns: Turns, models: Models, registered: Iterable[Agent]
    ) -> None:
        self._loaded, self._store, self._turns = loaded, store, turns
        self._registered = {session.to_agent(agent.name): agent for agent in registered}
        self.places = Places()
        self._policy: PolicySettings = loaded.policy
        self._joined: _Joined | None = None
        self.service = Subagents(
            store,
            Ways(
                start=self._start,
                words=_words,
                announce=self._announce,
                note=turns.add,
                agents={session.to_agent(id): each.name or "" for id, each in loaded.config.listed_agents()},
                allowed=self._allowed,
                tools=self._tools,
                is_tool=self._registered.__contains__,
                model=models.named,
                most=lambda caller: max_subagents(self._policy, caller),
                root=root_of,
                is_owner=lambda caller: is_owner(self._policy, caller),
                is_enabled=self._is_enabled,
            ),
            self.places,
        )

    def join(self, desk: StartTurn, agency: Agency, belt: Callable[[Caller], Belt]) -> None:
        """Take what starts turns, what runs agents, and what says who has which tools."""
        self._joined = _Joined(desk, agency, belt)

    async def _start(self, caller: Caller, errand: Errand) -> Running:
        """Start a turn for a child of the caller: asked about by the same human, with the same tools of a program."""
        if self._joined is None:
            raise ToolError("this crib runs no turns", code="unavailable")
        agent = self._registered.get(errand.agent)
        work = None if agent is None else await self._work(self._joined, agent, caller, errand)
        child = child_of(self._policy, caller, errand.agent, errand.key)
        now = time()
        head = SessionHead(
            key=errand.key, made_at=now, changed_at=now, parents=child.parents, title=errand.label or errand.text[:80]
        )
        known = await self._store.make(head)
        limits = limits_of(self._loaded.config, errand.agent) if work is None else work.limits
        if errand.seconds:
            limits = replace(limits, seconds=min(errand.seconds, limits.seconds or errand.seconds))
        above = turn_of(caller)
        wanted = Wanted(
            session=errand.key,
            caller=child,
            model=errand.model or (work.model if work else self._inherited(errand.agent, caller)),
            extra=_of_program(above.setup.belt.tools.values()) if above else (),
            approver=above.setup.window.approver if above else None,
            limits=limits,
            effort=errand.effort,
            system=work.system if work else None,
            work=work.run if work else None,
        )
        first = work.query if work else f"{_TASK}{errand.text}"
        text = errand.text if known.count else first
        return self._joined.desk(_words(caller, text), wanted)

    def _inherited(self, agent: str, caller: Caller) -> Model | None:
        """Return the parent's model where a child has it: when it is the same agent, or none that names one."""
        above, own = turn_of(caller), self._loaded.config.agent(agent)
        is_same = agent == agent_of(caller) or own is None or own.model is None
        return above.setup.model if above and is_same else None

    async def _work(self, joined: "_Joined", agent: Agent, caller: Caller, errand: Errand) -> "_Work":
        """Return how a registered agent works: on what it is asked, or on what its log says that it was asked."""
        held = joined.belt(caller)
        if agent.name not in held.tools:
            verdict = held.verdicts.get(agent.name)
            why = explain_sentence(verdict) if verdict else f"there is no tool {agent.name}"
            raise ToolError(why, code="denied")
        kept = _inputs_in(await self._store.lines(errand.key)) if await self._store.find(errand.key) else None
        # an agent may have changed since: what it was asked has to fit it as it is now
        inputs = inputs_from(agent, errand.text) if kept is None else inputs_shape(agent).check(kept)
        prompts = prompts_of(agent, inputs)
        return _Work(
            query=prompts.query,
            model=joined.agency.model_of(agent, caller, turn_of(caller)),
            limits=joined.agency.limits_of(agent),
            system=lambda tools: system_of(agent, prompts.system, tools),
            run=partial(_worked, agent, plain_inputs(inputs)),
        )

    def _tools(self, caller: Caller) -> dict[str, str]:
        """Return the agents among the caller's tools, and what they are for."""
        if self._joined is None:
            return {}
        tools = self._joined.belt(caller).tools
        return {id: agent.description for id, agent in self._registered.items() if agent.name in tools}

    async def _announce(self, parent: str, spawned: Spawned) -> None:
        """Tell a session how a run went: as somebody's report, never as an order."""
        end = spawned.end
        name = f" {spawned.label!r}" if spawned.label else ""
        how = "is done" if end.reason == "done" else f"ended without finishing: {end.sentence or end.reason}"
        cost = "" if end.cost is None else f", ${end.cost:.4f}"
        tokens = end.usage.input + end.usage.output
        head = (
            f"The subagent{name} that you started ({spawned.key}) {how}. It took {spawned.seconds:.0f} s, "
            f"{end.steps} {'reply' if end.steps == 1 else 'replies'} and {tokens:,} tokens{cost}. "
        )
        said = (line.body.message for line in await self._store.lines(spawned.key) if isinstance(line.body, Said))
        outside = next(iter(sources_of(said)), None)
        source = f"subagent:{spawned.key}"
        parts: tuple[Text, ...] = (Text(f"{head}It said nothing."),)
        if end.text.strip():
            words = fence(end.text[:_LONGEST], source, new_token())
            what = "Its last words" if end.reason == "done" else "What it had until then"
            parts = (Text(f"{head}{what}:\n"), Text(words, f"{source} after {outside}" if outside else None))
        await self._turns.tell(parent, Message(role="user", content=parts, at=time()))

    def _allowed(self, agent: str) -> tuple[str, ...]:
        own = self._loaded.config.agent(agent)
        return own.subagents.allow_agents if own else ()

    def _is_enabled(self, caller: Caller) -> bool:
        own = self._policy.agents.get(agent_of(caller))
        return self._policy.tools.subagents.enabled and (own is None or own.tools.subagents.enabled)


@dataclass(frozen=True, slots=True)
class _Joined:
    desk: StartTurn
    agency: Agency
    belt: Callable[[Caller], Belt]


@dataclass(frozen=True, slots=True)
class _Work:
    """How a registered agent works in the background; `query` is its first message."""

    query: str
    model: Model
    limits: Limits
    system: Callable[[Iterable[str]], str]
    run: Work


async def _worked(
    agent: Agent,
    inputs: Mapping[str, Any],
    setup: Setup,
    history: History,
    journal: Journal,
    emit: Callable[[Event], None],
) -> tuple[TurnFinished, None]:
    """Run an agent in a session of its own: its answer is what the turn says."""
    outcome = await worked(agent, setup, history, Told(emit=emit, journal=journal, inputs=inputs))
    text, reason = words_of(agent, outcome), ending_of(outcome)
    if reason == "done" and setup.send is not None:
        text = await setup.send(text)
    sentence = "" if reason == "done" else outcome.why
    end = TurnFinished(reason, text, sentence, outcome.turns, outcome.usage, outcome.cost)
    emit(end)
    return end, None


def _inputs_in(lines: Iterable[Line]) -> Mapping[str, Any] | None:
    """Return what a run was asked, by its log; None when that does not say."""
    noted = [line.body.data for line in lines if isinstance(line.body, Noted) and line.body.name == WORKING]
    inputs = noted[-1].get("inputs") if noted and isinstance(noted[-1], Mapping) else None
    return inputs if isinstance(inputs, Mapping) else None


def _words(caller: Caller, text: str) -> Message:
    """Return what a caller says to a subagent: its words may go back to what it has read, and stay marked as such."""
    above = turn_of(caller)
    outside = next(iter(above.history.outside), None) if above else None
    source = f"{caller.session or agent_of(caller)} after {outside}" if outside else None
    return Message(role="user", content=(Text(text, source),))


def _of_program(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if tool.source.startswith("client:"))
