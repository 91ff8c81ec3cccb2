"""May this caller still ask? Whoever a channel let in and would not any more is ended, with all that they left."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.models.servers import Say
from tests.joints.asking_world import PersonWorld, person_world, until
from toolcrib.define.caller import Caller, Sender

pytestmark = pytest.mark.anyio

HOLD, DONE = Say(calls=(("a", "hold", "{}"),)), Say(text="done with it")
MAY = {"direct": {"tools": {"allow": ["*"]}}, "groups": {"-1": {"tools": {"allow": ["*"]}}}}


async def unpair(world: PersonWorld) -> None:
    await world.ask("channels.unpair", toolcrib.OWNER, channel="box", sender="kim")


async def switch_off(world: PersonWorld) -> None:
    world.reload(enabled=False)


async def shut(world: PersonWorld) -> None:
    world.reload(dmPolicy="disabled")


async def strike_out(world: PersonWorld) -> None:
    world.reload(allowFrom=["id:lee"])


async def leave_group(world: PersonWorld) -> None:
    world.reload(groups={})


async def change_name(world: PersonWorld) -> None:
    world.reload(allowFrom=["id:kim", "id:lee"], dmPolicy="allowlist")


LISTED = {"dmPolicy": "allowlist", "allowFrom": ["id:kim"]}
WAYS: dict[str, tuple[Callable[[PersonWorld], Awaitable[None]], dict[str, Any], str]] = {
    "unpaired": (unpair, {}, ""),
    "channel off": (switch_off, LISTED, ""),
    "nobody is let in": (shut, LISTED, ""),
    "struck from the list": (strike_out, LISTED, ""),
    "group not answered": (leave_group, {}, "-1"),
}


def author(group: str) -> Caller:
    key = f"agent:main:box:group:{group}" if group else "agent:main:box:dm:kim"
    return Caller(channel="box", group=group or None, sender=Sender(id="kim"), session=key, door="channel")


@pytest.mark.parametrize("way", WAYS)
async def test_a_turn_in_the_midst_of_a_call_is_stopped_within_a_second(way: str, tmp_path: Path) -> None:
    revoke, own, group = WAYS[way]
    async with person_world(tmp_path, HOLD, DONE, config={"box": {**MAY, **own}}) as world:
        if way == "unpaired":
            await world.pair("kim")
        count = len(world.box.posts)
        world.box.put("kim", "hold it", group)
        await until(lambda: world.held.begun)
        world.box.put("kim", "and again", group)  # waits behind it
        await revoke(world)
        await until(lambda: world.held.stopped, 1.0)
        world.held.go.set()
        await until(lambda: not [each for each in world.crib.revocations.list_live() if each.caller.door])
        assert (world.held.begun, world.held.done, len(world.server.asked)) == (1, 0, 1)
        assert [each.text for each in world.box.posts[count:] if each.text == "done with it"] == []


@pytest.mark.parametrize("way", WAYS)
async def test_their_jobs_run_no_more_and_neither_does_any_other_call(way: str, tmp_path: Path) -> None:
    revoke, own, group = WAYS[way]
    async with person_world(tmp_path, HOLD, DONE, config={"box": {**MAY, **own}}) as world:
        if way == "unpaired":
            await world.pair("kim")
        world.held.go.set()
        job = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "go"}}
        made = await world.ask("cron.add", author(group), job=job)
        run = {"id": made["id"], "mode": "force", "wait": True}
        assert (await world.ask("cron.run", toolcrib.OWNER, **run))["status"] == "ok"
        assert world.held.done == 1
        assert (await world.crib.belt(author(group)).call("hold")).status == "ok"
        await revoke(world)
        told = await world.ask("cron.run", toolcrib.OWNER, **run)
        assert told["status"] == "error"
        assert "let in no more" in told["error"]
        refused = await world.crib.belt(author(group)).call("hold")
        assert (refused.status, refused.details["code"]) == ("error", "denied")
        assert world.held.done == 2


async def test_a_program_speaks_for_whom_it_names(tmp_path: Path) -> None:
    """The twin: a caller without a door's mark is the program's word, whatever the configuration says."""
    async with person_world(tmp_path, DONE, config={"box": {**MAY, "enabled": False}}) as world:
        world.held.go.set()
        for caller in (Caller(channel="box", sender=Sender(id="kim")), Caller(channel="web"), toolcrib.OWNER):
            belt = world.crib.belt(caller)
            assert "hold" not in belt.tools or (await belt.call("hold")).status == "ok", caller


async def test_a_change_that_leaves_them_in_stops_nobody(tmp_path: Path) -> None:
    async with person_world(tmp_path, HOLD, DONE, config={"box": {**MAY, **LISTED}}) as world:
        world.box.put("kim", "hold it")
        await until(lambda: world.held.begun)
        await change_name(world)
        await world.crib.revocations.review()
        world.held.go.set()
        await until(lambda: world.box.posts)
        assert [each.text for each in world.box.posts] == ["done with it"]


async def test_whoever_is_paired_again_is_served_again(tmp_path: Path) -> None:
    async with person_world(tmp_path, HOLD, DONE, config={"box": MAY}) as world:
        await world.pair("kim")
        world.box.put("kim", "hold it")
        await until(lambda: world.held.begun)
        await unpair(world)
        await until(lambda: world.held.stopped, 1.0)
        world.held.go.set()
        await world.pair("kim")
        world.box.put("kim", "again")
        await until(lambda: world.box.posts[-1].text == "done with it")


async def test_what_was_kept_before_doors_left_a_mark_is_judged_by_its_channel(tmp_path: Path) -> None:
    async with person_world(tmp_path, DONE, config={"box": {**MAY, **LISTED}}) as world:
        for sender, channel, may in (
            ("kim", "box", True),
            ("mo", "box", False),
            ("x", "device", False),
            ("mo", "web", True),
        ):
            kept = Caller.from_json({"channel": channel, "sender": {"id": sender}, "session": "s"})
            assert (not await world.crib.revocations.explain(kept)) is may, kept


async def test_a_channel_that_is_switched_off_says_nothing_and_is_at_work_again_when_it_is_on(tmp_path: Path) -> None:
    async with person_world(tmp_path, DONE, config={"box": {**MAY, **LISTED}}) as world:
        said = {"channel": "box", "to": "kim", "message": "hi"}
        await world.ask("send", toolcrib.OWNER, **said)
        world.reload(enabled=False)
        with pytest.raises(toolcrib.ToolError, match="no channel"):
            await world.ask("send", toolcrib.OWNER, **said)
        assert (await world.ask("channels.status", toolcrib.OWNER))["channels"][0]["state"] == "off"
        world.reload(enabled=True)
        assert (await world.ask("send", toolcrib.OWNER, **said))["status"] == "sent"
        world.box.put("kim", "hello")
        await until(lambda: [each.text for each in world.box.posts] == ["hi", "hi", "done with it"])
