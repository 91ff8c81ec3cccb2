"""Tools from afar: which there are, which a caller has and why, and a call through the same gate as a model's."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Protocol

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.names import canonical, suggest
from toolcrib.define.ports import Progress, rpc
from toolcrib.define.result import Result
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Verdict

from .chat import Chats
from .feature import Feature, TurnCore


class CallerBelt(Protocol):
    """The tools of one caller, as far as they are told of and called here."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def verdicts(self) -> Mapping[str, Verdict]: ...
    def steps(self, name: str, /) -> Sequence[Any]: ...
    def call(
        self, name: str, args: Mapping[str, Any], /, *, progress: Callable[[Result], None] | None
    ) -> Awaitable[Result]: ...


def mount(core: TurnCore) -> Feature:
    """Mount what tells of tools and calls them."""
    return Feature(services=(Toolbox(core.belt_of, core.find(Chats).place),))


class Toolbox:
    """The tools of a crib, for callers who are not in this process."""

    def __init__(self, belt_of: Callable[[Caller], CallerBelt], place: Callable[[Caller, str], Caller]) -> None:
        self._belt_of, self._place = belt_of, place

    @rpc("tools.catalog", scope="read")
    async def catalog(self, caller: Caller) -> dict[str, Any]:
        """List the tools that the caller has, with their parameters."""
        tools = self._belt_of(caller).tools.values()
        return {"tools": [{**describe_tool(tool), "parameters": tool.parameters} for tool in tools]}

    @rpc("tools.list", scope="read")
    async def verdicts(
        self,
        caller: Caller,
        sessionKey: Annotated[str, "the session it would be in"] = "main",  # noqa: N803
    ) -> dict[str, Any]:
        """List the verdict on every tool that exists, each with its reason."""
        belt = self._belt_of(self._place(caller, sessionKey))
        return {"tools": [asdict(verdict) for verdict in belt.verdicts.values()]}

    @rpc("tools.explain", scope="read")
    async def explain(self, caller: Caller, tool: str, sessionKey: str = "main") -> dict[str, Any]:  # noqa: N803
        """Say why the caller has a tool or not, layer by layer."""
        belt = self._belt_of(self._place(caller, sessionKey))
        name = self._find(belt, tool)
        return {**asdict(belt.verdicts[name]), "steps": [asdict(step) for step in belt.steps(name)]}

    @rpc("tools.call", scope="write")
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
        belt = self._belt_of(self._place(caller, sessionKey))
        name = self._find(belt, tool)
        verdict = asdict(belt.verdicts[name])
        if dryRun:
            if name in belt.tools:
                belt.tools[name].check(args or {})
            return {"verdict": verdict}
        result = await belt.call(name, args or {}, progress=lambda part: progress(part.to_json()))
        return {**result.to_json(), "verdict": verdict}

    def _find(self, belt: CallerBelt, tool: str) -> str:
        name = canonical(tool)
        if name is None or name not in belt.verdicts:
            raise ToolError(f"there is no tool {tool[:64]!r}{suggest(tool, belt.verdicts)}", code="not_found")
        return name


def describe_tool(tool: Tool) -> dict[str, Any]:
    """Return what is told of a tool besides its parameters."""
    told = {"name": tool.name, "description": tool.description, "group": tool.group, "source": tool.source}
    return {**told, "effects": sorted(tool.effects), "ownerOnly": tool.owner_only, "runs": tool.has_body}
