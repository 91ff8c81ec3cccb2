"""A job never has more than whoever made it had, nor than they have today."""

from functools import partial
from typing import Any

import pytest

from tests.services.cron_world import ManualClock, crib_at
from toolcrib import OWNER, Caller, Sender, ToolError
from toolcrib.app import Crib
from toolcrib.define.job import Job
from toolcrib.services.cron.work import bounds_of, caller_of

pytestmark = pytest.mark.anyio

BOB = Caller(channel="telegram", sender=Sender(id="7"), session="agent:main:telegram:dm:7", owner=False)
MAIN = Caller(session="agent:main:main", owner=True)
TASK = {"schedule": {"everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "list the files"}}


async def make(crib: Crib, caller: Caller = OWNER, **more: Any) -> Job:
    rpc = partial(crib.ask, caller=OWNER) if caller is OWNER else crib.belt(caller).ports.rpc
    made = await rpc("cron.add", {**TASK, **more})
    return await find(crib, made["id"])


async def find(crib: Crib, id: str) -> Job:
    return next(job for job in await crib.cron._store.list_all() if job.id == id)


def tools_of(crib: Crib, job: Job) -> set[str]:
    return set(crib._belts.belt(caller_of(job, "r"), bounds=bounds_of(job)).tools)


async def test_a_job_has_what_its_author_has() -> None:
    async with crib_at(ManualClock()) as crib:
        job = await make(crib)
        assert tools_of(crib, job) == set(crib.belt(OWNER).tools)


@pytest.mark.parametrize(
    ("tools", "left"),
    [
        ({"allow": ["read", "ls"]}, {"read", "ls"}),
        ({"allow": ["group:fs"], "deny": ["write", "edit"]}, {"read", "grep", "find", "ls"}),
        ({"allow": []}, set()),
        ({"allow": ["raed"]}, set()),
        ({"allow": ["*"], "deny": ["*"]}, set()),
    ],
)
async def test_a_job_leaves_itself_less(tools: dict[str, Any], left: set[str]) -> None:
    async with crib_at(ManualClock()) as crib:
        assert tools_of(crib, await make(crib, tools=tools)) == left


async def test_a_list_of_plugin_tools_alone_is_a_limit_too() -> None:
    async with crib_at(ManualClock(), {"tools": {"pluginOnlyAllow": "additive"}}) as crib:
        assert tools_of(crib, await make(crib, tools={"allow": ["group:plugins"]})) == set()


async def test_what_is_allowed_later_is_not_given_to_a_job_of_before() -> None:
    clock, guests = ManualClock(), {"telegram": {"direct": {"tools": {"allow": ["cron", "ls"]}}}}
    async with crib_at(clock, {"channels": guests}) as crib:
        job = await make(crib, BOB)
        assert job.had == ("cron", "ls")
    guests["telegram"]["direct"]["tools"]["allow"].append("exec")
    async with crib_at(clock, {"channels": guests}) as crib:
        assert "exec" in crib.belt(BOB).tools
        assert tools_of(crib, job) == {"cron", "ls"}


async def test_what_is_taken_away_is_taken_from_a_job_of_before() -> None:
    clock = ManualClock()
    async with crib_at(clock) as crib:
        job = await make(crib)
        assert "exec" in tools_of(crib, job)
    async with crib_at(clock, {"tools": {"deny": ["exec"]}}) as crib:
        assert "exec" not in tools_of(crib, job)


async def test_explain_says_why_a_job_lacks_a_tool() -> None:
    async with crib_at(ManualClock(), {"tools": {"deny": ["write"]}}) as crib:
        job = await make(crib, tools={"deny": ["exec"]})
        told = await crib.ask("cron.explain", {"id": job.id}, caller=OWNER)
        why = {row["tool"]: (row["decision"], row["layer"], row["reason"]) for row in told["tools"]}
        assert why["exec"] == ("deny", "job", f"deny has 'exec' (job {job.id})")
        assert why["write"][:2] == ("deny", "global")
        assert why["read"][0] == "allow"
        one = await crib.ask("cron.explain", {"id": job.id, "tool": "exec"}, caller=OWNER)
        assert [step["decision"] for step in one["steps"] if step["layer"] == "job"] == ["deny"]


async def test_a_call_that_a_job_may_not_make_is_refused_and_recorded() -> None:
    async with crib_at(ManualClock()) as crib:
        job = await make(crib, tools={"allow": ["ls"]})
        told = await crib.ask("cron.run", {"id": job.id, "mode": "force", "wait": True}, caller=OWNER)
        assert told["status"] == "ok"
        other = await make(crib, tools={"deny": ["ls"]})
        belt = crib._belts.belt(caller_of(other, "r"), bounds=bounds_of(other))
        result = await belt.call("ls", {})
        assert (result.status, "at the job layer" in result.plain_text) == ("error", True)


@pytest.mark.parametrize("method", ["cron.add", "cron.update", "cron.run", "wake", "sessions.send", "subagents.spawn"])
async def test_a_job_starts_nothing_that_would_not_be_bound_so(method: str) -> None:
    async with crib_at(ManualClock()) as crib:
        job = await make(crib)
        rpc = crib._belts.belt(caller_of(job, "r"), bounds=bounds_of(job)).ports.rpc
        with pytest.raises(ToolError, match="whoever is bound"):
            await rpc(method, {})


async def test_a_model_makes_no_job_of_another_agent_and_a_person_does() -> None:
    async with crib_at(ManualClock(), {"agents": {"dev": {"tools": {"allow": ["exec"]}}}}) as crib:
        with pytest.raises(ToolError, match="another agent than main is for a person"):
            await crib.belt(MAIN).ports.rpc("cron.add", {**TASK, "agentId": "dev"})
        job = await make(crib, agentId="dev")
        assert (job.had, caller_of(job, "r").session) == (("exec",), f"agent:dev:cron:{job.id}:run:r")
        with pytest.raises(ToolError, match="there is no agent 'nobody'"):
            await crib.ask("cron.add", {**TASK, "agentId": "nobody"}, caller=OWNER)


async def test_a_model_that_changes_a_job_leaves_it_no_more_than_it_has_itself() -> None:
    config = {"agents": {"reader": {"tools": {"allow": ["read", "cron"]}}}}
    reader = Caller(session="agent:reader:main", owner=True)
    async with crib_at(ManualClock(), config) as crib:
        job = await make(crib)
        patch = {"id": job.id, "patch": {"payload": {"message": "run everything"}}}
        await crib.belt(reader).ports.rpc("cron.update", patch)
        assert (await find(crib, job.id)).had == ("cron", "read")


async def test_only_the_owner_chooses_a_model() -> None:
    async with crib_at(ManualClock()) as crib:
        task = {"payload": {"kind": "agentTurn", "message": "m", "model": "openai:gpt-5"}}
        with pytest.raises(ToolError, match="only the owner chooses the model"):
            await crib.belt(BOB).ports.rpc("cron.add", {**TASK, **task})


async def test_a_guest_has_so_many_jobs_and_no_more() -> None:
    async with crib_at(ManualClock()) as crib:
        for _ in range(50):
            await crib.belt(BOB).ports.rpc("cron.add", TASK)
        with pytest.raises(ToolError, match="too many jobs"):
            await crib.belt(BOB).ports.rpc("cron.add", TASK)
        await crib.ask("cron.add", TASK, caller=OWNER)


async def test_a_job_of_a_device_that_is_paired_no_more_fails() -> None:
    phone = Caller(channel="device", sender=Sender(id="ph"), owner=False, session="agent:main:device:dm:ph")
    async with crib_at(ManualClock()) as crib:
        job = await make(crib, phone)
        told = await crib.ask("cron.run", {"id": job.id, "mode": "force", "wait": True}, caller=OWNER)
        assert (told["status"], told["error"]) == (
            "error",
            "whoever made it is let in no more: the device is paired no more",
        )
