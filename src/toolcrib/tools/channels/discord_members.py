"""discord_members: who is in the Discord server that a chat belongs to."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, tool

from ._read import read_channel


@tool(effects={"read", "network"}, requires=("channel:discord",), recipients=("channelId",))
async def discord_members(
    ctx: Ctx,
    channelId: Annotated[str | None, "the chat, its number; this one when left out"] = None,  # noqa: N803  as `message` has it
    limit: Annotated[int | None, Field(ge=1, le=50, description="members, 50 when left out")] = None,
) -> Result:
    """List who is in the Discord server that a chat belongs to: ids and names."""
    return await read_channel(ctx, "discord", "members", channelId, limit=limit)
