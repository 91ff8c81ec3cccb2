"""Subagents in the background, joined to the sessions and turns of a crib."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import time

from toolcrib.adapter.fence import fence, new_token
from toolcrib.agent.loop import turn_above
from toolcrib.agent.recall import recall
from toolcrib.agent.turn import Turns
from toolcrib.config.load import Loaded
from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.log import SessionHead, SessionStore
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool
from toolcrib.policy.layers import agent_of, child_of, is_owner, most_subagents
from toolcrib.policy.settings import PolicySettings
from toolcrib.services.subagents import Errand, Places, Spawned, Subagents, Ways

from .models import Models
from .subagents import root_of
from .turns import Running, Wanted, limits_of

__all__ = ["Background"]

_LONGEST = 8_000  # characters of an outcome
_TASK = (
    "You work on this alone and in the background; nobody answers questions on the way. Your last words are handed to "
    "whoever asked for it.\n\n"
)

StartTurn = Callable[[Message, Wanted], Running]


class Background:
    """The ways of the service `Subagents`. The desk, which needs the service's own router, is joined later."""

    def __init__(self, loaded: Loaded, store: SessionStore, turns: Turns, models: Models, places: Places) -> None:
        self._loaded, self._store, self._turns = loaded, store, turns
        self._policy: PolicySettings = loaded.policy
        self._agents = {session.to_agent(id): each for id, each in loaded.config.listed_agents()}
        self._desk: StartTurn | None = None
        self.service = Subagents(
            store,
            Ways(
                start=self._start,
                announce=self._announce,
                note=turns.add,
                agents={id: each.name or "" for id, each in self._agents.items()},
                allowed=self._allowed,
                model=models.named,
                most=lambda caller: most_subagents(self._policy, caller),
                root=root_of,
                is_owner=lambda caller: is_owner(self._policy, caller),
                is_enabled=self._is_enabled,
            ),
            places,
        )

    def join(self, desk: StartTurn) -> None:
        """Take what starts turns."""
        self._desk = desk

    async def _start(self, caller: Caller, errand: Errand) -> Running:
        """Start a turn for a child of the caller: asked about by the same human, with the same tools of a program."""
        if self._desk is None:
            raise ToolError("this crib runs no turns", code="unavailable")
        child = child_of(self._policy, caller, errand.agent, errand.key)
        now = time()
        head = SessionHead(
            key=errand.key, made_at=now, changed_at=now, parents=child.parents, title=errand.label or errand.text[:80]
        )
        known = await self._store.make(head)
        limits = limits_of(self._loaded.config, errand.agent)
        if errand.seconds:
            limits = replace(limits, seconds=min(errand.seconds, limits.seconds or errand.seconds))
        above = turn_above()
        wanted = Wanted(
            session=errand.key,
            caller=child,
            model=errand.model or (above.setup.model if above and self._inherits(errand.agent, caller) else None),
            extra=_of_program(above.setup.belt.tools.values()) if above else (),
            approver=above.setup.window.approver if above else None,
            limits=limits,
            effort=errand.effort,
        )
        text = errand.text if known.count else f"{_TASK}{errand.text}"
        return self._desk(Message(role="user", content=(Text(text),)), wanted)

    def _inherits(self, agent: str, caller: Caller) -> bool:
        """Tell whether a child has its parent's model: it does when it is the same agent, or none that names one."""
        own = self._agents.get(agent)
        return agent == agent_of(caller) or own is None or own.model is None

    async def _announce(self, parent: str, spawned: Spawned) -> None:
        """Tell a session how a run went: as somebody's report, never as an order."""
        end = spawned.end
        name = f" {spawned.label!r}" if spawned.label else ""
        how = "is done" if end.reason == "done" else f"ended without finishing: {end.sentence or end.reason}"
        cost = "" if end.cost is None else f", ${end.cost:.4f}"
        tokens = end.usage.input + end.usage.output
        head = (
            f"The subagent{name} that you started ({spawned.key}) {how}. It took {spawned.seconds:.0f} s, "
            f"{end.steps} replies and {tokens:,} tokens{cost}. "
        )
        outside = next(iter(recall(await self._store.lines(spawned.key)).history.outside), None)
        source = f"subagent:{spawned.key}"
        parts: tuple[Text, ...] = (Text(f"{head}It said nothing."),)
        if end.text.strip():
            words = fence(end.text[:_LONGEST], source, new_token())
            parts = (Text(f"{head}Its last words:\n"), Text(words, f"{source} after {outside}" if outside else None))
        await self._turns.tell(parent, Message(role="user", content=parts, at=time()))

    def _allowed(self, agent: str) -> tuple[str, ...]:
        own = self._agents.get(agent)
        return own.subagents.allow_agents if own else ()

    def _is_enabled(self, caller: Caller) -> bool:
        own = self._policy.agents.get(agent_of(caller))
        return self._policy.tools.subagents.enabled and (own is None or own.tools.subagents.enabled)


def _of_program(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if tool.source.startswith("client:"))
