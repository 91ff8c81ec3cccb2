"""The methods of the services as tool bodies ask for them, and as the tools whose work they do."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

from toolcrib.agent.invoke import invoke
from toolcrib.agent.line import new_key
from toolcrib.agent.loop import Loop, current_turn
from toolcrib.agent.outcome import read_detail
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.ports import Progress, Rpc
from toolcrib.define.result import Result
from toolcrib.define.taint import join_sources
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Selection
from toolcrib.lazy import dataclass, replace
from toolcrib.services.router import Router, RunMethod

_OUTSIDE = "outside"  # the parameter of methods that say something in a session: where those words came from

CallMaker = Callable[[Ctx, tuple[str, Mapping[str, Any]], RunMethod], Awaitable[Any]]


@runtime_checkable
class GatewayAsker(Protocol):
    """A gateway in another process, as `toolcrib.connect` gives it."""

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any: ...
    def follow(self, run: str, /, *, session: str) -> AsyncIterator[Any]: ...


@dataclass(frozen=True, slots=True)
class BodyMethods:
    """The methods that the tools of one caller ask for; `far` is the gateway that has the shared ones."""

    router: Router
    caller: Caller
    far: GatewayAsker | None = None
    is_bound: bool = False

    async def __call__(self, method: str, params: Mapping[str, Any], /, progress: Progress | None = None) -> Any:
        """Return what a method answers; whoever is bound starts nothing that would not be bound so."""
        self._check_bound(method)
        found = self.router.methods.get(method)
        if found is not None and found.mark.shared and self.far is not None:
            return await self.far.ask(method, params)
        return await self.router.ask(method, params, caller=self.caller, progress=progress)

    def ask_within(self, judge: CallMaker, ctx: Ctx) -> Rpc:
        """Return the methods as the body of one call asks for them; `judge` makes the calls of other tools."""

        async def ask(method: str, params: Mapping[str, Any], /, progress: Progress | None = None) -> Any:
            found, above, asked = self.router.methods.get(method), turn_of(ctx.caller), params
            if found is None:
                return await self(method, params, progress=progress)
            if above and (found.mark.starts_turn or found.mark.as_tool):
                above.history.outside.update(dict.fromkeys(ctx.course.sources))  # its words may be from there
            if _OUTSIDE in found.parameters["properties"]:  # a reader of them sees it, also in another process
                read = *(above.history.outside if above else ()), *ctx.course.sources, str(params.get(_OUTSIDE) or "")
                asked = {**params, _OUTSIDE: outside} if (outside := join_sources(read)) else params
            run = partial(self, method, asked, progress=progress)
            if found.mark.as_tool is None:
                return await run()
            self._check_bound(method)
            return await judge(ctx, found.mark.as_tool.to_call(params), run)

        return ask

    def _check_bound(self, method: str) -> None:
        found = self.router.methods.get(method)
        if found is not None and found.mark.starts_turn and self.is_bound:
            words = f"whoever is bound to a profile, to some tools or to a job may not ask for {method}"
            raise ToolError(f"{words}: what it starts would not be bound so", code="denied")


def turn_of(caller: Caller) -> Loop | None:
    """Return the caller's turn that goes on here; None when a program calls in the midst of somebody else's."""
    above = current_turn()
    return above if above is not None and above.setup.caller == caller else None


def make_call(name: str, args: Mapping[str, Any]) -> Call:
    """Return a call that no reply made."""
    key = new_key()
    return Call(key, name, args, key)


async def call_instead(belt: Selection, ctx: Ctx, pipeline: CallPipeline, run: RunMethod) -> Any:
    """Return what `run` gives, in the place of the body in one call: judged, asked about, counted and recorded.

    Raises ToolError where the call is refused or fails, and where a guard wants it to be another call.
    """
    answers, failures, tool = list[Any](), list[ToolError](), belt.tools.get(ctx.call.name)
    taken = {*tool.parameters["properties"], *tool.aliases} if tool is not None else set()
    asked = {name: value for name, value in ctx.call.args.items() if name in taken}

    async def perform(tool: Tool, _: Ctx, args: Mapping[str, Any]) -> Result:
        if args != tool.check(asked):
            raise ToolError(f"a guard changed this call; ask for {tool.name} by its own name", code="blocked")
        try:
            answers.append(await run())
            rows = answers[-1].get("results") or answers if isinstance(answers[-1], Mapping) else ()
            inner.course.add_sources(row["origin"] for row in rows if row.get("origin"))  # each of its own
        except ToolError as error:
            failures.append(error)
            raise
        return Result.json(answers[-1])

    through = replace(pipeline, bodies=replace(pipeline.bodies, between=perform))
    inner = ctx._replace(call=ctx.call._replace(args=asked), course=CallState())
    result = await invoke(belt, inner, through)
    ctx.course.add_sources(inner.course.sources)
    if result.status != "error" and answers:
        return answers[-1]
    if failures:
        raise failures[-1]
    raise ToolError(read_detail(result, "error") or result.plain_text, code=read_detail(result, "code") or "failed")
