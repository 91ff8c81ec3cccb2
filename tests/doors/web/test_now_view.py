"""Now: what runs, what is due, who is there and what they show; it follows by itself."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.backends.mcp.world import liar
from tests.doors.gateway.test_nodes import nodes_of, phone
from tests.doors.gateway.world import device

import toolcrib
from toolcrib import OWNER

from .page_world import NEEDS_CHROMIUM, PageWorld, page_of
from .views_world import GUEST_TOKEN, enter, socket_of

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

pytestmark = NEEDS_CHROMIUM
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\nIDATx\x9cc\0\1\0\0\5\0\1"
    b"\r\n-\xb4\0\0\0\0IEND\xaeB`\x82"
)


async def test_jobs_stand_in_a_table_and_in_the_month_and_are_run_at_once() -> None:
    async with page_of() as world:
        job = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "hi"}}
        await world.ask("cron.add", name="water the plants", **job)
        page = await world.visit("#/now")
        row = page.get_by_role("row").filter(has_text="water the plants").first
        await row.wait_for()
        assert "every 1 hr" in await row.inner_text()
        assert "water the plants" in await page.locator("table.calendar").inner_text()
        await page.get_by_role("button", name="Run water the plants now").click()
        await page.get_by_role("row").filter(has_text="water the plants").first.get_by_text("ok").wait_for()


async def test_a_turn_that_runs_stands_in_the_tree_and_a_job_made_elsewhere_appears_by_itself() -> None:
    begun, done = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        await done.wait()
        return "done"

    async with page_of(tools=[wait]) as world:
        page = await world.visit("#/now")
        await page.get_by_text("Nothing runs.").wait_for()
        turn = asyncio.ensure_future(world.ask("chat.send", message="wait {}", sessionKey="main", idempotencyKey="k1"))
        await begun.wait()
        await page.locator(".tree li").filter(has_text="wait {}").get_by_text("running").wait_for()
        assert await page.locator(".tree li").count() == 1
        done.set()
        await turn
        await page.get_by_text("Nothing runs.").wait_for()
        job = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "hi"}}
        await world.ask("cron.add", name="made elsewhere", **job)
        row = page.get_by_role("row").filter(has_text="made elsewhere").first
        await row.wait_for()
        assert "every 1 hr" in await row.inner_text()


async def test_a_day_of_many_jobs_shows_some_and_how_many_more() -> None:
    async with page_of() as world:
        job = {"schedule": {"kind": "cron", "expr": "0 9 * * *"}, "payload": {"kind": "agentTurn", "message": "hi"}}
        for at in range(8):
            await world.ask("cron.add", name=f"job {at}", **job)
        page = await world.visit("#/now")
        day = page.locator(".calendar td").filter(has_text="job 0").first
        await day.get_by_text("2 more").wait_for()
        assert await day.locator(".badge").count() == 7


async def test_who_reads_far_down_in_a_table_stays_there() -> None:
    async with page_of() as world:
        job = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "hi"}}
        for at in range(60):
            await world.ask("cron.add", name=f"job {at}", **job)
        page = await world.visit()
        await page.clock.install()
        await page.goto(f"{world.url}#/now")
        table = page.get_by_role("region", name="Jobs")
        assert await table.evaluate("(table) => (table.scrollTop = 200)") == 200
        await page.clock.run_for(40_000)
        assert await table.evaluate("(table) => table.scrollTop") == 200
        await table.evaluate("(table) => (table.scrollTop = 0)")
        await world.ask("cron.add", name="a new one", **job)
        await page.clock.run_for(40_000)
        await page.get_by_role("row").filter(has_text="a new one").first.wait_for()


async def test_a_node_is_shown_with_its_state_and_a_picture_of_what_it_sees() -> None:
    taken = {"format": "png", "base64": base64.b64encode(PNG).decode()}
    async with page_of(devices=nodes_of("p1")) as world, phone(socket_of(world), camera_snap=taken):
        page = await world.visit("#/now")
        card = page.get_by_role("article").filter(has_text="iPhone")
        await card.get_by_text("connected").wait_for()
        await card.get_by_role("button", name="Take camera.snap").click()
        picture = card.get_by_role("img", name="What the node shows")
        await picture.wait_for()
        assert str(await picture.get_attribute("src")).startswith("data:image/png;base64,")


@contextlib.asynccontextmanager
async def changed_server(what: str, folder: Path) -> "AsyncIterator[tuple[PageWorld, Page, Locator]]":
    """Yield the card of a server that changed after its tools were accepted, with what changed shown."""
    servers = {"mcpServers": {"srv": liar(what, folder / "seen")}}
    async with toolcrib.open(servers, state=folder / "state") as crib:
        await crib.mcp.ready(60.0)
    async with page_of(servers, state=folder / "state") as world:
        await world.server.crib.mcp.ready(60.0)
        page = await world.visit("#/now")
        card = page.get_by_role("article").filter(has_text="srv")
        await card.get_by_role("button", name="Look at what changed").click()
        yield world, page, card


async def test_what_an_mcp_server_changed_is_seen_before_it_is_accepted(tmp_path: Path) -> None:
    async with changed_server("changed", tmp_path) as (world, page, card):
        await card.locator("ins").filter(has_text="send me the rest").wait_for()
        assert "srv__echo" not in world.server.crib.belt(OWNER).tools
        await card.get_by_role("button", name="Accept echo").click()
        await page.get_by_role("article").filter(has_text="1 accepted").wait_for()
        assert "srv__echo" in world.server.crib.belt(OWNER).tools


async def test_a_change_of_an_mcp_server_that_nobody_would_see_is_written_out(tmp_path: Path) -> None:
    async with changed_server("changed unseen", tmp_path) as (_, _, card):
        added = card.locator("ins").filter(has_text=r"Say it again.\u200b")
        assert r'"Say it again.\u200b\u202e\udb40\udc41"' in await added.inner_text()
        assert not {"\u200b", "\u202e"} & set(await card.inner_text())


async def test_a_guest_sees_nothing_of_others() -> None:
    guest = device("d1", GUEST_TOKEN, "operator.read", "operator.write")
    async with page_of({"channels": {"telegram": {"enabled": False}}}, devices=[guest]) as world:
        job = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "hi"}}
        await world.ask("cron.add", name="the owner's own job", **job)
        await world.tell("agent:main:private", [{"content": [{"text": "hello"}]}], title="a private talk")
        page = await enter(world, GUEST_TOKEN, "#/now")
        for name, empty in (("Jobs", "There are no jobs."), ("Clients", "Nothing to show.")):
            part = page.locator("section").filter(has=page.get_by_role("heading", name=name, exact=True))
            await part.get_by_text(empty).wait_for()
        assert "own job" not in await page.content()
        assert "private" not in await page.content()
