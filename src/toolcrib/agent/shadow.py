"""A policy on trial: judged beside the one that counts; what it would decide otherwise is recorded, and that is all."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.record import Record, Shadowed
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Selection, Verdict
from toolcrib.lazy import dataclass

from .argued import judge_arguments
from .belt import Belts
from .deadline import wait_to_end

log = logging.getLogger("toolcrib")


@dataclass(frozen=True, slots=True)
class Shadow:
    """The belts of a policy on trial; `extra` are the tools of the belt that counts which are in no catalog.

    `untried` are keys that differ there, decide about calls, and are not judged.
    """

    belts: Belts
    extra: tuple[Tool, ...]
    record: Record
    untried: tuple[str, ...] = ()

    def find_differences(self, caller: Caller, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
        """Yield the verdicts that would be others, as they would be."""
        others = self.belts.belt_for(caller, self.extra).verdicts
        for verdict in verdicts:
            other = others.get(verdict.tool)
            if other is not None and other.decision != verdict.decision:
                yield other

    async def judge(self, ctx: Ctx, belt: Selection, verdict: Verdict | None, sources: Collection[str]) -> None:
        """Write down how a call would be decided otherwise, by its arguments too; what fails here stops no call."""
        if verdict is None:
            return
        try:
            others = self.belts.belt_for(ctx.caller, self.extra)
            if (other := others.verdicts.get(verdict.tool)) is None:
                return
            decision = (await _judge(belt, verdict, ctx, sources))[0].decision
            other, seen = await _judge(others, other, ctx, sources)
            if other.decision == decision:
                return
            if writing := self.record.write(Shadowed(ctx.call, ctx.caller, other, others.grounds, seen)):
                await wait_to_end(writing)
        except Exception:
            log.exception("what the policy on trial says of %s in call %s is not known", verdict.tool, ctx.call.id)


async def _judge(
    belt: Selection, verdict: Verdict, ctx: Ctx, sources: Collection[str]
) -> tuple[Verdict, Mapping[str, Any]]:
    """Return the decision on a call, and what was looked at where its arguments decide; the stricter word counts."""
    tool = belt.tools.get(verdict.tool)
    rules = belt.rules_about(tool) if tool and belt.rules_about else None
    if tool is None or rules is None:
        return verdict, {}
    try:
        judged = await judge_arguments(rules, tool, ctx, tool.check(ctx.call.args), sources)
    except ToolError:
        return verdict, {}  # the call fails, whatever rules say
    other = judged.verdict
    return (verdict, {}) if other is None or other.decision == verdict.decision else (other, judged.describe(ctx))
