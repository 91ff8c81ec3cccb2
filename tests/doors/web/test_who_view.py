"""Who may what: any caller's belt, the way of every tool, and a change that is tried before it counts."""

from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.world import device

from .page_world import NEEDS_CHROMIUM, page_of
from .views_world import GUEST_TOKEN, enter

pytestmark = NEEDS_CHROMIUM
TEXT = """tools:
  deny: [exec]
channels:
  telegram:
    enabled: false
    groups:
      "-100": { tools: { allow: [read, grep] } }
models: { openai: { apiKey: sk-live-83hf92kd02 } }
expect:
  - { caller: { channel: telegram, group: "-100" }, lacks: [exec] }
  - { caller: { channel: telegram, group: "-100" }, has: [write] }
"""


def write_config(folder: Path) -> Path:
    path = folder / "crib.yaml"
    path.write_text(TEXT)
    path.chmod(0o600)
    return path


async def test_a_caller_is_picked_and_its_belt_says_why_with_the_line_of_the_rule(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path), state=tmp_path / "state") as world:
        page = await world.visit("#/who")
        exec_row = page.get_by_role("row").filter(has=page.get_by_role("button", name="exec", exact=True))
        assert "deny has 'exec'" in await exec_row.inner_text()
        await page.get_by_role("combobox", name="Channel").fill("telegram")
        await page.get_by_role("combobox", name="Group").fill("-100")
        await page.get_by_role("button", name="Show").click()
        await page.get_by_role("heading", name="telegram · -100").wait_for()
        write_row = page.get_by_role("row").filter(has=page.get_by_role("button", name="write", exact=True))
        assert "denied\tgroup" in await write_row.inner_text()
        await exec_row.get_by_role("link").click()
        await page.get_by_role("heading", name="tools.deny", exact=True).wait_for()  # the settings, at its line
        assert await page.evaluate("document.activeElement.selectionStart") == len("tools:\n")


async def test_every_tool_has_its_way_in_the_picture_which_the_keyboard_walks(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path), state=tmp_path / "state") as world:
        page = await world.visit("#/who/channel%3Dtelegram%26group%3D-100")
        ways = page.get_by_role("listbox", name="Layers").get_by_role("option")
        await ways.first.wait_for()
        told = [str(await each.get_attribute("aria-label")) for each in await ways.all()]
        belt = (await world.ask("policy.explain", who={"channel": "telegram", "group": "-100"}))["tools"]
        assert [each.split(":")[0] for each in told] == [each["tool"] for each in belt]
        assert "exec: denied at the layer global: deny has 'exec' (tools)" in told
        await ways.first.focus()
        await page.keyboard.press("End")
        await page.keyboard.press("Enter")
        last = belt[-1]["tool"]
        await page.get_by_role("heading", name=f"The way of {last}").wait_for()
        steps = await page.locator(".steps li").all_inner_texts()
        assert len(steps) == len(belt[-1]["steps"])
        assert any("group" in each and "denied" in each for each in steps)


async def test_what_is_expected_is_green_or_red_with_its_reason(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path), state=tmp_path / "state") as world:
        page = await world.visit("#/who")
        part = page.locator("section").filter(has=page.get_by_role("heading", name="What is expected"))
        entries = part.locator(".findings > li")
        await entries.nth(1).wait_for()
        kept, broken = await entries.all_inner_texts()
        assert kept.startswith("kept")
        assert broken.startswith("broken")
        assert "not in allow (channels.telegram.groups.-100.tools)" in broken


async def test_a_change_is_tried_for_chosen_callers_and_counts_for_nobody(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    async with page_of(path, state=tmp_path / "state") as world:
        page = await world.visit("#/who/channel%3Dtelegram%26group%3D-100")
        area = page.get_by_label("Text of the configuration")
        await area.fill((await area.input_value()).replace("[read, grep]", "[read, grep, write]"))
        await page.get_by_role("button", name="Add this caller").click()
        await page.get_by_role("button", name="Compare", exact=True).click()
        changes = page.get_by_role("table", name="What it changes for whom").get_by_role("row")
        await changes.nth(1).wait_for()
        assert await changes.count() == 2
        told = await changes.nth(1).inner_text()
        assert told.startswith("write\ttelegram · -100")
        assert "denied\tallowed" in told
        part = page.locator("section").filter(has=page.get_by_role("heading", name="What is expected"))
        await part.get_by_text("broken").first.wait_for(state="detached")  # of the draft
        assert path.read_text() == TEXT


async def test_a_draft_that_is_none_is_said_so(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path), state=tmp_path / "state") as world:
        page = await world.visit("#/who")
        await page.get_by_label("Text of the configuration").fill("tools: [\n")
        await page.get_by_role("button", name="Compare", exact=True).click()
        await page.get_by_role("alert").filter(has_text="crib.yaml").first.wait_for()


async def test_a_guest_is_told_nothing_of_what_others_may(tmp_path: Path) -> None:
    guest = device("d1", GUEST_TOKEN, "operator.read", "operator.write")
    async with page_of(write_config(tmp_path), state=tmp_path / "state", devices=[guest]) as world:
        page = await enter(world, GUEST_TOKEN, "#/who")
        await page.get_by_role("alert").filter(has_text="This is for the owner.").first.wait_for()
        assert '-100"' not in await page.content()
