"""Record and usage: what was decided and what it took, searched, verified, judged again, and drawn."""

import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.world import device

from toolcrib import OWNER, Caller, Sender
from toolcrib.app.stores import STATE_FILE

from .page_world import NEEDS_CHROMIUM, page_of
from .views_world import GUEST_TOKEN, enter

pytestmark = NEEDS_CHROMIUM


def write_config(folder: Path, text: str = "tools: { deny: [exec] }\n") -> Path:
    path = folder / "crib.yaml"
    path.write_text(text)
    return path


async def test_the_record_is_searched_and_a_decision_judged_again_by_the_rules_of_now(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    async with page_of(path, state=tmp_path / "state") as world:
        crib = world.server.crib
        await crib.belt(OWNER).call("ls", {"path": "."})
        await crib.belt(Caller(channel="telegram", sender=Sender(id="7"))).call("exec", {"command": "ls"})
        page = await world.visit("#/record")
        calls = page.get_by_role("table", name="Calls").get_by_role("row")
        await calls.nth(2).wait_for()
        await page.get_by_label("Sender").fill("id:7")
        await page.get_by_role("button", name="Search").click()
        await page.get_by_role("button", name="ls", exact=True).wait_for(state="detached")
        assert "telegram · id:7" in await calls.nth(1).inner_text()
        await page.get_by_role("button", name="exec", exact=True).click()
        await page.get_by_role("button", name="Judge it again by today's rules").click()
        await page.get_by_text("decided the same").wait_for()
        write_config(tmp_path, "tools: { deny: [write] }\n")
        crib.settings.reload()
        await page.get_by_role("button", name="Judge it again by today's rules").click()
        await page.get_by_text("decided differently").wait_for()


async def test_the_chain_is_verified_and_a_row_that_was_altered_is_named(tmp_path: Path) -> None:
    async with page_of(write_config(tmp_path), state=tmp_path / "state") as world:
        await world.server.crib.belt(OWNER).call("ls", {"path": "."})
        page = await world.visit("#/record")
        await page.get_by_role("button", name="Verify the chain").click()
        await page.get_by_text("The record holds").wait_for()
        with sqlite3.connect(tmp_path / "state" / STATE_FILE) as store:
            store.execute("UPDATE record SET body = replace(body, 'allow', 'deny') WHERE kind = 'decided'")
        await page.get_by_role("button", name="Verify the chain").click()
        await page.get_by_text("The record was changed").wait_for()
        await page.get_by_text("does not follow from the one before it").first.wait_for()


async def test_a_guest_sees_nothing_of_the_record(tmp_path: Path) -> None:
    guest = device("d1", GUEST_TOKEN, "operator.read", "operator.write")
    async with page_of(state=tmp_path / "state", devices=[guest]) as world:
        await world.server.crib.belt(OWNER).call("ls", {"path": "."})
        page = await enter(world, GUEST_TOKEN, "#/record")
        await page.get_by_role("alert").filter(has_text="This is for the owner.").first.wait_for()
        await page.get_by_role("button", name="Verify the chain").click()
        await page.get_by_role("alert").filter(has_text="This is for the owner.").nth(1).wait_for()
