"""Usage: what turns took, drawn, with the same in tables for who sees no pictures."""

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from .page_world import NEEDS_CHROMIUM, page_of

pytestmark = NEEDS_CHROMIUM


async def test_usage_is_drawn_by_day_model_tool_and_caller_and_stands_in_tables() -> None:
    async with page_of() as world:
        await world.ask("agent", message="ls {}", sessionKey="main", idempotencyKey="k1")
        await world.ask("agent.wait", runId="k1", timeoutMs=60_000)
        page = await world.visit("#/usage")
        await page.get_by_role("img", name="Bars by day").wait_for()
        for name in ("By day", "By model", "By tool", "By caller"):
            part = page.locator("section").filter(has=page.get_by_role("heading", name=name, exact=True))
            await part.get_by_text("As a table").click()
            await part.get_by_role("table", name=name).wait_for()
        assert "ls" in await page.get_by_role("table", name="By tool").inner_text()
        await page.get_by_label("Measure").select_option("turns")
        await page.get_by_role("img", name="the highest is 1").wait_for()
        await page.get_by_label("Time").select_option("7")
        await page.locator(".plot g").nth(7).wait_for(state="detached")
        assert await page.locator(".plot g").count() == 7
