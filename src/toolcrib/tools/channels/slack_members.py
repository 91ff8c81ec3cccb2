"""slack_members: who is in a chat of Slack."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, tool

from ._read import read_channel


@tool(effects={"read", "network"}, requires=("channel:slack",), recipients=("channelId",))
async def slack_members(
    ctx: Ctx,
    channelId: Annotated[str | None, "the chat, like C0123ABCD; this one when left out"] = None,  # noqa: N803  as `message` has it
    limit: Annotated[int | None, Field(ge=1, le=50, description="members, 50 when left out")] = None,
) -> Result:
    """List who is in a chat of Slack: ids and names."""
    return await read_channel(ctx, "slack", "members", channelId, limit=limit)
