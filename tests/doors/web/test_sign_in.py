"""Coming in and going out as people do it: a code too late, an address in the wrong field, a gateway that is away."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.world import TOKEN, device

from toolcrib.doors.gateway.credentials import Credentials

from .page_world import NEEDS_CHROMIUM, PageWorld, page_of
from .views_world import GUEST_TOKEN

pytestmark = NEEDS_CHROMIUM
FIELD = "Token or password"


def new_code(world: PageWorld) -> str:
    """Return what stands behind the address that a gateway prints."""
    return str(world.server.crib.devices.new_page_code()["path"])[1:]


async def test_a_new_code_counts_in_the_tab_that_an_old_one_was_opened_in() -> None:
    async with page_of() as world:
        page = await world.open()
        await page.goto(world.url + "#code=of-yesterday")
        await page.get_by_text("this code was used").wait_for()
        await page.goto(world.url + new_code(world))  # the same document: nothing is loaded for it
        await page.locator(".view.chat").wait_for()
        assert "code" not in page.url
        await page.goto(world.url + new_code(world))  # who is in already stays who it is
        await page.locator(".view.chat").wait_for()
        assert "code" not in page.url
        assert len((await world.ask("device.pair.list"))["paired"]) == 1
        world.complaints.clear()  # that a code of before no longer counts may be said


async def test_a_whole_address_in_the_field_and_a_code_that_a_terminal_broke_let_in() -> None:
    async with page_of() as world:
        page = await world.open()
        await page.goto(world.url)
        await page.get_by_text("You are not signed in.").wait_for()
        await page.get_by_label(FIELD).fill("something")
        await page.keyboard.press("Enter")
        await page.get_by_text("This token or password is wrong").wait_for()
        await page.get_by_label(FIELD).fill(f" {world.url}{new_code(world)} ")
        await page.keyboard.press("Enter")
        await page.locator(".view.chat").wait_for()

        other, code = await world.open(), new_code(world)
        await other.goto(f"{world.url}{code[:12]}%20{code[12:]}%20")
        await other.locator(".view.chat").wait_for()
        assert len((await world.ask("device.pair.list"))["paired"]) == 2


async def test_a_password_opens_the_page_like_a_token() -> None:
    async with page_of(credentials=Credentials("password", "a long password", {})) as world:
        page = await world.open()
        await page.goto(world.url)
        await page.get_by_label(FIELD).fill("a long password")
        await page.keyboard.press("Enter")
        await page.locator(".view.chat").wait_for()
        assert "a long password" not in await page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")


async def test_who_signs_out_while_no_gateway_answers_is_out_for_good() -> None:
    async with page_of() as world:
        page = await world.visit()
        await page.route("**/page/logout", lambda route: route.abort("connectionrefused"))
        await page.get_by_label("Page menu").click()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label(FIELD).wait_for()
        await page.wait_for_function("() => localStorage.getItem('toolcrib.page') === null")
        await page.reload()
        await page.get_by_text("You are not signed in.").wait_for()
        assert await page.locator(".view.chat").count() == 0


async def test_who_signs_in_while_no_gateway_answers_is_told_so() -> None:
    async with page_of() as world:
        page, reached = await world.open(), list[str]()

        async def pass_on(route: Any) -> None:
            reached.append(route.url)
            if len(reached) == 2:  # the first was before anybody gave a token
                await route.close(code=1012)
            else:
                route.connect_to_server()

        await page.route_web_socket("**/*", pass_on)
        await page.goto(world.url)
        await page.get_by_text("You are not signed in.").wait_for()
        await page.get_by_label(FIELD).fill(TOKEN)
        await page.keyboard.press("Enter")
        await page.get_by_text("The gateway is lost.").wait_for()
        await page.locator(".view.chat").wait_for()


async def test_a_page_without_tls_from_another_machine_says_things_too() -> None:
    async with page_of() as world:
        page = await world.open()
        await page.add_init_script("delete Crypto.prototype.randomUUID")  # as a browser leaves it out there
        await page.goto(world.url + new_code(world))
        await page.get_by_role("textbox", name="Message").fill("list .")
        await page.keyboard.press("Enter")
        await page.get_by_role("article", name="Assistant").wait_for()
        await page.get_by_role("button", name="New session").click()
        await page.get_by_text("No messages yet.").wait_for()
        assert not page.url.endswith("#/chat/main")


async def test_who_signs_in_next_finds_nothing_that_the_one_before_wrote(tmp_path: Path) -> None:
    path = tmp_path / "crib.json"
    path.write_text('{"tools": {"deny": ["exec"]}}')
    path.chmod(0o600)
    guest = device("d1", GUEST_TOKEN, "operator.read", "operator.write")
    async with page_of(path, devices=[guest]) as world:
        page = await world.visit("#/settings")
        await page.get_by_label("Text of the configuration").fill('{"tools": {"deny": ["exec", "a private name"]}}')
        await page.goto(world.url + "#/chat/main")
        await page.get_by_role("searchbox").fill("a private search")
        own = [each["deviceId"] for each in (await world.ask("device.pair.list"))["paired"]]
        await world.ask("device.token.revoke", deviceId=next(each for each in own if each.startswith("page-")))
        await page.get_by_label(FIELD).fill(GUEST_TOKEN)
        await page.keyboard.press("Enter")
        await page.get_by_role("searchbox").wait_for()
        assert await page.get_by_role("searchbox").input_value() == ""
        await page.goto(world.url + "#/who")
        await page.get_by_text("This is for the owner.").nth(2).wait_for()  # the belt, what is expected, the draft
        assert await page.locator("textarea").count() == 0
