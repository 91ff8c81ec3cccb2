"""discord_history: the messages of a chat on Discord."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, tool

from ._read import read_channel


@tool(effects={"read", "network"}, requires=("channel:discord",), recipients=("channelId", "threadId"))
async def discord_history(
    ctx: Ctx,
    channelId: Annotated[str | None, "the chat, its number; this one when left out"] = None,  # noqa: N803  as `message` has it
    threadId: Annotated[str | None, "only what was said in this thread"] = None,  # noqa: N803
    limit: Annotated[int | None, Field(ge=1, le=100, description="messages, 20 when left out")] = None,
    before: Annotated[str | None, "messages before this one: its number"] = None,
    after: Annotated[str | None, "messages after this one"] = None,
) -> Result:
    """Read what was said in a chat of Discord, the newest first."""
    span = {"limit": limit, "before": before, "after": after}
    return await read_channel(ctx, "discord", "read", channelId, threadId=threadId, **span)
