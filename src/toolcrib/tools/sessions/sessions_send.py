"""sessions_send: a message to another session, and its answer."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, ToolError, tool


@tool(group="sessions", effects={"send"})
async def sessions_send(
    ctx: Ctx,
    message: Annotated[str, Field(min_length=1)],
    sessionKey: Annotated[str | None, "the session, or give its label"] = None,  # noqa: N803
    label: str | None = None,
    timeoutSeconds: Annotated[float | None, Field(ge=0, le=3600, description="30 when left out; 0 waits not")] = None,  # noqa: N803
) -> Result:
    """Send a message to another session and wait for its answer."""
    if bool(sessionKey) == bool(label):
        raise ToolError("name the other session by sessionKey or by label, one of them", code="bad_arguments")
    answer = await ctx.rpc(
        "sessions.send",
        {
            "message": message,
            "key": sessionKey or "",
            "label": label or "",
            "seconds": 30 if timeoutSeconds is None else timeoutSeconds,
        },
    )
    return Result.json(answer)
