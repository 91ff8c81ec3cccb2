"""Tools from afar: which there are, which a caller has and why, and a call through the same gate as a model's."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Annotated, Any

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.log import read_sources
from toolcrib.define.message import Call
from toolcrib.define.model import model_name
from toolcrib.define.names import suggest
from toolcrib.define.ports import Progress, ToolWork, rpc
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Verdict
from toolcrib.policy.explain import verdict_json
from toolcrib.policy.resolve import mark_terminal_owner

from .chat import Chats
from .effective import Asked, CallerBelt, EffectiveVerdicts
from .exec.judge import CommandRunner
from .feature import Feature, TurnCore
from .mcp.service import Mcp
from .router import RunMethod


def mount(core: TurnCore) -> Feature:
    """Mount what tells of tools and calls them."""
    return Feature(services=(Toolbox(core, core.find(Chats).place, core.find(CommandRunner).judge_call),))


class Toolbox:
    """The tools of a crib, for callers who are not in this process."""

    def __init__(
        self,
        core: TurnCore,
        place: Callable[..., Caller],
        judge: Callable[[Caller, Call, Verdict], Verdict],
    ) -> None:
        self._core, self._place, self._judge, self._standing = core, place, judge, core.find(EffectiveVerdicts)

    @rpc("tools.registered", clients="admin")
    async def list_all(self, caller: Caller) -> dict[str, Any]:
        """List every tool that exists, whoever may use it, and say what was left out and why."""
        catalog = self._core.belt_of(caller).catalog
        tools = [{**describe_tool(tool), "parameters": tool.parameters} for tool in catalog.tools.values()]
        return {"tools": tools, "problems": [problem.sentence for problem in catalog.problems]}

    @rpc("tools.catalog", clients="read", why="gate")
    async def catalog(self, caller: Caller) -> dict[str, Any]:
        """List the tools that the caller has, with their parameters."""
        tools = (await self._belt(caller)).tools.values()
        return {"tools": [{**describe_tool(tool), "parameters": tool.parameters} for tool in tools]}

    @rpc("tools.list", clients="read", why="gate")
    async def verdicts(
        self,
        caller: Caller,
        sessionKey: Annotated[str, "the session it would be in; blank for the owner in none"] = "main",  # noqa: N803
        model: Annotated[str, "as if this one answered; else the one that does"] = "",
    ) -> dict[str, Any]:
        """List the verdict on every tool that exists, each with its reason."""
        return await self._explain(await self._belt(caller, sessionKey, model))

    @rpc("tools.explain", clients="read", why="gate")
    async def explain(
        self,
        caller: Caller,
        tool: str,
        sessionKey: str = "main",  # noqa: N803
        model: str = "",
        args: Annotated[JsonObject | None, "as if it were called with these"] = None,
    ) -> dict[str, Any]:
        """Say why the caller has a tool or not, layer by layer."""
        belt = await self._belt(caller, sessionKey, model)
        name = self._find(belt, tool)
        report = await self._explain(belt, name, args)
        report = {**{key: report["tools"][0][key] for key in asdict(belt.verdicts[name])}, **report}
        later = self._core.later_of(belt.caller).get(name)
        return {**report, "later": later} if later else report

    @rpc("tools.call", clients="write", starts_turn=True, why="gate")
    async def call(
        self,
        caller: Caller,
        progress: Progress,
        tool: str,
        args: JsonObject | None = None,
        sessionKey: str = "main",  # noqa: N803
        dryRun: Annotated[bool, "only check the arguments, and say what the gate says"] = False,  # noqa: N803
    ) -> dict[str, Any]:
        """Call a tool: judged, recorded and bounded like a model's call."""
        belt = await self._belt(caller, sessionKey, sources=self._core.aside.read_course(caller)[1])
        if (name := belt.selection.find(tool)) is None and self._core.is_owner(caller):
            if why := await self._core.find(Mcp).meet(tool):
                raise ToolError(why, code="not_found")
            belt = await self._belt(caller, sessionKey, sources=self._core.aside.read_course(caller)[1])
            name = belt.selection.find(tool)
        if name is None:  # it is refused, and that is recorded
            raise ToolError((await belt.call(tool, args or {}, progress=None)).plain_text, code="not_found")
        verdict = verdict_json(belt.verdicts[name], belt.catalog.tools[name])
        if dryRun:
            return {"verdict": await self._rehearse(belt, name, args or {})}
        result = await belt.call(name, args or {}, progress=lambda part: progress(part.to_json()))
        sources = [part.source for part in result.content if part.source]
        return {**result.to_json(), "verdict": verdict, **({"sources": sources} if sources else {})}

    async def ask_as_tool(self, caller: Caller, work: ToolWork, params: Mapping[str, Any], run: RunMethod) -> Any:
        """Return what a method answers over a door that does a tool's work: in one call of that tool.

        What the owner does by their own hand is none.
        """
        if work.by_hand and self._core.is_owner(caller) and not caller.parents:
            return await run()
        belt = await self._belt(caller)
        return await belt.call_instead(*work.to_call(params), run)

    async def _rehearse(self, belt: CallerBelt, name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the gate would say of a direct call now, which goes back to nothing that was read before."""
        asked = Asked(_read_nothing, name, args)
        report = await self._standing.explain(belt, self._core.policy, self._core.way_out, asked)
        row: dict[str, Any] = report["tools"][0]
        verdict = Verdict(**{each.name: row[each.name] for each in fields(Verdict)})
        checked = belt.tools[name].check(args) if name in belt.tools else {}
        return {**row, **asdict(self._judge(belt.caller, Call("dry-run", name, checked), verdict))}

    async def _belt(
        self, caller: Caller, key: str | None = None, model: str = "", sources: Collection[str] = ()
    ) -> CallerBelt:
        """Return the belt of a caller, in the session that is named, with the model that is named or answers there."""
        if key is None:
            placed = caller
        elif not key and self._core.is_owner(caller) and caller.channel is None:
            placed = mark_terminal_owner(replace(caller, owner=None))  # as at the terminal, in no session
        else:
            placed = self._place(caller, key)
        if model and (chosen := self._core.models.choose(placed, model)):
            provider, name = model_name(chosen)
            placed = replace(placed, provider=provider, model=name)
        head = await self._core.stores.sessions.find(placed.session) if placed.session else None
        model = head.model if head else ""
        belt: CallerBelt = self._core.belt_of(self._core.assign_model(placed, model), sources=sources)
        return belt

    async def _explain(self, belt: CallerBelt, only: str = "", args: Mapping[str, Any] | None = None) -> dict[str, Any]:
        read = partial(read_sources, self._core.stores.sessions, belt.caller.session or "")
        return await self._standing.explain(belt, self._core.policy, self._core.way_out, Asked(read, only, args))

    def _find(self, belt: CallerBelt, tool: str) -> str:
        name = belt.selection.find(tool)
        if name is None:
            raise ToolError(f"there is no tool {tool[:64]!r}{suggest(tool, belt.verdicts)}", code="not_found")
        return name


async def _read_nothing() -> tuple[str, ...]:
    return ()


def describe_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool as JSON, without its parameters."""
    row: dict[str, Any] = {"name": tool.name, "label": tool.title, "description": tool.description}
    row |= {"group": tool.group, "source": tool.source}
    more = {"effects": sorted(tool.effects), "kind": tool.kind, "ownerOnly": tool.owner_only}
    named = {"aliases": list(tool.other_names)} if tool.other_names else {}
    return {**row, **named, **more, "optional": tool.optional, "requires": list(tool.requires), "runs": tool.has_body}
