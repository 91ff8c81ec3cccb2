"""What somebody began in a group is theirs and the owner's: runs, commands, pages, canvases, jobs, pending calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.app.test_browser import crib_with, use
from tests.backends.browsers.sites import NEEDS_CHROMIUM
from toolcrib import Caller, Crib, Ctx, Result, Sender, ToolError, tool

pytestmark = pytest.mark.anyio

GROUP = "agent:main:box:group:-1"
PLACE: dict[str, Any] = {"groups": {"-1": {"tools": {"allow": ["*"]}}}, "direct": {"tools": {"allow": ["*"]}}}
CONFIG = {
    "channels": {"box": {**PLACE, "owners": ["id:boss"]}},
    "tools": {"exec": {"security": "full"}, "guests": "full"},
    "models": {"default": "offline:rules"},
}


def member(id: str, **more: Any) -> Caller:
    return Caller(**{"channel": "box", "group": "-1", "session": GROUP, "sender": Sender(id=id), **more})


BOSS, KIM, LEE = member("boss"), member("kim"), member("lee")
# whoever could pass for kim, and is not
NOT_KIM = {
    "another member": LEE,
    "one who is called kim": member("x", sender=Sender(id="x", username="kim", name="kim")),
    "one with a name alone": member("x", sender=Sender(username="kim", name="kim")),
    "nobody": member("x", sender=None),
    "kim of another channel": member("kim", channel="net"),
    "lee's subagent": member("lee", session="agent:main:subagent:1", parents=(GROUP,)),
}


@tool
async def ask_later(ctx: Ctx) -> Result:
    """Leave it to somebody else."""
    return await ctx.later("the-handle")


@asynccontextmanager
async def group_crib(folder: Path) -> AsyncIterator[Crib]:
    (folder / "work").mkdir()
    config = {**CONFIG, "workspace": {"root": str(folder / "work")}}
    async with toolcrib.open(config, tools=[ask_later], state=folder / "state", env={}) as crib:
        yield crib


async def run(crib: Crib, caller: Caller, name: str, **args: Any) -> Result:
    return await crib.belt(caller).call(name, args)


def other_actions(id: str) -> list[dict[str, Any]]:
    """Every action of `process` on a command, by its id."""
    typed: list[dict[str, Any]] = [
        {"action": "write", "data": "x\n"},
        {"action": "submit", "data": "x"},
        {"action": "paste", "text": "x"},
    ]
    typed += [{"action": "send-keys", "keys": ["Enter"]}]
    return [{**each, "sessionId": id} for each in (*typed, *({"action": a} for a in ("poll", "log", "kill", "remove")))]


async def test_a_command_of_one_member_is_out_of_reach_of_the_others(tmp_path: Path) -> None:
    async with group_crib(tmp_path) as crib:
        begun = await run(crib, KIM, "exec", command="cat > typed.txt", background=True)
        id = begun.details["sessionId"]
        for who, caller in NOT_KIM.items():
            listed = await run(crib, caller, "process", action="list")
            assert id not in listed.plain_text, who
            for spelled in (id, f" {id} ", id.upper()):
                for action in other_actions(spelled):
                    told = await run(crib, caller, "process", **action)
                    assert told.status == "error", (who, action)
        for caller in (KIM, BOSS):
            assert id in (await run(crib, caller, "process", action="list")).plain_text
            assert (await run(crib, caller, "process", action="submit", sessionId=id, data="mine")).status == "ok"
        assert (await run(crib, BOSS, "process", action="kill", sessionId=id)).status == "ok"
        await run(crib, KIM, "process", action="remove", sessionId=id)
        assert (tmp_path / "work" / "typed.txt").read_text() == "mine\nmine\n"


async def test_what_the_owner_runs_in_a_group_is_nobody_elses(tmp_path: Path) -> None:
    async with group_crib(tmp_path) as crib:
        id = (await run(crib, BOSS, "exec", command="sleep 300", background=True)).details["sessionId"]
        for caller in (KIM, *NOT_KIM.values()):
            for action in other_actions(id):
                assert (await run(crib, caller, "process", **action)).status == "error", action
        elsewhere = Caller(owner=True, session=GROUP)
        assert id in (await run(crib, elsewhere, "process", action="list")).plain_text


async def test_a_full_house_of_one_member_leaves_room_for_the_others(tmp_path: Path) -> None:
    async with group_crib(tmp_path) as crib:
        ended = [run(crib, KIM, "exec", command="sleep 300", background=True) for _ in range(32)]
        assert {each.status for each in await asyncio.gather(*ended)} == {"ok"}
        assert (await run(crib, KIM, "exec", command="true", background=True)).details["code"] == "busy"
        for caller in (LEE, BOSS):
            assert (await run(crib, caller, "exec", command="true", background=True)).status == "ok"


@pytest.mark.parametrize("is_told_by_log", [False, True])
async def test_a_subagent_of_one_member_hears_no_other(is_told_by_log: bool, tmp_path: Path) -> None:
    async with group_crib(tmp_path) as crib:
        spawned = await crib.ask("subagents.spawn", {"task": "say hi", "label": "helper"}, caller=KIM)
        await crib.subagents.idle()
        key = spawned["childSessionKey"]
        if is_told_by_log:
            crib.subagents._runs.clear()  # as after a restart
        for who, caller in NOT_KIM.items():
            assert await crib.ask("subagents.list", {}, caller=caller) == [], who
            for target in (key, spawned["runId"], "helper"):
                for method, more in (("steer", {"message": "now mine"}), ("stop", {})):
                    with pytest.raises(ToolError, match="there is no subagent"):
                        await crib.ask(f"subagents.{method}", {"target": target, **more}, caller=caller)
            assert (await crib.ask("subagents.stop", {"target": "all"}, caller=caller))["stopped"] == []
        for caller in (BOSS, KIM):
            assert [each["sessionKey"] for each in await crib.ask("subagents.list", {}, caller=caller)] == [key]
        told = await crib.ask("subagents.steer", {"target": "helper", "message": "go on"}, caller=KIM)
        assert told["status"] == "resumed"
        await crib.subagents.idle()


async def test_a_canvas_of_one_member_is_not_taken_over(tmp_path: Path) -> None:
    async with group_crib(tmp_path) as crib:
        crib.canvases.host = lambda seen_from: "http://canvas.test"
        for caller, html in ((KIM, "<p>kim"), (BOSS, "<p>boss"), (LEE, "<p>lee")):
            assert (await run(crib, caller, "canvas", action="present", html=html)).status == "ok"
        listed = [await crib.ask("canvas.list", {}, caller=who) for who in (KIM, LEE, BOSS)]
        assert [len(told["canvases"]) for told in listed] == [1, 1, 3]
        shown = {canvas.caller.sender.id: canvas.content for canvas in crib.canvases._open_now if canvas.caller.sender}
        assert shown == {"kim": "<p>kim", "boss": "<p>boss", "lee": "<p>lee"}


async def test_a_pending_call_and_a_job_of_one_member_are_no_others(tmp_path: Path) -> None:
    async with group_crib(tmp_path) as crib:
        assert (await run(crib, KIM, "ask_later")).status == "pending"
        spec = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "go"}}
        job = await crib.ask("cron.add", {"job": spec}, caller=KIM)
        for who, caller in NOT_KIM.items():
            assert await crib.ask("calls.list", {}, caller=caller) == [], who
            with pytest.raises(ToolError):
                await crib.complete("the-handle", "mine", caller=caller, session=GROUP)
            assert (await crib.ask("cron.list", {}, caller=caller))["jobs"] == [], who
            with pytest.raises(ToolError):
                await crib.ask("cron.run", {"id": job["id"], "mode": "force"}, caller=caller)
            with suppress(ToolError):  # as a subagent, who has no cron
                assert not (await crib.ask("cron.remove", {"id": job["id"]}, caller=caller))["removed"]
        for caller in (KIM, BOSS):
            assert len((await crib.ask("cron.list", {}, caller=caller))["jobs"]) == 1
        assert (await crib.complete("the-handle", "done", caller=BOSS)).plain_text == "done"  # type: ignore[union-attr]


async def visit(crib: Crib, caller: Caller, address: str) -> str:
    """Return what a caller is known by where they go; their pages are closed behind them."""
    await use(crib.belt(caller), "open", targetUrl=address)
    told = await use(crib.belt(caller), "act", request={"kind": "evaluate", "fn": "() => document.cookie"})
    await use(crib.belt(caller), "stop")
    return told.plain_text


@NEEDS_CHROMIUM
async def test_everybody_has_cookies_of_their_own_and_the_owner_keeps_theirs(tmp_path: Path) -> None:
    alone = member("kim", group=None, session="agent:main:box:dm:kim")
    people = {"owner": toolcrib.OWNER, "kim": KIM, "lee": LEE, "boss": BOSS, "alone": alone}
    pages = {name: (f"content-type: text/html\r\nset-cookie: {name}=in; Max-Age=999", b"<p>in") for name in people}
    async with crib_with(tmp_path, more={"channels": CONFIG["channels"]}, **pages) as (crib, site):
        for name, caller in people.items():
            assert {each for each in people if f"{each}=in" in await visit(crib, caller, f"{site}/{name}")} == {name}
        reset = {"method": "POST", "path": "/reset-profile"}
        await crib.ask("browser.request", reset, caller=toolcrib.OWNER)
        for name, caller in people.items():
            said = await visit(crib, caller, site)
            assert {each for each in people if f"{each}=in" in said} == {name} - {"owner"}, said


@NEEDS_CHROMIUM
async def test_open_pages_of_one_member_are_not_shown_to_another(tmp_path: Path) -> None:
    async with crib_with(tmp_path, more={"channels": CONFIG["channels"]}) as (crib, site):
        await use(crib.belt(KIM), "open", targetUrl=site)
        for caller in (LEE, BOSS):
            assert site not in (await use(crib.belt(caller), "tabs")).plain_text
            refused = await crib.belt(caller).call("browser", {"action": "snapshot", "targetId": "t1"})
            assert "Prices" not in refused.plain_text
        assert site in (await use(crib.belt(KIM), "tabs")).plain_text


async def test_the_pages_of_others_leave_room_for_the_owners(tmp_path: Path) -> None:
    async with crib_with(tmp_path, more={"channels": CONFIG["channels"]}) as (crib, site):
        origin = site.rstrip("/")
        for at in range(16):
            crib.browser.permit(replace(KIM, session=f"agent:main:telegram:group:-1:thread:{at}"), origin)
        with pytest.raises(ToolError, match="have pages open"):
            crib.browser.permit(LEE, origin)
        crib.browser.permit(BOSS, origin)
