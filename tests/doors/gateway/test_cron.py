"""A gateway runs the jobs that are due, and tells whoever may hear it."""

import time
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from .world import client_of, device, gateway_of

pytestmark = pytest.mark.anyio


async def test_a_job_that_is_due_runs_and_everybody_who_may_hears_of_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "note.txt").write_text("one\n")
    config = {"workspace": {"root": str(tmp_path / "work")}}
    async with gateway_of(config, state=tmp_path / "state") as world, client_of(world) as client:
        at = {"schedule": {"atMs": int(time.time() * 1000) + 300}, "deleteAfterRun": True}
        job = await client.get("cron.add", {**at, "payload": {"kind": "agentTurn", "message": "list the files"}})
        begun = await client.wait_for("cron", action="started", jobId=job["id"])
        ended = await client.wait_for("cron", action="finished", jobId=job["id"])
        assert begun["runAtMs"] >= job["state"]["nextRunAtMs"]
        assert (ended["status"], "note.txt" in ended["summary"]) == ("ok", True)
        assert (await client.get("cron.list", {"includeDisabled": True}))["jobs"] == []


async def test_jobs_are_kept_over_a_restart_of_the_gateway(tmp_path: Path) -> None:
    hourly = {"schedule": {"everyMs": 3_600_000}, "payload": {"kind": "systemEvent", "text": "t"}}
    async with gateway_of(state=tmp_path) as world, client_of(world) as client:
        job = await client.get("cron.add", hourly)
    async with gateway_of(state=tmp_path) as world, client_of(world) as client:
        assert (await client.get("cron.list"))["jobs"] == [job]


async def test_who_may_only_read_or_write_makes_no_jobs() -> None:
    reader = device("reader", "tok-of-the-reader-000", "operator.read", "operator.write")
    async with gateway_of(devices=[reader]) as world, client_of(world, token="tok-of-the-reader-000") as client:
        code, why = await client.refusal("cron.add", {"job": {"schedule": {"everyMs": 1}}})
        assert (code, why) == ("INVALID_REQUEST", "missing scope: operator.admin")
        assert await client.get("cron.list") == {"jobs": []}


async def test_who_may_read_asks_for_the_latest_heartbeat_and_only_an_administrator_turns_them_off() -> None:
    reader = device("reader", "tok-of-the-reader-000", "operator.read", "operator.write")
    config = {"agents": {"main": {"heartbeat": {"every": "1h"}}}}
    async with gateway_of(config, devices=[reader]) as world, client_of(world) as owner:
        assert "heartbeat" in owner.hello["features"]["events"]
        assert await owner.get("set-heartbeats", {"enabled": False}) == {"ok": True, "enabled": False}
        assert await owner.get("last-heartbeat") is None
        async with client_of(world, token="tok-of-the-reader-000") as client:
            assert await client.get("last-heartbeat") is None
            why = await client.refusal("set-heartbeats", {"enabled": True})
            assert why == ("INVALID_REQUEST", "missing scope: operator.admin")
