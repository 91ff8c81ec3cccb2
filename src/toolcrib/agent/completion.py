"""complete_task: how a subagent says that it is done. Neither policy nor a guard takes it away; it keeps the answer.

Guards of plugins are shown it like any other call, and may rewrite the answer within its schema. What else they say of
it is logged and does not count: it has no effects, and an agent that could not end would go on until a limit.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from toolcrib.define.agent import COMPLETE, Agent, completion_shape
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ArgumentError
from toolcrib.define.plugin import Rewrite
from toolcrib.define.result import Result
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Selection, Step, Verdict

from .hooks import Ready

__all__ = ["Completion", "completion_verdict"]

log = logging.getLogger("toolcrib")

_DESCRIPTION = (
    "Hand in your answer and end your work. Call it once, when you are done or know that you cannot be; nothing that "
    "you say outside of it reaches whoever asked you."
)


class Completion:
    """The `complete_task` of one run: the first answer that fits is `answer`, None until there is one."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent.name
        self.answer: Mapping[str, Any] | None = None
        self.tool = Tool(
            name=COMPLETE,
            description=_DESCRIPTION,
            shape=_shape_of(agent),
            run=self._keep,
            effects=frozenset(),
            source="agent",
        )

    async def _keep(self, ctx: Ctx, args: Mapping[str, Any]) -> Result:
        if self.answer is not None:
            return Result.text("an answer was handed in already; this one was not taken")
        self.answer = args
        return Result.text("the answer was handed in")

    def on(self, belt: Selection) -> Selection:
        """Return the belt with this tool on it: still called through `invoke`, with a decision on record."""
        verdict = completion_verdict(self._agent)

        def steps(name: str) -> tuple[Step, ...]:
            return () if name == COMPLETE else belt.steps(name)

        return replace(
            belt,
            tools=MappingProxyType({**belt.tools, COMPLETE: self.tool}),
            verdicts=_Also(belt.verdicts, verdict),
            steps=steps,
        )

    def heard_by(self, guards: Iterable[Ready], belt: Selection) -> tuple[Ready, ...]:
        """Return the guards as they are asked about the calls of this run: none of them holds up its end."""
        return tuple(self._apart(guards, frozenset(belt.tools) - {COMPLETE}))

    def _apart(self, guards: Iterable[Ready], names: frozenset[str]) -> Iterator[Ready]:
        for guard in guards:
            if others := (guard.tools or names) - {COMPLETE}:
                yield replace(guard, tools=others)
            if not guard.tools or COMPLETE in guard.tools:
                yield replace(guard, run=self._heard(guard), optional=True, tools=_END)

    def _heard(self, guard: Ready) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def heard(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite | None:
            said = await guard.run(ctx, args)
            if said is None:
                return None
            why = f"said {type(said).__name__}"
            if isinstance(said, Rewrite):
                try:
                    self.tool.check({**args, **said.args})
                except ArgumentError as error:
                    why = f"rewrote it so that it does not fit ({error})"
                else:
                    return said
            log.warning("guard %s %s about the end of %s, which counts all the same", guard.name, why, self._agent)
            return None

        return heard


_END = frozenset({COMPLETE})
_MOST_SHAPES = 256
_shapes: dict[int, tuple[Agent, Shape]] = {}


def _shape_of(agent: Agent) -> Shape:
    """Return the shape of an agent's answer, made once: a run costs a thousandth of what making it does."""
    agent_known, shape = _shapes.get(id(agent), (None, None))
    if agent_known is not agent or shape is None:
        shape = completion_shape(agent)
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        _shapes[id(agent)] = agent, shape
    return shape


def completion_verdict(agent: str) -> Verdict:
    """Return the decision on `complete_task` for every subagent: no rule can speak about it."""
    return Verdict(
        tool=COMPLETE,
        decision="allow",
        layer=None,
        rule=None,
        origin=f"agent {agent}",
        reason="a subagent may always say that it is done",
        remedy=None,
    )


class _Also(Mapping[str, Verdict]):
    """Verdicts, and one more."""

    def __init__(self, verdicts: Mapping[str, Verdict], own: Verdict) -> None:
        self._verdicts, self._own = verdicts, own

    def __getitem__(self, name: str) -> Verdict:
        return self._own if name == self._own.tool else self._verdicts[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the verdict, `default` when there is no such tool."""
        return self._own if name == self._own.tool else self._verdicts.get(name, default)

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self._verdicts if name != self._own.tool)
        yield self._own.tool

    def __len__(self) -> int:
        return len(self._verdicts) + (self._own.tool not in self._verdicts)
