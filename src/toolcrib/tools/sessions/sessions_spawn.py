"""sessions_spawn: start a subagent in the background; its outcome comes back as a message."""

from typing import Annotated, Literal

from pydantic import Field

from toolcrib import Ctx, Result, tool


@tool(group="sessions", effects={"execute"}, aliases={"timeoutSeconds": "runTimeoutSeconds"})
async def sessions_spawn(  # noqa: PLR0913  the parameters are those of the documents
    ctx: Ctx,
    task: Annotated[str, Field(min_length=1, description="all it has to know")],
    label: Annotated[str | None, "a short name"] = None,
    agentId: Annotated[str | None, "see agents_list; yourself when left out"] = None,  # noqa: N803
    model: Annotated[str | None, "only for the owner"] = None,
    thinking: Annotated[str | None, "off, low, medium or high"] = None,
    runTimeoutSeconds: Annotated[float | None, Field(ge=0, le=604_800)] = None,  # noqa: N803
    cleanup: Annotated[Literal["keep", "delete"] | None, "delete forgets its session in the end"] = None,
) -> Result:
    """Start a subagent in the background and go on at once: you are told when it is done, do not wait or ask."""
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
    return Result.json(started)._replace(offers=("subagents",))
