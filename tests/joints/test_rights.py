"""By which right: what a method needs is said once, and every door and every tool body meets the same word."""

from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Ctx, tool

pytestmark = pytest.mark.anyio


@tool(effects={"execute"})
async def curious(ctx: Ctx, method: str, params: dict[str, str] | None = None) -> str:
    """Ask the services for a method."""
    return str(await ctx.rpc(method, params or {}))


STARTS_SOMETHING: list[tuple[str, dict[str, Any]]] = [
    ("agent", {"message": "hi", "idempotencyKey": "1"}),
    ("chat.send", {"message": "hi", "sessionKey": "main", "idempotencyKey": "1"}),
    ("tools.call", {"tool": "ls"}),
    ("subagents.spawn", {"task": "hi"}),
    ("sessions.send", {"sessionKey": "main", "message": "hi"}),
    ("wake", {"text": "hi", "mode": "now"}),
]


@pytest.mark.parametrize(("method", "params"), STARTS_SOMETHING)
async def test_a_bound_body_starts_nothing_that_would_not_be_bound(method: str, params: dict[str, Any]) -> None:
    async with toolcrib.open({}, tools=[curious]) as crib:
        told = await crib.belt(OWNER, only=["curious"]).call("curious", {"method": method, "params": params})
        assert "would not be bound so" in told.plain_text
        assert (await crib.belt(OWNER, only=["curious"]).call("curious", {"method": "health"})).status == "ok"
