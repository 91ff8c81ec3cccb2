"""gateway: how the gateway stands, a restart of it, and its configuration, for the owner."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, actions

NewText = Annotated[str, Field(min_length=1, description="the text")]
KnownHash = Annotated[str, Field(min_length=1, description="the hash that config.get told")]


async def status(ctx: Ctx) -> Result:
    """Tell how it stands."""
    return Result.json(await ctx.rpc("status", {}))


async def restart(
    ctx: Ctx,
    delayMs: Annotated[int | None, Field(ge=0, le=60_000)] = None,  # noqa: N803  as its models know it
) -> Result:
    """Start it anew; sessions are kept."""
    return Result.json(await ctx.rpc("gateway.restart", {"delayMs": 1_000 if delayMs is None else delayMs}))


async def get(ctx: Ctx) -> Result:
    """Show the configuration, without secrets."""
    return Result.json(await ctx.rpc("config.get", {}))


async def schema(ctx: Ctx) -> Result:
    """Show what a configuration may hold."""
    return Result.json(await ctx.rpc("config.schema", {}))


async def apply(ctx: Ctx, raw: NewText, baseHash: KnownHash) -> Result:  # noqa: N803
    """Replace the configuration file by this text."""
    return Result.json(await ctx.rpc("config.apply", {"raw": raw, "baseHash": baseHash}))


async def patch(ctx: Ctx, raw: NewText, baseHash: KnownHash) -> Result:  # noqa: N803
    """Change keys by a JSON merge patch. Only what takes rights away is accepted."""
    return Result.json(await ctx.rpc("config.patch", {"raw": raw, "baseHash": baseHash}))


gateway = actions(
    "gateway",
    "Look after the gateway itself.",
    {
        "status": status, "restart": restart, "config.get": get, "config.schema": schema, "config.apply": apply,
        "config.patch": patch,
    },
    group="automation",
    owner_only=True,
)  # fmt: skip
