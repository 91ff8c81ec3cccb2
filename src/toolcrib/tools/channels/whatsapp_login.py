"""whatsapp_login: a number of WhatsApp, proven by the code that Meta sends to it, for the owner."""

from typing import Annotated, Literal

from pydantic import Field

from toolcrib import Ctx, Result, actions

_Pin = Annotated[str, Field(description="six digits that the owner chooses; asked for when it is registered again")]


async def start(
    ctx: Ctx,
    method: Annotated[Literal["sms", "voice"], "how the code comes"] = "sms",
    force: Annotated[bool, "also where the number is registered"] = False,
) -> Result:
    """Have the code sent to the number."""
    return Result.json(await ctx.rpc("web.login.start", {"method": method, "force": force}))


async def wait(
    ctx: Ctx,
    code: Annotated[str | None, Field(description="as it came; left out: wait until somebody took it")] = None,
    pin: _Pin | None = None,
    timeoutMs: Annotated[int | None, Field(ge=0, le=600_000)] = None,  # noqa: N803  as its models know it
) -> Result:
    """Take the code, and register the number."""
    given = {"code": code, "pin": pin, "timeoutMs": timeoutMs}
    return Result.json(await ctx.rpc("web.login.wait", {name: each for name, each in given.items() if each}))


async def tell_status(ctx: Ctx) -> Result:
    """Tell whether the number is registered."""
    return Result.json(await ctx.rpc("web.login.status", {}))


whatsapp_login = actions(
    "whatsapp_login",
    "Link a WhatsApp account.",
    {"start": start, "wait": wait, "status": tell_status},
    owner_only=True,
    requires=("channel:whatsapp",),
    effects={"send"},
)
