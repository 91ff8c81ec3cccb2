"""A policy on trial: judged beside the one that counts; what it would decide otherwise is recorded, and that is all."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.record import Record, Shadowed
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Verdict

from .belt import Belts
from .deadline import wait_to_end

log = logging.getLogger("toolcrib")


@dataclass(frozen=True, slots=True)
class Shadow:
    """The belts of a policy on trial; `extra` are the tools of the belt that counts which are in no catalog."""

    belts: Belts
    extra: tuple[Tool, ...]
    record: Record

    def find_differences(self, caller: Caller, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
        """Yield the verdicts that would be others, as they would be."""
        others = self.belts.belt_for(caller, self.extra).verdicts
        for verdict in verdicts:
            other = others.get(verdict.tool)
            if other is not None and other.decision != verdict.decision:
                yield other

    async def judge(self, ctx: Ctx, verdict: Verdict) -> None:
        """Write down how a call would be decided otherwise; what fails here stops no call."""
        try:
            for other in self.find_differences(ctx.caller, (verdict,)):
                grounds = self.belts.belt_for(ctx.caller, self.extra).grounds
                if writing := self.record.write(Shadowed(ctx.call, ctx.caller, other, grounds)):
                    await wait_to_end(writing)
        except Exception:
            log.exception("what the policy on trial says of %s in call %s is not known", verdict.tool, ctx.call.id)
