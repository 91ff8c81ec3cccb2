"""slack_history: the messages of a chat on Slack."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, tool

from ._read import read_channel


@tool(effects={"read", "network"}, requires=("channel:slack",), recipients=("channelId", "threadId"))
async def slack_history(
    ctx: Ctx,
    channelId: Annotated[str | None, "the chat, like C0123ABCD; this one when left out"] = None,  # noqa: N803  as `message` has it
    threadId: Annotated[str | None, "only what was said in this thread"] = None,  # noqa: N803
    limit: Annotated[int | None, Field(ge=1, le=100, description="messages, 20 when left out")] = None,
    before: Annotated[str | None, "messages before this one: its ts"] = None,
    after: Annotated[str | None, "messages after this one"] = None,
) -> Result:
    """Read what was said in a chat of Slack, the newest first."""
    span = {"limit": limit, "before": before, "after": after}
    return await read_channel(ctx, "slack", "read", channelId, threadId=threadId, **span)
