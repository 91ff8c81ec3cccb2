"""Every view for everybody: narrow and wide, light and dark, by keyboard alone, and for who hears it read out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.test_nodes import nodes_of, phone

from toolcrib import OWNER

from .page_world import NARROW, NEEDS_CHROMIUM, WIDE, PageWorld, page_of
from .views_world import list_violations, socket_of

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = NEEDS_CHROMIUM
TEXT = """tools:
  profile: coding
  deny: [exec]
  ask: [effect:write]
channels: { telegram: { enabled: false, groups: { "-100": { tools: { allow: [read] } } } } }
expect:
  - { caller: { channel: telegram, group: "-100" }, lacks: [exec] }
  - { caller: { channel: telegram, group: "-100" }, has: [write] }
"""
READY = {
    "who": ".ways", "settings": ".findings, .help h3", "record": "tbody tr", "now": ".calendar", "usage": ".plot",
    "canvas": "button",
}  # fmt: skip
# every control of a view that can be seen, and whether the keyboard has been there
CONTROLS = """() => {
  const controls = "main :is(a[href], button, input, select, textarea, summary, [tabindex='0'])";
  const isMissed = (each) => each.checkVisibility() && !each.disabled && each.dataset.met === undefined;
  return [...document.querySelectorAll(controls)].filter(isMissed).map((each) => each.outerHTML.slice(0, 120));
}"""
# what a view takes, also where it is cut off and scrolled
WIDTH = "Math.max(...['html', 'main', '.view'].map((name) => document.querySelector(name).scrollWidth))"
MEET = """() => {
  const here = document.activeElement;
  if (here?.closest("main")) here.dataset.met = "";
  const style = getComputedStyle(here), inner = here.querySelector(".hit");
  const isSeen = style.outlineStyle !== "none" || (inner && getComputedStyle(inner).stroke !== "none");
  return { isInside: Boolean(here?.closest("main")), isSeen, what: here.outerHTML.slice(0, 120) };
}"""


async def furnish(world: PageWorld) -> None:
    """Have something to show in every view."""
    job = {"schedule": {"kind": "cron", "expr": "0 9 * * *"}, "payload": {"kind": "agentTurn", "message": "hi"}}
    await world.ask("cron.add", name="water the plants", **job)
    for tool in ("ls", "exec", "nowhere"):
        await world.server.crib.belt(OWNER).call(tool, {})
    await world.ask("agent", message="ls {}", sessionKey="main", idempotencyKey="k1")
    await world.ask("agent.wait", runId="k1", timeoutMs=60_000)


async def show(page: "Page", world: PageWorld, view: str) -> None:
    await page.goto(f"{world.url}#/{view}")
    await page.locator(f".view.{view}").locator(READY[view]).first.wait_for()
    await page.locator("main [aria-busy]").first.wait_for(state="detached")


@pytest.mark.parametrize("view", sorted(READY))
async def test_a_view_fits_every_screen_and_axe_finds_nothing_serious(tmp_path: Path, view: str) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text(TEXT)
    found = list[Any]()
    async with (
        page_of(path, state=tmp_path / "state", devices=nodes_of("p1")) as world,
        phone(socket_of(world), camera_snap={}),
    ):
        await furnish(world)
        page = await world.visit()
        for scheme in ("light", "dark"):
            for size in (NARROW, WIDE):
                await page.set_viewport_size({"width": size["width"], "height": size["height"]})
                await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                await show(page, world, view)
                width = await page.evaluate(WIDTH)
                found += [f"{scheme} {size['width']}: {width} wide"] if width > size["width"] else []
                found += [f"{scheme} {size['width']}: {each}" for each in await list_violations(page)]
    assert found == []


async def test_a_chat_in_which_nothing_was_said_is_no_feed_without_articles() -> None:
    async with page_of() as world:
        page = await world.visit("#/chat/main")
        await page.get_by_text("No messages yet.").wait_for()
        assert await list_violations(page) == []


@pytest.mark.parametrize("view", sorted(READY))
async def test_the_keyboard_alone_reaches_every_control_and_is_seen_there(tmp_path: Path, view: str) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text(TEXT)
    async with page_of(path, state=tmp_path / "state") as world:
        await furnish(world)
        page = await world.visit()
        await show(page, world, view)
        await page.locator("main").focus()
        unseen, is_inside = list[str](), True
        while is_inside:
            await page.keyboard.press("Tab")
            met = await page.evaluate(MEET)
            is_inside = met["isInside"]
            unseen += [met["what"]] if is_inside and not met["isSeen"] else []
        assert unseen == []
        assert await page.evaluate(CONTROLS) == []


async def test_who_may_what_is_asked_and_answered_by_keyboard_alone(tmp_path: Path) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text(TEXT)
    async with page_of(path, state=tmp_path / "state") as world:
        page = await world.visit("#/who")
        await page.get_by_role("combobox", name="Channel").focus()
        await page.keyboard.type("telegram")
        await page.keyboard.press("Tab")
        await page.keyboard.type("-100")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="telegram · -100").wait_for()
        await page.get_by_role("listbox").get_by_role("option").first.focus()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="The way of write").wait_for()


async def test_the_views_speak_ukrainian(tmp_path: Path) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text(TEXT)
    async with page_of(path, state=tmp_path / "state") as world:
        await furnish(world)
        page = await world.visit(locale="uk-UA")
        for view, word in {
            "who": "заборонено", "settings": "Переглянути зміни", "record": "Перевірити ланцюг", "now": "Завдання",
            "usage": "За днями", "canvas": "Оновити",
        }.items():  # fmt: skip
            await show(page, world, view)
            assert word in await page.locator(".view").inner_text()
