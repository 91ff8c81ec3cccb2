"""Settings: the configuration as it is written, what its keys mean, and a change that is seen before it is saved."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.world import device

from toolcrib import OWNER

from .page_world import NEEDS_CHROMIUM, PageWorld, page_of
from .views_world import GUEST_TOKEN, enter

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = NEEDS_CHROMIUM
SELECTED = (
    "(({value, selectionStart, selectionEnd}) => value.slice(selectionStart, selectionEnd))(document.activeElement)"
)
SECRET = "sk-live-83hf92kd02"
TEXT = f"""# who may what
tools:
  profile: coding
  deny: [exec]
models: {{ openai: {{ apiKey: "{SECRET}" }} }}
"""


def write_config(folder: Path, text: str = TEXT) -> Path:
    path = folder / "crib.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


async def visit_settings(world: PageWorld) -> "Page":
    page = await world.visit("#/settings")
    await page.get_by_label("Text of the configuration").wait_for()
    return page


async def edit(page: "Page", old: str, new: str) -> None:
    """Change the draft as somebody who types."""
    area = page.get_by_label("Text of the configuration")
    await area.fill((await area.input_value()).replace(old, new))


async def edit_and_review(page: "Page", old: str, new: str) -> None:
    await edit(page, old, new)
    await page.get_by_role("button", name="Review changes").click()


async def test_a_change_is_shown_as_a_diff_before_it_is_saved_and_secrets_stay_where_they_are(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    async with page_of(path, state=tmp_path / "state") as world:
        page = await visit_settings(world)
        await edit_and_review(page, "[exec]", "[exec, write]")
        diff = page.get_by_role("region", name="Differences")
        assert [await diff.locator("del").inner_text(), await diff.locator("ins").inner_text()] == [
            "-   deny: [exec]",
            "+   deny: [exec, write]",
        ]
        assert path.read_text() == TEXT
        assert SECRET not in await page.content()
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_text("Changed: tools.deny").wait_for()
        assert path.read_text() == TEXT.replace("[exec]", "[exec, write]")
        assert "write" not in world.server.crib.belt(OWNER).tools


async def test_a_secret_that_was_typed_is_left_out_once_it_is_saved_and_the_next_save_keeps_it(tmp_path: Path) -> None:
    path, typed = write_config(tmp_path), "sk-ant-much-longer-0099887766"
    async with page_of(path, state=tmp_path / "state") as world:
        page = await visit_settings(world)
        for old, new in (("models: {", f"models: {{ anthropic: {{ apiKey: {typed} }},"), ("[exec]", "[exec, write]")):
            await edit_and_review(page, old, new)
            await page.get_by_role("button", name="Save", exact=True).click()
            await page.get_by_text("Saved. Changed:").wait_for()
            assert typed not in await page.get_by_label("Text of the configuration").input_value()
        assert typed in path.read_text()
        assert SECRET in path.read_text()
        assert "[exec, write]" in path.read_text()


async def test_a_conflict_is_said_and_the_draft_is_kept(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    async with page_of(path, state=tmp_path / "state") as world:
        page = await visit_settings(world)
        await edit_and_review(page, "[exec]", "[exec, write]")
        path.write_text(TEXT + "limits: { turns: 9 }\n")
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_text("Somebody changed the file meanwhile").wait_for()
        assert "[exec, write]" in await page.get_by_label("Text of the configuration").input_value()
        assert "[exec, write]" not in path.read_text()
        await page.get_by_role("button", name="Compare with the file as it is now").click()
        await page.locator("del").filter(has_text="limits: { turns: 9 }").wait_for()  # what saving would take away


async def test_what_stands_beside_the_text_is_that_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    async with page_of(path, state=tmp_path / "state") as world:
        page = await visit_settings(world)
        await edit_and_review(page, "[exec]", "[exec, write]")
        await page.get_by_role("button", name="Save", exact=True).press("Enter")
        await page.get_by_text("Changed: tools.deny").wait_for()
        await page.get_by_role("row", name="tools.deny").get_by_text('["exec","write"]').wait_for()
        # whoever saved by the keyboard goes on from what is said of it
        assert "Changed: tools.deny" in await page.evaluate("document.activeElement.textContent")

        await edit(page, "profile: coding", "profile: [")
        path.write_text(path.read_text().replace("profile: coding", "profile: minimal"))
        await page.get_by_role("button", name="Review changes").click()
        await page.get_by_role("listitem").get_by_text("not valid YAML").wait_for()
        await page.get_by_role("button", name="Discard the draft").click()
        told = "() => document.querySelector('.editor textarea').value.includes('profile: minimal')"
        await page.wait_for_function(told)


async def test_a_draft_that_cannot_count_is_refused_in_a_sentence_with_its_line(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    async with page_of(path, state=tmp_path / "state") as world:
        page = await visit_settings(world)
        await edit_and_review(page, "profile: coding", "profil: coding")
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_role("alert").filter(has_text="tools.profil").first.wait_for()
        assert path.read_text() == TEXT


async def test_an_address_with_a_line_goes_there_and_the_key_is_explained(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path), state=tmp_path / "state") as world:
        page = await world.visit("#/settings/4")
        await page.get_by_role("heading", name="tools.deny", exact=True).wait_for()
        assert await page.evaluate(SELECTED) == "  deny: [exec]"


async def test_every_line_has_its_number_however_tall_the_window_is(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path, TEXT + "#\n" * 200), state=tmp_path / "state") as world:
        page = await visit_settings(world)
        await page.set_viewport_size({"width": 1440, "height": 1800})
        lines, area = page.locator(".editor .lines"), page.get_by_label("Text of the configuration")
        tall = [await each.evaluate("(each) => each.offsetHeight") for each in (lines, area)]
        assert tall[0] == tall[1]


async def test_a_draft_outlives_a_look_at_another_view(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path), state=tmp_path / "state") as world:
        page = await visit_settings(world)
        await edit(page, "[exec]", "[exec, write]")
        await page.get_by_role("link", name="Now", exact=True).click()
        await page.get_by_role("heading", name="Turns and subagents").wait_for()
        await page.get_by_role("link", name="Settings", exact=True).click()
        assert "[exec, write]" in await page.get_by_label("Text of the configuration").input_value()


async def test_a_guest_is_told_that_the_configuration_is_not_theirs(tmp_path: Path) -> None:
    guest = device("d1", GUEST_TOKEN, "operator.read", "operator.write")
    async with page_of(write_config(tmp_path), state=tmp_path / "state", devices=[guest]) as world:
        page = await enter(world, GUEST_TOKEN, "#/settings")
        await page.get_by_role("alert").filter(has_text="This is for the owner.").first.wait_for()
        assert "coding" not in await page.content()
