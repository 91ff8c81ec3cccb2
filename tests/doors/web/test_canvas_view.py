"""The canvas pane: what a session shows, in a frame that reaches nothing of the page around it."""

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.canvas_world import FORM, show
from tests.doors.gateway.world import World, client_of, device

from .page_world import NEEDS_CHROMIUM, PageWorld, page_of
from .views_world import GUEST_TOKEN, enter, socket_of

if TYPE_CHECKING:
    import asyncio

pytestmark = NEEDS_CHROMIUM
ESCAPE = """<h1>still here</h1><script>
for (const reach of [
  () => { top.ran = 1; }, () => { parent.parent.document.title = "ran"; },
  () => { top.location = "https://evil.test/"; },
  () => { top.document.cookie = "ran=1"; }, () => { parent.parent.localStorage.setItem("ran", 1); },
  () => { open("https://evil.test/"); }, () => { top.postMessage({ ran: 1 }, "*"); },
]) try { reach(); } catch {}
document.querySelector("h1").textContent = "tried all";
</script>"""


async def show_in(world: PageWorld, **args: Any) -> str:
    """Have the main session show something; from here on its own requests are no complaint."""
    serving: asyncio.Future[None] = None  # type: ignore[assignment]  # not looked at
    url = await show(World(world.server, world.port, serving), **args)
    world.neighbours = (url.partition("/c/")[0],)
    return url


async def test_the_form_of_a_session_is_filled_in_beside_the_chat() -> None:
    async with page_of() as world, client_of(socket_of(world)) as client:
        page = await world.visit("#/canvas")
        await page.get_by_text("No session shows a canvas now.").wait_for()
        await show_in(world, action="a2ui_push", jsonl=FORM)
        await page.get_by_role("button", name="Refresh").click()
        inside = page.frame_locator("main iframe").frame_locator("#frame")
        await inside.get_by_label("Name").fill("Olena")
        await inside.get_by_role("button", name="Order").click()
        await client.wait_for("chat", state="final")
        assert "Olena" in str(await world.ask("chat.history", sessionKey="main"))


async def test_what_is_shown_reaches_nothing_of_the_page() -> None:
    async with page_of() as world:
        await show_in(world, action="present", html=ESCAPE)
        page = await world.visit("#/canvas")
        await page.frame_locator("main iframe").frame_locator("#frame").get_by_text("tried all").wait_for()
        assert await page.evaluate("window.ran") is None
        assert page.url == f"{world.url}#/canvas"
        assert await page.title() == "Canvas · toolcrib"
        assert await page.evaluate("document.cookie + localStorage.getItem('ran')") == "null"
        world.complaints[:] = [each for each in world.complaints if not re.search("frame|sandbox|Blocked", each)]


async def test_a_guest_sees_no_canvas_of_others() -> None:
    guest = device("d1", GUEST_TOKEN, "operator.read", "operator.write")
    async with page_of(devices=[guest]) as world:
        await show_in(world, action="present", html="<h1>private</h1>")
        owner = await world.visit("#/canvas")
        await owner.frame_locator("main iframe").frame_locator("#frame").get_by_text("private").wait_for()
        page = await enter(world, GUEST_TOKEN, "#/canvas")
        await page.get_by_text("No session shows a canvas now.").wait_for()
        assert await page.locator("iframe").count() == 0
