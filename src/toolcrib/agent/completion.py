"""complete_task: how a subagent says that it is done. Policy cannot take it away; it only keeps the answer."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from toolcrib.define.agent import Agent
from toolcrib.define.context import Ctx
from toolcrib.define.mandate import COMPLETE, completion_shape
from toolcrib.define.result import Result
from toolcrib.define.shape import Shape
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Belt, Step, Verdict

__all__ = ["Completion", "completion_verdict"]

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

    def on(self, belt: Belt) -> Belt:
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
