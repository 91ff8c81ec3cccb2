"""Questions in the page: shown whole wherever somebody is, answered by the keyboard, for as long as a yes says."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from toolcrib import OWNER

from .page_world import NEEDS_CHROMIUM, page_of

if TYPE_CHECKING:
    from playwright.async_api import Page, WebSocketRoute

pytestmark = NEEDS_CHROMIUM
ASKED = {"tools": {"ask": ["write"]}}


async def press_until(page: "Page", key: str, wanted: str) -> None:
    """Press a key until what has the focus is called so."""
    for _ in range(40):
        name = await page.evaluate(
            "() => document.activeElement.textContent || document.activeElement.closest('label')?.textContent || ''"
        )
        if name.startswith(wanted):
            return
        await page.keyboard.press(key)
    raise AssertionError(f"the focus never comes to {wanted}")


async def send(page: "Page", text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


async def test_a_question_is_shown_whole_anywhere_and_answered_by_the_keyboard_alone() -> None:
    async with page_of(ASKED) as world:
        page, other = await world.visit("#/chat/main"), await world.visit("#/usage")
        await send(page, "write hello <b>you</b> to b.txt")
        for each in (page, other):
            dialog = each.get_by_role("dialog", name="May write run?")
            await dialog.wait_for()
            sheet = dialog.get_by_label("Exactly what was asked")
            (question,) = await world.ask("approvals.list")
            assert (await sheet.inner_text()).strip() == question["shown"].strip()
            assert "<b>you</b>" in question["shown"]
            assert await sheet.evaluate("(each) => each === document.activeElement")
        # Escape leaves it waiting, and says so
        await other.keyboard.press("Escape")
        await other.get_by_role("dialog").wait_for(state="detached")
        assert len(await world.ask("approvals.list")) == 1
        await other.get_by_role("button", name="1 question waits").wait_for()
        await other.locator("main").focus()
        await other.keyboard.press("a")
        await other.get_by_role("dialog").wait_for()

        await page.get_by_role("button", name="Yes").and_(page.locator(":enabled")).wait_for()
        await press_until(page, "Tab", "Yes")
        assert not Path("b.txt").exists()
        await page.keyboard.press("Enter")
        for each in (page, other):
            await each.get_by_role("dialog").wait_for(state="detached")
            await each.get_by_role("button", name="question").wait_for(state="hidden")
        await page.get_by_role("article", name="Assistant").wait_for()
        assert Path("b.txt").read_text() == "hello <b>you</b>\n"


async def test_a_yes_binds_what_was_chosen_and_a_no_is_a_no() -> None:
    async with page_of(ASKED) as world:
        page = await world.visit("#/chat/main")
        await send(page, "write no to no.txt")
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="No").click()
        await page.get_by_role("article", name="Assistant").wait_for()
        assert not Path("no.txt").exists()

        await send(page, "write yes to yes.txt")
        await dialog.get_by_label("Such calls for some time").check()
        await dialog.get_by_label("How long").select_option("3600")
        await dialog.get_by_label("How many calls").fill("3")
        await dialog.get_by_text("At most 3 calls.").wait_for()
        assert "exactly this call" in await dialog.get_by_role("status").inner_text()
        await dialog.get_by_role("button", name="Yes").click()
        await page.get_by_role("article", name="Assistant").nth(1).wait_for()
        (grant,) = await world.ask("approvals.grants")
        assert (grant["callsLeft"], round(grant["until"] - grant["madeAt"])) == (2, 3600)
        await send(page, "write yes to yes.txt")  # nobody is asked again
        await page.get_by_role("article", name="Assistant").nth(2).wait_for()

        await send(page, "write more to yes.txt")
        await dialog.get_by_label("until this session ends").check()
        await dialog.get_by_role("button", name="Yes").click()
        await page.get_by_role("article", name="Assistant").nth(3).wait_for()
        assert "agent:main:main" in [each["session"] for each in await world.ask("approvals.grants")]


async def test_what_a_question_shows_hides_nothing_and_turns_nothing_around() -> None:
    async with page_of(ASKED) as world:
        page = await world.visit("#/usage")
        hidden = "\u202e\u2066\u200b\u00ad\U000e0041\u2028"
        call = asyncio.ensure_future(world.server.crib.belt(OWNER).call("write", {"path": "b.txt", "content": hidden}))
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text("Never ask again").click()
        await dialog.get_by_text(r"\u202e\u2066\u200b\u00ad\udb40\udc41\u2028").wait_for()
        assert not set(hidden) & set(str(await dialog.text_content()))
        await dialog.get_by_role("button", name="No", exact=True).click()
        await call


async def test_a_question_that_is_settled_elsewhere_goes_and_a_key_meant_for_a_message_answers_none() -> None:
    async with page_of(ASKED) as world:
        page = await world.visit("#/chat/main")
        await send(page, f"write {json.dumps('x' * 9000)} to b.txt")
        await page.keyboard.press("Enter")  # whoever goes on typing
        dialog = page.get_by_role("dialog")
        await dialog.wait_for()
        await page.keyboard.press("Enter")
        (question,) = await world.ask("approvals.list")
        assert "x" * 9000 in await dialog.get_by_label("Exactly what was asked").inner_text()
        await world.ask("approvals.answer", id=question["id"], answer="no")
        await dialog.wait_for(state="detached")
        await page.get_by_role("article", name="Assistant").wait_for()
        assert not Path("b.txt").exists()


async def test_whose_answer_came_too_late_is_told_that_it_did_not_count() -> None:
    async with page_of(ASKED) as world:
        page, held = await world.visit("#/chat/main"), asyncio.Event()
        late = await world.open()

        def pass_on(route: "WebSocketRoute") -> None:
            server, waiting = route.connect_to_server(), list["asyncio.Future[None]"]()

            async def hold(message: str | bytes) -> None:
                await held.wait()
                server.send(message)

            def hear(message: str | bytes) -> None:
                if "approvals.answer" in str(message):
                    waiting.append(asyncio.ensure_future(hold(message)))
                else:
                    server.send(message)

            route.on_message(hear)

        await late.route_web_socket("**/*", pass_on)
        await late.goto(world.url + world.server.crib.devices.new_page_code()["path"][1:])
        await send(page, "write yes to b.txt")
        await late.get_by_role("dialog").get_by_role("button", name="No", exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name="Yes").click()
        await late.get_by_role("dialog").wait_for(state="detached")
        held.set()
        await late.get_by_text("is settled already").wait_for()
        await page.get_by_role("article", name="Assistant").wait_for()
        assert Path("b.txt").read_text() == "yes\n"
