"""subagents: list, steer and stop the subagents that this session started in the background."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib import Ctx, Result, ToolError, tool


@tool(group="sessions", effects={"execute"}, late="a subagent was started in the background")
async def subagents(
    ctx: Ctx,
    action: Annotated[
        Literal["list", "steer", "stop", "kill"],
        "steer tells one something and lets one that was interrupted go on; stop or kill ends it",
    ] = "list",
    target: Annotated[str | None, "run id, session key or label; stop also takes all"] = None,
    message: Annotated[str | None, Field(max_length=4_000, description="for steer")] = None,
    recentMinutes: Annotated[int | None, Field(ge=1, le=1440, description="for list, 30 when left out")] = None,  # noqa: N803
) -> Result:
    """List, steer or stop the subagents you started in the background."""
    if action == "list":
        rows = await ctx.rpc("subagents.list", {"minutes": recentMinutes or 30})
        text = "\n".join(map(_line, rows)) or "no subagents run, and none ended lately"
        return Result.text(text, details={"subagents": rows})
    if not target or not target.strip():
        raise ToolError(
            f"{action} needs a target: the run id, session key or label of a subagent", code="bad_arguments"
        )
    if action == "steer":
        if not message or not message.strip():
            raise ToolError("steer needs a message: what to tell the subagent", code="bad_arguments")
        return Result.json(await ctx.rpc("subagents.steer", {"target": target, "message": message}))
    return Result.json(await ctx.rpc("subagents.stop", {"target": target}))


def _line(row: Mapping[str, Any]) -> str:
    text = f": {row['text']}" if row["text"] else ""
    name = f" {row['label']!r}" if row["label"] else ""
    return f"{row['runId']}{name} ({row['agentId']}) {row['state']}, {row['seconds']:g} s{text}"
