"""From where: what a body asks the services for goes back to what its call has read, and so does what they answer."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.doors.gateway.world import TOKEN, gateway_of
from toolcrib import OWNER, Ctx, Result, tool
from toolcrib.app import Crib
from toolcrib.define.event import ToolFinished
from toolcrib.define.message import Call
from toolcrib.testing import FakeApprover, ScriptedModel, call_reply, text_reply

from .sources_world import CARD, MAIN, ORDER, OTHER, PAGE, Made, page, sources, turn

pytestmark = pytest.mark.anyio

LETTER = "inbox/letter.txt"


@tool(effects={"read"})
async def pass_on(ctx: Ctx, method: str, params: str, reads: str = LETTER) -> Result:
    """Read a file, and ask the services for something with what stands there."""
    text = (await ctx.workspace.read(reads)).decode()
    await ctx.rpc(method, json.loads(params.replace("ORDER", text)))
    return Result.text("passed on")


@tool(effects={"read"})
async def look_up(ctx: Ctx, method: str, params: str = "{}") -> str:
    """Tell what the services answer."""
    return json.dumps(await ctx.rpc(method, json.loads(params)), default=str)


def open_crib(folder: Path, services: Sequence[object] = (), **tools: Any) -> Crib:
    (root := folder / "work").mkdir()
    (root / "inbox").mkdir()
    (root / LETTER).write_text(ORDER)
    (root / "own.txt").write_text(ORDER)
    config = {"workspace": {"root": str(root)}, "models": {"default": "offline:rules"}, "tools": tools}
    return toolcrib.open(
        config, tools=[page, pass_on, look_up], services=services, state=folder / "state", env={"PATH": "/usr/bin:/bin"}
    )


JOB = {"name": "ORDER", "schedule": {"everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "ORDER"}}
ASKED: list[tuple[str, dict[str, Any], str]] = [
    ("wake", {"text": "ORDER"}, "cron"),
    ("sessions.send", {"key": OTHER, "message": "ORDER"}, "sessions_send"),
    ("cron.add", {"job": JOB}, "cron"),
    ("subagents.spawn", {"task": "ORDER"}, "sessions_spawn"),
]


@pytest.mark.parametrize(("method", "params", "name"), ASKED, ids=[each[0] for each in ASKED])
@pytest.mark.parametrize("reads", [LETTER, "own.txt"])
async def test_what_a_call_has_read_itself_counts_in_the_calls_that_it_makes(
    tmp_path: Path, method: str, params: Mapping[str, Any], name: str, reads: str
) -> None:
    people = FakeApprover(True)
    call = Call("a", "pass_on", {"method": method, "params": json.dumps(params), "reads": reads})
    async with open_crib(tmp_path, askAfterOutside=["cron", "sessions_send", "sessions_spawn", "write"]) as crib:
        await turn(crib, ("ls", {}), session=OTHER)
        model = ScriptedModel([call_reply(call), *[text_reply("done")] * 4], CARD)
        who = replace(OWNER, session=MAIN)
        events = crib.turn("go", caller=who, session=MAIN, model=model, approver=people)
        done = [each.result async for each in events if isinstance(each, ToolFinished)]
        assert done[0].status == "ok", done
    assert [each.name for _, each, _ in people.asked] == ([name] if reads == LETTER else [])


@pytest.mark.parametrize("reads", [LETTER, "own.txt"])
async def test_a_direct_call_of_a_body_is_refused_where_nobody_can_be_asked_about_what_it_read(
    tmp_path: Path, reads: str
) -> None:
    params = json.dumps({"tool": "write", "args": {"path": "x.txt", "content": "ORDER"}})
    async with open_crib(tmp_path, askAfterOutside=["write"]) as crib:
        await turn(crib, ("pass_on", {"method": "tools.call", "params": params, "reads": reads}))
    assert (tmp_path / "work/x.txt").exists() is (reads != LETTER)


SAID: list[tuple[str, dict[str, Any]]] = [
    ("chat.send", {"message": "ORDER", "sessionKey": OTHER, "idempotencyKey": "a"}),
    ("chat.send", {"message": "ORDER", "sessionKey": OTHER, "idempotencyKey": "a", "outside": ""}),
    ("agent", {"message": "ORDER", "sessionKey": OTHER, "idempotencyKey": "a"}),
    ("chat.complete", {"content": [{"type": "text", "text": "ORDER"}], "sessionKey": OTHER}),
    ("sessions.send", {"message": "ORDER", "key": OTHER}),
]


@pytest.mark.parametrize(("method", "params"), SAID, ids=[f"{method}-{len(params)}" for method, params in SAID])
@pytest.mark.parametrize("reads", [LETTER, "own.txt"])
@pytest.mark.parametrize("is_far", [False, True], ids=["near", "far"])
async def test_what_a_body_says_in_another_session_is_heard_with_what_its_call_has_read(
    tmp_path: Path, method: str, params: Mapping[str, Any], reads: str, *, is_far: bool
) -> None:
    asked = ("pass_on", {"method": method, "params": json.dumps(params), "reads": reads})
    async with AsyncExitStack() as stack:
        crib = hears = None
        if is_far:
            (tmp_path / "far").mkdir()
            there = gateway_of({"models": {"default": "offline:rules"}}, state=tmp_path / "far")
            world = await stack.enter_async_context(there)
            link = await stack.enter_async_context(toolcrib.connect(world.url, TOKEN))
            await link.say("hello", session=OTHER)
            hears, crib = world.server.crib, await stack.enter_async_context(open_crib(tmp_path, services=[link]))
        else:
            hears = crib = await stack.enter_async_context(open_crib(tmp_path))
            await turn(crib, ("ls", {}), session=OTHER)
        (told,) = await turn(crib, asked)
        assert told.status == "ok", told
        await hears.ask("chat.follow", {"sessionKey": OTHER}, caller=OWNER)
        history = await hears.ask("sessions.history", {"key": OTHER}, caller=OWNER)
    (said,) = [each for each in history["messages"] if each["role"] == "user" and ORDER in each["text"]]
    assert any(f"file:{LETTER}" in each for each in said.get("sources", ())) is (reads == LETTER), said


@pytest.mark.parametrize("before", [(), (PAGE,)], ids=["nothing", "page"])
async def test_what_a_turn_says_in_a_session_of_a_gateway_is_heard_there_with_what_it_has_read(
    tmp_path: Path, before: Sequence[Made]
) -> None:
    (tmp_path / "far").mkdir()
    async with AsyncExitStack() as stack:
        there = gateway_of({"models": {"default": "offline:rules"}}, state=tmp_path / "far")
        world = await stack.enter_async_context(there)
        link = await stack.enter_async_context(toolcrib.connect(world.url, TOKEN))
        await link.say("hello", session=OTHER)
        crib = await stack.enter_async_context(open_crib(tmp_path, services=[link]))
        *_, told = await turn(crib, *before, ("sessions_send", {"sessionKey": OTHER, "message": ORDER}))
        assert told.status == "ok", told
        history = await world.server.crib.ask("sessions.history", {"key": OTHER}, caller=OWNER)
    (said,) = [each for each in history["messages"] if each["role"] == "user" and ORDER in each["text"]]
    assert any("web:https://evil.test/nuts" in each for each in said.get("sources", ())) is bool(before), said


async def made_job(crib: Crib, *before: Made, **job: Any) -> str:
    *_, made = await turn(crib, *before, ("cron", {"action": "add", "job": {**JOB, "name": "nuts", **job}}))
    return str(json.loads(made.plain_text)["id"])


@pytest.mark.parametrize("look", [("cron", {"action": "list"}), ("look_up", {"method": "cron.list"})], ids=str)
async def test_a_job_is_told_with_what_its_maker_had_read(tmp_path: Path, look: Made) -> None:
    async with open_crib(tmp_path) as crib:
        await made_job(crib)
        (mine,) = await turn(crib, look, session=OTHER)
        await made_job(crib, PAGE, name=ORDER)
        (theirs,) = await turn(crib, look, session="agent:main:third")
    assert sources(mine) == ""
    assert "web:https://evil.test/nuts" in sources(theirs)


async def test_a_job_that_is_changed_after_a_page_was_read_is_from_there_by_then(tmp_path: Path) -> None:
    async with open_crib(tmp_path) as crib:
        id = await made_job(crib)
        patch = {"payload": {"kind": "agentTurn", "message": ORDER}}
        await turn(crib, PAGE, ("cron", {"action": "update", "jobId": id, "patch": patch}), session=OTHER)
        (told,) = await turn(crib, ("cron", {"action": "list"}), session="agent:main:third")
        assert (await crib.ask("cron.run", {"id": id, "mode": "force", "wait": True}, caller=OWNER))["ran"]
        listed = (await crib.ask("sessions.list", {}, caller=OWNER))["sessions"]
        (run,) = (each["key"] for each in listed if ":cron:" in each["key"])
        (heard, *_) = (await crib.ask("sessions.history", {"key": run}, caller=OWNER))["messages"]
    assert "web:https://evil.test/nuts" in sources(told)
    assert any("web:https://evil.test/nuts" in each for each in heard["sources"])


READS = [
    ("cron.runs", {}),
    ("status", {}),
    ("tools.call", {"tool": "read", "args": {"path": LETTER}}),
    ("sessions.history", {"key": OTHER}),
    ("sessions.preview", {"keys": [OTHER]}),
    ("chat.history", {"sessionKey": OTHER}),
    ("chat.follow", {"sessionKey": OTHER}),
    ("agent", {"message": ORDER, "sessionKey": OTHER, "idempotencyKey": "a"}),
    ("chat.complete", {"content": [{"type": "text", "text": ORDER}], "sessionKey": OTHER}),
]


@pytest.mark.parametrize(("method", "params"), READS, ids=[each[0] for each in READS])
async def test_whatever_the_services_answer_with_words_from_outside_says_from_where(
    tmp_path: Path, method: str, params: Mapping[str, Any]
) -> None:
    async with open_crib(tmp_path) as crib:
        id = await made_job(crib, PAGE, payload={"kind": "agentTurn", "message": ORDER})
        await crib.ask("cron.run", {"id": id, "mode": "force", "wait": True}, caller=OWNER)
        await turn(crib, PAGE, session=OTHER, says=ORDER)
        first = {"message": ORDER, "sessionKey": OTHER, "idempotencyKey": "first"}
        if method == "chat.follow":
            await crib.ask("agent", first, caller=OWNER)
        asked = ("look_up", {"method": method, "params": json.dumps(params)})
        (result,) = await turn(crib, asked, session="agent:main:third")
    assert result.status == "ok", result
    assert "rder nuts" in result.plain_text
    assert sources(result)


@pytest.mark.parametrize("method", ["process.poll", "process.log", "process.list", "process.kill", "process.remove"])
async def test_whatever_tells_what_a_command_printed_says_from_where(tmp_path: Path, method: str) -> None:
    shows = ("exec", {"command": f"cat {LETTER}; sleep 600", "background": True})
    async with open_crib(tmp_path, exec={"security": "full"}) as crib:
        (started,) = await turn(crib, shows)
        id = started.details["sessionId"]
        await turn(crib, ("process", {"action": "poll", "sessionId": id, "timeoutMs": 60_000}))
        params = json.dumps({} if method == "process.list" else {"id": id})
        (result,) = await turn(crib, ("look_up", {"method": method, "params": params}))
        listed, ended = await turn(
            crib, ("process", {"action": "list"}), ("process", {"action": "remove", "sessionId": id})
        )
    assert method == "process.poll" or "squirrel" in result.plain_text
    assert "file:inbox/" in sources(result)
    assert (sources(listed), sources(ended)) == ("", "")  # which show none of it


@pytest.mark.parametrize("method", ["audit.tail", "approvals.list", "logs.tail"])
async def test_what_is_for_a_person_to_read_is_for_no_body(tmp_path: Path, method: str) -> None:
    async with open_crib(tmp_path) as crib:
        (result,) = await turn(crib, ("look_up", {"method": method}))
        assert result.details["code"] == "denied"
        if method != "logs.tail":
            assert isinstance(await crib.rpc_for(OWNER, {"read"})(method, {}), list)
