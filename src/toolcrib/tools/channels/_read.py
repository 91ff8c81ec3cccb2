"""What the tools of channels ask their channel for: rows that people wrote, so all of it is from outside."""

from typing import Any

from toolcrib import Ctx, Result


async def read_channel(ctx: Ctx, channel: str, action: str, to: str | None, **params: Any) -> Result:
    """Return what a channel reads in a chat, the one that the caller is in where none is named."""
    given = {name: value for name, value in params.items() if value}
    answer = await ctx.rpc("channels.act", {"channel": channel, "action": action, "to": to or "", "params": given})
    return Result.json({name: each for name, each in answer.items() if name != "source"}, source=answer["source"])
