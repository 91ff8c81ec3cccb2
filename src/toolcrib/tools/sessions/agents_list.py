"""agents_list: which agents may be started with sessions_spawn."""

from toolcrib import Ctx, Result, tool


@tool(effects={"read"})
async def agents_list(ctx: Ctx) -> Result:
    """List the agents that you may start with sessions_spawn, yourself first."""
    return Result.json(await ctx.rpc("agents.list", {}))
