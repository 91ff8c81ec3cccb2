"""sessions_spawn: start a subagent in the background; its outcome comes back as a message."""

from typing import Annotated, Literal

from pydantic import Field

from toolcrib import Ctx, Result, tool


@tool(group="sessions", effects={"execute"}, aliases={"timeoutSeconds": "runTimeoutSeconds"})
async def sessions_spawn(  # noqa: PLR0913  the parameters are those of the documents
    ctx: Ctx,
    task: Annotated[str, Field(min_length=1, description="what is to be done; it knows nothing of this conversation")],
    label: Annotated[str | None, "a short name to find it by"] = None,
    agentId: Annotated[str | None, "who does it, see agents_list; yourself when left out"] = None,  # noqa: N803
    model: Annotated[str | None, "another model that the configuration names; only for the owner"] = None,
    thinking: Annotated[str | None, "how hard to think: off, low, medium or high"] = None,
    runTimeoutSeconds: Annotated[  # noqa: N803
        float | None, Field(ge=0, le=604_800, description="how long it may take; 0 or nothing is the usual")
    ] = None,
    cleanup: Annotated[Literal["keep", "delete"] | None, "delete forgets its session once the outcome was told"] = None,
) -> Result:
    """Start a subagent that works in the background, and go on at once. You are told when it is done, and what came of
    it; do not wait for it and do not ask again and again. See `subagents` to look at it, steer it or stop it."""
    started = await ctx.rpc(
        "subagents.spawn",
        {
            "task": task,
            "label": label or "",
            "agent": agentId or "",
            "model": model or "",
            "thinking": thinking or "",
            "seconds": runTimeoutSeconds or 0,
            "cleanup": cleanup or "keep",
        },
    )
    return Result.json(started)
