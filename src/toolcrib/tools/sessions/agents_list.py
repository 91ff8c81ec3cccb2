"""agents_list: which agents may be started with sessions_spawn."""

from toolcrib import Ctx, Result, tool


@tool(effects={"read"})
async def agents_list(ctx: Ctx) -> Result:
    """List the agents that sessions_spawn may start."""
    return Result.json(await ctx.rpc("agents.list", {}))
