"""sessions_list: which sessions there are, the latest first."""

from typing import Annotated, Any

from pydantic import Field

from toolcrib import Ctx, Result, tool


@tool(group="sessions", effects={"read"})
async def sessions_list(
    ctx: Ctx,
    kinds: Annotated[list[str] | None, "main, group, cron, hook, node or other"] = None,
    limit: Annotated[int | None, Field(ge=1, le=200)] = None,
    activeMinutes: Annotated[int | None, Field(ge=1)] = None,  # noqa: N803
    messageLimit: Annotated[int | None, Field(ge=0, le=20, description="last messages of each")] = None,  # noqa: N803
) -> Result:
    """List the sessions you may see."""
    query: dict[str, Any] = {"limit": limit or 50} | ({"activeMinutes": activeMinutes} if activeMinutes else {})
    rows = (await ctx.rpc("sessions.list", query))["sessions"]
    shown = [{name: row[name] for name in _SHOWN} for row in rows if not kinds or row["kind"] in kinds]
    for row in shown if messageLimit else ():
        history = await ctx.rpc("chat.history", {"sessionKey": row["key"], "limit": messageLimit})
        row["messages"] = history["messages"]
    return Result.json({"count": len(shown), "sessions": shown})


_SHOWN = ("key", "kind", "label", "model", "updatedAt", "sessionId", "running")
