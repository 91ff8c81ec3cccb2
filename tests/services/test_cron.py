"""Jobs are made, told of, run once a slot, and never have more than whoever made them."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.backends.models.servers import Say, answering, serving
from tests.services.cron_world import START_MS, ManualClock, crib_at, settle
from toolcrib import OWNER, Caller, Sender, ToolError
from toolcrib.app import Crib

pytestmark = pytest.mark.anyio

BOB = Caller(channel="telegram", sender=Sender(id="7"), session="agent:main:telegram:dm:7", owner=False)
EVENT = {"payload": {"kind": "systemEvent", "text": "water the plants"}}
TASK = {"payload": {"kind": "agentTurn", "message": "list the files"}}
HOURLY = {"schedule": {"everyMs": 3_600_000}}


async def add(crib: Crib, *parts: dict[str, Any], caller: Caller = OWNER) -> dict[str, Any]:
    job: dict[str, Any] = {}
    for part in parts:
        job |= part
    rpc = partial(crib.ask, caller=OWNER) if caller is OWNER else crib.belt(caller).ports.rpc
    made: dict[str, Any] = await rpc("cron.add", {"job": job})
    return made


async def runs(crib: Crib, id: str = "", caller: Caller = OWNER) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = (await crib.ask("cron.runs", {"id": id}, caller=caller))["entries"]
    return told


async def wait_for_runs(crib: Crib) -> None:
    async with asyncio.timeout(5):
        await settle()
        await crib.cron.clock.settle()


async def test_a_job_has_a_name_and_is_on_unless_something_else_is_said() -> None:
    async with crib_at(ManualClock()) as crib:
        made = await add(crib, HOURLY, EVENT)
        assert made == {
            "id": made["id"],
            "name": "water the plants",
            "enabled": True,
            "createdAtMs": START_MS,
            "updatedAtMs": START_MS,
            "schedule": {"kind": "every", "everyMs": 3_600_000},
            "sessionTarget": "main",
            "wakeMode": "next-heartbeat",
            "payload": {"kind": "systemEvent", "text": "water the plants"},
            "state": {"nextRunAtMs": START_MS + 3_600_000},
        }
        assert await crib.ask("cron.list", caller=OWNER) == {"jobs": [made]}


@pytest.mark.parametrize("keeps", [False, True])
async def test_a_job_of_its_own_session_answers_there_and_its_main_session_is_told(tmp_path: Path, keeps: bool) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note.txt").write_text("one\n")
    clock, config = ManualClock(), {"workspace": {"root": str(tmp_path / "work")}}
    async with crib_at(clock, config, tmp_path / "state" if keeps else None) as crib:
        job = await add(crib, HOURLY, TASK)
        told = await crib.ask("cron.run", {"id": job["id"], "mode": "force", "wait": True}, caller=OWNER)
        assert (told["ran"], told["status"]) == (True, "ok")
        assert "note.txt" in told["summary"]
        (run,) = await runs(crib, job["id"])
        key = f"agent:main:cron:{job['id']}:run:{run['runId']}"
        shown = await crib.ask("sessions.show", {"key": key}, caller=OWNER)
        assert "list the files" in shown["messages"][0]["text"]
        main = await crib.ask("sessions.show", {"key": "agent:main:main"}, caller=OWNER)
        assert main["messages"][-1]["text"].startswith("Cron: the job 'list the files' says:")


@pytest.mark.parametrize(
    ("isolation", "chars"),
    [
        ({}, 2_000),
        ({"postToMainMode": "summary"}, 2_000),
        ({"postToMainMode": "full"}, 8_000),
        ({"postToMainMode": "full", "postToMainMaxChars": 9_000}, 9_000),
        ({"postToMainMaxChars": 10}, 10),
    ],
)
async def test_the_main_session_is_told_as_much_of_an_outcome_as_the_job_says(isolation: Any, chars: int) -> None:
    async with serving(answering("openai", Say(text="z" * 10_000))) as server:
        config = {"models": {"default": "local:small", "local": {"baseUrl": server.base_url}}}
        async with crib_at(ManualClock(), config) as crib:
            job = await add(crib, HOURLY, TASK, {"isolation": isolation})
            await crib.ask("cron.run", {"id": job["id"], "mode": "force", "wait": True}, caller=OWNER)
            main = await crib.ask("sessions.show", {"key": "agent:main:main"}, caller=OWNER)
            assert main["messages"][-1]["text"].count("z") == chars
            assert f"{'z' * min(chars, 10)}…" in main["messages"][-1]["text"]


async def test_the_clock_runs_a_job_at_each_of_its_slots_and_not_twice() -> None:
    clock = ManualClock()
    async with crib_at(clock) as crib:
        job = await add(crib, HOURLY, EVENT)
        crib.cron.start()
        await clock.advance(3 * 3_600 + 5)
        await wait_for_runs(crib)
        assert [each["slotMs"] for each in await runs(crib, job["id"])] == [
            START_MS + hours * 3_600_000 for hours in (3, 2, 1)
        ]
        main = await crib.ask("sessions.show", {"key": "agent:main:main"}, caller=OWNER)
        assert [each["text"] for each in main["messages"]] == [
            "[System event of the job 'water the plants'] water the plants"
        ] * 3


async def test_a_guest_sees_and_touches_nothing_but_their_own_jobs() -> None:
    async with crib_at(ManualClock()) as crib:
        theirs = await add(crib, HOURLY, EVENT, caller=BOB)
        mine = await add(crib, HOURLY, EVENT)
        assert [job["id"] for job in (await crib.ask("cron.list", caller=BOB))["jobs"]] == [theirs["id"]]
        assert await crib.belt(BOB).ports.rpc("cron.remove", {"id": mine["id"]}) == {"ok": True, "removed": False}
        with pytest.raises(ToolError, match="unknown cron job id"):
            await crib.belt(BOB).ports.rpc("cron.run", {"id": mine["id"], "mode": "force"})
        assert len((await crib.ask("cron.list", caller=OWNER))["jobs"]) == 2
