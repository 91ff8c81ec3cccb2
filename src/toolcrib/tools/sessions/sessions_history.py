"""sessions_history: the messages of a session."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, tool


@tool(group="sessions", effects={"read"})
async def sessions_history(
    ctx: Ctx,
    sessionKey: Annotated[str, Field(min_length=1, description="its key, see sessions_list")],  # noqa: N803
    limit: Annotated[int | None, Field(ge=1, le=1000, description="messages, counted from the last")] = None,
    includeTools: Annotated[bool | None, "also what tools gave back"] = None,  # noqa: N803
) -> Result:
    """Read the history of a session."""
    history = await ctx.rpc("chat.history", {"sessionKey": sessionKey, "limit": limit or 200})
    messages = [each for each in history["messages"] if includeTools or each["role"] != "toolResult"]
    return Result.json({"sessionKey": history["sessionKey"], "messages": messages})
